"""A long coding session in a small window: the window stays still."""

from __future__ import annotations

from pathlib import Path

from tests.core.session.coding_session import WINDOW, Story, play, stillness
from tests.faults import FULL, sized

TURNS = sized(44, 300)
WORDS_ALONE = 'embedder = "none"'


async def test_the_window_of_a_long_coding_session_stays_still(tmp_path: Path) -> None:
    window = WINDOW if FULL else WINDOW * 7 // 8
    places = await play(tmp_path, Story(TURNS), window=window, recall=WORDS_ALONE)
    found = stillness(places)
    assert found.trims + found.prunes >= 2
    assert found.moves <= 1 / 12
    assert found.share >= 0.90
