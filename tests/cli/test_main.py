"""What every verb shares: the version at once, errors in words, quiet pipes, no colour in them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mindstone_tui import __version__
from mindstone_tui.cli import main
from mindstone_tui.cli.main import run
from mindstone_tui.cli.output import harmless_json, own_command
from mindstone_tui.core import diagnostics
from tests.builders import say, transcript_in
from tests.cli.program import ROOT, mindstone, mindstone_here
from tests.cli.terminal import OnTerminal


def test_the_version_is_answered_before_anything_else_is_loaded() -> None:
    for flag in ("--version", "-V"):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "mindstone_tui", flag],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.stdout == f"mindstone {__version__} ({ROOT / 'mindstone_tui'})\n"
        for heavy in ("typer", "msgspec", "textual", "rich", "litellm", "mindstone_tui.core"):
            assert f"| {heavy}" not in done.stderr.replace("  ", ""), heavy


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others have no such switch")
def test_nothing_that_it_starts_can_read_the_program_s_keys() -> None:
    program = (
        "import ctypes, sys\nfrom mindstone_tui.__main__ import main\n"
        "main()\nprint('dumpable', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.endswith("dumpable 0\n")


def test_the_help_lists_every_verb_once_those_of_every_day_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = [verb for verbs in main.FAMILIES.values() for verb in verbs.split()]
    assert sorted(listed) == sorted(main.VERBS)
    assert main.run(["--help"]) == 0
    told = capsys.readouterr().out
    assert told.index("Every day:") < told.index("History:") < told.index("Care:")
    assert all(f"  {verb} " in told for verb in listed)


def test_every_verb_in_the_list_exists_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for verb in main.VERBS:
        assert f"  {verb} " in shown
        assert run([verb, "--help"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert f"Usage: mindstone {verb} " in told
        assert main.VERBS[verb][1] in told, "the list says something else than the verb's own help"


def test_wrong_use_is_exit_2_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["frobnicate"], ["log", "--frobnicate"], ["log", "--tail", "many"]):
        assert run(arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "help" in said.err


def test_no_line_of_the_help_breaks_off(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["config", "--help"], ["models", "--help"]):
        assert run(arguments) == 0
        said = capsys.readouterr().out
        assert not [line for line in said.splitlines() if line.endswith("...") and line[:1] == " "]
    assert "mindstone --model NAME" in " ".join(_help(["--help"], capsys).split())


def test_an_option_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in main.VERBS:
        assert "range>" not in _help([verb, "--help"], capsys), verb


def _help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", " "], "Nothing to search for."),
        (["recall", "x", "--kind", "user_mesage"], "Did you mean user_message?"),
        (["replay", "--prompt"], "--prompt needs a turn."),
        (["replay", "--call", "2"], "--call needs a turn."),
        (["chat", "--at", "4"], "--at opens the transcript browser"),
        (["chat", "--cwd", "no-such-folder"], "no-such-folder is not a folder."),
        (["run", "x", "--approve", "maybe"], "--approve: approvals.mode wants one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    home: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_reindexing_a_session_that_does_not_exist_makes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reindex", "-s", "tpyo"]) == 1
    assert "There is no session agent:default:tpyo." in capsys.readouterr().err
    assert not (home / "agents" / "default" / "sessions").exists()


def test_a_part_of_a_session_s_name_is_answered_with_the_whole(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(transcript_in(home, "agent:default:claude-code-1358f047"), "hello", "yes")
    for typed in ("code-1358", "cluade-code-1358f047"):
        assert run(["context", "--session", typed]) != 0
        assert "Did you mean claude-code-1358f047?" in capsys.readouterr().err


def test_an_error_is_what_happened_and_what_to_do_and_no_traceback() -> None:
    done = mindstone("log", "--session", "nosuch")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "mindstone: There is no session agent:default:nosuch.",
        "`mindstone sessions` lists those that exist, -s chooses one.",
    ]


def test_the_traceback_goes_to_a_log_that_only_its_owner_reads(home: Path) -> None:
    mindstone("log", "--session", "nosuch", env={"MY_API_TOKEN": "agent-default-nosuch-secret"})
    log = home / "state" / "mindstone.log"
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_bug_ends_in_a_sentence_that_names_the_log(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main.VERBS, "broken", ("no_such_module", "Break."))
    assert run(["broken"]) == 1
    said = capsys.readouterr().err
    assert "Unexpected error" in said
    assert str(home / "state" / "mindstone.log") in said
    assert "Traceback" not in said


def test_a_reader_who_leaves_ends_the_program_quietly(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(60):
        say(transcript, f"question {number}", "answer " * 400)
    process = subprocess.Popen(
        [sys.executable, "-m", "mindstone_tui", "log"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_an_interrupt_is_exit_130_for_a_verb_that_waits(home: Path) -> None:
    say(transcript_in(home), "question", "answer")
    process = subprocess.Popen(
        [sys.executable, "-m", "mindstone_tui", "log", "--follow", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # A runner in the background has interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    say(transcript_in(home), "another", "answer")
    assert b'"seq":5' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in complaint


def test_a_pipe_and_no_color_get_no_colour(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(transcript_in(home), "question", "answer")
    for env in ({"TERM": "xterm-256color"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        done = mindstone("log", env=env)
        assert "\x1b" not in done.stdout + done.stderr
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        for arguments in (["sessions"], ["verify"], ["config", "show"], ["--help"]):
            done = mindstone_here(*arguments)
            assert "\x1b" not in done.stdout + done.stderr, arguments


def test_text_from_outside_cannot_steer_the_terminal(home: Path) -> None:
    hostile = "\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202eevil\x00\r\b"
    say(transcript_in(home), hostile, hostile)
    for arguments in (["log", "--json"], ["sessions"], ["sessions", "--json"]):
        done = mindstone_here(*arguments)
        assert done.returncode == 0
        assert not set(done.stdout) & set("\x1b\x07\x9b\u202e\x00\r\b"), arguments
    shown = OnTerminal(None, "log")
    shown.until(b"turn_ended")
    assert not any(sign in shown.seen for sign in (b"\x1b[2J", b"\x1b]52", b"\x07", b"\b"))
    assert "\u202e".encode() not in shown.seen
    shown.close()
    assert shown.process.wait() is not None


def test_what_to_type_again_is_a_path_only_where_the_shell_would_not_find_it(
    tmp_path: Path,
) -> None:
    nowhere, somewhere = {"PATH": ""}, {"PATH": str(tmp_path)}
    (tmp_path / "mindstone").touch(mode=0o700)
    assert own_command(".venv/bin/mindstone", nowhere) == ".venv/bin/mindstone"
    assert own_command("/my files/mindstone", nowhere) == "'/my files/mindstone'"
    assert own_command(".venv/bin/mindstone", somewhere) == "mindstone"
    assert own_command("/src/mindstone_tui/__main__.py", nowhere) == "mindstone"


def test_json_is_the_same_value_after_it_was_made_harmless() -> None:
    import json

    text = "ü漢\u202e\x9b\U000e0041\u2028😀\x7f"
    harmless = harmless_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(harmless) == text
    assert harmless.isprintable()
    assert "ü漢" in harmless


def loaded_by(*arguments: str) -> set[str]:
    """The top packages that a command loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mindstone_tui", *arguments],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    rows = (row.rsplit("|", 1)[-1].strip() for row in done.stderr.splitlines())
    return {row.partition(".")[0] for row in rows}


