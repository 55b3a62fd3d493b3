"""What was asked of a session and waits: messages, and commands that change the window.

A command runs to its one end here, whatever becomes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.entries import Image
from mindstone_tui.core.entries.conversation import ClientMatched, UserMessage
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.errors import (
    Bug,
    EntryNotSaved,
    ExitCode,
    Interrupted,
    MindstoneError,
    UsageError,
)
from mindstone_tui.core.session.features import Command, Feature, Say, WrongUse
from mindstone_tui.core.session.options import ForeignExchange


class SentMessage(msgspec.Struct, frozen=True):
    """A message on its way to a turn."""

    text: str
    images: tuple[Image, ...] = ()
    queued: str = ""
    """Id of the entry it waits in, once it had to wait."""
    before: tuple[ForeignExchange, ...] = ()
    """What took place elsewhere before it, to be written down first."""
    matched: ClientMatched | None = None
    """How the program that sent it knows this history; written down with the turn."""

    @property
    def message(self) -> UserMessage:
        """What its turn writes down."""
        return UserMessage(text=self.text, images=self.images, queued=self.queued)


class AskedCommand(msgspec.Struct, frozen=True):
    """A command on its way to be run."""

    feature: Feature
    command: Command
    line: str
    argument: str

    @property
    def changes_window(self) -> bool:
        """Whether this, with its argument, must wait until no turn is running."""
        first = self.argument.partition(" ")[0].lower()
        return self.command.changes_window and first not in self.command.looks


Item = SentMessage | AskedCommand


class Inbox:
    """First come, first served; `idle` is set while nothing waits and nothing is done."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        self.idle.set()
        self.serving = False
        self._waiting: deque[Item] = deque()
        self._knock = asyncio.Event()

    def put(self, item: Item, *, first: bool = False) -> None:
        """Ask for something, after everything else or before it."""
        self.idle.clear()
        if first:
            self._waiting.appendleft(item)
        else:
            self._waiting.append(item)
        self._knock.set()

    async def take(self) -> Item:
        """The next thing to do; `done` must follow."""
        while not self._waiting:
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

    def take_back(self, queued: str) -> bool:
        """Remove a queued message; False when it does not wait any more."""
        for item in self._waiting:
            if isinstance(item, SentMessage) and item.queued == queued:
                self._waiting.remove(item)
                return True
        return False

    def empty(self) -> list[Item]:
        """Take everything out."""
        items = list(self._waiting)
        self._waiting.clear()
        if not self.serving:
            self.idle.set()
        return items


Emit = Callable[[events.AnyEvent], None]


async def run_command(asked: AskedCommand, context: TurnContext, emit: Emit) -> Say | None:
    """Run a command to its one end; never raises. What it wants said is the next message."""
    text: list[str] = []
    failure: MindstoneError | None = None
    try:
        async for event in asked.command.handler(asked.feature, asked.argument):
            if isinstance(event, Say):
                return event
            if isinstance(event, events.CommandPrinted):
                event = msgspec.structs.replace(event, typed=asked.line)
                text.append(event.text)
                if not event.ok:
                    failure = MindstoneError("")
            emit(event)
        if asked.changes_window and context.reports:
            emit(events.ContextReported(report=context.report()))
    except asyncio.CancelledError as cancelled:
        failure = stopped(cancelled)
    except WrongUse as error:
        failure = UsageError(error.what, f"Usage: {asked.command.synopsis}")
    except MindstoneError as error:
        failure = error
    except Exception as error:  # a bug in a command ends the command, not the session
        context.report_bug(error)
        failure = Bug(error)
    if failure is not None and failure.what:
        text.append(failure.sentence)
    if asked.changes_window:
        run = CommandRun(command=asked.line, output="\n".join(text), ok=failure is None)
        with contextlib.suppress(EntryNotSaved):
            context.window.record(run)
    end_command(asked.line, failure, emit)
    return None


def end_command(line: str, failure: MindstoneError | None, emit: Emit) -> None:
    """Say why a command failed, if it did, and that it is over."""
    if failure is not None and failure.what:
        emit(events.CommandPrinted(command=line, text=failure.sentence, ok=False))
    code = ExitCode.DONE if failure is None else failure.exit_code
    emit(events.CommandEnded(command=line, ok=failure is None, exit_code=code))


def stopped(cancelled: asyncio.CancelledError) -> Interrupted:
    """A cancellation as the end of what was cancelled, not of the task."""
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    return Interrupted(str(cancelled) or "Interrupted.")
