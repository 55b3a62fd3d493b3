"""A live session: owner of the turn, verbs in, one ordered stream out.

One task takes turns and runs commands that change the window, in the order they were asked for;
commands that only look run at once. Everything a client hears comes through one queue, after the
entry it is about is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.agent.turn import take_turn
from mindstone_tui.core.commands import parse
from mindstone_tui.core.commands.registry import Command
from mindstone_tui.core.entries import Image, Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    MessageQueued,
    MessageWithdrawn,
    UserMessage,
)
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.errors import MindstoneError, NotSaved
from mindstone_tui.core.events import Answer, AnyEvent, Attachment
from mindstone_tui.core.session.bench import SessionBench
from mindstone_tui.core.session.images import attach
from mindstone_tui.core.session.lease import Lease
from mindstone_tui.core.transcript.following import changes


class _Said(msgspec.Struct, frozen=True):
    """A message on its way to a turn."""

    text: str
    images: tuple[Image, ...]
    queued: str = ""


class _Asked(msgspec.Struct, frozen=True):
    """A command on its way to be run."""

    command: Command
    line: str
    argument: str


class Session:
    """A conversation that is happening now; see `events.Conversation` for the contract."""

    def __init__(self, desk: Desk, bench: SessionBench, lease: Lease, *, wait: bool) -> None:
        self._desk = desk
        self._bench = bench
        self._lease = lease
        self._wait = wait
        self._stream: asyncio.Queue[AnyEvent] = asyncio.Queue()
        self._inbox: asyncio.Queue[_Said | _Asked] = asyncio.Queue()
        self._withdrawn: set[str] = set()
        self._turn: asyncio.Task[None] | None = None
        self._glances: set[asyncio.Task[None]] = set()
        self._owner: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def bench(self) -> SessionBench:
        """What commands and screens may look at."""
        return self._bench

    def start(self, *, follow: bool) -> None:
        """Begin to listen; call once, on the loop."""
        self._owner = asyncio.create_task(self._own(), name="session")
        if follow:
            self._follower = asyncio.create_task(self._follow(), name="follower")
        self._emit(self._bench.ready())
        self._emit(events.ContextReported(report=self._desk.report()))

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, in order, until the session is closed."""
        while True:
            event = await self._stream.get()
            yield event
            if isinstance(event, events.SessionClosed):
                return

    def send(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        steer: bool = False,
    ) -> None:
        """Say something; while a turn runs it is queued, or steers that turn when told to.

        Raises when a picture cannot be read or the disk refuses the queued message.
        """
        images = tuple(attach(each.path, self._desk.transcript) for each in attachments)
        if self._idle.is_set():
            self._idle.clear()
            self._inbox.put_nowait(_Said(text, images))
            return
        line = self._desk.record(
            MessageQueued(text=text, images=images), self._desk.transcript.last_turn
        )
        self._emit(events.MessageQueued(entry=line.id, text=text))
        if steer and self._turn is not None:
            self._desk.steering.append(UserMessage(text=text, images=images, queued=line.id))
        else:
            self._inbox.put_nowait(_Said(text, images, line.id))

    def command(self, line: str) -> None:
        """Run a slash command: at once if it only looks, in its turn if it changes the window."""
        try:
            command, argument = parse(line)
        except MindstoneError as error:
            message = f"{error.what} {error.remedy}".strip()
            self._emit(events.CommandPrinted(command=line, text=message, ok=False))
            self._emit(events.CommandEnded(command=line, ok=False))
            return
        asked = _Asked(command, line, argument)
        if command.changes_window:
            self._idle.clear()
            self._inbox.put_nowait(asked)
            return
        glance = asyncio.create_task(self._run_command(asked), name=command.name)
        self._glances.add(glance)
        glance.add_done_callback(self._glances.discard)

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a `ToolAsked`."""
        if not self._desk.questions.answer(call, answer):
            self._emit(events.Noticed(message="Nobody waits for that answer any more."))

    def withdraw(self, entry: str) -> None:
        """Take a queued message back."""
        self._withdrawn.add(entry)
        steering = self._desk.steering
        steering[:] = [waiting for waiting in steering if waiting.queued != entry]
        self._desk.record(MessageWithdrawn(queued=entry), self._desk.transcript.last_turn)
        self._emit(events.MessageWithdrawn(entry=entry))

    def interrupt(self) -> None:
        """Stop the running turn; what was streamed so far is kept."""
        if self._turn is not None:
            self._turn.cancel()

    async def close(self) -> None:
        """Finish, and end the stream: a running turn is interrupted, its chores are done."""
        if self._closing:
            return
        self._closing = True
        while not self._inbox.empty():
            self._inbox.get_nowait()
        self.interrupt()
        await self._idle.wait()
        for task in (self._owner, self._follower, *self._glances):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._bench.close()
        head = self._desk.transcript.head
        if (path := self._bench.rescue()) is not None:
            self._emit(
                events.Noticed(message=f"What could not be saved is in {path}.", level="error")
            )
        self._desk.transcript.close()
        self._emit(events.SessionClosed(session=str(self._bench.key), seq=head.seq, hash=head.hash))

    def _emit(self, event: AnyEvent) -> None:
        self._stream.put_nowait(event)

    def _complain(self, error: MindstoneError) -> None:
        if isinstance(error, NotSaved):
            unsaved = len(self._desk.transcript.unsaved)
            self._emit(events.NotSaved(what=error.what, remedy=error.remedy, unsaved=unsaved))
        else:
            message = f"{error.what} {error.remedy}".strip()
            self._emit(events.Noticed(message=message, level="error"))

    async def _own(self) -> None:
        """Take what was asked for, one after the other."""
        while True:
            asked = await self._inbox.get()
            try:
                if isinstance(asked, _Asked):
                    await self._serve_command(asked)
                elif asked.queued not in self._withdrawn:
                    await self._serve_message(asked)
            finally:
                self._lease.give_back()
                if self._inbox.empty():
                    self._idle.set()
                    if not self._closing:
                        self._bench.tidy()

    async def _serve_message(self, said: _Said) -> None:
        """One turn, which can be interrupted, and then its chores, which cannot."""
        self._turn = asyncio.create_task(self._take_turn(said), name="turn")
        await asyncio.wait({self._turn})
        self._turn = None
        if not self._lease.held:
            return
        try:
            async for event in self._bench.after_turn():
                self._emit(event)
        except MindstoneError as error:
            self._complain(error)
        except Exception as error:  # a bug in the chores around a turn must not end the session
            self._desk.report_bug(error)

    async def _serve_command(self, asked: _Asked) -> None:
        try:
            await self._take_lease()
        except MindstoneError as error:
            self._emit(events.CommandPrinted(command=asked.line, text=str(error), ok=False))
            self._emit(events.CommandEnded(command=asked.line, ok=False))
            return
        await self._run_command(asked)

    async def _take_turn(self, said: _Said) -> None:
        """One turn under the lease; whatever happens, the stream hears how it ended."""
        ended = False
        try:
            if not self._lease.try_take():
                said = self._wait_in_line(said)
            await self._take_lease()
            for notice in await self._bench.before_turn():
                self._emit(notice)
            message = UserMessage(text=said.text, images=said.images, queued=said.queued)
            origin = "queued" if said.queued else "message"
            async for event in take_turn(self._desk, message, origin):
                ended = isinstance(event, events.TurnEnded)
                self._emit(event)
        except asyncio.CancelledError:
            if not ended:
                self._fail("interrupted", "The person interrupted before the turn began.", "")
        except MindstoneError as error:
            if isinstance(error, NotSaved):
                self._complain(error)
            if not ended:
                self._fail("failed", error.what, error.remedy)
        except Exception as error:  # a bug before the turn must not end the session, either
            self._desk.report_bug(error)
            if not ended:
                self._fail("failed", str(error), "The log file has the details.")

    def _wait_in_line(self, said: _Said) -> _Said:
        """Another surface takes a turn: put the message on disk before waiting for it."""
        if said.queued or not self._wait:
            return said
        waiting = MessageQueued(text=said.text, images=said.images)
        line = self._desk.record(waiting, self._desk.transcript.last_turn)
        return _Said(said.text, said.images, line.id)

    def _fail(self, ending: str, why: str, remedy: str) -> None:
        turn = self._desk.transcript.last_turn
        self._emit(
            events.TurnEnded(
                turn=turn,
                ending="interrupted" if ending == "interrupted" else "failed",
                why=why,
                remedy=remedy,
            )
        )

    async def _take_lease(self) -> None:
        """Have the right to a turn, with everything that others wrote taken in first."""
        key = self._bench.key

        def on_wait() -> None:
            self._emit(events.Noticed(message=f"Waiting: another program takes a turn in {key}."))

        await self._lease.take(wait=self._wait, on_wait=on_wait)
        self._take_in(self._bench.catch_up())

    async def _run_command(self, asked: _Asked) -> None:
        """Run a command; its output is recorded, and part of no prompt."""
        text: list[str] = []
        ok = True
        try:
            async for event in asked.command.handler(self._bench, asked.argument):
                if isinstance(event, events.CommandPrinted):
                    text.append(event.text)
                    ok = ok and event.ok
                self._emit(event)
            if asked.command.changes_window:
                self._emit(events.ContextReported(report=self._desk.report()))
        except MindstoneError as error:
            ok = False
            message = f"{error.what} {error.remedy}".strip()
            text.append(message)
            self._emit(events.CommandPrinted(command=asked.line, text=message, ok=False))
        if asked.command.changes_window:
            with contextlib.suppress(NotSaved):
                self._desk.record(
                    CommandRun(command=asked.line, output="\n".join(text), ok=ok),
                    self._desk.transcript.last_turn,
                )
        self._emit(events.CommandEnded(command=asked.line, ok=ok))

    async def _follow(self) -> None:
        """Take in what another surface writes while we are idle."""
        async for _ in changes(self._bench.places.transcript):
            if self._turn is None and not self._lease.held:
                self._take_in(self._bench.catch_up())

    def _take_in(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._emit(_appeared(line))
        if lines:
            self._emit(events.ContextReported(report=self._desk.report()))


def _appeared(line: Line) -> events.EntryAppeared:
    match line.entry:
        case UserMessage(text=text) | AssistantMessage(text=text):
            said = text
        case _:
            said = ""
    return events.EntryAppeared(
        entry=line.id,
        seq=line.seq,
        kind=line.kind,
        role=line.role,
        channel=line.channel,
        turn=line.turn,
        text=said,
    )
