"""Numbers are read at a glance and never pretend to know more than they do."""

from __future__ import annotations

import pytest

from mindstone_tui.core import numbers


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (99_949, "99.9k"),
        (128_000, "128k"),
        (2_097_152, "2.10M"),
    ],
)
def test_tokens_are_read_at_a_glance(count: int, shown: str) -> None:
    assert numbers.tokens(count) == shown


@pytest.mark.parametrize(
    ("cost", "unknown", "shown"),
    [
        (None, False, "$?"),
        (0.0, False, "$0.00"),
        (0.0123, False, "$0.0123"),
        (12.5, True, "$12.50+?"),
    ],
)
def test_an_unknown_price_is_a_question_mark_not_a_zero(
    cost: float | None, unknown: bool, shown: str
) -> None:
    assert numbers.dollars(cost, unknown=unknown) == shown


@pytest.mark.parametrize(
    ("elapsed", "shown"),
    [(0.31, "0.3 s"), (12.4, "12 s"), (125, "2 min 05 s"), (7_800, "2 h 10 min")],
)
def test_durations_have_at_most_two_units(elapsed: float, shown: str) -> None:
    assert numbers.seconds(elapsed) == shown


def test_a_day_that_is_no_date_is_shown_as_it_is() -> None:
    assert numbers.day("2026-01-03T10:00:00Z") == "3 Jan 2026"
    assert numbers.day("yesterday") == "yesterday"


@pytest.mark.parametrize(
    ("stamps", "said"),
    [
        ((), ""),
        (("2026-02-03T09:00:00Z",), "3 February"),
        (("2026-02-03T09:00:00Z", "2026-02-04", "2026-02-09T01:00:00Z"), "3–9 February"),
        (("2026-01-31", "2026-02-09"), "31 January – 9 February"),
        (("2025-12-31", "2026-02-09"), "31 December 2025 – 9 February 2026"),
        (("2025-02-03", "2026-02-03"), "3 February 2025 – 3 February 2026"),
        (("nonsense", "2026-02-03"), ""),
    ],
)
def test_days_are_told_as_people_tell_them(stamps: tuple[str, ...], said: str) -> None:
    assert numbers.days(*stamps) == said
