"""The panel, the inspector and the log: the window as a person sees and steers it."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from mindstone_tui.core import events as ev
from mindstone_tui.core.context.report import OutsideWindow
from mindstone_tui.core.entries.base import ZONES, Zone
from mindstone_tui.tui import gauges
from mindstone_tui.tui.screens.inspector import InspectorScreen
from mindstone_tui.tui.widgets.context_panel import Gauges, LeftLog
from tests.tui.staged import left, pruned, report, reported, settle, staged, until

OUTSIDE = OutsideWindow(exchanges=3, tokens=5_520, indexed=True)


async def test_the_panel_shows_what_the_report_says_and_nothing_else() -> None:
    app, talk = staged(reported("orange", 0.78, outside=OUTSIDE))
    async with app.run_test(size=(120, 45)) as pilot:
        await settle(pilot, talk)
        shown = str(app.chat.panel.query_one(Gauges).render())
        for part in (
            "orange",
            "94.8k of 122k tokens",
            "78 %",
            "anchored",
            "floor 70",
            "87 % cached",
        ):
            assert part in shown
        for name in gauges.NAMES.values():
            assert name in shown
        title = str(app.chat.panel.query_one("#left-title", Static).render())
        assert "3 exchanges · 5.5k · all indexed" in title


async def test_an_assumed_window_says_so() -> None:
    from mindstone_tui.core.context.report import Tokens

    assumed = report(window=Tokens(tokens=32_768, label="assumed"))
    assert "window 32.8k assumed" in gauges.room(assumed).plain


@pytest.mark.parametrize("zone", ZONES)
def test_the_zone_is_a_word_not_only_a_colour(zone: Zone) -> None:
    assert zone in gauges.zone(report(zone)).plain
    assert zone in gauges.status(report(zone), wide=False).plain


@pytest.mark.parametrize("full", [0.0, 0.001, 0.5, 0.92, 1.0, 1.4])
@pytest.mark.parametrize("width", [8, 36, 120])
def test_the_bar_is_never_wider_than_its_space(full: float, width: int) -> None:
    bar, ticks = gauges.fullness(report(full=full), width).plain.split("\n")
    assert len(bar) == width
    assert len(ticks) <= width
    assert {"f", "t", "c"} <= set(ticks) or width < 36


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
    app, talk = staged(pruned(9, 3, 4), pruned(12, 5, 6), reported(outside=OUTSIDE))
    async with app.run_test(size=(120, 45)) as pilot:
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
        talk.announce(ev.WindowChanged(turn=13, entry="x", kind="restored", detail="turn 5"))
        await settle(pilot, talk)
        assert [one.turn for one in log.entries] == [6, 4, 3]


async def test_a_prune_from_before_the_app_was_opened_is_in_the_log() -> None:
    app, talk = staged(reported(outside=OUTSIDE, left=(left(4), left(3))))
    async with app.run_test(size=(120, 45)) as pilot:
        await settle(pilot, talk)
        log = app.chat.panel.query_one(LeftLog)
        assert [one.turn for one in log.entries] == [4, 3]
        talk.announce(reported(outside=OUTSIDE, left=(left(4), left(3))))
        await settle(pilot, talk)
        assert len(log.entries) == 2


async def test_the_inspector_lists_every_block_with_why_it_stays() -> None:
    app, talk = staged(pruned(9, 3), reported("orange", 0.8, outside=OUTSIDE))
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot, talk)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        rows = app.screen.query_one("#blocks", OptionList)
        assert rows.option_count == len(report().blocks) + 1
        assert "[bold]as it is[/bold]" in str(rows.get_option_at_index(0).prompt)
        assert "original task" in str(app.screen.query_one("#detail", Static).render())


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
    app, talk = staged(pruned(9, 3), reported())
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
