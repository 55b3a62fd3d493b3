"""The gateway: a client's request becomes a turn of a session, and the turn the client's reply.

The window, recall and every number are those of the app. Tools that the client owns are called at
the client: the reply ends with the calls, the turn waits, and the client's next request brings the
results. One turn at a time in each session; whoever comes second waits.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui import api
from mindstone_tui.core import entries, paths, transcript
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries.conversation import AssistantMessage, ClientMatched
from mindstone_tui.core.errors import CLIENT_GONE, MindstoneError, NoSuchSession, UsageError
from mindstone_tui.core.events.narrate import describe
from mindstone_tui.core.session.options import Guest
from mindstone_tui.core.text import added_around
from mindstone_tui.servers import match, wire
from mindstone_tui.servers.client import NOBODY, Client

CHANNEL: Final = "gateway"
DEFAULT_MODEL: Final = "default"
ROUNDS: Final = 1_000
"""Model calls in one turn, the most that can be set: how many, is the client's business."""

_RETRIED_WITHIN: Final = 60.0
"""Seconds after which nobody is going to ask again for what failed; programs wait half of that."""

Piece = tuple[str, str]
"""`text`, `thought` or `waits`, and what it says."""


class TurnFailed(MindstoneError):
    """The turn behind a reply failed; history has it, and why."""

    def __init__(self, ended: ev.TurnEnded) -> None:
        super().__init__(ended.why or "The turn was interrupted.", ended.remedy)
        self.failure = ended.failure
        self.status = ended.status
        self.retry_after = ended.retry_after


class Run(msgspec.Struct, eq=False):
    """A turn that a client began, until it is over."""

    room: Room
    root: str
    events: asyncio.Queue[ev.AnyEvent] = msgspec.field(default_factory=asyncio.Queue)
    turn: int = 0
    stage: int = 0
    """Replies so far: each ends with calls at the client, the last with the turn."""
    waits_for: set[str] = set()
    called: ev.ModelCalled | None = None
    """The request that was sent last, in numbers."""
    over: bool = False
    _patience: asyncio.TimerHandle | None = None

    @property
    def id(self) -> str:
        """Names the session and the turn, so that a later request can go on from it."""
        told = f"{self.room.conversation.session}\n{self.turn}\n{self.stage}"
        return base64.b32hexencode(told.encode()).decode().rstrip("=").lower()

    def wait_for(self, calls: set[str], seconds: float) -> None:
        """Wait for a client's results, and not for ever."""
        self.waits_for = calls
        why = f"The client did not return its tools' results within {seconds:g} seconds."
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(seconds, self.room.conversation.interrupt, why)

    def go_on(self) -> None:
        """The client is back."""
        self.waits_for = set()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def stop(self, why: str) -> None:
        """End the turn, if it still runs."""
        self.go_on()
        if not self.over:
            self.room.conversation.interrupt(why)


class Room:
    """One open session for clients that want the same model and the same tools of ours."""

    def __init__(self, conversation: api.Conversation, guest: Guest) -> None:
        self.conversation = conversation
        self.guest = guest
        self.turn = asyncio.Lock()
        """Held from before a turn until it is over and its chores are done."""
        self.used = asyncio.get_running_loop().time()
        self.run: Run | None = None
        self.failed = False
        """Its last turn did, and is open for another attempt until this is closed."""
        self._ended: asyncio.Future[ev.CommandEnded] | None = None
        self._listener = asyncio.create_task(self._listen())

    async def command(self, line: str) -> ev.CommandEnded:
        """Run a slash command, to its end."""
        self._ended = asyncio.get_running_loop().create_future()
        self.conversation.command(line, how="the client went back")
        return await self._ended

    async def close(self) -> None:
        """Close the session, and hear it out."""
        await self.conversation.close()
        await self._listener

    async def _listen(self) -> None:
        async for event in self.conversation.events():
            if isinstance(event, ev.CommandEnded) and self._ended is not None:
                if not self._ended.done():
                    self._ended.set_result(event)
            elif self.run is not None:
                run = self.run
                run.events.put_nowait(event)
                if isinstance(event, ev.TurnEnded):
                    run.over = True
                    self.failed = event.ending == "failed" or event.why == CLIENT_GONE
                    run.go_on()
                    self.run = None
                    self.guest.forget()
                    self._release = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        await self.conversation.settled()
        self.used = asyncio.get_running_loop().time()
        self.turn.release()


