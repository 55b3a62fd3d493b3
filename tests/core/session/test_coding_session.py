"""A long coding session in a small window: it stays still, and what was planted comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.library.find import RecalledHit, StoredRecall
from mindstone_tui.core.paths import Places
from mindstone_tui.core.replay.verify_requests import rebuilt_calls
from mindstone_tui.core.transcript import History
from tests.core.session.coding_session import (
    WINDOW,
    Chat,
    Planted,
    Spikes,
    Story,
    play,
    recalled,
    stillness,
)
from tests.core.session.stage import KEY
from tests.faults import FULL, sized

TURNS = sized(44, 300)
WORDS_ALONE = 'embedder = "none"'
LARGEST = 2.1
"""How many times the bytes of its messages and results a transcript may take."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("coding")


async def test_the_window_of_a_long_coding_session_stays_still(folder: Path) -> None:
    window = WINDOW if FULL else WINDOW * 7 // 8
    story = Story(TURNS)
    places = await play(folder, story, window=window, **({} if FULL else {"recall": WORDS_ALONE}))
    found = stillness(places)
    assert found.trims + found.prunes >= 2
    assert found.moves <= 1 / 12
    assert found.share >= 0.90
    assert found.bytes <= LARGEST * found.said
    if FULL:
        assert found.recalls > TURNS // 10
        assert found.with_vectors >= 0.95 * found.left
    for planted, passages in recalled(places, story):
        if passages is not None:  # it had left the window by then
            assert (planted.turn, True) in [
                (each.turn, planted.answer in each.text) for each in passages
            ], planted.question


@pytest.mark.thorough
async def test_every_fact_that_was_stated_before_spikes_is_there_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    story = Spikes(sized(36, 170))
    words_alone = {} if FULL else {"recall": WORDS_ALONE}
    places = await play(tmp_path, story, window=24_000, **words_alone)
    found = stillness(places)
    assert found.trims + found.prunes >= 2
    assert found.share >= sized(9, 11) / sized(10, 12)  # of a short session the first are many
    with History(places) as history:
        for number, turn in enumerate(story.turns, start=1):
            if turn.asks is not None:
                (sent,) = rebuilt_calls(history, number)
                assert turn.asks.answer in str(sent.messages), turn.asks.question
    assert len(story.planted) == sized(3, 14)


@pytest.mark.thorough
async def test_an_ordinary_chat_with_tools_and_recall_says_nothing_twice(tmp_path: Path) -> None:
    places = await play(tmp_path, Chat(24), window=9_000, recall=WORDS_ALONE)
    found = stillness(places)
    assert found.recalls >= 2
    assert found.bytes <= LARGEST * found.said


def test_everything_planted_is_answered_with_its_pointer(folder: Path) -> None:
    story = Story(TURNS)
    replaced = {each.corrects for each in story.planted}
    embedder = RecallSettings() if FULL else RecallSettings(embedder="none")
    home = Places.resolve({"MINDSTONE_HOME": str(folder / "home")})
    with StoredRecall(home, KEY, Settings(recall=embedder)) as stored:
        for planted in story.planted:
            if planted.turn not in replaced:
                found = stored.ask_unasked(planted.question)
                check_answer(planted, found.injected, found.silent)


def check_answer(planted: Planted, hits: Sequence[RecalledHit], silent: str | None) -> None:
    """The right passage is there with its source; what it corrects stands below it and says so."""
    assert hits, f"{planted.question} {silent}"
    own = next((hit for hit in hits if hit.turn == planted.turn and hit.role == "user"), None)
    assert own is not None, planted.question
    assert planted.answer in own.text
    assert own.entries[0].seq >= 0
    if old := next((hit for hit in hits if hit.turn == planted.corrects), None):
        assert hits.index(own) < hits.index(old), planted.question
        assert old.superseded_by == own.entries[0].seq
        assert old.entries[0].seq in own.supersedes
