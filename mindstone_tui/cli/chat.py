"""`mindstone`, or `mindstone chat`: the app on a session."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mindstone_tui.cli.app import can_ask, has_terminal, start
from mindstone_tui.cli.options import ProfileOption, SessionOption, places, session_key
from mindstone_tui.cli.talk import FolderOption, ModelOption, WindowOption, working_folder
from mindstone_tui.core.config import load
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import Conversation
from mindstone_tui.core.paths import SessionKey


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("chat")(chat)


def chat(
    session: SessionOption = "",
    model: ModelOption = "",
    context_window: WindowOption = 0,
    profile: ProfileOption = "",
    cwd: FolderOption = None,
    approve: Annotated[
        str, typer.Option(metavar="MODE", help="read-only, ask, auto-edit or full-auto.")
    ] = "",
    at: Annotated[
        str,
        typer.Option(metavar="PLACE", help="Show history first, at a line, its id, or `turn 7`."),
    ] = "",
    plain: Annotated[
        bool, typer.Option("--plain", help="Chat in lines, without taking the screen.")
    ] = False,
) -> None:
    """Open the app on a session; without a terminal, chat in lines.

    `mindstone` alone does the same on the default session.
    """
    home = places()
    key = session_key(session)
    folder = working_folder(cwd)
    settings = load(home, os.environ, profile=profile, project=folder).settings
    plain = plain or not has_terminal()
    if plain and at:
        raise UsageError(
            "--at shows history in the app, which needs a terminal.",
            "In lines: `mindstone log`, or `mindstone replay --plain --at TURN`.",
        )

    async def open_conversation(name: str) -> Conversation:
        # Deferred: the first picture must not wait for the rooms behind it.
        from mindstone_tui.core.session.build import Opening, open_session

        return await open_session(
            Opening(
                key=SessionKey.parse(name) if name else key,
                places=home,
                environ=dict(os.environ),
                channel="cli" if plain else "tui",
                model=model,
                context_window=context_window,
                profile=profile,
                cwd=folder,
                approve=approve,
                asks=can_ask(),
            )
        )

    from mindstone_tui.cli.surroundings import surroundings

    around = surroundings(home, settings, str(key), folder, at=at.removeprefix("#"))
    raise typer.Exit(start(open_conversation, around, plain=plain))
