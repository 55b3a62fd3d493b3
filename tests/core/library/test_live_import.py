"""A file that is being written is taken over as it grows: everything, once, in whole exchanges."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import AttachSettings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.entries.store import FileChange, FilesRestored
from mindstone_tui.core.errors import MindstoneError, NotASession
from mindstone_tui.core.interchange.attach import forget, plan_attach, remember
from mindstone_tui.core.interchange.attach_targets import AttachCommand, target_of
from mindstone_tui.core.library.watch import (
    FolderWatch,
    GrowingFile,
    LiveImports,
    begin,
    end_watching,
    is_wanted,
)
from mindstone_tui.core.paths import Places
from mindstone_tui.core.text import as_data
from mindstone_tui.core.transcript import History, verify
from tests.builders import say, transcript_in

SETTINGS = Settings(attach=AttachSettings(settle=1.0, idle=60.0))


class ClaudeFile:
    """What Claude Code writes, line by line."""

    def __init__(self, session: str = "s1", cwd: str = "/srv/app") -> None:
        self.lines: list[str] = []
        self._session = session
        self._cwd = cwd

    def add(self, kind: str, **message: Any) -> None:
        number = len(self.lines)
        record = {
            "type": kind,
            "uuid": f"{self._session}-{number}",
            "parentUuid": f"{self._session}-{number - 1}" if number else None,
            "sessionId": self._session,
            "cwd": self._cwd,
            "isSidechain": False,
            "timestamp": f"2026-11-15T10:{number // 60:02d}:{number % 60:02d}.000Z",
            "message": message,
        }
        self.lines.append(json.dumps(record) + "\n")

    def exchange(self, number: int, padding: str = "", back_to: str = "") -> None:
        said = {"role": "assistant", "model": "opus"}
        use = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "ls"}}
        gave = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"out {number}"}
        self.add("user", role="user", content=f"question {number}{padding}")
        if back_to:
            asked = json.loads(self.lines[-1])
            asked["parentUuid"] = json.loads(back_to)["uuid"]
            self.lines[-1] = json.dumps(asked) + "\n"
        thought = [{"type": "thinking", "thinking": f"thought {number}"}]
        self.add("assistant", id=f"m{number}", content=thought, **said)
        text = [{"type": "text", "text": f"text {number}"}]
        self.add("assistant", id=f"m{number}", content=text, **said)
        self.add("assistant", id=f"m{number}", content=[use], **said)
        self.add("user", role="user", content=[gave])
        answer = [{"type": "text", "text": f"answer {number}"}]
        self.add("assistant", id=f"n{number}", content=answer, **said)


def home_in(tmp_path: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(tmp_path / "ours")})


def lines_of(home: Places) -> list[Line]:
    (own,) = list(home.sessions())
    assert verify(own).ok
    with History(own) as history:
        return [line for line in history.read() if isinstance(line, Line)]


def said_in(home: Places) -> list[str]:
    """Every text in order; a thought that goes with one is not counted twice."""
    kinds = {"user_message", "assistant_message", "tool_returned"}
    found = [getattr(line.entry, "text", "") for line in lines_of(home) if line.kind in kinds]
    return [text for text in found if text]


def expected(exchanges: int) -> list[str]:
    return [
        text
        for number in range(exchanges)
        for text in (
            f"question {number}",
            f"text {number}",
            f"out {number}",
            f"answer {number}",
        )
    ]


def thoughts_in(home: Places) -> Counter[str]:
    return Counter(
        thought.text for line in lines_of(home) for thought in getattr(line.entry, "thinking", ())
    )


@pytest.mark.parametrize("settled", [True, False])
def test_however_often_it_is_looked_at_each_exchange_is_one_turn(
    tmp_path: Path, *, settled: bool
) -> None:
    home, file = home_in(tmp_path), tmp_path / "s1.jsonl"
    written = ClaudeFile()
    for number in range(3):
        written.exchange(number)
    live = LiveImports(home, SETTINGS, {}).of(file)
    for at in range(1, len(written.lines) + 1):
        file.write_text("".join(written.lines[:at]))
        live.catch_up(settled=settled)
    live.catch_up(settled=True)
    assert said_in(home) == expected(3)
    kinds = Counter(line.kind for line in lines_of(home))
    assert (kinds["turn_started"], kinds["turn_ended"]) == (3, 2)  # the last one is open
    assert set(thoughts_in(home).values()) == {1}
    live.close()
    assert said_in(home) == expected(3)
    kinds = Counter(line.kind for line in lines_of(home))
    assert (kinds["turn_started"], kinds["turn_ended"], kinds["imported"]) == (3, 3, 1)


@pytest.mark.parametrize("size", [0, 400_000])
def test_what_the_program_went_back_before_while_it_is_followed_is_told_so(
    tmp_path: Path, size: int
) -> None:
    home, file = home_in(tmp_path), tmp_path / "s1.jsonl"
    written = ClaudeFile()

    def taken_back() -> list[str]:
        live.catch_up(settled=True)
        known, lines = Standings(lines_of(home)), lines_of(home)
        gone = [line for line in lines if "taken back there" in str(known.of(line))]
        assert {line.kind for line in gone} <= {
            *("user_message", "assistant_message", "tool_called", "tool_returned")
        }
        return [getattr(line.entry, "text", "") for line in gone if line.kind == "user_message"]

    live = LiveImports(home, SETTINGS, {}).of(file)
    for number in range(5):
        written.exchange(number, "x" * size)
        file.write_text("".join(written.lines))
        assert taken_back() == []
    written.exchange(5, back_to=written.lines[-7])
    file.write_text("".join(written.lines))
    assert [text[:10] for text in taken_back()] == ["question 4"]
    before = len(lines_of(home))
    assert len(taken_back()) == 1
    assert len(lines_of(home)) == before
    live.close()
    assert len(taken_back()) == 1


def test_files_that_are_put_back_while_a_session_is_followed_are_told_so(tmp_path: Path) -> None:
    home, theirs = home_in(tmp_path), transcript_in(tmp_path / "theirs")
    say(theirs, "Write app.py", "Done.")
    live = LiveImports(home, SETTINGS, {}).of(theirs.places.transcript)
    live.catch_up(settled=True)
    theirs.append(
        FilesRestored(
            direction="undo",
            turns=(1,),
            total=1,
            changes=(FileChange(path="app.py"),),
            root="/p",
            manifest="0" * 64,
            token="t",
        ),
        turn=1,
    )
    for _ in range(2):
        live.catch_up(settled=True)
        (act,) = [line for line in lines_of(home) if line.kind == "files_restored"]
        assert Standings(lines_of(home)).undone.of_turn(1) == act.seq
    theirs.close()


def test_a_prompt_and_a_finished_call_are_there_while_the_exchange_is_open(tmp_path: Path) -> None:
    home, file = home_in(tmp_path), tmp_path / "s1.jsonl"
    written = ClaudeFile()
    written.exchange(0)
    live = LiveImports(home, SETTINGS, {}).of(file)
    seen = []
    for at in (1, 2, 4, 5, 6):
        file.write_text("".join(written.lines[:at]))
        live.catch_up(settled=True)
        seen.append(said_in(home))
    question, text, out, answer = expected(1)
    assert seen == [
        [question],
        [question],  # a thought alone is no answer yet
        [question, text],
        [question, text, out],
        [question, text, out, answer],
    ]


def test_killed_anywhere_and_cut_within_any_line_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Each look is a new process that knows nothing, and meets a file that ends anywhere."""
    home, file = home_in(tmp_path), tmp_path / "s1.jsonl"
    written = ClaudeFile()
    for number in range(2):
        written.exchange(number)
    whole = "".join(written.lines)
    for end in [*range(40, len(whole), 97), len(whole)]:
        file.write_text(whole[:end])
        live = LiveImports(home, SETTINGS, {}).of(file)
        with contextlib.suppress(NotASession):  # half of the first line says nothing yet
            live.catch_up(settled=end % 2 == 0)
    live.close()
    assert said_in(home) == expected(2)
    assert set(thoughts_in(home).values()) == {1}