def test_help_loads_neither_the_app_nor_a_provider() -> None:
    unwanted = {"textual", "litellm", "onnxruntime", "pydantic", "tiktoken"}
    assert not loaded_by("--help") & unwanted


@pytest.mark.thorough
def test_a_headless_turn_loads_no_embedder_while_everything_stands_in_its_window() -> None:
    unwanted = {"textual", "litellm", "onnxruntime", "tokenizers", "tiktoken"}
    for message in ("The kettle is copper.", "Which metal is the kettle?"):
        assert not loaded_by("run", message, "--model", "local/guide") & unwanted


def test_no_home_at_all_is_said_in_words() -> None:
    done = mindstone("sessions", env={"MINDSTONE_HOME": "~nobody-has-this-name/x"})
    assert done.returncode == 1
    assert "nobody has such a home" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", [("chat", "--plain"), ("run", "hello")])
def test_a_folder_that_is_not_there_is_wrong_use_wherever_it_is_named(
    home: Path, verb: tuple[str, ...]
) -> None:
    missing = str(home / "nowhere")
    done = mindstone_here(*verb, "--cwd", missing)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"mindstone: {missing} is not a folder.",
        "Pass an existing folder with --cwd.",
    ]


OVERFLOWING = """
import runpy, sys, time

def time_of_day():
    raise OverflowError("timestamp too large to convert to C _PyTime_t")

time.time = time.time_ns = time_of_day  # as Python's own behave after the year 2262
sys.argv = ["mindstone", *sys.argv[1:]]
runpy.run_module("mindstone_tui", run_name="__main__")
"""


def test_a_clock_that_python_cannot_read_stops_nothing(home: Path, tmp_path: Path) -> None:
    replies = tmp_path / "script.jsonl"
    replies.write_text('{"text":"It is late."}\n')
    for arguments, expected in (
        (("run", "how late is it?", "--model", f"scripted/{replies}"), "It is late."),
        (("sessions",), "how late is it?"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", OVERFLOWING, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_what_attach_names_as_its_way_back_is_the_way_back(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    done = mindstone_here("attach", "codex", "--project", "--yes", cwd=project)
    (back,) = re.findall(r"`mindstone (attach .*)` takes it back", done.stderr)
    assert list((project / ".codex").iterdir())
    assert mindstone_here(*back.split(), "--yes", cwd=project).returncode == 0
    assert not list((project / ".codex").iterdir())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("ver", "verify"), ("run --no-w", "--no-wait"), ("log -s ma", "main")],
)
def test_a_shell_completes_verbs_options_and_sessions(
    home: Path, shell: str, typed: str, offered: str
) -> None:
    say(transcript := transcript_in(home), "question", "answer")
    transcript.close()
    words = f"mindstone {typed}"
    asked = {
        "_MINDSTONE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(typed.split())),
    }
    done = subprocess.run(
        [sys.executable, "-m", "mindstone_tui"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked, "PYTHONPATH": str(ROOT)},
    )
    assert offered in done.stdout


def test_no_log_has_a_secret_that_an_error_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOUR_API_KEY", "Tr0ub4dor-and-3-herons")
    log = tmp_path / "log"
    told = "refused: Tr0ub4dor-and-3-herons and ghp_" + "a1B2" * 9
    assert diagnostics.record(ValueError(told), log)
    assert "refused" in log.read_text()
    assert "herons" not in log.read_text()
    assert "ghp_a1B2" not in log.read_text()
