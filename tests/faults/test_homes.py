"""Homes that are missing, read-only, full or not what they should be: one clear sentence each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mindstone_tui.core.errors import MindstoneError, PlaceError
from mindstone_tui.core.transcript import Transcript, verify
from tests.builders import places_in, say, transcript_in
from tests.cli.program import ROOT, mindstone_here
from tests.red.apart import run_apart

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None
    or subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", "true"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="bubblewrap is not installed or may not be used",
)


def _inside(mount: list[str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", *mount, sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )


def _is_one_clear_sentence(text: str) -> bool:
    lines = text.strip().splitlines()
    return 1 <= len(lines) <= 2 and "Traceback" not in text and all(lines)


@needs_bubblewrap
def test_a_read_only_home_is_said_in_one_sentence(home: Path) -> None:
    home.mkdir()
    mount = ["--ro-bind", str(home), str(home)]
    for command in (
        ("tests.faults.opener", str(home)),
        ("mindstone_tui", "config", "set", "tui.vim", "true"),
    ):
        done = _inside(mount, *command)
        assert done.returncode == 1
        said = done.stdout + done.stderr
        assert _is_one_clear_sentence(said), said
        assert "Read-only file system" in said


@needs_bubblewrap
def test_a_read_only_home_can_still_be_read(home: Path) -> None:
    say(transcript_in(home), "question", "answer")
    mount = ["--ro-bind", str(home), str(home)]
    assert "1 " in _inside(mount, "mindstone_tui", "sessions").stdout
    assert "answer" in _inside(mount, "mindstone_tui", "log").stdout
    assert _inside(mount, "mindstone_tui", "verify").returncode == 0


@needs_bubblewrap
def test_a_home_on_a_full_disk_is_said_in_one_sentence(home: Path) -> None:
    home.mkdir()
    done = _inside(
        ["--size", str(32 << 10), "--tmpfs", str(home)], "tests.faults.opener", str(home)
    )
    assert done.returncode == 1
    assert _is_one_clear_sentence(done.stdout), done.stdout + done.stderr
    assert "No space left" in done.stdout


def test_a_missing_home_is_made_with_all_its_parents(tmp_path: Path) -> None:
    home = tmp_path / "not" / "yet" / "there"
    say(transcript_in(home), "question", "answer")
    assert verify(places_in(home)).ok


def test_a_file_where_the_home_should_be_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "file"
    home.write_text("I am a file")
    monkeypatch.setenv("MINDSTONE_HOME", str(home))
    with pytest.raises(PlaceError, match="file"):
        transcript_in(home)
    for arguments in (["sessions"], ["config", "set", "tui.vim", "true"], ["log"], ["verify"]):
        done = mindstone_here(*arguments)
        assert done.returncode == 1, arguments
        assert _is_one_clear_sentence(done.stderr) or arguments == ["verify"], done.stderr


def test_a_folder_where_a_file_should_be_is_said_in_one_sentence(home: Path) -> None:
    places = places_in(home)
    places.transcript.mkdir(parents=True)
    with pytest.raises(PlaceError, match="is a folder, but a file is needed"):
        Transcript(places)
    (home / "config.toml").mkdir()
    for arguments in (["config", "show"], ["log", "--session", "main"]):
        done = mindstone_here(*arguments)
        assert done.returncode == 1
        assert _is_one_clear_sentence(done.stderr), done.stderr
        assert "is a folder, but a file is needed" in done.stderr


def test_a_symlinked_transcript_is_refused_and_its_target_left_alone(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    target = home / "elsewhere.jsonl"
    path.rename(target)
    path.symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(PlaceError, match="symbolic link"):
        Transcript(transcript.places)
    done = mindstone_here("log", "--session", "main")
    assert done.returncode == 1
    assert "symbolic link" in done.stderr
    assert _is_one_clear_sentence(done.stderr)
    assert target.read_bytes() == before


def test_a_transcript_that_vanishes_while_it_is_open_is_said_and_nothing_is_lost(
    home: Path,
) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    path.rename(path.with_name("moved"))
    with pytest.raises(MindstoneError, match="moved or deleted"):
        say(transcript, "lost?", "no")
    path.with_name("moved").rename(path)
    transcript.save()
    assert not transcript.unsaved
    assert verify(transcript.places).ok


def test_a_transcript_that_a_backup_tool_replaces_is_written_on_and_that_is_recorded(
    home: Path,
) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    say(transcript, "second", "answer")
    with transcript.history() as history:
        kinds = [line.kind for line in history.read() if hasattr(line, "kind")]
    assert kinds[5] == "file_replaced"
    assert len(kinds) == 10
    assert verify(transcript.places).ok


def test_a_transcript_that_another_program_cuts_is_not_quietly_written_on(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    whole = path.read_bytes()
    os.truncate(path, whole.index(b"\n") + 1)
    with pytest.raises(MindstoneError, match="another program cut"):
        say(transcript, "second", "answer")
    path.write_bytes(whole)
    transcript.save()
    assert verify(transcript.places).ok


def test_a_transcript_that_is_rewritten_in_place_at_the_same_size_is_noticed(
    home: Path, tmp_path: Path
) -> None:
    transcript, other = transcript_in(home), transcript_in(tmp_path / "other")
    say(transcript, "first", "answer")
    say(other, "first", "answer")
    say(transcript, "second", "answer")
    say(other, "zweite", "answer")
    path = transcript.places.transcript
    foreign = other.places.transcript.read_bytes()
    assert path.stat().st_size == len(foreign)
    path.write_bytes(foreign)
    before = transcript.replacements.histories
    say(transcript, "third", "answer")
    assert transcript.replacements.histories == before + 1
    assert path.read_bytes().startswith(foreign)
    assert verify(transcript.places).ok


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_files_are_0600_and_folders_0700_whatever_the_umask(home: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        transcript = transcript_in(home)
        say(transcript, "question \x00", "answer " * 300_000)
        transcript.close()
        with transcript.places.transcript.open("ab") as file:
            file.write(b"torn")
        transcript_in(home).history().line(3)
        mindstone_here("config", "set", "tui.vim", "true")
        mindstone_here("log", "--session", "nosuch")
    finally:
        os.umask(before)
    found = [home, *home.rglob("*")]
    assert len(found) > 10
    for path in found:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.thorough
@needs_bubblewrap
def test_what_is_there_can_be_read_on_a_disk_that_cannot_be_written(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "what colour is the stone", "The stone is blue.")
    transcript.close()
    for written in (
        ("task", "start", "paint the stone"),
        ("checkpoint", "save"),
        ("handoff", "write"),
    ):
        assert mindstone_here(*written).returncode == 0
    mount = ["--ro-bind", str(home), str(home)]
    for verb, expected in (
        (("recall", "stone"), "The stone is blue"),
        (("health",), "health is taken after each turn"),
        (("memory",), "Nothing is remembered"),
        (("handoff", "show"), "paint the stone"),
        (("checkpoint",), "paint the stone"),
    ):
        done = _inside(mount, "mindstone_tui", *verb)
        assert done.returncode == 0, (verb, done.stderr)
        assert expected in done.stdout, verb


@pytest.mark.parametrize(
    "arguments", [("log",), ("sessions",), ("verify",), ("import", "pipe"), ("import", "/dev/zero")]
)
def test_a_pipe_in_a_files_place_is_refused_and_never_waited_for(
    home: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    places = places_in(home)
    places.folder.mkdir(parents=True)
    os.mkfifo(places.transcript)
    os.mkfifo(tmp_path / "pipe")
    (done,) = run_apart(home, tmp_path, [arguments])
    assert not done.problem
    assert (done.code == 0) == (arguments == ("sessions",))
    if arguments[0] != "sessions":
        assert "no ordinary file" in done.out + done.err


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("keys.toml", ("models",)),
        ("state/trust.json", ("run", "hello")),
        ("state/tool-pins.json", ("run", "hello")),
        ("agents/default/memory/a.md", ("memory",)),
        ("agents/default/IDENTITY.md", ("run", "hello")),
        ("agents/default/sessions/main/title", ("sessions",)),
        ("agents/default/sessions/main/checkpoint.json", ("checkpoint",)),
        ("agents/default/sessions/main/transcript.offsets", ("log",)),
        ("config.toml", ("sessions",)),
        ("hooks.json", ("run", "hello")),
        ("library.db", ("context",)),
        ("library.db", ("doctor",)),
        ("profiles/own.toml", ("config", "show", "--profile", "own")),
        ("themes/mine.toml", ()),
    ],
)
def test_no_file_of_the_home_that_is_a_pipe_is_waited_for(
    home: Path, tmp_path: Path, name: str, verb: tuple[str, ...]
) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    transcript.close()
    places_in(home).offsets.unlink(missing_ok=True)
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(home / name)
    if verb[:1] == ("run",):
        replies = tmp_path / "script.jsonl"
        replies.write_text('{"text":"yes"}\n')
        verb = (*verb, "--model", f"scripted/{replies}")
    if not verb:  # only the app reads themes
        finding = (
            "import sys, pathlib; from mindstone_tui.tui import themes;"
            "print(themes.find(pathlib.Path(sys.argv[1])))"
        )
        done = subprocess.run(
            [sys.executable, "-c", finding, str(home / "themes")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert "no ordinary file" in done.stdout, done.stderr
        return
    (ran,) = run_apart(home, tmp_path, [verb])
    assert not ran.problem
    assert "Unexpected error" not in ran.err
    assert verify(places_in(home)).ok
