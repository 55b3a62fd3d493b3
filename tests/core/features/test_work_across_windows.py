"""Work that outlives its window: the next one goes on with the right subtask, and asks nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import (
    CheckpointSaved,
    CompactionCertified,
    HandoffReplayed,
    SummaryDerived,
    TaskDone,
)
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.features.health import HealthFeature
from mindstone_tui.core.features.tasks import TasksFeature
from mindstone_tui.core.library.compactions import compactions
from mindstone_tui.core.paths import Places
from tests.core.session.stage import calls, check_history, on_stage, script
from tests.core.session.test_modes import PADDING, settle

PLAN = "- [x] measure the parser\n- [~] rewrite parse_block\n- [ ] release"
START = "/task start Speed up the parser | when: p95 < 40 ms | rule: no new files"
GOES_ON = "rewrite parse_block"


@pytest.mark.thorough
async def test_after_an_overflow_the_next_window_starts_from_the_handoff(
    home: Path, tmp_path: Path
) -> None:
    settle(home, mode="auto_compact", min_recent=2)
    bad = {"for": "summary", "error": "timeout"}
    model = script(tmp_path, {"text": PLAN}, *[{"text": "Going on."}] * 9, bad)
    async with on_stage(home, model=model, context_window=4_000) as stage:
        await stage.run(START)
        await stage.say("Begin with the plan.")
        for number in range(8):
            ended = await stage.say(f"Look at part {number}. {PADDING}")
            assert ended.ending == "done", ended.why
        assert stage.entries(ContextWindowPruned)
        assert stage.entries(HandoffReplayed)
        last = stage.requests()[-1]
        head = str(last[0]["content"])
        assert f"{GOES_ON} (in_progress)" in head
        assert "no new files" in head
        spoken = "".join(str(message["content"]) for message in last[1:])
        assert PLAN not in spoken, "the exchange itself left; what is known comes from the handoff"
    async with on_stage(home, model=model, context_window=4_000, follow=True) as stage:
        _, block = await stage.run("/checkpoint resume")
        assert f"- {GOES_ON} (in_progress)" in block
        assert "- [x] measure the parser" in block
        assert block.index("no new files") < block.index("Speed up the parser")
        await stage.until(events.Noticed, lambda told: f"goes on with: {GOES_ON}" in told.message)


async def test_a_task_is_saved_at_its_milestones_and_archived_at_its_end(
    home: Path, tmp_path: Path
) -> None:
    settle(home)
    model = script(
        tmp_path,
        {"text": PLAN},
        {"text": "Nothing new."},
        calls(("note", {"section": "bugs", "text": "parse_block leaks one buffer."})),
        {"text": "Noted."},
        {"text": "We decided to use mmap for the parser because copies are slow."},
    )
    async with on_stage(home, model=model) as stage:
        await stage.run(START)
        for text in ("Begin.", "And?", "What is wrong?", "And the reading?"):
            await stage.say(text)
        ended, said = await stage.run("/task done")
        assert ended.ok, said
        triggers = [one.trigger for one in stage.entries(CheckpointSaved)]
        assert triggers == [
            "milestone: subtask done",
            "milestone: blocker",
            "milestone: decision",
            "task done",
        ]
        (done,) = stage.entries(TaskDone)
        assert "Finished: measure the parser." in done.summary
        assert (stage.places.folder / done.checkpoint).exists()
        assert stage.session.services.features.get(HealthFeature).health.monitor.history == ()
        assert all(each == 0 for each in stage.session.services.context.report().velocities)
    log = (home / "agents" / "default" / "LOG.md").read_text()
    assert log.count("· checkpoint ") == 3, "the end of the task adds nothing new"


async def test_a_task_stands_in_the_head_until_it_is_done(home: Path, tmp_path: Path) -> None:
    settle(home)
    model = script(tmp_path, *[{"text": "Good."}] * 3)
    async with on_stage(home, model=model) as stage:
        await stage.run(START)
        await stage.say("Begin.")
    async with on_stage(home, model=model) as stage:
        await stage.say("Go on.")
        await stage.run("/task done")
        await stage.say("And now?")
        begun, gone_on, after = (str(request[0]["content"]) for request in stage.requests())
    for head in (begun, gone_on):
        assert "The task under way:\nSpeed up the parser" in head
        assert "Done when:\n- p95 < 40 ms" in head
        assert "Rules that bind:\n- no new files" in head
    assert begun == gone_on
    assert "Speed up the parser" not in after


async def test_a_chat_without_a_task_saves_no_milestones(home: Path, tmp_path: Path) -> None:
    settle(home)
    model = script(tmp_path, {"text": "We decided to use mmap for it."})
    async with on_stage(home, model=model) as stage:
        await stage.say("How shall we read?")
    assert not stage.entries(CheckpointSaved)


async def test_whoever_opens_the_session_hears_what_changed_around_the_work(
    home: Path, tmp_path: Path
) -> None:
    settle(home)
    (tmp_path / "notes.txt").write_text("one")
    model = script(tmp_path, calls(("read", {"path": "notes.txt"})), {"text": PLAN})
    async with on_stage(home, model=model) as stage:
        await stage.run(START)
        await stage.say("Read notes.txt and begin.")
    (tmp_path / "notes.txt").write_text("two")
    async with on_stage(home, model=model, follow=True) as stage:
        told = await stage.until(events.Noticed, lambda event: "Since checkpoint" in event.message)
        assert "notes.txt" in told.message


async def test_a_task_that_is_done_is_not_taken_up_again(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": PLAN})) as stage:
        await stage.run(START)
        await stage.say("Begin with the plan.")
        await stage.run("/task done")
        ended, _ = await stage.run("/checkpoint resume")
        assert not ended.ok
        assert not stage.entries(HandoffReplayed)


async def test_resuming_stands_in_the_next_prompt_once_and_replay_proves_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": PLAN}, {"text": "Going on."}, {"text": "And on."})
    async with on_stage(home, model=model) as stage:
        await stage.run(START)
        await stage.say("Begin with the plan.")
        ended, _ = await stage.run("/checkpoint")
        assert ended.ok
        _, told = await stage.run("/checkpoint resume")
        assert "verify: nothing has changed" in told
        await stage.say("Go on, please.")
        head = str(stage.requests()[-1][0]["content"])
        assert "The work goes on from checkpoint" in head
        assert f"- {GOES_ON} (in_progress)" in head
        assert len(stage.entries(HandoffReplayed)) == 1
        with pytest.raises(ContinuityError, match="stands in the prompt already"):
            stage.session.services.features.get(TasksFeature).tasks.resume_into_prompt()
        before = len(stage.entries(CheckpointSaved))
        await stage.run("/checkpoint")
        await stage.run("/checkpoint")
        assert len(stage.entries(CheckpointSaved)) == before + 2, "a person's word always counts"
        tasks = stage.session.services.features.get(TasksFeature).tasks
        assert tasks.write_if_new("window", tasks.state()) is None
    check_history(stage.places)


async def test_a_handoff_of_what_was_rewound_is_neither_shown_nor_taken_over(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("The mast is twelve metres.")
        await stage.say("We decided to paint the lighthouse green.")
        ended, written = await stage.run("/handoff write")
        assert ended.ok
        assert written.startswith(f"Written to {stage.places.folder}/handoffs/")
        await stage.run("/rewind turn 1")
        shown, told = await stage.run("/handoff show")
        assert (shown.ok, "rewound" in told) == (False, True)
        used, _ = await stage.run("/handoff use")
        assert not used.ok
        await stage.say("go on")
    assert "lighthouse" not in str(stage.requests()[-1])


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_compaction_of_our_own_says_what_is_left_of_what_must_not_be_lost(
    home: Path, tmp_path: Path, by_hand: bool
) -> None:
    settle(home, mode="sliding_window" if by_hand else "auto_compact", min_recent=2)
    useless = {"for": "summary", "text": "They talked about this and that."}
    model = script(tmp_path, *[{"text": "Going on."}] * 11, *[useless] * 4)
    async with on_stage(home, model=model, context_window=5_000) as stage:
        await stage.run("/rules add Never run git push --force")
        await stage.say("We decided to keep the timetable in SQLite.")
        decided = next(one.seq for one in stage.lines() if isinstance(one.entry, UserMessage))
        for number in range(9):
            await stage.say(f"Look at part {number}. {PADDING}")
        if by_hand:
            ended, said = await stage.run("/compact")
            assert ended.ok, said
            assert f"lost: {stage.entries(CompactionCertified)[-1].sentence}." in said
        assert stage.entries(SummaryDerived)
        certified = stage.entries(CompactionCertified)[-1]
        assert certified.program == "mindstone"
        assert -1 in certified.kept, "the rule"
        assert decided in certified.kept
        assert certified.lost == (), "recall finds what the prompt does not say"
        await stage.say("and now?")
        assert "keep the timetable in SQLite" in str(stage.requests()[-1])
    text, programs = compactions(Places.resolve({"MINDSTONE_HOME": str(home)}))
    assert [one["program"] for one in programs] == ["mindstone"]
    assert certified.sentence in text
