"""Tool servers by name: added to the settings, taken over from other programs, tried, removed.

What is tried is started for that moment, and nothing of it is offered to a model: a session pins
what it sees, and a person allows what runs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mindstone_tui.core import disk, errors, text, values
from mindstone_tui.core.config import edit, load
from mindstone_tui.core.config.load import SERVERS, server_of, store
from mindstone_tui.core.config.settings import McpServerSettings
from mindstone_tui.core.interchange.json_edit import without_extras
from mindstone_tui.core.paths import Places
from mindstone_tui.core.tokens import counter_for
from mindstone_tui.core.tools.mcp import NAME, McpServer
from mindstone_tui.core.tools.sign_in import sign_in


class TriedTool(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """One tool, and what its declaration costs in every prompt."""

    name: str
    description: str
    tokens: int


class TriedServer(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """What a server offers when it is started now."""

    name: str
    tools: tuple[TriedTool, ...]
    ignored: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """What all of it costs."""
        return sum(tool.tokens for tool in self.tools)


def tool_servers(places: Places) -> dict[str, McpServerSettings]:
    """The servers of the user's own settings."""
    return dict(load(places, {}).settings.tools.mcp)


def add_servers(places: Places, told: Mapping[str, object], *, replace: bool = False) -> Path:
    """Keep these servers, given in the shape that every program knows; the file is returned."""
    known = tool_servers(places)
    for name, each in told.items():
        if not NAME.match(name) or "__" in name:
            raise errors.UsageError(
                f"{name!r} cannot be a server's name.", "Use letters, digits, - and single _."
            )
        if name in known and not replace:
            raise errors.UsageError(
                f"There is a tool server {name} already.",
                f"Remove it first, with `mindstone tools remove {name}`, or give --replace.",
            )
        known[name] = server_of(name, each)
    return _keep(places, known)


def remove_server(places: Places, name: str) -> Path:
    """Forget a server; the file that was changed is returned."""
    known = tool_servers(places)
    server_named(known, name)
    (places.tool_tokens / f"{name}.json").unlink(missing_ok=True)
    return _keep(places, {own: each for own, each in known.items() if own != name})


def server_named(known: Mapping[str, McpServerSettings], name: str) -> McpServerSettings:
    """The server of that name, or an error that lists those there are."""
    if name in known:
        return known[name]
    there = f"There are: {', '.join(known)}." if known else "`mindstone tools add` adds one."
    raise errors.UnknownName(f"There is no tool server {name}.", there)


def servers_in(file: Path) -> dict[str, object]:
    """The servers that a file of another program names, as it names them."""
    try:
        told = msgspec.json.decode(without_extras(disk.read_regular(file).decode()))
    except OSError as error:
        raise disk.place_error(file, error) from error
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise errors.InterchangeError(
            f"{file} is not JSON: {error}.", "Name an mcp.json."
        ) from None
    for key in ("mcpServers", "servers", "mcp"):
        if isinstance(told, dict) and isinstance(found := told.get(key), dict) and found:
            return {str(name): each for name, each in found.items()}
    raise errors.InterchangeError(
        f"{file} names no tool servers.", "It wants a table `mcpServers`."
    )


async def log_in(places: Places, name: str, show: Callable[[str], None]) -> bool:
    """Have a person sign in to a remote server; `show` is given the address for a browser."""
    found = server_named(tool_servers(places), name)
    if not found.url:
        raise errors.UsageError(
            f"{name} is a command: nobody signs in to it.", "Only a --url can ask."
        )
    try:
        return await sign_in(found.url, places.tool_tokens / f"{name}.json", show)
    except errors.MindstoneError:
        raise
    except Exception as error:  # a foreign library over a foreign server: any error may come
        why = text.one_line(str(error) or type(error).__name__, 300)
        raise errors.ToolError(f"Signing in to {name} failed: {why}.", "Try again.") from error


async def try_server(
    name: str,
    settings: McpServerSettings,
    environ: Mapping[str, str],
    cwd: Path,
    model: str,
    tokens: Path,
) -> TriedServer:
    """Start a server, ask what it offers, and end it; raises `ToolError` if it does not answer."""
    server = McpServer(name, settings, environ=environ, cwd=cwd, tokens=tokens)
    try:
        offer = await server.offer({})
    finally:
        await server.close()
    counter = counter_for(model)
    tried = [
        TriedTool(
            name=tool.name,
            description=tool.description,
            tokens=counter.text(msgspec.json.encode(tool.schema).decode()),
        )
        for tool in offer.tools
    ]
    return TriedServer(name=name, tools=tuple(tried), ignored=offer.ignored)


def _keep(places: Places, servers: Mapping[str, McpServerSettings]) -> Path:
    return store(places, SERVERS, edit.toml_value(servers))
