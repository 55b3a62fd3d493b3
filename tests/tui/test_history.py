"""Old exchanges: read a page at a time, mounted when they come near, never lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.events import Key

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Entry
from mindstone_tui.core.entries.conversation import TurnStarted, UserMessage
from mindstone_tui.core.entries.derived import MemoryDecided, MemoryProposed, StatementSuperseded
from mindstone_tui.core.entries.store import FileChange, FilesChanged, FilesRestored
from mindstone_tui.core.entries.window import Restored, Rewound, WindowState
from mindstone_tui.core.events.from_entry import events_of
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.transcript.reader import Damaged, History
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.from_entries import (
    ExchangeEvents,
    Feed,
    HistoryBrowse,
    contains,
    exchanges_in,
    split_at_turn,
    whole,
)
from mindstone_tui.tui.widgets.exchange import Aside, Bookkeeping, ExchangeView
from tests.builders import places_in, say, transcript_in
from tests.tui.shelf import Hasty, Shelf, fill
from tests.tui.staged import (
    SESSION,
    Staged,
    around,
    asked,
    done,
    ready,
    recorded,
    said,
    settle,
    streamed,
    tool,
    until,
)

MOST = 36
STEP = 8


def opened(home: Path, exchanges: int) -> tuple[MindstoneApp, Staged]:
    fill(home, exchanges)
    talk = Staged([ready(turns=exchanges)])

    async def open_conversation(key: str) -> ev.Conversation:
        return talk

    host = msgspec.structs.replace(around(), library=Shelf(home), session=SESSION)
    return MindstoneApp(open_conversation, host), talk


def turns(app: MindstoneApp) -> list[int]:
    return [view.exchange.turn for view in app.chat.conversation.query(ExchangeView)]


async def test_a_long_session_opens_with_its_newest_exchanges_alone(home: Path) -> None:
    app, talk = opened(home, 400)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        assert turns(app) == list(range(turns(app)[0], 401))
        assert STEP <= len(turns(app)) <= MOST
        assert len(app.chat.conversation.feed) < 60


async def test_a_turn_on_the_screen_says_what_replaced_its_words_and_that_they_hold_again(
    home: Path,
) -> None:
    app, talk = opened(home, 2)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        with closing(transcript_in(home)) as transcript, transcript.history() as history:
            new, old = (line.seq for line in history.newest(("user_message",), 100))
            transcript.append(StatementSuperseded(statement=old, by=new))
        talk.announce(ev.WindowChanged(turn=2, entry="", kind="statement_superseded", detail="it"))
        await settle(pilot, talk)
        first = app.chat.conversation.query(ExchangeView).first()
        told = f"What was said in it holds no longer: #{new} replaces it."
        assert first.exchange.notes == (told,)
        assert told in str(first.query(Aside).last().render())
        with closing(transcript_in(home)) as transcript:
            transcript.append(Rewound(to_turn=1, state=WindowState(through=99)))
        talk.announce(ev.WindowChanged(turn=2, entry="", kind="rewound", detail="rewound"))
        await settle(pilot, talk)
        assert not app.chat.conversation.feed.exchanges[0].notes
        assert "holds again" in str(first.query(Aside).last().render())


async def test_a_rewind_marks_the_turns_that_are_on_the_screen_and_a_restore_says_that_they_count(
    home: Path,
) -> None:
    app, talk = opened(home, 3)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        for entry, event in (
            (Rewound(to_turn=1, state=WindowState(through=99)), "rewound"),
            (Restored(turns=(3,), state=WindowState(through=99)), "restored"),
        ):
            with closing(transcript_in(home)) as transcript:
                transcript.append(entry)
            talk.announce(ev.WindowChanged(turn=3, entry="", kind=event, detail=event))
            await settle(pilot, talk)
            said = {
                exchange.turn: exchange.notes for exchange in app.chat.conversation.feed.exchanges
            }
            gone = ("This turn was rewound: the conversation went on without it.",)
            assert said == {1: (), 2: gone, 3: gone * (event == "rewound")}
        shown = app.chat.conversation.query(ExchangeView)[1].query(Aside).last()
        assert "This turn was rewound" in str(shown.render())


async def test_files_that_a_turn_changed_can_be_taken_back_until_they_were(home: Path) -> None:
    did: Any = {
        "total": 1,
        "changes": (FileChange(path="x.md"),),
        "root": "/p",
        "manifest": "0" * 64,
    }

    def write(entry: Entry) -> ev.AnyEvent:
        with closing(transcript_in(home)) as transcript:
            return next(iter(events_of(transcript.append(entry, turn=2))))

    def told(app: MindstoneApp) -> str:
        views = app.chat.conversation.query(ExchangeView)
        (kept,) = (one for view in views for one in view.query(Bookkeeping))
        return str(kept.titled())

    app, talk = opened(home, 2)
    write(FilesChanged(call="c", name="write", **did))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        assert "/undo takes it back" in told(app)
        for way, now in (("undo", "taken back since"), ("redo", "/undo takes it back")):
            act = {"direction": way, "turns": (2,), "token": way, **did}
            talk.announce(write(FilesRestored(**act)))
            await settle(pilot, talk)
            assert now in told(app)
    write(FilesRestored(direction="undo", turns=(2,), token="t", **did))
    app, talk = opened(home, 1)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        assert "taken back since" in told(app)


@pytest.mark.thorough
async def test_scrolling_up_brings_older_ones_and_keeps_the_number_of_widgets_small(
    home: Path,
) -> None:
    app, talk = opened(home, 60)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        view = app.chat.conversation
        for _ in range(400):
            await pilot.press("pageup", "pageup")
            if turns(app)[0] == 1 and view.scroll_y == 0:
                break
        assert turns(app)[0] == 1
        assert len(turns(app)) <= MOST + STEP
        assert turns(app) == sorted(turns(app))
        await pilot.press("ctrl+end")
        await until(pilot, lambda: turns(app)[-1] == 60)
        assert turns(app) == list(range(turns(app)[0], 61))


@pytest.mark.thorough
async def test_scrolling_down_again_passes_every_exchange(home: Path) -> None:
    app, talk = opened(home, 56)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        view = app.chat.conversation
        for _ in range(300):
            await pilot.press("pageup", "pageup")
            if turns(app)[0] == 1 and view.scroll_y == 0:
                break
        seen = set(turns(app))
        for _ in range(300):
            await pilot.press("pagedown", "pagedown")
            seen |= set(turns(app))
            if turns(app)[-1] == 56 and view.is_vertical_scroll_end:
                break
        assert seen == set(range(1, 57))
        assert turns(app) == list(range(turns(app)[0], 57))


@pytest.mark.thorough
async def test_what_one_reads_does_not_move_when_older_exchanges_arrive(home: Path) -> None:
    app, talk = opened(home, 100)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        view = app.chat.conversation
        moved = 0
        for _ in range(12):
            first = turns(app)[0]
            top = _at_top(app)
            view.scroll_to(y=max(0, view.scroll_y - 6), animate=False)
            await pilot.pause()
            await until(pilot, lambda: not view._moving.locked())
            await pilot.pause()
            if turns(app)[0] != first:
                moved += 1
                assert abs(_at_top(app) - top) <= 2
        assert moved > 0


def _at_top(app: MindstoneApp) -> int:
    """The turn at the upper edge of the view."""
    view = app.chat.conversation
    for child in view.query(ExchangeView):
        if child.region.bottom > view.region.y:
            return child.exchange.turn
    return -1


@pytest.mark.thorough
async def test_an_answer_that_arrives_while_one_reads_above_is_there_at_the_end(home: Path) -> None:
    app, talk = opened(home, 100)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press(*["pageup"] * 8)
        for _ in range(20):
            await pilot.pause()
        where = app.chat.conversation.scroll_y
        talk.announce(*said(101, "news", "indeed"))
        await settle(pilot, talk)
        assert app.chat.conversation.scroll_y == where
        await pilot.press("ctrl+end")
        await until(pilot, lambda: turns(app)[-1] == 101)


async def test_earlier_questions_can_be_recalled_into_the_prompt(home: Path) -> None:
    app, talk = opened(home, 20)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        await until(pilot, lambda: bool(app.chat.input_area.prompt._said))
        await pilot.press("up")
        assert app.chat.input_area.prompt.text == "Question 20"


def test_a_recorded_answer_replaces_its_pieces() -> None:
    exchange = ExchangeEvents(1, [asked(1, "q"), *streamed(1, "a long answer", 2)])
    assert exchange.answer == "a long answer"
    exchange.add(recorded(1, "a long answer"))
    exchange.add(done(1))
    assert exchange.answer == "a long answer"
    assert len(exchange.events) == 3


def test_thinking_is_kept_as_one_piece_and_tool_output_as_its_result() -> None:
    thoughts = [ev.ThinkingDelta(turn=1, text=word) for word in ("a", "b", "c")]
    started, ended = tool(1, "c", "shell", "ls", "x")
    output = ev.ToolOutput(turn=1, call="c", text="…")
    exchange = ExchangeEvents(1, [asked(1, "q"), *thoughts, started, output, ended, done(1)])
    assert [type(event).__name__ for event in exchange.events] == [
        "TurnStarted",
        "ThinkingDelta",
        "ToolStarted",
        "ToolEnded",
        "TurnEnded",
    ]


def test_what_comes_after_a_turn_stays_with_it() -> None:
    feed = Feed()
    for event in said(1, "q", "a"):
        feed.add(event)
    feed.add(ev.CommandPrinted(command="/cost", text="$1"))
    assert len(feed) == 1
    assert feed.add(ev.ScreenAsked(screen="help")) is None


def test_history_is_shown_with_the_events_that_once_announced_it(home: Path) -> None:
    fill(home, 4)
    with History(places_in(home)) as history:
        exchanges = [one for one in exchanges_in(history.read()) if one.turn]
    assert [one.question for one in exchanges] == [f"Question {n}" for n in (1, 2, 3, 4)]
    kinds = [type(event) for event in exchanges[3].events]
    assert kinds == [
        ev.TurnStarted,
        ev.AnswerRecorded,
        ev.ToolStarted,
        ev.ToolEnded,
        ev.AnswerRecorded,
        ev.TurnEnded,
    ]


def test_what_was_offered_and_decided_is_not_asked_about_again(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "remember both", "Shall I?")
    for name in ("m1", "m2"):
        transcript.append(
            MemoryProposed(
                proposal=name, path="a.md", before="", after=name, by="model", sources=(1,)
            ),
            turn=1,
        )
    transcript.append(MemoryDecided(proposal="m1", decision="approved", by="person"), turn=1)
    transcript.close()
    with History(places_in(home)) as history:
        shown = [event for each in exchanges_in(history.read()) for event in each.events]
    assert [each.proposal for each in shown if isinstance(each, ev.MemoryProposed)] == ["m2"]


def test_a_page_that_begins_inside_a_turn_waits_for_the_rest(home: Path) -> None:
    fill(home, 3)
    with History(places_in(home)) as history:
        lines = list(history.read(2))
    opening, rest = split_at_turn(lines)
    assert {line.turn for line in opening if not isinstance(line, Damaged)} == {1}
    assert [one.turn for one in exchanges_in(rest)] == [2, 3]


def test_a_damaged_line_is_shown_in_its_place() -> None:
    events = list(events_of(Damaged(120, b"\x00\x00", "not JSON")))
    assert isinstance(events[0], ev.Noticed)
    assert "byte 120" in events[0].message
    assert "not JSON" in describe_line(Damaged(120, b"\x00", "not JSON")).text


async def test_browsing_reads_finds_and_places_lines(home: Path) -> None:
    fill(home, 50)
    browse = HistoryBrowse(History(places_in(home)))
    length = await browse.length()
    page = await browse.lines(length - 3, 10)
    assert len(page) == 3
    assert await browse.lines(length, 5) == []
    found = await browse.search("QUESTION 31", length)
    assert found is not None
    line = (await browse.lines(found, 1))[0]
    assert contains(line, "question 31")
    assert not isinstance(line, Damaged)
    assert await browse.place_of(line.id) == found
    assert await browse.search("Question 31", found) is None
    assert await browse.first_of(31) is not None
    assert await browse.first_of(999) is None
    assert await browse.place_of("nothing") is None


def test_every_line_has_a_headline_and_can_be_read_whole(home: Path) -> None:
    fill(home, 4)
    with History(places_in(home)) as history:
        for line in history.read():
            assert describe_line(line).text
            assert whole(line)


async def test_a_turn_that_was_killed_says_that_it_did_not_finish(home: Path) -> None:
    app, talk = opened(home, 3)
    with closing(transcript_in(home, disk=Hasty())) as transcript:
        transcript.append(TurnStarted(), turn=4)
        transcript.append(UserMessage(text="killed in the middle"), turn=4)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, talk)
        told = [str(aside.render()) for aside in app.screen.query(Aside)]
        assert [line for line in told if "had not ended" in line] == told[-1:]


@pytest.mark.thorough
async def test_a_page_key_held_down_goes_through_history_page_by_page(home: Path) -> None:
    app, talk = opened(home, 120)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, talk)
        view = app.chat.conversation

        def top() -> int:
            """The exchange at the upper edge."""
            seen = (one for one in view.views if one.virtual_region.bottom > view.scroll_y)
            return next(seen).exchange.turn

        for _ in range(24):  # nobody waits in between
            app.post_message(Key("pageup", None))
        await until(pilot, lambda: top() <= 120 - 24 * 3)
        for _ in range(12):
            app.post_message(Key("pagedown", None))
        reached = top()
        await until(pilot, lambda: top() >= reached + 12 * 3)
        for _ in range(24):
            app.post_message(Key("pageup", None))
        app.post_message(Key("ctrl+end", None))
        app.post_message(Key("x", "x"))
        await until(pilot, lambda: top() > 110 and view.is_vertical_scroll_end)
        assert app.chat.input_area.prompt.text == "x"
