"""One bounded way to ask a server over HTTP and to read its answer as it comes.

Nothing is asked twice here, no redirect leads to another server, no answer is larger than its
limit, and whatever was opened is closed the moment nobody listens any more. How long to wait is the
caller's to say.

From the bytes of an answer to its events (server-sent events, or one JSON value a line) all is
pure and bounded: bytes go in as they arrive, whole payloads come out, and neither a line nor an
event without an end can grow beyond its limit.

h11 knows the protocol, asyncio the sockets. A general client would cost a headless turn a fifth of
its time for being imported: 140 ms of cookies, HTTP/2, two event loops and a synchronous twin.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import ssl
import sys
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

import h11
import msgspec

from mindstone_tui import __version__
from mindstone_tui.core import errors, values
from mindstone_tui.core.providers.discovery import is_loopback

_LONGEST_HEAD: Final = 100 << 10
"""Bytes of a status line with all headers."""
_PIECE: Final = 64 << 10
_PORTS: Final = {"http": 80, "https": 443}
_IN_A_PATH: Final = "/%:@!$&'()*+,;=~?"


class ConnectTimeout(TimeoutError):
    """Nobody took up the connection in time."""


class BadHttpMessage(Exception):
    """Somebody answers there, but not in HTTP."""


class AnswerHead(NamedTuple):
    """How an answer begins."""

    status: int
    reason: str
    headers: dict[str, str]


def certificates() -> ssl.SSLContext:
    """Whom an encrypted connection believes; takes 20 ms to load."""
    named, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if named or folder:
        return ssl.create_default_context(cafile=named, capath=folder)
    import certifi  # only here: a server on this machine is asked without encryption

    return ssl.create_default_context(cafile=certifi.where())


def proxy_for(url: str) -> str | None:
    """The proxy that this machine wants a request to pass through."""
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named and sys.platform != "darwin":  # there the system's settings may name one
        return None
    from urllib.request import getproxies, proxy_bypass  # 16 ms, for the few who have one

    parts = urlsplit(url)
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return found if "://" in found else f"http://{found}"


class Connection:
    """One connection to one server; the next request may use it if the last answer was read."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, relayed: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._relayed = relayed
        """A proxy reads the request, and needs the whole address."""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)

    @classmethod
    async def open(cls, url: str, context: ssl.SSLContext | None, proxy: str | None) -> Connection:
        """Reach the server of an address, through a proxy if there is one."""
        target = urlsplit(url)
        if proxy is None:
            reader, writer = await _reach(target, context)
            return cls(reader, writer, relayed=False)
        relay = urlsplit(proxy)
        if relay.scheme not in _PORTS:
            raise errors.ProviderError(
                f"A {relay.scheme} proxy is set for this address, which is not spoken here.",
                "Set HTTPS_PROXY to an http:// address, or NO_PROXY to the server's name.",
            )
        reader, writer = await _reach(relay, certificates() if relay.scheme == "https" else None)
        try:
            if target.scheme == "https":
                await _tunnel(reader, writer, relay, target)
                await writer.start_tls(context or certificates(), server_hostname=target.hostname)
        except BaseException:
            writer.close()
            raise
        return cls(reader, writer, relayed=target.scheme == "http")

    async def ask(self, url: str, headers: dict[str, str], body: bytes) -> AnswerHead:
        """Send a request and read the head of its answer."""
        parts = urlsplit(url)
        named = {"host": _host(parts), **headers, "content-length": str(len(body))}
        if parts.username is not None:
            named["authorization"] = _basic(parts)
        origin = f"{parts.scheme}://{_host(parts)}" if self._relayed else ""
        request = h11.Request(
            method="POST", target=origin + _path(parts), headers=list(named.items())
        )
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()
        return await self._head()

    async def _head(self) -> AnswerHead:
        try:
            while True:
                event = await self._next()
                if isinstance(event, h11.Response):
                    break
                if isinstance(event, h11.ConnectionClosed):
                    raise h11.RemoteProtocolError("the server said nothing and hung up")
        except h11.RemoteProtocolError as error:
            if "illegal" in str(error):  # what arrived is quoted there as Python's bytes
                raise BadHttpMessage("what came back is not HTTP") from error
            raise
        headers: dict[str, str] = {}
        for name, value in event.headers:
            told = value.decode("latin-1")
            known = headers.get(key := name.decode("ascii"))
            headers[key] = told if known is None else f"{known}, {told}"
        return AnswerHead(event.status_code, event.reason.decode("latin-1"), headers)

    async def piece(self) -> bytes | None:
        """What arrived next of the body, as it was sent; None at its end."""
        if self._http.their_state is not h11.SEND_BODY:
            return None
        event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _next(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_PIECE))
        assert not isinstance(event, type)  # h11.PAUSED comes to servers only
        return event

    def ready_again(self) -> bool:
        """Whether the answer was read to its end, so that another request may follow it."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    @property
    def hung_up(self) -> bool:
        """Whether the server ended it while nobody asked."""
        return self._reader.at_eof() or self._writer.is_closing()

    def cut(self) -> None:
        """End it, whatever is still to come."""
        self._writer.transport.abort()


async def _reach(
    parts: SplitResult, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = parts.port or _PORTS[parts.scheme]
    try:
        return await asyncio.open_connection(parts.hostname, port, ssl=context)
    except ConnectionResetError as error:
        if context is None:
            raise
        raise ssl.SSLError("it hangs up instead of speaking TLS") from error


async def _tunnel(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    relay: SplitResult,
    target: SplitResult,
) -> None:
    """Ask a proxy to pass on bytes."""
    where = f"{_bracketed(target)}:{target.port or _PORTS['https']}"
    headers = [("host", where)]
    if relay.username is not None:
        headers.append(("proxy-authorization", _basic(relay)))
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
    for event in (h11.Request(method="CONNECT", target=where, headers=headers), h11.EndOfMessage()):
        writer.write(http.send(event) or b"")
    await writer.drain()
    while (answer := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await reader.read(_PIECE))
    if not isinstance(answer, h11.Response) or not 200 <= answer.status_code < 300:
        status = getattr(answer, "status_code", "nothing")
        raise errors.ProviderError(
            f"The proxy {relay.hostname} answers {status} instead of connecting.",
            "Check HTTPS_PROXY, or set NO_PROXY to the server's name.",
        )


def _basic(parts: SplitResult) -> str:
    known = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(known.encode()).decode('ascii')}"


def _bracketed(parts: SplitResult) -> str:
    name = parts.hostname or ""
    return f"[{name}]" if ":" in name else name.encode("idna").decode("ascii")


def _host(parts: SplitResult) -> str:
    plain = parts.port in (None, _PORTS.get(parts.scheme))
    return _bracketed(parts) if plain else f"{_bracketed(parts)}:{parts.port}"


def _path(parts: SplitResult) -> str:
    whole = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return quote(whole, safe=_IN_A_PATH)


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
