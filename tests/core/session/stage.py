"""A live session on a stage: a script for a model, every event heard and checked as it comes.

The laws of the stream are checked on every session that a test plays: an event about an entry comes
after that entry is on disk, and each turn that starts ends once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mindstone_tui.core import events
from mindstone_tui.core.context.messages import first_unpaired
from mindstone_tui.core.disk import REAL, Disk
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.entries.conversation import SideRequestSent
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.replay.verify_requests import SentRequest, rebuilt_calls, requests_of
from mindstone_tui.core.session.build import open_session
from mindstone_tui.core.session.options import Opening
from mindstone_tui.core.session.session import Session
from mindstone_tui.core.transcript import Damaged, History, verify
from tests.core.recall.talk import WordModel
from tests.faults import FULL

E = TypeVar("E", bound=events.Event)
N = TypeVar("N", bound=Entry)

KEY = SessionKey.parse("agent:default:main")
PATIENCE = 120.0
"""Seconds after which a test gives up; how long anything takes is not what is tested."""


def script(folder: Path, *replies: Mapping[str, Any], loop: bool = False) -> str:
    """Write a script and name the model that says it."""
    path = folder / "script.jsonl"
    lines = [json.dumps(reply) for reply in (*replies, *([{"loop": True}] if loop else []))]
    path.write_text("\n".join(lines) + "\n")
    return f"scripted/{path}"


def calls(*wanted: tuple[str, Mapping[str, Any] | str], text: str = "", **more: Any) -> Any:
    """A reply that asks for tools."""
    named = [{"name": name, "arguments": arguments} for name, arguments in wanted]
    return {"text": text, "tool_calls": named, **more}


class Stage:
    """A session, and everything that was heard from it."""

    def __init__(self, session: Session, places: SessionPlaces) -> None:
        self.session = session
        self.places = places
        self.heard: list[events.AnyEvent] = []
        self.on_event: Callable[[events.AnyEvent], None] = lambda event: None
        self._read = 0
        """How much of the transcript was read for the events so far."""
        self._news = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self.session.events():
            self._check_on_disk(event)
            self.heard.append(event)
            self.on_event(event)
            async with self._news:
                self._news.notify_all()

    def _check_on_disk(self, event: events.AnyEvent) -> None:
        entry = getattr(event, "entry", "")
        if entry:
            named = f'"id":"{entry}"'.encode()
            with self.places.transcript.open("rb") as written:
                written.seek(self._read)
                news = written.read()
                if named not in news:  # one of the older ones, then
                    written.seek(0)
                    assert named in written.read(), f"{event.tag} came before its entry"
            self._read += news.rfind(b"\n") + 1

    async def until(
        self,
        kind: type[E],
        where: Callable[[E], bool] = lambda event: True,
        *,
        after: int = 0,
        patience: float = PATIENCE,
    ) -> E:
        """Wait for an event; one that was heard already counts, from number `after` on."""

        async with asyncio.timeout(patience), self._news:
            while True:
                for event in itertools.islice(self.heard, after, None):
                    if isinstance(event, kind) and where(event):
                        return event
                after = len(self.heard)
                self._alive()
                await self._news.wait()

    def _alive(self) -> None:
        if self._listening.done():
            self._listening.result()

    async def say(self, text: str, **more: Any) -> events.TurnEnded:
        """Take one turn, to its end."""
        here = len(self.heard)
        self.session.send(text, **more)
        return await self.until(events.TurnEnded, after=here)

    async def run(
        self, line: str, *, patience: float = PATIENCE, how: str = "", seen: float = 0.0
    ) -> tuple[events.CommandEnded, str]:
        """Run one command, to its end; everything it printed."""
        here = len(self.heard)
        self.session.command(line, how=how, seen=seen)
        ended = await self.until(events.CommandEnded, after=here, patience=patience)
        printed = [e.text for e in self.heard[here:] if isinstance(e, events.CommandPrinted)]
        offered = [e.otherwise for e in self.heard[here:] if isinstance(e, events.ScreenAsked)]
        return ended, "\n".join(printed + offered)

    async def idle(self) -> None:
        """Wait until nothing runs."""
        await self.session._inbox.idle.wait()

    async def served(self) -> None:
        """Wait until what runs is over, its chores included; more may wait."""
        while self.session._inbox.serving:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def rest(self) -> None:
        """Wait until nothing runs and every vector is made."""
        await self.idle()
        if (making := self.session.services._tidying) is not None:
            await asyncio.wait({making})

    def all(self, kind: type[E]) -> list[E]:
        """Every event of a kind so far."""
        return [event for event in self.heard if isinstance(event, kind)]

    @property
    def streamed(self) -> str:
        """All text that was streamed."""
        return "".join(event.text for event in self.all(events.TextDelta))

    async def close(self) -> None:
        """Close the session, hear the rest, and check the laws of the stream."""
        await self.session.close()
        async with asyncio.timeout(PATIENCE):
            await self._listening
        check_stream(self.heard)
        check_accounting(self.heard, self.entries(PromptPlanned))

    # What is on disk

    def lines(self) -> list[Line]:
        """The transcript as it is on disk now."""
        return read(self.places)

    def entries(self, kind: type[N]) -> list[N]:
        """The entries of a kind, with their texts whole."""
        lines = [line for line in read(self.places) if isinstance(line.entry, kind)]
        with History(self.places) as history:
            found = [history.whole(line).entry for line in lines]
        return [entry for entry in found if isinstance(entry, kind)]

    def requests(self) -> list[list[dict[str, Any]]]:
        """The messages of every request that was planned, rebuilt."""
        with History(self.places) as history:
            turns = sorted({line.turn for line in self.lines() if line.kind == "prompt_planned"})
            return [rebuilt.messages for turn in turns for rebuilt in rebuilt_calls(history, turn)]


def read(places: SessionPlaces) -> list[Line]:
    """Every line of a session; a damaged one is a failure."""
    with History(places) as history:
        found = list(history.read())
    lines = [item for item in found if isinstance(item, Line)]
    assert len(lines) == len(found), "a line cannot be read"
    return lines


def check_stream(heard: list[events.AnyEvent]) -> None:
    """Each turn that started ended once, before the next began, and nothing followed the close."""
    running = 0
    for event in heard:
        if isinstance(event, events.TurnStarted):
            assert running == 0, f"turn {event.turn} began inside turn {running}"
            running = event.turn
        elif isinstance(event, events.TurnEnded) and event.turn:
            assert event.turn == running or running == 0, "another turn ended"
            running = 0
    assert running == 0, f"turn {running} never ended"
    ended = [e.turn for e in heard if isinstance(e, events.TurnEnded) and e.turn]
    assert len(ended) == len(set(ended)), "a turn ended twice"
    started = {(e.turn, e.call) for e in heard if isinstance(e, events.ToolStarted)}
    finished = [(e.turn, e.call) for e in heard if isinstance(e, events.ToolEnded)]
    refused = any(isinstance(e, events.NotSaved) for e in heard)
    assert refused or started <= set(finished), "a tool started and never ended"
    assert len(finished) == len(set(finished)), "a tool ended twice"


def check_accounting(heard: list[events.AnyEvent], planned: list[PromptPlanned]) -> None:
    """The report in front of a request is about that request, to the token and the byte."""
    stable = {(plan.prompt_hash, plan.call): plan.stable_prefix for plan in planned}
    report = None
    for event in heard:
        if isinstance(event, events.ContextReported):
            report = event.report
        elif isinstance(event, events.ModelCalled):
            assert report is not None
            assert (report.prompt.tokens, report.prompt_hash) == (event.tokens, event.prompt_hash)
            assert report.call == event.call
            prefix = stable.get((event.prompt_hash, event.call), report.stable_prefix_tokens)
            assert report.stable_prefix_tokens == prefix


def check_history(places: SessionPlaces) -> int:
    """The transcript verifies, turns are whole, every request is rebuilt; how many there were."""
    verdict = verify(places)
    assert verdict.ok, verdict.problems[:3]
    lines = read(places)
    turns = [line.turn for line in lines]
    assert turns == sorted(turns), "turns are out of order"
    started = [line.turn for line in lines if line.kind == "turn_started"]
    ended = [line.turn for line in lines if line.kind == "turn_ended"]
    assert len(set(started)) == len(started), "a turn began twice"
    assert len(set(ended)) == len(ended), "a turn ended twice"
    assert set(ended) <= set(started)
    with History(places) as history:
        requests = list(map(_check_request, requests_of(history)))
        asked = sorted({line.turn for line in lines if line.kind == "prompt_planned"})
        for turn in asked if FULL else asked[-1:]:  # each of them is read from the disk alone
            assert all(rebuilt.matches for rebuilt in rebuilt_calls(history, turn))
    return len(requests)


def _check_request(sent: SentRequest | Damaged) -> None:
    """It was rebuilt as it was sent, and no call stands in it without its result."""
    assert isinstance(sent, SentRequest)
    recorded = sent.line.entry
    assert isinstance(recorded, PromptPlanned | SideRequestSent)
    assert sent.request is not None, sent.why
    assert sent.hash == recorded.prompt_hash, f"line {sent.line.seq} is rebuilt otherwise"
    assert first_unpaired(sent.request.messages) is None


def opening(home: Path, **fields: Any) -> Opening:
    """How the stage opens a session: nobody to ask, nobody to follow, vectors that cost nothing."""
    defaults: dict[str, Any] = {
        "key": KEY,
        "places": Places.resolve({"MINDSTONE_HOME": str(home)}),
        "environ": {},
        "cwd": home.parent,
        "channel": "test",
        "asks": False,
        "follow": False,
        "embedder": lambda name: WordModel(),
    }
    return Opening(**{**defaults, **fields})


@contextlib.asynccontextmanager
async def on_stage(home: Path, *, disk: Disk = REAL, **fields: Any) -> AsyncIterator[Stage]:
    """A session for the time of a test; the laws of stream and history are checked at its end."""
    chosen = opening(home, disk=disk, **fields)
    stage = Stage(await open_session(chosen), chosen.places.session(chosen.key))
    try:
        yield stage
    finally:
        await stage.close()
    check_history(stage.places)
