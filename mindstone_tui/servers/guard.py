"""Who may ask: a token, this machine's own names, bounded bodies, and nobody who dawdles.

Every request goes through here before anything else sees it. What is refused gets one clear status
and a line in the log; nothing of a refused body is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.diagnostics import note
from mindstone_tui.core.disk import ensure_folder, read_regular, replace_file
from mindstone_tui.core.text import one_line

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN: Final = frozenset({"/", "/page.js", "/page.css", "/icon.svg", "/health"})
"""What anybody on this machine may have: nothing of it says anything about anyone."""
_PAUSE: Final = 0.5
"""Seconds without a byte after which nothing more of a refused body is waited for."""
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class TokenFile:
    """The secret that opens the gateway, readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str:
        """The token, made on first use; a file that others can read is replaced."""
        try:
            safe = self.path.stat().st_mode & 0o077 == 0
            token = read_regular(self.path).decode("ascii").strip()
            if safe and len(token) >= 32:
                return token
        except (OSError, UnicodeDecodeError):
            pass
        token = secrets.token_urlsafe(32)
        ensure_folder(self.path.parent)
        replace_file(self.path, token.encode())
        return token


class Refusal(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.said = said


class Guard:
    """Stands in front of the application."""

    def __init__(
        self, app: App, *, token: str, hosts: frozenset[str], most: int, seconds: float, log: Path
    ) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._most = most
        self._seconds = seconds
        self._log = log
        self.refused: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its whole body, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = False
        headers = {name.lower(): value for name, value in scope["headers"]}

        async def answer(message: Message) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                sent = True
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            self._check(scope, headers)
            body = await self._body(headers, receive)
            await self._app(scope, _given(body, receive), answer)
        except Refusal as refusal:
            self.refused[refusal.status] += 1
            path = one_line(str(scope.get("path", "")), 120)
            client = scope.get("client") or ("?", 0)
            note(f"refused {refusal.status} {path} from {client[0]}: {refusal.said}", self._log)
            if not sent:
                if b"expect" not in headers:
                    await self._discard(receive)
                await _refuse(refusal, send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self._hosts:
            raise Refusal(403, "This host is not served here; use 127.0.0.1 or localhost.")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and origin.removeprefix("http://") not in self._hosts:
            raise Refusal(403, "Pages of other origins may not ask.")
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            raise Refusal(403, "Pages of other sites may not ask.")
        path = scope["path"]
        if path in OPEN and scope["method"] in ("GET", "HEAD"):
            return
        given = headers.get(b"authorization", b"").removeprefix(b"Bearer ").strip()
        given = given or headers.get(b"x-api-key", b"").strip()
        if not hmac.compare_digest(given, self._token.encode()):
            said = "wrong" if given else "missing"
            raise Refusal(401, f"The token is {said}; `mindstone serve --status` says where it is.")

    async def _discard(self, receive: Receive) -> None:
        """Read past what a refused client still sends: else it is cut off and hears no status."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                more = True
                while more:
                    message = await asyncio.wait_for(receive(), _PAUSE)
                    more = message["type"] == "http.request" and message.get("more_body", False)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """All of it, within bounds of size and time."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most:
            raise Refusal(413, f"A body may have {self._most:,} bytes.")
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "The client went away before its request was whole.")
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > self._most:
                        raise Refusal(413, f"A body may have {self._most:,} bytes.")
                    if not message.get("more_body", False):
                        return b"".join(pieces)
        except TimeoutError:
            raise Refusal(408, "The request took too long to arrive.") from None


def _given(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, and then whatever else is heard of the client."""
    given = False

    async def hand_over() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return hand_over


async def _refuse(refusal: Refusal, send: Send) -> None:
    error = {"message": refusal.said, "type": "invalid_request_error", "code": refusal.status}
    body = msgspec.json.encode({"type": "error", "error": error})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *HEADERS,
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
