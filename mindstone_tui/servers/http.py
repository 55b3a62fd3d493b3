"""The HTTP side of the resident: the model endpoints, health and figures.

Starlette and uvicorn come with the MCP library. Only the resident that serves HTTP loads this
module, and with it both of them.
"""

import asyncio
import contextlib
import hmac
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from mindstone_tui import __version__, api
from mindstone_tui.core import errors
from mindstone_tui.core.diagnostics import note, record
from mindstone_tui.core.library.model_list import list_models, window_of
from mindstone_tui.core.text import one_line
from mindstone_tui.servers import wire_chat, wire_gemini, wire_messages, wire_responses
from mindstone_tui.servers.client import client_of
from mindstone_tui.servers.gateway import DEFAULT_MODEL, Gateway, Run, TurnFailed
from mindstone_tui.servers.page import Page
from mindstone_tui.servers.wire import ClientRequest, Fault, Reply, decode, now, rough_size

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Wire = (
    wire_chat.ChatWire
    | wire_gemini.GeminiWire
    | wire_messages.MessagesWire
    | wire_responses.ResponsesWire
)
"""How one reply is written: what goes out first, its pieces, its end, or all of it at once."""

_PROOF: Final = "/proof"
OPEN: Final = frozenset({"/", "/page.js", "/page.css", "/icon.svg", "/health", _PROOF})
"""What anybody on this machine may have: nothing of it says anything about anyone."""
_PAUSE: Final = 0.5
"""Seconds without a byte after which nothing more of a refused body is waited for."""
_PATIENCE: Final = 3.0
"""Seconds in which a refused client can send the rest of its body."""
_MOST_DISCARDED: Final = 16
"""Refused clients whose bodies are read at a time."""
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Refusal(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.said = said


class Guard(msgspec.Struct, eq=False):
    """Stands in front of the application."""

    _app: App
    token: str
    hosts: frozenset[str]
    most: int
    seconds: float
    log: Path
    refused: Counter[int] = msgspec.field(default_factory=Counter)
    _discarding: asyncio.Semaphore = msgspec.field(
        default_factory=lambda: asyncio.Semaphore(_MOST_DISCARDED)
    )

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
            # Whoever needs no token is not waited for: those paths read no body.
            body = await self._body(headers, receive) if self._check(scope, headers) else b""
            asks = scope["path"] == _PROOF
            app = PlainTextResponse(self._proof(scope, headers)) if asks else self._app
            await app(scope, _given(body, receive), answer)
        except Refusal as refusal:
            self.refused[refusal.status] += 1
            path = one_line(str(scope.get("path", "")), 120)
            client = scope.get("client") or ("?", 0)
            note(f"refused {refusal.status} {path} from {client[0]}: {refusal.said}", self.log)
            if not sent:
                if b"expect" not in headers:
                    await self._discard(receive)
                await _refuse(refusal, path, send)

    def _proof(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """That whoever listens here knows the token: nobody else is shown it, nor hands this on."""
        asked = headers[b"host"] + b" " + scope["query_string"]
        return hmac.digest(self.token.encode(), asked, "sha256").hex()

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether the client has the token; raises where it may not ask without."""
        if headers.get(b"host", b"").decode("latin-1").lower() not in self.hosts:
            raise Refusal(403, "This host is not served here; use 127.0.0.1 or localhost.")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and origin.removeprefix("http://") not in self.hosts:
            raise Refusal(403, "Pages of other origins may not ask.")
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            raise Refusal(403, "Pages of other sites may not ask.")
        if scope["path"] in OPEN and scope["method"] in ("GET", "HEAD"):
            return False
        given = headers.get(b"authorization", b"").removeprefix(b"Bearer ").strip()
        for name in (b"x-api-key", b"x-goog-api-key"):
            given = given or headers.get(name, b"").strip()
        if not hmac.compare_digest(given, self.token.encode()):
            said = "wrong" if given else "missing"
            raise Refusal(401, f"The token is {said}; `mindstone serve --status` says where it is.")
        return True

    async def _discard(self, receive: Receive) -> None:
        """Read past what a refused client still sends: else it is cut off and hears no status."""
        if self._discarding.locked():
            return
        with contextlib.suppress(TimeoutError):
            async with self._discarding, asyncio.timeout(_PATIENCE):
                more = True
                while more:
                    message = await asyncio.wait_for(receive(), _PAUSE)
                    more = message["type"] == "http.request" and message.get("more_body", False)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """All of it, within bounds of size and time."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.most:
            raise Refusal(413, f"A body may have {self.most:,} bytes.")
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "The client went away before its request was whole.")
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > self.most:
                        raise Refusal(413, f"A body may have {self.most:,} bytes.")
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


def _body(path: str, fault: Fault) -> dict[str, Any]:
    """An error as whoever asks here reads it."""
    if path.startswith("/v1/messages"):
        return wire_messages.error_body(fault)
    if path.startswith(wire_gemini.PATH):
        return wire_gemini.error_body(fault)
    return wire_chat.error_body(fault)


async def _refuse(refusal: Refusal, path: str, send: Send) -> None:
    body = msgspec.json.encode(_body(path, Fault(refusal.status, refusal.said)))
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


SESSION: Final = "x-mindstone-session"
FOLDER: Final = "x-mindstone-folder"
TOOLS: Final = "x-mindstone-tools"
CONTEXT: Final = "x-mindstone-context"
_PREFIX: Final = {"chat.completions": "chatcmpl-", "messages": "msg_", "responses": "resp_"}
"""How the ids of replies begin, where a format has a way of its own."""


class Endpoints(msgspec.Struct, eq=False):
    """The model endpoints, whichever format a client speaks."""

    _home: api.Home
    gateway: Gateway
    _log: Path
    answered: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)

    def routes(self) -> list[BaseRoute]:
        """The paths, each for exactly one method."""
        chat = partial(self._answer, wire_chat.read)
        return [
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/responses", partial(self._answer, wire_responses.read), methods=["POST"]),
            Route("/v1/messages", partial(self._answer, wire_messages.read), methods=["POST"]),
            Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
            Route(f"{wire_gemini.PATH}{{called:path}}", self._generate, methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
        ]

    async def _answer(
        self, read: Callable[[dict[str, Any]], ClientRequest], request: Request
    ) -> Response:
        asked = await self._read(request, read)
        run = await self.gateway.take(
            asked,
            session=request.headers.get(SESSION, ""),
            client=client_of(request.headers, asked, unquote(request.headers.get(FOLDER, ""))),
            own_tools=request.headers.get(TOOLS, "") in ("on", "own"),
        )
        reply = Reply(id="", model=asked.model)
        pieces = self.gateway.pieces(run, reply)
        # Nothing goes out before there is something to say: what fails first has a status.
        first = await self._first(request, run, pieces)
        reply.id = _PREFIX.get(asked.format, "") + run.id
        wire = _wire(asked, reply)
        headers = _about(run)
        if asked.stream:
            body = self._stream(run, reply, wire, first, pieces)
            kind = "text/event-stream"
            self.answered[request.url.path, 200] += 1
            return StreamingResponse(body, media_type=kind, headers=headers)
        async for _ in pieces:
            pass
        self.answered[request.url.path, 200] += 1
        return JSONResponse(wire.whole(reply), headers=headers)

    async def _first(
        self, request: Request, run: Run, pieces: AsyncIterator[tuple[str, str]]
    ) -> tuple[str, str] | None:
        """The first piece, or None for a reply without any; a client that leaves ends the turn."""
        waiting = asyncio.ensure_future(anext(pieces, None))
        leaving = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                run.stop(errors.CLIENT_GONE)
            return await waiting
        finally:
            leaving.cancel()

    async def _stream(
        self,
        run: Run,
        reply: Reply,
        wire: Wire,
        first: tuple[str, str] | None,
        pieces: AsyncIterator[tuple[str, str]],
    ) -> AsyncIterator[bytes]:
        whole = False
        try:
            for data in wire.begin():
                yield data
            if first is not None:
                for data in _written(wire, first):
                    yield data
                async for piece in pieces:
                    for data in _written(wire, piece):
                        yield data
            whole = True
            for data in wire.end(reply):
                yield data
        except errors.MindstoneError as error:
            whole = True
            for data in wire.fail(fault_of(error)):
                yield data
        finally:
            if not whole:
                run.stop(errors.CLIENT_GONE)

    def failed(self, request: Request, error: errors.MindstoneError) -> Response:
        """What a client is told when its request came to nothing."""
        fault = fault_of(error)
        self.answered[request.url.path, fault.status] += 1
        note(f"failed {fault.status} {request.url.path}: {error.what}", self._log)
        return JSONResponse(_body(request.url.path, fault), fault.status, fault.headers)

    async def _generate(self, request: Request) -> Response:
        """What Google's clients ask for: which model and what of it stand in the path."""
        called = request.path_params["called"]
        if called.endswith(":countTokens"):
            return JSONResponse({"totalTokens": await self._read(request, rough_size)})
        return await self._answer(wire_gemini.reader(called), request)

    async def _count(self, request: Request) -> Response:
        counted = partial(rough_size, names=("system", "messages", "tools"))
        return JSONResponse({"input_tokens": await self._read(request, counted)})

    async def _read(self, request: Request, read: Callable[[dict[str, Any]], T]) -> T:
        """What a body says, read beside the loop: one with very many parts would hold it up."""
        sent = await request.body()
        return await asyncio.to_thread(lambda: read(decode(sent)))

    async def _models(self, request: Request) -> Response:
        settings = self._home.settings
        found = await list_models(self._home.places, settings, self._home.environ)
        usual = await window_of(self._home.places, settings, self._home.environ)
        windows = {DEFAULT_MODEL: usual, **{one.name: one.window for one in found if one.usable}}
        data = [_model(name, settings.context.window or windows[name]) for name in windows]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}
        return JSONResponse({"object": "list", "data": data, **ends})

    async def _model(self, request: Request) -> Response:
        name, settings = request.path_params["name"], self._home.settings
        asked = "" if name == DEFAULT_MODEL else name
        window = await window_of(self._home.places, settings, self._home.environ, asked)
        return JSONResponse(_model(name, window))

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"ok": True, "program": "mindstone", "version": __version__})


