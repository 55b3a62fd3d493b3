"""What a person does to the window, and how each of it is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.context import build_report, manual
from mindstone_tui.core.context.budget import room_for
from mindstone_tui.core.context.window_view import open_fold
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import TaskDone, TaskStarted
from mindstone_tui.core.entries.window import Receipt, WindowCarried
from mindstone_tui.core.errors import DoesNotFit, NoSuchEntry, WindowError
from mindstone_tui.core.library.take_over import initial_prune
from tests.core.context.stage import MODEL, Stage, finish, kinds, words


def told(stage: Stage) -> list[str]:
    """What the model would be told now, without the head."""
    stage.window.catch_up()
    messages = stage.window.fold.request(MODEL).messages
    return [str(message["content"]) for message in messages if message["role"] != "system"]


def talked(home: Path, turns: int = 6, window: int = 8_000) -> Stage:
    stage = Stage(home, window=window)
    for number in range(1, turns + 1):
        stage.chat(f"question {number}", f"answer {number}")
    return stage


def test_pruning_a_number_of_exchanges(home: Path) -> None:
    stage = talked(home)
    pruned = finish(manual.prune(stage.window, count=2))
    assert [left.turn for left in pruned.left] == [1, 2]
    assert told(stage)[:3] == ["question 1", "question 3", "answer 3"]
    assert build_report.report(stage.window).outside.exchanges == 2


def test_pruning_by_turn_and_restoring_in_place(home: Path) -> None:
    stage = talked(home)
    before = told(stage)
    finish(manual.prune(stage.window, turns=[3, 4]))
    assert "question 3" not in told(stage)
    manual.restore(stage.window, [4, 3])
    assert told(stage) == before
    outside = build_report.report(stage.window).outside
    assert (outside.exchanges, outside.tokens) == (0, 0)
    assert open_fold(stage.history).state == stage.window.fold.state


def test_pruning_down_to_a_fullness(home: Path) -> None:
    stage = Stage(home, window=8_000)
    for number in range(30):
        stage.chat(words(40, f"q{number}"), words(60))
    finish(manual.prune(stage.window, to_percent=30))
    report = build_report.report(stage.window)
    assert 0.2 < report.utilization <= 0.31


def test_what_is_protected_cannot_be_pruned_by_hand(home: Path) -> None:
    stage = talked(home)
    manual.pin(stage.window, 3)
    with pytest.raises(WindowError, match="pinned"):
        finish(manual.prune(stage.window, turns=[3]))
    with pytest.raises(NoSuchEntry, match="not in the window"):
        finish(manual.prune(stage.window, turns=[77]))
    finish(manual.prune(stage.window, count=99))
    assert told(stage) == ["question 1", "question 3", "answer 3", "question 6", "answer 6"]


def test_a_broken_index_binds_a_person_too(home: Path) -> None:
    stage = talked(home)
    stage.index.failing = True
    pruned = finish(manual.prune(stage.window, count=2))
    assert pruned.left == ()
    assert [line.kind for line in pruned.lines] == ["context_prune_blocked"]


def test_pinning_what_has_left_brings_it_back(home: Path) -> None:
    stage = talked(home)
    finish(manual.prune(stage.window, count=3))
    lines = manual.pin(stage.window, 2, why="it matters")
    assert [line.kind for line in lines] == ["restored", "pinned"]
    assert "answer 2" in told(stage)
    assert manual.pin(stage.window, 2) == []
    manual.unpin(stage.window, 2)
    with pytest.raises(NoSuchEntry, match="not pinned"):
        manual.unpin(stage.window, 2)


def test_unpinning_lets_go_of_that_turn_and_of_no_other(home: Path) -> None:
    stage = talked(home)
    for turn in (1, 2, 3):
        manual.pin(stage.window, turn)
    manual.unpin(stage.window, 2)
    assert stage.window.fold.state.pins == (1, 3)


def test_restoring_more_than_fits_is_refused_in_one_sentence(home: Path) -> None:
    stage = Stage(home, window=4_000)
    for number in range(12):
        stage.chat(words(60, f"q{number}"), words(300))
    with pytest.raises(DoesNotFit, match="Restoring needs"):
        manual.restore(stage.window, [1, 2, 3, 4, 5, 6])
    with pytest.raises(NoSuchEntry, match="no turn 99"):
        manual.restore(stage.window, [99])


def test_rewinding_leaves_later_turns_in_history_and_out_of_the_window(home: Path) -> None:
    stage = talked(home)
    manual.pin(stage.window, 5)
    finish(manual.rewind(stage.window, 3))
    assert told(stage)[-1] == "answer 3"
    assert stage.window.fold.state.pins == ()
    prepared = stage.chat("another way", "yes")
    assert [m["content"] for m in prepared.request.messages][-2:] == ["answer 3", "another way"]
    assert len(stage.history.turn(5)) > 0
    manual.restore(stage.window, [5])
    assert told(stage)[-4:] == ["question 5", "answer 5", "another way", "yes"]
    with pytest.raises(NoSuchEntry, match="cannot be rewound"):
        finish(manual.rewind(stage.window, 99))


def test_what_was_rewound_is_not_counted_as_left_nor_told_as_missing(home: Path) -> None:
    stage = talked(home, 8)
    finish(manual.prune(stage.window, turns=[2, 5, 6]))
    finish(manual.rewind(stage.window, 4))
    outside = build_report.report(stage.window).outside
    assert (outside.exchanges, outside.rewound) == (1, 4)
    marker = stage.window.fold.marker
    assert marker.startswith("[1 earlier exchange ")
    assert "shown: turns 2." in marker
    stage.chat("another way", "yes")
    finish(manual.prune(stage.window, turns=[3]))
    assert "shown: turns 2–3." in stage.window.fold.marker
    assert [gone.turn for gone in build_report.report(stage.window).gone] == [3, 2]
    manual.restore(stage.window, [6])
    outside = build_report.report(stage.window).outside
    assert (outside.exchanges, outside.rewound) == (2, 3)
    assert open_fold(stage.history).state == stage.window.fold.state
    finish(manual.rewind(stage.window, 1))
    assert (stage.window.fold.marker, build_report.report(stage.window).gone) == ("", ())


def test_rewinding_to_the_beginning_forgets_the_task(home: Path) -> None:
    stage = talked(home, 3)
    finish(manual.rewind(stage.window, 0))
    assert told(stage) == []
    stage.chat("a new beginning", "yes")
    assert stage.window.fold.task is not None
    stage.window.catch_up()
    task = stage.window.fold.task
    assert task is not None
    entry = stage.window.fold.lines[task].entry
    assert isinstance(entry, UserMessage)
    assert entry.text == "a new beginning"


def test_a_started_task_replaces_the_original_and_its_end_frees_it(home: Path) -> None:
    stage = talked(home, 2)
    stage.transcript.append(TaskStarted(title="bridge"))
    stage.chat("build the bridge", "on it")
    stage.chat("and?", "going")
    finish(manual.prune(stage.window, count=9))
    assert told(stage)[0] == "build the bridge"
    stage.transcript.append(TaskDone(title="bridge"))
    stage.chat("next", "fine")
    finish(manual.prune(stage.window, count=9))
    assert told(stage) == ["next", "fine"]
    assert build_report.report(stage.window).outside.exchanges == 4


def test_why_tells_what_happened_to_an_entry(home: Path) -> None:
    stage = talked(home)
    first = stage.history.turn(1)
    finish(manual.prune(stage.window, count=2))
    gone = stage.history.turn(2)[1]
    reason = manual.why(stage.window, gone.seq)
    assert not reason.in_window
    assert "you pruned it" in reason.why
    assert reason.receipt is not None
    kept = manual.why(stage.window, first[1].seq)
    assert kept.in_window
    assert "because it states the task" in kept.why
    assert "bookkeeping" in manual.why(stage.window, first[0].seq).why
    finish(manual.rewind(stage.window, 4))
    later = stage.history.turn(5)[1]
    assert "rewound to turn 4" in manual.why(stage.window, later.seq).why


def test_an_imported_session_gets_a_small_first_window(home: Path) -> None:
    stage = Stage(home, window=4_000)
    for turn in range(1, 400):
        stage.transcript.append(UserMessage(text=words(20, f"q{turn}")), turn=turn)
        stage.transcript.append(AssistantMessage(text=words(20, f"a{turn}")), turn=turn)
    stage.window.catch_up()
    history = stage.history
    entry = initial_prune(
        (line for line in history.back() if isinstance(line, Line)),
        counter=stage.counter,
        room=room_for(4_000, "measured", stage.settings.budget),
        settings=stage.settings,
        receipt=Receipt(turn=1, passages=700),
        outside_tokens=lambda last: 15_000,
        task=history.turn(1)[0],
        state=stage.window.fold.state,
    )
    assert entry is not None
    stage.transcript.append(entry)
    assert len(entry.state.spans) <= 2
    prepared = stage.chat("what was that about?", "stones")
    assert "context_window_pruned" not in kinds(prepared)
    assert prepared.request.messages[1]["content"] == words(20, "q1")
    assert "358 earlier exchanges" in str(prepared.request.messages[0]["content"])
    assert 0.5 < build_report.report(stage.open()).utilization < 0.8


def test_a_short_import_needs_no_prune(home: Path) -> None:
    stage = talked(home, 3)
    entry = initial_prune(
        (line for line in stage.history.back() if isinstance(line, Line)),
        counter=stage.counter,
        room=room_for(4_000, "measured", stage.settings.budget),
        settings=stage.settings,
        receipt=None,
    )
    assert entry is None


def test_the_state_is_carried_on_when_much_bookkeeping_piles_up(home: Path) -> None:
    from mindstone_tui.core.entries.store import CommandRun

    stage = talked(home, 2)
    for _ in range(4_100):
        stage.transcript.append(CommandRun(command="/status"))
    prepared = stage.chat("still here?", "yes")
    assert any(isinstance(line.entry, WindowCarried) for line in prepared.lines)
    assert open_fold(stage.history).at > 4_000
