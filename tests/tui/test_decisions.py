"""Typing decides nothing, whatever opens while somebody types, and no character is lost."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Button

from mindstone_tui.cli.line_chat import LineQuestions
from mindstone_tui.core import events as ev
from mindstone_tui.core.library.open_questions import OpenQuestion, mark_of
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.terminal import KeyAmong, PasteParser
from mindstone_tui.tui.widgets.approval import Approval, Decision, Gate, about_memory
from tests.tui.shelf import Shelf
from tests.tui.staged import (
    GRACE,
    Staged,
    around,
    asked,
    drawn,
    escape_again,
    in_view,
    ready,
    staged,
    step_in,
    timed,
    until,
)

OPENINGS = 10_000 if os.environ.get("MINDSTONE_TYPED") else 32
"""At full length with `make typed`."""
AT_ONE_APP = 50
"""Openings after which a fresh app takes over: each adds a line to the turn that is drawn."""

ENGLISH = [
    *("yes", "no", "maybe", "you", "really", "never", "say", "any", "such", "reason", "sorry"),
    *("run", "the", "tests", "again", "and", "see", "why", "some", "of", "them", "need", "years"),
]
WISH = ev.ToolAsked(
    turn=1,
    call="c",
    name="shell",
    risk="run",
    shown="run make\nmake",
    digest="0",
    remember=("shell make",),
)
ANSWERS = frozenset("nrys")


def english(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(ENGLISH) for _ in range(words))


def typed(chance: random.Random, speed: float, seconds: float) -> Iterator[tuple[float, str]]:
    """Keys with their moments: words, a key that is held down, now and then Tab or Enter."""
    at = 0.0
    while at < seconds:
        for letter in (*chance.choice((*ENGLISH, "y" * 40, "n" * 40)), " "):
            at += chance.uniform(0.2, 1.0) / speed
            yield at, letter
        if chance.random() < 0.3:
            at += 1 / speed
            yield at, chance.choice(("tab", "tab", "enter"))


def test_no_moment_at_which_a_question_opens_makes_a_typed_letter_an_answer() -> None:
    chance = random.Random(7)
    for opening in range(2_000):
        gate, opens, entered = Gate(), chance.uniform(0.0, 3.0), False
        shown, sent, prompt = False, "", ""
        for at, key in typed(chance, (5, 20, 200)[opening % 3], 6.0):
            if not shown and at >= opens:
                gate.show(opens)
                shown = True
            printable = len(key) == 1
            sent += key if printable else ""
            if not entered:
                prompt += key if printable else ""
                entered = key == "tab" and gate.enter(at)
                continue
            whose = gate.whose(at, answers=key in ANSWERS or key == "enter", printable=printable)
            assert whose != "answer", (opening, at, key)
            if whose == "prompt":
                prompt += key
                entered = False
                gate.leave()
        assert prompt == sent


@given(
    seen=st.floats(0, 1e6),
    waited=st.floats(0, GRACE, exclude_max=True),
    then=st.floats(0, 5),
)
@settings(max_examples=300)
def test_a_step_into_a_question_counts_after_a_second_and_an_answer_after_the_step(
    seen: float, waited: float, then: float
) -> None:
    gate = Gate()
    assert not gate.enter(seen)
    gate.show(seen)
    assert not gate.enter(seen + waited * 0.999)
    assert gate.enter(seen + GRACE + 0.001)
    at = seen + GRACE + 0.001 + then
    whose = gate.whose(at, answers=True, printable=True)
    assert whose == ("answer" if then > GRACE / 4 else "prompt") or abs(then - GRACE / 4) < 1e-3
    gate.show(at)
    assert gate.whose(at + 9, answers=True, printable=True) == "prompt"


COMPOSED = (
    "こんにちは、やります",
    "네 좋아요",
    "ｙ是的",
    "да",
    "ñandú ÿ",
    "e\u0301 ỳ",
    "👩\u200d👩\u200d👧",
)
"""What input methods and dead keys hand over: all of it at once."""


def hands(chance: random.Random) -> Iterator[tuple[events.Key | events.Paste, str, float]]:
    """What somebody does who writes: each event, the text that it adds, and the pause after it."""
    for _ in range(chance.randrange(1, 4)):
        way = chance.randrange(6)
        if way == 0:
            pasted = chance.choice(("yes, any\nno ", "y", "no\n", "s\tr y\n"))
            yield events.Paste(pasted), pasted, chance.uniform(0.01, 0.4)
        elif way == 1:
            for letter in chance.choice(COMPOSED):
                yield events.Key(_character_to_key(letter), letter), letter, 0.0
        elif way == 2:
            for letter in chance.choice("ynrs ") * chance.randrange(5, 40):
                yield events.Key(_character_to_key(letter), letter), letter, 1 / 30
        else:
            speed = chance.choice((5, 20, 200))
            for letter in english(chance, 2) + " ":
                pause = chance.uniform(0.2, 1.0) / speed
                yield events.Key(_character_to_key(letter), letter), letter, pause


@pytest.mark.parametrize("seed", range(4))
async def test_no_opening_while_somebody_writes_decides_anything_or_loses_a_character(
    seed: int,
) -> None:
    chance, opened, written, decided = random.Random(seed), 0, 0, 0
    for _ in range(-(-OPENINGS // 4 // AT_ONE_APP)):
        each = await _write_while_questions_open(chance, min(OPENINGS // 4, AT_ONE_APP))
        opened, written, decided = opened + each[0], written + each[1], decided + each[2]
    print(f"{opened:,} openings, {decided} decisions, {written:,} characters, 0 lost")
    assert (opened >= OPENINGS // 4, written > opened, decided) == (True, True, 0)


def at_a_question() -> tuple[list[float], MindstoneApp, Staged]:
    """A clock that the test moves, and an app that asks something by it."""
    return timed(asked(1, "go"), WISH)


async def _work(holds: Callable[[], bool]) -> None:
    """Let the app take steps until something is true."""
    for _ in range(10**6):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never happened")


async def _write_while_questions_open(chance: random.Random, openings: int) -> tuple[int, int, int]:
    """Write at an app of its own: questions that opened, characters, and what was decided.

    While somebody writes, several open one after the other; each is in view before another surface
    answers it, and then the writing goes on. Nothing waits for a frame: the app takes as many steps
    as it needs, or a few at random.
    """
    opened, written, since = 0, 0, ""
    now, app, talk = timed(asked(1, "go"))
    async with app.run_test(size=(60, 20)) as pilot:
        area = app.chat.input_area

        def is_shown() -> bool:
            shown = area.decision
            return not opened or (isinstance(shown, Approval) and shown.asked.since == since)

        await until(pilot, lambda: talk.settled)
        while opened < openings:
            doing, wanted = list(hands(chance)), ""
            opens = {chance.randrange(len(doing)) for _ in range(chance.randrange(1, 4))}
            for number, (event, text, pause) in enumerate(doing):
                if number in opens:
                    await _work(is_shown)
                    talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
                    opened += 1
                    since = datetime.fromtimestamp(opened, UTC).isoformat()
                    talk.announce(msgspec.structs.replace(WISH, since=since))
                for _ in range(chance.randrange(30) if chance.random() < 0.1 else 0):
                    await asyncio.sleep(0)
                app.post_message(event)
                wanted += text
                now[0] += pause
            await _work(is_shown)
            await _work(lambda wanted=wanted: area.prompt.text == wanted)  # type: ignore[misc]
            assert talk.did == [], opened
            written += len(wanted)
            area.prompt.clear()
        return opened, written, len(talk.did)


def test_no_line_that_is_written_or_pasted_while_a_question_opens_decides_in_lines() -> None:
    chance, now = random.Random(5), [100.0]
    given: list[str] = []
    for opening in range(OPENINGS):
        questions = LineQuestions(lambda call, answer: given.append(call), clock=lambda: now[0])
        questions.ask(msgspec.structs.replace(WISH, call=f"c{opening}"))
        for _ in range(chance.randrange(1, 6)):
            now[0] += chance.uniform(0.0, 2.0)
            line = chance.choice(
                (
                    english(chance, chance.randrange(2, 6)),
                    *("", "y", "n", "yy" * 20, "yes, and no", "Yes.", "no, wait", "nope", "ja"),
                    "\n".join(("first", "yes", "no: because", english(chance, 3))),
                    "yes\nand that",
                )
            )
            questions.take(line + "\n")
        assert (given, questions.open) == ([], True), opening
        questions.decline_all("over")
        given.clear()


async def test_keys_before_the_second_is_over_neither_answer_nor_step_in_nor_stop() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("escape", "tab", "f6", "y", "tab", "n")
        await pilot.click("#allow-0")
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "yn")
        assert app.focused is app.chat.input_area.prompt
        now[0] += GRACE + 0.5
        await pilot.press("tab", "y", "e", "s")  # all of it at once: somebody types
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "ynyes")
        now[0] += GRACE + 0.5  # whoever writes on reads it anew
        await pilot.press("tab")
        await until(pilot, lambda: isinstance(app.focused, Button))
        now[0] += GRACE
        await pilot.press("x", "y")  # no answer begins with x
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "ynyesxy")
        await step_in(pilot, now)
        app.post_message(events.Paste("y"))
        await until(pilot, lambda: app.chat.input_area.prompt.text == "ynyesxyy")
        await step_in(pilot, now)
        for _ in range(5):  # Enter is held down: one answer, and the text is not sent
            app.post_message(events.Key("enter", "\r"))
        await until(pilot, lambda: app.chat.input_area.decision is None and bool(talk.did))
        await pilot.pause()
        refused = ev.Answer(allowed=False, why="declined by the user", how="enter", seen=9.0)
        assert talk.did == [("answer", "c", refused)], "it stood there all the time"
        assert app.chat.input_area.prompt.text == "ynyesxyy"


async def test_a_reason_whose_letter_came_too_early_is_no_message() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.5
        await pilot.press("tab", *"ruse", "enter")
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "ruse")
        await pilot.press("enter")
        assert talk.did[0][:2] == ("send", "ruse")


@pytest.mark.parametrize("reason", [True, False])
async def test_an_escape_that_leads_out_of_a_question_and_is_held_down_stops_nothing(
    reason: bool,
) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await step_in(pilot, now)
        if reason:
            await pilot.press("r", "x")
            await until(pilot, lambda: app.query_one("#reason").has_focus)
        for _ in range(20):
            app.post_message(events.Key("escape", "\x1b"))
        await pilot.pause()
        area = app.chat.input_area
        assert (talk.did, area.decision is None) == ([], False)
        assert isinstance(app.focused, Button) if reason else app.focused is area.prompt
        for step in range(3 if reason else 2):  # pressed anew, each leads on: out, and to a stop
            anew = events.Key("escape", "\x1b")
            anew.time += 10.0 * (step + 1)
            app.post_message(anew)
            await pilot.pause()
        await until(pilot, lambda: talk.did == [("interrupt",)])


@pytest.mark.parametrize(
    ("keys", "answered", "written"),
    [
        (["down", "enter", *"late", "enter"], ["late"], ""),
        (["r", *"yarn", "enter"], [], ""),
        (["r", *"yarn", "enter", "enter"], ["yarn"], ""),
        (["r", "escape", *"yn"], [], "yn"),
        ([*"no way", "enter"], [], "no way"),
        ([*"yes", "enter", "enter"], [], ""),
        (["n", "enter"], ["declined by the user"], ""),
        (["y", "escape", *"on"], [], "on"),
        (["n", "down", "up", "tab"], [], ""),
        (["escape", *"ys"], [], "ys"),
    ],
)
async def test_keys_that_come_faster_than_they_are_drawn_are_taken_one_after_the_other(
    keys: list[str], answered: list[str], written: str
) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await step_in(pilot, now)
        for key in keys:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        given = [said for one in talk.did for said in one if isinstance(said, ev.Answer)]
        assert [(one.allowed, one.why) for one in given] == [(False, why) for why in answered]
        assert app.chat.input_area.prompt.text == written


@pytest.mark.parametrize("held", [1, 40])
async def test_a_letter_that_stays_alone_answers_once_however_long_it_is_held(held: int) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await step_in(pilot, now)
        for _ in range(held):
            app.post_message(events.Key("n", "n"))
        await pilot.pause()
        assert talk.did == []
        await until(pilot, lambda: bool(talk.did))
        assert [one[0] for one in talk.did] == ["answer"]
        assert app.chat.input_area.prompt.text == ""


@pytest.mark.parametrize("pieces", [["yes, do that"], ["ny"], ["y\r"], ["\r\r"], ["sn", "y"]])
async def test_keys_that_come_in_one_read_answer_no_question_and_are_written(
    pieces: list[str],
) -> None:
    now, app, talk = at_a_question()
    parser = PasteParser(clock=lambda: now[0])
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await step_in(pilot, now)
        for piece in pieces:
            for message in parser.feed(piece):
                app.post_message(message)
        await pilot.pause()
        assert not [one for one in talk.did if one[0] == "answer"]
        written = "".join(pieces).replace("\r", "")
        said = [one[1] for one in talk.did if one[0] == "send"]
        assert [*said, app.chat.input_area.prompt.text] in ([written], [written, ""])


async def test_a_burst_in_the_field_for_a_reason_sends_none() -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("tab")
        await until(pilot, lambda: isinstance(app.focused, Button))
        await pilot.press("r")
        await until(pilot, lambda: not isinstance(app.focused, Button))
        for message in PasteParser().feed("one line\rand another\r"):
            app.post_message(message)
        await pilot.pause()
        assert not talk.did
        await pilot.press("enter")
        await until(pilot, lambda: bool(talk.did))
        (answer,) = (one for one in talk.did[0] if isinstance(one, ev.Answer))
        assert answer.why == "one lineand another"


def test_one_key_in_a_read_is_a_key_and_the_rest_of_a_paste_is_part_of_it() -> None:
    now = [100.0]
    parser = PasteParser(clock=lambda: now[0])
    assert [type(one) for one in parser.feed("y")] == [events.Key]
    now[0] += 0.1
    assert all(isinstance(one, KeyAmong) and not one.pasted for one in parser.feed("no"))
    now[0] += 0.1
    assert all(isinstance(one, KeyAmong) and one.pasted for one in parser.feed("!make all"))
    now[0] += 0.001
    (rest,) = parser.feed("y")
    assert isinstance(rest, KeyAmong)
    assert rest.pasted
    now[0] += 0.1
    assert [type(one) for one in parser.feed("y")] == [events.Key]


@pytest.mark.parametrize(
    ("typed", "did"),
    [
        ("!touch one\r", ("send", "!touch one")),
        ("/shell touch one\r", ("send", "/shell touch one")),
        ("/context all\r", ("command", "/context all")),
        ("!ls\r", ("command", "/shell ls")),
    ],
)
async def test_what_comes_faster_than_hands_type_never_runs_in_the_shell(
    typed: str, did: tuple[str, str]
) -> None:
    app, talk = staged(ready())
    async with app.run_test() as pilot:
        await until(pilot, lambda: talk.settled)
        for message in PasteParser().feed(typed):
            app.post_message(message)
        await until(pilot, lambda: bool(talk.did))
        assert talk.did[0][:2] == did


async def test_a_paste_without_its_marks_leaves_the_focus_where_it_was() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += GRACE + 0.5
        for sign in ("tab", "y", "e", "s", "tab", "y", "tab"):  # all in one read of the terminal
            app.post_message(events.Key(sign, sign if len(sign) == 1 else "\t"))
        await until(pilot, lambda: app.chat.input_area.prompt.text == "yesy")
        await pilot.pause()
        now[0] += GRACE
        await pilot.press("y", "o", "u")
        assert app.focused is app.chat.input_area.prompt
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "yesyyou")


@pytest.mark.parametrize("early", ["tab", "f6", "escape", "click", "with the step in"])
async def test_what_comes_too_early_is_told_what_became_of_it_and_what_to_press(early: str) -> None:
    now, app, talk = at_a_question()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: "Tab or F6 to answer" in drawn(app) and talk.settled)
        if early == "click":
            await pilot.click("#allow-0")
        elif early == "with the step in":
            now[0] += GRACE + 1
            await pilot.press("tab", "y")
        else:
            await pilot.press(early)
        told = "Too early: nothing is decided. Read it, then press Tab and one key."
        await until(pilot, lambda: told in drawn(app))
        now[0] += GRACE + 1
        await pilot.press("tab")
        await until(pilot, lambda: "One key answers" in drawn(app))
    assert talk.did == []


@pytest.mark.parametrize("kept", ["It is kept as your next message. ", ""])
def test_a_yes_in_lines_that_comes_too_early_is_told_so_and_what_to_write(
    kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    now, given = [100.0], list[str]()
    questions = LineQuestions(lambda call, answer: given.append(call), clock=lambda: now[0])
    questions.kept = kept
    questions.ask(WISH)
    assert not questions.take("yes\n")
    said = "That was entered before the question could be read. "
    now_write = "The question is still open: write yes or no now, alone on a line."
    assert f"{said}{kept}{now_write}" in " ".join(capsys.readouterr().err.split())
    now[0] += GRACE + 1
    assert questions.take("yes\n")
    assert given == ["c"]


async def test_a_click_answers_what_has_been_in_view_for_a_second() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press(*"half a wo")
        now[0] += GRACE + 0.1
        await pilot.click("#allow-0")
        clicked = ev.Answer(allowed=True, how="click", seen=1.1)
        await until(pilot, lambda: talk.did == [("answer", "c", clicked)])
        await pilot.press(*"rd")
        assert app.chat.input_area.prompt.text == "half a word"


@pytest.mark.parametrize("part", ["#exact", "#how"])
async def test_a_question_that_is_taken_away_while_it_is_drawn_leaves_the_app_alone(
    part: str,
) -> None:
    """Its parts go one after the other, and it may be measured in between."""
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        shown = app.chat.input_area.decision
        assert shown is not None
        await shown.query(part).remove()
        shown._make_room()
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        assert app.is_running


@pytest.mark.parametrize("before", ["", "tab", "half"])
async def test_ctrl_c_twice_at_a_question_leaves_it_to_whoever_comes_next(before: str) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press(*([before] if before == "tab" else before), "ctrl+c")
        if before != "half":  # which is cleared, and kept
            await until(pilot, lambda: any("again" in one.message for one in app._notifications))
        now[0] += 0.5
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)
    assert talk.did == [("close",)], "a turn that is closed at its question leaves it open"


async def test_a_turn_elsewhere_that_asks_says_how_long_it_waits_and_is_stopped_from_here() -> None:
    now, app, talk = timed(msgspec.structs.replace(WISH, channel="web"))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        app.chat._tick()
        assert (
            app.chat.status.doing
            == "waits for your answer · 1 min 00 s · tab answers, esc twice stops"
        )
        await pilot.press("escape")
        await escape_again(pilot)
        await until(pilot, lambda: talk.did == [("interrupt",)])
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="tui"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        assert app.chat.status.doing == ""


async def test_whoever_writes_why_not_is_told_which_keys_send_and_which_go_back() -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("tab", "r", *"not now")
        told = "Enter declines with this reason. Esc goes back to the answers."
        await until(pilot, lambda: told in drawn(app))
        await pilot.press("escape")
        await until(pilot, lambda: "One key answers" in drawn(app))
        assert talk.did == []


async def test_a_reason_that_is_half_written_when_another_answers_is_not_torn() -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press(*"my next", "tab", "r", *"not on a ")
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        await pilot.press(*"Friday", "enter")
        assert app.chat.input_area.prompt.text == "my next\nnot on a Friday"
        assert talk.did == [], "that Enter was meant to decline"
        await pilot.press("enter")
        assert talk.did == [("send", "my next\nnot on a Friday", (), False)]


async def test_after_a_reason_was_sent_here_the_next_enter_sends_the_next_message() -> None:
    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("tab", "r", *"no", "enter")
        await until(pilot, lambda: len(talk.did) == 1)
        await pilot.press(*"next", "enter")
        await until(pilot, lambda: talk.did[1:] == [("send", "next", (), False)])


async def test_a_tab_in_the_midst_of_words_leads_nowhere() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press(*"fix this", "tab")
        now[0] += 0.4
        await pilot.press("y")
        await until(pilot, lambda: talk.settled)
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "fix thisy")
        await pilot.press("enter")  # it may have been meant as an answer, or as a reason
        await until(pilot, lambda: talk.settled)
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "fix thisy")
        now[0] += 0.6
        await pilot.press("tab")
        now[0] += 0.4
        await pilot.press("y")
        await until(pilot, lambda: [one[0] for one in talk.did] == ["answer"])


@pytest.mark.parametrize(
    "before", [(), ("tab",), ("tab", "down", "up")], ids=["at once", "after a step", "after arrows"]
)
async def test_one_escape_beside_a_question_stops_nothing(
    before: tuple[str, ...],
) -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press(*"an old one", "enter", "x", *before)
        now[0] += 2
        assert app.chat.input_area.prompt.text == "x"  # nothing was fetched into it
        sent = talk.did.copy()
        await pilot.press("backspace", "escape")
        await until(pilot, lambda: talk.settled)
        assert talk.did == sent
        now[0] += 2
        await escape_again(pilot)
        await until(pilot, lambda: [one[0] for one in talk.did] == ["send", "interrupt"])


async def test_a_tab_that_is_read_together_with_letters_is_told_to_be_too_early() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press(*"!make all", "enter")
        sent = talk.did.copy()
        now[0] += 60
        letter, tab = events.Key("x", "x"), events.Key("tab", "\t")
        tab.time = letter.time
        for key in (letter, tab):
            app.post_message(key)
        await until(pilot, lambda: "Too early: nothing is decided" in drawn(app))
        await pilot.press("up", "enter")  # meant for the answers
        await until(pilot, lambda: talk.settled)
        assert (talk.did, app.chat.input_area.prompt.text) == (sent, "x")


async def test_tab_goes_to_the_question_from_wherever_the_focus_is() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        app.chat.set_focus(app.chat.conversation)
        await pilot.press("tab")
        now[0] += 0.4
        await pilot.press("y")
        await until(pilot, lambda: [one[0] for one in talk.did] == ["answer"])


async def test_a_message_of_its_own_is_sent_with_one_enter_after_a_key_came_too_early() -> None:
    _, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("tab", "y")
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        await pilot.press("backspace", *"hello", "enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did[0][:2] == ("send", "hello")


async def test_an_enter_for_a_question_that_was_just_answered_elsewhere_sends_nothing() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press(*"half a message")
        now[0] += 60
        await pilot.press("tab")
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        assert any("question is over" in one.message for one in app._notifications)
        await pilot.press("enter")
        await until(pilot, lambda: talk.settled)
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "half a message")
        await pilot.press("enter")
        await until(pilot, lambda: [one[:2] for one in talk.did] == [("send", "half a message")])


async def test_clicks_that_go_on_from_one_question_to_the_next_do_not_answer_it() -> None:
    now, app, talk = at_a_question()
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        decision, allow = app.screen.query_one(Decision), app.screen.query_one("#allow-0", Button)
        for _ in range(12):
            now[0] += 0.3
            allow.press()
            await until(pilot, lambda: decision.gate._noticed == now[0])
        assert talk.did == []
        now[0] += 1.1
        allow.press()
        await until(pilot, lambda: [one[0] for one in talk.did] == ["answer"])


async def test_an_answer_right_after_ctrl_c_takes_the_stop_back() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.chat._stopping is not None)
        await pilot.press("tab")
        now[0] += GRACE
        await pilot.press("y")
        await until(pilot, lambda: [one[0] for one in talk.did] == ["answer"])
        assert app.chat._stopping is None


async def test_a_typed_answer_names_the_question_that_was_in_view_when_it_was_begun() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press(*"/answer ")
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: app.chat.input_area.decision is None)
        talk.announce(msgspec.structs.replace(WISH, call="d"))
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press(*"yes", "enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did[0][:2] == ("command", f"/answer yes {mark_of('c', WISH.since)}")
        app.chat.input_area.prompt.clear()
        await pilot.press(*"/answer yes", "enter")
        await until(pilot, lambda: len(talk.did) == 2)
        assert talk.did[1][:2] == ("command", "/answer yes"), "its second is not over"


async def test_a_typed_answer_that_begins_inside_the_question_names_it() -> None:
    now, app, talk = at_a_question()
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press("tab")
        await until(pilot, lambda: isinstance(app.focused, Button))
        await pilot.press("/")
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        talk.announce(msgspec.structs.replace(WISH, call="d"))
        await until(pilot, lambda: in_view(app, talk))
        now[0] += 60
        await pilot.press(*"answer yes", "enter")
        await until(pilot, lambda: bool(talk.did))
        assert talk.did[0][:2] == ("command", f"/answer yes {mark_of('c', WISH.since)}")


async def test_a_question_that_was_asked_before_says_since_when_it_waits() -> None:
    asked_at = datetime.now(UTC) - timedelta(hours=2, minutes=5)
    app, talk = staged(msgspec.structs.replace(WISH, channel="web", since=asked_at.isoformat()))
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: in_view(app, talk))
        app.chat._tick()
        assert "waits for your answer · 2 h 05 min" in app.chat.status.doing


async def test_a_question_that_is_covered_is_announced_until_it_is_seen_or_answered() -> None:
    def told() -> bool:
        return any("waits for your answer" in one.message for one in app._notifications)

    app, talk = staged(asked(1, "go"), WISH)
    async with app.run_test() as pilot:
        await until(pilot, lambda: in_view(app, talk))
        await pilot.press("f1")
        await until(pilot, told)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat and not told())
        await pilot.press("f1")
        await until(pilot, told)
        talk.announce(ev.ToolAnswered(turn=1, call="c", allowed=False, channel="web"))
        await until(pilot, lambda: not told())


async def test_a_question_behind_another_screen_is_announced_and_read_before_it_is_answered() -> (
    None
):
    now, app, talk = timed(asked(1, "go"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: talk.settled)
        await pilot.press("f1")
        await until(pilot, lambda: app.screen is not app.chat)
        talk.announce(WISH)
        await until(pilot, lambda: any("waits" in one.message for one in app._notifications))
        now[0] += 60
        await pilot.press("y", "escape")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("tab", "y")
        assert (talk.did, app.chat.input_area.prompt.text) == ([], "y")


@pytest.mark.parametrize(
    ("keys", "command"),
    [("y", "/keep yes #"), ("n", "/keep no #"), ("l", ""), ("escape", ""), ("enter", "")],
)
async def test_a_key_asks_about_what_sounded_like_a_rule_and_decides_nothing(
    home: Path, keys: str, command: str
) -> None:
    words = "Don't push to main, please."
    shelf = Shelf(home)
    since = datetime.now(UTC).isoformat()
    shelf.open = [
        OpenQuestion(
            session="s",
            turn=1,
            kind="offer",
            call="7",
            name="offer",
            shown=f"Sounds like a rule: {words}",
            channel="tui",
            since=since,
        )
    ]
    host = msgspec.structs.replace(around(), library=shelf)
    offered = ev.InstructionOffered(turn=1, entry="e", text=words)
    app, talk = staged(ready(), asked(1, words), offered, given=host)
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: "Sounds like a rule" in drawn(app))
        await pilot.press("k", "y", "space")
        assert not talk.did
        await pilot.press("f6")
        area = app.chat.input_area
        await until(pilot, lambda: area.decision is not None and area.decision.is_open)
        assert not talk.did
        assert words in drawn(app)
        await pilot.press("f6", keys)
        await until(pilot, lambda: area.decision is None)
        assert [str(one[1])[:-8] for one in talk.did] == ([command] if command else [])


def test_why_a_memory_is_proposed_is_told_in_whole_sentences() -> None:
    for said in ("you asked for it to be remembered", "You asked for it to be remembered."):
        proposed = ev.MemoryProposed(
            proposal="m1", path="x.md", before="", after="x", why=said, sources=(12,)
        )
        assert about_memory(proposed).why == "You asked for it to be remembered. From #12."
