"""Modes of making room through a whole session: chains, cascades, and every way a model can fail.

At the end of each test the stage rebuilds every request, side requests too, and verifies history.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.context.modes import CompactionSteps
from mindstone_tui.core.context.plan import make_room_by
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import Call
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ModelFailed, SideRequestSent
from mindstone_tui.core.entries.derived import HandoffReplayed, SummaryDerived
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    HeadShortened,
    ToolResultsTrimmed,
)
from tests.core.session.stage import Stage, calls, on_stage, script

WINDOW = 4_000
PADDING = "Some more words that fill the window without a meaning of their own follow here. " * 22


CHAIN = (
    "checkpoint_saved",
    "handoff_written",
    "summary_derived",
    "context_window_pruned",
    "handoff_replayed",
    "backfill_checked",
)


def settle(home: Path, **context: object) -> None:
    """Write the settings: few tools, no automatic recall, small floors."""
    rows = "\n".join(f"{name} = {_toml(value)}" for name, value in context.items())
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        f"[context]\n{rows}\n[recall]\nauto = false\n[tools]\n"
        'disabled = ["shell", "edit", "write", "glob", "grep", "delegate", "remember", "recall"]\n'
    )


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


async def talk(stage: Stage, turns: int, first: int = 1) -> None:
    """Exchanges that each hold a rule, a path and a number."""
    for number in range(first, first + turns):
        said = f"Never drop rule_{number}. See src/part_{number}.py, port 8{number:03d}. {PADDING}"
        ended = await stage.say(said)
        assert ended.ending == "done", ended.why


def answer(**more: Any) -> dict[str, Any]:
    return {"text": "Understood; it is written down.", **more}


FAILURES: dict[str, dict[str, Any]] = {
    "timeout": {"error": "timeout"},
    "empty": {"text": ""},
    "truncated": {"text": "## Goal\n- keep the rules and the", "finish": "length"},
    "cut stream": {"text": "## Goal\n- keep the rules", "error": "cut"},
    "refusing": {"text": "I'm sorry, I cannot help with that."},
    "wrong form": {"text": '{"summary": ['},
    "forgetful": {"text": "## Goal\n- They talked about several files."},
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_summary_falls_back_and_leaves_history_and_window_whole(
    home: Path, tmp_path: Path, failure: str
) -> None:
    settle(home, mode="auto_compact", min_recent=2)
    bad = {"for": "summary", **FAILURES[failure]}
    model = script(tmp_path, answer(), bad, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW) as stage:
        await talk(stage, 7)
        kinds = [line.kind for line in stage.lines()]
        summaries = stage.entries(SummaryDerived)
        asked = stage.entries(SideRequestSent)
        assert summaries
        assert {one.model for one in summaries} == {"deterministic"}
        assert all(one.fallback for one in summaries)
        assert len(asked) >= 2
        assert all(one.prompt.startswith("compaction@") for one in asked)
        assert bool(stage.entries(ModelFailed)) == ("error" in FAILURES[failure])
        chain = ["checkpoint_saved", "handoff_written", "summary_derived", "context_window_pruned"]
        found = [kind for kind in kinds if kind in (*chain, "handoff_replayed")]
        at = found.index("summary_derived")
        assert found[at - 2 : at + 3] == [*chain, "handoff_replayed"]
        head = str(stage.requests()[-1][0]["content"])
        assert "rule_1" in head


async def test_a_good_summary_is_labelled_audited_and_names_its_sources(
    home: Path, tmp_path: Path
) -> None:
    settle(home, mode="auto_compact", min_recent=2)
    facts = "".join(
        f"\n- Never drop rule_{n}. See src/part_{n}.py, port 8{n:03d}." for n in range(1, 15)
    )
    good = {"for": "summary", "text": f"## Constraints{facts}"}
    model = script(tmp_path, answer(), good, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW) as stage:
        await talk(stage, 7)
        (summary, *_) = stage.entries(SummaryDerived)
        read = {line.seq: line for line in stage.lines()}
        assert summary.strategy == "conversation_compaction"
        if not summary.fallback:
            assert summary.model == model
        assert summary.tokens_after < summary.tokens_before
        assert all(span.first in read for span in summary.sources)
        assert "derived from the transcript, which wins" in summary.text
        assert stage.entries(HandoffReplayed)
        chain = [line.kind for line in stage.lines() if line.kind in CHAIN]
        assert " ".join(CHAIN) in " ".join(chain)


async def test_a_cascade_takes_the_cheapest_steps_first_and_fits(
    home: Path, tmp_path: Path
) -> None:
    settle(home, mode="cascade", min_recent=2, keep_trimmed=0)
    for number in range(20):
        (tmp_path / f"part_{number}.txt").write_text(f"value_{number} = {number}\n" + PADDING * 2)
    replies = [
        reply
        for number in range(20)
        for reply in (calls(("read", {"path": f"part_{number}.txt"})), answer())
    ]
    model = script(tmp_path, *replies, {"for": "summary", "error": "timeout"}, loop=True)
    async with on_stage(home, model=model, context_window=WINDOW) as stage:
        await talk(stage, 7)
        trims = [line.seq for line in stage.lines() if isinstance(line.entry, ToolResultsTrimmed)]
        prunes = [line.seq for line in stage.lines() if isinstance(line.entry, ContextWindowPruned)]
        assert trims
        assert prunes
        assert trims[0] < prunes[0]
        assert {one.trigger for one in stage.entries(ContextWindowPruned)} <= {"cascade"}
        assert stage.session.services.context.report().utilization < 0.95


@pytest.mark.thorough
async def test_compacting_by_hand_in_a_tiny_window_does_not_lock_the_session(
    home: Path, tmp_path: Path
) -> None:
    settle(home, min_recent=2)
    model = script(tmp_path, answer(), loop=True)
    async with on_stage(home, model=model, context_window=12_000) as stage:
        await talk(stage, 12)
        ended, said = await stage.run("/compact")
        assert ended.ok, said
        assert stage.entries(HandoffReplayed)
    async with on_stage(home, model=model, context_window=2_000) as stage:
        ended_turn = await stage.say("And what is left to do now?")
        assert ended_turn.ending == "done", ended_turn.why
        (shortened,) = stage.entries(HeadShortened)
        assert shortened.tokens_after < shortened.tokens_before
        assert shortened.summaries
        why, _ = await stage.run("/health")
        assert why.ok


async def test_the_last_step_of_a_cascade_has_the_rest_read_in_a_clean_window(
    home: Path, tmp_path: Path
) -> None:
    settle(home, mode="sliding_window", min_recent=2)
    report = {"for": "summary", "text": "The files were looked at; nothing stayed open."}
    model = script(tmp_path, answer(), report, loop=True)
    async with on_stage(home, model=model, context_window=16_000) as stage:
        for _ in range(8):
            await stage.say(f"Look at this. {PADDING}")
        services = stage.session.services
        summarizer = services.modes.means.summarizer

        async def delegated(live: LiveWindow, call: Call) -> list[Line]:
            room = CompactionSteps(live, call, summarizer)
            effect = await room.steps()["delegate"](0)
            assert effect.held, effect.why
            return room.lines

        lines = await make_room_by(services.context.window, delegated)
        assert [line.kind for line in lines] == ["summary_derived", "context_window_pruned"]
        (summary,) = stage.entries(SummaryDerived)
        assert (summary.strategy, summary.model) == ("sub_agent", model)
        assert summary.prompt_version.startswith("sub_agent@")
        assert "derived from the transcript, which wins" in summary.text
        assert (await stage.say("And now?")).ending == "done"
        assert "nothing stayed open" in str(stage.requests()[-1][0]["content"])


async def test_under_a_low_ceiling_the_state_is_saved_before_anything_leaves(
    home: Path, tmp_path: Path
) -> None:
    settle(home, ceiling=70, floor=50, min_recent=2)
    async with on_stage(
        home, model=script(tmp_path, answer(), loop=True), context_window=WINDOW
    ) as stage:
        await talk(stage, 8)
        kinds = [line.kind for line in stage.lines()]
    assert "context_window_pruned" in kinds
    assert kinds.index("checkpoint_saved") < kinds.index("context_window_pruned")


async def test_the_checkpoint_mark_fires_once_however_many_processes_pass_it(
    home: Path, tmp_path: Path
) -> None:
    settle(home, checkpoint=40, trim_to=30, min_recent=2)
    model = script(tmp_path, answer(), loop=True)
    for number in range(1, 30):
        async with on_stage(home, model=model, context_window=WINDOW) as stage:
            await stage.say(f"turn {number}: " + "words upon words " * 60)
            kinds = [line.kind for line in stage.lines()]
        if "context_window_pruned" in kinds:
            break
    before = kinds[: kinds.index("context_window_pruned")]
    assert before.count("checkpoint_saved") == 1
    assert "handoff_written" not in before  # a window that slides never begins anew