_STATUS: Final = {
    "too_long": 400,
    "content": 400,
    "refused": 403,
    "quota": 429,
    "busy": 503,
    "timeout": 504,
}
"""What a failure of the model is where its server gave no status: there was none, or no server."""


def fault_of(error: errors.MindstoneError) -> Fault:
    """What a client is told with an error: if a model failed, what its server said."""
    if isinstance(error, TurnFailed):
        status = error.status or _STATUS.get(error.failure, 502)
        if error.failure == "too_long" and status != 413:
            status = 400  # some servers have another one for it, and programs know this one
        return Fault(status, error.sentence, error.failure, error.retry_after)
    if isinstance(error, errors.NoSuchSession | errors.UnknownName):
        return Fault(404, error.sentence)
    if isinstance(error, errors.UsageError | errors.SessionNameError):
        return Fault(400, error.sentence)
    return Fault(502, error.sentence)


def figures(endpoints: Endpoints, refused: Counter[int]) -> str:
    """The counters in Prometheus' text format."""
    answered = {
        f'{{path="{path}",status="{status}"}}': count
        for (path, status), count in sorted(endpoints.answered.items())
    }
    turned_away = {f'{{status="{status}"}}': count for status, count in sorted(refused.items())}
    failed, rooms = {"": endpoints.gateway.failures}, {"": endpoints.gateway.rooms}
    before = "Requests that were refused before anything saw them."
    return "".join(
        f"# HELP mindstone_{name} {about}\n# TYPE mindstone_{name} {kind}\n"
        + "".join(f"mindstone_{name}{label} {count}\n" for label, count in counted.items())
        for name, kind, about, counted in (
            ("requests_total", "counter", "Answered requests by path and status.", answered),
            ("refused_total", "counter", before, turned_away),
            ("failed_turns_total", "counter", "Turns of clients that failed.", failed),
            ("open_sessions", "gauge", "Sessions that clients have open.", rooms),
        )
    )


