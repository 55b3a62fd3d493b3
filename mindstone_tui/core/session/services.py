"""The session as commands and screens see it, and the chores around a turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import Desk
from mindstone_tui.core.agent.continuity import Continuity
from mindstone_tui.core.agent.system_prompt import Standing, standing_context
from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import MemoryDigested, RecallInjected
from mindstone_tui.core.entries.store import ProjectTrusted
from mindstone_tui.core.entries.window import ContextWindowPruned, ModelChanged
from mindstone_tui.core.errors import (
    ContinuityError,
    MindstoneError,
    NotSaved,
    RecallError,
    UsageError,
)
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.interchange.export import export
from mindstone_tui.core.paths import CHILD, Places, SessionKey, SessionPlaces
from mindstone_tui.core.providers.base import ModelInfo, Provider, Window
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.recall.inject import queries
from mindstone_tui.core.session.agent_files import line_meant_by
from mindstone_tui.core.session.fork import fork_session
from mindstone_tui.core.session.models import Answering
from mindstone_tui.core.session.recall import Remembering
from mindstone_tui.core.session.recover import close_open_turn, never_sent
from mindstone_tui.core.session.tools import Project, Rack
from mindstone_tui.core.text import inside
from mindstone_tui.core.tools.base import Tool, ToolResult
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.trust import ProjectInstructions
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.directory import SessionSummary, list_sessions


class SessionBench:
    """One session's shelves: history, recall, models, tools, neighbours."""

    def __init__(
        self,
        *,
        desk: Desk,
        home: Places,
        places: SessionPlaces,
        cwd: Path,
        history: History,
        remembering: Remembering,
        continuity: Continuity,
        answering: Answering,
        rack: Rack,
        project: Project,
    ) -> None:
        self.desk = desk
        self.home = home
        self.places = places
        self.key = places.key
        self.cwd = cwd
        self.remembering = remembering
        self.continuity = continuity
        self._history = history
        self._answering = answering
        self._rack = rack
        self._project = project
        self._tidying: asyncio.Task[None] | None = None

    # What commands ask for

    def history(self) -> History:
        """A reader of this session's transcript."""
        return History(self.places)

    def refer(self, pointer: str) -> Line:
        """The line that a person means by an id, a number (`#42`), a call or a turn (`turn 7`)."""
        return line_meant_by(pointer, self._history, self.desk.working_set.fold)

    async def recall(self, query: str, k: int, scope: str) -> Found:
        """Search history."""
        pinned = self.desk.working_set.fold.state.pins
        return await self.remembering.search(query, k, scope, pinned=pinned, memories=True)

    def last_recall(self) -> Found | None:
        """The newest search of this session."""
        return self.remembering.last

    async def switch_model(self, name: str) -> ModelInfo:
        """Let another model answer from here on."""
        before = self._take_model(name)
        info = self.desk.info
        self.desk.overridden = False
        window = self.desk.window or info.window or Window(tokens=0, label="assumed")
        self.desk.working_set.set_model(name, window=window.tokens, label=window.label)
        await before.close()
        return info

    def _take_model(self, name: str) -> Provider:
        before = self._answering.take(name)
        self.continuity.answer_with(self._answering.aside(name))
        return before

    def models(self) -> Sequence[ModelInfo]:
        """What is usable now."""
        return self._answering.usable()

    def all_tools(self) -> dict[str, Tool]:
        """Every tool, switched on or not."""
        return self._rack.all

    def switch_tool(self, name: str, *, on: bool) -> bool:
        """Offer a tool to the model or not; False when there is no such tool."""
        return self._rack.switch(name, on=on)

    async def accept_tools(self, server: str) -> list[str]:
        """Take a server's changed tools as they are now."""
        return await self._rack.accept(server)

    def project(self) -> ProjectInstructions:
        """What the folder wants to tell the agent, and whether it may."""
        return self._project.instructions()

    def trust_project(self) -> ProjectInstructions:
        """Let this folder's instruction files be read, as they are now."""
        found = self._project.instructions()
        if found.state != "none":
            self._project.trust(found)
            files = {each.path: str(each.raw_size) for each in found.files}
            entry = ProjectTrusted(folder=str(found.folder), files=files)
            self.desk.record(entry, self.desk.transcript.last_turn)
        return self._project.instructions()

    def distrust_project(self) -> None:
        """Read this folder's instruction files no longer."""
        self._project.distrust()

    def sessions(self) -> Sequence[SessionSummary]:
        """All sessions but those of sub-agents, newest first."""
        return [one for one in list_sessions(self.home) if CHILD not in one.main]

    async def run_shell(self, line: str) -> ToolResult:
        """Run a shell command that the person wrote, in the session's folder."""
        result = await SHELL.run({"command": line}, self.desk.tool_context("shell"))
        clean = self.desk.redactor.redact(inside(result.text)).text
        return msgspec.structs.replace(result, text=clean)

    async def compact(self) -> list[Line]:
        """Let a summary stand for the older exchanges, now."""
        return await self.desk.working_set.make_room_by(self.continuity.modes.compact)

    async def export(self, kind: str, path: Path) -> None:
        """Write this session to a file."""

        def work() -> None:
            with History(self.places) as history:
                text = "".join(export(history, kind, clean=self.desk.transcript.clean))
            replace_file(path, text.encode())

        await asyncio.to_thread(work)

    def free_name(self) -> str:
        """A name for a new session of this agent that nobody has yet."""
        taken = {each.key.main for each in self.home.sessions() if each.key.agent == self.key.agent}
        number = 2
        while f"{self.key.main}-{number}" in taken:
            number += 1
        return f"{self.key.main}-{number}"

    def fork(self, name: str, turn: int | None) -> SessionKey:
        """Start another session from a turn of this one."""
        key = SessionKey.parse(
            name if name.startswith("agent:") else f"agent:{self.key.agent}:{name}"
        )
        if self.home.session(key).transcript.exists():
            raise UsageError(f"There is a session {key} already.", "Choose another name.")
        fork_session(self.desk, self._history, self.home.session(key), turn)
        return key

    # Around a turn

    def ready(self) -> events.SessionReady:
        """Who answers, and where history stands."""
        info = self.desk.info
        return events.SessionReady(
            session=str(self.key),
            model=self.desk.model,
            note=info.note,
            turns=self.desk.transcript.last_turn,
            entries=self.desk.transcript.head.seq + 1,
        )

    def catch_up(self) -> list[Line]:
        """Take in what other surfaces wrote, and say what it was."""
        self.desk.transcript.look()
        lines = self.desk.working_set.catch_up()
        self.continuity.look_again(lines)
        if any(isinstance(line.entry, ModelChanged) for line in lines):
            self._follow_model()
        return lines

    def save_again(self) -> None:
        """Write what the disk refused before; if it still does, the next entry says so."""
        with contextlib.suppress(NotSaved):
            self.desk.save()

    def close_open_turn(self) -> list[Line]:
        """Close a turn that a crash left open: its calls get results that say so."""
        if self.desk.transcript.unsaved:
            return []
        return close_open_turn(self.desk, self._history)

    def never_sent(self) -> list[str]:
        """Messages that were queued lately and neither sent nor taken back."""
        return never_sent(self._history)

    def _follow_model(self) -> None:
        """Another surface chose another model; ours was not named for this surface alone."""
        name = self.desk.working_set.model
        if self.desk.overridden or name == self.desk.model:
            return
        with contextlib.suppress(MindstoneError):
            self._take_model(name)

    async def after_turn(self) -> AsyncIterator[events.AnyEvent]:
        """Index the exchange, learn which recalled passages were used."""
        with contextlib.suppress(RecallError):
            await asyncio.to_thread(self.remembering.keep_up)
        lines = self._history.turn(self.desk.transcript.last_turn)
        injected = next(
            (line.entry for line in lines if isinstance(line.entry, RecallInjected)), None
        )
        answer = "\n".join(
            line.entry.text for line in lines if isinstance(line.entry, AssistantMessage)
        )
        if injected is not None and answer:
            with contextlib.suppress(RecallError):
                used = await asyncio.to_thread(
                    self.remembering.note_use, injected, injected.query, answer
                )
                self.desk.record(used, None)
        self._note_memory_use(lines, answer)
        async for event in self._measure_health(lines):
            yield event
        if self.remembering.failure:
            message = f"Recall does not work: {self.remembering.failure}"
            self.remembering.failure = ""
            yield events.Noticed(message=message, level="warning")

    async def _measure_health(self, lines: Sequence[Line]) -> AsyncIterator[events.AnyEvent]:
        """Take the turn's six measures; what left the window is probed for."""
        pruned = [line.entry for line in lines if isinstance(line.entry, ContextWindowPruned)]
        probed = await self.continuity.probe(pruned[-1]) if pruned else None
        written = self.continuity.after_turn(
            lines,
            measured=probed.score if probed is not None else None,
            lag=await self.remembering.unindexed(),
            recall_failed=bool(self.remembering.failure),
            vectors=self.remembering.vectors,
        )
        if (saved := self.continuity.milestone()) is not None:
            written.append(saved)
        for event in announcements(*written):
            yield event

    def _note_memory_use(self, lines: Sequence[Line], answer: str) -> None:
        """Count the memories that the answer leaned on."""
        digested = next(
            (line.entry for line in lines if isinstance(line.entry, MemoryDigested)), None
        )
        question = next(
            (line.entry.text for line in lines if isinstance(line.entry, UserMessage)), ""
        )
        if digested is not None and answer:
            with contextlib.suppress(ContinuityError, NotSaved):
                self.continuity.memories.note_use(digested, question, answer)

    def where_it_stands(self) -> list[str]:
        """Where open work goes on, and what changed around it meanwhile."""
        return self.continuity.where_it_stands()

    def tidy(self) -> None:
        """While nothing is asked: make the vectors that are missing."""
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._embed(), name="embedding")

    async def _embed(self) -> None:
        with contextlib.suppress(RecallError):
            while await asyncio.to_thread(self.remembering.embed_some):
                continue

    def stop_tidying(self) -> None:
        """Leave the machine to the turn."""
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None

    def rescue(self) -> Path | None:
        """Put what could not be saved somewhere else; None when everything is saved."""
        return self.desk.transcript.rescue(self.home.state / "rescued")

    async def close(self) -> None:
        """Give back the model, the index and the reader."""
        self.stop_tidying()
        await self.desk.provider.close()
        await self._rack.close()
        await asyncio.to_thread(self.remembering.close)
        self._history.close()


