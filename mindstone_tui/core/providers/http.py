"""One bounded way to ask a server over HTTP and to read its answer as it comes.

Nothing is asked twice here, no redirect leads to another server, no answer is larger than its
limit, and whatever was opened is closed the moment nobody listens any more. How long to wait is the
caller's to say.

From the bytes of an answer to its events (server-sent events, or one JSON value a line) all is
pure and bounded: bytes go in as they arrive, whole payloads come out, and neither a line nor an
event without an end can grow beyond its limit.
"""

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import Iterator
from typing import Final, Protocol
from urllib.parse import urljoin, urlsplit

import msgspec

from mindstone_tui import __version__
from mindstone_tui.core import errors, values
from mindstone_tui.core.providers.connection import (
    AnswerHead,
    Connection,
    ConnectTimeout,
    certificates,
    proxy_for,
)
from mindstone_tui.core.providers.discovery import is_loopback

LONGEST_EVENT: Final = 16 << 20
"""Bytes of one event; the last one of an answer may repeat all that was said."""
LONGEST_ANSWER: Final = 128 << 20
"""Bytes of a whole answer; a token takes a few hundred of them on the wire."""
LONGEST_STRAY: Final = 64 << 10
_FIELDS: Final = (b"", b"data", b"event", b"id", b"retry")
"""What a line of an event may begin with; one that begins with a colon is a comment."""
_BOM: Final = b"\xef\xbb\xbf"


class Oversized(ValueError):
    """More bytes than an answer can have."""


class Reader(Protocol):
    """Makes payloads of bytes."""

    stray: bytes
    """The beginning of what is no event: some servers say there what is wrong."""

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that are whole now."""
        ...

    def end(self) -> list[bytes]:
        """What a last line without its end still gives."""
        ...


class Lines(msgspec.Struct, eq=False):
    """Lines, whatever ends them; a byte order mark before the first is no part of it."""

    longest: int = LONGEST_EVENT
    _pieces: list[bytes] = []
    _size: int = 0
    _begun: bool = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        if b"\n" not in data and b"\r" not in data:
            self._keep(data)
            return []
        whole = b"".join((*self._pieces, data))
        self._pieces, self._size = [], 0
        # A carriage return at the very end may be half of a line end: it waits for the rest.
        cut = len(whole) - 1 if whole.endswith(b"\r") else len(whole)
        *lines, rest = whole[:cut].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._keep(rest + whole[cut:])
        return self._without_mark(lines)

    def end(self) -> list[bytes]:
        """The last line, if the stream ended within it."""
        rest = b"".join(self._pieces).rstrip(b"\r")
        self._pieces, self._size = [], 0
        return self._without_mark([rest]) if rest else []

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self.longest:
            raise Oversized(f"a line longer than {self.longest >> 20} MiB")
        if data:
            self._pieces.append(data)

    def _without_mark(self, lines: list[bytes]) -> list[bytes]:
        if lines and not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        return lines


class EventStream:
    """Server-sent events: the data of each; comments, names and ids are passed over."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self.stray = b""
        self._longest = longest
        self._lines = Lines(longest)
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is whole now."""
        return [
            event
            for line in self._lines.feed(data)
            # A flood of empty lines is passed over quickly.
            if (line or self._data) and (event := self._take(line)) is not None
        ]

    def end(self) -> list[bytes]:
        """An event whose lines are whole, though the empty line after them is missing."""
        data, self._data = self._data, []
        for line in self._lines.end():
            self._stray(line)
        return [b"\n".join(data)] if data else []

    def _take(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data, self._size = self._data, [], 0
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._size += len(value)
            if self._size > self._longest:
                raise Oversized(f"an event larger than {self._longest >> 20} MiB")
            self._data.append(value.removeprefix(b" "))
        elif name not in _FIELDS:
            self._stray(line)
        return None

    def _stray(self, line: bytes) -> None:
        if len(self.stray) < LONGEST_STRAY:
            self.stray += line[:LONGEST_STRAY]


class JsonLines:
    """One JSON value a line."""

    stray = b""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._lines = Lines(longest)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        return [line for line in self._lines.feed(data) if line.strip()]

    def end(self) -> list[bytes]:
        """The last line, which may lack its end."""
        return [line for line in self._lines.end() if line.strip()]


class Unpacked:
    """Bytes as they were before they were packed, a bounded piece at a time."""

    _WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 47}
    _PIECE: Final = 64 << 10
    _RATIO: Final = 64
    """A packed answer that grows more than this was made to do harm; real ones grow twentyfold."""
    _HARMLESS: Final = 1 << 20

    def __init__(self, encoding: str = "", longest: int = LONGEST_ANSWER) -> None:
        self._longest = longest
        self._taken = 0
        self._given = 0
        self._inflate = None
        if encoding not in ("", "identity"):
            if encoding not in self._WINDOWS:
                raise ValueError(f"an answer packed as {encoding[:40]!r}, which was not asked for")
            self._inflate = zlib.decompressobj(self._WINDOWS[encoding])

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bytes in pieces; raises `Oversized` before there are too many of them."""
        self._taken += len(data)
        while data:
            if self._inflate is None:
                piece, data = data, b""
            else:
                piece = self._inflate.decompress(data, self._PIECE)
                data = self._inflate.unconsumed_tail
            self._given += len(piece)
            packed = self._inflate is not None
            harmful = packed and self._given > max(self._RATIO * self._taken, self._HARMLESS)
            if harmful or self._given > self._longest:
                raise Oversized("an answer that is far too large")
            yield piece


