"""A recording through the same stream as a live session, with hands on the clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mindstone_tui.core import events as ev
from mindstone_tui.core.context.build_report import report_at
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, TurnStarted, UserMessage
from mindstone_tui.core.events import Conversation
from mindstone_tui.core.replay.playback import Replay
from mindstone_tui.core.transcript import History
from tests.builders import say, transcript_in
from tests.core.replay.recorded import SMALL, TURNS, recorded
from tests.core.session.stage import calls, check_stream, on_stage, script

PATIENCE = 30


class Audience:
    """Hears a recording."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.heard: list[ev.AnyEvent] = []
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self.replay.events():
            self.heard.append(event)
            async with self._news:
                self._news.notify_all()

    async def until(self, kind: type[ev.AnyEvent], after: int = 0) -> ev.AnyEvent:
        async with asyncio.timeout(PATIENCE), self._news:
            while True:
                for event in self.heard[after:]:
                    if isinstance(event, kind):
                        return event
                await self._news.wait()

    async def until_true(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            while not holds():
                await self._news.wait()

    async def leave(self) -> None:
        await self.replay.close()
        await self._task


@asynccontextmanager
async def playing(history: History, **options: object) -> AsyncIterator[Audience]:
    replay = Replay(history, SMALL, speed=0.0, **options)  # type: ignore[arg-type]
    audience = Audience(replay)
    yield audience
    await audience.leave()
    assert isinstance(audience.heard[-1], ev.SessionClosed)


async def all_of(history: History, **options: object) -> list[ev.AnyEvent]:
    replay: Conversation = Replay(history, SMALL, speed=0.0, stays=False, **options)  # type: ignore[arg-type]
    return [event async for event in replay.events()]


async def test_a_recording_gives_the_events_of_the_live_session(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    model = script(
        tmp_path,
        calls(("read", {"path": "a.txt"}), text="Let me look."),
        {"text": "It says hello."},
    )
    async with on_stage(home, model=model, cwd=tmp_path) as stage:
        await stage.say("read a.txt")
    with History(stage.places) as history:
        heard = await all_of(history)
    shared = (
        ev.TurnStarted,
        ev.AnswerRecorded,
        ev.ModelCalled,
        ev.ToolStarted,
        ev.UsageReported,
    )
    live = [
        msgspec.structs.replace(event, last=False)
        if isinstance(event, ev.AnswerRecorded)
        else event
        for event in stage.heard
        if isinstance(event, shared)
    ]
    assert [event for event in heard if isinstance(event, shared)] == live
    assert len(live) >= 7
    ended, told = (
        next(event for event in events if isinstance(event, ev.ToolEnded))
        for events in (stage.heard, heard)
    )
    assert (ended.call, ended.entry, ended.text) == (told.call, told.entry, told.text)
    streamed = "".join(event.text for event in heard if isinstance(event, ev.TextDelta))
    assert streamed == stage.streamed


async def test_every_turn_that_starts_ends_even_where_history_forgot(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "one", "first")
    transcript.append(TurnStarted(), turn=2)
    transcript.append(UserMessage(text="two"), turn=2)
    transcript.append(AssistantMessage(text="", model="test"), turn=2)
    say(transcript, "three", "third")
    transcript.close()
    with History(transcript.places) as history:
        heard = await all_of(history)
    check_stream(heard)
    endings = [event.ending for event in heard if isinstance(event, ev.TurnEnded)]
    assert endings == ["done", "interrupted", "done"]


async def test_the_report_is_the_one_of_that_moment(home: Path) -> None:
    with recorded(home) as history:
        async with playing(history, playing=False) as audience:
            assert audience.replay.go("prune")
            shown = await audience.until(ev.ContextReported)
            call = audience.replay.survey.shown_at(audience.replay.position.seq)
            assert call is not None
            assert isinstance(shown, ev.ContextReported)
            assert shown.report == report_at(history, SMALL, history.line(call.seq))


async def test_steps_go_from_request_to_request_and_from_turn_to_turn(home: Path) -> None:
    with recorded(home) as history:
        async with playing(history, playing=False) as audience:
            replay = audience.replay
            assert replay.step("call")
            await audience.until(ev.ContextReported)
            assert [e.call for e in audience.heard if isinstance(e, ev.ModelCalled)] == [1]
            assert not [e for e in audience.heard if isinstance(e, ev.AnswerRecorded)]
            here = len(audience.heard)
            assert replay.step("turn")
            await audience.until(ev.ContextReported, after=here)
            ended = [e.turn for e in audience.heard if isinstance(e, ev.TurnEnded)]
            assert ended == [1, 2]
            assert replay.position.turn == 2
            assert not replay.position.playing


async def test_a_jump_begins_the_stream_anew_a_little_earlier(home: Path) -> None:
    with recorded(home) as history:
        async with playing(history, playing=False) as audience:
            assert audience.replay.go_to_turn(12)
            await audience.until(ev.ContextReported)
            again = max(n for n, e in enumerate(audience.heard) if isinstance(e, ev.SessionReady))
            shown = [e.turn for e in audience.heard[again:] if isinstance(e, ev.TurnStarted)]
            assert shown == [10, 11, 12]
            here = len(audience.heard)
            assert audience.replay.go("tool", back=True)
            await audience.until(ev.ContextReported, after=here)
            assert audience.replay.position.turn < 12
        check_endings(audience.heard)


def check_endings(heard: list[ev.AnyEvent]) -> None:
    """No turn begins inside another, however somebody jumped."""
    running = 0
    for event in heard:
        if isinstance(event, ev.TurnStarted):
            assert not running
            running = event.turn
        elif isinstance(event, ev.TurnEnded):
            assert event.turn == running
            running = 0
    assert not running


async def test_words_are_found_and_gone_to(home: Path) -> None:
    with recorded(home) as history:
        async with playing(history, playing=False) as audience:
            assert await audience.replay.find("REQUESTS HANGS")
            await audience.until(ev.ContextReported)
            assert audience.replay.position.turn == 2
            assert not await audience.replay.find("nobody ever said this")


async def test_playing_stops_at_the_end_and_can_begin_again(home: Path) -> None:
    with recorded(home) as history:
        async with playing(history, reports=False) as audience:
            await audience.until_true(lambda: audience.replay.position.at_end)
            assert [e.turn for e in audience.heard if isinstance(e, ev.TurnEnded)][-1] == TURNS
            here = len(audience.heard)
            audience.replay.play()
            first = await audience.until(ev.TurnStarted, after=here)
            assert isinstance(first, ev.TurnStarted)
            assert first.turn == 1


async def test_nothing_can_be_said_or_changed_in_a_recording(home: Path) -> None:
    with recorded(home) as history:
        before = history.places.transcript.read_bytes()
        async with playing(history, playing=False) as audience:
            talk: Conversation = audience.replay
            talk.send("hello?")
            talk.answer("call", ev.Answer(allowed=True))
            talk.withdraw("entry")
            talk.command("/prune 3")
            talk.interrupt()
            await audience.until_true(
                lambda: any(isinstance(e, ev.CommandEnded) for e in audience.heard)
            )
        ends = [e.ok for e in audience.heard if isinstance(e, ev.CommandEnded)]
        assert ends == [False]
        assert len([e for e in audience.heard if isinstance(e, ev.Noticed)]) == 3
        assert history.places.transcript.read_bytes() == before


async def test_a_damaged_line_is_named_and_skipped(home: Path) -> None:
    with recorded(home) as history:
        path = history.places.transcript
    raw = path.read_bytes().split(b"\n")
    spoiled = next(n for n, line in enumerate(raw) if b"httpx it is" in line)
    raw[spoiled] = b"{nonsense"
    path.write_bytes(b"\n".join(raw))
    with History(history.places) as damaged:
        heard = await all_of(damaged, reports=False)
    assert [e for e in heard if isinstance(e, ev.Noticed) and "Unreadable" in e.message]
    assert [e.turn for e in heard if isinstance(e, ev.TurnStarted)] == list(range(1, TURNS + 1))


async def test_the_survey_knows_where_everything_stands(home: Path) -> None:
    with recorded(home) as history:
        found = Replay(history, SMALL).survey
        lines = [line for line in history.read() if isinstance(line, Line)]
    plans = [line.seq for line in lines if line.kind == "prompt_planned"]
    assert [mark.seq for mark in found.calls] == plans
    assert found.turns == TURNS
    assert all(mark.utilization > 0 for mark in found.calls)
    third = found.turn(3)
    assert third is not None
    following = found.after(third.seq, "turn")
    assert following is not None
    assert following.turn == 4
    assert found.before(third.seq, "turn") == found.turn(2)
