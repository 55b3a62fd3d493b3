"""`mindstone task`, `checkpoint`, `handoff`, `memory`, `health`: the slash commands as verbs.

Each runs the command of the same name in the session, so that there is one implementation and one
record. `--json` prints what the command has for programs.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from mindstone_tui.cli.options import JsonOption, SessionOption, places, session_key
from mindstone_tui.cli.output import complain, hint, say, say_json
from mindstone_tui.core import events
from mindstone_tui.core.errors import ExitCode

WordsArgument = Annotated[list[str] | None, typer.Argument(help="What to do; nothing shows it.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("task")(task)
    app.command("checkpoint")(checkpoint)
    app.command("handoff")(handoff)
    app.command("memory")(memory)
    app.command("health")(health)


def task(
    words: WordsArgument = None, session: SessionOption = "", json: JsonOption = False
) -> None:
    """Start a task, finish it, or show where it stands: start TITLE, done, show."""
    _run("task", words or ["show"], session, json=json)


def checkpoint(
    words: WordsArgument = None, session: SessionOption = "", json: JsonOption = False
) -> None:
    """Save the task's state or show it: save, show, resume.

    A stale, torn, edited or foreign checkpoint is refused with that word and exit code 1.
    """
    _run("checkpoint", words or ["show"], session, json=json)


def handoff(
    words: WordsArgument = None, session: SessionOption = "", json: JsonOption = False
) -> None:
    """Write a handoff for the next window, show it, or take it over: write, show, use."""
    _run("handoff", words or ["show"], session, json=json)


def memory(
    words: WordsArgument = None, session: SessionOption = "", json: JsonOption = False
) -> None:
    """Show what is remembered and proposed: show, add, approve, refuse, undo, consolidate."""
    if words and words[0] == "consolidate":
        _run("consolidate", words[1:], session, json=json)
    else:
        _run("memory", words or [], session, json=json)


def health(
    words: WordsArgument = None, session: SessionOption = "", json: JsonOption = False
) -> None:
    """Show the six measures of the working set, alerts and trend; `prometheus [FILE]` exports."""
    _run("health", words or [], session, json=json)


def _run(name: str, words: list[str], session: str, *, json: bool) -> None:
    line = " ".join([f"/{name}", *words])
    raise typer.Exit(asyncio.run(_command(line, session, json=json)))


async def _command(line: str, session: str, *, json: bool) -> ExitCode:
    # Deferred, so that help does not wait for the rooms behind it.
    from mindstone_tui.core.session.assembly import open_session
    from mindstone_tui.core.session.opening import Opening

    conversation = await open_session(
        Opening(
            key=session_key(session),
            places=places(),
            environ=dict(os.environ),
            cwd=Path.cwd(),
            channel="cli",
            asks=False,
            follow=False,
        )
    )
    conversation.command(line)
    ending = ExitCode.FAILED
    async for event in conversation.events():
        match event:
            case events.CommandPrinted(text=text, ok=True, data=data):
                say_json(data if data is not None else {"text": text}) if json else say(text)
            case events.CommandPrinted(text=text):
                complain(text)
            case events.Noticed(message=message):
                hint(message)
            case events.CommandEnded(ok=ok):
                ending = ExitCode.DONE if ok else ExitCode.FAILED
                break
            case _:
                pass
    await conversation.close()
    return ending