LONGEST_ERROR: Final = 64 << 10
"""Bytes of an error page that are read; what is wrong stands at its beginning."""
ERROR_PATIENCE: Final = 5.0
"""Seconds for reading it: the status alone says enough."""
MOST_REDIRECTS: Final = 3
LINGER: Final = 0.2
"""Seconds in which a complete answer may end properly, so that its connection can be used again."""
_SAME_REQUEST: Final = (307, 308)
"""Redirects that say where the very same request belongs; others would turn it into another."""
_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "text/event-stream, application/x-ndjson, application/json",
    "accept-encoding": "identity",
    "user-agent": f"mindstone/{__version__}",
}


class HttpCall(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """One request as it goes over the wire."""

    url: str
    headers: dict[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpCall({len(self.body)} bytes)"


class HttpAnswer:
    """A response whose body is read piece by piece."""

    def __init__(self, connection: Connection, head: AnswerHead, idle: list[Connection]) -> None:
        self._connection = connection
        self._idle = idle
        self._unpacked: Unpacked | None = None
        self.status, self.reason, self.headers = head

    @property
    def is_success(self) -> bool:
        """Whether the status says that what follows is an answer."""
        return 200 <= self.status < 300

    async def read(self) -> Iterator[bytes] | None:
        """What arrived next, unpacked; None at the end."""
        if self._unpacked is None:
            self._unpacked = Unpacked(self.headers.get("content-encoding", "").strip().lower())
        data = await self._connection.piece()
        return None if data is None else self._unpacked.feed(data)

    async def beginning(self, patience: float) -> bytes:
        """As much of a short body as is worth reading; what is missing is not waited for."""
        body = b""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(min(patience, ERROR_PATIENCE)):
                while len(body) < LONGEST_ERROR and (pieces := await self.read()) is not None:
                    for piece in pieces:
                        body += piece
                        if len(body) >= LONGEST_ERROR:
                            break
        return body[:LONGEST_ERROR]

    async def finish(self) -> None:
        """Let a complete answer end, which takes no time if the server is done."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LINGER):
                await self.read()

    async def close(self) -> None:
        """Give the connection back, or cut it if something is still to come."""
        if self._connection.ready_again():
            self._idle.append(self._connection)
        else:
            self._connection.cut()


class Client:
    """Connections to one server; one that an answer left whole is used again."""

    def __init__(self, base_url: str, connect_timeout: float) -> None:
        self._plain = urlsplit(base_url).scheme == "http"
        self._local = is_loopback(base_url)
        self._connect_timeout = connect_timeout
        self._certificates: ssl.SSLContext | None = None
        self._idle: list[Connection] = []

    async def prepare(self) -> None:
        """Load what a first request needs, which is no part of the time a server may take."""
        if not self._plain and self._certificates is None:
            self._certificates = await asyncio.to_thread(certificates)

    async def post(self, call: HttpCall, patience: float) -> HttpAnswer:
        """Send a request; the answer may be an error, of which nothing was read yet."""
        await self.prepare()
        url = call.url
        for _ in range(MOST_REDIRECTS):
            connection = await self._connected(url, min(patience, self._connect_timeout))
            try:
                head = await connection.ask(url, {**_HEADERS, **call.headers}, call.body)
            except BaseException:
                connection.cut()
                raise
            answer = HttpAnswer(connection, head, self._idle)
            if not 300 <= answer.status < 400:
                return answer
            await answer.close()
            url = _redirected(url, answer)
        raise errors.ProviderRefused(
            f"{_origin(url)} sends the request in circles.", "Check the address of the server."
        )

    async def _connected(self, url: str, patience: float) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.hung_up:
                return connection
            connection.cut()
        # A request to this machine has no business with a proxy.
        proxy = None if self._local else proxy_for(url)
        try:
            async with asyncio.timeout(patience):
                return await Connection.open(url, self._certificates, proxy)
        except TimeoutError as error:
            raise ConnectTimeout("nobody takes up the connection") from error

    async def close(self) -> None:
        """Close every connection."""
        while self._idle:
            self._idle.pop().cut()


def _redirected(url: str, answer: HttpAnswer) -> str:
    """Where the same server wants the same request; anywhere else it is not sent."""
    target = urljoin(url, answer.headers.get("location", ""))
    if _origin(target) != _origin(url):
        raise errors.ProviderRefused(
            f"{_origin(url)} wants the request to be sent to {_origin(target)[:120]} instead.",
            "If that is right, set this address; nothing was sent there.",
        )
    if answer.status not in _SAME_REQUEST:
        raise errors.ProviderRefused(
            f"{_origin(url)} answers with a redirect (status {answer.status}).",
            "Check the address; for an OpenAI-compatible server it usually ends in /v1.",
        )
    return target


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
