"""`mindstone run`: one turn without a screen, for pipes, scripts and cron."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from mindstone_tui.cli.options import JsonOption, ProfileOption, SessionOption, places, session_key
from mindstone_tui.cli.output import complain, hint, say_raw, say_raw_json
from mindstone_tui.core import events
from mindstone_tui.core.errors import ExitCode, MindstoneError, UsageError
from mindstone_tui.core.foreign import for_terminal
from mindstone_tui.core.session.opening import Opening, open_session
from mindstone_tui.core.session.session import Session

ModelOption = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME", help="Who answers this turn.")
]
WindowOption = Annotated[
    int,
    typer.Option("--context-window", metavar="TOKENS", min=0, help="The model's window, if known."),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run)


def run(
    prompt: Annotated[
        str, typer.Argument(help="What to ask, or a slash command; `-` or nothing reads stdin.")
    ] = "",
    session: SessionOption = "",
    json: JsonOption = False,
    model: ModelOption = "",
    context_window: WindowOption = 0,
    profile: ProfileOption = "",
    cwd: Annotated[
        Path | None, typer.Option(help="Folder the tools work in; the current one by default.")
    ] = None,
    approve: Annotated[
        str,
        typer.Option(metavar="MODE", help="read-only, ask, auto-edit or full-auto, for this turn."),
    ] = "",
    max_rounds: Annotated[
        int, typer.Option(min=0, help="Model calls in one turn; 0 takes the setting.")
    ] = 0,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds the turn may take; 0 for no limit.")
    ] = 0.0,
    image: Annotated[list[Path] | None, typer.Option(help="A picture to look at.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer.")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Refuse when another program takes a turn.")
    ] = False,
) -> None:
    """Take one turn and print the answer.

    With --json every event is one line, as it happens. Exit code 0 done, 1 failed, 2 wrong use,
    130 interrupted.
    """
    opening = Opening(
        key=session_key(session),
        places=places(),
        environ=dict(os.environ),
        channel="run",
        model=model,
        context_window=context_window,
        profile=profile,
        cwd=(cwd or Path.cwd()).absolute(),
        approve=approve,
        max_rounds=max_rounds,
        wait=not no_wait,
        asks=False,
        follow=False,
    )
    show = _Events() if json else _Words(quiet=quiet)
    ending = asyncio.run(_take(opening, _prompt(prompt), image or [], timeout, show))
    raise typer.Exit(ending)


def _prompt(argument: str) -> str:
    """What to ask: the argument, or all of stdin."""
    if argument and argument != "-":
        return argument
    if argument != "-" and sys.stdin.isatty():
        raise UsageError("There is nothing to ask.", 'Write it: mindstone run "…"')
    text = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    if not text:
        raise UsageError("There is nothing to ask: stdin was empty.", "Pipe some text in.")
    return text


async def _take(
    opening: Opening, prompt: str, images: list[Path], timeout: float, show: _Show
) -> ExitCode:
    conversation = await open_session(opening)
    with _interrupts(conversation):
        try:
            limit = timeout or None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit) as clock:
                    return await _converse(conversation, prompt, images, show)
            assert clock.expired()
            complain(f"The turn took longer than {timeout:g} seconds.", "Raise --timeout.")
            return ExitCode.FAILED
        finally:
            await conversation.close()
            async for event in conversation.events():
                show.event(event)


async def _converse(
    conversation: Session, prompt: str, images: list[Path], show: _Show
) -> ExitCode:
    """Hand the prompt in and show everything until it is answered."""
    is_command = prompt.startswith("/") and "\n" not in prompt
    if is_command:
        conversation.command(prompt)
    else:
        attachments = [events.Attachment(path=path) for path in images]
        conversation.send(prompt, attachments=attachments)
    ok = True
    settled = asyncio.create_task(conversation.settled())
    async for event in conversation.events():
        show.event(event)
        match event:
            case events.CommandPrinted(ok=False):
                ok = False
            case events.TurnEnded(ending=ending):
                return _exit_code(ending)
            case events.Noticed(level="error") if not is_command:
                return ExitCode.FAILED
            case _:
                pass
        if is_command and isinstance(event, events.CommandPrinted | events.ScreenAsked):
            await settled
            show.rest(conversation)
            return ExitCode.DONE if ok else ExitCode.FAILED
    return ExitCode.DONE


def _exit_code(ending: str) -> ExitCode:
    if ending == "done":
        return ExitCode.DONE
    return ExitCode.INTERRUPTED if ending == "interrupted" else ExitCode.FAILED
