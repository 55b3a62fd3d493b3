"""`mindstone run` as a program in a pipe, in a script, in cron: output, exit codes, signals."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.cli.main import run
from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import AssistantPartial
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.transcript import verify
from tests.builders import places_in
from tests.cli import forked
from tests.cli.program import ROOT, mindstone, mindstone_here
from tests.core.session.stage import calls, check_history, read, script
from tests.strace import only

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
SLOW = {"text": "and so on " * 100, "delay_ms": 100_000}
EVENT = msgspec.json.Decoder(events.AnyEvent)


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The real command, running; killed at the end if it still does."""
    with forked.begin(
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], name: str) -> list[dict[str, object]]:
    """The events of a run up to the first of a kind."""
    assert process.stdout is not None
    heard = []
    for line in process.stdout:
        heard.append(json.loads(line))
        if heard[-1]["event"] == name:
            return heard
    raise AssertionError(f"there was no {name}: {heard}")


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("forty-two")
    wanted = calls(("read", {"path": "a.txt"}), text="Looking.")
    model = script(tmp_path, wanted, {"text": "It says forty-two."}, loop=True)
    done = mindstone("run", "--model", model, "what does it say?", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "Looking.\nIt says forty-two.\n"
    assert "read" in done.stderr
    quiet = mindstone_here("run", "--quiet", "--model", model, "again", cwd=tmp_path)
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")


def test_json_lines_are_the_documented_events(home: Path, tmp_path: Path) -> None:
    wanted = calls(("list", {}), text="Looking.")
    model = script(tmp_path, wanted, {"text": "Nothing there.\x1b[31m"})
    done = mindstone_here("run", "--json", "--model", model, "look around", cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    heard = [EVENT.decode(line) for line in lines]
    assert all(line.isprintable() for line in lines)
    assert all(line.startswith('{"event":"') for line in lines)
    names = [json.loads(line)["event"] for line in lines]
    assert (names[0], names[-1]) == ("session_ready", "turn_ended")
    assert names.count("turn_started") == names.count("turn_ended") == 1
    assert {"text_delta", "tool_started", "tool_ended", "usage_reported"} <= set(names)
    said = "".join(event.text for event in heard if isinstance(event, events.TextDelta))
    assert said == "Looking.Nothing there.\x1b[31m"
    assert check_history(places_in(home)) == 2
    assert "context_reported" not in names
    asked = mindstone_here("run", "--json", "--reports", "--model", model, "/tools", cwd=tmp_path)
    assert '{"event":"context_reported"' in asked.stdout


def test_the_prompt_can_come_from_stdin(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = b"hello from a pipe \xff\n"
    done = subprocess.run(
        [sys.executable, "-m", "mindstone_tui", "run", "--quiet"],
        input=piped,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))
    assert mindstone_here("run", "-").returncode == 0
    said = [line.entry for line in read(places_in(home)) if line.role == "user"]
    assert [getattr(entry, "text", "") for entry in said] == ["hello from a pipe �"] * 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert mindstone_here("run", "-").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["/status"], 0, "history:"),
        (["/contxt"], 2, "Did you mean /context?"),
        (["/unpin"], 2, "Usage: /unpin"),
        (["/why #99999"], 1, ""),
        (["/help"], 0, "/context"),
        (["--no-wait", "/pin"], 1, ""),
        (["--model", "nobody", "hi"], 2, "nobody"),
        (["--cwd", "/nowhere", "hi"], 2, "/nowhere"),
        (["--approve", "sometimes", "hi"], 2, "sometimes"),
        (["--image", "/nowhere.png", "hi"], 2, "/nowhere.png"),
        (["--session", "agent::", "hi"], 2, ""),
        (["--timeout", "-1", "hi"], 2, ""),
        (["--model", "scripted/missing.jsonl", "hi"], 2, "missing.jsonl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_exit_codes_say_how_it_went(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    found = run(["run", *arguments])
    printed = capsys.readouterr()
    assert found == code, printed.err
    assert says in printed.out + printed.err
    assert "Traceback" not in printed.err


def test_what_would_have_to_be_asked_is_refused_and_recorded(home: Path, tmp_path: Path) -> None:
    wanted = calls(("write", {"path": "b.txt", "text": "x"}))
    model = script(tmp_path, wanted, {"text": "I may not."}, loop=True)
    done = mindstone_here("run", "--json", "--model", model, "write it", cwd=tmp_path)
    assert done.returncode == ExitCode.DECLINED
    ended = json.loads(done.stdout.splitlines()[-1])
    (declined,) = ended["declined"]
    assert (ended["event"], declined["name"]) == ("turn_ended", "write")
    assert declined["shown"].startswith("write b.txt")
    assert "nobody can be asked here" in declined["why"]
    assert not (tmp_path / "b.txt").exists()
    kinds = [line.kind for line in read(places_in(home))]
    assert "tool_refused" in kinds
    allowed = mindstone_here("run", "--approve", "auto-edit", "--model", model, "do", cwd=tmp_path)
    assert allowed.returncode == 0
    assert (tmp_path / "b.txt").read_text() == "x"


def test_an_interrupt_ends_with_130_and_keeps_what_was_said(home: Path, tmp_path: Path) -> None:
    with started("run", "--json", "--model", script(tmp_path, SLOW), "go on") as process:
        lines_until(process, "text_delta")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
    assert json.loads(out.splitlines()[-1])["ending"] == "interrupted"
    assert "Traceback" not in err
    partial = [line.entry for line in read(places_in(home))]
    assert any(isinstance(entry, AssistantPartial) and entry.text for entry in partial)
    check_history(places_in(home))


def test_a_turn_that_takes_too_long_is_stopped(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, SLOW)
    done = mindstone("run", "--timeout", "1.5", "--model", model, "go on")
    assert done.returncode == 1
    assert "longer than 1.5 seconds" in done.stderr
    assert check_history(places_in(home)) <= 1


def test_a_damaged_session_says_so_once_and_goes_on(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = places_in(home)
    for text in ("Hello there", "Second one"):
        assert run(["run", "-s", "main", "--model", "local/guide", text]) == 0
    assert "as it was written" not in capsys.readouterr().err
    lines = here.transcript.read_bytes().split(b"\n")
    (said,) = (at for at, line in enumerate(lines) if b"Hello there" in line and b"user_m" in line)
    plans = [json.loads(line) for line in lines if b'"kind":"prompt_planned"' in line]
    window = plans[-1]["at"]
    lines[said] = lines[said].replace(b"Hello there", b"Hallo there")
    lines[window] = b"no JSON"
    here.transcript.write_bytes(b"\n".join(lines))
    assert run(["run", "-s", "main", "--model", "local/guide", "Third"]) == 0
    told = capsys.readouterr().err
    assert told.count("2 lines are not as they were written, first ") == 1
    assert "`mindstone verify -s agent:default:main` says more" in told
    assert b"Third" in here.transcript.read_bytes()


def test_a_reader_who_leaves_ends_the_program_quietly(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "word " * 500, "delay_ms": 20_000})
    with started("run", "--json", "--model", model, "go on") as process:
        lines_until(process, "text_delta")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == ""
    check_history(places_in(home))


def test_two_programs_on_one_session_take_turns(home: Path, tmp_path: Path) -> None:
    with started("run", "--json", "--model", script(tmp_path, SLOW), "first") as first:
        lines_until(first, "text_delta")
        refused = mindstone_here("run", "--no-wait", "not now")
        assert refused.returncode == 1
        assert "Another program is taking a turn" in refused.stderr
        with started("run", "--json", "second") as second:
            heard = lines_until(second, "noticed")
            assert "Waiting" in str(heard[-1]["message"])
            first.send_signal(signal.SIGINT)
            assert lines_until(second, "turn_ended")[-1]["ending"] == "done"
        first.communicate(timeout=60)
        assert first.returncode == 130
    lines = read(places_in(home))
    said = [getattr(line.entry, "text", "") for line in lines if line.role == "user"]
    assert said == ["first", "second"]
    assert verify(places_in(home)).ok
    assert check_history(places_in(home)) == 2


@needs_strace
def test_a_local_model_connects_to_nothing_and_leaves_nothing_in_the_home(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    mindstone_here("run", "--quiet", "The boat in the harbour is called Nereid.")
    watched = ["strace", *only("%network"), "-o", str(trace), sys.executable]
    done = subprocess.run(
        [*watched, "-m", "mindstone_tui", "run", "--model", "local/guide", "What boat is that?"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert "Nereid" in done.stdout
    assert not re.findall(r"^.*\b(?:connect|bind)\(.*", trace.read_text(), re.MULTILINE)
    assert {path.name for path in tmp_path.iterdir()} == {"home", "trace"}


@pytest.mark.parametrize("arguments", [["--version"], ["run", "hello"], ["run", "/status"]])
def test_nothing_heavy_is_imported_that_is_not_needed(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mindstone_tui", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mindstone_tui" in imported
    assert not imported & {"litellm", "textual", "openai", "httpx", "torch"}
    if arguments == ["--version"]:
        assert not imported & {"typer", "rich", "msgspec", "asyncio"}
