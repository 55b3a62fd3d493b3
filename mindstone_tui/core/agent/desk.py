"""What a turn works with: every collaborator, handed in by the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.gate import Gate
from mindstone_tui.core.agent.standing import Standing
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.context.working_set import Prepared, WorkingSet
from mindstone_tui.core.entries import Entry, Line, Usage
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.memory import RecallInjected
from mindstone_tui.core.entries.pressure import AlertRaised
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.events import Answer
from mindstone_tui.core.providers.protocol import Finished, ModelInfo, Options, Provider, Window
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.tools.tool import Tool, ToolContext
from mindstone_tui.core.transcript import Transcript



class Recaller(Protocol):
    """Finds what was said before, for one turn."""

    on: bool

    async def gather(self, text: str) -> RecallInjected | None:
        """The passages worth bringing back for a message; None when nothing is good enough."""
        ...

    def switch(self, *, on: bool) -> None:
        """Recall before each turn, or only when asked."""
        ...

    def drop(self, session: str, entry: str) -> None:
        """Keep an entry out of automatic recall."""
        ...


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
        provider: Provider,
        window: Window | None,
        tools: Mapping[str, Tool],
        tool_context: Callable[[str], ToolContext],
        gate: Gate,
        recaller: Recaller,
        redactor: Redactor,
        standing: Callable[[], Standing],
        recognise: Callable[[str], str | None],
        position: int = 0,
    ) -> None:
        self.transcript = transcript
        self.working_set = working_set
        self.settings = settings
        self.model = model
        self.provider = provider
        self.window = window
        """A window that somebody named; None leaves it to what is known about the model."""
        self.tools = dict(tools)
        self.tool_context = tool_context
        self.gate = gate
        self.recaller = recaller
        self.redactor = redactor
        self.recognise = recognise
        self.position = position
        self.questions = Questions()
        self.steering: list[UserMessage] = []
        self._standing = standing
        self._warned: set[str] = set()

    @property
    def info(self) -> ModelInfo:
        """What is known about the model that answers."""
        return self.provider.info(self.model)

    @property
    def known_window(self) -> Window | None:
        """The window that was named, else the model's own as far as it is known."""
        return self.window or self.info.window

    def record(self, entry: Entry, turn: int) -> Line:
        """Write an entry and let the working set know; on disk when this returns."""
        line = self.transcript.append(entry, turn=turn)
        self.working_set.take(line)
        return line

    def report(self) -> ContextReport:
        """The one accounting."""
        window = self.known_window
        return self.working_set.report(
            model=self.model,
            window=window.tokens if window else 0,
            label=window.label if window else "assumed",
        )

    def load_standing_context(self, turn: int) -> list[Line]:
        """Read the standing files and the tools; what changed is recorded, warnings said once."""
        standing = self._standing()
        schemas = [tool.schema for tool in self.tools.values()] if self.info.tools else []
        lines = [
            *self.working_set.set_instructions(standing.sections, turn=turn),
            *self.working_set.set_tools(schemas, turn=turn),
        ]
        for warning in standing.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                alert = AlertRaised(level="warning", metric="standing_context", message=warning)
                lines.append(self.record(alert, turn))
        return lines

    async def prepare(
        self, turn: int, call: int, tail: tuple[int, ...], *, shrink: bool
    ) -> Prepared:
        """Measure, make room, and record the plan of the next request."""
        window = self.known_window
        return await self.working_set.prepare(
            model=self.model,
            turn=turn,
            call=call,
            tail=tail,
            window=window.tokens if window else 0,
            label=window.label if window else "assumed",
            shrink=shrink,
        )

    def options(self, plan: PromptPlanned) -> Options:
        """How the planned request is made."""
        models = self.settings.models
        return Options(
            max_tokens=min(models.max_output or plan.reserve, plan.reserve) or plan.reserve,
            timeout=models.timeout,
            retries=models.retries,
            temperature=models.temperature,
            position=self.position,
        )

    def usage_of(
        self, finished: Finished, plan: PromptPlanned, gathering: Gathering
    ) -> tuple[Usage, str]:
        """What the provider counted, else our own count, and whose it is."""
        usage = finished.usage
        if usage.prompt is not None:
            return usage, "provider"
        said = gathering.text + "".join(call.arguments for call in gathering.calls)
        counted = Usage(
            prompt=plan.measure.tokens if plan.measure else None,
            completion=self.working_set.count(said),
            cost=usage.cost,
        )
        return counted, "us"

    def note_usage(self, line: Line) -> Sequence[Line]:
        """Let the working set learn from what the provider counted."""
        return self.working_set.note_usage(line)

    def take_steering(self) -> list[UserMessage]:
        """What the person added to the running turn, once."""
        waiting, self.steering = self.steering, []
        return waiting


