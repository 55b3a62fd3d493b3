"""The screen model counts what is printed, not what is written."""

from __future__ import annotations

from tests.tui.screen_model import ScreenModel


def test_cells_are_counted_without_the_sequences_around_them() -> None:
    screen = ScreenModel(20, 4)
    screen.feed("\x1b[?2026h\x1b[2;3H\x1b[1;38;2;1;2;3mstone\x1b[0m  \x1b[?2026l")
    assert screen.printed == 7
    assert screen.display[1] == "  stone             "


def test_a_wide_character_takes_two_cells_and_a_second_drawing_counts_again() -> None:
    screen = ScreenModel(20, 4)
    screen.feed("\x1b[1;1H石")
    screen.feed("\x1b[1;1H石")
    assert screen.printed == 4
