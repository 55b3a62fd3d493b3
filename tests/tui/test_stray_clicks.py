"""A click or a key that was meant for something else decides nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from textual import events
from textual.widgets import Input, OptionList

from mindstone_tui.core import events as ev
from tests.tui.staged import (
    GRACE,
    asked,
    done,
    drawn,
    escape_again,
    in_view,
    settle,
    step_in,
    timed,
    until,
)
from tests.tui.test_decisions import WISH, at_a_question

STRAY: list[dict[str, Any]] = [
    {"button": 2},
    {"button": 3},
    {"meta": True},
    {"control": True},
    {"shift": True},
]


@pytest.mark.parametrize("how", STRAY)
async def test_only_a_plain_left_click_answers(how: dict[str, Any]) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.1
        await pilot.click("#allow-0", **how)
        now[0] += GRACE
        await pilot.press("y")
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "y"), "it led into the question"
        await pilot.click("#allow-0")
        await until(pilot, lambda: [one[0] for one in talk.did] == ["answer"])


@pytest.mark.parametrize(("drawn", "given"), [(10, []), (1, ["answer"])])
async def test_a_click_that_is_drawn_along_an_answer_gives_none(
    drawn: int, given: list[str]
) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.5
        x, y = app.query_one("#allow-0").region.offset
        for kind, at in ((events.MouseDown, x), (events.MouseUp, x + drawn)):
            app.post_message(kind(None, at, y, 0, 0, 1, False, False, False, at, y))
        await pilot.pause()
        assert [one[0] for one in talk.did] == given


@pytest.mark.parametrize("question", [True, False])
async def test_a_second_escape_out_of_a_list_of_completions_stops_nothing(question: bool) -> None:
    now, app, talk = timed(asked(1, "go"), *([WISH] if question else []))
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk) if question else bool(talk.settled))
        now[0] += GRACE + 0.5
        await pilot.press("/", "u")
        await until(pilot, lambda: app.chat.input_area.prompt.completing)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.input_area.prompt.completing)
        await pilot.press("escape", "escape")
        assert talk.did == []
        now[0] += 10.0
        for step in range(2 if question else 1):  # beside a question only the second one stops
            later = events.Key("escape", "\x1b")
            later.time += 10.0 * (step + 1)
            app.post_message(later)
        await until(pilot, lambda: talk.did == [("interrupt",)])


async def test_who_clicks_back_into_the_prompt_takes_a_letter_back() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await step_in(pilot, now)
        await pilot.press("n")
        decision = app.chat.input_area.decision
        assert decision is not None
        app.chat.set_focus(app.chat.input_area.prompt)
        await until(pilot, lambda: not decision.has_class("-entered"))
        assert (decision.give_back(), talk.did) == (None, [])


async def test_an_escape_closes_the_panel_that_lies_over_the_chat_and_stops_nothing() -> None:
    now, app, talk = at_a_question()
    async with app.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.5
        await pilot.press("ctrl+b")
        assert app.chat.panel.has_class("-over")
        await pilot.press("escape", "escape")
        assert (talk.did, app.chat.panel.has_class("-over")) == ([], False)


async def test_a_key_that_was_to_stop_a_turn_stops_none_that_was_queued_behind_it() -> None:
    queued = msgspec.structs.replace(asked(2, "and then"), queued="q")
    now, app, talk = timed(asked(1, "go"), done(1), queued)
    async with app.run_test() as pilot:
        await until(pilot, lambda: talk.settled and app.chat.running == 2)
        now[0] += 0.5 * GRACE
        await pilot.press("escape")
        assert talk.did == []
        now[0] += GRACE
        await pilot.press("escape")
        await until(pilot, lambda: talk.did == [("interrupt",)])


@pytest.mark.parametrize("words", ["", "half "])
async def test_a_letter_must_stay_alone_for_longer_while_a_message_is_half_written(
    words: str,
) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press(*words.replace(" ", ""), *(["space"] if words else []))
        now[0] += 1.0
        await step_in(pilot, now)
        await pilot.press("n")
        decision = app.chat.input_area.decision
        assert decision is not None
        assert "A letter that follows takes it back" in drawn(app)
        assert decision.gate.alone == GRACE * (0.75 if words else 0.25)
        await pilot.press("o")
        await pilot.pause()
        assert (talk.did, app.chat.input_area.prompt.text) == ([], f"{words}no")


@pytest.mark.parametrize("reported", [True, False])
async def test_the_click_that_brings_the_focus_back_to_the_terminal_decides_nothing(
    reported: bool,
) -> None:
    now, app, talk = timed(asked(1, "go"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: talk.settled)
        app.post_message(events.AppBlur())
        await until(pilot, lambda: not app.app_focus)
        talk.announce(WISH)
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        if reported:  # some terminals say it before the click, some do not
            app.post_message(events.AppFocus())
        x, y = app.query_one("#allow-0").region.offset
        for kind in (events.MouseDown, events.MouseUp):  # as the terminal tells of it
            app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
        await until(pilot, lambda: "Too early: nothing is decided" in drawn(app))
        await until(pilot, lambda: in_view(app, talk))
        assert talk.did == []
        now[0] += GRACE + 0.5
        await until(pilot, lambda: not app.query_one("#allow-0").has_class("-active"))
        await pilot.click("#allow-0")
        clicked = ev.Answer(allowed=True, how="click", seen=1.5)
        await until(pilot, lambda: talk.did == [("answer", "c", clicked)])


async def test_whoever_looks_something_up_for_a_reason_writes_on_where_they_were() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.5
        await pilot.press("tab")
        now[0] += GRACE
        await pilot.press("r", *"not")
        app.post_message(events.AppBlur())
        await until(pilot, lambda: not app.app_focus)
        app.post_message(events.AppFocus())
        await until(pilot, lambda: app.app_focus and in_view(app, talk))
        await pilot.press(*" yet", "enter")
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "")
        now[0] += GRACE
        await pilot.press("enter")
        await until(pilot, lambda: bool(talk.did))
        given = talk.did[0][2]
        assert isinstance(given, ev.Answer)
        assert (given.allowed, given.why) == (False, "not yet")


async def test_a_list_of_messages_to_go_back_to_is_read_before_one_is_taken() -> None:
    now, app, talk = timed(asked(1, "paint it blue"), done(1), asked(2, "then red"), done(2))
    async with app.run_test() as pilot:
        await settle(pilot, talk)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen is not app.chat and "blue" in drawn(app))
        await pilot.press("up")
        assert app.screen.query_one(OptionList).highlighted == 0, "the oldest is far away"
        await pilot.press("enter")
        await pilot.click(OptionList, offset=(4, 1))
        assert (talk.did, app.screen is app.chat) == ([], False), "nobody can have read it"
        now[0] += GRACE
        await pilot.click(OptionList, offset=(4, 1), button=2)
        assert talk.did == []
        app.screen.query_one(Input).focus()
        await pilot.press(*"blue", "enter")
        assert talk.did == [], "it is another list since"
        now[0] += GRACE
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.chat)
        assert talk.did == [("command", "/rewind before turn 1", "picked in the list")]


@pytest.mark.parametrize("key", ["space", "x"])
async def test_an_escape_right_after_a_key_that_led_out_of_a_question_stops_nothing(
    key: str,
) -> None:
    now, app, talk = at_a_question()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await step_in(pilot, now)
        await pilot.press(key, "escape")  # meant as: back
        await until(pilot, lambda: "Too early: nothing is decided" in drawn(app))
        assert talk.did == []
        now[0] += GRACE
        await pilot.press("escape")
        await escape_again(pilot)
        await until(pilot, lambda: talk.did == [("interrupt",)])
