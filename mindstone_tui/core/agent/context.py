"""What a turn works with: every collaborator, handed in by the session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.permissions import Gate
from mindstone_tui.core.agent.system_prompt import Standing
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import budget
from mindstone_tui.core.context.build_report import Prices
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.measure import ComponentName
from mindstone_tui.core.context.plan import Prepared
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.entries import Draft, Entry, Label, Line, Usage
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.derived import MemoryDigested, RecallInjected
from mindstone_tui.core.entries.window import AlertRaised, PromptPlanned
from mindstone_tui.core.errors import NotSaved
from mindstone_tui.core.events import Answer, AnyEvent
from mindstone_tui.core.providers.base import Finished, ModelInfo, Options, Provider, Window
from mindstone_tui.core.recall.inject import Vacancy
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.tokens import UNCALIBRATED, counter_for
from mindstone_tui.core.tools.base import Tool, ToolContext
from mindstone_tui.core.transcript import Transcript


class Surroundings(Protocol):
    """Standing files, memories and tool servers; the session introduces its own."""

    async def make_ready(self) -> Sequence[AnyEvent]:
        """Have there what the first model call of a turn needs; what a person should know."""
        ...

    def standing(self) -> Standing:
        """The standing part of the prompt, read anew."""
        ...

    async def digest(self, text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """The memories that bear on a message, in so many tokens; None when none does."""
        ...


class Nothing:
    """No files, no memories, nothing to wait for: where a desk stands until it is told where."""

    async def make_ready(self) -> Sequence[AnyEvent]:
        """Nothing is needed."""
        return ()

    def standing(self) -> Standing:
        """Nothing stands."""
        return Standing(())

    async def digest(self, text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """Nothing is remembered."""
        return None


class Recaller(Protocol):
    """Finds what was said before, for one turn."""

    on: bool

    async def gather(self, text: str, vacancy: Vacancy) -> RecallInjected | None:
        """The passages worth bringing back for a message; None when nothing is good enough."""
        ...

    def switch(self, *, on: bool) -> None:
        """Recall before each turn, or only when asked."""
        ...

    def drop(self, session: str, entry: str) -> None:
        """Keep an entry out of automatic recall."""
        ...


def vacancy_beside(fold: Fold, tokens: int, count: Callable[[str], int]) -> Vacancy:
    """The place that a window leaves to recalled passages."""
    return Vacancy(shown=fold.lines.keys(), recent=recent_texts(fold), tokens=tokens, count=count)


def recent_texts(fold: Fold) -> list[str]:
    """What was said last before the newest message, for questions that lean on it."""
    said = [
        line.entry.text
        for line in fold.lines.values()
        if isinstance(line.entry, UserMessage | AssistantMessage) and line.entry.text
    ]
    return said[-3:-1]


_SHRINK: Final = 3 / 4
_DELIMITERS: Final = 48
"""Tokens around recalled passages that say whose words they are."""


class Questions:
    """Questions to the person that wait for an answer, by call."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, call: str) -> asyncio.Future[Answer]:
        """A place for the answer; open it before the question is announced."""
        return self._open.setdefault(call, asyncio.get_running_loop().create_future())

    def answer(self, call: str, answer: Answer) -> bool:
        """Hand an answer over; False when nobody waits for it."""
        waiting = self._open.pop(call, None)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
        return True

    def abandon(self) -> None:
        """Nobody will answer any more."""
        for waiting in self._open.values():
            waiting.cancel()
        self._open.clear()


