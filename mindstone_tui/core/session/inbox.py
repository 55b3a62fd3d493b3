"""What was asked of a session and waits, and everything that it announces.

Messages wait, and commands that change the window. A command runs to its one end here, whatever
becomes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeGuard

import msgspec

from mindstone_tui.core import errors, events
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.hooks import AlertHooks
from mindstone_tui.core.entries import Image, conversation, store
from mindstone_tui.core.session.features import Command, Feature, Say, WrongUse
from mindstone_tui.core.session.options import ForeignExchange

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices

_REMEMBERED: Final = 1_000
"""Announcements of new lines for which it is known when they were made."""


async def unhurried(items: Iterable[ForeignExchange]) -> AsyncIterator[ForeignExchange]:
    """One after the other, and others' work in between: each may take a while to be written."""
    for each in items:
        yield each
        await asyncio.sleep(0)


class SentMessage(msgspec.Struct, frozen=True):
    """A message on its way to a turn."""

    text: str
    images: tuple[Image, ...] = ()
    queued: str = ""
    """Id of the entry it waits in, once it had to wait."""
    before: tuple[ForeignExchange, ...] = ()
    """What took place elsewhere before it, to be written down first."""
    matched: conversation.ClientMatched | None = None
    """How the program that sent it knows this history; written down with the turn."""
    added: tuple[str, str] = ("", "")
    """What that program put before and behind the words."""

    @property
    def again(self) -> bool:
        """Whether the same was said before and its turn is open, because the model failed."""
        return self.matched is not None and self.matched.action == "retried"

    @property
    def message(self) -> conversation.UserMessage:
        """What its turn writes down."""
        note, after = self.added
        return conversation.UserMessage(
            text=self.text, images=self.images, queued=self.queued, note=note, after=after
        )


class AskedCommand(msgspec.Struct, frozen=True):
    """A command on its way to be run."""

    feature: Feature
    command: Command
    line: str
    argument: str
    how: str = ""
    seen: float = 0.0
    at: int = 0
    """The newest line that could be read when its first letter was written: it means none after."""

    @property
    def changes_window(self) -> bool:
        """Whether this, with its argument, must wait until no turn is running."""
        first = self.argument.partition(" ")[0].lower()
        return self.command.changes_window and first not in self.command.looks


class LeftTurn(msgspec.Struct, frozen=True):
    """A turn that a program left waiting for an answer, to be gone on with."""


Item = SentMessage | AskedCommand | LeftTurn
Emit = Callable[[events.AnyEvent], None]


def _is_queued(item: Item) -> TypeGuard[SentMessage]:
    return isinstance(item, SentMessage) and bool(item.queued)


GO_BACK: Final = frozenset({"undo", "redo", "rewind"})
"""Commands about what was done last: while a turn runs, nobody can know what that will be."""
STOP_THERE: Final = events.Noticed(
    message="This turn runs elsewhere: stop it there. From here it stops only at a question.",
    level="warning",
)
AFTER_THE_TURN: Final = (
    "A turn is running: {} waits for its end. Stopping it, or leaving, drops it."
)
NOT_DURING_A_TURN: Final = (
    "A turn is running, and what it does until its end would be taken back with the rest.",
    "Stop it with Esc, or say it again when it is over.",
)


