"""`mindstone mcp`: history and memory for other agents."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from mindstone_tui.api import Home


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("mcp")(mcp)


def mcp(
    propose: Annotated[
        bool,
        typer.Option("--propose", help="Let clients propose memories, for you to approve."),
    ] = False,
) -> None:
    """Serve history and memory to other agents over MCP.

    Read-only. Add it to an agent as the command `mindstone mcp`; docs/surfaces.md has examples.
    """
    from mindstone_tui.servers.mcp import serve

    # The library waits for its next line in a thread that nothing interrupts.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(serve(Home(), propose=propose))
