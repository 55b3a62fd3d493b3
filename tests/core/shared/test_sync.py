"""Two homes that meet in a folder, or over a line: all of both, on both, whatever is cut when."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.cli.main import run as run_verb
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.standings import Standings
from mindstone_tui.core.errors import HistoryAway
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.shared.sync import Synced, SyncedStore, answer, remote_store, sync
from mindstone_tui.core.transcript import History, Transcript, verify
from mindstone_tui.core.transcript.history_store import FileStore, StoredSession
from mindstone_tui.core.transcript.reader import MOST_STRAY, Head, copies_in
from tests.builders import say
from tests.cli.program import ROOT

LONG = "x" * 400_000
"""So long that it is kept beside its line."""


class Machine:
    """A home, and what was ever said in it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.places = Places.resolve({"MINDSTONE_HOME": str(folder)})
        self.said: list[str] = []

    def store(self, disk: Disk | None = None) -> FileStore:
        return FileStore(self.places, disk) if disk else FileStore(self.places)

    def says(self, text: str, session: str = "main") -> None:
        transcript = Transcript(self.places.session(SessionKey.parse(session)), channel="test")
        say(transcript, text, f"Noted: {text[:40]}")
        transcript.close()
        self.said.append(text)

    def holds(self) -> set[str]:
        """Everything that a person said in any session; each is proven first."""
        found: set[str] = set()
        for own in self.places.sessions():
            verdict = verify(own)
            assert verdict.ok, verdict.problems
            with History(own) as history:
                lines = [history.whole(line) for line in history.read() if isinstance(line, Line)]
            found |= {line.entry.text for line in lines if isinstance(line.entry, UserMessage)}
        return found

    def bytes(self) -> dict[str, bytes]:
        return {str(own.key): own.transcript.read_bytes() for own in self.places.sessions()}


def met(one: SyncedStore, other: SyncedStore) -> list[Synced]:
    done = list(sync(one, other))
    assert [each.why for each in done if each.state == "failed"] == []
    return done


def check_that_nothing_was_overwritten(machine: Machine, before: dict[str, bytes]) -> None:
    after = machine.bytes()
    assert all(after[key].startswith(was) for key, was in before.items())


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(["a", "b", "a+", "b+", "a~", "b~"]), max_size=14))
def test_whatever_was_said_on_either_machine_is_on_both_after_they_met(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    root = tmp_path_factory.mktemp("two")
    a, b, folder = (Machine(root / name) for name in ("a", "b", "stick"))
    for number, step in enumerate(steps):
        machine = a if step[0] == "a" else b
        before = machine.bytes()
        match step[1:]:
            case "~":
                met(machine.store(), folder.store())
            case "+":
                machine.says(f"{step} {number}", "other")
            case _:
                machine.says(f"{step} {number}")
        check_that_nothing_was_overwritten(machine, before)
    for machine in (a, b, a, b):
        met(machine.store(), folder.store())
    assert a.holds() == b.holds() == folder.holds() == {*a.said, *b.said}
    for machine in (a, b):
        assert {each.state for each in met(machine.store(), folder.store())} <= {"same"}


def evil(stick: Path, kind: str) -> None:
    sessions = stick / "agents" / "default" / "sessions"
    transcript = sessions / "evil" / "transcript.jsonl"
    transcript.parent.mkdir()
    match kind:
        case "a pipe":
            os.mkfifo(transcript)
        case "a link":
            transcript.symlink_to("/etc/passwd")
        case "hollow":
            transcript.touch()
            os.truncate(transcript, 200 << 30)
        case "a blob elsewhere":
            shutil.copytree(sessions / "other", transcript.parent, dirs_exist_ok=True)
            (transcript.parent / "blobs").symlink_to(stick.parent)
        case "circles":
            for name in ("a+", "b+"):
                (sessions / name).symlink_to(".")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("a pipe", "no ordinary file"),
        ("a link", "links are not followed"),
        ("hollow", "was never written"),
        ("a blob elsewhere", "is a link"),
        ("circles", ""),
    ],
)
def test_a_hostile_session_on_a_stick_is_told_and_all_others_meet(
    tmp_path: Path, kind: str, why: str
) -> None:
    home, stick = Machine(tmp_path / "home"), Machine(tmp_path / "stick")
    home.says("mine")
    stick.says("theirs", "other")
    evil(stick.folder, kind)
    done = {
        each.session: each for each in sync(home.store(), FileStore(stick.places, foreign=True))
    }
    assert {done["agent:default:main"].state, done["agent:default:other"].state} == {
        "brought",
        "taken",
    }
    failed = [each.why for each in done.values() if each.state == "failed"]
    assert len(failed) == (1 if why else 0)
    assert all(why in each for each in failed)