class SessionSurroundings:
    """The surroundings of a live session; see `agent.desk.Surroundings` for the contract."""

    def __init__(
        self,
        desk: Desk,
        continuity: Continuity,
        remembering: Remembering,
        *,
        project: Project,
        rack: Rack,
        cwd: Path,
    ) -> None:
        self._desk = desk
        self._continuity = continuity
        self._remembering = remembering
        self._project = project
        self._rack = rack
        self._cwd = cwd
        self._told: set[str] = set()

    async def make_ready(self) -> list[events.AnyEvent]:
        """Start the tool servers, look at the project; each thing to say is said once."""
        told = await self._rack.start_servers()
        if unread := self._project.unread():
            told.append(unread)
        fresh = [each for each in told if each not in self._told]
        self._told.update(fresh)
        return [events.Noticed(message=each, level="warning") for each in fresh]

    def standing(self) -> Standing:
        """Who the agent is, whom it works for, what the project and memory add."""
        remembered, warnings = self._continuity.memories.head_sections()
        task = self._continuity.task
        found = standing_context(
            self._continuity.agent,
            self._cwd,
            count=self._desk.count,
            room=self._desk.settings.memory.standing_tokens,
            with_tools=self._desk.info.tools,
            extra=(*self._project.sections(), *([task] if task else ()), *remembered),
        )
        return Standing(found.sections, (*found.warnings, *warnings))

    async def digest(self, text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """The memories that bear on a message."""
        for query in queries(text, recent):
            likeness = await self._remembering.likeness(query)
            found = self._continuity.memories.digest(likeness, room) if likeness else None
            if found is not None:
                return found
        return None
