"""`mindstone acp`: an agent for editors."""

from __future__ import annotations

import asyncio

import typer

from mindstone_tui.api import Home


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("acp")(acp)


def acp() -> None:
    """Act as an editor's agent over the Agent Client Protocol.

    It talks on standard streams: add it to Zed, JetBrains or Neovim as the command
    `mindstone acp`; docs/surfaces.md has examples. `mindstone config set acp.session main` lets
    new conversations go on with a session.
    """
    from mindstone_tui.servers.acp import serve

    asyncio.run(serve(Home()))
