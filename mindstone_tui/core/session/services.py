"""The session as commands and screens see it, and the chores around a turn."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import TurnContext, TurnServices
from mindstone_tui.core.agent.handoffs import Handoffs
from mindstone_tui.core.agent.health import Health
from mindstone_tui.core.agent.memories import Memories, RecentHistory
from mindstone_tui.core.agent.plans import Plans, offer_plan, steps_of
from mindstone_tui.core.agent.review import offer_review
from mindstone_tui.core.agent.system_prompt import (
    SystemPrompt,
    cut_sections,
    imported_section,
    standing_context,
)
from mindstone_tui.core.agent.tasks import Tasks
from mindstone_tui.core.commands.context import MODE_CHOICES, POLICY_CHOICES
from mindstone_tui.core.context.modes import Modes
from mindstone_tui.core.context.plan import AS_ALWAYS
from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import MemoryDigested, RecallInjected, SummaryDerived
from mindstone_tui.core.entries.store import ProjectTrusted
from mindstone_tui.core.entries.window import (
    BY_HAND,
    ContextWindowPruned,
    ModelChanged,
    Section,
)
from mindstone_tui.core.errors import (
    ContinuityError,
    EntryNotSaved,
    MindstoneError,
    RecallError,
    UsageError,
)
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.paths import CHILD, Places, SessionKey, SessionPlaces
from mindstone_tui.core.providers.base import ModelInfo, Provider, Window
from mindstone_tui.core.recall.inject import queries
from mindstone_tui.core.session.agent_files import resolve_reference
from mindstone_tui.core.session.fork import fork_session
from mindstone_tui.core.session.guest import Guest
from mindstone_tui.core.session.models import SessionModels
from mindstone_tui.core.session.profile import ListedSession, list_described
from mindstone_tui.core.session.prompt_files import PromptFiles
from mindstone_tui.core.session.recall import SessionRecall
from mindstone_tui.core.session.recover import close_open_turn, never_sent
from mindstone_tui.core.session.tools import Project, ToolRegistry
from mindstone_tui.core.session.vectors import progress_of
from mindstone_tui.core.text import inside, one_line, plural
from mindstone_tui.core.tools.base import ToolResult
from mindstone_tui.core.tools.jobs import Jobs
from mindstone_tui.core.tools.prompt_files import skill_tool
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.trust import ProjectInstructions
from mindstone_tui.core.transcript import History, blackened_in
from mindstone_tui.core.transcript.directory import LONGEST_TITLE
from mindstone_tui.core.transcript.history_store import HistoryStore

FIRST_PICTURE: Final = 1.0
"""Seconds until whoever opened a session sees it: loading a model waits for that."""
_TOLD_EVERY: Final = 2.0
"""Seconds between two words on how far the vectors are."""
APPROVAL_CHOICES: Final = {
    "read-only": "looks, and changes nothing",
    "ask": "asks before anything changes",
    "auto-edit": "edits files in the folder, asks before commands",
    "full-auto": "runs everything in a sandbox",
}


class SessionServices:
    """One session's parts, as commands and screens use them, and the chores around a turn."""

    def __init__(
        self,
        *,
        context: TurnContext,
        home: Places,
        places: SessionPlaces,
        cwd: Path,
        history: History,
        past: RecentHistory,
        memories: Memories,
        health: Health,
        tasks: Tasks,
        handoffs: Handoffs,
        modes: Modes,
        recall: SessionRecall,
        models: SessionModels,
        tools: ToolRegistry,
        project: Project,
        prompts: PromptFiles,
        plans: Plans,
        jobs: Jobs,
        store: HistoryStore | None = None,
        unheeded: str = "",
    ) -> None:
        self.context = context
        self.home = home
        self.places = places
        self.key = places.key
        self.cwd = cwd
        self.memories = memories
        self.health = health
        self.tasks = tasks
        self.handoffs = handoffs
        self.modes = modes
        self.recall = recall
        self.models = models
        self.tools = tools
        self.project = project
        self.prompts = prompts
        self.plans = plans
        self.jobs = jobs
        self.store = store
        """The server that keeps this history; None where the files do."""
        self.greeting = ""
        """What a person must know about this session before the first message."""
        self.unheeded = unheeded
        """What the project's settings asked for and did not get, in a sentence."""
        self._history = history
        self._past = past
        self.on_vectors: Callable[[int], None] = lambda by_words: None
        """Hears how many passages are found by words only so far, while vectors are made."""
        self._tidying: asyncio.Task[None] | None = None
        self._blackened: set[str] = set()
        """Secrets that were told of already."""
        self._rescue_folder: Path | None = None

    # What commands ask for

    def refer(self, pointer: str) -> Line:
        """The line that a person means by an id, a number (`#42`), a call or a turn (`turn 7`)."""
        return resolve_reference(pointer, self._history, self.context.window.fold)

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

    def trust_project(self) -> ProjectInstructions:
        """Let this folder's instruction files be read, as they are now."""
        found = self.project.instructions()
        if found.state != "none":
            self.project.trust(found)
            files = {each.path: str(each.raw_size) for each in found.files}
            entry = ProjectTrusted(folder=str(found.folder), files=files)
            self.context.window.record(entry, self.context.transcript.last_turn)
        return self.project.instructions()

    def sessions(self) -> Sequence[ListedSession]:
        """All sessions but those of sub-agents, the one used last first."""
        every = list_described(self.home)
        return [one for one in every if CHILD not in one.main and not one.started_by]

    async def run_shell(self, line: str) -> ToolResult:
        """Run a shell command that the person wrote, in the session's folder."""
        result = await SHELL.run({"command": line}, self.context.tool_context("shell"))
        clean = self.context.redactor.redact(inside(result.text)).text
        return msgspec.structs.replace(result, text=clean)

    async def export(self, kind: str, path: Path) -> None:
        """Write this session to a file."""

        def work() -> None:
            # Deferred: the page's Markdown renderer is large, and few sessions are exported.
            from mindstone_tui.core.interchange.export import export
            from mindstone_tui.core.session.stats_page import session_numbers

            clean = self.context.transcript.clean
            with History(self.places) as history:
                text = "".join(export(history, kind, clean=clean, numbers=session_numbers))
            replace_file(path, text.encode())

        await asyncio.to_thread(work)

    def set_title(self, text: str) -> str:
        """Give the session a title for lists; an empty one goes back to its first request."""
        title = one_line(self.context.redactor.redact(text).text, LONGEST_TITLE)
        replace_file(self.places.title, title.encode())
        return title

    def free_name(self) -> str:
        """A name for a new session of this agent that nobody has yet."""
        known = [each.key for each in self.home.sessions()]
        if self.store is not None:
            known += [each.key for each in self.store.sessions()]
        taken = {key.main for key in known if key.agent == self.key.agent}
        number = 2
        while f"{self.key.main}-{number}" in taken:
            number += 1
        return f"{self.key.main}-{number}"

    def exists(self, key: SessionKey) -> bool:
        """Whether there is such a session already."""
        if self.home.session(key).transcript.exists():
            return True
        store = self._store_of(key)
        if store is None:
            return False
        with contextlib.closing(store):
            return store.find(key) is not None

    def fork(self, name: str, turn: int | None) -> SessionKey:
        """Start another session from a turn of this one."""
        key = SessionKey.parse(
            name if name.startswith("agent:") else f"agent:{self.key.agent}:{name}"
        )
        if self.exists(key):
            raise UsageError(f"There is a session {key} already.", "Choose another name.")
        child = self.home.session(key)
        fork_session(self.context, self._history, child, turn, self._store_of(key))
        return key

    def _store_of(self, key: SessionKey) -> HistoryStore | None:
        """The server that keeps another session, to be closed after use; None for files."""
        if not self.context.settings.history.address_for(key):
            return None
        from mindstone_tui.core.shared.copies import open_store

        return open_store(self.context.settings.history, key)

    # Around a turn

    def ready(self) -> events.SessionReady:
        """Who answers, and where history stands."""
        info = self.context.info
        return events.SessionReady(
            session=str(self.key),
            model=self.context.model,
            note=info.note,
            turns=self.context.transcript.last_turn,
            entries=self.context.transcript.head.seq + 1,
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
        if self._past.forget(lines, everything=replaced) or replaced:
            for part in (self.memories, self.health, self.tasks, self.plans):
                part.forget()
        if any(isinstance(line.entry, ModelChanged) for line in lines):
            self._follow_model()
        return lines

    def close_open_turn(self) -> list[Line]:
        """Close a turn that a crash left open: its calls get results that say so."""
        if self.context.transcript.unsaved:
            return []
        found_changed = self.context.files.recover()
        return [*found_changed, *close_open_turn(self.context, self._history)]

    def never_sent(self) -> list[str]:
        """Messages that were queued lately and neither sent nor taken back."""
        return never_sent(self._history)

    def _follow_model(self) -> None:
        """Another surface chose another model; ours was not named for this surface alone."""
        name = self.context.window.fold.model
        if self.context.overridden or name == self.context.model:
            return
        with contextlib.suppress(MindstoneError):
            self._take_model(name)

    async def after_turn(self) -> AsyncIterator[events.AnyEvent]:
        """Index the exchange, learn which recalled passages were used."""
        with contextlib.suppress(RecallError):
            await asyncio.to_thread(self.recall.keep_up)
        lines = self._history.turn(self.context.transcript.last_turn)
        recalled = next((line for line in lines if isinstance(line.entry, RecallInjected)), None)
        injected = self._history.whole(recalled).entry if recalled is not None else None
        answer = "\n".join(
            line.entry.text for line in lines if isinstance(line.entry, AssistantMessage)
        )
        if isinstance(injected, RecallInjected) and answer:
            with contextlib.suppress(RecallError):
                used = await asyncio.to_thread(
                    self.recall.note_use, injected, injected.query, answer
                )
                if used.used:
                    self.context.window.record(used)
        self._note_memory_use(lines, answer)
        if self.plans.planning and (steps := steps_of(answer)):
            yield events.Noticed(message=offer_plan(len(steps)))
        if told := self._told_of_secrets(lines):
            yield events.Noticed(message=told, level="warning")
        async for event in self._measure_health(lines):
            yield event
        if any(isinstance(line.entry, SummaryDerived) and line.entry.state for line in lines) and (
            offered := offer_review(self.context.transcript)
        ):
            yield events.Noticed(message=offered)
        if self.recall.failure:
            message = f"Recall does not work: {self.recall.failure}"
            self.recall.failure = ""
            yield events.Noticed(message=message, level="warning")

    def _told_of_secrets(self, lines: Sequence[Line]) -> str:
        """What this turn blacked out for the first time, and where; empty for nothing."""
        where: dict[str, int] = {}
        for line in lines:
            for place in blackened_in(line.entry):
                if place.label not in self._blackened:
                    where.setdefault(place.label, line.seq)
        self._blackened |= where.keys()
        if not where:
            return ""
        listed = ", ".join(f"{label} in #{seq}" for label, seq in where.items())
        return (
            f"{plural(len(where), 'secret')} blacked out in this turn: {listed}. "
            "`mindstone log --redacted` shows where."
        )

    async def _measure_health(self, lines: Sequence[Line]) -> AsyncIterator[events.AnyEvent]:
        """Take the turn's six measures; what left the window is probed for."""
        pruned = [line.entry for line in lines if isinstance(line.entry, ContextWindowPruned)]
        probed = await self.health.probe([one.span for one in pruned[-1].left]) if pruned else None
        written = self.health.after_turn(
            lines,
            measured=probed.score if probed is not None else None,
            lag=await self.recall.unindexed(),
            recall_failed=bool(self.recall.failure),
            vectors=self.recall.vectors,
        )
        if (saved := self.tasks.milestone()) is not None:
            written.append(saved)
        for event in announcements(*written):
            yield event
        if self.health.cleared:
            turn = self.context.transcript.last_turn
            yield events.AlertsCleared(turn=turn, metrics=self.health.cleared)

    def _note_memory_use(self, lines: Sequence[Line], answer: str) -> None:
        """Count the memories that the answer leaned on."""
        digested = next(
            (line.entry for line in lines if isinstance(line.entry, MemoryDigested)), None
        )
        question = next(
            (line.entry.text for line in lines if isinstance(line.entry, UserMessage)), ""
        )
        if digested is not None and answer:
            with contextlib.suppress(ContinuityError, EntryNotSaved):
                self.memories.note_use(digested, question, answer)

    def tidy(self, after: float = 0.0) -> None:
        """Make the vectors that are missing, also while a turn waits for its model."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._embed(after), name="embedding")

    async def _embed(self, after: float) -> None:
        await asyncio.sleep(after)
        told, elsewhere = -_TOLD_EVERY, False
        with contextlib.suppress(RecallError):
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
        with contextlib.suppress(RecallError):
            await self._tell_vectors()
        await self.publish()

    async def publish(self) -> None:
        """Have the server find what was said here, where it is searched."""
        if self.store is not None and self.context.settings.history.search == "server":
            from mindstone_tui.core.session.shared_search import publish_quietly

            await asyncio.to_thread(publish_quietly, self.places, self.context.settings)

    def _worker_makes_them(self) -> bool:
        """Whether the home's worker is at this very session."""
        worker = progress_of(self.home)
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
        own = self.home.state / "rescued"
        try:
            return transcript.rescue(own, returned)
        except (MindstoneError, OSError):
            # The disk under our own home refuses; the system's place for passing files may not.
            self._rescue_folder = Path(tempfile.mkdtemp(prefix="mindstone-rescued-"))
            return transcript.rescue(self._rescue_folder, returned)

    async def close(self) -> None:
        """Give back the model, the index and the reader."""
        self.stop_tidying()
        await self.jobs.close()
        await self.context.provider.close()
        await self.tools.close()
        self.context.files.store.close()
        await asyncio.to_thread(self.recall.close)
        self._history.close()


class SessionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person may choose for a session: what is in force, and what there is."""

    name: str
    now: str
    known: dict[str, str]
    """Each value with its consequence in a few words."""


def choices_of(services: SessionServices) -> tuple[SessionChoice, ...]:
    """Model, approvals, mode and policy, each with the slash command's own name."""
    context = services.context
    models = {info.name: info.note for info in services.models.usable()}
    return (
        SessionChoice(
            name="model", now=context.model, known={context.model: context.info.note, **models}
        ),
        SessionChoice(name="approve", now=context.permissions.mode, known=APPROVAL_CHOICES),
        SessionChoice(name="mode", now=context.window.mode, known=dict(MODE_CHOICES)),
        SessionChoice(name="policy", now=context.window.policy, known=dict(POLICY_CHOICES)),
    )


def turn_services(
    context: TurnContext,
    memories: Memories,
    tasks: Tasks,
    recall: SessionRecall,
    *,
    project: Project,
    prompts: PromptFiles,
    plans: Plans,
    tools: ToolRegistry,
    cwd: Path,
    home: Places,
    guest: Guest | None = None,
) -> TurnServices:
    """What a live session does for its turns."""
    told: set[str] = set()

    async def make_ready() -> list[events.AnyEvent]:
        """Start the tool servers, look at the project; each thing to say is said once."""
        found = await tools.start_servers()
        context.hooks.refresh()
        if prompts.refresh():
            tools.add({"skill": skill_tool(prompts.skills)})
        found += context.hooks.problems
        if guest is not None:
            guest.offer(tools.offered, tools.usable())
        if unread := project.unread():
            found.append(unread)
        fresh = [each for each in found if each not in told]
        told.update(fresh)
        return [events.Noticed(message=each, level="warning") for each in fresh]

    def system_prompt() -> SystemPrompt:
        """Who the agent is, whom it works for, what the project and memory add."""
        remembered, warnings = memories.head_sections()
        task = tasks.section
        found = standing_context(
            memories.agent,
            cwd,
            count=context.count,
            room=context.settings.memory.standing_tokens,
            with_tools=context.info.tools,
            small=context.info.small,
        )
        share = context.share("system_prompt", context.target)
        taken = sum(context.count(section.text) for section in found.sections)
        instructions, cut = cut_sections(
            project.sections(), max(share - taken, share // 2), context.count
        )
        started = context.hooks.started
        said = (Section(name="hooks", text=started, source="SessionStart"),) if started else ()
        skills = prompts.section()
        quoted = imported_section(context.window.fold.lines.values())
        work = tuple(each for each in (quoted, task) if each is not None)
        beside = (*said, *([skills] if skills else ()), *work, *plans.sections)
        if guest is not None and (brought := guest.section()) is not None:
            # A program says itself who answers; what is remembered stands behind that.
            return SystemPrompt((brought, *work, *remembered), warnings)
        sections = (*found.sections, *instructions, *beside, *remembered)
        return SystemPrompt(sections, (*found.warnings, *cut, *warnings))

    async def digest(text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """The memories that bear on a message; none while recall is off."""
        if not recall.on:
            return None
        for query in queries(text, recent):
            likeness = await recall.likeness(query)
            found = memories.digest(likeness, room) if likeness else None
            if found is not None:
                return found
        return None

    return TurnServices(
        make_ready=make_ready,
        system_prompt=system_prompt,
        digest=digest,
        recall=recall.gather,
        recalls=lambda: recall.on,
        propose=memories.propose_said,
        sampling=lambda: guest.sampling if guest is not None else AS_ALWAYS,
    )


def left_open(services: SessionServices) -> list[str]:
    """Where open work goes on, and what was said before the session was closed unreviewed."""
    offered = offer_review(services.context.transcript)
    return [*services.tasks.where_it_stands(), *([offered] if offered else [])]
