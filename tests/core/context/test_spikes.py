"""What gives way when a turn reads far more than turns usually do: results, before words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mindstone_tui.core.context.budget import work_left
from mindstone_tui.core.context.plan import Prepared
from mindstone_tui.core.context.trim import trimmable
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.window import ContextWindowPruned, ToolResultsTrimmed
from tests.core.context.generated import generated
from tests.core.context.stage import Stage, words
from tests.faults import FULL, sized

SESSIONS = st.lists(
    st.tuples(
        st.integers(10, 400),
        st.lists(st.sampled_from([30, 200, 600, 1_500, 4_000]), max_size=8),
        st.integers(10, 300),
    ),
    min_size=8,
    max_size=16,
)
"""What is asked, what tools give back, and what is answered, in hundredths of a percent of a window
of 100,000 tokens."""
WINDOWS = [8_000, 24_000, 64_000, 200_000] if FULL else [8_000, 24_000]


def prunes(prepared: Prepared) -> list[ContextWindowPruned]:
    return [line.entry for line in prepared.lines if isinstance(line.entry, ContextWindowPruned)]


def changes_of(prepared: Prepared) -> list[ToolResultsTrimmed | ContextWindowPruned]:
    """What changed for this request, in order."""
    return [*trims(prepared), *prunes(prepared)]


def trims(prepared: Prepared) -> list[ToolResultsTrimmed]:
    return [line.entry for line in prepared.lines if isinstance(line.entry, ToolResultsTrimmed)]


def still_to_gain(stage: Stage) -> int:
    """Tokens of the results in the window that the model has answered to."""
    measured = stage.window.measure(stage.window.now())
    state = stage.window.fold.state
    found = trimmable(measured, trimmed=state.trimmed, spared=state.pins, keep=0)
    return sum(size for _, size in found)


@pytest.mark.parametrize("window", WINDOWS)
@settings(generated, max_examples=sized(6, 2_500))
@given(turns=SESSIONS)
@example(turns=[(300, [], 300)] * 12 + [(20, [1_500] * 8, 50)])
@example(turns=[(300, [], 300)] * 12 + [(20, [600] * 8, 50)] * 4)
def test_no_words_leave_while_much_that_tools_said_may_be_shortened(
    turns: list[tuple[int, list[int], int]], window: int
) -> None:
    stage = Stage(None, window=window)
    usable = stage.window.now().room.usable
    for number, (asked, results, answered) in enumerate(turns):
        asking = words(asked * window // 10_000, f"q{number}")
        given_back = [words(size * window // 10_000, f"r{number}") for size in results]
        turn = stage.ask(asking)
        for at in range(len(given_back) + 1):
            prepared = stage.plan(at + 1)
            changes = changes_of(prepared)
            if prunes(prepared):
                assert changes[0].tokens_before > usable * 0.92 - 1
                assert still_to_gain(stage) <= usable * 0.1 + 50 * len(results)
            for change in changes:
                gained = change.tokens_before - change.tokens_after
                # A change may be smaller only where the request would not fit without it.
                assert gained >= usable * 0.05 - 80 or change.tokens_before > usable * 0.95 - 1
            if at < len(given_back):
                stage.look(turn, at, given_back[at])
        stage.answer(words(answered * window // 10_000, f"a{number}"))
        stage.end()
    stage.close()


@pytest.mark.thorough
def test_a_window_that_fills_evenly_changes_before_one_request_in_twelve_at_most() -> None:
    stage = Stage(None, window=24_000)
    usable = stage.window.now().room.usable
    changed = []
    for number in range(sized(150, 300)):
        read = [words(usable * 5 // 200, f"r{number}.{at}") for at in range(number % 3)]
        answer = words(usable * (1 + number % 2) // 200, f"a{number}")
        for plan in stage.work(words(usable // 200, f"q{number}"), read, answer):
            changes = changes_of(plan)
            if changes and changes[0].tokens_before > usable * 0.92:
                # One step, far down: by results alone, else by exchanges as well.
                assert plan.tokens <= usable * 0.70
            if changes:
                changed.append(len(stage.prepared))
    assert len(changed) * 12 <= len(stage.prepared)
    assert any(prunes(plan) for plan in stage.prepared)


@pytest.mark.parametrize(
    ("every", "reads", "size"), [(9, 12, 4), (9, 12, 2), (9, 6, 4), (3, 3, 4), (1, 1, 3)]
)
def test_where_requests_are_large_a_step_goes_deeper_instead_of_coming_sooner(
    every: int, reads: int, size: int
) -> None:
    stage = Stage(None, window=24_000)
    usable = stage.window.now().room.usable
    for number in range(sized(150, 300)):
        looks = reads if number % every == every - 1 else 0
        read = [words(usable * size // 100, f"r{number}.{at}") for at in range(looks)]
        stage.work(words(usable // 100, f"q{number}"), read, words(usable // 66, f"a{number}"))
    changed = [plan for plan in stage.prepared if changes_of(plan)]
    assert len(changed) * 12 <= len(stage.prepared)


TURNS = st.tuples(st.sampled_from([0, 0, 1, 2, 3, 6, 12]), st.integers(1, 6))
"""How many files a turn reads, and how many percent of the room each of them is."""


@pytest.mark.parametrize("window", WINDOWS)
@settings(generated, max_examples=sized(1, 25))
@given(pattern=st.lists(TURNS, min_size=2, max_size=7))
@example(pattern=[(6, 4), (2, 6), (0, 3)])
def test_where_requests_add_up_to_a_thirtieth_each_one_in_twelve_changes_the_prompt(
    pattern: list[tuple[int, int]], window: int
) -> None:
    requests = sum(reads + 1 for reads, _ in pattern)
    if sum(1.5 + reads * size for reads, size in pattern) > 100 / 30 * requests:
        pattern = [*pattern, *((0, 1) for _ in range(requests))]
    stage = Stage(None, window=window)
    usable = stage.window.now().room.usable
    for number in range(sized(40, 150)):
        reads, size = pattern[number % len(pattern)]
        read = [words(usable * size // 100, f"r{number}.{at}") for at in range(reads)]
        stage.work(words(usable // 200, f"q{number}"), read, words(usable // 100, f"a{number}"))
    changed = [plan for plan in stage.prepared if changes_of(plan)]
    # One more where the count ends right after a change.
    assert len(changed) * 12 <= len(stage.prepared) + 12
    stage.close()


def test_a_turn_of_a_dozen_reads_takes_nobody_s_words(home: Path) -> None:
    stage = Stage(home, window=24_000)
    for number in range(12):
        stage.chat(words(200, f"q{number}"), words(300, f"a{number}"))
    plans = stage.work("fix this", [words(1_600, f"r{number}") for number in range(12)], "done")
    assert not [prune for plan in plans for prune in prunes(plan)]
    changes = [trim for plan in plans for trim in trims(plan)]
    assert 1 <= len(changes) <= 2
    assert {change.trigger for change in changes} == {"pressure"}


def test_what_was_read_again_gives_way_before_what_was_read_once(home: Path) -> None:
    stage = Stage(home, window=24_000)
    stage.chat("task", "ok")
    turn = stage.ask("look")
    for at, (path, size) in enumerate([("a", 2_000), ("b", 3_000), ("a", 2_000)]):
        stage.plan(at + 1)
        stage.look(turn, at, words(size, path), path)
    stage.plan(4)
    stage.answer("seen")
    stage.end()
    entries: list[ToolResultsTrimmed] = []
    while not entries:
        prepared = stage.chat(words(300, f"q{stage.turn}"), words(400, f"a{stage.turn}"))
        entries = trims(prepared)
        assert entries or not prunes(prepared)
    first = entries[0].results[0]
    assert first.result == min(result.result for result in entries[0].results)


def test_of_what_was_read_once_the_largest_gives_way_first(home: Path) -> None:
    stage = Stage(home, window=24_000)
    stage.chat("task", "ok")
    for number, size in enumerate([600, 4_000, 1_500]):
        turn = stage.ask(f"look {number}")
        stage.plan(1)
        stage.look(turn, 0, words(size, f"r{number}"), f"{number}.txt")
        stage.plan(2)
        stage.answer("seen")
        stage.end()
    entries: list[ToolResultsTrimmed] = []
    while not entries:
        entries = trims(stage.chat(words(300, f"q{stage.turn}"), words(400, f"a{stage.turn}")))
    sizes = [result.tokens_before for result in entries[0].results]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 3_900


def test_results_of_earlier_turns_and_of_this_one_spare_the_words_together(home: Path) -> None:
    stage = Stage(home, window=24_000)
    stage.work("look", [words(1_300, "old")], "seen")
    while stage.window.measure(stage.window.now()).total < 19_904 * 0.66:
        stage.chat(words(60, f"q{stage.turn}"), words(60, f"a{stage.turn}"))
    plans = stage.work("look again", [words(1_300, f"new{at}") for at in range(4)], "done")
    assert not [prune for plan in plans for prune in prunes(plan)]
    ((trim,),) = [found for plan in plans if (found := trims(plan))]
    assert len({stage.window.fold.lines[one.result].turn for one in trim.results}) == 2


def first_trim(home: Path, *, listed: bool) -> tuple[int, int]:
    """Work in equal steps; the step and the call of it before which results first gave way."""
    stage = Stage(home, window=24_000)
    for number in range(16):
        stage.chat(words(200, f"q{number}"), words(350, f"a{number}"))
    for step in range(9):
        stage.window.open_steps = 9 - step if listed else 0
        plans = stage.work(f"step {step}", [words(900, f"s{step}")], words(100, "done"))
        for call, plan in enumerate(plans, 1):
            if trims(plan):
                return step, call
            assert not prunes(plan)
    raise AssertionError("nothing gave way")


def test_room_for_open_work_is_made_between_its_steps(home: Path) -> None:
    step, call = first_trim(home / "listed", listed=True)
    assert call == 1
    assert (step, call) < first_trim(home / "unlisted", listed=False)


def test_within_a_turn_room_for_open_work_is_made_where_the_list_is_written(home: Path) -> None:
    stage = Stage(home, window=24_000)
    for number in range(14):
        stage.chat(words(200, f"q{number}"), words(350, f"a{number}"))
    stage.work("look around", [words(800, f"s{number}") for number in range(4)], "seen")
    turn = stage.ask("carry out the plan")
    stage.window.open_steps = 12
    for step in range(12):
        for at, name in enumerate(["read", "read", "todo"]):
            prepared = stage.plan(3 * step + at + 1)
            assert not prunes(prepared)
            if trims(prepared):
                assert (step > 0, at) == (True, 0)  # the list was the last thing it wrote
                assert stage.window.measure(stage.window.now()).total < 24_000 * 0.75
                return
            call = ToolCall(id=f"call_{turn}_{step}_{at}", name=name, arguments="{}")
            stage.answer("", [call])
            stage.result(call.id, words(40 if name == "todo" else 130, f"r{step}"), name)
        stage.window.open_steps -= 1
    raise AssertionError("nothing gave way")


@given(steps=st.integers(0, 60), usual=st.integers(0, 9_000), span=st.integers(1, 200_000))
def test_room_is_wanted_for_all_open_work_or_for_its_next_step(
    steps: int, usual: int, span: int
) -> None:
    wanted = work_left(steps, usual, span)
    assert wanted <= span
    assert wanted == steps * usual or (steps * usual > span and wanted == min(usual, span))
