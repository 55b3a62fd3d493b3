"""JSON-RPC 2.0 between two programs, one message a line, requests in both directions.

Editors talk this way over standard streams, local programs over the resident's socket. What comes
in is bounded and checked; what a handler raises becomes an answer with a sentence in it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from mindstone_tui.core import bounded_json, errors

Handler = Callable[[dict[str, Any]], Awaitable[Any]]

LONGEST: Final = 64 << 20
"""Bytes of one message."""
MOST_OPEN: Final = 1_000
MOST_HELD: Final = 4 * LONGEST
"""Requests, and their bytes, that may wait for their answers; until then no further one is read."""
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603


class PeerError(errors.MindstoneError):
    """The other side answered with an error, or went away."""


class PeerGone(PeerError):
    """It went away."""


class Peer(msgspec.Struct, eq=False):
    """One connection: answers what the other side asks, and asks it things."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _handlers: Mapping[str, Handler]
    report_bug: Callable[[BaseException], object]
    _asked: dict[int, asyncio.Future[Any]] = {}
    _next: int = 1
    _tasks: dict[asyncio.Task[None], int] = {}
    """What is not answered yet, and how many bytes it has."""

    async def listen(self) -> None:
        """Answer until the other side closes its end; what it still waits for is dropped."""
        try:
            while line := await self._line():
                self._take(line)
                while len(self._tasks) >= MOST_OPEN or sum(self._tasks.values()) > MOST_HELD:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone = PeerGone("The other program went away.")
            for waiting in self._asked.values():
                if not waiting.done():
                    waiting.set_exception(gone)
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ask(self, method: str, params: object) -> Any:
        """Ask the other side and wait for its answer; raises `PeerError`."""
        number, self._next = self._next, self._next + 1
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = waiting
        try:
            await self._send({"id": number, "method": method, "params": params})
            return await waiting
        finally:
            del self._asked[number]

    async def tell(self, method: str, params: object) -> None:
        """Tell the other side something that has no answer."""
        await self._send({"method": method, "params": params})

    async def _line(self) -> bytes:
        """The next line, past any that is too long to be meant; empty at the end."""
        passed = 0
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
            except asyncio.LimitOverrunError as over:
                passed += len(await self._reader.readexactly(over.consumed))
                continue
            except ConnectionError:
                return b""
            if not passed:
                return line
            passed = 0
            await self._fail(None, INVALID_REQUEST, "The message is too long.")

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = bounded_json.read_as(line, object)
        except msgspec.DecodeError:
            self._begin(self._fail(None, PARSE_ERROR, "This is not JSON."), 0)
            return
        if not isinstance(message, dict):
            self._begin(self._fail(None, INVALID_REQUEST, "A message is an object."), 0)
        elif "method" in message:
            self._begin(self._serve(message), len(line))
        else:
            self._hear(message)

    def _begin(self, work: Any, size: int) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks[task] = size
        task.add_done_callback(self._tasks.pop)

    def _hear(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        waiting = self._asked.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.done():
            return
        if isinstance(error := message.get("error"), dict):
            waiting.set_exception(PeerError(str(error.get("message", "It failed."))))
        else:
            waiting.set_result(message.get("result"))

    async def _serve(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), message["method"]
        params = message.get("params") or {}
        handler = self._handlers.get(method) if isinstance(method, str) else None
        if handler is None or not isinstance(params, dict):
            code = METHOD_NOT_FOUND if handler is None else INVALID_PARAMS
            said = f"There is no method {method}." if handler is None else "params is an object."
            if "id" in message:
                await self._fail(number, code, said)
            return
        try:
            result = await handler(params)
        except errors.UsageError as error:
            await self._fail(number, INVALID_PARAMS, error.sentence)
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            await self._fail(number, INVALID_PARAMS, f"{method}: {error}")
        except errors.MindstoneError as error:
            await self._fail(number, INTERNAL_ERROR, error.sentence)
        except Exception as error:  # a bug costs the request, not the connection
            self.report_bug(error)
            await self._fail(number, INTERNAL_ERROR, f"{method} failed: {type(error).__name__}.")
        else:
            if "id" in message:
                await self._send({"id": number, "result": result})

    async def _fail(self, number: object, code: int, said: str) -> None:
        await self._send({"id": number, "error": {"code": code, "message": said}})

    async def _send(self, message: dict[str, Any]) -> None:
        # Whoever has left needs no answer; its end of the line was noticed, or will be.
        with contextlib.suppress(ConnectionError):
            self._writer.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
            await self._writer.drain()