class Gateway(msgspec.Struct, eq=False):
    """Every client's requests, and the sessions they go to."""

    _home: api.Home
    _rooms: dict[tuple[str, str, bool], Room] = {}
    _opening: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    _records: dict[str, match.Record] = {}
    _marks: match.MarkCache = msgspec.field(default_factory=match.MarkCache)
    _reading: threading.Lock = msgspec.field(default_factory=threading.Lock)
    requests: int = 0
    failures: int = 0

    @property
    def rooms(self) -> int:
        """Sessions that are open."""
        return len(self._rooms)

    async def take(
        self,
        asked: wire.ClientRequest,
        *,
        session: str = "",
        client: Client = NOBODY,
        own_tools: bool = False,
    ) -> Run:
        """Begin a client's turn, or go on with the one that waits for what it brings.

        A program that is known has a session for each of its conversations; who names none goes on
        with the last one of the folder it works in.
        """
        self.requests += 1
        if not asked.messages:
            raise UsageError("There is no message with words in it.", "Send at least one.")
        for message in asked.messages:
            wire.bounded(message.text)
        wire.bounded(asked.instructions, "Instructions", wire.LONGEST_INSTRUCTIONS)
        if (waiting := self._waiting_for(asked)) is not None:
            return self._go_on(waiting, asked)
        prior, new = _split(asked.messages)
        *marks, last, own = await asyncio.to_thread(
            lambda: [self._marks.of(message) for message in (*prior, asked.messages[-1], new)]
        )
        root = match.digest([*marks, own][:1])
        place = Path(client.folder) if client.folder else None
        if place is not None and not (place.is_absolute() and paths.is_folder(place)):
            raise UsageError(f"{client.folder} is no folder here.", "Name it by its whole path.")
        named = session or ("" if asked.previous else asked.user)
        if not named and not asked.previous:
            named = client.session((*marks, last)[0])
        key = await asyncio.to_thread(self._session_for, asked, named, place, marks)
        self._give_up(key, match.digest(marks[:1]))
        room = await self._room(key, asked.model, own_tools, place)
        await room.turn.acquire()
        try:
            planned = await asyncio.to_thread(self._plan, key, marks, last)
            if planned.action == "rewound":
                to = f"turn {planned.to_turn}" if planned.to_turn else "before turn 1"
                await room.command(f"/rewind {to}")
            elif planned.action not in ("appended", "retried"):
                forked = await self._fork(room, key, planned)
                room.turn.release()
                room = await self._room(forked, asked.model, own_tools, place)
                await room.turn.acquire()
            await room.conversation.settled()
            _check_pictures(room.conversation, new)
            return self._begin(room, asked, planned, prior, new, marks, root)
        except BaseException:
            room.turn.release()
            raise

    async def pieces(self, run: Run, reply: wire.Reply) -> AsyncIterator[Piece]:
        """A reply as it comes; `reply` is whole when this ends. Raises `TurnFailed`."""
        run.stage += 1
        calls: tuple[entries.ToolCall, ...] = ()
        asked = complete = used_tools = False
        while True:
            event = await run.events.get()
            match event:
                case ev.TextDelta(text=text):
                    if used_tools and reply.text:
                        text = f"\n\n{text}"  # what was said before and after a tool of ours
                    used_tools = False
                    reply.text += text
                    yield "text", text
                case ev.ThinkingDelta(text=text):
                    reply.thought += text
                    yield "thought", text
                case ev.ToolAsked():
                    yield "waits", f"{describe(event)}; `mindstone waiting` lists it"
                case ev.AnswerRecorded(entry=entry) if event.calls:
                    calls = await asyncio.to_thread(self._client_calls, run, entry)
                    asked, used_tools = bool(calls), not calls
                case ev.AnswerRecorded(finish=finish):
                    reply.ending = "length" if finish == "length" else "stop"
                    complete = event.last
                case ev.UsageReported(usage=usage):
                    reply.usage = _added(reply.usage, usage)
                    if asked:
                        reply.calls, reply.ending = calls, "calls"
                        run.wait_for(
                            {call.id for call in calls}, self._home.settings.serve.tool_wait
                        )
                    if asked or complete:  # the answer is on disk; the turn's end follows there
                        return
                case ev.ModelCalled(model=model):
                    run.called = event
                    reply.model = model
                case ev.TurnStarted(turn=turn):
                    run.turn = turn
                case ev.TurnEnded(ending="done"):
                    return
                case ev.TurnEnded():
                    self.failures += 1
                    raise TurnFailed(event)

    async def close_idle(self) -> None:
        """Close what nobody used for a while."""
        now = asyncio.get_running_loop().time()
        idle = self._home.settings.serve.idle
        for name, room in list(self._rooms.items()):
            patience = min(idle, _RETRIED_WITHIN) if room.failed else idle
            if not room.turn.locked() and now - room.used > patience:
                del self._rooms[name]
                await room.close()

    async def close(self) -> None:
        """Close every session; what runs is interrupted and says so in history."""
        for room in self._rooms.values():
            await room.close()
        self._rooms.clear()
        for record in self._records.values():
            record.close()

    # Where a request belongs

    def _session_for(
        self, asked: wire.ClientRequest, named: str, folder: Path | None, marks: list[str]
    ) -> str:
        if named:
            return str(paths.SessionKey.parse(named))
        if asked.previous:
            return self._session_of(asked.previous)
        default = str(self._home.key("", folder))
        if not marks:
            return default
        with self._reading:
            record = self._record(default)
            if record is not None and match.count_known(marks, record.messages) == len(marks):
                return default
        return str(paths.SessionKey.parse(f"api-{match.digest(marks[:2])[:12]}"))

    def _session_of(self, response: str) -> str:
        try:
            padded = response.removeprefix("resp_").upper()
            told = base64.b32hexdecode(padded + "=" * (-len(padded) % 8)).decode()
            session = str(paths.SessionKey.parse(told.split("\n")[0]))
        except (binascii.Error, UnicodeDecodeError, MindstoneError):
            raise UsageError(f"There is no response {response}.", "Send the whole input.") from None
        if not self._home.places.session(paths.SessionKey.parse(session)).transcript.exists():
            raise NoSuchSession(paths.SessionKey.parse(session))
        return session

    def _record(self, key: str) -> match.Record | None:
        """The session's messages by their marks, up to now; None when there is no session."""
        places = self._home.places.session(paths.SessionKey.parse(key))
        if not places.transcript.exists():
            return None
        if key not in self._records:
            self._records[key] = match.Record(places, CHANNEL)
        self._records[key].look()
        return self._records[key]

    def _plan(self, key: str, marks: list[str], new: str) -> match.Plan:
        with self._reading:
            record = self._record(key)
            return match.plan(marks, record, new) if record is not None else match.Plan()

    # Turns

    def _begin(
        self,
        room: Room,
        asked: wire.ClientRequest,
        planned: match.Plan,
        prior: tuple[wire.ClientMessage, ...],
        new: wire.ClientMessage,
        marks: list[str],
        root: str,
    ) -> Run:
        run = Run(room, root)
        room.guest.bring(asked.instructions, asked.tools, asked.sampling)
        adopted = prior[planned.known :]
        matched = ClientMatched(
            format=asked.format,
            prior=match.digest(marks),
            root=root,
            known=planned.known,
            adopted=len(adopted),
            action=planned.action,
        )
        keep = partial(_kept, room.conversation)
        before = tuple(match.exchanges(adopted, keep))
        note, words, after = added_around(new.text)
        room.conversation.send(
            words, images=keep(new), before=before, matched=matched, added=(note, after)
        )
        room.run = run
        return run

    def _waiting_for(self, asked: wire.ClientRequest) -> Run | None:
        """The turn that waits for results that this request brings."""
        brought = {message.call for message in asked.messages if message.role == "tool"}
        return next(
            (
                room.run
                for room in self._rooms.values()
                if room.run is not None and room.run.waits_for & brought
            ),
            None,
        )

    def _go_on(self, run: Run, asked: wire.ClientRequest) -> Run:
        """Hand a client's results in; what it says besides steers the turn."""
        wanted = run.waits_for
        run.go_on()
        run.room.guest.sampling = asked.sampling
        given: set[str] = set()
        trailing = ""
        shown: list[wire.Picture] = []
        for message in asked.messages:
            if message.role == "tool" and message.call in wanted:
                text = message.text or ("(a picture)" if message.pictures else "")
                run.room.guest.hand_in(message.call, text, failed=message.failed)
                given.add(message.call)
                shown += message.pictures
                trailing = ""
            elif message.role == "user" and given:
                trailing = message.text
                shown += message.pictures
        for call in wanted - given:
            run.room.guest.hand_in(call, "The client told of no result.", failed=True)
        # A tool's result is words; its pictures follow as the next thing that is said.
        images = _kept(
            run.room.conversation, wire.ClientMessage(role="user", pictures=tuple(shown))
        )
        if trailing or images:
            text = trailing or "The pictures of these results."
            note, words, after = added_around(text)
            run.room.conversation.send(words, images=images, steer=True, added=(note, after))
        return run

    def _give_up(self, key: str, root: str) -> None:
        """A client that says something new no longer brings results for what it asked before."""
        for (session, _, _), room in self._rooms.items():
            run = room.run
            if session == key and run is not None and run.waits_for and root and run.root == root:
                run.stop("The client went on without the results of its tools.")

    async def _fork(self, room: Room, key: str, planned: match.Plan) -> str:
        """Another session from an earlier turn, because others have spoken in this one since."""
        taken = {each.key.main for each in self._home.places.sessions()}
        main = paths.free_name(f"{paths.SessionKey.parse(key).main}-fork", taken)
        name = str(paths.SessionKey.parse(main))
        if planned.to_turn > 0:
            ended = await room.command(f"/fork {name} turn {planned.to_turn}")
            if not ended.ok:
                raise UsageError(f"{key} could not be forked at turn {planned.to_turn}.")
        return name

    async def _room(self, key: str, model: str, own_tools: bool, folder: Path | None) -> Room:
        named = "" if model == DEFAULT_MODEL else model
        async with self._opening:
            if (room := self._rooms.get((key, named, own_tools))) is None:
                guest = Guest(own_tools=own_tools, folder=folder)
                conversation = await api.connect(
                    key,
                    model=named,
                    home=self._home,
                    cwd=folder,
                    channel=CHANNEL,
                    asks=own_tools,
                    follow=own_tools,
                    max_rounds=ROUNDS,
                    guest=guest,
                )
                room = self._rooms[key, named, own_tools] = Room(conversation, guest)
            return room

    def _client_calls(self, run: Run, entry: str) -> tuple[entries.ToolCall, ...]:
        """The calls of an answer that run at the client."""
        key = paths.SessionKey.parse(run.room.conversation.session)
        with transcript.History(self._home.places.session(key)) as history:
            line: entries.Line = history.whole(history.find(entry))
        if not isinstance(line.entry, AssistantMessage):
            return ()
        names = run.room.guest.names
        return tuple(call for call in line.entry.calls if call.name in names)


