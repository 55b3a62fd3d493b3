"""Room is made in steps, cheapest first, and never in circles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.config.settings import CascadeSettings, ContextSettings
from mindstone_tui.core.context.cascade import (
    CASCADE,
    Effect,
    StepName,
    StepOutcome,
    by_level,
    cascade_due,
    cascade_plan,
    excess,
    kept_recent,
    run_auto_compact,
    run_cascade,
    to_compact,
)
from mindstone_tui.core.context.exchanges import CURRENT, PINNED, RECENT, Exchange

AUTO_COMPACT = ("checkpoint", "handoff", "compaction", "handoff_replay", "backfill")

PLAN = cascade_plan(CascadeSettings(), ContextSettings().emergency)


class Window:
    """A window whose steps free what a test says."""

    def __init__(self, fullness: float, **frees: float) -> None:
        self.fullness = fullness
        self.frees = frees
        self.asked: list[tuple[StepName, int]] = []
        self.failing: frozenset[str] = frozenset()

    def measure(self) -> float:
        return self.fullness

    def steps(self, names: tuple[StepName, ...]) -> dict[StepName, object]:
        return {name: self._step(name) for name in names}

    def _step(self, name: StepName) -> object:
        async def apply(tokens: int) -> Effect:
            self.asked.append((name, tokens))
            if name in self.failing:
                return Effect(held=False, why="no answer in time")
            self.fullness -= self.frees.get(name, 0.0)
            return Effect()

        return apply


NAMES = tuple(stage.step for stage in CASCADE)


async def cascaded(window: Window, *, model_allowed: bool = True) -> StepOutcome:
    return await run_cascade(
        window.steps(NAMES),  # type: ignore[arg-type]
        window.measure,
        1_000,
        PLAN,
        model_allowed=model_allowed,
    )


async def test_trimming_alone_is_enough_when_it_is_enough() -> None:
    window = Window(0.80, tool_results=0.25)
    outcome = await cascaded(window)
    assert [taken.step for taken in outcome.taken] == ["tool_results"]
    assert outcome.fits
    assert window.asked == [("tool_results", 200)]


async def test_each_step_is_measured_before_the_next_is_chosen() -> None:
    window = Window(0.97, tool_results=0.01, evict=0.005, progressive=0.001, compaction=0.2)
    outcome = await cascaded(window)
    assert [taken.step for taken in outcome.taken] == list(NAMES[:4])
    assert [round(taken.after, 3) for taken in outcome.taken] == [0.96, 0.955, 0.954, 0.754]
    assert window.asked[1] == ("evict", 360)


async def test_the_full_cascade_ends_with_delegation_and_says_when_it_was_not_enough() -> None:
    window = Window(0.99)
    outcome = await cascaded(window)
    assert [step for step, _ in window.asked] == list(NAMES)
    assert outcome.taken == ()  # what changed nothing is no step
    assert not outcome.fits
    assert outcome.why


async def test_expensive_steps_wait_for_their_marks() -> None:
    window = Window(0.84)
    outcome = await cascaded(window)
    assert [step for step, _ in window.asked] == ["tool_results", "evict"]
    assert outcome.fits


async def test_without_a_model_nothing_is_delegated() -> None:
    window = Window(0.99)
    await cascaded(window, model_allowed=False)
    assert [step for step, _ in window.asked] == list(NAMES[:4])


async def test_a_failed_step_is_recorded_and_the_next_one_tried() -> None:
    window = Window(0.93, tool_results=0.0, compaction=0.3)
    window.failing = frozenset({"progressive"})
    outcome = await cascaded(window)
    held = {taken.step: taken.effect.held for taken in outcome.taken}
    assert held == {"progressive": False, "compaction": True}
    assert outcome.ended < PLAN.emergency


@given(
    start=st.floats(0, 2),
    frees=st.fixed_dictionaries({name: st.floats(-0.5, 0.5) for name in NAMES}),
)
async def test_no_step_is_ever_taken_twice(start: float, frees: dict[str, float]) -> None:
    outcome = await cascaded(Window(start, **frees))
    steps = [taken.step for taken in outcome.taken]
    assert len(steps) == len(set(steps))
    assert steps == sorted(steps, key=NAMES.index)
    assert outcome.fits == (outcome.ended < PLAN.emergency)


async def test_what_could_not_help_is_not_tried_again_at_the_same_fullness() -> None:
    stuck = await cascaded(Window(0.80))
    assert not cascade_due(0.805, stuck, PLAN)
    assert cascade_due(0.82, stuck, PLAN)
    assert cascade_due(0.80, None, PLAN)
    assert not cascade_due(0.74, None, PLAN)


async def test_auto_compact_takes_its_links_in_order() -> None:
    window = Window(0.93, compaction=0.4)
    outcome = await run_auto_compact(
        window.steps(AUTO_COMPACT),  # type: ignore[arg-type]
        window.measure,
        1_000,
        PLAN,
    )
    assert tuple(taken.step for taken in outcome.taken) == AUTO_COMPACT
    assert outcome.fits
    assert outcome.why == ""


async def test_nothing_is_compacted_when_the_handoff_could_not_be_written() -> None:
    window = Window(0.93, compaction=0.4)
    window.failing = frozenset({"handoff"})
    outcome = await run_auto_compact(
        window.steps(AUTO_COMPACT),  # type: ignore[arg-type]
        window.measure,
        1_000,
        PLAN,
    )
    assert [taken.step for taken in outcome.taken] == ["checkpoint", "handoff"]
    assert outcome.ended == 0.93
    assert "handoff failed" in outcome.why


def test_the_newest_tokens_and_the_protected_stay_verbatim() -> None:
    held = {2: PINNED, 5: RECENT, 6: CURRENT}
    exchanges = [
        Exchange(turn=n, lines=(), sizes=(60, 40), protected=held.get(n, "")) for n in range(1, 7)
    ]
    assert to_compact(exchanges, 250) == (1, 3, 4)
    assert to_compact(exchanges, 0) == (1, 3, 4, 5)
    assert to_compact(exchanges, 10_000) == ()
    assert kept_recent(20_000, 200_000, 90_000) == 20_000
    assert kept_recent(20_000, 10_000, 5_000) == 3_000
    assert kept_recent(20_000, 10_000, 1_200) == 1_200
    assert kept_recent(20_000, 10_000, -50) == 0


def test_older_turns_are_grouped_by_what_remains_of_them() -> None:
    assert by_level(range(1, 31), 30) == {
        1: list(range(25, 30)),
        2: list(range(10, 25)),
        3: list(range(1, 10)),
    }
    assert excess(0.9, 0.6, 1_000) == 300
    assert excess(0.5, 0.6, 1_000) == 0


async def test_marks_that_were_set_move_the_steps() -> None:
    early = cascade_plan(CascadeSettings(tool_results=50.0, target=40.0), 95.0)
    assert cascade_due(0.55, None, early)
    assert not cascade_due(0.55, None, PLAN)
    window = Window(0.55, tool_results=0.2)
    outcome = await run_cascade(window.steps(NAMES), window.measure, 1_000, early)  # type: ignore[arg-type]
    assert [taken.step for taken in outcome.taken] == ["tool_results"]
    assert by_level((1, 8, 10), 10, (1, 5)) == {2: [8], 3: [1]}
