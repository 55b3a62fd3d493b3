"""One session as its features and surfaces see it, and what it does around a turn."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import errors, events
from mindstone_tui.core.agent import hooks, memories, system_prompt
from mindstone_tui.core.agent.context import TurnContext, TurnServices, breathe
from mindstone_tui.core.context import plan, summaries
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.entries import Line, Sampling
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import MemoryDigested, RecallInjected
from mindstone_tui.core.entries.line import hash_matches
from mindstone_tui.core.entries.window import BY_HAND, ModelChanged, Rewound
from mindstone_tui.core.library import agent_files, open_questions, vectors
from mindstone_tui.core.providers.base import ModelInfo, Provider, Window
from mindstone_tui.core.session.features import EndedTurn, Feature, Features, load_features
from mindstone_tui.core.session.fork import take_in_put_back
from mindstone_tui.core.session.models import SessionModels
from mindstone_tui.core.session.options import Opening
from mindstone_tui.core.session.recall import SessionRecall
from mindstone_tui.core.session.recover import close_open_turn, take_in_rescued
from mindstone_tui.core.session.tools import Project, ToolRegistry, in_order
from mindstone_tui.core.text import plural
from mindstone_tui.core.transcript import Damaged, History, history_store
from mindstone_tui.core.transcript.reader import copies_in
from mindstone_tui.core.values import shipped

FIRST_PICTURE: Final = 1.0
"""Seconds until whoever opened a session sees it: loading a model waits for that."""
_TOLD_EVERY: Final = 2.0
"""Seconds between two words on how far the vectors are."""
CHOICES: Final = shipped(__file__, "choices.json", dict[str, dict[str, str]])
"""What approvals, modes and policies there are, each in a few words: how it works, when to choose
it, what it costs and what may be lost."""


class SessionServices(msgspec.Struct, dict=True, eq=False):
    """One session's parts, and the chores around a turn; features and surfaces use it."""

    opening: Opening
    context: TurnContext
    history: History
    recall: SessionRecall
    models: SessionModels
    tools: ToolRegistry
    project: Project
    store: history_store.HistoryStore | None
    """The server that keeps this history; None where the files do."""
    unheeded: str = ""
    """What the project's settings asked for and did not get, in a sentence."""
    greeting: str = ""
    """What a person must know about this session before the first message."""
    on_vectors: Callable[[int], None] = lambda by_words: None
    """Hears how many passages are found by words only so far, while vectors are made."""
    answer: Callable[[events.Answer | None, str], list[open_questions.OpenQuestion]] = (
        lambda answer, mark: []
    )
    """Answers what another program's turn waits with; the session's own, once there is one."""
    _tidying: asyncio.Task[None] | None = None
    _told: set[str] = set()
    _rescue_folder: Path | None = None

    def __post_init__(self) -> None:
        self.home = self.opening.places
        self.key = self.opening.key
        self.places = self.home.session(self.key)
        self.cwd = self.opening.cwd
        self.past = memories.RecentHistory(self.context.transcript)
        kinds, left_out = load_features()
        told = [events.Noticed(message=each.sentence, level="warning") for each in left_out]
        self.features = Features(self, (*kinds, *self.opening.features), told)
        self.tools.add(in_order(self.features.collect(lambda feature: feature.tools())))
        self.context.services = TurnServices(
            make_ready=self._make_ready,
            system_prompt=self._system_prompt,
            untold=self._untold,
            heard=self._heard,
            bring=self._bring,
            recalls=lambda: self.recall.on,
            panel=lambda: self.features.collect(lambda feature: feature.panel()),
            alerts=lambda: self.features.collect(lambda feature: feature.alerts()),
            sampling=self._sampling,
        )
        makes_room = hooks.announced_first(self.context.hooks, self.modes.make_room)
        self.context.window.room_maker = makes_room

    # What commands ask for

    def refer(self, pointer: str) -> Line:
        """The line that a person means by an id, a number (`#42`), a call or a turn (`turn 7`)."""
        return agent_files.resolve_reference(pointer, self.history, self.context.window.fold)

    @cached_property
    def sources(self) -> agent_files.Sources:
        """Where entries and memories are read whole by what points to them."""
        return agent_files.Sources(
            self.home,
            self.key,
            self.context.settings.recall,
            self.refer,
            self.context.transcript.history,
        )

    @cached_property
    def modes(self) -> Modes:
        """How room is made: the steps of the window and those of features."""
        model = self.context.model
        summarizer = summaries.Summarizer(
            count=self.context.count,
            ask=self.models.aside(model),
            model=model,
            timeout=self.context.settings.models.aside_timeout,
        )
        steps = dict(self.features.collect(lambda feature: feature.room_steps().items()))
        return Modes(Means(summarizer=summarizer, steps=steps))

    async def switch_model(self, name: str) -> ModelInfo:
        """Let another model answer from here on."""
        before = self._take_model(name)
        info = self.context.info
        self.context.overridden = False
        window = self.context.named_window or info.window or Window(tokens=0, label="assumed")
        self.context.window.set_model(name, window=window.tokens, label=window.label, why=BY_HAND)
        await before.close()
        return info

    def _take_model(self, name: str) -> Provider:
        before = self.models.take(name)
        self.modes.answer_with(self.models.aside(name), name)
        return before

    # Around a turn

    def ready(self) -> events.SessionReady:
        """Who answers, and where history stands."""
        rewound = self.context.window.fold.state.outside.rewound
        before = max((line.turn for line in copies_in(self.history)), default=0)
        return events.SessionReady(
            session=str(self.key),
            model=self.context.model,
            note=self.context.info.note,
            turns=self.context.transcript.last_turn,
            entries=self.context.transcript.head.seq + 1,
            rewound=sum(max(one.last - max(one.first - 1, before), 0) for one in rewound),
            before=before,
        )

    def catch_up(self, *, fetch: bool = True) -> list[Line]:
        """Take in what other surfaces wrote, and say what it was.

        Without `fetch` only what is on this machine: whoever listens brings the rest.
        """
        known = self.context.transcript.replacements
        self.context.transcript.look(fetch=fetch)
        self.context.window.catch_up()
        lines = self.context.window.missed()
        replaced = self.context.transcript.replacements != known
        if self.past.forget(lines, everything=replaced) or replaced:
            self.features.forget()
        if any(isinstance(line.entry, ModelChanged) for line in lines):
            self._follow_model()
        return lines

    def read_anew(self) -> None:
        """What counts has changed, by a rewind say: know nothing of it from before."""
        self.past.forget((), everything=True)
        self.features.forget()

    def close_open_turn(self) -> list[Line]:
        """Close a turn that a crash left open: its calls get results that say so.

        What an earlier program could not save is written down first.
        """
        if self.context.transcript.unsaved:
            return []
        # What this session was forked from may have put files back since.
        taken_in = take_in_put_back(self.context, self.history, self.home)
        rescued = self.catch_up() if taken_in else []
        if count := take_in_rescued(self.context, self.history, self.home.rescued):
            rescued += self.catch_up()
            lines = plural(count, "line")
            told = f"{lines} that could not be saved earlier are in history now."
            self.context.tell(events.Noticed(message=told))
        found_changed = self.context.files.recover()
        closed = close_open_turn(self.context, self.history, self.places.draft)
        return [*rescued, *found_changed, *closed]

    def _follow_model(self) -> None:
        """Another surface chose another model; ours was not named for this surface alone."""
        name = self.context.window.fold.model
        if self.context.overridden or name == self.context.model:
            return
        with contextlib.suppress(errors.MindstoneError):
            self._take_model(name)
            told = f"{name} answers from here on: it was chosen on another surface."
            self.context.tell(events.ModelChanged(model=name, note=""))
            self.context.tell(events.Noticed(message=told))

    # What a turn asks for

    @cached_property
    def _damage(self) -> list[str]:
        """That lines which the window is read from are not as they were written."""
        runs = [(span.first, span.last) for span in self.context.window.fold.state.spans]
        runs.append((runs[-1][1] + 1 if runs else 0, self.history.head.seq))
        bad = [
            f"byte {item.offset}" if isinstance(item, Damaged) else f"line {item.seq}"
            for first, last in runs
            for item in self.history.read(first, last)
            if isinstance(item, Damaged) or not hash_matches(item.raw, item.hash)
        ]
        if not bad:
            return []
        lines = plural(len(bad), "line is not as it was", "lines are not as they were")
        return [
            f"{lines} written, first {bad[0]}: `mindstone verify -s {self.key}` says "
            "more. What is said from now on is recorded all the same."
        ]

    async def _make_ready(self) -> list[events.AnyEvent]:
        """Have every feature get ready; each thing to say is said once."""
        found = [each async for each in self.features.gather(lambda one: one.before_turn())]
        found += self._damage
        if self.opening.guest is not None:
            self.opening.guest.offer(self.tools.offered, self.tools.usable())
        fresh = [each for each in dict.fromkeys(found) if each not in self._told]
        self._told.update(fresh)
        notices = [events.Noticed(message=each, level="warning") for each in fresh]
        return [*notices, *self.features.failures()]

    def _system_prompt(self) -> system_prompt.SystemPrompt:
        """Who the agent is, whom it works for, what the project and features add."""
        guest = self.opening.guest
        brought = guest.section() if guest is not None else None
        sections = [brought] if brought is not None else []
        warnings: list[str] = []
        # A program says itself who answers; what is remembered stands behind that.
        wanted = self.features.collect(
            lambda one: [one.standing()] if brought is None or one.for_programs else []
        )
        for each in wanted:
            sections += each.sections
            warnings += each.warnings
        quoted = system_prompt.imported_section(self.context.window.fold.lines.values())
        if quoted is not None:
            sections.append(quoted)
        return system_prompt.SystemPrompt(tuple(sections), tuple(warnings))

    def _untold(self) -> list[str]:
        return self.features.collect(lambda feature: feature.untold())

    def _heard(self, line: Line, text: str) -> list[Line]:
        return self.features.collect(lambda feature: feature.heard(line, text))

    async def _bring(self, text: str, share: int) -> AsyncIterator[MemoryDigested | RecallInjected]:
        taken = 0

        async def ask(feature: Feature) -> Sequence[MemoryDigested | RecallInjected]:
            found = await feature.bring(text, share, taken)
            return () if found is None else (found,)

        async for found in self.features.gather(ask):
            taken += found.tokens
            yield found

    def _sampling(self) -> Sampling:
        return plan.AS_ALWAYS if self.opening.guest is None else self.opening.guest.sampling

    async def after_turn(self) -> AsyncIterator[events.AnyEvent]:
        """Let every feature do what is due after the newest turn."""
        number = self.context.transcript.last_turn
        lines = self.history.turn(number)
        if any(isinstance(line.entry, Rewound) for line in lines):  # its message was not sent
            self.read_anew()
        said = [line.entry.text for line in lines if isinstance(line.entry, AssistantMessage)]
        asked = [line.entry.text for line in lines if isinstance(line.entry, UserMessage)]
        turn = EndedTurn(number, lines, asked[0] if asked else "", "\n".join(filter(None, said)))

        async def chores(feature: Feature) -> Sequence[events.AnyEvent]:
            await breathe()
            return await feature.after_turn(turn)

        async for event in self.features.gather(chores):
            yield event
        for event in self.features.failures():
            yield event

    def left_open(self) -> list[str]:
        """Where open work goes on, and whatever else whoever comes back should know."""
        self._told.update(self._damage)
        return [*self._damage, *self.features.collect(lambda feature: feature.left_open())]

    def tidy(self, after: float = 0.0) -> None:
        """Make the vectors that are missing, also while a turn waits for its model."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._embed(after), name="embedding")

    async def _embed(self, after: float) -> None:
        await asyncio.sleep(after)
        told, elsewhere = -_TOLD_EVERY, False
        with contextlib.suppress(errors.RecallError):
            more = True
            while more:
                if time.monotonic() - told >= _TOLD_EVERY:
                    await self._tell_vectors()
                    elsewhere = await asyncio.to_thread(self._worker_makes_them)
                    told = time.monotonic()
                if elsewhere:  # Two would make the same ones; how far it is can still be told.
                    await asyncio.sleep(_TOLD_EVERY)
                else:
                    more = await asyncio.to_thread(self.recall.embed_some)
        with contextlib.suppress(errors.RecallError):
            await self._tell_vectors()
        await self.publish()

    async def publish(self) -> None:
        """Have the server find what was said here, where it is searched."""
        if self.store is not None and self.context.settings.history.search == "server":
            from mindstone_tui.core.library.shared_search import publish_quietly  # psycopg: 0.15 s

            await asyncio.to_thread(publish_quietly, self.places, self.context.settings)

    def _worker_makes_them(self) -> bool:
        """Whether the home's worker is at this very session."""
        worker = vectors.progress_of(self.home)
        return worker.running and worker.session == str(self.key)

    async def _tell_vectors(self) -> None:
        waiting = await asyncio.to_thread(self.recall.waiting)
        if waiting != self.recall.by_words:
            self.on_vectors(waiting)

    def stop_tidying(self) -> None:
        """Make no more vectors."""
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        self.recall.interrupt()

    def rescue(self, returned: Sequence[UserMessage] = ()) -> Path | None:
        """Put what could not be saved somewhere else, and messages that had no turn.

        None when everything is saved; raises when no place takes it.
        """
        transcript = self.context.transcript
        if self._rescue_folder is not None:
            return transcript.rescue(self._rescue_folder, returned)
        try:
            return transcript.rescue(self.home.rescued, returned)
        except (errors.MindstoneError, OSError):
            # The disk under our own home refuses; the system's place for passing files may not.
            self._rescue_folder = Path(tempfile.mkdtemp(prefix="mindstone-rescued-"))
            return transcript.rescue(self._rescue_folder, returned)

    async def close(self) -> None:
        """Give back the model, the index and the reader, and what features hold."""
        self.stop_tidying()
        async for _ in self.features.gather(_closed):
            pass
        await self.context.provider.close()
        await asyncio.to_thread(self.recall.close)
        self.history.close()


async def _closed(feature: Feature) -> tuple[()]:
    await feature.close()
    return ()


class SessionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person may choose for a session: what is in force, and what there is."""

    name: str
    now: str
    known: dict[str, str]
    """Each value with its consequence in a few words."""


def choices_of(services: SessionServices) -> tuple[SessionChoice, ...]:
    """Model, approvals, mode and policy, each with the slash command's own name."""
    context = services.context
    models = {info.name: info.note for info in services.models.known.usable()}
    return (
        SessionChoice(
            name="model", now=context.model, known={context.model: context.info.note, **models}
        ),
        SessionChoice(name="approve", now=context.permissions.mode, known=CHOICES["approve"]),
        SessionChoice(name="mode", now=context.window.mode, known=CHOICES["mode"]),
        SessionChoice(name="policy", now=context.window.policy, known=CHOICES["policy"]),
    )
