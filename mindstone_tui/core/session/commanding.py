"""Running a slash command: its output and its end are announced, however it goes.

What a command prints is written down when it changed the window, and is part of no prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from mindstone_tui.core import events
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.errors import Bug, ExitCode, Interrupted, MindstoneError, NotSaved
from mindstone_tui.core.session.bench import SessionBench
from mindstone_tui.core.session.inbox import Asked

Emit = Callable[[events.AnyEvent], None]


async def run_command(asked: Asked, desk: Desk, bench: SessionBench, emit: Emit) -> None:
    """Run a command to its one end; never raises."""
    text: list[str] = []
    failure: MindstoneError | None = None
    try:
        async for event in asked.command.handler(bench, asked.argument):
            if isinstance(event, events.CommandPrinted):
                text.append(event.text)
                if not event.ok:
                    failure = MindstoneError("")
            emit(event)
        if asked.command.changes_window:
            emit(events.ContextReported(report=desk.report()))
    except asyncio.CancelledError as cancelled:
        failure = stopped(cancelled)
    except MindstoneError as error:
        failure = error
    except Exception as error:  # a bug in a command ends the command, not the session
        desk.report_bug(error)
        failure = Bug(error)
    if failure is not None and failure.what:
        text.append(failure.sentence)
    if asked.command.changes_window:
        run = CommandRun(command=asked.line, output="\n".join(text), ok=failure is None)
        with contextlib.suppress(NotSaved):
            desk.record(run, None)
    end_command(asked.line, failure, emit)


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