class Desk:
    """The collaborators of one session, as a turn and a command see them."""

    def __init__(
        self,
        *,
        transcript: Transcript,
        working_set: WorkingSet,
        settings: Settings,
        model: str,
        overridden: bool,
        provider: Provider,
        window: Window | None,
        tools: dict[str, Tool],
        tool_context: Callable[[str], ToolContext],
        gate: Gate,
        recaller: Recaller,
        redactor: Redactor,
        report_bug: Callable[[BaseException], object],
        position: int = 0,
    ) -> None:
        self.transcript = transcript
        self.working_set = working_set
        self.settings = settings
        self.model = model
        self.overridden = overridden
        """The model holds for this surface's turns only and is named in their plans."""
        self.provider = provider
        self.window = window
        """A window that somebody named; None leaves it to what is known about the model."""
        self.tools = tools
        """What is on offer to the model now; whoever switches tools changes it."""
        self.tool_context = tool_context
        self.gate = gate
        self.recaller = recaller
        self.redactor = redactor
        self.report_bug = report_bug
        self.position = position
        self.surroundings: Surroundings = Nothing()
        self._digested = 0
        """Tokens of this turn's memory digest."""
        self.questions = Questions()
        self.on_saved: Callable[[int], None] = lambda entries: None
        """Told when so many entries are on disk after all."""
        self.tell: Callable[[AnyEvent], None] = lambda event: None
        """Announces what a tool wrote down while it ran."""
        self.steering: list[UserMessage] = []
        self._warned: set[str] = set()
        self._served: dict[str, Window] = {}
        """Windows that servers named for models of which nothing else is known."""
        self._learned: dict[str, int] = {}
        """Windows of models that called a prompt too long which we had thought would fit."""

    @property
    def info(self) -> ModelInfo:
        """What is known about the model that answers."""
        return self.provider.info(self.model)

    async def learn_window(self) -> None:
        """Ask the model's own server for its window, when nobody else knows it."""
        if self._known_window is None:
            served = await self.provider.served_window(self.model)
            if served is not None:
                self._served[self.model] = served

    def record(self, entry: Entry, turn: int | None) -> Line:
        """Write an entry and let the working set know; on disk when this returns.

        Without a turn it belongs to the one of the line before it, whoever wrote that.
        """
        return self.record_all([entry], turn)[0]

    def record_all(self, entries: Sequence[Entry], turn: int | None) -> list[Line]:
        """Write several entries at once; if the disk refuses, all of them are kept for later."""
        with contextlib.suppress(NotSaved):
            self.save()
        channel = self.transcript.channel
        lines = self.transcript.append_all(
            [Draft(entry=entry, turn=turn, channel=channel) for entry in entries]
        )
        for line in lines:
            self.working_set.take(line)
        return lines

    def save(self) -> list[Line]:
        """Write what the disk refused before; raises `NotSaved` if it still does."""
        lines = self.transcript.save()
        for line in lines:
            self.working_set.take(line)
        if lines:
            self.on_saved(len(lines))
        return lines

    def whole(self, line: Line) -> Line:
        """The line as the working set has it, with its text whole however long it is."""
        return self.working_set.fold.lines.get(line.seq, line)

    def report(self, *, call: int = 0, tail: Sequence[int] = ()) -> ContextReport:
        """The one accounting: of a turn's request with what it brings along, else of the next."""
        window, label = self._window
        info = self.info
        return self.working_set.report(
            model=self.model,
            call=call,
            tail=tail,
            window=window,
            label=label,
            images=info.images,
            prices=Prices(prompt=info.prompt_price, cached=info.cached_price),
        )

    def check_before_add(self, component: ComponentName, tokens: int) -> budget.Admission:
        """Whether something may be added to the next prompt."""
        window, label = self._window
        return self.working_set.check_before_add(
            component, tokens, model=self.model, window=window, label=label
        )

    def count(self, text: str) -> int:
        """How large a text is for the model that answers."""
        return counter_for(self.model).text(text)

    @property
    def memory_share(self) -> int:
        """Tokens for what recall and memory bring into one prompt."""
        room = budget.room_for(*self._window, self.settings.budget)
        return budget.limit_of("memory_injection", room, self.settings.budget)

    @property
    def recall_room(self) -> int:
        """Tokens that recalled passages may take in one prompt, as we count them."""
        counted = int(self.memory_share / UNCALIBRATED) - _DELIMITERS
        return max(counted - self._digested, 0)

    async def digest(self, text: str) -> MemoryDigested | None:
        """The memories that bear on a message, within their part of the share."""
        self._digested = 0
        room = min(self.settings.memory.digest_tokens, self.memory_share // 3)
        recent = recent_texts(self.working_set.fold)
        found = await self.surroundings.digest(text, recent, room)
        self._digested = found.tokens if found is not None else 0
        return found

    async def recall(self, text: str) -> RecallInjected | None:
        """What was said before and bears on a message, in the room that the digest left."""
        vacancy = vacancy_beside(self.working_set.fold, self.recall_room, self.count)
        return await self.recaller.gather(text, vacancy)

    def said_before(self, words: str, seq: int) -> bool:
        """Whether the person said these words already in an earlier message of the window."""
        return any(
            isinstance(line.entry, UserMessage) and words in line.entry.text and line.seq < seq
            for line in self.working_set.fold.lines.values()
        )

    def answered_calls(self, turn: int) -> frozenset[str]:
        """The calls of a turn that have a result, on disk or waiting to be written."""
        written = (line.entry for line in self.working_set.fold.lines.values() if line.turn == turn)
        waiting = (draft.entry for draft in self.transcript.unsaved if draft.turn == turn)
        return frozenset(
            entry.call for entry in (*written, *waiting) if isinstance(entry, ToolReturned)
        )

    def load_standing_context(self, turn: int) -> list[Line]:
        """Read the standing files and the tools; what changed is recorded, warnings said once."""
        standing = self.surroundings.standing()
        schemas = [tool.schema for tool in self.tools.values()] if self.info.tools else []
        changes = [
            self._choose_model(),
            self.working_set.set_instructions(standing.sections),
            self.working_set.set_tools(schemas),
        ]
        for warning in standing.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                alert = AlertRaised(level="warning", metric="standing_context", message=warning)
                changes.append(self.record(alert, turn))
        return [line for line in changes if line is not None]

    def _choose_model(self) -> Line | None:
        """Write down who answers, unless this surface was told another model for its turns."""
        if self.overridden:
            return None
        window, label = self._window
        return self.working_set.set_model(self.model, window=window, label=label)

    async def make_room(self) -> list[Line]:
        """Trim and prune before recall looks, so that it knows what is out of the window."""
        window, label = self._window
        expected = self.memory_share if self.recaller.on else 0
        return await self.working_set.make_room(
            model=self.model, window=window, label=label, expected=expected
        )

    async def prepare(self, call: int, tail: tuple[int, ...]) -> Prepared:
        """Measure, make room, and record the plan of the next request."""
        window, label = self._window
        return await self.working_set.prepare(
            model=self.model,
            call=call,
            tail=tail,
            window=window,
            label=label,
            images=self.info.images,
            max_output=self.settings.models.max_output or self.info.max_output or 0,
        )

    def shrink(self, prepared: Prepared) -> None:
        """Plan for less from here on: the provider called this request too long.

        What we believe about its window or its tokens is wrong, so the prompt itself is the
        measure: the next one may have three quarters of its size.
        """
        prompt = int(prepared.tokens * _SHRINK)
        self._learned[self.model] = prompt + min(prepared.max_tokens, prompt // 3)

    def forget_window(self) -> None:
        """Go back to what is known about the model: planning for less did not help."""
        self._learned.pop(self.model, None)

    @property
    def _known_window(self) -> Window | None:
        return self.window or self.info.window or self._served.get(self.model)

    @property
    def _window(self) -> tuple[int, Label]:
        known = self._known_window
        tokens, label = (known.tokens, known.label) if known else (0, "assumed")
        learned = self._learned.get(self.model)
        return (tokens, label) if learned is None else (learned, "assumed")

    def options(self, prepared: Prepared) -> Options:
        """How the planned request is made."""
        models = self.settings.models
        return Options(
            max_tokens=prepared.max_tokens,
            timeout=models.timeout,
            retries=models.retries,
            temperature=models.temperature,
            position=self.position,
            window=self._window[0],
            cache_marks=_cache_marks(prepared),
        )

    def usage_of(
        self, finished: Finished, prepared: Prepared, gathering: Gathering
    ) -> tuple[Usage, str]:
        """What the provider counted, else our own count, and whose it is."""
        usage = finished.usage
        if usage.prompt is not None:
            return usage, "provider"
        said = gathering.text + "".join(call.arguments for call in gathering.calls)
        counted = Usage(prompt=prepared.tokens, completion=self.count(said), cost=usage.cost)
        return counted, "us"

    def note_usage(self, line: Line) -> list[Line]:
        """Learn from what the provider counted; say so if it cut the prompt."""
        note = self.working_set.note_usage(line)
        if not note.cut:
            return []
        alert = AlertRaised(
            level="critical",
            metric="prompt_cut",
            message=f"The server counted {note.reported:,} of the {note.sent:,} tokens that were "
            "sent: it cut the front of the prompt.",
            remedy="Give the server a larger window, or set --context-window to what it has.",
        )
        return [self.record(alert, line.turn)]

    @property
    def side_output(self) -> int:
        """Tokens that a side call's answer may have."""
        return min(self.report().reserve, self.info.max_output or 1 << 30)

    def take_steering(self) -> list[UserMessage]:
        """What the person added to the running turn, once."""
        waiting, self.steering = self.steering, []
        return waiting


def _cache_marks(prepared: Prepared) -> tuple[int, ...]:
    """Where a provider may be told to cache: behind the head, and behind all but the tail."""
    plan = prepared.plan.entry
    tail = 1 if isinstance(plan, PromptPlanned) and plan.tail else 0
    last = len(prepared.request.messages) - 1 - tail
    return (0, last) if last > 0 else (0,)