def _kept(conversation: api.Conversation, message: wire.ClientMessage) -> tuple[entries.Image, ...]:
    """A message's pictures and sounds, each in the session's own keeping."""
    return tuple(
        conversation.keep(picture.data, f"picture-{number}")
        for number, picture in enumerate(message.pictures, 1)
        if picture.data
    )


def _check_pictures(conversation: api.Conversation, message: wire.ClientMessage) -> None:
    """Refuse what the model could not be shown: its answer would be about nothing."""
    for number, picture in enumerate(message.pictures, 1):
        if picture.url:
            raise UsageError(
                "A picture is named by its address, and nothing is fetched here.",
                "Send its bytes as a data: URL or as base64.",
            )
        conversation.check_taken(picture.data, f"picture-{number}")


def _split(
    messages: tuple[wire.ClientMessage, ...],
) -> tuple[tuple[wire.ClientMessage, ...], wire.ClientMessage]:
    """The past and what is new: the last message of the person, or results nobody waits for."""
    last = messages[-1]
    if last.role == "user":
        return messages[:-1], last
    brought = [message for message in messages if message.role == "tool"]
    if last.role == "tool":
        told = "\n\n".join(f"Result of {one.call}:\n{one.text}" for one in brought[-8:])
        return messages[:-1], wire.ClientMessage(role="user", text=told)
    raise UsageError("The last message is the assistant's.", "End with what is asked.")


def _added(left: entries.Usage, right: entries.Usage) -> entries.Usage:
    """The newest request's usage, with all that was answered since the client asked."""
    said = [each for each in (left.completion, right.completion) if each is not None]
    return msgspec.structs.replace(right, completion=sum(said) if said else None)
