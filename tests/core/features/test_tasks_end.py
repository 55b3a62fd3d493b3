"""A task that is over is over everywhere, and what the session settled goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.entries.derived import (
    CheckpointSaved,
    MemoryProposed,
    StatementSuperseded,
)
from mindstone_tui.core.library.project_recall import newest_handoff, offer
from mindstone_tui.core.paths import Places, SessionKey
from tests.core.session.stage import Stage, calls, on_stage, script


def prompt(stage: Stage) -> str:
    """The newest request, as it was sent."""
    return str(stage.requests()[-1])


def logged(home: Path) -> str:
    return next(home.rglob("LOG.md")).read_text()


async def test_nothing_of_a_task_is_in_a_prompt_once_it_is_done_or_another_begins(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        for ending in ("/task done", ""):
            await stage.run("/task start Varnish the rowing boat | rule: two coats only")
            await stage.run("/todo add Sand the thwarts")
            await stage.run("/checkpoint")
            ended, text = await stage.run("/checkpoint resume")
            assert ended.ok, text
            await stage.say("go on")
            assert all(
                words in prompt(stage) for words in ("Varnish the", "two coats", "Sand the thwarts")
            )
            if ending:
                _, said = await stage.run(ending)
                assert "Left: Sand the thwarts." in said
            await stage.run("/task start Paint the boathouse")
            await stage.say("go on")
            said = prompt(stage)
            assert "Paint the boathouse" in said
            assert not [w for w in ("Varnish the", "two coats", "Sand the thwarts") if w in said]
            await stage.run("/task done")
            await stage.say("and now?")
            assert "Paint the boathouse" not in prompt(stage)


async def test_a_finished_task_is_no_open_work_and_leaves_nothing_to_mend(
    home: Path, tmp_path: Path
) -> None:
    fails = calls(("shell", {"command": "echo bad >&2; exit 3"}))
    model = script(tmp_path, fails, {"text": "It failed."}, {"text": "Noted."})
    async with on_stage(home, model=model, cwd=tmp_path, approve="full-auto") as stage:
        await stage.run("/task start Varnish the rowing boat")
        await stage.run("/todo add Sand the thwarts")
        await stage.say("Run it.")
        assert "Last errors" in (await stage.run("/task show"))[1]
        await stage.run("/task done")
        await stage.run("/task start Paint the boathouse")
        await stage.run("/fork child")
    for name in ("main", "child"):
        async with on_stage(home, key=SessionKey.parse(name), model=model, cwd=tmp_path) as again:
            told = " ".join(event.message for event in again.all(events.Noticed))
            assert "Open work: Varnish" not in told, name
            assert "Last errors" not in (await again.run("/task show"))[1], name


async def test_a_command_that_never_ran_is_not_told_as_failed(home: Path, tmp_path: Path) -> None:
    pushes = calls(("shell", {"command": "git push --force"}))
    model = script(tmp_path, pushes, {"text": "It is refused."}, loop=True)
    async with on_stage(home, model=model, cwd=tmp_path, approve="full-auto") as stage:
        await stage.run("/rules add Never force push")
        await stage.say("Push it.")
        assert [each.status for each in stage.entries(ToolReturned)] == ["refused"]
        shown = (await stage.run("/task show"))[1]
        assert not [word for word in ("Commands", "failed") if word in shown]


async def test_what_the_session_settled_survives_a_new_task(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Always answer in Dutch.")
        await stage.say("We decided to keep the timetable in SQLite.")
        await stage.run("/task start Varnish the rowing boat | rule: two coats only")
        await stage.say("begin")
        await stage.run("/task start Paint the boathouse | rule: only green paint")
        await stage.say("begin with the north wall")
        _, shown = await stage.run("/task show")
        ended, _ = await stage.run("/handoff")
        assert ended.ok
        letter = next(iter((stage.places.folder / "handoffs").glob("*.md"))).read_text()
        for told in (shown, letter):
            assert "Always answer in Dutch." in told
            assert "keep the timetable in SQLite" in told
            assert "only green paint" in told
            assert "two coats" not in told


async def test_a_finished_task_claims_nothing_that_nobody_wrote_down(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.run("/task start Paint the boathouse")
        await stage.say("begin with the north wall")
        _, said = await stage.run("/task done")
        assert "Nothing is left" not in said
        assert "Nobody wrote down" in said
        await stage.run("/task start Varnish the rowing boat")
        await stage.run("/todo add Sand the thwarts")
        await stage.run("/todo done 1")
        _, said = await stage.run("/task done")
        assert "Finished: Sand the thwarts." in said
        assert "Nothing is left." in said


@pytest.mark.parametrize("kept", [False, True])
async def test_what_was_said_for_a_task_ends_with_it(
    home: Path, tmp_path: Path, kept: bool
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/task start Varnish the rowing boat")
        await stage.say("For this task always write to me in Dutch.")
        if kept:
            assert "until this task is done" in (await stage.run("/keep"))[1]
            await stage.say("hello")
            assert "always write to me in Dutch" in str(stage.requests()[-1][0])
        await stage.say("Always use metric units.")
        await stage.run("/notes task_progress The first coat of varnish is dry")
        await stage.run("/notes decisions We use boat varnish from the yard in Kampen")
        await stage.run("/task done")
        await stage.run("/task start Paint the boathouse")
        await stage.say("begin")
        head = str(stage.requests()[-1][0])
        _, shown = await stage.run("/task show")
        assert "metric units" in shown
        for told in (head, shown):
            assert "yard in Kampen" in told
            assert "in Dutch" not in told
            assert "first coat" not in told


async def test_a_finished_task_tells_its_own_decisions(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("We decided to keep the timetable in SQLite.")
        await stage.run("/task start Paint the boathouse")
        await stage.say("We decided to paint the north wall first.")
        _, said = await stage.run("/task done")
        assert "north wall" in said
        assert "SQLite" not in said


async def test_a_task_knows_the_rules_that_bind_and_none_that_was_retired(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    other = SessionKey.parse("agent:default:other")
    async with on_stage(home, model=model) as stage:
        await stage.run("/rules add Never run git push --force")
        await stage.run("/rules add Never run git reset --hard --project")
        await stage.run("/task start Paint the boathouse")
        await stage.say("begin")
        await stage.run("/checkpoint save")
        await stage.run("/rules retire 1")
        for command in ("/task show", "/handoff", "/handoff show"):
            ended, said = await stage.run(command)
            assert ended.ok, said
            if command != "/handoff":
                assert "reset --hard" in said
                assert "push --force" not in said
    async with on_stage(home, key=other, model=model) as stage:
        await stage.run("/task start Varnish the boat")
        await stage.say("begin")
        assert "reset --hard" in (await stage.run("/task show"))[1]
        await stage.run("/rules retire 2")
    async with on_stage(home, model=model) as stage:
        assert "reset --hard" not in (await stage.run("/task show"))[1], "retired elsewhere"


async def test_what_a_restore_brings_back_counts_for_the_task_again(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.run("/task start Varnish the rowing boat")
        await stage.say("begin")
        await stage.say("We decided to use two coats of resin.")
        await stage.run("/task start Paint the boathouse")
        await stage.say("begin with the north wall")
        await stage.run("/rewind turn 1")
        _, said = await stage.run("/task show")
        assert "Varnish" in said
        assert "resin" not in said
        await stage.run("/checkpoint save")
        await stage.run("/restore turn 2 3")
        await stage.say("go on")
        assert "The task under way:\nPaint the boathouse" in str(stage.requests()[-1][0]["content"])
        for command in ("/task show", "/checkpoint save", "/checkpoint show"):
            _, said = await stage.run(command)
            if command != "/checkpoint save":
                assert "Paint the boathouse" in said
                assert "resin" in said


@pytest.mark.parametrize("since", ["/rewind turn 1", "No, it is called wombat, not marsupial."])
async def test_what_a_session_wrote_into_log_and_journal_is_found_in_the_session_alone(
    home: Path, tmp_path: Path, since: str
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("Hello there.")
        await stage.say("We decided: the quokka exporter is called marsupial.")
        await stage.say("Please remember that the zebra gate code is 5151.")
        await stage.run("/consolidate")
        await stage.run("/checkpoint save")
        refused = stage.entries(MemoryProposed)[0].proposal
        await stage.run(f"/memory refuse {refused} wrong")
        await (stage.run(since) if since[0] == "/" else stage.say(since))
    agent = Places.resolve({"MINDSTONE_HOME": str(home)}).agent("default")
    assert "marsupial" in agent.log.read_text(), "people read what was written then"
    async with on_stage(home, key=SessionKey.parse("agent:default:other"), model=model) as stage:
        for asked in ("How is the quokka exporter called?", "What is the zebra gate code?"):
            found = await stage.session.services.recall.search(asked, 20, "agent")
            kept = "".join(h.text for h in found.hits if h.passage.kind in ("log", "journal"))
            assert not [word for word in ("quokka", "marsupial", "5151") if word in kept]


async def test_a_decision_that_was_taken_back_is_not_told_by_the_log(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "Noted."}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.run("/task start Choose a queue for the events")
        await stage.say("hello")
        await stage.say("We decided to use Kafka for events.")
        await stage.run("/checkpoint save")
        await stage.run("/rewind turn 1")
    log = Places.resolve({"MINDSTONE_HOME": str(home)}).agent("default").log
    assert "Kafka" in log.read_text(), "people read what was written then"
    async with on_stage(home, key=SessionKey.parse("agent:default:other"), model=model) as stage:
        await stage.say("What did we decide to use for events?")
        assert "Kafka" not in str(stage.requests()[-1])
        _, said = await stage.run("/recall what did we decide to use for events, Kafka?")
        assert "to use Kafka for events" not in said


async def test_a_handoff_marks_what_was_corrected(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("The harbour gate opens with code 7714.")
        await stage.say("No, the harbour gate opens with code 9035, not 7714.")
        await stage.run("/handoff")
        _, letter = await stage.run("/handoff show")
        old = [row for row in letter.splitlines() if "opens with code 7714." in row]
        assert [row for row in old if "superseded by line" not in row and "**user**" in row] == []
        assert any("superseded by line" in row for row in old)
        await stage.run("/rewind turn 1")
        await stage.run("/handoff")
        assert "superseded" not in (await stage.run("/handoff show"))[1], "it was taken back"


async def test_a_decision_is_no_milestone_again_because_a_checkpoint_was_rewound(
    home: Path,
) -> None:
    async with on_stage(home, model=script(home.parent, {"text": "Yes."}, loop=True)) as stage:
        await stage.run("/task start Ship the otter")
        await stage.say("We decided to use Postgres for the otter.")
        await stage.say("go on")
        await stage.run("/checkpoint save")
        await stage.run("/rewind turn 1")
        await stage.say("go on once more")
        await stage.run("/task start Feed the otter")
        await stage.say("go on with that")
        await stage.run("/context")
        saved = [one.trigger for one in stage.entries(CheckpointSaved)]
        assert saved.count("milestone: decision") == 1
    assert logged(home).count("Postgres") == 1


async def test_a_checkpoint_that_was_rewound_was_saved_all_the_same(home: Path) -> None:
    async with on_stage(home, model=script(home.parent, {"text": "Yes."}, loop=True)) as stage:
        await stage.run("/task start Ship the otter")
        assert "Not saved yet" in (await stage.run("/task"))[1]
        for text in ("one", "two"):
            await stage.say(text)
            await stage.run("/checkpoint save")
        assert "Checkpoint 2 of agent:default:main, window" in (await stage.run("/task"))[1]
        await stage.run("/rewind turn 1")
        told = "Not saved since, agent:default:main. The checkpoint is rewound: line "
        assert told in (await stage.run("/task"))[1]


async def test_what_was_corrected_since_is_told_with_a_checkpoint_and_a_handoff(home: Path) -> None:
    async with on_stage(home, model=script(home.parent, {"text": "Yes."}, loop=True)) as stage:
        await stage.run("/task start Build the boat")
        await stage.say("We decided to use teak.")
        await stage.run("/checkpoint save")
        await stage.run("/handoff write")
        await stage.say("No, we decided to use oak, not teak.")
        await stage.rest()
        for handed in (newest_handoff(stage.places), offer(stage.places, 200)):
            assert "Changed since: Line" in handed, "other agents are told, too"
        for command in ("/checkpoint resume", "/handoff use"):
            ended, said = await stage.run(command)
            assert ended.ok, said
            await stage.say("go on")
            head = str(stage.requests()[-1][0]["content"])
            assert "holds no longer, by line" in head, command
            if "resume" in command:
                assert "We decided to use teak." not in head
            await stage.run("/rewind turn 2")


async def test_a_late_verdict_is_told_with_what_was_written_after_the_correction(
    home: Path,
) -> None:
    async with on_stage(home, model=script(home.parent, {"text": "Yes."}, loop=True)) as stage:
        await stage.run("/task start Build the boat")
        for said in ("Correction: the mast is made of teak.", "What the mast needs is oak."):
            await stage.say(said)
        old, new = (line.seq for line in stage.lines() if line.kind == "user_message")
        await stage.run("/checkpoint save")
        await stage.run("/handoff write")
        verdict = StatementSuperseded(statement=old, by=new)
        stage.session.services.context.window.record(verdict, 2)
        for command in ("/checkpoint resume", "/handoff use"):
            assert (await stage.run(command))[0].ok
            await stage.say("go on")
            head = str(stage.requests()[-1][0]["content"])
            told = f"Line {old} holds no longer, by line {new}: What the mast needs is oak."
            assert told in head, command
            if "resume" in command:
                assert "Correction: the mast is made of teak." not in head
            await stage.run("/rewind turn 2")


@pytest.mark.parametrize("taken", [("/checkpoint resume",), ("/handoff write", "/handoff use")])
async def test_what_stands_in_the_head_says_what_was_corrected_after_it(
    home: Path, taken: tuple[str, ...]
) -> None:
    async with on_stage(home, model=script(home.parent, {"text": "Yes."}, loop=True)) as stage:
        await stage.run("/task start Build the boat")
        await stage.say("We decided to use teak.")
        await stage.run("/checkpoint save")
        for command in taken:
            assert (await stage.run(command))[0].ok
        for said in ("No, we decided to use oak, not teak.", "go on", "and on"):
            await stage.say(said)
        heads = [str(one[0]["content"]) for one in stage.requests()[-2:]]
        assert [one.count("holds no longer, by line") for one in heads] == [1, 1], "once"
        await stage.run("/rewind turn 1")
        await stage.say("and now?")
        assert "holds no longer" not in str(stage.requests()[-1][0]["content"])


async def test_a_checkpoint_asks_for_no_answer_that_was_given_since(
    home: Path, tmp_path: Path
) -> None:
    ok = {"text": "Fine."}
    async with on_stage(
        home, model=script(tmp_path, ok, {"error": "auth"}, ok, loop=True)
    ) as stage:
        await stage.say("Please write the parser of the harbour log.")
        await stage.say("Please write the tests of the harbour log.")
        await stage.run("/checkpoint save")
        asked = "what was asked last"
        assert asked in (await stage.run("/checkpoint show"))[1]
        await stage.say("Write them now, please.")
        for told in ("/checkpoint show", "/checkpoint resume"):
            text = (await stage.run(told))[1]
            assert asked not in text
            assert "The last request was answered." in text
