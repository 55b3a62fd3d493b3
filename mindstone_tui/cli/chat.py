"""`mindstone`, or `mindstone chat`: the app on a session."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mindstone_tui.cli import options, output
from mindstone_tui.cli.options import given, switch
from mindstone_tui.core import errors, paths, text
from mindstone_tui.core.config import load

if TYPE_CHECKING:
    from mindstone_tui.core.events import Conversation
    from mindstone_tui.tui.host import AppHost, OpenConversation


def start(open_conversation: OpenConversation, host: AppHost, *, plain: bool = False) -> int:
    """Open the app, or the line chat where there is no terminal; returns the exit code."""
    if plain or not has_terminal():
        return asyncio.run(_in_lines(open_conversation, host.session))
    check_terminal(os.environ)
    # Textual is the larger part of the start; a pipe does not need it.
    from mindstone_tui.tui.app import MindstoneApp

    app = MindstoneApp(open_conversation, host)
    code = app.run(mouse=host.settings.mouse)
    for noticed in app.chat.parting or ():
        typer.echo(text.exact(noticed), err=True)
    if unsent := app.unsent:
        typer.echo(f"Not sent, and in the prompt at the next start: {text.exact(unsent)}", err=True)
    if app.leaves_open:
        typer.echo(f"A question stays open: `{output.own_command()} waiting` lists it.", err=True)
    if name := app.resume_name:
        typer.echo(f"Resume: {output.own_command()} -s {name}", err=True)
    return app.return_code or code or 0


def check_terminal(environ: Mapping[str, str]) -> None:
    """Raise if the terminal cannot show the app."""
    if environ.get("TERM", "") in ("", "dumb", "unknown"):
        name = environ.get("TERM") or "unset"
        raise errors.UsageError(
            f"The app cannot run on this terminal (TERM is {name}).",
            "Use `mindstone --plain`, a line-by-line chat that works on any terminal.",
        )


def has_terminal() -> bool:
    """Whether there is a terminal for the app."""
    # Textual draws on stderr and reads the keyboard from stdin.
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def can_ask() -> bool:
    """Whether a person is there to answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _in_lines(open_conversation: OpenConversation, session: str) -> int:
    from mindstone_tui.cli.line_chat import converse  # 19 ms

    return await converse(await open_conversation(session), interactive=can_ask())


def _several_in(home: paths.Places, folder: Path) -> str:
    """The folder's project if it has more than one session; empty otherwise."""
    from mindstone_tui.core.library.projects import sessions_held_in  # as `Home.key` does

    project = paths.project_of(folder.resolve())
    return str(project) if len(list(islice(sessions_held_in(home, project), 2))) > 1 else ""


def chat(
    session: str = options.SESSION,
    model: str = options.MODEL,
    context_window: int = options.WINDOW,
    profile: str = options.PROFILE,
    cwd: Path | None = options.FOLDER,
    approve: str = given("", "MODE", "read-only, ask, auto-edit or full-auto."),
    at: str = given("", "PLACE", "Open the transcript at a line number, an entry id or `turn 7`."),
    plain: bool = switch("--plain", "Chat line by line instead of opening the app."),
) -> None:
    """Open the app; without a terminal, chat line by line.

    `mindstone` alone does the same: it goes on with the last session of this folder's project, and
    lists them first if there are several.
    """
    home = options.places()
    folder = options.working_folder(cwd)
    key = options.session_key(session, folder)
    settings = load(home, os.environ, profile=profile, project=folder).settings
    if not plain and sys.stdin.isatty() and sys.stdout.isatty() and not sys.stderr.isatty():
        typer.echo("The app draws on standard error, which goes elsewhere: chatting line by line.")
    plain = plain or not has_terminal()
    if plain and at:
        raise errors.UsageError(
            "--at opens the transcript browser, which needs a terminal.",
            "Without one: `mindstone log`, or `mindstone replay --plain --at TURN`.",
        )

    async def open_conversation(name: str) -> Conversation:
        from mindstone_tui.api import connect  # the first picture does not wait for it

        return await connect(
            name or str(key),
            channel="cli" if plain else "tui",
            model=model,
            context_window=context_window,
            profile=profile,
            cwd=folder,
            approve=approve,
            asks=can_ask(),
        )

    from mindstone_tui.cli.app_host import host_for  # 154 ms

    named = session or settings.session.default or at or plain
    offers = "" if named else _several_in(home, folder)
    host = host_for(home, settings, str(key), folder, at=at.removeprefix("#"), offers=offers)
    raise typer.Exit(start(open_conversation, host, plain=plain))
