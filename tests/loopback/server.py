"""A real model server on 127.0.0.1, in plain asyncio, that does what a test tells it.

Every request takes the next act from `acts` (the last one repeats). An act writes the raw bytes of
its response, so that any fault can be played: a wrong status, a torn chunk, silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any

Write = Callable[[bytes], Awaitable[None]]
Act = Callable[["Call", Write], Awaitable[None]]


class Call:
    """One request as it arrived."""

    def __init__(
        self, line: str, headers: dict[str, str], body: bytes, reader: asyncio.StreamReader
    ) -> None:
        self.method, self.path, *_ = line.split(" ")
        self.headers = headers
        self.raw = body
        self._reader = reader

    async def hung_up(self) -> None:
        """Wait until whoever asked closes the connection."""
        while await self._reader.read(65_536):
            pass

    @property
    def body(self) -> Any:
        """The JSON that was sent."""
        return json.loads(self.raw)


class Loopback:
    """The server: its address, its script, and what it was asked."""

    def __init__(self) -> None:
        self.acts: list[Act] = [says("Hello there.")]
        self.calls: list[Call] = []
        self.asides: dict[str, bytes] = {}
        """Paths that are always answered with the same, and are no part of the script."""
        self.keeps = False
        """Whether a connection stays open for another request."""
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """Where OpenAI's API would be."""
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, *acts: Act) -> None:
        """Do these from now on, one a request; the last one again and again."""
        self.acts = list(acts)
        self.calls.clear()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything, hanging requests too."""
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        self.connections += 1
        try:
            while (call := await _read(reader)) is not None:
                if (aside := self.asides.get(call.path)) is not None:
                    await write(aside)
                    break
                self.calls.append(call)
                act = self.acts[0] if len(self.acts) == 1 else self.acts.pop(0)
                await act(call, write)
                if not self.keeps:
                    break
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Call | None:
    line = (await reader.readline()).decode().strip()
    if not line:
        return None
    headers: dict[str, str] = {}
    while header := (await reader.readline()).decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(line, headers, body, reader)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Loopback]:
    """A server for the time of a test."""
    server = Loopback()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.contextmanager
def serving_apart() -> Iterator[Loopback]:
    """The same on a thread of its own, for those who block the loop that they ask from."""
    loop, server = asyncio.new_event_loop(), Loopback()
    thread = threading.Thread(target=loop.run_forever, name="loopback", daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# -- what a server may say ------------------------------------------------------------------------


def head(status: str = "200 OK", kind: str = "text/event-stream", **headers: str) -> bytes:
    """The start of a response that ends when the connection does."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n".encode()


def chunk(delta: object = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk of an OpenAI stream."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}],
        **fields,
    }


def event(payload: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 5,
    "total_tokens": 105,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
DONE = b"data: [DONE]\n\n"


def stream_of(chunks: Iterable[object], *, usage: object = USAGE, done: bool = True) -> bytes:
    """The body of a whole stream."""
    body = b"".join(event(each) for each in chunks)
    if usage is not None:
        body += event({**chunk(), "choices": [], "usage": usage})
    return body + (DONE if done else b"")


def spoken(text: str, *, pieces: int = 4) -> list[dict[str, Any]]:
    """A text as chunks, with a proper start and end."""
    size = max(len(text) // pieces, 1)
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in cut),
        chunk(finish="stop"),
    ]


def asked(*calls: tuple[str, str, str], finish: str = "tool_calls") -> list[dict[str, Any]]:
    """Tool calls (id, name, arguments) as chunks, the arguments in fragments."""
    chunks = [chunk({"role": "assistant", "content": None})]
    for index, (call_id, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        opened = {"index": index, "id": call_id, "type": "function", "function": function}
        chunks.append(chunk({"tool_calls": [opened]}))
        for at in range(0, len(arguments), 5):
            more = {"index": index, "function": {"arguments": arguments[at : at + 5]}}
            chunks.append(chunk({"tool_calls": [more]}))
    return [*chunks, chunk(finish=finish)]


# -- acts -----------------------------------------------------------------------------------------


def sends(data: bytes) -> Act:
    """Exactly these bytes, then the end of the connection."""

    async def act(call: Call, write: Write) -> None:
        await write(data)

    return act


def says(text: str) -> Act:
    """A normal answer."""
    return streams(spoken(text))


def streams(chunks: Iterable[object], *, usage: object = USAGE, done: bool = True) -> Act:
    """A stream of these chunks."""
    return sends(head() + stream_of(chunks, usage=usage, done=done))


def chunked(body: bytes, *, cut: int | None = None, kind: str = "text/event-stream") -> Act:
    """A stream in HTTP/1.1 chunks, broken off after `cut` bytes of the body."""
    start = head(kind=kind).replace(b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n")
    kept = body if cut is None else body[:cut]
    framed = b"".join(
        b"%x\r\n%s\r\n" % (len(part), part)
        for part in (kept[at : at + 64] for at in range(0, len(kept), 64))
    )
    return sends(start + framed + (b"0\r\n\r\n" if cut is None else b""))


def fails(status: str, body: object, **headers: str) -> Act:
    """An error with a JSON body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return sends(head(status, "application/json", **headers) + data)


def hangs(before: bytes = b"") -> Act:
    """These bytes, then silence."""

    async def act(call: Call, write: Write) -> None:
        if before:
            await write(before)
        await asyncio.Event().wait()

    return act


def error(
    message: str, kind: str = "invalid_request_error", code: str | None = None
) -> dict[str, Any]:
    """OpenAI's form of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
