"""An imported session gets its first window without being held in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.window_view import open_fold
from mindstone_tui.core.entries import Draft, Line
from mindstone_tui.core.entries.conversation import AssistantMessage
from mindstone_tui.core.entries.window import ContextWindowPruned, ModelChanged, WindowState
from mindstone_tui.core.library.take_over import plan_imported_window
from mindstone_tui.core.recall.index import RecallIndex
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
    index = RecallIndex.of(transcript.places, None)
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


def _file_of_exchanges(path: Path, *sizes: tuple[int, int], task: str = "") -> Path:
    """Exchanges of so many words each, said and printed by a tool."""
    rows: list[dict[str, object]] = [{"id": "t", "role": "user", "content": task}] if task else []
    for number, (said, printed) in enumerate(sizes):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "sh", "arguments": ""}}
        rows += [
            {"id": f"q{number}", "role": "user", "content": f"question {number}"},
            {"id": f"a{number}", "role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "word\n" * printed},
            {"id": f"e{number}", "role": "assistant", "content": "word " * said},
        ]
    return write_lines(path, rows)


def _answered_in_window(home: Path) -> set[int]:
    """Turns that are there with their answers; the first question stays in any case."""
    with History(places_in(home)) as history:
        lines = open_fold(history).lines.values()
        return {line.turn for line in lines if isinstance(line.entry, AssistantMessage)}


def test_what_an_import_says_is_in_the_window_is_what_is_in_it(home: Path, tmp_path: Path) -> None:
    file = _file_of_exchanges(tmp_path / "a.jsonl", *[(4_000, 10)] * 8, task="word " * 6_000)
    take_over(home, file)
    _settle(home)
    with History(places_in(home)) as history:
        fold = open_fold(history)
        newest = next(item for item in history.back() if isinstance(item, Line))
        held = sum(len(getattr(line.entry, "text", "")) for line in fold.lines.values())
    prune = newest.entry
    assert isinstance(prune, ContextWindowPruned)
    assert prune.tokens_after == pytest.approx(held / 3.5, rel=0.2)
    assert prune.tokens_before == pytest.approx((8 * 4_000 + 6_000) * 5 / 3.5, rel=0.25)


def test_the_work_that_was_done_last_stays_though_its_results_must_be_shortened(
    home: Path, tmp_path: Path
) -> None:
    take_over(home, _file_of_exchanges(tmp_path / "a.jsonl", (100, 10), (100, 40_000), (5, 5)))
    _settle(home)
    assert _answered_in_window(home) == {2, 3}


def test_an_exchange_too_large_by_what_was_said_leaves_even_if_it_is_the_first(
    home: Path, tmp_path: Path
) -> None:
    take_over(home, _file_of_exchanges(tmp_path / "a.jsonl", (40_000, 10), (5, 5)))
    _settle(home)
    assert _answered_in_window(home) == {2}
