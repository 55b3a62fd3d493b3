"""An imported session gets its first window without being held in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.window_view import open_fold
from mindstone_tui.core.entries import Draft, Line
from mindstone_tui.core.entries.window import ModelChanged, WindowState
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.session.import_window import plan_imported_window
from mindstone_tui.core.transcript import History
from tests.builders import places_in, say, transcript_in
from tests.core.interchange.helpers import take_over, write_lines


def _long_file(path: Path, count: int, first: int = 0) -> Path:
    return write_lines(
        path,
        (
            {
                "id": f"m{number}",
                "role": "assistant" if number % 2 else "user",
                "content": f"message {number} " + "words " * 600,
            }
            for number in range(first, first + count)
        ),
    )


def _settle(home: Path) -> None:
    transcript = transcript_in(home)
    index = RecallIndex.open(transcript.places.index, None)
    plan_imported_window(transcript, Settings(), index)
    index.close()
    transcript.close()


def test_planning_the_window_of_an_import_holds_the_window_and_not_the_history(
    home: Path, tmp_path: Path
) -> None:
    take_over(home, _long_file(tmp_path / "short.jsonl", 200))
    _settle(home)  # whatever is loaded once is loaded now
    take_over(home, _long_file(tmp_path / "long.jsonl", 1_500))
    tracemalloc.start()
    _settle(home)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_an_import_into_a_session_keeps_what_was_set_in_it(home: Path, tmp_path: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "before", "yes")
    transcript.append_all(
        [
            Draft(
                entry=ModelChanged(model="a/b", state=WindowState(through=4)), turn=0, channel="tui"
            )
        ]
    )
    transcript.close()
    take_over(home, _long_file(tmp_path / "first.jsonl", 200))
    _settle(home)
    take_over(home, _long_file(tmp_path / "second.jsonl", 200, first=200))
    _settle(home)
    with History(places_in(home)) as history:
        fold = open_fold(history)
        held = [line.entry for line in fold.lines.values()]
        newest = next(item for item in history.back() if isinstance(item, Line))
    assert newest.kind == "context_window_pruned"
    assert "message 399" in getattr(held[-1], "text", "")
    assert fold.state.model is not None
