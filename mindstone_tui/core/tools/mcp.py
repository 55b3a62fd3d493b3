"""Tools from MCP servers: the same approvals, and names and schemas that cannot change unseen.

A server is another program, so nothing it says is believed. Its tools always ask unless a rule
allows them, whatever they claim about themselves. What they are called and what they take is pinned
when they are first seen; a tool that comes back different is withheld and the difference is shown.
A server that crashes, hangs or talks nonsense costs the call, never the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mindstone_tui.core import bounded_json, patterns, signals
from mindstone_tui.core.config.settings import McpServerSettings
from mindstone_tui.core.errors import ConfigError, ToolError
from mindstone_tui.core.text import exact, for_terminal, one_line
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult, bounded, finding
from mindstone_tui.core.tools.sandbox import unconfined
from mindstone_tui.core.tools.shell import clean_environment, supervised
from mindstone_tui.core.tools.sign_in import opens_stream, read_bounded, signed, wants_sign_in

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams


NAME: Final = patterns.pattern_of(r"[A-Za-z0-9_-]{1,40}\Z")
_LONGEST_DESCRIPTION: Final = 1_000
_LARGEST_SCHEMA: Final = 16 * 1024
_MOST_TOOLS: Final = 128


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is not what it was when it was first seen."""

    tool: str
    diff: str
    pin: str
    """Its new declaration, to be pinned when the person accepts it."""


def declaration(description: str, parameters: Any) -> str:
    """A tool's declaration as one canonical text, free of anything hidden."""
    text = for_terminal(description)[:_LONGEST_DESCRIPTION]
    told = {"description": text, "parameters": parameters}
    return msgspec.json.encode(told, order="deterministic").decode()


_TOO_DEEP: Final = "its schema is nested too deeply"


def unusable(name: str, schema: Any, declared: Mapping[str, str]) -> str:
    """Why a tool cannot be offered; empty when it can."""
    if not NAME.match(name):
        return "its name has other characters than letters, digits, _ and -"
    if name in declared:
        return "its name is taken"
    if len(declared) >= _MOST_TOOLS:
        return "there are too many tools"
    try:
        written = msgspec.json.encode(schema).decode()
    except RecursionError:
        return _TOO_DEEP
    except (TypeError, ValueError):
        return "its schema is not JSON"
    if bounded_json.is_too_deep(written):
        return _TOO_DEEP
    if (
        len(written) > _LARGEST_SCHEMA
        or not isinstance(schema, dict)
        or schema.get("type") != "object"
    ):
        return "its schema is too large or not an object's"
    return ""


def difference(old: str, new: str) -> str:
    """What changed between two declarations, line by line."""
    before, after = (_lines(text) for text in (old, new))
    return exact("\n".join(difflib.unified_diff(before, after, "pinned", "now", lineterm="")))


def _lines(pin: str) -> list[str]:
    return msgspec.json.format(pin.encode(), indent=2).decode().split("\n") if pin else []


_LONGEST_LINE: Final = 8 * 1024 * 1024
_GRACE: Final = 2.0


class Murmur:
    """The last lines a server printed to its error output."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=20)

    def add(self, line: bytes) -> None:
        """Keep the start of one line."""
        self._lines.append(line[:500].decode("utf-8", "replace").rstrip())

    @property
    def text(self) -> str:
        """All that is kept."""
        return "\n".join(self._lines)


@contextlib.asynccontextmanager
async def child(
    command: tuple[str, ...], environ: Mapping[str, str], cwd: Path, murmur: Murmur
) -> AsyncIterator[TransportStreams]:
    """A server as a child process, as the pair of streams the protocol library wants."""
    import anyio
    from mcp.shared.message import SessionMessage

    process = await asyncio.create_subprocess_exec(
        *supervised(unconfined(command)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=dict(environ),
        start_new_session=True,
        limit=_LONGEST_LINE,
    )
    inward, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_receive, process, inward)
            tasks.start_soon(_send, process, outward, inward)
            tasks.start_soon(_listen, process, murmur)
            try:
                yield received, sent
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (inward, received, sent, outward):
            stream.close()
        await asyncio.shield(_end(process))


async def _receive(process: asyncio.subprocess.Process, inward: object) -> None:
    """Pass each line on as a message; the connection ends with the stream."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    assert process.stdout is not None
    assert isinstance(inward, anyio.abc.ObjectSendStream)
    async with inward:
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the bound
                return
            if not line:
                return
            try:
                message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                continue  # chatter that is not part of the protocol
            try:
                await inward.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