def test_nothing_is_written_where_a_link_on_a_stick_leads(tmp_path: Path) -> None:
    home, stick, elsewhere = Machine(tmp_path / "home"), tmp_path / "stick", tmp_path / "elsewhere"
    home.says(LONG * 4)
    for folder in (stick, elsewhere):
        folder.mkdir()
    (stick / "agents").symlink_to(elsewhere)
    outcome = list(sync(home.store(), FileStore(Machine(stick).places, foreign=True)))
    assert [each.state for each in outcome] == ["failed"]
    assert list(elsewhere.iterdir()) == []


def test_a_flood_of_empty_lines_is_no_history(tmp_path: Path) -> None:
    home, stick = Machine(tmp_path / "home"), Machine(tmp_path / "stick")
    home.says("mine")
    met(home.store(), stick.store())
    transcript = stick.places.session(SessionKey.parse("main")).transcript
    with transcript.open("ab") as file:
        file.write(b"\n" * MOST_STRAY)
    assert [each.state for each in sync(home.store(), stick.store())] == ["failed"]
    with History(stick.places.session(SessionKey.parse("main"))) as history:
        assert history.head.seq == -1


@pytest.mark.parametrize(
    "moment", ["9999-99-99", "\x1b[2J", "0001-01-01T00:00:00+23:59", "0001-01-01"]
)
def test_a_session_of_a_time_that_never_was_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    home, stick = Machine(tmp_path / "home"), Machine(tmp_path / "stick")
    home.says("mine is blue")
    stick.says("theirs is blue", "other")
    transcript = stick.places.session(SessionKey.parse("other")).transcript
    before, lines = "", []
    for raw in transcript.read_bytes().splitlines():
        line = json.loads(raw)
        line |= {"ts": moment, "prev": before or line["prev"]}
        del line["hash"]
        said = json.dumps(line).encode()[:-1]
        before = hashlib.sha256(said).hexdigest()
        lines.append(said + f',"hash":"{before}"}}\n'.encode())
    transcript.write_bytes(b"".join(lines))
    monkeypatch.setenv("MINDSTONE_HOME", str(home.folder))
    for verb in (
        ["sync", str(stick.folder)],
        ["search", "blue"],
        ["stats"],
        ["log", "-s", "other"],
    ):
        assert run_verb(verb) == 0, verb


def grown_apart(root: Path) -> tuple[Machine, Machine]:
    """Two machines that had the same, and then each went on, with a long text."""
    a, b = Machine(root / "a"), Machine(root / "b")
    a.says("together")
    met(a.store(), b.store())
    for machine in (a, b):
        machine.says(f"only on {machine.folder.name} {LONG}")
        machine.says("and something else", machine.folder.name)
    return a, b


def test_what_grew_on_both_sides_is_a_fork_that_goes_on_by_hash_and_is_told(
    tmp_path: Path,
) -> None:
    a, b = grown_apart(tmp_path)
    before = a.bytes()
    (told,) = [each for each in met(a.store(), b.store()) if each.state == "forked"]
    assert told.session == "agent:default:main"
    check_that_nothing_was_overwritten(a, before)
    b.says("later on b")
    (again,) = [each for each in met(a.store(), b.store()) if each.state == "forked"]
    assert again.here == told.here
    assert "later on b" in a.holds()
    a.says("I go on in the fork", again.here)
    b.says("still later on b")
    met(a.store(), b.store())
    assert a.holds() == b.holds() == {*a.said, *b.said, "together"}
    with History(a.places.session(SessionKey.parse(told.here))) as history:
        opened = history.header.entry
    assert opened.forked_from.session == "agent:default:main"  # type: ignore[union-attr]


