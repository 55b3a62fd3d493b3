"""A disk that refuses in the middle of a turn: said at once, nothing runs, nothing is lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mindstone_tui.cli.main import run as main
from mindstone_tui.core import events
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.transcript import History
from tests.core.session.stage import calls, check_history, on_stage, read, script
from tests.faults import sized


class FullDisk(Disk):
    """Has room for so many more writes to the transcript, and then none until some is made."""

    def __init__(self) -> None:
        self.room = 1_000_000
        self.writes = 0

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        self.writes += 1
        return super().write(fd, data)


async def writes_of_a_turn(home: Path, model: str) -> int:
    disk = FullDisk()
    async with on_stage(home, model=model, disk=disk, approve="auto-edit") as stage:
        before = disk.writes
        await stage.say("write it down")
        return disk.writes - before


def model_in(folder: Path) -> str:
    wanted = calls(("write", {"path": "out.txt", "text": "x"}), text="Writing.")
    return script(folder, wanted, {"text": "Written."}, {"text": "Later."}, loop=True)


async def test_a_turn_on_a_full_disk_ends_failed_runs_nothing_and_is_saved_later(
    home: Path, tmp_path: Path
) -> None:
    model = model_in(tmp_path)
    count = await writes_of_a_turn(tmp_path / "counted", model)
    assert count > 8
    for room in range(0, count, sized(3, 1)):
        (tmp_path / "out.txt").unlink(missing_ok=True)
        disk = FullDisk()
        base = tmp_path / f"full-{room}"
        async with on_stage(base, model=model, disk=disk, approve="auto-edit") as stage:
            disk.room = room
            ended = await stage.say("write it down")
            told = [line.kind for line in read(stage.places)]
            if ended.ending == "failed":
                assert stage.all(events.NotSaved), room
                assert "NOT SAVED" in ended.why, room
            if (tmp_path / "out.txt").exists():
                assert "tool_approved" in told, f"it ran before it was written down ({room})"
            disk.room = 0
            again = await stage.say("are you there?")
            assert again.ending == "failed"
            disk.room = 1_000_000
            assert (await stage.say("and now?")).ending == "done", room
            assert stage.all(events.SavedAgain), room
        asked = [entry.text for entry in stage.entries(UserMessage)]
        assert asked == ["write it down", "are you there?", "and now?"], room
        kinds = [line.kind for line in read(stage.places)]
        assert "window_repaired" not in kinds, f"a call lost its result ({room})"
        check_history(stage.places)


async def test_what_is_still_unsaved_at_the_close_is_rescued(home: Path, tmp_path: Path) -> None:
    disk = FullDisk()
    async with on_stage(home, model=model_in(tmp_path), disk=disk) as stage:
        disk.room = 0
        await stage.say("do not lose me")
    notice = stage.all(events.Noticed)[-1]
    rescued = list((stage.session.services.home.state / "rescued").glob("*.jsonl"))
    assert str(rescued[0]) in notice.message
    assert "do not lose me" in rescued[0].read_text()


async def test_what_was_rescued_is_taken_in_by_the_next_start_once_and_by_an_import(
    home: Path, tmp_path: Path
) -> None:
    disk = FullDisk()
    async with on_stage(home, model=model_in(tmp_path), disk=disk) as stage:
        await stage.say("saved")
        disk.room = 0
        await stage.say("do not lose me")
        await stage.say("nor me")
    folder = stage.session.services.home.rescued
    (kept,) = folder.glob("*.jsonl")
    gone = folder / "unsaved-20260101T000000-999999999.jsonl"
    left = kept.read_bytes()
    for _ in range(2):  # the second time, the program was killed before the file was removed
        gone.write_bytes(left)
        async with on_stage(home, model=model_in(tmp_path), follow=True) as again:
            await again.idle()
        assert not gone.exists()
        asked = [line for line in again.lines() if isinstance(line.entry, UserMessage)]
        told = [one.text for one in again.entries(UserMessage)]
        assert told == ["saved", "do not lose me", "nor me"]
        assert [line.turn for line in asked] == [1, 2, 3]
        assert [line.channel for line in asked[1:]] == ["rescue", "rescue"]
    check_history(again.places)
    gone.write_bytes(left)
    assert main(["import", str(gone), "--session", "elsewhere"]) == 0
    with History(again.session.services.home.session(SessionKey.parse("elsewhere"))) as history:
        said = [line.entry for line in history.read() if isinstance(line, Line)]
    assert [one.text for one in said if isinstance(one, UserMessage)] == [
        *("do not lose me", "nor me")
    ]


@pytest.mark.parametrize("room", [0, 1])
async def test_a_message_queued_on_a_full_disk_still_has_its_turn(
    home: Path, tmp_path: Path, room: int
) -> None:
    disk = FullDisk()
    slow = {"text": "one two three four", "delay_ms": 400}
    model = script(tmp_path, slow, {"text": "fine"}, loop=True)
    async with on_stage(home, model=model, disk=disk) as stage:
        stage.session.send("first")
        await stage.until(events.TextDelta)
        disk.room = room
        stage.session.send("second")
        await stage.until(events.NotSaved)
        disk.room = 1_000_000
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)
    asked = [line.entry.text for line in stage.lines() if isinstance(line.entry, UserMessage)]
    assert asked == ["first", "second"]
