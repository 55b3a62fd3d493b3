"""The chat page: sessions in a browser, live beside the app, drawn from one stream of small values.

The page itself is three files that anybody on this machine may have; everything it shows comes
through paths that want the token, which the browser keeps for its tab and sends with each request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mindstone_tui import api
from mindstone_tui.core import entries, errors, paths, transcript
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.library.open_questions import LATELY, WaitingRoom, begun_in
from mindstone_tui.core.text import fresh_nonce
from mindstone_tui.servers import lookup, page_items, wire

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FILES: Final = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
Handler = Callable[["Request"], Coroutine[Any, Any, "Response"]]
_BEHIND: Final = 2_000
"""Items that a browser may be behind before its stream ends and it begins anew."""
_SHOWN: Final = 400
"""Lines of history with which a page begins."""
_BEAT: Final = 15.0
_UNTOLD: Final = 20


class PageRoom:
    """One session that browsers have open, and all of them that look at it."""

    def __init__(self, conversation: api.Conversation, home: api.Home, lost: str) -> None:
        self.conversation = conversation
        self.lost = lost
        """The folder in which the session was begun, if that is not there any more."""
        self._places = home.places.session(paths.SessionKey.parse(conversation.session))
        self.readers: set[asyncio.Queue[page_items.Item | None]] = set()
        self.asked: dict[str, ev.ToolAsked] = {}
        self.panel: page_items.Item | None = None
        self._untold: deque[page_items.Item] = deque(maxlen=_UNTOLD)
        """What the session said while nobody looked and history does not hold."""
        self.became: dict[str, bool] = {}
        """What was done of what browsers asked for, and what they gave up before."""
        self.taking = False
        """Whether a turn that began on the page runs."""
        self.used = asyncio.get_running_loop().time()
        """When a browser last looked or asked for something."""
        self._listener = asyncio.create_task(self._listen())

    def join(self) -> asyncio.Queue[page_items.Item | None]:
        """A place for everything from now on, the open questions first."""
        reader: asyncio.Queue[page_items.Item | None] = asyncio.Queue(_BEHIND)
        for item in (self.panel, *self._untold, *map(page_items.question, self.asked.values())):
            if item is not None:
                reader.put_nowait(item)
        self._untold.clear()
        self.readers.add(reader)
        self.conversation.attend(True)
        return reader

    def leave(self, reader: asyncio.Queue[page_items.Item | None]) -> None:
        """A browser is gone; after the last one nobody here can answer."""
        self.readers.discard(reader)
        self.conversation.attend(bool(self.readers))

    async def close(self) -> None:
        """Close the session, and every stream."""
        await self.conversation.close()
        await self._listener
        for reader in self.readers:
            if not reader.full():
                reader.put_nowait(None)

    async def _listen(self) -> None:
        async for event in self.conversation.events():
            match event:
                case ev.ToolAsked(call=call):
                    self.asked[call] = event
                case ev.ToolAnswered(call=call) | ev.ToolEnded(call=call):
                    self.asked.pop(call, None)
                case ev.TurnStarted():
                    self.taking = True
                case ev.TurnEnded() | ev.EntryAppeared(kind="turn_ended"):
                    self.taking = False
                    self.asked.clear()
            if isinstance(event, ev.EntryAppeared):
                items = await asyncio.to_thread(self._of_others, event.seq)
            elif isinstance(event, ev.AnswerRecorded):  # a long one takes a while to lay out
                items = await asyncio.to_thread(list, page_items.items_of(event))
            else:
                items = list(page_items.items_of(event))
            for item in items:
                if item["type"] == "panel":
                    self.panel = item
                elif isinstance(event, ev.Noticed | ev.MessageWithdrawn) and not self.readers:
                    self._untold.append(item)
                self._tell(item)

    def _of_others(self, seq: int) -> list[page_items.Item]:
        with transcript.History(self._places) as history:
            line = history.whole(history.line(seq))
            # A new line is changed by none yet; where an import comes from stands before it.
            known = transcript.standings_of(history) if is_imported(line) else Standings()
            return list(page_items.items_of_line(line, known))

    def _tell(self, item: page_items.Item) -> None:
        for reader in tuple(self.readers):
            try:
                reader.put_nowait(item)
            except asyncio.QueueFull:
                self.readers.discard(reader)
                reader.get_nowait()
                reader.put_nowait(None)


class Page:
    """The page's files and the paths behind it."""

    def __init__(self, home: api.Home) -> None:
        self._home = home
        self._connect = partial(api.connect, home=home, channel=page_items.CHANNEL, asks=True)
        self._lookup = lookup.Lookup(home)
        self._waits = WaitingRoom(home.places)
        self._rooms: dict[str, PageRoom] = {}
        self._opening = asyncio.Lock()

    def routes(self) -> list[BaseRoute]:
        """The paths, each for exactly one method."""
        from starlette.routing import Route

        return [
            *(Route(path, self._file, methods=["GET"]) for path in FILES),
            Route("/page/sessions", self._sessions, methods=["GET"]),
            Route("/page/history", self._history, methods=["GET"]),
            Route("/page/events", self._events, methods=["GET"]),
            Route("/page/search", self._search, methods=["GET"]),
            Route("/page/around", self._around, methods=["GET"]),
            Route("/page/waiting", self._waiting, methods=["GET"]),
            Route("/page/became", self._post(lambda *_: None), methods=["POST"]),
            *(
                Route(f"/page/{act.__name__[1:]}", self._post(act), methods=["POST"])
                for act in (_send, _answer, _stop, _withdraw)
            ),
        ]

    async def close_idle(self, seconds: float) -> None:
        """Close what no browser looked at for a while; a turn that runs is left alone."""
        now = asyncio.get_running_loop().time()
        for name, room in list(self._rooms.items()):
            if not room.readers and not room.taking and now - room.used > seconds:
                del self._rooms[name]
                await room.close()

    async def close(self) -> None:
        """Close every session that a browser had open."""
        for room in self._rooms.values():
            await room.close()
        self._rooms.clear()

    async def _file(self, request: Request) -> Response:
        from starlette.responses import Response

        name, kind = FILES[request.url.path]
        body = (files("mindstone_tui.servers") / "page_files" / name).read_bytes()
        return Response(body, media_type=kind, headers={"content-security-policy": POLICY})

    async def _sessions(self, request: Request) -> Response:
        contains = request.query_params.get("contains", "")
        told = await asyncio.to_thread(self._lookup.sessions, contains=contains)
        return _json({**told, "default": str(self._home.key(""))})

    async def _history(self, request: Request) -> Response:
        room = await self._room(request.query_params.get("session", ""))
        session = room.conversation.session
        items, head = await asyncio.to_thread(self._past, session)
        busy = room.conversation.busy
        return _json({"session": session, "items": items, "head": head, "busy": busy})

    def _past(self, session: str, after: int | None = None) -> tuple[list[page_items.Item], int]:
        """The newest lines as the page shows them, oldest first, and the number of the last one.

        Or those after a line that a page has.
        """
        places = self._home.places.session(paths.SessionKey.parse(session))
        with transcript.History(places) as history:
            head = history.head.seq
            if head == after:
                return [], head
            first = max(head - _SHOWN, 0) if after is None else after + 1
            standings = transcript.standings_of(history)
            items = [
                item
                for line in history.read(first, head)
                if isinstance(line, entries.Line)
                for item in page_items.items_of_line(history.whole(line), standings)
                if item != page_items.ANEW
            ]
            return items, head

    async def _events(self, request: Request) -> Response:
        from starlette.responses import StreamingResponse

        room = await self._room(request.query_params.get("session", ""))
        after = request.query_params.get("after", "")
        known = int(after) if after.isdecimal() else None
        return StreamingResponse(self._stream(room, known), media_type="text/event-stream")

    async def _stream(self, room: PageRoom, after: int | None) -> AsyncIterator[bytes]:
        reader = room.join()
        try:
            yield b": here\n\n"
            if after is not None:  # what was written between the two answers
                session = room.conversation.session
                for missed in (await asyncio.to_thread(self._past, session, after))[0]:
                    yield wire.sse(missed)
            while True:
                try:
                    item = await asyncio.wait_for(reader.get(), _BEAT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if item is None:
                    return
                yield wire.sse(item)
        finally:
            room.leave(reader)
            room.used = asyncio.get_running_loop().time()

    async def _search(self, request: Request) -> Response:
        query = request.query_params.get("query", "")
        return _json(await asyncio.to_thread(self._lookup.find, query))

    async def _around(self, request: Request) -> Response:
        given = request.query_params
        where = (given.get("session", ""), given.get("line", ""))
        return _json(await asyncio.to_thread(self._lookup.context_around, *where))

    async def _waiting(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._waits.look, LATELY)
        return _json(page_items.waiting(found, datetime.now(UTC)))

    def _post(self, act: Callable[[PageRoom, dict[str, Any]], None]) -> Handler:
        """What a browser asks for in a session; read beside the loop, because it may be much."""

        async def handle(request: Request) -> Response:
            told = await asyncio.to_thread(wire.decode, await request.body())
            room = await self._room(str(told.get("session", "")))
            done = room.became.setdefault(str(told.get("instead")), False)
            if (once := str(told.get("once") or fresh_nonce())) not in room.became:
                act(room, told)
                room.became[once] = True
            return _json({"ok": room.became[once], "done": done})

        return handle

    async def _room(self, session: str) -> PageRoom:
        key = str(self._home.key(session))
        async with self._opening:
            if key not in self._rooms:
                folder, lost = await asyncio.to_thread(self._begun_in, key)
                self._rooms[key] = PageRoom(await self._connect(key, cwd=folder), self._home, lost)
            room = self._rooms[key]
            room.used = asyncio.get_running_loop().time()
            return room

    def _begun_in(self, session: str) -> tuple[str | None, str]:
        """The folder in which a session goes on, its own or else ours; its own if that is gone."""
        places = self._home.places.session(paths.SessionKey.parse(session))
        if not places.transcript.exists():
            return None, ""
        with transcript.History(places) as history:
            folder = begun_in(history)
        return (folder or None, "") if paths.is_folder(folder) else (None, folder)


def _send(room: PageRoom, told: dict[str, Any]) -> None:
    text = wire.bounded(str(told.get("text", "")))
    if not text.strip():
        raise errors.UsageError("There is nothing to send.", "Say something.")
    if room.lost:
        raise errors.UsageError(
            f"This session works in {room.lost}, which is not there.",
            f"`mindstone chat -s {room.conversation.session}` goes on with it in another folder.",
        )
    line = text.strip()
    if line.startswith("/") and "\n" not in line:
        how, seen = page_items.hand_of(told)
        writing = page_items.seconds(told.get("writing"))
        room.conversation.command(line, how=how, seen=seen, writing=writing)
    else:
        room.conversation.send(text)


def _answer(room: PageRoom, told: dict[str, Any]) -> None:
    asked = room.asked.get(str(told.get("call", "")))
    if asked is None or told.get("since") != asked.since:  # a call's name may come again
        raise errors.UsageError("That question is no longer open.", "Somebody was first.")
    room.conversation.answer(asked.call, page_items.answer_of(asked, told))


def _stop(room: PageRoom, told: dict[str, Any]) -> None:
    how = page_items.hand_of(told)[0] or "click"
    room.conversation.interrupt("The person stopped it in the browser.", how=how)


def _withdraw(room: PageRoom, told: dict[str, Any]) -> None:
    room.conversation.withdraw(str(told.get("queued", "")))


def _json(told: Any) -> Response:
    from starlette.responses import Response

    return Response(msgspec.json.encode(told), media_type="application/json")
