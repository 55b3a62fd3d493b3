"""One accounting: parts add up, every figure has its label, and reading it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import BudgetSettings
from mindstone_tui.core.context import build_report, manual
from mindstone_tui.core.context.budget import limit_of
from mindstone_tui.core.context.build_report import report_at
from mindstone_tui.core.context.plan import prepare
from mindstone_tui.core.context.window_view import PromptPrices, Target
from mindstone_tui.core.entries import Line, ToolSchema, Usage
from mindstone_tui.core.entries.conversation import UsageReported
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    PromptPlanned,
    Section,
    ShareCrossed,
    VelocitySpiked,
    ZoneChanged,
)
from mindstone_tui.core.transcript import History, verify
from tests.core.context.stage import MODEL, Stage, finish, kinds, words

JSON_FIELDS = {
    "session",
    "model",
    "window",
    "reserve",
    "usable",
    "prompt",
    "utilization",
    "zone",
    "velocity",
    "turns_until_red",
    "marks",
    "components",
    "blocks",
    "outside",
    "prompt_hash",
    "stable_prefix_tokens",
}


def test_the_report_has_the_promised_fields_even_when_they_are_empty(home: Path) -> None:
    report = msgspec.to_builtins(build_report.report(Stage(home).window))
    assert set(report) >= JSON_FIELDS
    assert report["prompt"]["error_percent"] is None
    assert {"name", "tokens", "limit", "soft", "hard"} <= set(report["components"][0])
    nothing = dict.fromkeys(
        ("exchanges", "tokens", "unindexed", "by_words", "rewound", "in_part"), 0
    )
    nothing |= {"indexed": True}
    assert report["outside"] == nothing


def test_blocks_and_components_add_up_to_the_prompt(home: Path) -> None:
    stage = Stage(home)
    stage.window.set_tools([ToolSchema(name="read", description="reads", parameters={})])
    stage.work("look", [words(50), words(70)], "done")
    report = build_report.report(stage.window)
    assert sum(block.tokens for block in report.blocks) == report.prompt.tokens
    assert sum(part.tokens for part in report.components) == report.prompt.tokens
    assert [part.name for part in report.components][-1] == "output_reserve"
    assert report.utilization == pytest.approx(report.prompt.tokens / report.usable, abs=1e-4)
    assert report.tools[0].name == "read"
    assert {block.kind for block in report.blocks} >= {"identity", "tools", "tool_returned"}


def test_reading_a_report_writes_nothing(home: Path) -> None:
    stage = Stage(home)
    stage.chat("hello", "hi")
    before = stage.transcript.places.transcript.read_bytes()
    assert build_report.report(stage.window) == build_report.report(stage.window)
    assert stage.transcript.places.transcript.read_bytes() == before


class Watched(History):
    """Knows which turns were read."""

    looked: ClassVar[list[int]] = []

    def turn(self, turn: int, *, before: type | tuple[type, ...] = ()) -> list[Line]:
        self.looked.append(turn)
        return super().turn(turn, before=before)


def test_turns_without_an_answer_are_read_once_and_not_for_every_report(home: Path) -> None:
    stage = Stage(home)
    for number in range(5):
        stage.ask(f"note {number}")
    live = stage.window
    live.history = Watched(stage.transcript.places)
    first = build_report.report(live)
    assert set(Watched.looked) >= {1, 2, 3, 4}
    Watched.looked.clear()
    assert build_report.report(live) == first
    assert set(Watched.looked) <= {stage.turn}
    live.history.close()


def test_a_count_is_estimated_then_anchored_on_what_the_provider_reported(home: Path) -> None:
    stage = Stage(home, instructions=words(400))
    stage.ask("hello")
    plan = stage.plan().plan.entry
    assert isinstance(plan, PromptPlanned)
    assert plan.measure is not None
    assert plan.measure.label == "estimated"
    assert plan.measure.tokens == round(plan.raw_tokens * 1.05)
    line = stage.report_usage(plan.raw_tokens * 2)
    assert build_report.report(stage.window).prompt.label == "measured"
    assert build_report.report(stage.window).prompt.tokens == plan.raw_tokens * 2
    stage.answer(words(100))
    report = build_report.report(stage.window)
    assert report.prompt.label == "anchored"
    assert report.prompt.tokens == plan.raw_tokens * 2 + 2 * 104
    assert report.prompt.error_percent == pytest.approx(-47.5, abs=0.5)
    assert sum(block.tokens for block in report.blocks) == report.prompt.tokens
    assert stage.window.note_usage(line).error_percent == report.prompt.error_percent


def test_what_was_learned_shapes_the_next_plan_and_stands_in_it(home: Path) -> None:
    stage = Stage(home, instructions=words(400))
    stage.ask("hello")
    first = stage.plan().plan.entry
    assert isinstance(first, PromptPlanned)
    stage.report_usage(round(first.raw_tokens * 1.3))
    stage.answer("hi")
    stage.window.set_instructions([Section(name="identity", text=words(500))])
    stage.ask("again")
    second = stage.plan().plan.entry
    assert isinstance(second, PromptPlanned)
    assert second.correction == pytest.approx(1.3, abs=0.01)
    assert second.measure is not None
    assert second.measure.tokens == round(second.raw_tokens * second.correction)
    assert build_report.report(stage.open()).prompt == build_report.report(stage.window).prompt


def test_a_server_that_dropped_half_the_prompt_is_noticed_and_not_believed(home: Path) -> None:
    stage = Stage(home, window=32_768, instructions=words(6_000))
    stage.ask("hello")
    stage.plan()
    line = stage.transcript.append(
        UsageReported(call=1, model=MODEL, usage=Usage(prompt=2_048)), turn=stage.turn
    )
    note = stage.window.note_usage(line)
    assert note.cut
    assert build_report.report(stage.window).prompt.label == "estimated"
    assert build_report.report(stage.window).prompt.tokens > 6_000


def test_a_past_request_is_reported_with_the_figures_of_its_day(home: Path) -> None:
    stage = Stage(home)
    early = stage.chat("early question", "early answer")
    then = build_report.report(stage.open())
    for number in range(60):
        stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
    report = report_at(
        stage.history, stage.settings, early.plan, counters=lambda model: stage.counter
    )
    assert report.prompt.tokens == early.tokens
    assert report.prompt_hash == early.request.hash
    assert report.turn == 1
    assert report.call == 1
    assert report.outside.exchanges == 0
    assert then.outside.exchanges == 0
    assert sum(block.tokens for block in report.blocks) == report.prompt.tokens


def test_zones_are_announced_once_each_way(home: Path) -> None:
    stage = Stage(home, window=8_000)
    seen = []
    for number in range(60):
        prepared = stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
        seen += [
            (line.entry.before, line.entry.after)
            for line in prepared.lines
            if isinstance(line.entry, ZoneChanged)
        ]
    assert seen[:4] == [
        ("green", "yellow"),
        ("yellow", "orange"),
        ("orange", "red"),
        ("red", "orange"),
    ]
    assert len(seen) < 8


def test_a_share_that_crosses_a_mark_is_announced_once_each_way(home: Path) -> None:
    stage = Stage(home, window=16_000)
    seen: list[tuple[str, str, str]] = []
    for many in (1, 11):
        read = [words(700, f"r{many}.{part}") for part in range(many)]
        plans = stage.work("look at them", read, "seen")
        seen += [
            (line.entry.component, line.entry.before, line.entry.after)
            for prepared in plans
            for line in prepared.lines
            if isinstance(line.entry, ShareCrossed)
        ]
        stage.window = stage.open()
    assert [one for one in seen if one[0] == "tool_results"] == [
        ("tool_results", "free", "soft"),
        ("tool_results", "soft", "hard"),
    ]
    after = stage.chat("and now", "nothing").lines  # the turn is over: its results give way
    fell = [line.entry for line in after if isinstance(line.entry, ShareCrossed)]
    assert [(one.component, one.after) for one in fell] == [("tool_results", "free")]


def test_windows_are_counted_from_prune_to_prune_and_across_processes(home: Path) -> None:
    stage = Stage(home)
    first = stage.chat("early question", "early answer")
    for number in range(130):
        stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
    prunes = sum(
        isinstance(line, Line) and isinstance(line.entry, ContextWindowPruned)
        for line in stage.history.read()
    )
    assert prunes > 1
    assert build_report.report(stage.window).windows == prunes + 1
    assert build_report.report(stage.open()).windows == prunes + 1
    assert report_at(stage.history, stage.settings, first.plan).windows == 1


def test_a_spike_is_announced_once_and_survives_prunes_and_reopening(home: Path) -> None:
    stage = Stage(home, window=32_768)
    for number in range(8):
        stage.chat(words(60, f"q{number}"), words(60))
    finish(manual.prune(stage.window, count=8))
    stage.window = stage.open()
    stage.ask("read the big file " + words(6_000))
    first = stage.plan(1)
    again = stage.plan(2)
    spikes = [line.entry for line in first.lines if isinstance(line.entry, VelocitySpiked)]
    assert len(spikes) == 1
    assert spikes[0].ratio > 10
    assert "velocity_spiked" not in kinds(again)
    assert "velocity_spiked" not in kinds(
        finish(prepare(stage.open(), call=3)),
    )


def test_growth_is_known_after_reopening_without_reading_history(home: Path) -> None:
    stage = Stage(home, window=4_000)
    for number in range(60):
        stage.chat(words(40, f"q{number}"), words(60, f"a{number}"))
    report = build_report.report(stage.window)
    assert len(report.velocities) == 20
    assert build_report.report(stage.open()).velocities == report.velocities
    assert report.velocity == pytest.approx(113, abs=4)
    assert report.velocity_class == "low"


def test_growth_is_remembered_of_an_exchange_that_leaves_as_soon_as_it_is_complete(
    home: Path,
) -> None:
    stage = Stage(home, window=8_000)
    for number in range(6):
        stage.chat(words(1_000, f"q{number}"), words(2_500, f"a{number}"))
    stage.ask("and now?")
    stage.plan()
    report = build_report.report(stage.window)
    assert report.outside.exchanges >= 5
    assert report.velocities[:6] == (report.velocities[0],) * 6
    assert report.velocities[0] == round((1_000 + 2_500 + 8) * 1.05)
    assert report.velocity == report.velocities[0]


def test_cost_is_carried_from_plan_to_plan(home: Path) -> None:
    stage = Stage(home, window=4_000)
    for number in range(50):
        stage.ask(words(40, f"q{number}"))
        stage.plan()
        stage.answer(words(60))
        line = stage.transcript.append(
            UsageReported(call=1, model=MODEL, usage=Usage(cost=0.01)), turn=stage.turn
        )
        stage.window.note_usage(line)
    assert build_report.report(stage.window).cost == pytest.approx(0.50)
    assert build_report.report(stage.open()).cost == pytest.approx(0.50)
    assert not build_report.report(stage.window).cost_unknown


def test_how_fast_the_shares_fill_adds_up_to_how_fast_the_window_does(home: Path) -> None:
    stage = Stage(home, window=64_000)
    for number in range(12):
        stage.work(words(20, f"q{number}"), [words(400 // (number + 1), f"r{number}")], words(30))
    report = build_report.report(stage.window)
    together = sum(each.per_turn for each in report.burn)
    assert together == pytest.approx(report.velocity, abs=0.2)


def test_the_cost_of_a_prune_stands_beside_what_it_saves(home: Path) -> None:
    stage = Stage(home, window=8_000)
    for number in range(45):
        stage.chat(words(40, f"q{number}"), words(60))
    assert build_report.report(stage.window).prune.once is None
    assert (
        build_report.report(stage.window, Target(prices=PromptPrices(prompt=0.0))).prune.once
        is None
    )
    cost = build_report.report(
        stage.window, Target(prices=PromptPrices(prompt=3.0, cached=0.3))
    ).prune
    assert cost.once is not None
    assert cost.saves_per_turn is not None
    assert cost.once > cost.saves_per_turn > 0


def test_the_stable_prefix_is_everything_but_the_new_until_something_changes(home: Path) -> None:
    stage = Stage(home)
    stage.chat(words(100), words(100))
    first = stage.chat(words(50), words(50))
    second = stage.chat(words(20), words(20)).plan.entry
    assert isinstance(second, PromptPlanned)
    assert second.stable_prefix == first.tokens
    stage.window.set_instructions([Section(name="identity", text="Another stone.")])
    third = stage.chat("x", "y").plan.entry
    assert isinstance(third, PromptPlanned)
    assert third.stable_prefix == 0


def test_sections_show_what_the_file_had_and_what_was_injected(home: Path) -> None:
    stage = Stage(home)
    stage.window.set_instructions(
        [
            Section(name="identity", text="short", source="IDENTITY.md", raw_size=900),
            Section(name="rules", text="rules"),
        ]
    )
    first, second = build_report.report(stage.window).sections
    assert (first.source, first.raw_size, first.injected_size) == ("IDENTITY.md", 900, 5)
    assert (second.name, second.raw_size) == ("rules", 5)


def test_one_huge_message_is_named_as_what_holds_the_window(home: Path) -> None:
    stage = Stage(home, window=8_000)
    stage.chat("hello", "hi")
    stage.chat(words(4_500), "Read.")
    warnings = build_report.report(stage.window).warnings
    (over,) = (warning for warning in warnings if warning.startswith("Message history "))
    assert over.startswith("Message history uses ")
    assert "; the message of turn 2 alone takes 4," in over


def test_what_cannot_leave_is_reported_as_pressure(home: Path) -> None:
    stage = Stage(home, window=4_000)
    said = Section(name="project", text=words(2_200), source="/work/AGENTS.md")
    stage.window.set_instructions([said, Section(name="user", text="Ada", source="/home/USER.md")])
    stage.chat("hello", "hi")
    report = build_report.report(stage.window)
    assert report.protected_tokens > report.marks.floor
    assert any("cannot leave" in warning for warning in report.warnings)
    (over,) = (warning for warning in report.warnings if warning.startswith("System prompt "))
    assert "more than budgeted" in over
    assert "AGENTS.md is the largest file" in over


def test_a_share_and_a_check_before_adding(home: Path) -> None:
    stage = Stage(
        home, settings=Settings(budget=BudgetSettings(message_history=58.0, memory_injection=15.0))
    )
    room, budget = stage.window.now().room, stage.settings.budget
    assert limit_of("memory_injection", room, budget) == int(6_000 * 15 / 95)
    assert build_report.check_before_add(stage.window, "memory_injection", 100).allowed
    assert not build_report.check_before_add(stage.window, "memory_injection", 6_000).allowed


@pytest.mark.thorough
def test_four_hundred_turns_at_32k_prune_as_often_as_ceiling_and_floor_predict(
    home: Path,
) -> None:
    stage = Stage(home, window=32_768)
    prunes, extended = 0, 0
    before: tuple[dict[str, object], ...] = ()
    for number in range(400):
        prepared = stage.chat(words(120, f"q{number}"), words(240, f"a{number}"))
        prunes += sum(isinstance(line.entry, ContextWindowPruned) for line in prepared.lines)
        extended += prepared.request.messages[: len(before)] == before
        before = prepared.request.messages
    exchange = (120 + 240 + 8) * 1.05
    usable = 32_768 - 4_096
    predicted = 1 + (400 - usable * 0.92 / exchange) / (usable * 0.22 / exchange + 1)
    assert abs(prunes - predicted) <= 1
    assert extended == 400 - prunes
    assert verify(stage.transcript.places).ok


def test_a_plan_says_only_what_is_new_and_another_process_knows_as_much(home: Path) -> None:
    stage = Stage(home, window=32_768)
    for number in range(40):
        stage.work(words(20 + number), [words(60, f"r{number}")], words(40))
        assert stage.open().watch.carried == stage.window.watch.carried
    assert len(stage.window.watch.carried.growth) == 20
    entries = [prepared.plan.entry for prepared in stage.prepared]
    plans = [entry for entry in entries if isinstance(entry, PromptPlanned)]
    measures = [plan.measure for plan in plans if plan.measure]
    assert sum(bool(measure.components) for measure in measures) == 1
    assert all(len(measure.used) == 6 for measure in measures)
    carried = [plan.carried for plan in plans if plan.carried]
    assert sum(each.base is None for each in carried) < len(plans) / 10


@pytest.mark.parametrize(
    ("pinned", "named"), [(True, "pinned: `/unpin` lets it go"), (False, "this turn")]
)
def test_a_window_that_nothing_can_leave_says_what_really_holds_it(
    home: Path, pinned: bool, named: str
) -> None:
    stage = Stage(home, window=8_000)
    stage.chat("task", "ok")
    stage.chat(words(2_400, "q"), words(2_000, "a"))
    if pinned:
        stage.chat("and now?", "ok")
        manual.pin(stage.window, 2)
    report = build_report.report(stage.window)
    told = next(each for each in report.warnings if "cannot leave" in each)
    assert named in told
    assert report.protected_by in told
