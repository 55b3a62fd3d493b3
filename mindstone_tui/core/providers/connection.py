"""HTTP/1.1 to a model server, with nothing but what a request to a model needs.

h11 knows the protocol, asyncio the sockets. A general client would cost a headless turn a fifth of
its time for being imported: 140 ms of cookies, HTTP/2, two event loops and a synchronous twin.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

import h11

from mindstone_tui.core.errors import ProviderError

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
            raise ProviderError(
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
        raise ProviderError(
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
