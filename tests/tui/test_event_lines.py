"""Every event has its line, its picture, or a reason to have none."""

from __future__ import annotations

import typing

import msgspec
import pytest

from mindstone_tui.core import events as ev
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.tui import show
from mindstone_tui.tui.event_lines import tell
from mindstone_tui.tui.from_entries import _BETWEEN
from tests.tui.staged import passage, pruned, report

DRAWN = {
    ev.TurnStarted,
    ev.TextDelta,
    ev.ThinkingDelta,
    ev.AnswerRecorded,
    ev.ToolAsked,
    ev.ToolStarted,
    ev.ToolOutput,
    ev.ToolEnded,
    ev.RecallInjected,
    ev.CommandPrinted,
    ev.CommandEnded,
    ev.EntryAppeared,
    ev.MessageQueued,
    ev.MessageSteered,
    ev.MessageSteered,
    ev.TurnEnded,
    ev.SessionClosed,
}
"""Events with a picture of their own, and the end of the stream."""


def example(kind: type[ev.Event]) -> ev.AnyEvent:
    """An event of a kind, made from its field types."""
    if kind is ev.WindowPruned:
        return pruned(1, 2, 3)
    fields: dict[str, object] = {}
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        if not field.required:
            continue
        hint = hints[field.name]
        choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
        fields[field.name] = choices[0] if choices else _value(hint)
    event = kind(**fields)
    return typing.cast(ev.AnyEvent, event)


def _value(hint: object) -> object:
    if hint is int:
        return 7
    if hint is float:
        return 0.5
    if hint is bool:
        return True
    if hint is str:
        return "words"
    if typing.get_origin(hint) is tuple:
        return ()
    if hint is ContextReport:
        return report()
    return None


@pytest.mark.parametrize("kind", typing.get_args(ev.AnyEvent), ids=lambda kind: kind.__name__)
def test_every_event_has_a_line_a_picture_or_a_reason_for_neither(kind: type[ev.Event]) -> None:
    told = tell(example(kind))
    if kind in DRAWN or kind in _BETWEEN:
        assert told is None or kind is ev.TurnEnded
    else:
        assert told is not None
        assert told.what


def test_turns_in_a_row_are_written_as_a_range() -> None:
    told = tell(pruned(9, 3, 4, 5, 8, 10, 11))
    assert told is not None
    assert "turn 3–5, 8, 10–11" in told.what
    assert "113k → 85.9k tokens" in told.what


def test_all_that_lies_before_an_imported_window_is_named() -> None:
    (last,) = pruned(1, 74).left
    before = msgspec.structs.replace(last, exchanges=74)
    told = tell(msgspec.structs.replace(pruned(1, 74), left=(before,)))
    assert told is not None
    assert told.what.startswith("74 exchanges left the window: turn 1–74 ·")


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
    assert show.tokens(count) == shown


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
    assert show.dollars(cost, unknown=unknown) == shown


@pytest.mark.parametrize(
    ("elapsed", "shown"),
    [(0.31, "0.3 s"), (12.4, "12 s"), (125, "2 min 05 s"), (7_800, "2 h 10 min")],
)
def test_durations_have_at_most_two_units(elapsed: float, shown: str) -> None:
    assert show.seconds(elapsed) == shown


def test_a_day_that_is_no_date_is_shown_as_it_is() -> None:
    assert show.day("2026-01-03T10:00:00Z") == "3 Jan 2026"
    assert show.day("yesterday") == "yesterday"
    assert passage().ts
