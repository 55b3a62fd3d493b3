"""`mindstone serve`: the resident, for programs and browsers on this machine."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mindstone_tui.api import Home
from mindstone_tui.cli.options import JSON, given, switch
from mindstone_tui.cli.output import flush_output, hint, say, say_json
from mindstone_tui.core import errors, text

if TYPE_CHECKING:
    from mindstone_tui.servers.resident import Listening


def serve(
    port: int | None = given(
        None,
        "N",
        "Port on 127.0.0.1; 0 for any free one. Without it, serve.port.",
        "--port",
        min=0,
        max=65_535,
    ),
    background: bool = switch(
        "--background", "Start it in the background and return once it is listening."
    ),
    status: bool = switch("--status", "Show whether it is running, and where."),
    stop: bool = switch("--stop", "Stop the running server."),
    socket_only: bool = switch("--socket-only", "Serve local programs only, without a port."),
    on_demand: bool = typer.Option(False, "--on-demand", hidden=True),
    json: bool = JSON,
) -> None:
    """Serve these sessions to programs and browsers on this machine.

    OpenAI's chat completions and responses and Anthropic's messages, on 127.0.0.1 with a token.
    One resident for each home; docs/surfaces.md has the settings for clients.
    """
    home = Home()
    if sum((background, status, stop)) > 1:
        raise errors.UsageError("Choose one of --background, --status and --stop.", "See --help.")
    if status:
        raise typer.Exit(_status(home, json=json))
    if stop:
        raise typer.Exit(_stop(home))
    from mindstone_tui.servers.resident import Resident, start_in_background  # 132 ms

    settings = home.settings
    chosen = settings.serve.port if port is None else port
    linger = settings.attach.linger if on_demand else 0.0

    def ready(told: Listening) -> None:
        say_json(told) if json else _introduce(told)

    if not on_demand:
        make_room(home)
    if background:
        where = ["--socket-only"] if socket_only else ["--port", str(chosen)]
        ready(start_in_background(home.places, [*where, "--json"]))
        return
    http = not (socket_only or on_demand)
    asyncio.run(Resident(home).run(port=chosen, http=http, ready=ready, linger=linger))


def _introduce(told: Listening) -> None:
    if told.url:
        token = Path(told.token).read_text("ascii")
        say(f"{told.url}/#token={token}")
        hint(f"Programs use {told.url}/v1 with the token in {told.token}.")
    else:
        say(told.socket)
    flush_output()  # whoever reads it from a pipe waits for it
    hint(f"Process {told.pid}; `mindstone serve --stop` ends it.")


def _status(home: Home, *, json: bool) -> int:
    from mindstone_tui.servers.resident import ask, listening  # 132 ms

    if (found := listening(home.places)) is None:
        if json:
            say_json({"running": False})
        else:
            say("No server is running for this home. Start one with `mindstone serve`.")
        return 1
    told = asyncio.run(ask(found, "status", {}))
    if json:
        say_json({"running": True, **told})
    else:
        where = told["url"] or told["socket"]
        say(f"{where} · process {told['pid']} · {text.plural(told['requests'], 'request')}")
        hint(f"The token is in {told['token']}, the log beside it in serve.log.")
    return 0


def make_room(home: Home) -> None:
    """End the resident that a hook started: the one that a person starts does its work, too."""
    from mindstone_tui.servers.resident import listening  # 132 ms

    if (found := listening(home.places)) is not None and found.on_demand:
        _end(home, found)


def _stop(home: Home) -> int:
    from mindstone_tui.servers.resident import listening  # 132 ms

    if (found := listening(home.places)) is None:
        say("No server is running for this home.")
        return 0
    _end(home, found)
    say(f"Stopped process {found.pid}.")
    return 0


def _end(home: Home, found: Listening) -> None:
    from mindstone_tui.servers.resident import ask, listening  # 132 ms

    asyncio.run(ask(found, "stop", {}))
    until = time.monotonic() + 30
    while (now := listening(home.places)) is not None and now.pid == found.pid:
        if time.monotonic() > until:
            raise errors.MindstoneError(f"Process {found.pid} did not stop.", "End it yourself.")
        time.sleep(0.05)


def acp() -> None:
    """Act as an editor's agent over the Agent Client Protocol.

    It talks on standard streams: add it to Zed, JetBrains or Neovim as the command
    `mindstone acp`; docs/surfaces.md has examples. `mindstone config set acp.session main` lets
    new conversations go on with a session.
    """
    from mindstone_tui.servers.acp import serve  # 60 ms

    asyncio.run(serve(Home()))


def mcp(
    propose: bool = switch("--propose", "Let clients propose memories, for you to approve."),
) -> None:
    """Serve history and memory to other agents over MCP.

    Read-only. Add it to an agent as the command `mindstone mcp`; docs/surfaces.md has examples.
    """
    from mindstone_tui.servers.mcp import serve  # 46 ms

    # The library waits for its next line in a thread that nothing interrupts.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(serve(Home(folder=Path.cwd()), propose=propose))
