"""Six metrics after every turn of a real session, against values worked out from the transcript."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest

from mindstone_tui.core.entries.derived import SummaryDerived, SummaryJudged
from mindstone_tui.core.entries.window import (
    AlertRaised,
    ContextWindowPruned,
    HealthMeasured,
    ToolResultsTrimmed,
)
from mindstone_tui.core.health.fidelity import LEAST
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.tokens import UNCALIBRATED, counter_for
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.core.session.test_modes import PADDING, settle
from tests.corpora import FULL

TURNS = 300 if FULL else 24
WINDOW = 6_000
ANSWER = "Understood; it is written down."
ASKED = f"Never drop rule_7. See src/part_7.py, port 8137. {PADDING}"


def by_turn(stage: Stage, kind: type) -> dict[int, list[object]]:
    found: dict[int, list[object]] = {}
    for line in stage.lines():
        if isinstance(line.entry, kind):
            found.setdefault(line.turn, []).append(line.entry)
    return found


async def test_each_turn_has_its_six_metrics_and_a_command_prints_them(
    home: Path, tmp_path: Path
) -> None:
    settle(home, min_recent=2)
    model = script(tmp_path, {"text": ANSWER}, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW) as stage:
        for _ in range(TURNS):
            assert (await stage.say(ASKED)).ending == "done"
        ended, _ = await stage.run("/prune 1")
        assert ended.ok
        measured = [one for (one,) in by_turn(stage, HealthMeasured).values()]
        assert len(measured) == TURNS
        pruned = by_turn(stage, ContextWindowPruned)
        report = stage.session.services.context.report()
        _, said = await stage.run("/health")
        assert f", out of the window: {report.outside.count}\n" in said
        assert "fidelity           100.0%" in said

    count = counter_for(model)
    messages = ({"role": "user", "content": ASKED}, {"role": "assistant", "content": ANSWER})
    added = sum(count.message(message) for message in messages) * UNCALIBRATED
    usable = WINDOW - WINDOW // 4
    assert report.usable == usable
    for turn, health in enumerate(measured, start=1):
        assert isinstance(health, HealthMeasured)
        prunes = [one for one in pruned.get(turn, []) if isinstance(one, ContextWindowPruned)]
        gone = sum(len(one.left) for one in prunes if one.trigger != "manual")
        assert health.eviction_rate == gone
        assert abs(health.burn_rate - added) <= 2
        assert health.compression_ratio is None
        assert health.tool_bloat == 0.0
        assert health.fidelity is None or gone
        assert health.index_lag == 0
    steps = [
        (after.utilization - before.utilization) * usable
        for before, after in pairwise(measured)
        if isinstance(after, HealthMeasured)
        and isinstance(before, HealthMeasured)
        and not after.eviction_rate
    ]
    assert all(abs(step - added) <= 2 for step in steps)
    alerts = [entry.metric for entry in stage.entries(AlertRaised)]
    assert "utilization" not in alerts
    assert "index_lag" not in alerts
    assert "burn_rate" not in alerts


@pytest.mark.thorough
async def test_the_alert_on_results_comes_before_anything_has_to_leave(
    home: Path, tmp_path: Path
) -> None:
    replies = []
    for number in range(12):
        name = f"gauge{number}.txt"
        rows = (f"{number} {row * 7919 % 1000} millimetres at the gauge" for row in range(60))
        (tmp_path / name).write_text("\n".join(rows))
        replies += [calls(("read", {"path": name})), {"text": f"Read {number}."}]
    asked = " ".join(f"tide{number}" for number in range(180))
    async with on_stage(
        home, model=script(tmp_path, *replies), cwd=tmp_path, context_window=20_000
    ) as stage:
        for number in range(12):
            if not stage.entries(AlertRaised):
                await stage.say(f"{asked} {number}")
                await stage.rest()
        full = stage.entries(HealthMeasured)[-1].utilization
        context = stage.session.services.context.settings.context
    assert [one.metric for one in stage.entries(AlertRaised)] == ["tool_bloat"]
    assert full < min(context.ceiling, context.trim) / 100
    assert not stage.entries(ContextWindowPruned)
    assert not stage.entries(ToolResultsTrimmed)


async def test_health_prints_every_turn_and_exports_to_files(home: Path, tmp_path: Path) -> None:
    settle(home)
    model = script(tmp_path, {"text": ANSWER}, loop=True)
    async with on_stage(home, model=model) as stage:
        for _ in range(6):
            await stage.say("Something short.")
        await stage.run("/prune 1")  # waits for the chores of the last turn
        for form, name in (("prometheus", "mindstone.prom"), ("otlp", "mindstone.json")):
            ended, _ = await stage.run(f"/health {form} {name}")
            assert ended.ok
        _, said = await stage.run("/health")
        assert "Over 6 turns fullness is" in said
    text = (tmp_path / "mindstone.prom").read_text()
    assert 'mindstone_context_utilization_ratio{session="agent:default:main"}' in text
    data = json.loads((tmp_path / "mindstone.json").read_text())
    metrics = data["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    points = metrics[0]["gauge"]["dataPoints"]
    assert len(points) == 6
    assert all(int(point["timeUnixNano"]) > 10**18 for point in points)


@pytest.mark.thorough
async def test_a_model_judges_the_newest_summary_and_nonsense_is_unmeasured(
    home: Path, tmp_path: Path
) -> None:
    settle(home, min_recent=2)
    questions = [f"What is number {n}?" for n in range(LEAST + 1)]
    judging = [
        questions,
        ["7", "8", "9", "UNANSWERABLE"],
        ["7", "8", "UNANSWERABLE"],
        ["YES", "NO", "YES"],
    ]
    lines = [{"for": "judge", "text": json.dumps(each)} for each in judging]
    nonsense = {"for": "judge", "text": "They are about the same."}
    model = script(tmp_path, *[{"text": ANSWER}] * 18, *lines, nonsense)
    async with on_stage(home, model=model, context_window=WINDOW) as stage:
        refused, _ = await stage.run("/health judge")
        assert not refused.ok
        for _ in range(6):
            await stage.say(ASKED)
        ended, said = await stage.run("/compact")
        assert ended.ok, said
        assert stage.entries(SummaryDerived)
        _, said = await stage.run("/health judge")
        assert said.startswith("1 of 3 answers survive"), said
        assert "does not pass the gate of 85%" in said
        assert "knows only 33% of what it stands for" in stage.entries(AlertRaised)[-1].message
        assert (await stage.run("/health"))[1].count("33") == 2, "its row, and the alert"
        for _ in range(10):
            await stage.say(ASKED)
        _, said = await stage.run("/compact")
        assert "he summary before kept 33%, so more stays as it is." in said
        _, said = await stage.run("/health")
        assert "33" not in said.split("\n", 1)[1], "it stands for nothing any more"
        _, said = await stage.run("/health judge")
        assert said.startswith("Unmeasured: ")
        first, second = stage.entries(SummaryJudged)
        assert (first.consistent, first.judged, first.passes) == (1, 3, False)
        assert (second.score, second.passes) == (None, False)
        assert second.why


def embed_with(home: Path, model: str) -> None:
    """Write the settings: this embedder, and nothing else."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(f'[recall]\nembedder = "{model}"\n')


