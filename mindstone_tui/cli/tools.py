"""`mindstone tools`: tool servers (MCP) that sessions may use."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from mindstone_tui.cli.options import JSON, given, places, switch
from mindstone_tui.cli.output import flush_output, hint, say, say_json, table
from mindstone_tui.core import config
from mindstone_tui.core.config.settings import McpServerSettings
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.tool_servers import (
    add_servers,
    log_in,
    remove_server,
    server_named,
    servers_in,
    tool_servers,
    try_server,
)
from mindstone_tui.core.text import one_line

tools_app = typer.Typer(
    help="Add, list, try and remove tool servers (MCP).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]
REPLACE = switch("--replace", "Replace a server that has this name.")


@tools_app.command("add")
def add(
    name: NameArgument,
    command: list[str] | None = typer.Argument(
        None, metavar="[-- COMMAND ARGS…]", help="Program that speaks MCP, after --."
    ),
    url: str = given("", "URL", "Address, instead of a command.", "--url"),
    env: list[str] | None = given(None, "NAME=VALUE", "Variable for the command.", "--env"),
    header: list[str] | None = given(None, "NAME: VALUE", "Header for the address.", "--header"),
    replace: bool = REPLACE,
) -> None:
    """Add a tool server to your settings: a command after --, or --url."""
    if bool(command) == bool(url):
        raise UsageError(
            "A tool server is a command or an address.",
            f"Write `mindstone tools add {name} -- COMMAND ARGS…` or `… --url URL`.",
        )
    told: dict[str, object] = {
        "env": dict(_pair(each, "=", "--env") for each in env or ()),
        "headers": dict(_pair(each, ":", "--header") for each in header or ()),
        **({"command": command} if command else {"url": url}),
    }
    file = add_servers(places(), {name: told}, replace=replace)
    hint(f"{name} is in {file}. `mindstone tools test {name}` starts it and lists its tools.")


@tools_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="mcp.json of another program.")],
    replace: bool = REPLACE,
) -> None:
    """Take over the tool servers that another program's mcp.json names."""
    told = servers_in(file)
    kept = add_servers(places(), told, replace=replace)
    hint(f"{', '.join(told)}: in {kept} now.")


@tools_app.command("list")
def list_servers(json: bool = JSON) -> None:
    """List the tool servers of your settings; values of variables and headers are not shown."""
    known = tool_servers(places())
    if json:
        say_json({"servers": [_about(name, each) for name, each in known.items()]})
    elif not known:
        hint("There is none. `mindstone tools add NAME -- COMMAND ARGS…` adds one.")
    else:
        rows = [
            [name, "on" if each.enabled else "off", one_line(each.url or " ".join(each.command))]
            for name, each in known.items()
        ]
        table(["SERVER", "OFFERED", "COMMAND OR ADDRESS"], rows)


@tools_app.command("remove")
def remove(name: NameArgument) -> None:
    """Remove a tool server from your settings."""
    hint(f"{name} is no longer in {remove_server(places(), name)}.")


@tools_app.command("test")
def try_out(name: NameArgument, json: bool = JSON) -> None:
    """Start a tool server, list its tools, and say what they cost in every prompt."""
    found = server_named(tool_servers(places()), name)
    model = config.load(places(), os.environ).settings.models.default
    tokens = places().tool_tokens
    tried = asyncio.run(try_server(name, found, os.environ, Path.cwd(), model, tokens))
    if json:
        say_json({**msgspec.structs.asdict(tried), "tokens": tried.tokens})
        return
    rows = [[each.name, f"{each.tokens:,}", one_line(each.description, 80)] for each in tried.tools]
    table(["TOOL", "TOKENS", "WHAT IT DOES"], rows)
    for why in tried.ignored:
        hint(f"not usable: {why}")
    say(f"{len(tried.tools)} tools, about {tried.tokens:,} tokens in every prompt.")


@tools_app.command("login")
def login(name: NameArgument) -> None:
    """Sign in to a remote tool server, in a browser. What it gives is kept in your state folder."""

    def show(address: str) -> None:
        hint(f"Open this address in a browser on this machine, and let MindStone use {name}:")
        say(address)
        flush_output()  # whoever reads it from a pipe waits for it

    signed_in = asyncio.run(log_in(places(), name, show))
    asked = f"{name} asked for no sign-in; it is used as it is."
    hint(f"Signed in to {name}." if signed_in else asked)


def _about(name: str, each: McpServerSettings) -> dict[str, object]:
    return {
        "name": name,
        "command": list(each.command),
        "url": each.url,
        "env": sorted(each.env),
        "headers": sorted(each.headers),
        "enabled": each.enabled,
    }


def _pair(text: str, between: str, option: str) -> tuple[str, str]:
    name, found, value = text.partition(between)
    if not found or not name.strip():
        raise UsageError(f"{option} {text!r} has no {between!r}.", f"Write NAME{between}VALUE.")
    return name.strip(), value.strip() if between == ":" else value