class Inbox:
    """First come, first served; `idle` is set while nothing waits and nothing is done."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        self.idle.set()
        self.serving = False
        self._attended = True
        self._waiting: deque[Item] = deque()
        self._knock = asyncio.Event()

    def put(self, item: Item, *, first: bool = False) -> None:
        """Ask for something, after everything else or before it."""
        self.idle.clear()
        self._waiting.appendleft(item) if first else self._waiting.append(item)
        self._knock.set()

    async def take(self) -> Item:
        """The next thing to do; `done` must follow.

        What was queued begins only while somebody is there who could be asked about it.
        """
        while not self._waiting or (not self._attended and _is_queued(self._waiting[0])):
            self._knock.clear()
            await self._knock.wait()
        self.serving = True
        return self._waiting.popleft()

    def done(self) -> bool:
        """What was taken is done; whether there is nothing else."""
        self.serving = False
        if not self._waiting:
            self.idle.set()
        return not self._waiting

    def attend(self, somebody: bool) -> None:
        """Say whether anybody is there."""
        self._attended = somebody
        self._knock.set()

    def take_back(
        self, steering: list[conversation.UserMessage], queued: str = ""
    ) -> list[conversation.UserMessage]:
        """Remove a queued message, or all, also from those that steer; the newest first."""
        found = [one for one in self._waiting if _is_queued(one) and queued in ("", one.queued)]
        for one in found:
            self._waiting.remove(one)
        if not self._waiting and not self.serving:
            self.idle.set()
        steers = [one for one in steering if queued in ("", one.queued)]
        steering[:] = [one for one in steering if one not in steers]
        return [*steers, *(one.message for one in found)][::-1]

    def drop_commands(self, why: str, emit: Emit) -> None:
        """End the commands that wait for a turn's end, and say so: they are not run."""
        for one in [one for one in self._waiting if isinstance(one, AskedCommand)]:
            self._waiting.remove(one)
            end_command(one.line, errors.Interrupted(f"{one.line} was not run: {why}."), emit)

    def empty(self) -> list[Item]:
        """Take everything out."""
        items = list(self._waiting)
        self._waiting.clear()
        if not self.serving:
            self.idle.set()
        return items


class Outbox:
    """Everything that a client hears, in one order; it has one reader."""

    def __init__(self, services: SessionServices) -> None:
        self._services = services
        self._context = context = services.context
        self._returned: list[SentMessage] = []
        """No turn took these in, and nobody sent them again."""
        self._stream: asyncio.Queue[events.AnyEvent] = asyncio.Queue()
        self._complained: set[str] = set()
        self._heads: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        """The newest line each time that something was announced, and when."""
        self._alert_hooks = AlertHooks(context.hooks)
        context.window.on_saved = lambda entries: self.emit(events.SavedAgain(entries=entries))

    async def stream(self) -> AsyncIterator[events.AnyEvent]:
        """Everything that happens, in order, until the session is closed."""
        while True:
            event = await self._stream.get()
            yield event
            if isinstance(event, events.SessionClosed):
                return

    def emit(self, event: events.AnyEvent) -> None:
        """Announce something."""
        self._stream.put_nowait(event)
        head = self._context.transcript.head.seq
        if not self._heads or self._heads[-1][1] != head:
            self._heads.append((time.monotonic(), head))
        if isinstance(event, events.NotSaved):
            self._complained.add(event.what)
        self._alert_hooks.hear(event)

    def read_before(self, seconds: float) -> int:
        """The newest line that was announced so many seconds ago; ours, whatever clocks say."""
        if seconds <= 0:
            return self._context.transcript.head.seq
        then = time.monotonic() - seconds
        known = (seq for at, seq in reversed(self._heads) if at <= then)
        return next(known, self._heads[0][1] if self._heads else -1)

    def report(self) -> None:
        """Tell how the window stands, if somebody looks."""
        if self._context.reports:
            self.emit(events.ContextReported(report=self._context.report()))

    def begin(self, text: str) -> None:
        """A turn begins with these words: what went wrong before it may be said again."""
        self._complained.clear()
        self._returned = [one for one in self._returned if one.text != text]

    def hand_back(self, said: SentMessage) -> None:
        """Return a message that no turn took in; a file holds it until it is sent again."""
        self._returned.append(said)
        self.emit(events.MessageReturned(text=said.text, path=str(self.rescue() or "")))

    def rescue(self) -> Path | None:
        """Put words that are not in history into a file; None if there is none, or no place."""
        with contextlib.suppress(errors.MindstoneError, OSError):
            return self._services.rescue([said.message for said in self._returned])
        return None

    def complain(self, error: errors.MindstoneError) -> None:
        """Say what went wrong: once until a turn begins again, however often it is met."""
        if error.what in self._complained:
            return
        self._complained.add(error.what)
        if isinstance(error, errors.EntryNotSaved):
            unsaved = len(self._context.transcript.unsaved)
            self.emit(events.NotSaved(what=error.what, remedy=error.remedy, unsaved=unsaved))
        else:
            self.emit(events.Noticed(message=error.sentence, level="error"))

    def queue(self, said: SentMessage) -> SentMessage:
        """Put a message on disk that has to wait for its turn."""
        try:
            line = self._context.window.record(
                conversation.MessageQueued(text=said.text, images=said.images)
            )
        except errors.MindstoneError as error:
            self.complain(error)
            return said
        text = line.entry.text if isinstance(line.entry, conversation.MessageQueued) else said.text
        self.emit(events.MessageQueued(entry=line.id, text=text))
        return msgspec.structs.replace(said, queued=line.id)

    def withdrawn(self, entry: str, text: str = "") -> None:
        """Write down that a queued message was taken back; with its words they go to a prompt."""
        try:
            self._context.window.record(conversation.MessageWithdrawn(queued=entry))
        except errors.MindstoneError as error:
            self.complain(error)
        self.emit(events.MessageWithdrawn(entry=entry, text=text))

    def give_back(self, waiting: Inbox) -> None:
        """Hand what waits behind a turn that was stopped to whoever queued it here."""
        waiting.drop_commands("the turn before it was stopped", self.emit)
        for said in waiting.take_back(self._context.steering):
            self.withdrawn(said.queued, said.text)

    async def close(self) -> None:
        """Let the hooks end that were told of alerts."""
        await self._alert_hooks.close()


