"""Room, shares, zones and speed, in numbers."""

from __future__ import annotations

import pytest

from mindstone_tui.core.config.settings import BudgetSettings, ContextSettings, ZoneSettings
from mindstone_tui.core.context.budget import (
    ceiling_percent,
    check_before_add,
    components,
    edges,
    marks,
    pressing,
    room_for,
    shares,
    spike,
    turns_until,
    velocity,
    velocity_class,
    zone_after,
)
from mindstone_tui.core.context.measure import Piece, scaled
from mindstone_tui.core.entries.window import Growth
from mindstone_tui.core.errors import ConfigError

BUDGET = BudgetSettings()


@pytest.mark.parametrize(
    ("window", "reserve"),
    [(2_000, 500), (8_000, 2_000), (32_768, 4_096), (128_000, 6_400), (1_000_000, 50_000)],
)
def test_the_reserve_is_its_share_at_least_4096_at_most_a_quarter(
    window: int, reserve: int
) -> None:
    room = room_for(window, "measured", BUDGET)
    assert room.reserve == reserve
    assert room.usable == window - reserve


def test_a_window_nobody_knows_is_assumed_and_never_zero() -> None:
    room = room_for(0, "measured", BUDGET)
    assert (room.window, room.label) == (32_768, "assumed")


def test_an_assumed_window_prunes_earlier() -> None:
    assert ceiling_percent(ContextSettings(), "assumed") == 87
    assert ceiling_percent(ContextSettings(), "measured") == 92
    assert ceiling_percent(ContextSettings(ceiling=72.0), "assumed") == 71


def test_the_shares_add_up_to_the_usable_window() -> None:
    budget = BudgetSettings(message_history=60.0, tool_results=17.0)
    assert shares(budget) == (6, 4, 60, 17, 8, 5)
    room = room_for(200_000, "measured", budget)
    found = components(scaled([], 1.0, "estimated"), room, budget)
    assert [each.name for each in found][-1] == "output_reserve"
    assert room.usable - 5 <= sum(each.limit for each in found[:-1]) <= room.usable


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ConfigError, match="add up to 110"):
        shares(BudgetSettings(tool_results=22.0))


def test_the_task_is_written_down_before_exchanges_can_leave() -> None:
    room = room_for(100_000, "measured", BUDGET)
    early = marks(room, ContextSettings(ceiling=80.0), ZoneSettings())
    assert early.checkpoint == early.ceiling
    usual = marks(room, ContextSettings(), ZoneSettings())
    assert usual.checkpoint == room.tokens(85)


def test_zones_begin_earlier_in_small_windows_and_later_in_very_large_ones() -> None:
    zones = ZoneSettings()
    assert edges(zones, 8_000) == (40, 65, 85)
    assert edges(zones, 32_768) == (50, 75, 90)
    assert edges(zones, 200_000) == (60, 80, 90)
    assert edges(ZoneSettings(scale=False), 8_000) == (50, 75, 90)


def test_a_zone_is_left_three_points_below_its_edge() -> None:
    zones = ZoneSettings()
    assert zone_after("green", 0.499, 128_000, zones) == "green"
    assert zone_after("green", 0.50, 128_000, zones) == "yellow"
    assert zone_after("yellow", 0.48, 128_000, zones) == "yellow"
    assert zone_after("yellow", 0.469, 128_000, zones) == "green"
    assert zone_after("green", 0.95, 128_000, zones) == "red"
    assert zone_after("red", 0.10, 128_000, zones) == "green"


def turns(*tokens: int) -> list[Growth]:
    return [Growth(number, size) for number, size in enumerate(tokens, 1)]


def test_speed_is_the_mean_of_the_last_turns() -> None:
    assert velocity(turns(9_000, 100, 200, 300, 400, 500), 5) == 300
    assert velocity([], 5) == 0
    assert [velocity_class(speed) for speed in (0, 400, 2_000, 9_000)] == [
        "low",
        "low",
        "medium",
        "high",
    ]
    assert turns_until(9_000, 6_000, 1_000) == 3
    assert turns_until(9_000, 9_500, 1_000) == 0
    assert turns_until(9_000, 6_000, 0) is None


def test_fifteen_thousand_after_two_thousand_is_a_spike() -> None:
    found = spike(15_000, turns(2_000, 2_000, 2_000, 2_000), 3.0)
    assert found is not None
    assert (found.baseline, found.ratio) == (2_000, 7.5)
    assert spike(5_900, turns(2_000, 2_000, 2_000), 3.0) is None
    assert spike(15_000, turns(2_000, 2_000), 3.0) is None


def test_a_session_of_ups_and_downs_does_not_cry_wolf() -> None:
    restless = turns(200, 9_000, 300, 8_000, 250, 9_500, 280, 8_700)
    assert spike(16_000, restless, 3.0) is None


def test_looking_before_adding_warns_for_a_share_and_refuses_for_the_whole() -> None:
    room = room_for(8_000, "measured", BUDGET)
    used = components(
        scaled([Piece(("x",), "message_history", 3_000)], 1.0, "estimated"), room, BUDGET
    )
    limits = {each.name: each.limit for each in used}
    assert check_before_add("memory_injection", 10, used, room).warning == ""
    nearly = check_before_add("memory_injection", limits["memory_injection"], used, room)
    assert nearly.allowed
    assert "nearly full" in nearly.warning
    over = check_before_add("tool_results", limits["tool_results"] + 7, used, room)
    assert over.allowed
    assert over.excess == 7  # over the share, however far its hard mark is
    exact = check_before_add("tool_results", room.usable - 3_000, used, room)
    assert exact.allowed
    refused = check_before_add("tool_results", room.usable - 2_999, used, room)
    assert not refused.allowed
    assert "1 tokens too large" in refused.reason


def test_a_low_ceiling_takes_the_earlier_marks_down_with_it() -> None:
    room = room_for(32_768, "measured", BUDGET)
    found = marks(room, ContextSettings(ceiling=50, floor=40), ZoneSettings())
    assert found.checkpoint == found.trim == found.trim_to == found.ceiling
    usual = marks(room, ContextSettings(), ZoneSettings())
    assert usual.trim_to < usual.trim < usual.checkpoint < usual.ceiling < usual.emergency


def test_room_that_recall_may_need_counts_only_where_it_would_not_fit() -> None:
    room = room_for(8_000, "measured", BUDGET)
    assert pressing(5_000, 500, room) == 5_000
    assert pressing(5_500, 500, room) == 5_500
    assert pressing(5_501, 500, room) == 6_001
