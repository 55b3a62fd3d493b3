"""Commands in the background: they go on, are told of, read and waited for, and end with us."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.derived import JobEnded, JobStarted
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.features.jobs import JobsFeature
from mindstone_tui.core.paths import SessionKey
from tests.core.session.stage import Stage, calls, on_stage, script

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def agree(stage: Stage) -> None:
    def answer(event: events.AnyEvent) -> None:
        if isinstance(event, events.ToolAsked):
            stage.session.answer(event.call, events.Answer(allowed=True))

    stage.on_event = answer


def background(command: str, **more: Any) -> Any:
    return calls(("background", {"command": command, **more}))


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def assert_kept_well(log: Path) -> None:
    assert SECRET not in log.read_text(), "secrets are out of the output on disk"
    assert log.stat().st_mode & 0o77 == 0


async def test_a_job_goes_on_is_waited_for_and_its_end_is_told(tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo {SECRET}; exit 3"
    says = script(
        tmp_path,
        background(command),
        {"text": "started"},
        calls(("job", {"id": 1, "wait": 60})),
        {"text": "over"},
    )
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        agree(stage)
        assert (await stage.say("run it")).ending == "done"
        _, text = await stage.run("/jobs")
        assert "running" in text
        go.touch()
        await stage.say("wait for it")
        result = stage.all(events.ToolEnded)[-1]
        assert "exit code 3" in result.text
        assert "begun" in result.text
        told = await stage.until(events.Noticed, lambda each: "Job 1 ended" in each.message)
        assert told.level == "warning"
        (started,), (ended,) = stage.entries(JobStarted), stage.entries(JobEnded)
        assert (ended.code, ended.ending) == (3, "exited")
    assert_kept_well(Path(started.log))


async def test_a_job_ends_with_its_whole_tree_when_the_session_is_closed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"(sleep 600 & echo $! >> {pids}; setsid sleep 600 & echo $! >> {pids}; wait)"
    says = script(tmp_path, background(f"{command}; echo never"), {"text": "started"}, loop=True)
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("run it")
        job = stage.session.services.features.get(JobsFeature).get(1)
        while len(pids.read_text().split() if pids.exists() else []) < 2:
            assert not job.ending, job.state
            await stage.run("/jobs")
        running = [int(each) for each in pids.read_text().split()]
    assert not [pid for pid in running if alive(pid)]
    assert [each.ending for each in stage.entries(JobEnded)] == ["interrupted"]


async def test_a_job_that_was_asked_to_stay_stays(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = f"echo $$ > {pid_file}; exec sleep 600"
    says = script(tmp_path, background(command, stay=True), {"text": "started"}, loop=True)
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("run it")
        asked = stage.all(events.ToolAsked)[0]
        assert "goes on when MindStone ends" in asked.shown
        assert "goes on when MindStone ends" in asked.why, "that is read beside the command"
        while not (pid_file.exists() and pid_file.read_text().strip()):
            await stage.run("/jobs")
        pid = int(pid_file.read_text())
    try:
        assert alive(pid)
    finally:
        os.kill(pid, 9)


async def test_a_person_ends_a_job_and_nobody_starts_one_unasked(tmp_path: Path) -> None:
    says = script(tmp_path, background("sleep 600"), {"text": "started"}, loop=True)
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says) as stage:
        await stage.say("run it")
        assert stage.all(events.ToolEnded)[-1].status == "refused"
        assert not stage.entries(JobStarted)
    async with on_stage(tmp_path / "home2", cwd=tmp_path, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("run it")
        _, text = await stage.run("/jobs kill 1")
        assert "interrupted" in text
        assert not (await stage.run("/jobs 7"))[0].ok
        assert not (await stage.run("/jobs ²"))[0].ok
        assert "`²` names no job." in str(stage.heard[-2:])


async def test_a_job_that_nobody_looked_at_says_what_it_planted(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "plant.sh").write_text("n=env; echo evil > sub/.${n}rc")
    says = script(
        tmp_path, background("sh plant.sh"), calls(("job", {"id": 1, "wait": 60})), {"text": "over"}
    )
    try:
        async with on_stage(tmp_path / "home", cwd=work, model=says, approve="full-auto") as stage:
            await stage.say("run it")
            assert "sub/.envrc" in stage.all(events.ToolEnded)[-1].text
    except MindstoneError:
        pytest.skip("nothing on this machine confines commands")


async def test_undo_says_that_a_jobs_later_work_is_not_part_of_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    says = script(
        tmp_path,
        calls(
            ("write", {"path": "by-turn", "content": "x"}),
            ("background", {"command": f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; > late"}),
        ),
        {"text": "started"},
    )
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("run it")
        (tmp_path / "go").touch()
        await stage.until(events.Noticed, lambda each: "Job 1 ended" in each.message)
        _, text = await stage.run("/undo")
        assert "Not part of it: what job 1 (`until" in text
        assert [each.name for each in work.iterdir()] == ["late"]


async def test_the_model_hears_that_a_job_ended_with_the_session(tmp_path: Path) -> None:
    says = script(tmp_path, background("sleep 600"), {"text": "started"}, {"text": "so"}, loop=True)
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("run it")
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        await stage.say("what runs?")
        assert "Job 1 ended after" in str(stage.requests()[-1])


async def test_a_fork_hears_that_a_job_ended_before_it_was_made(tmp_path: Path) -> None:
    says = script(tmp_path, background("true"), {"text": "It runs."}, {"text": "so"}, loop=True)
    chosen: dict[str, Any] = {"cwd": tmp_path, "model": says, "asks": True}
    async with on_stage(tmp_path / "home", **chosen) as stage:
        agree(stage)
        await stage.say("run it")
        await stage.until(events.Noticed, lambda each: "Job 1 ended" in each.message)
        await stage.say("does it run?")  # here the end is told
        for command in ("/fork one turn 1", "/fork two"):
            assert (await stage.run(command))[0].ok
    script(tmp_path, {"text": "so"}, loop=True)
    for name, told in (("one", 1), ("two", 0)):
        key = SessionKey.parse(f"agent:default:{name}")
        async with on_stage(tmp_path / "home", key=key, **chosen) as fork:
            for times in (told, 0):
                await fork.say("what runs?")
                asked = str(fork.requests()[-1][-1]["content"])
                assert asked.count("Job 1 ended after") == times, name


async def test_what_a_message_that_was_rewound_told_of_a_job_is_told_again(tmp_path: Path) -> None:
    says = script(tmp_path, background("true"), *({"text": "so"} for _ in range(4)))
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("run it")
        await stage.until(events.Noticed, lambda each: "Job 1 ended" in each.message)
        for each in ("what runs?", "/rewind turn 1", "and now?", "thanks"):
            await (stage.run(each) if each.startswith("/") else stage.say(each))
        asked = [str(request[-1]["content"]) for request in stage.requests()[-3:]]
        assert [one.count("Job 1 ended after") for one in asked] == [1, 1, 0]


@pytest.mark.parametrize("stays", [False, True])
async def test_a_job_of_a_program_that_was_killed_is_told_as_over_and_not_as_running(
    tmp_path: Path, stays: bool
) -> None:
    says = script(tmp_path, {"text": "so"}, loop=True)
    async with on_stage(tmp_path / "home", cwd=tmp_path, model=says, asks=True) as stage:
        folder = stage.session.services.places.jobs
        folder.mkdir()
        log = folder / "1.log"
        with log.open("w") as output:
            fcntl.flock(output, fcntl.LOCK_SH)
            lives = await asyncio.create_subprocess_exec("sleep", "600", stdout=output)
        began = JobStarted(job=1, command="sleep 600", log=str(log), stays=stays)
        stage.session.services.context.window.record(began)
        assert "runs, begun by another program" in (await stage.run("/jobs"))[1]
        lives.kill()
        await lives.wait()
        await stage.say("what runs?")
        assert [(one.job, one.ending) for one in stage.entries(JobEnded)] == [(1, "unseen")]
        assert (await stage.run("/jobs"))[1] == "Nothing runs."
        assert "Job 1 is over, and nobody saw how it ended" in str(stage.requests()[-1])
        await stage.say("and now?")
        assert len(stage.entries(JobEnded)) == 1