def test_a_look_that_a_full_disk_broke_off_is_completed_by_the_next_one(
    tmp_path: Path, file_size_limit: Callable[[int], None]
) -> None:
    """Wherever in the look the disk refused, and whatever was open when it began."""
    source = ClaudeFile()
    for number in range(4):
        source.exchange(number)
    whole = "".join(source.lines)
    for begun in (1, 4, 5):
        for room in range(0, 9_000, 1_500):
            home = home_in(tmp_path / f"{begun}-{room}")
            file = tmp_path / f"{begun}-{room}.jsonl"
            file.write_text("".join(source.lines[:begun]))
            live = LiveImports(home, SETTINGS, {}).of(file)
            live.catch_up(settled=True)
            (own,) = list(home.sessions())
            file.write_text(whole)
            file_size_limit(own.transcript.stat().st_size + room)
            with contextlib.suppress(MindstoneError, OSError):
                live.catch_up(settled=True)
            file_size_limit(resource.RLIM_INFINITY)
            live.catch_up(settled=True)
            assert said_in(home) == expected(4), (begun, room)
            kinds = Counter(line.kind for line in lines_of(home))
            assert kinds["turn_started"] == 4


def test_of_a_long_file_only_the_end_is_read_again_and_a_new_one_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "s1.jsonl"
    written = ClaudeFile()
    for number in range(8):
        written.exchange(number, padding="x" * 200_000)
    file.write_text("".join(written.lines))
    growing = GrowingFile(file, "claude-code")
    assert growing.look() == 0
    assert growing.look() == 0  # what was looked at was not taken
    growing.was_taken()
    start = growing.look()
    assert file.read_bytes()[start:].startswith(written.lines[30].encode())
    with growing.cut(start) as rest:
        assert rest.name == file.name
        assert rest.read_text() == written.lines[0] + "".join(written.lines[30:])
    assert not rest.exists()
    file.write_text("".join(written.lines[:20]))
    assert growing.look() == 0


