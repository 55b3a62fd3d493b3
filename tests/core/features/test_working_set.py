"""Commands that look at the window and steer it by hand, in a live session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries import Draft, Usage
from mindstone_tui.core.entries.conversation import (
    AssistantPartial,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import CheckpointSaved, StandingInstructionOffered
from mindstone_tui.core.entries.window import ToolResultsTrimmed
from mindstone_tui.core.features.working_set import MODES, POLICIES
from mindstone_tui.core.handoff.checkpoint_store import read
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript.directory import list_sessions
from tests.builders import say, transcript_in
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.core.session.test_modes import PADDING, settle
from tests.faults import FULL

LOOKS = 8


def looking(tmp_path: Path) -> str:
    """A model that reads a file, again and again."""
    (tmp_path / "big.txt").write_text("\n".join(f"value_{n} = {n}" for n in range(60)))
    look = calls(("read", {"path": "big.txt"}))
    return script(tmp_path, *[look, {"text": "Seen."}] * LOOKS)


async def data_of(stage: Stage, line: str) -> dict[str, Any]:
    """What a command has for programs."""
    here = len(stage.heard)
    ended, said = await stage.run(line)
    assert ended.ok, said
    printed = [e for e in stage.heard[here:] if isinstance(e, events.CommandPrinted)]
    assert printed[-1].data is not None
    return dict(printed[-1].data)


async def test_older_tool_results_are_trimmed_by_hand_and_stay_in_history(
    home: Path, tmp_path: Path
) -> None:
    settle(home)
    async with on_stage(home, model=looking(tmp_path), context_window=60_000) as stage:
        for number in range(LOOKS):
            await stage.say(f"Look again, {number}.")
        before = stage.session.services.context.report().prompt.tokens
        ended, said = await stage.run("/prune results")
        assert ended.ok, said
        assert "4 tool results shortened in the prompt" in said
        (trimmed,) = stage.entries(ToolResultsTrimmed)
        assert trimmed.trigger == "manual"
        assert stage.session.services.context.report().prompt.tokens < before / 1.5
        _, again = await stage.run("/prune results")
        assert "No older tool result" in again


async def test_the_budget_says_what_each_share_uses_and_whether_more_would_fit(
    home: Path, tmp_path: Path
) -> None:
    settle(home)
    model = script(tmp_path, {"text": "Good."}, {"text": "Good."})
    async with on_stage(home, model=model, context_window=8_000) as stage:
        await stage.say(f"Listen. {PADDING}")
        await stage.say("And now?")
        found = await data_of(stage, "/budget")
        report = stage.session.services.context.report()
        assert found["total_used"] == sum(each["used"] for each in found["components"])
        assert found["total_used"] == report.prompt.tokens
        history = next(each for each in found["components"] if each["name"] == "message_history")
        assert history["remaining"] == history["limit"] - history["used"]
        assert history["turns_left"] > 0
        assert found["turns_until_exhausted"] > 0
        small = await data_of(stage, "/budget 100")
        assert (small["allowed"], small["component"]) == (True, "message_history")
        large = await data_of(stage, "/budget 90000 tool_results")
        assert not large["allowed"]
        assert large["excess"] > 80_000
        here = len(stage.heard)
        assert await data_of(stage, "/budget 90000 tool_results --json") == large
        printed = [e.text for e in stage.heard[here:] if isinstance(e, events.CommandPrinted)]
        assert json.loads(printed[0]) == large
        ended, _ = await stage.run("/budget many")
        assert ended.exit_code == 2


async def test_status_names_the_window_and_a_checkpoint_counts_it(
    home: Path, tmp_path: Path
) -> None:
    settle(home, min_recent=2)
    model = script(tmp_path, *[{"text": "Good."}] * 12)
    async with on_stage(home, model=model, context_window=4_000) as stage:
        first = await data_of(stage, "/status")
        assert (first["windows"], first["window_status"]) == (1, "healthy")
        for number in range(12):
            await stage.say(f"Part {number}. {PADDING}")
        later = await data_of(stage, "/status")
        assert later["windows"] > 1
        assert later["budget"]["total_used"] > 0
        ended, _ = await stage.run("/checkpoint")
        assert ended.ok
        saved = read(stage.places.checkpoint.read_bytes())
        assert saved.window == later["windows"]
        assert saved.version == stage.entries(CheckpointSaved)[-1].version
        assert "note" in saved.environment.tools


async def test_the_same_rule_is_offered_once_while_it_is_in_view(
    home: Path, tmp_path: Path
) -> None:
    settle(home)
    model = script(tmp_path, *[{"text": "Good."}] * 3)
    async with on_stage(home, model=model) as stage:
        for number in range(3):
            await stage.say(f"Never use port 9999. Part {number}, please.")
        assert len(stage.entries(StandingInstructionOffered)) == 1


async def test_what_a_prune_would_cost_is_known_where_the_price_is(
    home: Path, tmp_path: Path
) -> None:
    settle(home, min_recent=2)
    model = script(tmp_path, *[{"text": "Good."}] * 6)
    async with on_stage(home, model=model, context_window=4_000) as stage:
        await stage.say("Begin.")
        assert stage.all(events.ContextReported)[-1].report.prune.once is None
    with (home / "config.toml").open("a") as file:
        file.write(f'[models.prices]\n"{model}" = [3.0, 15.0]\n')
    async with on_stage(home, model=model, context_window=4_000) as stage:
        for number in range(4):
            await stage.say(f"Part {number}. {PADDING}")
        reports = [each.report for each in stage.all(events.ContextReported)]
        assert any(report.prune.saves_per_turn for report in reports)


@pytest.mark.parametrize(("line", "known"), [("/policy", POLICIES), ("/mode", MODES)])
async def test_choices_are_listed_with_their_consequences(
    home: Path, line: str, known: tuple[str, ...]
) -> None:
    async with on_stage(home) as stage:
        _, said = await stage.run(line)
        rows = said.splitlines()
        for name in known:
            (row,) = [row for row in rows if row[2:].startswith(f"{name} ")]
            assert len(row.split(None, 2)) > 2 or row.startswith("*")
        assert sum(row.startswith("* ") and "in force" not in row for row in rows) == 1
        await stage.run(f"{line} {known[-1]}")
        _, now = await stage.run(line)
        assert f"* {known[-1]} " in now


@pytest.mark.thorough
async def test_compacting_says_the_prompts_own_numbers(home: Path, tmp_path: Path) -> None:
    settle(home)
    replies = [{"text": "Noted. " * 400}] * 30
    async with on_stage(home, model=script(tmp_path, *replies), context_window=16_000) as stage:
        for number in range(6):
            await stage.say(f"Remember number {number}. " * 40)
        before = stage.session.services.context.report().prompt.tokens
        _, said = await stage.run("/compact")
        after = stage.session.services.context.report().prompt.tokens
        told = f"the prompt has {after:,} tokens, before {before:,}."
        assert told in said or "Nothing to compact" in said
        assert stage.all(events.ContextReported)[-1].report.prompt.tokens == after


@pytest.mark.parametrize("words", [1, 40, *([120, 400] if FULL else [])])
async def test_compacting_never_makes_the_window_larger(
    home: Path, tmp_path: Path, words: int
) -> None:
    settle(home, keep_recent_tokens=100)
    replies = [{"text": "It is written down now. " * words}] * 30
    async with on_stage(home, model=script(tmp_path, *replies), context_window=64_000) as stage:
        for number in range(6):
            await stage.say(f"Never drop rule_{number} in src/part_{number}.py, please.")
        before = stage.session.services.context.report().prompt.tokens
        ended, said = await stage.run("/compact")
        after = stage.session.services.context.report().prompt.tokens
        assert ended.ok, said
        if after == before:
            assert said.startswith("Nothing to gain: "), said
            assert f"stays as it is, {before:,} tokens" in said
        else:
            assert after < before
            assert f"the prompt has {after:,} tokens, before {before:,}." in said
        assert (after == before) == (words < 100)


async def test_a_session_is_named_by_its_first_request_or_by_a_person(home: Path) -> None:
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("What are zones?")
        places = Places.resolve({"MINDSTONE_HOME": str(home)})
        assert [each.title for each in list_sessions(places)] == ["What are zones?"]
        await stage.run("/title Zones, explained")
        assert [each.title for each in list_sessions(places)] == ["Zones, explained"]
        await stage.run("/title")
        assert [each.title for each in list_sessions(places)] == ["What are zones?"]


@pytest.mark.parametrize("length", [100, 900_000, 1_200_000])
def test_however_long_its_first_message_is_a_session_is_named_by_it(
    home: Path, length: int
) -> None:
    say(transcript_in(home), "What are zones?\n" + "z" * length, "Marks of pressure.")
    (listed,) = list_sessions(Places.resolve({"MINDSTONE_HOME": str(home)}))
    assert listed.title.startswith("What are zones? zzz")


async def test_a_fork_and_a_new_session_keep_the_model(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Yes."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("first")
        await stage.say("second")
        await stage.run("/fork side turn 1")
        await stage.run("/new other")
        opened = [each.argument for each in stage.all(events.ScreenAsked)]
        assert opened == ["agent:default:side", f"agent:default:other {model}"]
    async with on_stage(home, key=SessionKey.parse("agent:default:side")) as fork:
        await fork.until(events.SessionReady)
        assert fork.all(events.SessionReady)[0].model == model
        ended = [line.turn for line in fork.lines() if line.kind == "turn_ended"]
        assert ended == [1], "its last turn has its end"


async def test_the_model_hears_once_that_its_answer_broke_off(home: Path, tmp_path: Path) -> None:
    broken = [
        TurnStarted(origin="typed"),
        UserMessage(text="Count to a thousand."),
        AssistantPartial(text="One, two, "),
        TurnEnded(ending="interrupted", why="", remedy="", calls=1, tools=0, usage=Usage()),
    ]
    written = transcript_in(home)
    written.append_all([Draft(entry=entry, turn=1, channel="cli") for entry in broken])
    written.close()
    async with on_stage(home, model=script(tmp_path, {"text": "Three."}, loop=True)) as stage:
        await stage.say("Go on.")
        await stage.say("And then?")
        said = [line.entry for line in stage.lines() if isinstance(line.entry, UserMessage)]
        assert [("broke off" in one.note) for one in said] == [False, True, False]
