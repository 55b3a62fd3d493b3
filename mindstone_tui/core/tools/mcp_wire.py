"""How bytes travel to and from an MCP server that runs as a child process.

The server runs under the same supervisor as any command: clean environment, no terminal, its whole
tree gone when the connection closes. A line longer than the bound ends the connection instead of
filling the memory; what the server prints to its error output is kept as a short tail.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindstone_tui.core.tools.process import let_go, supervised
from mindstone_tui.core.tools.sandbox import unconfined

if TYPE_CHECKING:  # heavy: imported when the first server is started
    from mcp.client._transport import TransportStreams

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
    let_go(process)
