"""What a person writes and presses on the page while questions come and go decides nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui import api
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolAnswered, TurnEnded
from tests.builders import say as exchange
from tests.builders import transcript_in
from tests.core.interchange.export.browser import Browser, chromium
from tests.core.session.stage import calls
from tests.servers.residence import Residence, residing
from tests.servers.test_page import (
    ESCAPE,
    HOLD_THE_CLOCK,
    PROGRAM,
    Driven,
    open_page,
    say,
    seen,
    waits,
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
IN_VIEW = "document.querySelector('.ask[data-in-view]') !== null"
TEXT = "document.getElementById('text').value"
WHY = "second(); document.querySelector('[data-choice=why]').click()"
SPY = """{ const real = fetch; window.posted = []; window.fetch = async (path, more) => {
    if (more && more.method) posted.push(path);
    if (window.slow && path.includes(slow)) await new Promise((go) => { window.go = go; });
    return real(path, more); }; }"""
PLACES = """["send", "stop"].map((id) => { const at = document.getElementById(id)
    .getBoundingClientRect(); return [at.left, at.top, at.right, at.bottom].map(Math.round); })"""
MIDDLES = """Array.from(document.querySelectorAll(".ask button")).map((one) => {
    const at = one.getBoundingClientRect();
    return [(at.left + at.right) / 2, (at.top + at.bottom) / 2]; })"""
ARRANGED = "narrow.matches === document.body.classList.contains('narrow-panel')"


def removes(name: str) -> dict[str, Any]:
    wish = {"id": "call_1", "name": "shell", "arguments": {"command": f"rm -rf {name}"}}
    return {"tool_calls": [wish]}


async def beside_the_app(
    home: Path,
    tmp_path: Path,
    drive: Callable[[Browser, Residence, Driven], None],
    *replies: dict[str, Any],
) -> list[object]:
    """Drive a page beside the app in one session; what history has of answers and of ends."""

    def on_page(served: Residence, app: Driven) -> None:
        assert PROGRAM is not None
        with chromium(PROGRAM, tmp_path / "profile") as browser:
            open_page(browser, served)
            browser.run(HOLD_THE_CLOCK)
            browser.run(SPY)
            drive(browser, served, app)

    async with residing(home, tmp_path, *replies) as served:
        talk = await api.connect("main", home=served.home, cwd=tmp_path, channel="tui", asks=True)
        app = Driven(talk, asyncio.get_running_loop())
        await asyncio.to_thread(on_page, served, app)
        await app.close()
        kinds = ("tool_answered", "turn_ended")
        found = api.log(session="main", kinds=kinds, home=served.home)
        return [line.entry for line in found if isinstance(line, Line)]


@pytest.mark.thorough
async def test_stop_and_send_keep_their_places_and_a_second_click_stops_nothing(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        idle = {}
        for width in (390, 780, 1280):
            browser.size(width, 844)
            browser.until(ARRANGED)
            idle[width] = browser.run(PLACES)
        say(browser, "clean up")
        browser.until(IN_VIEW)
        for width, places in idle.items():
            browser.size(width, 844)
            browser.until(ARRANGED)
            assert browser.run(PLACES) == places, f"they change places at {width} pixels"
            (left, top, right, bottom), stop = places
            assert stop[1] >= bottom or stop[3] <= top or stop[0] >= right or stop[2] <= left
        for detail, turned in ((2, 0), (1, "Date.now()")):
            click = f"new MouseEvent('click', {{ detail: {detail} }})"
            browser.run(
                f"turned = {turned}; document.getElementById('stop').dispatchEvent({click})"
            )
        assert browser.run("posted.includes('/page/stop')") is False, "it began as another click"
        browser.run("turned = 0; document.getElementById('stop').click()")
        browser.until("document.getElementById('stop').hidden")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


async def test_an_escape_that_leaves_a_reason_and_is_held_down_stops_no_turn(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run(f"opened = 0; {WHY}")
        browser.type("not now")
        browser.run(ESCAPE)
        browser.run(ESCAPE.replace("bubbles", "repeat: true, bubbles"))
        browser.run(ESCAPE)  # as a key that bounces
        browser.run(f"opened = 0; {ESCAPE.replace('bubbles', 'repeat: true, bubbles')}")
        assert browser.run("posted.includes('/page/stop')") is False
        browser.run(f"opened = 0; {ESCAPE}")
        assert browser.run("posted.includes('/page/stop')") is False, "the turn waits, anyway"
        browser.run(ESCAPE)  # too soon to be meant
        assert browser.run("posted.includes('/page/stop')") is False
        browser.run(f"opened = 0; {ESCAPE}")
        browser.until("posted.includes('/page/stop')")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.thorough
async def test_a_reason_on_the_page_is_told_or_goes_on_in_the_message(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run(WHY)
        browser.type("use the trash")
        browser.run(ESCAPE)
        app.decline()
        waits(browser, "Approvals of this turn: 1 declined (/why turn 1)")
        assert browser.run(TEXT) == "use the trash", "it was put aside, not given up"
        browser.run(f"{TEXT} = ''; window.slow = '/page/answer'")
        app.say("clean up more")
        browser.until(IN_VIEW)
        browser.run(WHY)
        browser.type("not on a Friday", enter=True)
        browser.until("posted.includes('/page/answer')")
        app.decline()
        waits(browser, "Approvals of this turn: 1 declined (/why turn 2)")
        browser.run("slow = ''; go()")
        waits(browser, "That question is no longer open.")
        assert browser.run(TEXT) == "not on a Friday", "somebody was first"
        browser.enter()
        waits(browser, "its reason stands here: nothing is sent.")
        browser.run(f"unmeant = TORN; {TEXT} = ''; document.getElementById('text').oninput()")
        say(browser, "something else")
        browser.until("posted.includes('/page/send')")

    replies = (removes("build"), {"text": "Well."}, removes("src"), {"text": "Well."})
    await beside_the_app(home, tmp_path, drive, *replies)


@pytest.mark.thorough
async def test_what_is_half_written_stays_with_its_session_and_its_question(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run(WHY)
        browser.type("not today")
        browser.run("document.getElementById('text').focus()")
        browser.type("half a word")
        browser.run("open('other')")
        browser.until(f"session.includes('other') && {TEXT} === ''")
        browser.run("open('main')")
        browser.until(f"session.includes('main') && {TEXT} === 'half a word'")
        browser.until(IN_VIEW)
        browser.run(WHY)
        assert browser.run("document.activeElement.value") == "not today"
        app.decline()
        waits(browser, "Approvals of this turn: 1 declined")
        assert browser.run(TEXT) == "half a word\nnot today"

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.thorough
async def test_the_head_of_a_long_question_is_in_view_first_and_says_how_long_it_is(
    home: Path, tmp_path: Path
) -> None:
    long = "".join(f"line {number}\n" for number in range(300))

    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        for width in (390, 1280):
            browser.size(width, 844)
            app.say("write it down")
            browser.until("document.querySelector('.ask') !== null")
            head, talk = (
                f"document.querySelector('{one}').getBoundingClientRect()"
                for one in (".ask .head", "#talk")
            )
            assert browser.run(f"{head}.top >= {talk}.top - 1 && {head}.bottom <= {talk}.bottom")
            assert browser.run("document.querySelector('.ask button').disabled"), "it is below"
            assert " lines" in seen(browser, ".ask .head")
            app.decline()
            browser.until("document.querySelector('.ask') === null")
            waits(browser, "Well.")

    wish = calls(("write", {"path": "long.txt", "content": long}))
    await beside_the_app(home, tmp_path, drive, wish, {"text": "Well."}, wish, {"text": "Well."})


@pytest.mark.thorough
@pytest.mark.parametrize("moved_by", ["a queued message", "the composer"])
async def test_buttons_that_moved_are_not_taken_until_one_can_aim_at_them_again(
    home: Path, tmp_path: Path, moved_by: str
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        browser.size(390, 500)
        app.say("clean up")
        browser.until(IN_VIEW)
        if moved_by == "a queued message":
            say(browser, "and then rest")
            browser.until("document.querySelector('.queued') !== null")
        browser.run("talk.scrollTop = talk.scrollHeight; second(); window.at = Date.now()")
        browser.until("Date.now() - at > 2 * HELD")
        before = browser.run(MIDDLES)
        if moved_by == "a queued message":
            browser.run("document.querySelector('.queued button').click()")
            browser.until("document.querySelector('.queued') === null")
        else:
            browser.run("document.getElementById('text').style.height = '9rem'")
            browser.run("talk.scrollTop = talk.scrollHeight")
        after = browser.run(MIDDLES)
        assert after != before
        for place in after:
            browser.click(*place)
        assert browser.run("posted.includes('/page/answer')") is False, "it was aimed at another"
        assert browser.run("document.querySelector('.ask input').hidden"), "that is an answer, too"
        assert "it moved" in seen(browser, ".ask .age")
        browser.run("window.at = Date.now()")
        browser.until("Date.now() - at > 2 * HELD")
        assert browser.run(MIDDLES) == after
        browser.click(*after[0])
        browser.until("posted.includes('/page/answer')")
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.thorough
async def test_the_click_or_key_that_leads_to_the_page_decides_nothing_on_it(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("second(); window.at = Date.now()")
        browser.until("Date.now() - at > 2 * HELD")
        (allow, *_, why), stop = browser.run(MIDDLES), browser.run(PLACES)[1]
        places = (allow, why, ((stop[0] + stop[2]) / 2, (stop[1] + stop[3]) / 2))
        for place in places:
            browser.run("window.dispatchEvent(new Event('focus'))")
            browser.click(*place)
        assert "you just came here" in seen(browser, ".ask .age")
        browser.run("document.querySelector('[data-choice=allow-0]').focus(); focused = 0")
        browser.enter()
        browser.run(ESCAPE.replace("document.activeElement", "document"))
        assert browser.run("document.querySelector('.ask input').hidden"), "that is an answer, too"
        assert browser.run("posted.some((one) => /answer|stop/.test(one))") is False
        browser.run("back = 0; window.at = Date.now()")
        browser.until("Date.now() - at > 2 * HELD")
        browser.click(*browser.run(MIDDLES)[0])
        browser.until("posted.includes('/page/answer')")
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


async def test_the_list_of_sessions_learns_of_new_ones_but_not_while_somebody_chooses(
    home: Path, tmp_path: Path
) -> None:
    names = "Array.from(document.getElementById('sessions').options).map((one) => one.value).join()"

    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        begun = transcript_in(home, "agent:default:later")
        exchange(begun, "hello", "well")
        begun.close()
        browser.run("document.getElementById('sessions').focus(); look()")
        browser.run("window.done = false; sessions().then(() => { done = true; })")
        browser.until("done")
        assert "later" not in browser.run(names)
        browser.run("document.getElementById('text').focus()")
        browser.run("window.dispatchEvent(new Event('focus'))")
        browser.until(f"{names}.includes('later')")
        assert browser.run("document.getElementById('sessions').value === session")

    await beside_the_app(home, tmp_path, drive, {"text": "Well."})


CROWD = """{ const real = setTimeout, headers = { authorization: "Bearer " + token };
    window.late = {}; window.crowd = new AbortController();
    window.setTimeout = (work, ms) =>
        [2000, 5000].includes(ms) ? (late[ms] = work, 0) : real(work, ms);
    window.held = 0;
    for (let each = 0; each < 5; each++) fetch("/page/events?session=main&each=" + each,
        { headers, signal: crowd.signal }).then(() => { held++; }); }"""
"""Other windows of this page, which leave one of a browser's six connections: the page's own."""
CHOOSE = "document.querySelector('[data-choice={}]').click()"


def answers_in(found: list[object]) -> list[tuple[bool, str, str]]:
    return [(one.allowed, one.how, one.why) for one in found if isinstance(one, ToolAnswered)]


def crowded(browser: Browser, app: Driven) -> None:
    """Open a question whose buttons work, in one of six windows."""
    app.say("clean up")
    browser.until(IN_VIEW)
    browser.run("second()")
    browser.run(CROWD)
    browser.until("held === 5")


@pytest.mark.thorough
async def test_an_answer_from_one_of_six_windows_takes_the_connection_it_needs(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        crowded(browser, app)
        browser.run(CHOOSE.format("allow-0"))
        browser.until("posted.includes('/page/answer')")
        browser.run("late[2000]()")
        waits(browser, "Well.")
        browser.until("!stream.signal.aborted")

    found = await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})
    assert answers_in(found) == [(True, "key", "")]


@pytest.mark.thorough
async def test_an_answer_that_does_not_arrive_is_given_up_and_told(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        crowded(browser, app)
        browser.run(CHOOSE.format("allow-0"))
        browser.until("posted.includes('/page/answer')")
        browser.run("late[5000]()")
        browser.until("posted.includes('/page/became')")
        browser.run("late[2000]()")
        waits(browser, "Your answer did not arrive; nothing was decided.")
        browser.until("!stream.signal.aborted && document.querySelector('.ask') !== null")
        browser.run("crowd.abort()")
        browser.until(IN_VIEW)
        browser.run(f"second(); {CHOOSE.format('deny')}")
        waits(browser, "Well.")

    found = await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})
    assert answers_in(found) == [(False, "key", "")]


@pytest.mark.thorough
async def test_a_second_choice_takes_the_place_of_one_that_has_not_arrived(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        crowded(browser, app)
        browser.run(CHOOSE.format("allow-0"))
        browser.run(CHOOSE.format("deny"))
        browser.until("posted.filter((one) => one === '/page/answer').length === 2")
        browser.run("crowd.abort()")
        waits(browser, "Well.")
        assert "no longer open" not in seen(browser)

    found = await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})
    assert answers_in(found) == [(False, "key", "")]


async def test_a_message_that_does_not_arrive_stands_in_its_box_again_and_is_not_sent_later(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        browser.run(CROWD)
        browser.until("held === 5")
        say(browser, "clean up")
        browser.until("posted.includes('/page/send')")
        browser.type("and more")
        browser.run("late[5000]()")
        browser.until("posted.includes('/page/became')")
        browser.run("late[2000](); crowd.abort()")
        waits(browser, "Not sent: It did not arrive")
        assert browser.run(TEXT) == "clean up\nand more"
        assert "user_message" not in served.kinds("main")

    await beside_the_app(home, tmp_path, drive, {"text": "Well."})


@pytest.mark.thorough
async def test_a_hidden_window_gives_its_connection_to_one_that_waits_and_listens_again_when_shown(
    home: Path, tmp_path: Path
) -> None:
    hidden = "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }});"

    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        wants = "new BroadcastChannel('mindstone').postMessage('room');"
        browser.run(f"{wants} window.at = Date.now()")
        browser.until("Date.now() - at > 100")
        assert browser.run("stream.signal.aborted") is False, "it is in view"
        browser.run(hidden.format("true") + wants)
        browser.until("stream.signal.aborted")
        app.say("clean up")
        app.until_asked()
        browser.run("look()")
        browser.until("document.title.startsWith('? ')")
        assert browser.run("document.querySelector('.ask')") is None
        browser.run(
            hidden.format("false") + "document.dispatchEvent(new Event('visibilitychange'))"
        )
        browser.until(IN_VIEW)
        app.decline()
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.thorough
async def test_a_page_that_is_loaded_again_has_what_was_half_written_in_the_same_session(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run(WHY)
        browser.type("not today")
        browser.run("open('other')")
        browser.until("session.includes('other') && document.activeElement.id === 'text'")
        browser.type("half a word")
        for here, text in (("other", "half a word"), ("main", "")):
            browser.run(f"open({here!r})")
            browser.until(f"session.includes({here!r})")
            browser.reload()
            browser.until(f"session.includes({here!r}) && {TEXT} === {text!r}")
        browser.until(IN_VIEW)
        assert browser.run("document.querySelector('.ask input').value") == "not today"
        app.decline()
        browser.run("open('other')")
        browser.until(f"session.includes('other') && {TEXT} === 'half a word'")
        browser.enter()
        waits(browser, "half a word")
        browser.reload()
        browser.until("session.includes('other')")
        assert browser.run(TEXT) == "", "it was sent"

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


ANOTHER_TAB = """window.addEventListener('pagehide', () => {
  const token = sessionStorage.token;
  sessionStorage.clear();
  sessionStorage.token = token;
})"""
"""What a tab keeps for itself is not there in the next one."""


@pytest.mark.thorough
async def test_what_stood_half_written_in_a_tab_that_was_closed_goes_on_in_one_other(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        browser.run("document.getElementById('text').focus()")
        browser.type("half a word")
        for text in ("half a word", ""):
            browser.run(ANOTHER_TAB)
            browser.reload()
            browser.until("session.includes('main') && document.activeElement.id === 'text'")
            assert browser.run(TEXT) == text
            browser.run(f"{TEXT} = ''")  # it stands in that one, and is left to nobody

    await beside_the_app(home, tmp_path, drive, {"text": "Well."})


@pytest.mark.thorough
async def test_a_click_on_a_button_that_does_not_work_yet_leaves_the_cursor_where_it_is(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("document.getElementById('text').focus(); window.first = second")
        for place in browser.run(MIDDLES):
            browser.click(*place)
        assert browser.run("second !== first"), "each click begins the wait anew"
        assert "too early" in seen(browser, ".ask .age")
        browser.type("because")
        browser.enter()
        assert browser.run(TEXT) == "because", "it may have been meant as a reason"
        waits(browser, "came too early: nothing is decided or sent")
        app.decline()
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.parametrize("back", range(4))
async def test_words_that_go_on_behind_a_tab_are_written_and_press_nothing(
    home: Path, tmp_path: Path, back: int
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("second(); document.getElementById('text').focus()")
        browser.press("port\t")
        assert browser.run("document.activeElement.id") == "text", "it came among letters"
        buttons = "[...document.querySelectorAll('.ask button'), ...['send', 'stop'].map($)]"
        browser.run(f"{buttons}.at(-{back}).focus()")
        browser.press(" ")
        browser.run("focused = 0")  # whatever the time
        browser.press("now y n")
        assert browser.run(TEXT) == "portnow y n"
        assert browser.run("posted.some((one) => /answer|stop|send/.test(one))") is False
        app.decline()
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.thorough
async def test_a_click_that_was_drawn_along_an_answer_marks_it_and_gives_none(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("second(); window.at = Date.now()")
        browser.until("Date.now() - at > 2 * HELD")
        place = browser.run(MIDDLES)[0]
        browser.click(*place, drawn=20.0)
        assert "that marked the words" in seen(browser, ".ask .age")
        browser.click(*place, drawn=2.0)
        browser.until("posted.includes('/page/answer')")
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["the app", "its own Enter"])
async def test_an_enter_for_a_question_that_is_over_sends_nothing(
    home: Path, tmp_path: Path, by: str
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("document.getElementById('text').focus()")
        browser.type("half a message")
        browser.run("second(); document.querySelector('[data-choice=deny]').focus(); focused = 0")
        if by == "the app":
            app.decline()
        else:
            browser.enter()
        browser.until("document.activeElement.id === 'text'")
        browser.enter()
        told = "was decided here or sent" if by == "the app" else "is sent"
        waits(browser, f"That question is over: nothing {told}.")
        assert browser.run(TEXT) == "half a message"
        assert browser.run("posted.includes('/page/send')") is False
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


async def test_an_escape_closes_the_panel_that_lies_over_a_narrow_page_and_stops_nothing(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        browser.size(420, 800)
        browser.until(ARRANGED)
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("$('zone').click(); opened = 0")
        for _ in range(2):
            browser.run(ESCAPE)
            assert browser.run(ARRANGED), "it is closed"
        assert browser.run("posted.includes('/page/stop')") is False
        app.decline()
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


async def test_an_escape_that_leaves_the_search_is_no_first_half_of_a_stop(
    home: Path, tmp_path: Path
) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("opened = 0; document.getElementById('query').focus()")
        browser.run(f"{ESCAPE}")
        assert browser.run("document.activeElement.id") == "text"
        browser.run(f"{ESCAPE}")
        browser.until("!$('waiting').hidden && $('waiting').textContent === '1 waiting'")
        browser.run("window.shut = false; $('found').addEventListener('close', () => shut = true)")
        browser.run("opened = 0; $('waiting').click(); $('found').close()")
        browser.until("shut")
        browser.run(f"{ESCAPE}")
        assert browser.run("posted.includes('/page/stop')") is False
        app.decline()
        waits(browser, "Well.")

    await beside_the_app(home, tmp_path, drive, removes("build"), {"text": "Well."})


async def test_which_key_answered_is_on_record(home: Path, tmp_path: Path) -> None:
    def drive(browser: Browser, served: Residence, app: Driven) -> None:
        app.say("clean up")
        browser.until(IN_VIEW)
        browser.run("second(); document.querySelector('[data-choice=deny]').focus(); focused = 0")
        browser.enter()
        waits(browser, "Well.")
        say(browser, "clean up more")
        browser.until(IN_VIEW)
        browser.run(f"opened = 0; {ESCAPE}")
        browser.run(f"opened = 0; {ESCAPE}")
        browser.until("document.getElementById('stop').hidden")

    wish = removes("build")
    found = await beside_the_app(home, tmp_path, drive, wish, {"text": "Well."}, wish)
    assert answers_in(found)[0] == (False, "enter", "")
    ends = [one.how for one in found if isinstance(one, TurnEnded)]
    assert ends == ["", "escape"]