def _wire(asked: ClientRequest, reply: Reply) -> Wire:
    if asked.format == wire_messages.FORMAT:
        return wire_messages.MessagesWire(reply)
    if asked.format == wire_gemini.FORMAT:
        return wire_gemini.GeminiWire(reply)
    if asked.format == wire_responses.FORMAT:
        return wire_responses.ResponsesWire(reply, previous=asked.previous)
    return wire_chat.ChatWire(reply, with_usage=asked.with_usage)


def _written(wire: Wire, piece: tuple[str, str]) -> list[bytes]:
    kind, text = piece
    if kind == "waits":  # a comment: the formats have no word for it, and clients pass it over
        return [f": {one_line(text)}\n\n".encode()]
    return list(wire.text(text) if kind == "text" else wire.thought(text))


def _about(run: Run) -> dict[str, str]:
    """The number in front of the request, and where it went."""
    headers = {SESSION: run.room.conversation.session, "x-mindstone-turn": str(run.turn)}
    if (called := run.called) is not None:
        headers[CONTEXT] = (
            f"{called.tokens}; label={called.label}; window={called.window}; "
            f"window-label={called.window_label}; zone={called.zone}"
        )
    return {name: value.encode("ascii", "replace").decode() for name, value in headers.items()}


async def _gone(request: Request) -> None:
    """Until the client leaves."""
    with contextlib.suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass


def _model(name: str, window: int | None) -> dict[str, Any]:
    """A model, and its window under each name that programs look for it."""
    names = ("context_window", "context_length", "max_model_len", "max_input_tokens")
    return {
        "id": name,
        "object": "model",
        "created": now(),
        "owned_by": "mindstone",
        "type": "model",
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        **(dict.fromkeys(names, window) if window else {}),
    }


def application(home: api.Home, gateway: Gateway, page: Page, log: Path) -> Starlette:
    """Every path there is; anything else is not found."""
    endpoints = Endpoints(home, gateway, log)

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(figures(endpoints, request.app.state.refused))

    async def failed(request: Request, error: Exception) -> Response:
        record(error, log)
        told = {"message": "Something went wrong here; the log says what.", "type": "api_error"}
        return JSONResponse({"type": "error", "error": told}, 500)

    async def not_found(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        told = {"message": f"There is no {request.method} {request.url.path} here."}
        return JSONResponse({"type": "error", "error": {**told, "type": "not_found"}}, status)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.MindstoneError)
        return endpoints.failed(request, error)

    routes = [*endpoints.routes(), *page.routes(), Route("/metrics", metrics, methods=["GET"])]
    handlers: dict[Any, Any] = {
        errors.MindstoneError: refused,
        500: failed,
        Exception: failed,
        404: not_found,
        405: not_found,
    }
    return Starlette(routes=routes, exception_handlers=handlers)
