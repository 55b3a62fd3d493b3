"""What an import takes in while it writes is what whoever reads the file afterwards finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries.derived import NoteTaken
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.library.profile import profile_of, stored_profile
from mindstone_tui.core.library.take_over import Importer
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.store import IndexMark
from mindstone_tui.core.transcript import History, Transcript
from tests.core.interchange.helpers import write_lines

KEY = SessionKey("default", "taken")
LONG = 0
"""The message that does not fit into a line, and is cut into many passages."""


def _conversation(path: Path, count: int, words: int = 8) -> Path:
    return write_lines(
        path,
        (
            {
                "id": f"m{number}",
                "role": "assistant" if number % 2 else "user",
                "content": f"message {number} "
                + "some words " * (100_000 if number == LONG else words // 2),
            }
            for number in range(count)
        ),
    )


def _take(home: Path, file: Path, meanwhile: Callable[[], object]) -> SessionPlaces:
    """Import a file; what happens `meanwhile` happens between two of its batches."""
    places = Places.resolve({"MINDSTONE_HOME": str(home)})

    def progress(what: str, done: int, total: int) -> None:
        if done == 256:
            meanwhile()

    importer = Importer(places, Settings(), {}, progress=progress, on_busy=lambda key: None)
    list(importer.take(file, KEY, "records"))
    return places.session(KEY)


def _words_of(index: RecallIndex) -> tuple[IndexMark, list[tuple[int, Passage]]]:
    try:
        return index.mark, index.after(-1, 1_000_000)
    finally:
        index.close()


def _is_as_read_anew(own: SessionPlaces, elsewhere: Path) -> None:
    taken = _words_of(RecallIndex.of(own, None))
    index = RecallIndex.open(elsewhere, None)
    with History(own) as history:
        catch_up(index, reading(history))
    assert taken == _words_of(index)
    kept = stored_profile(own)
    own.profile.unlink()
    assert kept == profile_of(own)


@pytest.mark.thorough
def test_what_is_taken_in_as_it_is_written_is_what_the_file_says(
    home: Path, tmp_path: Path
) -> None:
    read: list[int] = []
    for count in (400, 800):  # the second time goes on where the first ended
        own = _take(home, _conversation(tmp_path / "a.jsonl", count), lambda: read.append(1))
        _is_as_read_anew(own, tmp_path / f"{count}.db")
    assert read == [1, 1]


def test_the_first_exchange_is_read_back_whole_before_it_leaves_the_window(
    home: Path, tmp_path: Path
) -> None:
    own = _take(home, _conversation(tmp_path / "a.jsonl", 40, 3_000), lambda: None)
    with History(own) as history:
        (pruned,) = history.newest({"context_window_pruned"}, 1)
    _, found = _words_of(RecallIndex.of(own, None))
    assert isinstance(pruned.entry, ContextWindowPruned)
    receipt = pruned.entry.left[0].receipt
    assert receipt is not None
    assert receipt.passages == sum(passage.turn == 1 for _, passage in found)


def test_what_somebody_else_writes_in_between_is_taken_in_too(home: Path, tmp_path: Path) -> None:
    def note() -> None:
        own = Places.resolve({"MINDSTONE_HOME": str(home)}).session(KEY)
        other = Transcript(own, channel="test")
        other.append(NoteTaken(category="fact", text="the rhubarb is ripe"))
        other.close()

    own = _take(home, _conversation(tmp_path / "a.jsonl", 400), note)
    with History(own) as history:
        assert any(line.kind == "note_taken" for line in reading(history)(0))
    _is_as_read_anew(own, tmp_path / "anew.db")