async def run_command(asked: AskedCommand, context: TurnContext, emit: Emit) -> Say | None:
    """Run a command to its one end; never raises. What it wants said is the next message."""
    text: list[str] = []
    failure: errors.MindstoneError | None = None
    typed = f"typed {' '.join(asked.line.split()[:2])}"
    context.hand = (asked.how or typed, asked.seen)  # read before it waits for anything
    context.read_through = asked.at
    try:
        async for given in asked.command.handler(asked.feature, asked.argument):
            if isinstance(given, Say):
                return given
            for event in given if isinstance(given, Sequence) else (given,):
                if isinstance(event, events.CommandPrinted):
                    text.append(event.text)
                    failure = failure if event.ok else errors.MindstoneError("")
                    name = event.command or asked.command.name
                    emit(msgspec.structs.replace(event, command=name, typed=asked.line))
                else:
                    emit(event)
        if asked.changes_window and context.reports:
            emit(events.ContextReported(report=context.report()))
    except asyncio.CancelledError as cancelled:
        failure = stopped(cancelled)
    except WrongUse as error:
        failure = errors.UsageError(error.what, f"Usage: {asked.command.synopsis}")
    except errors.MindstoneError as error:
        failure = error
    except Exception as error:  # a bug in a command ends the command, not the session
        context.report_bug(error)
        failure = errors.Bug(error)
    if failure is not None and failure.what:
        text.append(failure.sentence)
    if asked.changes_window:
        run = store.CommandRun(command=asked.line, output="\n".join(text), ok=failure is None)
        with contextlib.suppress(errors.EntryNotSaved):
            context.window.record(run)
    end_command(asked.line, failure, emit)
    return None


def end_command(line: str, failure: errors.MindstoneError | None, emit: Emit) -> None:
    """Say why a command failed, if it did, and that it is over."""
    if failure is not None and failure.what:
        emit(events.CommandPrinted(command=line, text=failure.sentence, ok=False))
    code = errors.ExitCode.DONE if failure is None else failure.exit_code
    emit(events.CommandEnded(command=line, ok=failure is None, exit_code=code))


def stopped(cancelled: asyncio.CancelledError) -> errors.Interrupted:
    """A cancellation as the end of what was cancelled, not of the task."""
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    return errors.Interrupted(str(cancelled) or "Interrupted.")
