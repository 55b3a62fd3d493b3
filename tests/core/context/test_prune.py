"""When room is made, by what, how much, and what is written down about it: with the figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import BudgetSettings, ContextSettings
from mindstone_tui.core.context import prune
from mindstone_tui.core.context.plan import Prepared
from mindstone_tui.core.context.policies import EvictionCandidate, Scored
from mindstone_tui.core.context.report import Marks
from mindstone_tui.core.context.window_view import Call
from mindstone_tui.core.entries import Span, ToolCall, ToolSchema
from mindstone_tui.core.entries.conversation import MessageCut, UserMessage
from mindstone_tui.core.entries.derived import HandoffReplayed, SummaryDerived, TaskStarted
from mindstone_tui.core.entries.window import (
    ContextPruneBlocked,
    ContextWindowPruned,
    HeadShortened,
    Left,
    Outside,
    Pinned,
    Receipt,
    ToolResultsTrimmed,
    VelocitySpiked,
    WindowRepaired,
)
from tests.core.context.stage import Stage, finish, words


def scored(*sizes: int) -> list[Scored]:
    return [
        Scored(
            EvictionCandidate(key=at, turn=at, tokens=size, text="", weights={}, referenced=at),
            0.0,
            {},
            "oldest",
        )
        for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("excess", "taken"), [(-1, 0), (0, 0), (1, 1), (100, 1), (101, 2), (149, 2), (151, 3), (999, 3)]
)
def test_as_many_are_taken_as_free_enough_and_never_one_more(excess: int, taken: int) -> None:
    queue = scored(100, 50, 30)
    assert prune.next_batch(queue, excess) == queue[:taken]


def left(turn: int, tokens: int, receipt: Receipt | None = None) -> Left:
    return Left(turn=turn, span=Span(0, 0), tokens=tokens, score=0.0, reason="", receipt=receipt)


def test_what_is_outside_is_counted_as_it_leaves_and_as_it_returns() -> None:
    before = Outside(exchanges=2, tokens=300, unindexed=1)
    kept = Receipt(turn=3, passages=1)
    after = prune.after_leaving(before, [left(3, 50, kept), left(4, 70), left(5, 1)])
    assert after == Outside(exchanges=5, tokens=421, unindexed=3)
    assert prune.after_returning(after, 1, 21) == Outside(exchanges=4, tokens=400, unindexed=3)
    assert prune.after_returning(after, 3, 999) == Outside(exchanges=2, tokens=0, unindexed=2)
    assert prune.after_returning(after, 9, 1) == Outside()
    assert prune.after_leaving(before, []) == before


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (set(), ()),
        ({3}, ()),
        ({1, 2, 3}, ()),
        ({1, 4}, (Span(2, 3),)),
        ({2, 4, 8}, (Span(3, 3), Span(5, 7))),
    ],
)
def test_turns_are_missing_only_between_those_that_are_shown(
    shown: set[int], missing: tuple[Span, ...]
) -> None:
    assert prune.gaps(shown) == missing


def test_the_marker_says_how_much_is_out_where_and_how_to_get_it() -> None:
    recalled = "What matters of them may be recalled below; do not guess the rest."
    search = "Search them with the recall tool; read_entry shows one by its id."
    one = prune.marker_text(Outside(exchanges=1, tokens=1_234), {5}, ())
    assert one == (
        "[1 earlier exchange of this conversation (about 1,234 tokens) is kept in its transcript "
        f"but not shown here, or not whole. {recalled}]"
    )
    some = prune.marker_text(Outside(exchanges=1_002, tokens=5), {1, 3, 7}, ["recall"])
    assert some == (
        "[1,002 earlier exchanges of this conversation (about 5 tokens) are kept in its transcript "
        f"but not shown here, or not whole. Missing between what is shown: turns 2, 4–6. {search}]"
    )
    six = prune.marker_text(Outside(exchanges=9), range(1, 15, 2), ())
    assert "turns 2, 4, 6, 8, 10, 12." in six
    seven = prune.marker_text(Outside(exchanges=9), range(1, 17, 2), ())
    assert "turns 2, 4, 6, 8, 10, 12 and others." in seven
    assert prune.marker_text(Outside(), {1, 3}, ()) == ""


def staged(
    home: Path, window: int = 10_000, *, results_hard: float = 400.0, **changes: Any
) -> Stage:
    settings = Settings(
        context=ContextSettings(**{"min_recent": 2, **changes}),
        budget=BudgetSettings(results_hard=results_hard),
    )
    return Stage(home, window=window, settings=settings)


def chat(stage: Stage, turns: Iterable[int], asked: int = 100, told: int = 100) -> list[Prepared]:
    return [stage.chat(words(asked, f"q{turn}"), words(told, f"a{turn}")) for turn in turns]


def of(kind: type[Any], *prepared: Prepared) -> list[Any]:
    return [one.entry for each in prepared for one in each.lines if isinstance(one.entry, kind)]


def test_at_the_ceiling_the_oldest_leave_until_a_dozen_more_fit(home: Path) -> None:
    stage = staged(home)
    plans = chat(stage, range(33))
    assert of(ContextWindowPruned, *plans[:-1]) == []
    (pruned,) = of(ContextWindowPruned, plans[-1])
    assert (pruned.trigger, pruned.policy) == ("ceiling", "fifo")
    # The floor is 5,250; thirteen more of these exchanges, 218 tokens each, need 4,066 under 6,900.
    assert (pruned.tokens_before, pruned.tokens_after) == (7_114, 4_006)
    assert [(one.turn, one.tokens) for one in pruned.left[:5]] == [
        *((1, 109), (2, 219), (3, 218), (4, 218), (5, 219)),
    ]
    assert [one.turn for one in pruned.left] == list(range(1, 16))
    assert all(one.receipt is not None and one.reason for one in pruned.left)
    assert all(one.parts and 0 < one.score < 1 for one in pruned.left)
    assert pruned.state.outside == Outside(exchanges=15, tokens=3_167, unindexed=0)
    assert pruned.marker == prune.marker_text(pruned.state.outside, {1, *range(16, 34)}, ())
    assert plans[-1].tokens <= 4_066 < plans[-1].tokens + 218


def test_room_for_the_marker_is_set_aside_before_the_first_prune(home: Path) -> None:
    """Eighty tokens: with small exchanges one can tell how far it went."""
    gone = {}
    for marker in (True, False):
        stage = staged(home / str(marker), marker=marker, trim=99.0)
        for number in range(140):
            stage.ask(words(20, f"q{number}"))
            stage.answer(words(20, f"a{number}"))
            stage.end()
        stage.ask("and now?")
        (pruned,) = of(ContextWindowPruned, stage.plan())
        freed = sum(one.tokens for one in pruned.left)
        room = 80 if marker else 0
        smallest = pruned.left[-1].tokens
        assert freed - smallest < pruned.tokens_before + room - 5_250 <= freed
        gone[marker] = len(pruned.left)
    assert gone[True] - gone[False] == 2


def test_what_leaves_by_hand_has_its_own_reason_and_no_score(home: Path) -> None:
    stage = staged(home)
    chat(stage, range(3))
    call, marks = now(stage)
    unit = prune.units_of(stage.window, call, stage.window.measure(call), marks)[1]
    told = prune.departure(unit, None, None, "by hand")
    assert (told.turn, told.score, told.reason, told.parts) == (2, 0.0, "by hand", {})
    assert prune.departure(unit, None, None).reason == ""
    ranked = scored(1)[0]
    assert prune.departure(unit, ranked, None).reason == "oldest"
    assert prune.departure(unit, ranked, None, "by hand").reason == "by hand"


def test_each_reason_why_nothing_leaves_is_told_once_a_turn(home: Path) -> None:
    stage = staged(home)
    stage.ask("hello")
    stage.window.catch_up()
    call, _ = now(stage)
    told = [
        [line.entry.why for line in prune._blocked(stage.window, call, why, {2, 1}, 9)]  # type: ignore[union-attr]
        for why in ("protected", "unindexed", "protected", "unindexed")
    ]
    assert told == [["protected"], ["unindexed"], [], []]
    stage.ask("on")
    stage.window.catch_up()
    (line,) = prune._blocked(stage.window, now(stage)[0], "protected", {2, 1}, 9)
    assert line.entry.turns == (1, 2)  # type: ignore[union-attr]


def test_small_exchanges_leave_down_to_the_floor_and_not_one_more(home: Path) -> None:
    stage = staged(home)
    plans = chat(stage, range(80), 40, 40)
    pruned = of(ContextWindowPruned, *plans)[0]
    assert 5_250 - 100 < pruned.tokens_after <= 5_250


def test_without_a_marker_none_is_written_and_no_room_is_set_aside(home: Path) -> None:
    stage = staged(home, marker=False)
    plans = chat(stage, range(33))
    (pruned,) = of(ContextWindowPruned, plans[-1])
    assert pruned.marker == ""
    assert len(pruned.left) == 15
    assert pruned.tokens_after == 7_114 - sum(one.tokens for one in pruned.left)
    assert plans[-1].tokens == pytest.approx(pruned.tokens_after, abs=2)


def test_a_second_prune_has_its_marker_already_and_counts_on(home: Path) -> None:
    stage = staged(home)
    stage.window.set_tools([ToolSchema(name="recall", description="", parameters={})])
    first, second = of(ContextWindowPruned, *chat(stage, range(50)))[:2]
    assert second.left[0].turn == first.left[-1].turn + 1
    outside = second.state.outside
    assert outside.exchanges == len(first.left) + len(second.left)
    assert outside.tokens == sum(one.tokens for one in (*first.left, *second.left))
    assert "Search them with the recall tool" in second.marker
    assert second.tokens_after <= 5_250


def test_a_turn_that_grows_far_more_than_usual_is_announced_once(home: Path) -> None:
    stage = staged(home)
    chat(stage, range(6))
    told = []
    for size in (700, 1_500, 300):
        stage.ask(words(size, f"s{size}"))
        plans = [stage.plan(1), stage.plan(2)]
        told.append([of(VelocitySpiked, each) for each in plans])
        stage.answer("ok")
        stage.end()
    assert told[0] == [[], []], "seven times as much, and still little"
    ((found,), again) = told[1]
    assert (found.tokens, found.baseline, found.ratio) == (1_579, 218.0, 7.24)
    assert again == []
    assert told[2] == [[], []]


@pytest.mark.parametrize("size", [8_000, 10_000, 16_000])
def test_after_a_spike_below_the_ceiling_nobody_s_words_leave(home: Path, size: int) -> None:
    stage = staged(home, window=40_000, min_recent=1)
    chat(stage, range(12), 100, 900)
    stage.ask(words(size))
    prepared = stage.plan()
    assert len(of(VelocitySpiked, prepared)) == 1
    assert of(ContextWindowPruned, prepared) == []


@pytest.mark.parametrize(("step", "given_way"), [(10.0, 1), (60.0, 0)])
def test_ahead_of_a_fast_turn_older_results_give_way_if_that_frees_enough(
    home: Path, step: float, given_way: int
) -> None:
    stage = staged(home, window=128_000, spike_step=step, results_hard=9_000.0)
    chat(stage, range(40), 30, 300)
    for number in range(40, 42):
        look(stage, number, 30_000)
    plans = chat(stage, range(42, 46), 30, 9_000)
    told = of(ToolResultsTrimmed, *plans)
    assert [one.trigger for one in told] == ["pressure"] * given_way
    assert of(ContextWindowPruned, *plans) == []


def worked(home: Path, results: int, size: int, **changes: Any) -> Stage:
    stage = staged(home, **changes)
    for number in range(results):
        look(stage, number, size)
    stage.ask("and now?")
    stage.window.catch_up()
    return stage


def look(stage: Stage, number: int, size: int) -> None:
    """A turn with a tool, of which nobody has made a request yet."""
    turn = stage.ask(f"look {number}")
    call = ToolCall(id=f"c{turn}", name="read", arguments="{}")
    stage.answer("", [call])
    stage.result(call.id, words(size, f"r{number}"))
    stage.answer("done")
    stage.end()


def now(stage: Stage) -> tuple[Call, Marks]:
    call = stage.window.now()
    return call, stage.window.marks(call)


def results_of(stage: Stage) -> list[int]:
    return [seq for seq, line in stage.window.fold.lines.items() if line.kind == "tool_returned"]


@pytest.mark.parametrize(
    ("trigger", "keep", "taken"),
    [
        ("trim", 4, 6),
        ("trim", 0, 10),
        ("manual", 4, 6),
        ("cascade", 4, 6),
        ("trim", 9, 0),
        ("manual", 9, 1),
    ],
)
def test_older_results_become_placeholders_all_in_one_step(
    home: Path, trigger: prune.TrimTrigger, keep: int, taken: int
) -> None:
    """By itself a step is taken only where it frees a third of the room; by hand, any is."""
    stage = worked(home, 10, 600, window=10_500, keep_trimmed=keep, trim_step=30.0)
    call, marks = now(stage)
    measured = stage.window.measure(call)
    assert marks.trim < measured.total < marks.ceiling
    known = results_of(stage)
    lines = prune.trim_results(stage.window, call, marks, trigger)
    if not taken:
        assert lines == []
        return
    (line,) = lines
    entry = line.entry
    assert isinstance(entry, ToolResultsTrimmed)
    assert [one.result for one in entry.results] == known[:taken]
    assert (entry.trigger, entry.policy) == (trigger, "fifo")
    freed = sum(one.tokens_before - one.tokens_after for one in entry.results)
    assert (entry.tokens_before, entry.tokens_after) == (measured.total, measured.total - freed)
    assert stage.window.measure(call).total == pytest.approx(entry.tokens_after, abs=3)
    assert prune.trim_results(stage.window, call, marks, "trim") == []


@pytest.mark.parametrize(("size", "trimmed"), [(640, False), (690, True)])
def test_at_the_ceiling_a_smaller_step_is_taken_where_it_spares_the_exchanges(
    home: Path, size: int, trimmed: bool
) -> None:
    stage = worked(home, 10, size, window=10_500, keep_trimmed=1, trim_step=90.0)
    call, marks = now(stage)
    total = stage.window.measure(call).total
    assert marks.trim < total
    assert (total > marks.ceiling) is trimmed
    kinds = [line.kind for line in finish(prune.make_room(stage.window, call))]
    assert kinds == (["tool_results_trimmed"] if trimmed else [])


def test_in_an_emergency_older_results_give_way_first_and_may_be_enough(home: Path) -> None:
    stage = worked(home, 10, 690, window=10_500, keep_trimmed=99, results_hard=9_000.0)
    stage.index.failing = True
    call, marks = now(stage)
    assert stage.window.measure(call).total > marks.emergency
    lines = finish(prune.make_room(stage.window, call))
    assert [line.kind for line in lines] == ["tool_results_trimmed"]
    assert lines[0].entry.trigger == "pressure"  # type: ignore[union-attr]
    assert stage.window.measure(call).total <= marks.trim


def of_the_running_turn(stage: Stage, sizes: list[int]) -> None:
    """A turn that has read so much by now, and is about to ask once more."""
    turn = stage.ask("read on")
    for number, size in enumerate(sizes):
        stage.look(turn, number, words(size, f"n{number}"))
    stage.window.catch_up()


def test_of_the_running_turn_no_more_gives_way_than_the_floor_asks_for(home: Path) -> None:
    stage = worked(home, 2, 700, results_hard=9_000.0, spike_step=90.0)
    stage.answer("well")
    stage.end()
    of_the_running_turn(stage, [700] * 10)
    call, marks = now(stage)
    assert stage.window.measure(call).total > marks.emergency
    entries = [line.entry for line in finish(prune.make_room(stage.window, call))]
    assert not [one for one in entries if isinstance(one, ContextWindowPruned)]
    (entry,) = [one for one in entries if isinstance(one, ToolResultsTrimmed)]
    turns = [stage.window.fold.lines[one.result].turn for one in entry.results]
    assert turns == sorted(turns)
    assert len(set(turns)) == 3
    largest = max(one.tokens_before for one in entry.results)
    assert marks.floor - largest < entry.tokens_after <= marks.floor


def total_of(stage: Stage) -> int:
    """The size of a prompt that nobody has asked to be made smaller."""
    stage.ask("and now?")
    return stage.window.measure(stage.window.now()).total


@pytest.mark.parametrize("mark", ["ceiling", "trim"])
def test_a_mark_is_crossed_only_by_what_is_over_it(home: Path, mark: str) -> None:
    def played(name: str, **changes: Any) -> Stage:
        given: dict[str, Any] = {"results_hard": 9_000.0, "trim_step": 5.0, "keep_trimmed": 0}
        stage = staged(home / name, floor=30.0, **given, **changes)
        if mark == "trim":
            look(stage, 0, 1_200)
            look(stage, 1, 1_200)
        for number in range(15):
            stage.ask(words(120, f"q{number}"))
            stage.answer(words(120, f"a{number}"))
            stage.end()
        return stage

    total = total_of(played("usual"))
    for name, tokens, moved in (("at", total, False), ("over", total - 1, True)):
        stage = played(name, **{mark: (tokens + 0.5) * 100 / 7_500})
        assert total_of(stage) == total
        call, marks = now(stage)
        assert getattr(marks, mark) == tokens
        assert bool(finish(prune.make_room(stage.window, call))) is moved


def test_a_long_task_is_cut_and_what_else_is_too_much_leaves_in_the_same_step(home: Path) -> None:
    stage = staged(home)
    stage.ask(words(1_400, "task"))
    stage.answer("ok")
    stage.end()
    for number in range(26):
        stage.ask(words(120, f"q{number}"))
        stage.answer(words(120, f"a{number}"))
        stage.end()
    stage.ask("and now?")
    kinds = [line.kind for line in finish(prune.make_room(stage.window, stage.window.now()))]
    assert kinds == ["message_cut", "context_window_pruned"]


def test_results_that_are_hardly_longer_than_their_findings_stay(home: Path) -> None:
    """They are over the mark of their share, and shortening them would free less than a share."""
    stage = worked(home, 200, 40, window=16_384, results_hard=150.0)
    call, _ = now(stage)
    assert stage.window.measure(call).component("tool_results") > 8_500
    assert prune.trim_over_share(stage.window, call) == []


def test_below_its_mark_nothing_is_trimmed_except_in_a_cascade(home: Path) -> None:
    stage = worked(home, 5, 500, keep_trimmed=1)
    call, marks = now(stage)
    for trigger in ("trim", "manual"):
        assert prune.trim_results(stage.window, call, marks, trigger) == []
    (line,) = prune.trim_results(stage.window, call, marks, "cascade")
    assert len(line.entry.results) == 4  # type: ignore[union-attr]


def test_in_a_cascade_short_results_stay(home: Path) -> None:
    stage = worked(home, 8, 60, keep_trimmed=1)
    look(stage, 8, 600)
    look(stage, 9, 60)
    stage.ask("and now?")
    stage.window.catch_up()
    call, marks = now(stage)
    (line,) = prune.trim_results(stage.window, call, marks, "cascade")
    entry = line.entry
    assert isinstance(entry, ToolResultsTrimmed)
    assert [one.result for one in entry.results] == [results_of(stage)[8]]


def test_results_over_the_mark_of_their_share_come_back_within_it(home: Path) -> None:
    stage = staged(home, window=32_768)
    plans = [stage.work("look", [words(1_200, f"r{n}")], "done")[-1] for n in range(12)]
    (trimmed,) = of(ToolResultsTrimmed, *plans)
    assert (trimmed.trigger, len(trimmed.results)) == ("share", 10)
    assert (trimmed.tokens_before, trimmed.tokens_after) == (15_471, 3_068)
    call, _ = now(stage)
    measured = stage.window.measure(call)
    assert measured.component("tool_results") <= 3_420
    assert prune.trim_over_share(stage.window, call) == []


def test_of_two_huge_results_the_newer_stays_whole(home: Path) -> None:
    stage = worked(home, 2, 7_000, window=32_768)
    first, second = results_of(stage)
    (line,) = prune.trim_over_share(stage.window, now(stage)[0])
    assert [one.result for one in line.entry.results] == [first]  # type: ignore[union-attr]
    assert prune.trim_over_share(stage.window, now(stage)[0]) == []
    assert second in stage.window.fold.shown


def test_what_the_running_turn_read_first_gives_way_when_it_does_not_fit(home: Path) -> None:
    stage = staged(home)
    plans = stage.work("read all", [words(900, f"r{number}") for number in range(9)], "done")
    assert of(ToolResultsTrimmed, *plans[:8]) == []
    (trimmed,) = of(ToolResultsTrimmed, *plans)
    assert (trimmed.trigger, trimmed.tokens_before, trimmed.tokens_after) == (
        *("pressure", 7_725, 4_949),
    )
    assert len(trimmed.results) == 3


def test_in_an_emergency_even_recent_exchanges_leave_oldest_first(home: Path) -> None:
    stage = staged(home)
    chat(stage, range(6))
    stage.ask(words(6_000, "huge"))
    prepared = stage.plan()
    pruned = of(ContextWindowPruned, prepared)
    assert {one.trigger for one in pruned} <= {"ceiling", "emergency"}
    gone = [one.turn for each in pruned for one in each.left]
    assert gone == sorted(gone)
    assert prepared.tokens <= 7_125
    assert max(gone) == 6
    assert of(MessageCut, prepared) == []  # which would come next


def test_where_older_ones_cannot_be_indexed_recent_exchanges_leave_in_an_emergency(
    home: Path,
) -> None:
    stage = staged(home, min_recent=12)
    chat(stage, range(30))
    stage.index.refused = set(range(1, 27))
    stage.ask(words(700, "more"))
    prepared = stage.plan()
    (pruned,) = of(ContextWindowPruned, prepared)
    assert pruned.trigger == "emergency"
    assert [one.turn for one in pruned.left][:1] == [27]
    assert prepared.tokens <= 7_125


def summed(stage: Stage, count: int = 3) -> None:
    live = stage.window
    live.catch_up()
    live.record(
        HandoffReplayed(sha256="0", text=words(50, "handoff"), state=live.fold.state), stage.turn
    )
    for number in range(count):
        summary = SummaryDerived(
            strategy="notes",
            text=words(100 + number, f"sum{number}"),
            sources=(),
            tokens_before=2,
            tokens_after=1,
            model="m",
            state=live.fold.state,
        )
        live.record(summary, stage.turn)


@pytest.mark.parametrize(
    ("target", "gone", "handoff", "after"),
    [
        (402, None, False, 402),
        (401, 1, False, 296),
        (296, 1, False, 296),
        (295, 2, False, 189),
        (100, 3, False, 80),
        (80, 3, False, 80),
        (79, 3, True, 27),
    ],
)
def test_summaries_leave_the_head_oldest_first_and_the_handoff_last(
    home: Path, target: int, gone: int | None, handoff: bool, after: int
) -> None:
    stage = staged(home)
    stage.chat("hello", "hi")
    summed(stage)
    call, _ = now(stage)
    known = stage.window.fold.state.summaries
    was = stage.window.fold.state.handoff
    lines = prune.drop_summaries(stage.window, call, target)
    assert len(lines) == (gone is not None)
    if gone is not None:
        entry = lines[0].entry
        assert isinstance(entry, HeadShortened)
        assert (entry.summaries, entry.handoff) == (known[:gone], was if handoff else None)
        assert (entry.tokens_before, entry.tokens_after) == (402, after)
    state = stage.window.fold.state
    assert state.summaries == known[gone or 0 :]
    assert state.handoff == (None if handoff else was)
    assert stage.window.measure(call).total == pytest.approx(after, abs=2)


def test_a_head_without_derived_texts_is_left_alone(home: Path) -> None:
    stage = staged(home)
    stage.chat("hello", "hi")
    stage.window.catch_up()
    assert prune.drop_summaries(stage.window, now(stage)[0], 0) == []


def test_a_broken_index_is_told_once_a_turn_and_nothing_leaves(home: Path) -> None:
    stage = staged(home)
    stage.index.failing = True
    plans = chat(stage, range(33))
    (blocked,) = of(ContextPruneBlocked, *plans)
    assert blocked == ContextPruneBlocked(
        why="index unavailable",
        turns=tuple(range(1, 16)),
        tokens=7_114,
        target=5_250,
        detail="The index is broken.",
    )
    stage.ask("and now?")
    assert len(of(ContextPruneBlocked, stage.plan(1))) == 1
    assert of(ContextPruneBlocked, stage.plan(2)) == []
    stage.answer("ok")
    stage.end()
    stage.index.failing = False
    (pruned,) = of(ContextWindowPruned, stage.chat("again", "ok"))
    assert len(pruned.left) >= 10


def test_one_that_cannot_be_indexed_stays_and_the_next_goes_instead(home: Path) -> None:
    stage = staged(home)
    stage.index.refused = {2, 3}
    plans = chat(stage, range(33))
    (blocked,) = of(ContextPruneBlocked, plans[-1])
    assert (blocked.why, blocked.turns, blocked.detail) == ("unindexed", (2, 3), "")
    (pruned,) = of(ContextWindowPruned, plans[-1])
    assert [one.turn for one in pruned.left] == [1, *range(4, 18)]
    assert plans[-1].tokens <= 4_066


def test_when_all_that_is_left_is_protected_it_is_said(home: Path) -> None:
    stage = staged(home)
    chat(stage, range(3), 100, 2_200)
    for turn in (1, 2, 3):
        state = stage.window.fold.state
        stage.window.record(Pinned(pinned_turn=turn, state=state), stage.turn)
    stage.ask("and now?")
    (blocked,) = of(ContextPruneBlocked, stage.plan())
    assert (blocked.why, blocked.turns) == ("protected", (1, 2, 3, 4))
    assert blocked.tokens > 6_900


def test_what_has_lost_its_other_half_is_left_out_before_anything_else(home: Path) -> None:
    stage = staged(home)
    stage.ask("look")
    call = stage.answer("", [ToolCall(id="c1", name="read", arguments="{}")])
    stage.transcript.append(UserMessage(text="never mind"), turn=stage.turn)
    (repaired,) = of(WindowRepaired, stage.plan())
    assert repaired.seqs == (call.seq,)
    assert repaired.why
    assert of(WindowRepaired, stage.plan()) == []


def test_what_is_left_of_a_former_task_is_not_counted_twice(home: Path) -> None:
    """Its message stays when its exchange leaves, and leaves by itself once another task is on."""
    stage = staged(home)
    chat(stage, range(33))
    outside = stage.window.fold.state.outside
    stage.transcript.append(TaskStarted(title="another"), turn=stage.turn)
    stage.ask("begin")
    stage.plan()
    stage.answer("ok")
    stage.end()
    call, _ = now(stage)
    units = prune.units_of(stage.window, call, stage.window.measure(call), now(stage)[1])
    rest = [unit for unit in units if unit.turn == 1]
    pruned = finish(prune.prune_ranked(stage.window, call, rest, 0, "manual"))
    assert [one.turn for one in pruned.left] == [1]
    assert stage.window.fold.state.outside == outside
