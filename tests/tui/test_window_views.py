"""The panel, the inspector and the log: the window as a person sees and steers it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest
from textual.widgets import OptionList, Static

from mindstone_tui.core import events as ev
from mindstone_tui.core.config.glossary import glossary
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.report import CachePause, OutsideWindow, SectionSize
from mindstone_tui.core.entries.base import ZONES, Zone
from mindstone_tui.core.entries.window import Component
from mindstone_tui.tui import gauges
from mindstone_tui.tui.screens.help import WordsScreen
from mindstone_tui.tui.screens.inspector import InspectorScreen
from mindstone_tui.tui.widgets.context_panel import Gauges, LeftLog
from mindstone_tui.tui.widgets.exchange import Printed
from tests.core.session.stage import on_stage, script
from tests.tui.staged import around, gone, recalled, report, reported, settle, staged, until

ASKED = ev.TurnStarted(turn=1, entry="q1", text="which port?")
OUTSIDE = OutsideWindow(exchanges=3, tokens=5_520, indexed=True)


async def test_the_panel_shows_what_the_report_says_and_nothing_else() -> None:
    app, talk = staged(reported("orange", 0.78, outside=OUTSIDE))
    async with app.run_test(size=(120, 45)) as pilot:
        await settle(pilot, talk)
        shown = str(app.chat.panel.query_one(Gauges).render())
        for part in (
            "orange",
            "78 % · 94.8k of 122k tokens",
            "anchored",
            "trim 75",
            "prune 92",
            "prunes in about 8 turns",
            "87 % cached",
        ):
            assert part in shown
        for name in gauges.NAMES.values():
            assert name in shown
        title = str(app.chat.panel.query_one("#left-title", Static).render())
        assert "3 exchanges · all searchable" in title


async def test_the_end_of_the_cache_is_announced_only_if_asked_for_and_nothing_runs() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    pause = CachePause(ends=moment.timestamp() + 300, cost=0.3104)
    for asked_for in (False, True):
        now = [moment]
        host = around(cache_warning=asked_for)
        host = msgspec.structs.replace(host, now=partial(now.__getitem__, 0))
        app, talk = staged(reported(pause=pause), given=host)
        async with app.run_test(size=(120, 45)) as pilot:
            await settle(pilot, talk)
            panel = app.chat.panel.query_one(Gauges)
            told = {}
            for later in (60, 260, 301):
                now[0] = moment + timedelta(seconds=later)
                app.watch_cache()
                told[later] = str(panel.render()).partition("cache expires in ")[2][:17]
            assert told == {60: "", 260: "40 s: about $0.31" if asked_for else "", 301: ""}
            now[0] = moment + timedelta(seconds=260)
            app.chat.running = 1
            app.watch_cache()
            assert "expires" not in str(panel.render())


async def test_an_assumed_window_says_so() -> None:
    from mindstone_tui.core.context.report import Tokens

    assumed = report(window=Tokens(tokens=32_768, label="assumed"))
    assert "window 32.8k (assumed)" in gauges.room(assumed).plain


@pytest.mark.parametrize("zone", ZONES)
def test_the_zone_is_a_word_not_only_a_colour(zone: Zone) -> None:
    assert zone in gauges.zone(report(zone)).plain
    assert zone in gauges.status(report(zone), wide=False).plain


def test_the_status_line_says_when_only_reading_tools_run() -> None:
    planning = report(sections=(SectionSize(name="plan", tokens=60),))
    assert "plan mode" in gauges.status(planning, wide=False).plain
    assert "plan mode" not in gauges.status(report(), wide=False).plain


@pytest.mark.parametrize("full", [0.0, 0.001, 0.5, 0.92, 1.0, 1.4])
@pytest.mark.parametrize("width", [8, 36, 120])
def test_the_bar_is_never_wider_than_its_space(full: float, width: int) -> None:
    bar, ticks = gauges.fullness(report(full=full), width).plain.split("\n")
    assert len(bar) == width
    assert len(ticks) <= width
    assert ("trim 75" in ticks and "prune 92" in ticks) or width < 36
    assert ("╎" in bar and "┃" in bar) or width < 36


def test_a_prompt_of_a_few_tokens_is_not_drawn_as_an_empty_window() -> None:
    bar = gauges.fullness(report(full=0.0001), 30).plain.split("\n")[0]
    assert bar.startswith("━")


def test_the_sparkline_has_its_peak_where_the_growth_was() -> None:
    assert gauges.spark([0, 5, 10, 5], 10) == "▁▅█▅"
    assert gauges.spark([], 10) == ""
    assert gauges.spark([0, -3], 10) == "▁▁"


async def test_the_panel_folds_away_when_narrow_and_by_a_key() -> None:
    app, talk = staged(reported())
    async with app.run_test(size=(99, 30)) as pilot:
        await settle(pilot, talk)
        assert not app.chat.panel.display
        await pilot.press("ctrl+b")
        await pilot.pause()
        assert app.chat.panel.display
        await pilot.resize_terminal(140, 30)
        await pilot.pause()
        assert app.chat.panel.display
        await pilot.press("ctrl+b")
        await pilot.pause()
        assert not app.chat.panel.display


async def test_the_log_lists_what_left_newest_first_and_brings_it_back_by_key() -> None:
    app, talk = staged(reported(outside=OUTSIDE, gone=gone(3, 4, 5, 6)))
    async with app.run_test(size=(120, 50)) as pilot:
        await settle(pilot, talk)
        log = app.chat.panel.query_one(LeftLog)
        assert [one.turn for one in log.entries] == [6, 5, 4, 3]
        log.focus()
        await pilot.press("down", "down", "r", "down", "p")
        await pilot.pause()
        assert talk.did == [
            ("command", "/restore turn 5"),
            ("command", "/restore turn 4"),
            ("command", "/pin turn 4"),
        ]
        talk.announce(reported(outside=OUTSIDE, gone=gone(3, 4, 6)))
        await settle(pilot, talk)
        assert [one.turn for one in log.entries] == [6, 4, 3]


async def test_what_left_is_one_line_each_with_its_cost_and_first_words() -> None:
    outside = OutsideWindow(exchanges=28, tokens=50_000, indexed=True)
    app, talk = staged(reported(outside=outside, gone=gone(3, 4, tokens=7_066)))
    async with app.run_test(size=(120, 50)) as pilot:
        await settle(pilot, talk)
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert any("   4   7.1k  What was asked in" in row for row in rows)
        assert any("the newest 2, and 26 older" in row for row in rows)


async def test_the_panel_needs_no_second_scrollbar() -> None:
    outside = OutsideWindow(exchanges=50, tokens=50_000, indexed=True)
    app, talk = staged(reported(outside=outside, gone=gone(*range(1, 51))))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, talk)
        log = app.chat.panel.query_one(LeftLog)
        assert not log.show_vertical_scrollbar
        assert app.chat.panel.show_vertical_scrollbar


async def test_the_panel_lies_over_the_chat_where_it_is_narrow() -> None:
    app, talk = staged(reported())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, talk)
        before = app.chat.conversation.size.width
        await pilot.press("ctrl+b")
        await until(pilot, lambda: app.chat.panel.display)
        await pilot.pause()
        assert app.chat.conversation.size.width == before
        assert app.chat.panel.region.right == 80


@pytest.mark.parametrize("width", [40, 60, 80, 120])
async def test_the_zones_word_is_on_screen_at_every_width(width: int) -> None:
    app, talk = staged(reported("orange", 0.78))
    async with app.run_test(size=(width, 24)) as pilot:
        await settle(pilot, talk)
        assert "orange" in app.screen._compositor.render_strips()[-1].text


def test_default_shares_warn_of_nothing_that_talking_does_not_fill() -> None:
    full = Component(name="tool_definitions", tokens=1_150, limit=1_180, soft=944, hard=1_180)
    drawn = gauges.budget(report(components=(full,)), 40)
    assert not any("warning" in str(span.style) for span in drawn.spans)


def test_a_window_that_is_scaled_says_so() -> None:
    told = gauges.room(report(scaled="zones scaled for a small window")).plain
    assert "zones scaled for a small window" in told


def test_a_price_nobody_knows_is_not_zero() -> None:
    assert "cost unknown" in gauges.money(report(cost=0.0, turn=9)).plain
    assert "$0.00 spent" in gauges.money(report(cost=0.0, model="local/guide")).plain


async def test_a_question_mark_explains_every_word() -> None:
    words = glossary(Settings())
    app, talk = staged(reported(), given=msgspec.structs.replace(around(), glossary=words))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, WordsScreen))
        await until(pilot, lambda: "prune" in str(app.screen.query_one("#words").render()))
        text = str(app.screen.query_one("#words").render())
        for name in (*gauges.NAMES.values(), "anchored", "growth", "left the window"):
            assert name in text
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("a", "question_mark")
        assert app.chat.input_area.prompt.text == "a?"


async def test_the_inspector_lists_every_block_with_why_it_stays() -> None:
    app, talk = staged(reported("orange", 0.8, outside=OUTSIDE, gone=gone(3)))
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        rows = app.screen.query_one("#blocks", OptionList)
        # What is in the window, a line between, and what left it.
        assert rows.option_count == len(report().blocks) + 2
        assert "left the window" in str(rows.get_option_at_index(len(report().blocks)).prompt)
        assert "[bold]as it is[/bold]" in str(rows.get_option_at_index(0).prompt)
        assert "states the task" in str(app.screen.query_one("#detail", Static).render())
        assert "protected" not in str(rows.get_option_at_index(0).prompt)


async def test_pruning_shows_its_effect_before_it_happens() -> None:
    app, talk = staged(reported("orange", 0.8))
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        screen = app.screen
        assert isinstance(screen, InspectorScreen)
        await pilot.press("down", "down", "down", "space")
        assert screen.marked == {21}
        gone = sum(block.tokens for block in report().blocks if block.turn == 21)
        assert screen.effect()[0] == report("orange", 0.8).prompt.tokens - gone
        await pilot.press("x")
        assert talk.did == []
        assert "x again" in str(screen.query_one("#effect", Static).render())
        await pilot.press("x")
        assert talk.did == [("command", "/prune turn 21")]


async def test_what_is_protected_cannot_be_marked() -> None:
    app, talk = staged(reported())
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        await pilot.press("space", "x", "x")
        assert isinstance(app.screen, InspectorScreen)
        assert app.screen.marked == set()
        assert talk.did == []


async def test_the_inspector_pins_unpins_and_restores() -> None:
    app, talk = staged(
        reported(
            gone=gone(3),
        )
    )
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        await pilot.press("p", "down", "p", "end", "r")
        assert talk.did == [
            ("command", "/pin turn 20"),
            ("command", "/unpin turn 20"),
            ("command", "/restore turn 3"),
        ]


async def test_the_inspector_follows_new_reports() -> None:
    app, talk = staged(reported("green", 0.3))
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        talk.announce(reported("red", 0.95))
        await settle(pilot, talk)
        await until(pilot, lambda: "red" in str(app.screen.query_one("#summary", Static).render()))


async def test_what_was_recalled_for_one_turn_is_not_shown_for_the_next() -> None:
    app, talk = staged(reported("green", 0.2), ASKED, recalled(1))
    async with app.run_test(size=(120, 45)) as pilot:
        await settle(pilot, talk)
        assert app.chat.panel.query_one("#recall-hits").display
        app.chat.panel.show(msgspec.structs.replace(ASKED, turn=2))
        assert not app.chat.panel.query_one("#recall-hits").display


async def test_a_command_is_echoed_as_it_was_typed(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.run("/todo add Sand the thwarts")
        printed = stage.all(ev.CommandPrinted)[-1]
        assert (printed.command, printed.typed) == ("todo", "/todo add Sand the thwarts")
        drawn = str(Printed(printed).render())
        assert drawn.startswith("/todo add Sand the thwarts\n")
