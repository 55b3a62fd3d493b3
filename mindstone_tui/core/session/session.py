"""A live session: owner of the turn, verbs in, one ordered stream out.

One task takes turns and runs commands that change the window, in the order they were asked for;
commands that only look run at once. Everything a client hears comes through one queue, after the
entry it is about is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
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
    TurnEnding,
    UserMessage,
)
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.errors import ExitCode, Interrupted, MindstoneError, NotSaved, UsageError
from mindstone_tui.core.events import Answer, AnyEvent, Attachment
from mindstone_tui.core.foreign import one_line
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
        self._inbox: deque[_Said | _Asked] = deque()
        self._knock = asyncio.Event()
        self._serving = False
        self._work: asyncio.Task[None] | None = None
        """The turn or the command that can be interrupted."""
        self._in_turn = False
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
        self._desk.on_saved = lambda entries: self._emit(events.SavedAgain(entries=entries))
        self._desk.tell = self._emit
        self._owner = asyncio.create_task(self._own(), name="session")
        if follow:
            self._follower = asyncio.create_task(self._follow(), name="follower")
        self._emit(self._bench.ready())
        self._emit(events.ContextReported(report=self._desk.report()))
        if follow:
            self._remind()

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

        Raises when a picture cannot be used or the session is closed.
        """
        if self._closing:
            raise UsageError("This session is closed.", "Open it again.")
        images = tuple(attach(each.path, self._desk.transcript) for each in attachments)
        said = _Said(text, images)
        if self._idle.is_set():
            self._put(said)
            return
        said = self._queue(said)
        if steer and self._in_turn:
            self._desk.steering.append(_message(said))
        else:
            self._put(said)

    def command(self, line: str) -> None:
        """Run a slash command: at once if it only looks, in its turn if it changes the window."""
        try:
            command, argument = parse(line)
        except MindstoneError as error:
            self._end_command(line, error, [])
            return
        asked = _Asked(command, line, argument)
        if command.changes_window:
            self._put(asked)
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
        said = next((each for each in self._inbox if _queued_as(each) == entry), None)
        steering = self._desk.steering
        steers = next((each for each in steering if each.queued == entry), None)
        if said is None and steers is None:
            self._emit(events.Noticed(message="That message was sent already."))
            return
        if said is not None:
            self._inbox.remove(said)
        if steers is not None:
            steering.remove(steers)
        self._withdrawn(entry)

    def interrupt(self, why: str = "") -> None:
        """Stop the running turn; what was streamed so far is kept.

        While there is none, commands that only look are stopped instead.
        """
        for task in [self._work] if self._work is not None else list(self._glances):
            if not task.cancelling():
                task.cancel(why or None)

    async def close(self) -> None:
        """Finish, and end the stream: a running turn is interrupted, its chores are done.

        What still waits is in history as queued, and the next one who opens the session is told.
        """
        if self._closing:
            return
        self._closing = True
        self._put_down()
        self.interrupt("The session was closed.")
        if not self._serving:
            self._idle.set()
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

    def _put(self, asked: _Said | _Asked, *, first: bool = False) -> None:
        self._idle.clear()
        if first:
            self._inbox.appendleft(asked)
        else:
            self._inbox.append(asked)
        self._knock.set()

    def _put_down(self) -> None:
        """Write down what was said and has no turn; commands that wait are over."""
        while self._inbox:
            asked = self._inbox.popleft()
            if isinstance(asked, _Asked):
                closed = Interrupted("The session was closed first.")
                self._end_command(asked.line, closed, [])
            elif not asked.queued:
                self._queue(asked)

    def _queue(self, said: _Said) -> _Said:
        """Put a message on disk that has to wait for its turn."""
        try:
            line = self._desk.record(MessageQueued(text=said.text, images=said.images), None)
        except MindstoneError as error:
            self._complain(error)
            return said
        text = line.entry.text if isinstance(line.entry, MessageQueued) else said.text
        self._emit(events.MessageQueued(entry=line.id, text=text))
        return msgspec.structs.replace(said, queued=line.id)

    def _withdrawn(self, entry: str) -> None:
        try:
            self._desk.record(MessageWithdrawn(queued=entry), None)
        except MindstoneError as error:
            self._complain(error)
        self._emit(events.MessageWithdrawn(entry=entry))

    def _remind(self) -> None:
        """Say what was queued when the program stopped, unless another one still has it."""
        if not self._lease.try_take():
            return
        self._lease.give_back()
        for message in self._bench.where_it_stands():
            self._emit(events.Noticed(message=message))
        for text in self._bench.never_sent():
            message = f"This was never sent: {one_line(text, 300)}"
            self._emit(events.Noticed(message=message, level="warning"))

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
            await self._knock.wait()
            if not self._inbox:
                self._knock.clear()
                continue
            self._serving = True
            try:
                await self._serve(self._inbox.popleft())
            finally:
                self._serving = False
                self._lease.give_back()
                if not self._inbox:
                    self._idle.set()
                    if not self._closing:
                        self._bench.tidy()

    async def _serve(self, asked: _Said | _Asked) -> None:
        """One turn or command, which can be interrupted, and the chores, which cannot."""
        is_turn = isinstance(asked, _Said)
        work = self._take_turn(asked) if isinstance(asked, _Said) else self._change(asked)
        self._work = asyncio.create_task(work, name="turn" if is_turn else "command")
        self._in_turn = is_turn
        await asyncio.wait({self._work})
        if self._work.cancelled():
            self._never_began(asked)
        self._work = None
        self._in_turn = False
        for waiting in reversed(self._desk.take_steering()):
            self._put(_Said(waiting.text, waiting.images, waiting.queued), first=True)
        if self._closing:
            self._put_down()
        if is_turn and self._lease.held:
            await self._do_chores()

    def _never_began(self, asked: _Said | _Asked) -> None:
        """Interrupted before its first step: it has an end all the same."""
        why = "The person interrupted before this began."
        if isinstance(asked, _Asked):
            self._end_command(asked.line, Interrupted(why), [])
            return
        if self._closing and not asked.queued:
            self._queue(asked)
        self._emit(events.TurnEnded(turn=0, ending="interrupted", why=why))

    async def _do_chores(self) -> None:
        try:
            async for event in self._bench.after_turn():
                self._emit(event)
        except MindstoneError as error:
            self._complain(error)
        except Exception as error:  # a bug in the chores around a turn must not end the session
            self._desk.report_bug(error)

    async def _take_turn(self, said: _Said) -> None:
        """One turn under the lease; whatever happens, the stream hears how it ended."""
        turn, ended = 0, False

        def fail(ending: TurnEnding, why: str, remedy: str = "") -> None:
            if not ended:
                self._emit(events.TurnEnded(turn=turn, ending=ending, why=why, remedy=remedy))

        try:
            if not self._lease.try_take() and self._wait and not said.queued:
                said = self._queue(said)
            await self._take_lease()
            origin = "queued" if said.queued else "message"
            async for event in take_turn(self._desk, _message(said), origin):
                turn = event.turn if isinstance(event, events.TurnStarted) else turn
                ended = isinstance(event, events.TurnEnded)
                self._emit(event)
        except asyncio.CancelledError as cancelled:
            if not turn and self._closing and not said.queued:
                self._queue(said)
            elif said.queued and not turn and not self._closing:
                self._withdrawn(said.queued)
            fail("interrupted", str(cancelled) or "The person interrupted before the turn began.")
        except MindstoneError as error:
            if isinstance(error, NotSaved):
                self._complain(error)
            fail("failed", error.what, error.remedy)
        except Exception as error:  # a bug before the turn must not end the session, either
            self._desk.report_bug(error)
            fail("failed", str(error), "The log file has the details.")

    async def _change(self, asked: _Asked) -> None:
        """A command that changes the window, under the lease as a turn is."""
        try:
            await self._take_lease()
        except MindstoneError as error:
            self._end_command(asked.line, error, [])
        except asyncio.CancelledError as cancelled:
            self._end_command(asked.line, _interrupted(cancelled), [])
        else:
            await self._run_command(asked)

    async def _take_lease(self) -> None:
        """Have the right to a turn, with everything that others wrote taken in first."""
        key = self._bench.key

        def on_wait() -> None:
            self._emit(events.Noticed(message=f"Waiting: another program takes a turn in {key}."))

        await self._lease.take(wait=self._wait, on_wait=on_wait)
        self._bench.stop_tidying()
        self._bench.save_again()
        self._take_in(self._bench.catch_up())
        self._take_in(self._bench.close_open_turn())

    async def _run_command(self, asked: _Asked) -> None:
        """Run a command; its output is recorded, and part of no prompt."""
        text: list[str] = []
        failure: MindstoneError | None = None
        try:
            async for event in asked.command.handler(self._bench, asked.argument):
                if isinstance(event, events.CommandPrinted):
                    text.append(event.text)
                    if not event.ok:
                        failure = MindstoneError("")
                self._emit(event)
            if asked.command.changes_window:
                self._emit(events.ContextReported(report=self._desk.report()))
        except asyncio.CancelledError as cancelled:
            failure = _interrupted(cancelled)
        except MindstoneError as error:
            failure = error
        except Exception as error:  # a bug in a command ends the command, not the session
            self._desk.report_bug(error)
            what = f"Something went wrong that should not: {type(error).__name__}."
            failure = MindstoneError(what, "The log file has the details.")
        self._end_command(asked.line, failure, text)
        if asked.command.changes_window:
            run = CommandRun(command=asked.line, output="\n".join(text), ok=failure is None)
            with contextlib.suppress(NotSaved):
                self._desk.record(run, None)

    def _end_command(self, line: str, failure: MindstoneError | None, text: list[str]) -> None:
        """Say why a command failed, if it did, and that it is over."""
        if failure is not None and failure.what:
            message = f"{failure.what} {failure.remedy}".strip()
            text.append(message)
            self._emit(events.CommandPrinted(command=line, text=message, ok=False))
        code = ExitCode.DONE if failure is None else failure.exit_code
        self._emit(events.CommandEnded(command=line, ok=failure is None, exit_code=code))

    async def _follow(self) -> None:
        """Take in what another surface writes while we are idle."""
        async for _ in changes(self._bench.places.transcript):
            if not self._serving:
                try:
                    self._take_in(self._bench.catch_up())
                except MindstoneError as error:
                    self._complain(error)

    def _take_in(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._emit(_appeared(line))
        if lines:
            self._emit(events.ContextReported(report=self._desk.report()))


def _message(said: _Said) -> UserMessage:
    return UserMessage(text=said.text, images=said.images, queued=said.queued)


def _queued_as(asked: _Said | _Asked) -> str:
    return asked.queued if isinstance(asked, _Said) else ""


def _interrupted(cancelled: asyncio.CancelledError) -> Interrupted:
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    return Interrupted(str(cancelled) or "Interrupted.")


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