def test_a_session_that_grew_on_both_sides_counts_what_was_said_once_and_wherever_it_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    a.says("together")
    a.says("Still together")
    met(a.store(), b.store())
    a.says("only on a")
    for number in range(3):
        b.says(f"only on b {number}")
    (told,) = [each for each in met(a.store(), b.store()) if each.state == "forked"]
    a.says("I go on in the fork", told.here)
    monkeypatch.setenv("MINDSTONE_HOME", str(a.folder))
    capsys.readouterr()
    assert run_verb(["sessions", "--json"]) == 0
    listed = {one["session"]: one for one in json.loads(capsys.readouterr().out)["sessions"]}
    assert {name: one["turns"] for name, one in listed.items()} == {told.session: 3, told.here: 4}
    assert run_verb(["stats", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert (total["turns"], total["messages"]) == (7, 14)
    with History(a.places.session(SessionKey.parse(told.here))) as history:
        assert max(line.turn for line in copies_in(history)) == 2
        lines = [line for line in history.read() if isinstance(line, Line)]
    known = Standings(lines)
    said = [line for line in lines if isinstance(line.entry, UserMessage)]
    stands = [[one.what for one in known.of(line)] for line in said]
    assert stands == [["copied"]] * 2 + [[]] * 4


class Cut(BaseException):
    """The process is gone."""


STEP = 1 if os.environ.get("MINDSTONE_FAULTS") == "1" else 6
"""`make faults` cuts at all fifty points."""


class CutDisk(Disk):
    """Ends the process within one of its writes, so many quarters of which arrive."""

    def __init__(self, writes: int, quarters: int) -> None:
        self.left, self.quarters = writes, quarters

    def write(self, fd: int, data: bytes) -> int:
        self.left -= 1
        if self.left < 0:
            os.write(fd, bytes(data)[: len(data) * self.quarters // 4])
            raise Cut
        return super().write(fd, data)


@pytest.mark.thorough
def test_a_sync_that_is_killed_within_any_write_loses_nothing(tmp_path: Path) -> None:
    cuts = 0
    for number in range(0, 50, STEP):
        root = tmp_path / str(number)
        a, b = grown_apart(root)
        before = a.bytes()
        disk = CutDisk(number // 5, number % 5)
        try:
            met(a.store(disk), b.store(disk))
        except Cut:
            cuts += 1
        check_that_nothing_was_overwritten(a, before)
        met(a.store(), b.store())
        met(b.store(), a.store())
        assert a.holds() == b.holds() == {*a.said, *b.said}
        shutil.rmtree(root)
    assert cuts >= 20 // STEP, f"{cuts} of {50 // STEP} were cut"


def test_a_copy_that_ends_anywhere_is_completed_and_a_damaged_one_is_left_alone(
    tmp_path: Path,
) -> None:
    a, stick = Machine(tmp_path / "a"), Machine(tmp_path / "stick")
    for number in range(5):
        a.says(f"fact {number}")
    met(a.store(), stick.store())
    copy = stick.places.session(SessionKey.parse("main")).transcript
    whole = copy.read_bytes()
    for number in range(0, 50, STEP):
        copy.write_bytes(whole[: len(whole) * number // 50])
        met(a.store(), stick.store())
        assert stick.holds() == a.holds() == set(a.said)
        assert copy.read_bytes() == whole
    copy.write_bytes(whole.replace(b"fact 2", b"fact 9"))
    before = a.bytes()
    list(sync(a.store(), stick.store()))
    assert a.bytes()["agent:default:main"] == before["agent:default:main"]
    assert "fact 9" not in a.holds()


@pytest.mark.parametrize("grown", ["a", "b", "ab"])
@pytest.mark.parametrize("damaged", ["a", "b"])
def test_a_copy_that_was_altered_in_its_middle_is_named_and_left_alone_on_both_sides(
    tmp_path: Path, damaged: str, grown: str
) -> None:
    """Over a line, too: whoever has the damage says so."""
    a, b = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    a.says("fact 1")
    a.says("fact 2")
    met(a.store(), b.store())
    hurt = (a if damaged == "a" else b).places.session(SessionKey.parse("main")).transcript
    hurt.write_bytes(hurt.read_bytes().replace(b"fact 1", b"fact 9"))
    for machine in (a, b):
        if machine.folder.name in grown:
            machine.says("more")
        machine.says("sound", machine.folder.name)
    before = a.bytes(), b.bytes()
    done: list[Synced] = []
    over_a_line(b, lambda there: done.extend(sync(a.store(), there)))
    states = {each.session.rpartition(":")[2]: each.state for each in done}
    assert states == {"a": "taken", "b": "brought", "main": "failed"}
    assert "damaged copy of agent:default:main: line 2" in done[-1].why
    after = a.bytes(), b.bytes()
    assert [each["agent:default:main"] for each in after] == [
        each["agent:default:main"] for each in before
    ]


class CutLine:
    """A line that breaks after so many answers."""

    def __init__(self, inner: IO[bytes], answers: int) -> None:
        self._inner, self._left = inner, answers

    def readline(self, most: int = -1) -> bytes:
        self._left -= 1
        return self._inner.readline(most) if self._left >= 0 else b'{"value'


def over_a_line(machine: Machine, use: Callable[[SyncedStore], Any], answers: int = 10_000) -> None:
    """Give somebody a machine's sessions over pipes, as ssh would."""
    (asked, ask), (hear, told) = os.pipe(), os.pipe()

    def serve() -> None:
        with os.fdopen(asked, "rb") as questions, os.fdopen(told, "wb") as answers_:
            with contextlib.suppress(BrokenPipeError):
                answer(machine.store(), questions, answers_)
            answers_.raw.close()  # what nobody reads is not written once more

    server = threading.Thread(target=serve)
    server.start()
    try:
        with os.fdopen(ask, "wb") as out, os.fdopen(hear, "rb") as back:
            use(remote_store("there", out, CutLine(back, answers)))  # type: ignore[arg-type]
    finally:
        server.join(60)
    assert not server.is_alive()


@pytest.mark.thorough
def test_over_a_line_that_breaks_anywhere_nothing_is_lost(tmp_path: Path) -> None:
    cuts = 0
    for number in range(20):
        root = tmp_path / str(number)
        a, b = grown_apart(root)
        meet = partial(met, a.store())
        try:
            over_a_line(b, meet, number)
        except HistoryAway:
            cuts += 1
        over_a_line(b, meet)
        assert a.holds() == b.holds() == {*a.said, *b.said}
        shutil.rmtree(root)
    assert cuts >= 12, f"{cuts} of 20 were cut"


class SpoiledLine:
    """A line on which every answer about lines of history is spoiled; the others are whole."""

    def __init__(self, inner: IO[bytes], spoil: Callable[[bytes], bytes]) -> None:
        self._inner, self._spoil = inner, spoil

    def readline(self, most: int) -> bytes:
        assert 0 < most < 1 << 30, "whoever answers does not decide how much is read"
        line = self._inner.readline(most)
        return self._spoil(line) if line.startswith(b'{"value":["') else line


@pytest.mark.parametrize(
    "spoiled",
    [b"junk\n", b"7\n", b"[" * 100_000 + b"\n", b'{"value":7}\n', b"{}\n", b'{"value":["eA=="]}\n'],
    ids=["junk", "number", "deep", "type", "nothing", "no line"],
)
def test_an_answer_that_is_none_fails_its_session_with_a_sentence(
    tmp_path: Path, spoiled: bytes
) -> None:
    a, b = grown_apart(tmp_path)
    before = a.bytes()
    found: list[Synced] = []

    def meet(there: SyncedStore) -> None:
        there._asked = SpoiledLine(there._asked, lambda line: spoiled)  # type: ignore[attr-defined]
        found.extend(sync(a.store(), there))

    over_a_line(b, meet)
    failed = [each for each in found if each.state != "taken"]  # what only we have goes there
    assert {each.state for each in failed} == {"failed"}
    assert all(each.why.endswith(".") for each in failed)
    assert a.bytes() == before


class Endless(FileStore):
    """A peer that goes on sending when it is not told where to end."""

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        yield from super().read(key, first, last)
        assert last is not None, "nobody said where to end"


def test_a_fork_ends_where_its_peer_said_that_it_ends(tmp_path: Path) -> None:
    a, b = grown_apart(tmp_path)
    done = met(a.store(), Endless(b.places))
    assert "forked" in {each.state for each in done}
    assert a.holds() == {*a.said, *b.said}


def test_a_fork_whose_name_would_be_too_long_fails_with_a_sentence(tmp_path: Path) -> None:
    a = Machine(tmp_path / "a")
    a.says("begun", session := "a" * 1_490)
    shutil.copytree(a.folder, tmp_path / "b")
    b = Machine(tmp_path / "b")
    for each in (a, b):
        each.says(each.folder.name, session)
    (found,) = sync(a.store(), b.store())
    assert (found.state, "is too long" in found.why) == ("failed", True)
    assert len(list(b.places.sessions())) == 1


class Chatty(FileStore):
    """A peer that has more than it says."""

    def sessions(self) -> list[StoredSession]:
        return [msgspec.structs.replace(each, size=900) for each in super().sessions()]

    def find(self, key: SessionKey) -> StoredSession | None:
        found = super().find(key)
        return found and msgspec.structs.replace(found, size=900)


def test_a_peer_that_sends_more_than_it_has_is_stopped(tmp_path: Path) -> None:
    a, b = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    for number in range(9):
        b.says(f"{number}")
    (found,) = sync(a.store(), Chatty(b.places))
    assert (found.state, "sends more of" in found.why) == ("failed", True)


def test_a_huge_blob_is_refused_before_it_is_read(tmp_path: Path) -> None:
    a, b = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    b.says("x" * 2_000_000)
    (own,) = b.places.sessions()
    (blob, *_) = own.blobs.iterdir()
    os.truncate(blob, 1 << 30)
    assert "It is larger than" in " ".join(each.why for each in sync(a.store(), b.store()))


class Nameless(FileStore):
    """A peer that says it has a session without a name, too."""

    def sessions(self) -> list[StoredSession]:
        key = SessionKey("default", "")
        return [*super().sessions(), StoredSession(key=key, head=Head(5, "x"), size=9)]


def test_a_session_without_a_name_is_told_and_all_others_meet(tmp_path: Path) -> None:
    a, b = grown_apart(tmp_path)
    done = list(sync(a.store(), Nameless(b.places)))
    assert [each.session for each in done if each.state == "failed"] == ["agent:default:"]
    assert a.holds() == {*a.said, *b.said}


def test_what_is_no_question_is_answered_with_a_sentence_and_changes_nothing(
    tmp_path: Path,
) -> None:
    a = Machine(tmp_path / "a")
    a.says("hello")
    before = a.bytes()
    asked = tmp_path / "asked"
    key = '{"agent":"default","main":"main"}'
    asked.write_text(
        f'nothing\n["close",{{}}]\n["find",{{"key":7}}]\n["append",{{"key":{key}}}]\n'
        f'["append",{{"key":{key},"lines":["eA=="],"after":{{"seq":3,"hash":"x"}}}}]\n'
    )
    with asked.open("rb") as questions, (tmp_path / "told").open("wb") as told:
        answer(a.store(), questions, told)
    answers = (tmp_path / "told").read_text().splitlines()
    assert len(answers) == 6
    assert all(each.startswith('{"error":"') for each in answers[1:])
    assert a.bytes() == before


@pytest.mark.thorough
def test_the_verb_syncs_with_a_machine_that_ssh_reaches_past_what_a_login_prints(
    tmp_path: Path,
) -> None:
    a, b = grown_apart(tmp_path)
    there = tmp_path / "bin" / "ssh"
    there.parent.mkdir()
    # Stands for ssh and the login there; the line, and the program at its end, are real.
    there.write_text(
        "#!/bin/sh\nshift 4\necho Welcome\nprintf 'Hi \\033]0;evil\\007' >&2\n"
        f'exec env MINDSTONE_HOME={b.folder} {sys.executable} -P -m mindstone_tui sync "$@"\n'
    )
    there.chmod(0o755)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        path = f"{there.parent}:{os.defpath}"
        environ = {"MINDSTONE_HOME": str(a.folder), "PATH": path, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-m", "mindstone_tui", "sync", *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    done = run("b.example")
    assert done.returncode == 0, done.stderr
    assert "Hi " in done.stderr
    assert "\x1b" not in done.stderr
    assert "agent:default:main  grew on both sides: theirs is agent:default:main@" in done.stdout
    assert a.holds() == b.holds() == {*a.said, *b.said}
    states = [json.loads(line)["state"] for line in run("b.example", "--json").stdout.splitlines()]
    assert set(states) == {"same"}
    there.write_text("#!/bin/sh\nexit 255\n")
    gone = run("b.example")
    assert gone.returncode != 0
    assert "b.example does not answer" in gone.stderr
    for wrong in ("", "/nowhere", "-oProxyCommand=true", str(a.folder)):
        refused = run("--", wrong)
        assert refused.returncode == 2, wrong
        assert "Traceback" not in refused.stderr