async def test_recall_by_words_alone_is_said_once(home: Path, tmp_path: Path) -> None:
    embed_with(home, "nobody/knows-this-model")
    model = script(tmp_path, *[{"text": ANSWER}] * 5)

    def said(stage: Stage) -> list[tuple[str, str]]:
        alerts = stage.entries(AlertRaised)
        return [(each.level, each.message) for each in alerts if each.metric == "recall"]

    async with on_stage(home, model=model, embedder=open_embedder) as stage:
        assert (await stage.say("The heron nests by the weir.")).ending == "done"
        await asyncio.to_thread(stage.session.services.recall.embed_within, 60)
        for text in ("And the otter?", "And the vole?"):
            assert (await stage.say(text)).ending == "done"
    assert said(stage) == [("info", "Recall works on words alone: vectors are not available.")]


async def test_a_model_that_says_the_same_turn_after_turn_is_noticed_once(
    home: Path, tmp_path: Path
) -> None:
    same = "I will look at the file again to see what might be wrong with it this time. " * 3
    replies = [{"text": same}] * 4 + [{"text": "Something else entirely, at last. " * 6}]
    async with on_stage(home, model=script(tmp_path, *replies)) as stage:
        for number in range(1, 6):
            await stage.say(f"and step {number}?")
        raised = [one for one in stage.entries(AlertRaised) if one.metric == "repeating"]
        assert [one.level for one in raised][:1] == ["warning"]
        assert sum(one.level == "warning" for one in raised) == 1