def test_lines_that_tell_nothing_are_not_looked_at_one_by_one(tmp_path: Path) -> None:
    """And what stands between and behind them, and behind a very long line, is found."""
    written, blank = ClaudeFile(), "\n" * 50_000
    for number in range(4):
        written.exchange(number, padding="x" * 1_200_000 if number == 1 else "")
    lines = [line + blank for line in written.lines]
    file = tmp_path / "s1.jsonl"
    file.write_text("".join(lines))
    growing = GrowingFile(file, "claude-code")
    calls: list[str] = []
    sys.setprofile(lambda frame, event, called: calls.append(event))
    try:
        growing.look()
    finally:
        sys.setprofile(None)
    assert len(calls) < 10_000
    growing.was_taken()
    assert growing.look() == len("".join(lines[: len(lines) // 4]))


def test_a_long_file_arrives_whole_however_much_is_written_between_two_looks(
    tmp_path: Path,
) -> None:
    home, file = home_in(tmp_path), tmp_path / "s1.jsonl"
    written = ClaudeFile()
    for number in range(12):
        written.exchange(number, padding="x" * 70_000)
    live = LiveImports(home, SETTINGS, {}).of(file)
    for at in (44, 45, 70, 72):
        file.write_text("".join(written.lines[:at]))
        live.catch_up(settled=at == 72)
    asked = [text[:12].strip("x") for text in said_in(home)]
    assert asked == expected(12)
    assert Counter(line.kind for line in lines_of(home))["turn_started"] == 12


@pytest.mark.parametrize("escaped", [False, True])
def test_what_it_was_given_from_here_is_not_taken_over_again(
    tmp_path: Path, *, escaped: bool
) -> None:
    home, file = home_in(tmp_path), tmp_path / "s1.jsonl"
    given = as_data("earlier words", origin="mindstone recall", nonce="0" * 16)
    if escaped:
        inner = given.replace("<", "&lt;").replace(">", "&gt;")
        given = f"<hook_context>{inner}</hook_context>"
    written = ClaudeFile()
    written.add("user", role="user", content=f"which port?\n\n{given}")
    file.write_text("".join(written.lines))
    LiveImports(home, SETTINGS, {}).of(file).catch_up(settled=True)
    assert said_in(home) == ["which port?"]


class Clock:
    """A time that only moves when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_watch_takes_what_changes_settles_closes_and_leaves_the_rest(tmp_path: Path) -> None:
    home, clock, environ = home_in(tmp_path), Clock(), {"HOME": str(tmp_path)}
    folder = tmp_path / ".claude/projects/-srv-app"
    folder.mkdir(parents=True)
    written = ClaudeFile()
    written.exchange(0)
    old = ClaudeFile("old")
    old.exchange(0)
    (folder / "old.jsonl").write_text("".join(old.lines))
    begin(home, environ)
    file = folder / "s1.jsonl"
    file.write_text("".join(written.lines))
    watch = FolderWatch(home, SETTINGS, environ, clock=clock)
    assert [each.added for each in watch.step()] == [3]  # the newest answer may still grow
    clock.now += 2
    assert [each.added for each in watch.step()] == [1]
    assert watch.step() == []
    watch.keep()

    again = FolderWatch(home, SETTINGS, environ, clock=clock)  # as after a kill
    with file.open("a") as more:
        written.exchange(1)
        more.write("".join(written.lines[6:10]) + written.lines[10][:50])  # half a line
    assert [each.added for each in again.step()] == [1]  # the prompt
    with file.open("a") as more:
        more.write(written.lines[10][50:] + written.lines[11])
    clock.now += 2
    again.step()
    clock.now += 2
    again.step()
    assert said_in(home) == expected(2)
    clock.now += 100
    again.step()
    assert lines_of(home)[-1].kind == "imported"
    assert [each.key.main for each in home.sessions()] == ["claude-code-s1"]


def test_folders_are_followed_while_a_program_is_attached_and_at_no_other_time(
    tmp_path: Path,
) -> None:
    home, environ = home_in(tmp_path), {"HOME": str(tmp_path)}
    home.state.mkdir(parents=True)
    FolderWatch(home, SETTINGS, environ).keep()  # as every resident does when it ends
    assert not is_wanted(home)
    program = target_of("claude-code")
    changes = plan_attach(program, AttachCommand(("mindstone",)), environ)
    remember(home, program, changes, None)
    begin(home, environ)
    assert is_wanted(home)
    FolderWatch(home, SETTINGS, environ).keep()
    assert is_wanted(home)
    forget(home, program, None)
    FolderWatch(home, SETTINGS, environ).keep()
    assert not is_wanted(home)


def test_what_lay_there_when_one_began_is_left_alone_by_who_was_there_before(
    tmp_path: Path,
) -> None:
    home, environ = home_in(tmp_path), {"HOME": str(tmp_path)}
    folder = tmp_path / ".claude/projects/-srv-app"
    folder.mkdir(parents=True)
    clock = Clock()
    watch = FolderWatch(home, SETTINGS, environ, clock=clock)
    for name in ("first", "between"):
        written = ClaudeFile(name)
        written.exchange(0)
        (folder / f"{name}.jsonl").write_text("".join(written.lines))
        begin(home, environ)
        watch.begin()
        assert watch.step() == []
        watch.keep()
        end_watching(home)  # the last program is detached, and one is attached again
        clock.now += 10


def test_a_file_that_shrinks_is_replaced_or_vanishes_costs_nothing(tmp_path: Path) -> None:
    home, clock, environ = home_in(tmp_path), Clock(), {"HOME": str(tmp_path)}
    file = tmp_path / "s1.jsonl"
    written = ClaudeFile()
    written.exchange(0)
    written.exchange(1)
    watch = FolderWatch(home, SETTINGS, environ, clock=clock)
    file.write_text("".join(written.lines))
    watch.take(file, settled=True)
    file.write_text("".join(written.lines[:3]))
    watch.take(file, settled=True)
    file.unlink()
    assert watch.take(file, settled=True) is None
    assert watch.step() == []
    file.write_text("no session at all\n")
    assert watch.take(file, settled=True) is None
    written.exchange(2)
    (tmp_path / "new").write_text("".join(written.lines))
    (tmp_path / "new").replace(file)
    clock.now += 10
    watch.take(file, settled=True)
    assert said_in(home) == expected(3)


def test_a_file_that_a_hook_tells_of_too_early_is_waited_for(tmp_path: Path) -> None:
    home, clock = home_in(tmp_path), Clock()
    file = tmp_path / "s1.jsonl"
    watch = FolderWatch(home, SETTINGS, {"HOME": str(tmp_path)}, clock=clock)
    assert watch.take(file, settled=False) is None
    assert watch.step() == []
    written = ClaudeFile()
    written.exchange(0)
    file.write_text(written.lines[0])
    assert [each.added for each in watch.step(folders=False)] == [1]
    assert said_in(home) == ["question 0"]
