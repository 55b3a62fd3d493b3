"""Starting the app on a terminal, or the line-mode chat where there is none."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mindstone_tui.core.errors import UsageError

if TYPE_CHECKING:
    from mindstone_tui.tui.ports import OpenConversation, Surroundings


def start(open_conversation: OpenConversation, around: Surroundings, *, plain: bool = False) -> int:
    """Open a conversation in the best way this terminal allows; returns the exit code."""
    if plain or not has_terminal():
        return asyncio.run(_in_lines(open_conversation, around.session))
    check_terminal(os.environ)
    # Textual is the larger part of the start; a pipe does not need it.
    from mindstone_tui.tui.app import MindstoneApp

    app = MindstoneApp(open_conversation, around)
    code = app.run(mouse=around.settings.mouse)
    return app.return_code or code or 0


def check_terminal(environ: Mapping[str, str]) -> None:
    """Raise where a screen cannot be drawn."""
    if environ.get("TERM", "") in ("", "dumb", "unknown"):
        name = environ.get("TERM") or "unset"
        raise UsageError(
            f"The app cannot draw on this terminal (TERM is {name}).",
            "`mindstone --plain` chats in lines on any terminal.",
        )


def has_terminal() -> bool:
    """Whether a person sits at a terminal that an app can take."""
    # Textual draws on stderr and reads the keyboard from stdin.
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def can_ask() -> bool:
    """Whether a person can be shown a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _in_lines(open_conversation: OpenConversation, session: str) -> int:
    from mindstone_tui.cli.plain import converse

    talk = await open_conversation(session)
    return await converse(talk, interactive=can_ask())