async def _send(process: asyncio.subprocess.Process, outward: object, inward: object) -> None:
    """Write each message as one line; a server that is gone ends the connection."""
    import anyio

    assert process.stdin is not None
    assert isinstance(outward, anyio.abc.ObjectReceiveStream)
    assert isinstance(inward, anyio.abc.ObjectSendStream)
    try:
        async with outward:
            async for message in outward:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(line.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
    except (OSError, RuntimeError):
        await inward.aclose()


async def _listen(process: asyncio.subprocess.Process, murmur: Murmur) -> None:
    assert process.stderr is not None
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:
            continue
        if not line:
            return
        murmur.add(line)


async def _end(process: asyncio.subprocess.Process) -> None:
    """See the supervisor out, and its tree with it."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    signals.let_go(process)


_MOST_PAGES: Final = 20
_START_SECONDS: Final = 20.0


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has to offer now."""

    tools: tuple[Tool, ...]
    pins: dict[str, str]
    """To be kept: what each accepted tool was declared as."""
    withheld: tuple[Change, ...] = ()
    ignored: tuple[str, ...] = ()
    """Tools that cannot be used at all, with the reason."""


class McpServer(msgspec.Struct, eq=False):
    """One connection, started on demand and again after a crash."""

    name: str
    _settings: McpServerSettings
    environ: Mapping[str, str]
    cwd: Path
    tokens: Path | None = None
    """The folder with what signs requests to servers that want that."""
    murmur: Murmur = msgspec.field(default_factory=Murmur)
    _status: int = 0
    """What an address answered last; the protocol's library does not pass it on."""
    _owner: asyncio.Task[None] | None = None
    _client: Client | None = None
    _closing: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    _declared: dict[str, str] = {}

    def __post_init__(self) -> None:
        name, settings = self.name, self._settings
        if not NAME.match(name) or "__" in name:
            raise ConfigError(f"{name!r} cannot be a server's name.", "Use letters, digits and _.")
        if bool(settings.command) == bool(settings.url):
            raise ConfigError(f"The server {name} needs either a command or a url.", "Give one.")
        if settings.url and not re.match(r"https?://", settings.url):
            raise ConfigError(f"The server {name} has a strange url.", "It begins with https://.")

    async def offer(self, pins: Mapping[str, str]) -> Offer:
        """Ask what the server can do; only what is pinned or new altogether is offered."""
        declared, ignored = await self._declarations()
        first_time = not pins
        accepted: dict[str, str] = {}
        withheld: list[Change] = []
        for tool, pin in declared.items():
            if first_time or pins.get(tool) == pin:
                accepted[tool] = pin
            else:
                withheld.append(
                    Change(tool=tool, diff=difference(pins.get(tool, ""), pin), pin=pin)
                )
        self._declared = accepted
        return Offer(
            tools=tuple(self._tool(tool, pin) for tool, pin in accepted.items()),
            pins={**pins, **accepted},
            withheld=tuple(withheld),
            ignored=ignored,
        )

    async def close(self) -> None:
        """End the connection and the server with it."""
        self._closing.set()
        owner, self._owner, self._client = self._owner, None, None
        if owner is not None:
            _, late = await asyncio.wait({owner}, timeout=10)
            for task in late:
                task.cancel()
            await asyncio.gather(owner, return_exceptions=True)

    async def _connected(self) -> Client:
        """The live connection; made when there is none, or the last one broke."""
        if self._client is not None and self._owner is not None and not self._owner.done():
            return self._client
        await self.close()
        self._closing = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        waiting: set[asyncio.Future[Any]] = {ready, self._owner}
        done, _ = await asyncio.wait(
            waiting, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if ready in done:
            self._client = ready.result()
            return self._client
        ready.cancel()
        why = "it did not answer in time" if not done else self._why()
        self._owner.cancel()
        await asyncio.gather(self._owner, return_exceptions=True)
        raise ToolError(f"The server {self.name} cannot be used: {why}.", "Check its settings.")

    def _why(self) -> str:
        assert self._owner is not None
        error = None if self._owner.cancelled() else self._owner.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if self._status == 401:
            return wants_sign_in(self.name)
        return _in_its_words(f"{error or 'it ended'} {self.murmur.text}".strip())

    async def _own(self, ready: asyncio.Future[Client]) -> None:
        """Hold the connection open; the library wants it closed by the task that opened it."""
        from mcp import Client

        async with contextlib.AsyncExitStack() as stack:
            environ = {**clean_environment(self.environ), **self._settings.env}
            transport = (
                child(self._settings.command, environ, self.cwd, self.murmur)
                if self._settings.command
                else await self._http(stack)
            )
            client = await stack.enter_async_context(
                Client(transport, read_timeout_seconds=self._settings.timeout, cache=None)
            )
            if not ready.done():
                ready.set_result(client)
            await self._closing.wait()

    async def _http(self, stack: contextlib.AsyncExitStack) -> Any:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        kept = self.tokens / f"{self.name}.json" if self.tokens is not None else None
        caller = await stack.enter_async_context(
            httpx2.AsyncClient(
                headers=self._settings.headers,
                timeout=self._settings.timeout,
                trust_env=False,
                auth=signed(self.name, self._settings.url, kept) if kept is not None else None,
                event_hooks={"response": [self._answered_with]},
            )
        )
        return streamable_http_client(self._settings.url, http_client=caller)

    async def _answered_with(self, reply: Any) -> None:
        """Note how an address answers; what is no stream of events is read, within a bound."""
        self._status = reply.status_code
        if not opens_stream(reply, self._settings.url):
            await read_bounded(reply)

    async def _declarations(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Every usable tool's declaration as one canonical text, and why others are not usable."""
        declared: dict[str, str] = {}
        ignored: list[str] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._asked(lambda client, at=cursor: client.list_tools(cursor=at))
            for tool in page.tools:
                if why := unusable(tool.name, tool.input_schema, declared):
                    ignored.append(f"{exact(tool.name[:60])}: {why}")
                    continue
                declared[tool.name] = declaration(tool.description or "", tool.input_schema)
            if not (cursor := page.next_cursor):
                break
        return declared, tuple(ignored)

    async def _asked(self, ask: Any, seconds: float | None = None) -> Any:
        """Put one question to the server; whatever goes wrong becomes a `ToolError`."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        client = await self._connected()
        try:
            async with asyncio.timeout(seconds or self._settings.timeout):
                return await ask(client)
        except TimeoutError:
            await self.close()
            raise _Late(f"The server {self.name} did not answer in time.", "Try again.") from None
        except Exception as error:  # a foreign library over a foreign program: any error may come
            if not isinstance(error, MCPError) or error.code == CONNECTION_CLOSED:
                await self.close()
            said = _in_its_words(f"{error}")
            raise ToolError(f"The server {self.name} failed: {said}", "Try again.") from error

    def _tool(self, tool: str, pin: str) -> Tool:
        pinned: dict[str, Any] = msgspec.json.decode(pin)

        async def run(given: Mapping[str, object], context: ToolContext) -> ToolResult:
            return await self._call(tool, dict(given), context)

        def preview(given: Mapping[str, object], context: ToolContext) -> Preview:
            body = msgspec.json.format(msgspec.json.encode(dict(given)), indent=2).decode()
            return Preview(title=f"{self.name}: {tool}", body=exact(body))

        return Tool(
            name=f"{self.name}__{tool}",
            description=pinned["description"],
            parameters=pinned["parameters"],
            risk="run",
            run=run,
            preview=preview,
            confined=False,
        )

    async def _call(self, tool: str, given: dict[str, object], context: ToolContext) -> ToolResult:
        """One call, ended by its answer, by its time or by the person."""
        origin = f"tool {tool} of the server {self.name}"
        asking = asyncio.ensure_future(self._answered(tool, given, context.limits.seconds))
        stopping = asyncio.ensure_future(context.stop.wait()) if context.stop else None
        try:
            await asyncio.wait(
                {asking, stopping} if stopping else {asking}, return_when=asyncio.FIRST_COMPLETED
            )
            if not asking.done():
                return ToolResult(text="Interrupted.", status="interrupted", finding="interrupted")
            answer = asking.result()
        except _Late as late:
            return ToolResult(text=late.what, status="timeout", finding=finding(late.what))
        finally:
            for task in (asking, stopping):
                if task is not None:
                    task.cancel()
            await asyncio.gather(asking, *([stopping] if stopping else []), return_exceptions=True)
        text, full = bounded("\n".join(_read(block) for block in answer.content), context)
        return ToolResult(
            text=text or "(no output)",
            status="error" if answer.is_error else "ok",
            full=full,
            finding=finding(f"{tool}: {text}"),
            origin=origin,
        )

    async def _answered(self, tool: str, given: dict[str, object], seconds: float) -> Any:
        """The server's answer, after making sure that the tool is still what was agreed to."""
        was = self._client
        if await self._connected() is not was:
            declared, _ = await self._declarations()
            if declared.get(tool) != self._declared.get(tool):
                raise ToolError(f"{tool} is no longer what it was.", "Look at the change first.")
        limit = min(seconds, self._settings.timeout)
        return await self._asked(lambda client: client.call_tool(tool, given), limit)


def _in_its_words(text: str) -> str:
    """What a server says, as a quotation that it cannot end: it is no word of ours."""
    return f"“{one_line(text, 300).replace('”', '’')}”"


class _Late(ToolError):
    """No answer in time."""


def _read(block: Any) -> str:
    """One piece of an answer as text; what is not text is named."""
    match block.type:
        case "text":
            return for_terminal(str(block.text))
        case "image" | "audio":
            kind = one_line(str(block.mime_type), 60)
            return f"[{block.type}, {kind}, {len(block.data):,} characters]"
        case "resource" if hasattr(block.resource, "text"):
            return for_terminal(str(block.resource.text))
        case other:
            return f"[{one_line(str(other), 40)}]"
