"""Undo in a live session: turns are taken back and done again; nobody else's work is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from mindstone_tui import api
from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.store import CommandRun, FilesChanged, FilesRestored
from mindstone_tui.core.entries.window import Rewound
from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.handoff import handoff_store
from mindstone_tui.core.library.file_states import FilesOfSession
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.transcript import History, standings_of
from mindstone_tui.servers.lookup import Lookup
from tests.core.session.stage import Stage, calls, on_stage, script
from tests.core.undo.trees import picture


def workspace(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "src" / "b.py").write_text("x = 1\n")
    (work / "run.sh").write_bytes(b"#!/bin/sh\n")
    return work


def agree(stage: Stage) -> None:
    """Say yes to everything."""

    def answer(event: events.AnyEvent) -> None:
        if isinstance(event, events.ToolAsked):
            stage.session.answer(event.call, events.Answer(allowed=True))

    stage.on_event = answer


def model(tmp_path: Path) -> str:
    return script(
        tmp_path,
        calls(
            ("edit", {"path": "a.txt", "old_string": "two", "new_string": "three"}),
            ("write", {"path": "new/deep/c.txt", "content": "made\n"}),
        ),
        {"text": "edited"},
        {"text": "nothing to do"},
        calls(("shell", {"command": "chmod +x run.sh; mv src/b.py src/c.py; rm a.txt; ln -s x l"})),
        {"text": "ran"},
        loop=True,
    )


async def play(stage: Stage) -> None:
    agree(stage)
    for text in ("edit it", "just talk", "run it"):
        assert (await stage.say(text)).ending == "done"


async def test_turns_are_taken_back_and_done_again_byte_for_byte(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    first = picture(work)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        agree(stage)
        await stage.say("edit it")
        second = picture(work)
        await stage.say("just talk")
        await stage.say("run it")
        third = picture(work)
        assert len({str(one) for one in (first, second, third)}) == 3
        for command, expected in (
            ("/undo", second),
            ("/redo", third),
            ("/undo 2", first),
            ("/redo", third),
            ("/undo 1", second),
            ("/undo", first),
            ("/redo", second),
            ("/redo", third),
        ):
            ended, text = await stage.run(command)
            assert ended.ok, text
            assert picture(work) == expected, command
        assert not (await stage.run("/redo"))[0].ok
        assert [each.turns for each in stage.entries(FilesRestored)][:3] == [(3,), (3,), (1, 3)]
        assert len(stage.all(events.FilesRestored)) == 8
    known = FilesOfSession(stage.places)
    assert known.content(1, "a.txt") == b"one\nthree\n"
    assert known.content(0, "a.txt") == b"one\ntwo\n"
    assert {each.path: each.kind for each in known.at(3)}["a.txt"] == "none"
    count, problems = known.write(3, tmp_path / "out")
    assert not problems
    out = picture(tmp_path / "out")
    assert count == len(out) - 1, "src was not touched itself"
    assert all(out[path] == third[path] for path in out.keys() - {"src"})


async def test_what_is_there_now_has_what_was_taken_back_or_done_again_last(
    tmp_path: Path,
) -> None:
    work = workspace(tmp_path)
    writes = calls(("write", {"path": "worker.py", "content": "x\n"}))
    says = script(tmp_path, writes, *[{"text": "ok"}] * 3)
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write it")
        for command, now in (("/undo", "none"), ("/redo", "file")):
            assert (await stage.run(command))[0].ok
            for turns in (0, 1):  # right away, and one turn later
                for _ in range(turns):
                    await stage.say("go on")
                known = FilesOfSession(stage.places)
                assert [each.kind for each in known.at(None)] == [now], command
                out = tmp_path / f"{now}{turns}"
                assert known.write(None, out)[0] == (now == "file")
                assert (out / "worker.py").exists() == (now == "file")
        assert known.last_turn == 3
        assert [known.at(turn)[0].kind for turn in (0, 1, 2, 3)] == ["none", "file", "none", "file"]


async def test_the_model_is_told_once_that_files_were_put_back_and_the_prompt_goes_on_growing(
    tmp_path: Path,
) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        agree(stage)
        await stage.say("edit it")
        await stage.run("/undo")
        await stage.say("just talk")
        await stage.say("run it")
        await stage.run("/rewind turn 1")
        await stage.say("once more")
        asked = [request[-1]["content"] for request in stage.requests()[2:]]
        told = "[The person took back what turn 1 had done to files."
        assert [str(one).startswith(told) for one in asked] == [True, False, False, True, False]
        assert "a.txt, new, new/deep, new/deep/c.txt." in asked[0]
        assert asked[0].endswith("just talk")
        left = "You do not see turn 3 any more; what was done to files there stays: "
        assert [left in str(one) for one in asked] == [False, False, False, True, False]
        assert "a.txt, l, run.sh, src/b.py, src/c.py." in asked[3]
        before, after = stage.requests()[1:3]
        assert after[: len(before)] == before
        assert [one.text for one in stage.entries(UserMessage)] == [
            *("edit it", "just talk", "run it", "once more")
        ]
        await stage.run("/rewind turn 1 --files")
        await stage.say("and again")
        said = str(stage.requests()[-1][-1]["content"])
        assert "took back what" in said
        assert left not in said, "the files were put back as well"


async def test_what_a_message_that_was_rewound_told_of_files_is_told_again_as_it_stands(
    tmp_path: Path,
) -> None:
    writes = calls(("write", {"path": "x.md", "content": "x"}))
    says = script(tmp_path, writes, {"text": "ok"}, *({"text": "ok"} for _ in range(9)))
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write it")
        for step in ("/undo", "one", "/rewind turn 1", "two", "/redo", "three", "/rewind turn 1"):
            await (stage.run(step) if step.startswith("/") else stage.say(step))
        await stage.say("four")
        asked = [str(request[-1]["content"]) for request in stage.requests()[-4:]]
        undone = [one.count("The person took back what turn 1") for one in asked]
        again = [one.count("The person did again what turn 1") for one in asked]
        assert (undone, again) == ([1, 1, 0, 0], [0, 0, 1, 1])


@pytest.mark.thorough
async def test_what_was_restored_or_is_long_ago_hides_no_file_that_was_left(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    edit = calls(("edit", {"path": "a.txt", "old_string": "two", "new_string": "three"}))
    talk = script(tmp_path, {"text": "hm"}, edit, *([{"text": "well"}] * 44))
    async with on_stage(tmp_path / "home", cwd=work, model=talk, approve="full-auto") as stage:
        for number in range(38):
            await stage.say(f"message {number}")
        assert len(stage.lines()) > 256
        await stage.run("/rewind turn 1")
        await stage.run("/restore turn 3")
        await stage.say("What is in it?")
        asked = str(stage.requests()[-1][-1]["content"])
        assert "You do not see turn 2 any more; what was done to files there stays: a.txt." in asked


@pytest.mark.parametrize("again", ["a.txt", "new/deep/c.txt"])
async def test_what_changes_while_an_undo_asks_is_asked_about_as_well(
    tmp_path: Path, again: str
) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        agree(stage)
        await stage.say("edit it")
        stage.on_event = lambda event: None
        (work / "a.txt").write_text("mine\n")
        here = len(stage.heard)
        stage.session.command("/undo")
        asked = await stage.until(events.ToolAsked, lambda each: each.name == "undo", after=here)
        (work / again).write_text("theirs, just now\n")
        after = len(stage.heard)
        stage.session.answer(asked.call, events.Answer(allowed=True))
        once_more = await stage.until(
            events.ToolAsked, lambda each: each.name == "undo", after=after
        )
        assert "theirs, just now" in once_more.diff
        assert (work / again).read_text() == "theirs, just now\n"
        stage.session.answer(once_more.call, events.Answer(allowed=True))
        assert (await stage.until(events.CommandEnded, after=after)).ok
        assert (work / "a.txt").read_text() == "one\ntwo\n"
        await stage.run("/redo --anyway")


async def test_an_undo_means_no_turn_that_came_while_it_was_written(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        agree(stage)
        await stage.say("edit it")
        made = picture(work)
        here = len(stage.heard)
        stage.session.command("/undo", writing=60)
        assert not (await stage.until(events.CommandEnded, after=here)).ok
        assert picture(work) == made
        assert (await stage.run("/undo"))[0].ok
        assert picture(work) != made


async def test_undo_and_redo_mean_nothing_that_others_put_back_while_they_were_written(
    tmp_path: Path,
) -> None:
    work = workspace(tmp_path)
    surface = partial(on_stage, tmp_path / "home", cwd=work, model=model(tmp_path), follow=True)
    async with surface(channel="tui", asks=True) as app, surface(channel="web") as page:
        agree(app)
        await app.say("edit it")
        await app.say("more")
        for theirs, ours in (("/undo", "/undo"), ("/undo", "/redo")):
            began = asyncio.get_running_loop().time()
            assert (await page.run(theirs))[0].ok
            made = picture(work)
            await app.until(events.FilesRestored)
            here = len(app.heard)
            app.session.command(ours, writing=asyncio.get_running_loop().time() - began)
            ended = await app.until(events.CommandEnded, after=here)
            assert (ended.ok, picture(work) == made) == (False, True)
            assert (await page.run("/redo"))[0].ok


@pytest.mark.parametrize("line", ["/undo", "/redo", "/rewind turn 1"])
async def test_nothing_goes_back_behind_a_turn_that_runs_on_another_surface(
    tmp_path: Path, line: str
) -> None:
    work = workspace(tmp_path)
    surface = partial(on_stage, tmp_path / "home", cwd=work, model=model(tmp_path), follow=True)
    async with surface(channel="web", asks=True) as page:
        page.session.send("edit it")
        await page.until(events.ToolAsked)
        async with surface(channel="tui", asks=True) as app:
            ended, text = await app.run(line)
            assert (ended.ok, "A turn is running" in text) == (False, True)


async def test_a_rewind_means_no_turn_that_came_while_it_was_written(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        agree(stage)
        await stage.say("edit it")
        made = picture(work)
        for wanted in ("/rewind turn 0", "/rewind turn 0 --files"):
            here = len(stage.heard)
            stage.session.command(wanted, writing=60)
            assert not (await stage.until(events.CommandEnded, after=here)).ok
        assert (picture(work) == made, stage.entries(Rewound)) == (True, [])
        assert (await stage.run("/rewind turn 0 --files"))[0].ok
        assert picture(work) != made
        _, why = await stage.run("/why turn 1")
    assert [each.how for each in stage.entries(FilesRestored)] == ["typed /rewind turn"]
    assert [each.how for each in stage.entries(Rewound)] == ["typed /rewind turn"]
    for told in ("Changes of turn 1 taken back: ", "Rewound to turn 0; "):
        (line,) = [one for one in why.splitlines() if told in one]
        assert "by typing /rewind turn" in line


async def test_a_rewind_that_cannot_be_touches_no_file(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        await stage.run("/rewind turn 1")
        agree(stage)
        await stage.say("edit it")
        before = picture(work)
        _, ended = await stage.run("/rewind turn 2 --files")
        assert "was itself rewound" in str(ended)
        assert picture(work) == before
        # Before a turn is whatever counted then, rewound turns left out.
        await stage.run("/rewind before turn 4", how="picked in the list", seen=2.5)
        rewound = stage.entries(Rewound)[-1]
        assert (rewound.to_turn, rewound.how, rewound.seen) == (1, "picked in the list", 2.5)


async def test_undo_says_that_it_does_not_reach_what_a_person_ran(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        await stage.run("/shell rm run.sh")
        assert stage.entries(CommandRun)[-1].command == "/shell rm run.sh"
        before = picture(work)
        _, ended = await stage.run("/undo")
        assert "`!rm run.sh`" in str(ended)
        assert "/undo 1" in str(ended)
        assert picture(work) == before
        await stage.run("/undo 1 --rest")
        assert picture(work) != before


async def test_a_command_that_only_looked_does_not_stand_before_an_undo(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        before = picture(work)
        await stage.run("/shell git status && cat a.txt | wc -l")
        agree(stage)
        ended, text = await stage.run("/undo")
        assert ended.ok, text
        assert picture(work) != before


async def test_a_turn_that_touches_nothing_keeps_nothing(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    says = script(tmp_path, calls(("read", {"path": "a.txt"})), {"text": "read"}, loop=True)
    async with on_stage(tmp_path / "home", cwd=work, model=says) as stage:
        await stage.say("look")
        assert not stage.places.files.exists()
        ended, text = await stage.run("/undo")
        assert not ended.ok
        assert "No turn" in text


async def test_what_somebody_else_changed_is_shown_from_three_sides_and_kept(
    tmp_path: Path,
) -> None:
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        (work / "src" / "c.py").write_text("x = 'mine'\n")
        theirs = picture(work)
        stage.on_event = lambda event: None
        here = len(stage.heard)
        stage.session.command("/undo")
        asked = await stage.until(events.ToolAsked, lambda each: each.name == "undo", after=here)
        assert "the turn left" in asked.diff
        assert "x = 'mine'" in asked.diff
        stage.session.answer(asked.call, events.Answer(allowed=False))
        assert not (await stage.until(events.CommandEnded, after=here)).ok
        assert picture(work) == theirs
        ended, _ = await stage.run("/undo --rest")
        assert ended.ok
        assert (work / "src" / "c.py").read_text() == "x = 'mine'\n"
        assert (work / "a.txt").exists()
        assert (await stage.run("/redo"))[0].ok, "what the undo left alone is nobody's question"
        assert picture(work) == theirs
        ended, text = await stage.run("/undo --anyway")
        assert ended.ok
        assert (work / "src" / "b.py").read_text() == "x = 1\n"
        assert not (work / "src" / "c.py").exists()
        overwritten = stage.entries(FilesRestored)[-1]
        before = next(one.before for one in overwritten.changes if one.path == "src/c.py")
        named = f"sha256:{before.split()[-1][:12]}"
        assert f"`mindstone files {named}` prints it" in text
        assert FilesOfSession(stage.places).content(0, named) == b"x = 'mine'\n"
        with pytest.raises(UndoError, match="has the hash"):
            FilesOfSession(stage.places).content(0, "sha256:00000000")
        assert (await stage.run("/redo"))[0].ok
        assert picture(work) == theirs, "redo after undo is identity for others' files, too"


async def test_a_turn_that_came_to_nothing_is_taken_back_once(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    first = picture(work)
    says = script(
        tmp_path,
        calls(("edit", {"path": "a.txt", "old_string": "two", "new_string": "three"})),
        {"text": "edited"},
        calls(
            ("write", {"path": "c.txt", "content": "made\n"}), ("shell", {"command": "rm c.txt"})
        ),
        {"text": "made and deleted"},
    )
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("edit it")
        second = picture(work)
        await stage.say("make and delete")
        for command, expected in (
            ("/undo", second),
            ("/undo", first),
            ("/redo", second),
            ("/redo", second),
        ):
            ended, text = await stage.run(command)
            assert ended.ok, text
            assert picture(work) == expected
        assert not (await stage.run("/redo"))[0].ok


async def test_without_anybody_to_ask_nothing_is_touched(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    says = model(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("edit it")
        (work / "a.txt").write_text("mine\n")
        ended, text = await stage.run("/undo")
        assert not ended.ok
        assert "--anyway" in text
        assert "-two" in text
        assert "+mine" in text
        assert (work / "a.txt").read_text() == "mine\n"
        assert (work / "new" / "deep" / "c.txt").exists()


async def test_a_diff_tells_of_permissions_beside_the_lines(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    (work / "run.sh").chmod(0o644)
    changes = "chmod 755 run.sh; echo ls >> run.sh"
    says = script(tmp_path, calls(("shell", {"command": changes})), {"text": "ran"})
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("go")
        _, diff = await stage.run("/diff")
    assert "run.sh: changed, permissions 644 → 755\n" in diff
    assert "+ls" in diff


async def test_rewind_takes_files_along_diff_and_why_explain_them(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    first = picture(work)
    async with on_stage(tmp_path / "home", cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        _, why = await stage.run("/why src/c.py")
        assert "turn 3" in why
        assert "shell" in why
        assert "run it" in why
        _, diff = await stage.run("/diff turn 1")
        assert "-two\n+three" in diff
        assert not (await stage.run("/why nothing/of/this/name"))[0].ok
        await stage.run("/undo 2")
        assert "put back by /undo" in (await stage.run("/why a.txt"))[1]
        assert "as it was before." in (await stage.run("/why a.txt"))[1]
        await stage.run("/redo")
        await stage.run("/undo")
        _, why = await stage.run("/why a.txt")
        assert "as edit" in why
        assert "in turn 1 left it" in why
        assert "“edit it”" in why
        await stage.run("/redo")
        left = picture(work)
        _, said = await stage.run("/rewind turn 2")
        assert "src/c.py" in said
        assert "`/rewind turn 2 --files` puts them back" in said
        assert picture(work) == left
        ended, text = await stage.run("/rewind turn 1 --files")
        assert ended.ok, text
        assert "puts them back" not in text
        assert (work / "a.txt").read_text() == "one\nthree\n"
        _, why = await stage.run("/why a.txt")
        assert "put back by /rewind --files" in why
        assert "in turn 1 left it" in why
        assert "rewound" not in why, "turn 1 stands"
        assert (await stage.run("/undo"))[0].ok
        assert picture(work) == first


async def test_nothing_outside_the_workspace_is_reached_through_a_link(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("x = 2\n")
    says = script(
        tmp_path,
        calls(("write", {"path": "src/b.py", "content": "x = 2\n"})),
        {"text": "edited"},
        loop=True,
    )
    async with on_stage(tmp_path / "home", cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("edit it")
        (work / "src" / "b.py").unlink()
        (work / "src").rmdir()
        (work / "src").symlink_to(outside)
        for command in ("/undo", "/undo --anyway"):
            await stage.run(command)
            assert (outside / "b.py").read_text() == "x = 2\n"
            assert [each.name for each in outside.iterdir()] == ["b.py"]


async def test_another_folder_is_not_the_workspace(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    says: dict[str, Any] = {"model": model(tmp_path), "approve": "auto-edit"}
    async with on_stage(tmp_path / "home", cwd=work, **says) as stage:
        await stage.say("edit it")
        after = picture(work)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with on_stage(tmp_path / "home", cwd=elsewhere, **says) as stage:
        ended, text = await stage.run("/undo")
        assert not ended.ok
        assert str(work) in text
    assert picture(work) == after


async def test_a_call_that_was_interrupted_is_undone_all_the_same(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    first = picture(work)
    says = script(
        tmp_path,
        calls(("shell", {"command": "echo new > made; echo started; sleep 600"})),
        {"text": "never"},
        loop=True,
    )
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        here = len(stage.heard)
        stage.session.send("run it")
        await stage.until(events.ToolOutput, lambda each: "started" in each.text)
        stage.session.interrupt()
        assert (await stage.until(events.TurnEnded, after=here)).ending == "interrupted"
        assert (work / "made").exists()
        ended, text = await stage.run("/undo")
        assert ended.ok, text
        assert picture(work) == first
        assert len(stage.entries(FilesChanged)) == 1


async def test_secrets_in_files_reach_neither_history_nor_screen(tmp_path: Path) -> None:
    work = workspace(tmp_path)
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    says = script(
        tmp_path,
        calls(("write", {"path": "conf.ini", "content": f"token = {secret}\n"})),
        {"text": "done"},
        loop=True,
    )
    async with on_stage(tmp_path / "home", cwd=work, model=says, approve="auto-edit") as stage:
        await stage.say("write it")
        for command in ("/diff", "/undo", "/redo"):
            _, text = await stage.run(command)
            assert secret not in text
        assert (work / "conf.ini").read_text() == f"token = {secret}\n"
    assert secret.encode() not in stage.places.transcript.read_bytes()
    assert all(path.stat().st_mode & 0o77 == 0 for path in stage.places.files.rglob("*"))


async def test_what_is_found_after_a_kill_is_nobodys_until_a_person_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, then = workspace(tmp_path), tmp_path / "then"
    wish = ("shell", {"command": "echo one > one.txt"})
    says = script(tmp_path, calls(wish), {"text": "ran"}, loop=True)
    chosen: dict[str, Any] = {"cwd": work, "model": says}

    def keep(event: events.AnyEvent) -> None:
        """Keep what a kill leaves while the call runs: its note, and no word of its end."""
        if isinstance(event, events.ToolAsked):
            stage.session.answer(event.call, events.Answer(allowed=True))
        if isinstance(event, events.ToolStarted):
            shutil.copytree(tmp_path / "home", then)

    async with on_stage(tmp_path / "home", asks=True, **chosen) as stage:
        stage.on_event = keep
        await stage.say("make it")
    (work / "mine.txt").write_text("written by hand\n")
    (work / "a.txt").write_text("changed by hand\n")
    theirs = picture(work)
    script(tmp_path, {"text": "nothing"}, loop=True)
    async with on_stage(then, **chosen) as stage:
        assert "or since, nobody knows" in (await stage.run("/why mine.txt"))[1]
        assert "nobody knows: a.txt, mine.txt, one.txt" in (await stage.run("/diff"))[1]
    async with on_stage(then, **chosen) as stage:
        await stage.say("what happened?")
        assert [entry.recovered for entry in stage.entries(FilesChanged)] == [True]
        _, why = await stage.run("/why mine.txt")
        assert "or since, nobody knows" in why
        assert "You asked" not in why
        assert "unknown" in (await stage.run("/blame mine.txt"))[1]
        assert "nobody knows: a.txt, mine.txt, one.txt" in (await stage.run("/diff"))[1]
        ended, text = await stage.run("/undo")
        assert not ended.ok
        assert "3 files changed by a call that was cut short or since, nobody knows" in text
        assert picture(work) == theirs
        ended, text = await stage.run("/undo --anyway")
        assert ended.ok, text
        assert "What was in mine.txt is kept: `mindstone files sha256:" in text
        assert not (work / "mine.txt").exists()
        assert (await stage.run("/redo"))[0].ok
        assert picture(work) == theirs
        assert (await stage.run("/undo --rest"))[0].ok
        assert picture(work) == theirs
    monkeypatch.setenv("MINDSTONE_HOME", str(then))
    assert run_verb(["about", "one.txt"]) == 0
    told = capsys.readouterr().out
    assert "  may have changed it\n" in told
    assert "changed by a call that was cut short or since, nobody knows: a.txt, mine.txt" in told
    assert not {"worked on it", "    changed a.txt"} & {*told.split("  "), *told.splitlines()}


async def test_a_session_from_another_machine_tells_what_it_did_to_files_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, here = workspace(tmp_path), tmp_path / "here"
    for folder in (here, tmp_path / "stick"):
        folder.mkdir()
    async with on_stage(
        tmp_path / "home", cwd=work, model=model(tmp_path), approve="auto-edit"
    ) as stage:
        await stage.say("edit it")
    for home in ("home", "second"):
        monkeypatch.setenv("MINDSTONE_HOME", str(tmp_path / home))
        assert run_verb(["sync", str(tmp_path / "stick")]) == 0
    capsys.readouterr()
    assert run_verb(["files", "-s", "main"]) == 0
    told = capsys.readouterr()
    assert [row.split("/work/")[1] for row in told.out.splitlines()[1:]] == [
        *("a.txt", "new", "new/deep", "new/deep/c.txt")
    ]
    assert "2 files by the transcript alone: what was in it is not kept on this machine" in told.err
    assert run_verb(["files", "-s", "main", "--out", str(tmp_path / "out")]) == 0
    assert "a.txt: what was in it is not kept on this machine" in capsys.readouterr().err
    (work / "a.txt").write_text("this machine has another\n")
    for folder in (here, work):
        async with on_stage(tmp_path / "second", cwd=folder) as stage:
            for name in ("a.txt", str(work / "a.txt")):
                _, why = await stage.run(f"/why {name}")
                assert f"{'' if folder == work else f'{work}/'}a.txt: changed by edit" in why
                assert "The transcript alone says so: what was in it is not kept" in why
                assert "Somebody" not in why
            _, shown = await stage.run("/diff")
            assert "a.txt: changed" in shown
            assert "new/deep/c.txt: created" in shown
            assert not (await stage.run("/undo"))[0].ok


async def test_a_file_that_an_undo_left_alone_is_not_told_as_taken_back(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = workspace(tmp_path)
    writes = calls(
        *(("write", {"path": name, "content": f"{name}\n"}) for name in ("x.md", "y.md"))
    )
    says = script(tmp_path, writes, {"text": "Wrote both."}, loop=True)
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write both")
        (work / "y.md").write_text("mine\n")
        assert (await stage.run("/undo --rest"))[0].ok
        by = next(line.seq for line in stage.lines() if line.kind == "files_restored")
        await stage.run("/handoff write")
        _, letter = await stage.run("/handoff show")
        assert "- x.md (changed, turn 1, taken back" in letter
        assert "- y.md (changed, turn 1;" in letter
        assert f"changes to files taken back by line {by}, all but y.md" in letter
        assert "all but y.md)" in (await stage.run("/diff turn 1"))[1]
    assert run_verb(["about", "x.md"]) == 0
    assert f"worked on it  changes to files taken back by #{by}" in capsys.readouterr().out
    assert run_verb(["about", "y.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exchanges"][0]["undone"] == 0
    assert run_verb(["export", "main", "-f", "md", "-o", str(tmp_path / "said.md")]) == 0
    told = "What this turn did to files was taken back, all but y.md"
    assert told in (tmp_path / "said.md").read_text()


async def test_of_several_turns_each_names_its_own_files_that_were_left_alone(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = workspace(tmp_path)
    said = (
        (("x.md", "w.md"), "The heron."),
        (("y.md",), "The stork."),
        (("z.md",), "The crane."),
    )
    says = script(
        tmp_path,
        *(
            reply
            for names, text in said
            for reply in (
                calls(*(("write", {"path": name, "content": f"{name}\n"}) for name in names)),
                {"text": text},
            )
        ),
    )
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        agree(stage)
        for text in ("first", "second", "third"):
            await stage.say(text)
        for name in ("w.md", "z.md"):
            (work / name).write_text("mine\n")
        assert (await stage.run("/undo 3 --rest"))[0].ok
        by = next(line.seq for line in stage.lines() if line.kind == "files_restored")
        with History(stage.places) as history:
            known = standings_of(history)
        taken = "What this turn did to files was taken back"
        assert known.notes(1) == (f"{taken}, all but w.md.",)
        assert known.notes(2) == (f"{taken}.",)
        assert known.notes(3) == ()
    mark = f"changes to files taken back by #{by}"
    for word, ends in (("heron", f"{mark}, all but w.md"), ("stork", mark), ("crane", "assistant")):
        capsys.readouterr()
        assert run_verb(["search", word]) == 0
        assert capsys.readouterr().out.splitlines()[2].endswith(ends)
    assert run_verb(["about", "z.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exchanges"][0]["files"] == ["z.md"]


@pytest.mark.parametrize("mine", ["one/x.md", "two/y.md"])
async def test_of_several_folders_what_any_left_alone_is_named(
    home: Path, tmp_path: Path, mine: str
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in (home, *folders):
        folder.mkdir()
    names = (("one/x.md", "two/x.md"), ("two/y.md", "one/y.md"), ("two/y.md", "two/y2.md"))
    writes = [
        calls(*(("write", {"path": str(tmp_path / one), "content": f"{n}\n"}) for one in both))
        for n, both in enumerate(names)
    ]
    says = script(tmp_path, *(reply for one in writes for reply in (one, {"text": "So."})))
    roots = json.dumps([str(folder) for folder in folders])
    (home / "config.toml").write_text(f"[tools]\nroots = {roots}\n")
    async with on_stage(home, cwd=folders[0], model=says, asks=True) as stage:
        agree(stage)
        for text in ("first", "second", "third"):
            await stage.say(text)
        (tmp_path / mine).write_text("mine\n")
        printed = (await stage.run("/undo 3 --rest"))[1]
        assert printed.count("Left as it is") == 1
        taken, left = "What this turn did to files was taken back", mine[4:]
        for turn, all_but in enumerate(names, 1):
            with History(stage.places) as history:
                ends = f", all but {left}." if mine in all_but else "."
                assert standings_of(history).notes(turn) == (taken + ends,)


@pytest.mark.parametrize("again", [False, True])
async def test_whatever_finds_a_turn_names_the_files_that_its_undo_left_alone(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], again: bool
) -> None:
    work = workspace(tmp_path)
    does = calls(
        *(("write", {"path": name, "content": f"{name}\n"}) for name in ("x.md", "y.md", "z.md")),
        ("shell", {"command": "touch heron.md"}),
    )
    says = script(tmp_path, does, {"text": "Wrote the heron down."}, {"text": "So."}, loop=True)
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write the heron down")
        (work / "y.md").write_text("mine\n")
        assert (await stage.run("/undo --rest"))[0].ok
        if again:
            (work / "z.md").write_text("mine\n")
            assert (await stage.run("/redo --rest"))[0].ok
        by = next(line.seq for line in stage.lines() if line.kind == "files_restored")
        left = ["y.md", "heron.md", "x.md"] if again else ["y.md"]
        mark = f"changes to files taken back by #{by}, all but {', '.join(left)}"
        await stage.run("/handoff write")
        assert mark.replace("#", "line ") in (await stage.run("/handoff show"))[1]
        assert mark in (await stage.run("/recall heron"))[1]
    for verb in (["search", "heron"], ["recall", "heron"], ["how", "touch"], ["about", "heron"]):
        capsys.readouterr()
        assert run_verb(verb) == 0
        assert mark in capsys.readouterr().out, verb
    for verb in (["search", "heron", "--json"], ["recall", "heron", "--json"]):
        assert run_verb(verb) == 0
        assert json.loads(capsys.readouterr().out)["hits"][0]["left_alone"] == left
    assert run_verb(["about", "y.md", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["exchanges"][0]
    assert (told["undone"], {*told["files"]}) == (0, {*left})
    asked = Lookup(api.Home(home))
    for found in (asked.search("heron"), asked.recall("heron")):
        assert [*found["hits"][0]["left_alone"]] == left


async def test_what_was_told_of_a_file_holds_again_once_it_is_put_back(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    says = script(
        tmp_path,
        calls(("write", {"path": "cfg.ini", "content": "port=7001\n"})),
        {"text": "cfg.ini now says port 7001."},
        calls(
            ("edit", {"path": "cfg.ini", "old_string": "7001", "new_string": "7002"}),
            ("write", {"path": "log.md", "content": "7002\n"}),
        ),
        {"text": "Done."},
        {"text": "Well."},
        loop=True,
    )

    async def holds(stage: Stage) -> bool:
        """Whether the first report is told as what holds, whoever is asked."""
        await stage.rest()
        known = next(line for line in stage.lines() if "now says" in str(line.entry))
        (found,) = (
            one
            for one in Lookup(api.Home(home)).recall("cfg.ini port")["hits"]
            if one["line"] == known.seq
        )
        with History(stage.places) as history:
            told = [one.what for one in standings_of(history).of(known)]
            gone = (known.seq, ()) in handoff_store.corrected(history, known.seq)
        assert bool(found.get("superseded_by")) == bool(told) == gone
        return not told

    work = workspace(tmp_path)
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("Create cfg.ini with port 7001")
        await stage.say("Correction: the port in cfg.ini is 7002, not 7001.")
        assert not await holds(stage)
        for step, so in (("/undo", True), ("/redo", False), ("/undo", True)):
            assert (await stage.run(step))[0].ok
            assert await holds(stage) is so, step
        await stage.say("Which port does cfg.ini say?")
        assert await holds(stage)
        assert (await stage.run("/redo"))[0].ok
        (work / "cfg.ini").write_text("port=7002\nmine\n")
        assert (await stage.run("/undo --rest"))[0].ok
        assert not await holds(stage), "what it tells of was left alone"
        await stage.say("And which port does cfg.ini say now?")
        assert not await holds(stage)


async def test_what_left_the_window_is_still_told_as_taken_back(home: Path, tmp_path: Path) -> None:
    writes = calls(("write", {"path": "heron.md", "content": "x"}))
    says = script(tmp_path, writes, *({"text": "ok"} for _ in range(9)))
    async with on_stage(home, cwd=workspace(tmp_path), model=says, approve="auto-edit") as stage:
        await stage.say("write it")
        await stage.run("/notes learnings A heron nests here.")
        assert (await stage.run("/undo"))[0].ok
        for text in ("second", "third", "fourth", "fifth"):
            await stage.say(text)
        await stage.rest()
        assert (await stage.run("/prune 1"))[0].ok
        found = (await stage.run("/recall heron"))[1]
        assert ", write, changes to files taken back by" in found
        assert ", note, changes to files taken back by" not in found
        assert ", note" in found


async def test_why_offers_nothing_that_was_done_since(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, cwd=workspace(tmp_path), model=model(tmp_path), asks=True) as stage:
        await play(stage)
        for step in ("/undo", "/redo"):
            assert (await stage.run(step))[0].ok
        told = (await stage.run("/why turn 3"))[1]
    assert told.count("Changes of turn 3") == 2
    assert "/redo does it again" not in told
    assert "/undo takes it back" not in told


async def test_what_is_taken_back_where_a_fork_comes_from_is_taken_back_in_the_fork(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, child = workspace(tmp_path), SessionKey.parse("child")
    async with on_stage(home, cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        assert (await stage.run("/fork child turn 2"))[0].ok
    for step, words in (("/undo 2", "taken back"), ("/redo", "done again"), ("/undo 2", "taken")):
        async with on_stage(home, cwd=work, model=model(tmp_path), asks=True) as stage:
            assert (await stage.run(step))[0].ok
        async with on_stage(home, key=child, cwd=work, model=model(tmp_path), asks=True) as fork:
            await fork.run("/title the fork")  # whoever comes next hears of it
            _, why = await fork.run("/why turn 1")
            assert words in why.rpartition("\n")[2]
            assert "/redo does it again" not in why
            assert ("changes to files taken back by" in why) is ("undo" in step)
            assert ("changes to files taken back by" in (await fork.run("/diff turn 1"))[1]) is (
                "undo" in step
            )
            _, why = await fork.run("/why a.txt")
            assert "Somebody else" not in why
            assert f"by {step.split()[0]} (line" in why
            restored = [line for line in fork.lines() if line.kind == "files_restored"]
            assert all(line.entry.turns == (1,) for line in restored)  # type: ignore[union-attr]
    assert len(restored) == 3, "each is written down once"
    assert run_verb(["verify", "-s", "child"]) == 0


async def test_more_turns_than_there_are_is_a_slip_and_takes_nothing_back(
    home: Path, tmp_path: Path
) -> None:
    work = workspace(tmp_path)
    async with on_stage(home, cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        before = {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}
        ended, said = await stage.run("/undo 44")
        assert not ended.ok
        assert "Only 2 turns changed files" in said + str(ended)
        assert before == {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}


async def test_a_fork_of_an_idle_fork_hears_of_it_once_whoever_tells_it(
    home: Path, tmp_path: Path
) -> None:
    work, says = workspace(tmp_path), model(tmp_path)
    child, grandchild = SessionKey.parse("child"), SessionKey.parse("grandchild")
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        await play(stage)
        assert (await stage.run("/fork child turn 2"))[0].ok
    async with on_stage(home, key=child, cwd=work, model=says, asks=True) as fork:
        assert (await fork.run("/fork grandchild turn 1"))[0].ok
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        assert (await stage.run("/undo 2"))[0].ok
    for key in (grandchild, child, grandchild):
        async with on_stage(home, key=key, cwd=work, model=says, asks=True) as fork:
            await fork.run("/title it")  # whoever comes next hears of it
            assert "changes to files taken back by" in (await fork.run("/diff turn 1"))[1]
            restored = [line for line in fork.lines() if line.kind == "files_restored"]
            assert len(restored) == 1


async def test_a_task_shows_its_files_as_they_are(tmp_path: Path) -> None:
    says = script(
        tmp_path, calls(("write", {"path": "m.txt", "content": "12\n"})), {"text": "So."}, loop=True
    )
    async with on_stage(tmp_path / "home", cwd=workspace(tmp_path), model=says, asks=True) as stage:
        agree(stage)
        await stage.run("/task start Raise the mast")
        await stage.say("Write m.txt")
        await stage.run("/checkpoint save")
        assert "m.txt (3 bytes on disk)" in (await stage.run("/task"))[1]
        assert (await stage.run("/undo"))[0].ok
        assert "m.txt (not on disk)" in (await stage.run("/task"))[1]


async def test_files_are_shown_as_turns_left_them_with_those_that_are_others_by_now(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = workspace(tmp_path)
    async with on_stage(home, cwd=work, model=model(tmp_path), asks=True) as stage:
        await play(stage)
        (work / "new/deep/c.txt").write_text("mine\n")
    async with on_stage(home, cwd=work, model=model(tmp_path)) as stage:
        refused, said = await stage.run("/rewind before turn 1 --files")
        assert not refused.ok
        assert "`/rewind before turn 1 --files --rest` leaves them" in said
        _, said = await stage.run("/undo 2 --rest")
        assert "new/" not in said.replace("Left as it is: new/deep/c.txt", "")
        assert (work / "new/deep").is_dir(), "a folder with somebody else's file in it stays"
    assert run_verb(["files", "-s", "main"]) == 0
    told = capsys.readouterr()
    assert told.err == "Changed by somebody else since: new/deep/c.txt.\n"
    assert not re.search("not there.*/new(/deep)?$", told.out, re.MULTILINE)
    for step in (["files", "--at", "1", "-s", "main"], ["files", "--json", "-s", "main"]):
        assert run_verb(step) == 0
        assert capsys.readouterr().err == ""
    (work / "new/deep/c.txt").write_text("made\n")
    assert run_verb(["files", "-s", "main"]) == 0
    assert capsys.readouterr().err == ""


async def test_a_fork_names_the_session_whose_turns_changed_files_before_it(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with on_stage(home, cwd=workspace(tmp_path), model=model(tmp_path), asks=True) as stage:
        agree(stage)
        assert run_verb(["files", "-s", "main"]) == 0
        assert capsys.readouterr().err == "No turn of this session changed a file.\n"
        await stage.say("edit it")
        assert (await stage.run("/fork agent:default:other"))[0].ok
    assert run_verb(["files", "-s", "other"]) == 0
    key = stage.places.key
    told = f"Before the fork, turns of {key} changed files: mindstone files -s {key}\n"
    assert capsys.readouterr().err == told


async def test_a_file_that_a_redo_left_alone_stays_taken_back_by_name(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = workspace(tmp_path)
    writes = calls(
        *(("write", {"path": name, "content": f"{name}\n"}) for name in ("x.md", "y.md"))
    )
    says = script(tmp_path, writes, {"text": "Wrote the heron down."}, {"text": "So."}, loop=True)
    async with on_stage(home, cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write both")
        assert (await stage.run("/undo"))[0].ok
        by = next(line.seq for line in stage.lines() if line.kind == "files_restored")
        (work / "y.md").write_text("mine\n")
        assert (await stage.run("/redo --rest"))[0].ok
        await stage.run("/handoff write")
        _, letter = await stage.run("/handoff show")
        assert "- y.md (changed, turn 1, taken back" in letter
        assert "- x.md (changed, turn 1;" in letter
        marked = f"changes to files taken back by line {by}, all but x.md"
        assert marked in letter
        assert "all but x.md)" in (await stage.run("/diff turn 1"))[1]
        await stage.say("well?")
        told = str(stage.requests()[-1][-1]["content"])
        assert "Files changed by that: x.md. Left as they were: y.md." in told
    for name, undone in (("x.md", 0), ("y.md", by)):
        capsys.readouterr()
        assert run_verb(["about", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["exchanges"][0]["undone"] == undone, name
    assert run_verb(["search", "heron", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["undone_by"] == by
    assert run_verb(["export", "main", "-f", "md", "-o", str(tmp_path / "said.md")]) == 0
    said = (tmp_path / "said.md").read_text()
    assert "What this turn did to files was taken back, all but x.md" in said


async def test_the_model_hears_once_more_of_an_undo_whose_turn_it_sees_again(
    tmp_path: Path,
) -> None:
    work = workspace(tmp_path)
    writes = calls(("write", {"path": "x.md", "content": "x"}))
    says = script(tmp_path, writes, *({"text": "ok"} for _ in range(9)))
    async with on_stage(tmp_path / "home", cwd=work, model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write it")
        await stage.run("/undo")
        for text in ("second", "third", "fourth", "fifth"):
            await stage.say(text)
        assert (await stage.run("/prune 3"))[0].ok
        assert (await stage.run("/restore turn 1"))[0].ok
        await stage.say("sixth")
        assert "What turn 1 did to files was taken back." in str(stage.requests()[-1])
        await stage.say("seventh")
        assert str(stage.requests()[-1]).count("What turn 1 did to files") == 1


async def test_the_model_hears_that_it_sees_a_turn_again_whose_files_it_was_told_of(
    tmp_path: Path,
) -> None:
    writes = calls(("write", {"path": "x.md", "content": "x"}))
    says = script(tmp_path, {"text": "Hi."}, writes, *({"text": "ok"} for _ in range(9)))
    work = workspace(tmp_path)
    async with on_stage(tmp_path / "home", cwd=work, model=says, approve="auto-edit") as stage:
        for text in ("hello", "write it"):
            await stage.say(text)
        await stage.run("/rewind turn 1")
        await stage.say("two?")
        assert "You do not see turn 2 any more" in str(stage.requests()[-1])
        assert (await stage.run("/restore turn 2"))[0].ok
        await stage.say("three?")
        assert "You see turn 2 again." in str(stage.requests()[-1][-1])
        await stage.say("four?")
        assert str(stage.requests()[-1]).count("You see turn 2 again.") == 1
        for command in ("/prune 1", "/restore turn 1"):
            await stage.run(command)
        await stage.say("five?")
        assert "again" not in str(stage.requests()[-1][-1])
        for command in ("/rewind turn 1 --files", "/restore turn 2", "/rewind turn 1"):
            await stage.run(command)
        await stage.say("six?")
        assert "You see turn 2 again" not in str(stage.requests()[-1])
        for command in ("/restore turn 2", "/prune 2"):
            assert (await stage.run(command))[0].ok
        await stage.say("seven?")
        assert "write it" not in str(stage.requests()[-1])
        assert "You see turn 2 again" not in str(stage.requests()[-1])


async def test_an_older_library_learns_what_was_undone_before(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writes = calls(("write", {"path": "x.md", "content": "x"}))
    says = script(tmp_path, writes, {"text": "Wrote the heron down."}, loop=True)
    async with on_stage(home, cwd=workspace(tmp_path), model=says, asks=True) as stage:
        agree(stage)
        await stage.say("write it")
        await stage.run("/undo")
    assert run_verb(["search", "heron"]) == 0
    with contextlib.closing(apsw.Connection(str(home / "library.db"))) as library:
        for table in ("passages", "acts"):
            for column in ("undone", "left_alone"):
                library.execute(f"alter table {table} drop column {column}")
        library.execute("pragma user_version = 4")
    capsys.readouterr()
    assert run_verb(["search", "heron"]) == 0
    assert "changes to files taken back by #" in capsys.readouterr().out
