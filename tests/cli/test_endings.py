"""Whatever ends the process: what was said is on disk, and the terminal is whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mindstone_tui.core.entries.conversation import AssistantPartial, TurnEnded
from mindstone_tui.core.transcript import History, verify
from tests.builders import places_in, say, transcript_in
from tests.cli.program import ROOT
from tests.cli.terminal import PATIENCE, PLAIN_SCREEN, OnTerminal


def send(number: signal.Signals) -> Callable[[OnTerminal], None]:
    def ending(terminal: OnTerminal) -> None:
        terminal.process.send_signal(number)

    return ending


HANG_UP, TERMINATE = send(signal.SIGHUP), send(signal.SIGTERM)


@pytest.mark.parametrize(
    ("surface", "ending"),
    [
        ("app", HANG_UP),
        ("app", TERMINATE),
        ("app", OnTerminal.close),
        ("run", HANG_UP),
        ("run", OnTerminal.close),
        ("lines", TERMINATE),
    ],
)
def test_a_turn_that_is_ended_from_outside_keeps_what_was_streamed(
    home: Path, tmp_path: Path, surface: str, ending: Callable[[OnTerminal], None]
) -> None:
    say(transcript_in(home), "hello", "yes")
    replies = tmp_path / "script.jsonl"
    replies.write_text(json.dumps({"text": "streamed " * 600, "delay_ms": 60_000}) + "\n")
    verb = {"app": ("chat",), "run": ("run", "go on"), "lines": ("chat", "--plain")}[surface]
    terminal = OnTerminal(tmp_path, *verb, "--model", f"scripted/{replies}")
    try:
        if surface != "run":
            terminal.until(b"script.jsonl" if surface == "app" else b"> ")
            terminal.type(b"go on\r")
        terminal.until(b"streamed")
        before = len(terminal.seen)
        ending(terminal)
        terminal.finish()
    finally:
        terminal.process.kill()
        terminal.close()
    places = places_in(home)
    with History(places) as history:
        entries = [line.entry for line in history.turn(2)]
    (partial,) = (entry for entry in entries if isinstance(entry, AssistantPartial))
    assert partial.text.startswith("streamed")
    assert [entry.ending for entry in entries if isinstance(entry, TurnEnded)] == ["interrupted"]
    assert verify(places).ok
    if surface == "app" and ending is not OnTerminal.close:
        assert PLAIN_SCREEN in terminal.seen[before:]


def test_what_is_half_written_outlives_a_kill_well_within_a_second(
    home: Path, tmp_path: Path
) -> None:
    say(transcript_in(home), "hello", "yes")
    replies = tmp_path / "script.jsonl"
    replies.write_text('{"text": "Gladly."}\n')
    told = ("chat", "--model", f"scripted/{replies}")
    terminal = OnTerminal(tmp_path, *told)
    kept = places_in(home).folder / f"unsent.{terminal.process.pid}"
    try:
        terminal.until(b"script.jsonl")
        terminal.type(b"half a tho")
        terminal.until(b"half a tho")
        began = time.monotonic()
        terminal.type(b"ught")
        while not kept.exists() or kept.read_bytes() != b"half a thought":
            assert time.monotonic() - began < 0.9
        terminal.process.kill()
        terminal.process.wait()
        terminal.close()
        terminal = OnTerminal(tmp_path, *told)
        terminal.until(b"half a thought")
    finally:
        terminal.process.kill()
        terminal.process.wait()
        terminal.close()


@pytest.mark.parametrize("surface", ["app", "run", "lines"])
def test_a_hook_that_fails_at_the_end_of_a_session_is_told_wherever_one_is(
    home: Path, tmp_path: Path, surface: str
) -> None:
    home.mkdir()
    call = {"hooks": [{"type": "command", "command": "exit 9"}]}
    (home / "hooks.json").write_text(json.dumps({"hooks": {"SessionEnd": [call]}}))
    replies = tmp_path / "script.jsonl"
    replies.write_text('{"text": "Gladly answered."}\n')
    verb = {"app": ("chat",), "run": ("run", "go on"), "lines": ("chat", "--plain")}[surface]
    terminal = OnTerminal(tmp_path, *verb, "--model", f"scripted/{replies}")
    try:
        if surface != "run":
            terminal.until(b"script.jsonl" if surface == "app" else b"> ")
            terminal.type(b"go on\r")
        terminal.until(b"Gladly")
        if surface != "run":
            terminal.type(b"\x11" if surface == "app" else b"\x04")
        terminal.finish()
    finally:
        terminal.process.kill()
        terminal.close()
    told = terminal.seen.rpartition(PLAIN_SCREEN)[2]
    assert b"Hook SessionEnd" in told
    assert b"exit code 9" in told


def closed(*numbers: int) -> Callable[[], None]:
    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


@pytest.mark.parametrize(
    ("numbers", "code"), [((0,), 0), ((1,), 1), ((0, 1, 2), 1), ((2,), 0), ((0, 2), 0)]
)
def test_closed_streams_are_no_reason_for_a_traceback(
    home: Path, numbers: tuple[int, ...], code: int
) -> None:
    say(transcript_in(home), "question", "answer")
    before = places_in(home).transcript.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "mindstone_tui", "log"],
        preexec_fn=closed(*numbers),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert ("answer" in done.stdout) == (code == 0)
    assert places_in(home).transcript.read_bytes() == before


@pytest.mark.thorough
def test_an_output_that_takes_nothing_is_said_in_one_sentence(home: Path) -> None:
    say(transcript_in(home), "question", "answer")
    with Path("/dev/full").open("w") as full:
        for verb in (("log",), ("log", "--json"), ("export",), ("--version",)):
            done = subprocess.run(
                [sys.executable, "-m", "mindstone_tui", *verb],
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            assert done.returncode == 1, verb
            assert done.stderr.strip() == (
                "mindstone: The output could not be written: No space left on device."
            ), verb


def test_a_folder_that_was_deleted_meanwhile_is_named(home: Path, tmp_path: Path) -> None:
    del home
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$PWD"; exec "$0" -m mindstone_tui run hi', sys.executable],
        cwd=gone,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "mindstone: The folder you are in was deleted.",
    )


def test_an_agent_for_editors_without_a_pipe_says_so_at_once(home: Path, tmp_path: Path) -> None:
    del home
    for stdin, stdout in ((subprocess.DEVNULL, subprocess.PIPE), (subprocess.PIPE, None)):
        with (tmp_path / "out").open("w") as file:
            done = subprocess.run(
                [sys.executable, "-m", "mindstone_tui", "acp"],
                stdin=stdin,
                stdout=stdout or file,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert done.returncode == 2
        assert "is neither a pipe nor a terminal" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_an_interrupt_ends_the_server_for_other_agents(home: Path) -> None:
    del home
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    server = subprocess.Popen(
        [sys.executable, "-m", "mindstone_tui", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        assert "result" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        try:
            assert server.wait(PATIENCE) in (130, -signal.SIGINT)
        finally:
            server.kill()


def test_keys_that_come_before_the_first_picture_break_nothing(home: Path, tmp_path: Path) -> None:
    del home
    replies = tmp_path / "script.jsonl"
    replies.write_text(json.dumps({"text": "the tide is out"}) + "\n")
    terminal = OnTerminal(tmp_path, "chat", "--model", f"scripted/{replies}")
    try:
        terminal.until(b"\x1b[?1049h")  # the screen is the app's, and nothing is drawn yet
        for sign in b"yes\t\r":
            terminal.type(bytes([sign]))
        terminal.until(b"script.jsonl")
        terminal.type(b"\x15how is the tide?\r")
        terminal.until(b"the tide is out")
    finally:
        terminal.process.kill()
        terminal.finish()
        terminal.close()
    assert b"Traceback" not in terminal.seen
    assert b"NoMatches" not in terminal.seen
