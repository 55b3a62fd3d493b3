"""On a terminal verbs draw for a person: in colour, in lines that fit; a pipe gets what it got."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from mindstone_tui.cli.main import run
from tests.builders import say, transcript_in

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SAID = "The harbour 港口 is deep, שלום to all who come by sea: " + "ships and boats " * 12
LONG = "claude-code-77777777-0000-4000-8000-000000000007"


class Screen(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def sessions(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("short", LONG):
        transcript = transcript_in(home, f"agent:default:{name}")
        say(transcript, f"{name}: {SAID}", "deep\x1b[31m water")
        transcript.close()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield monkeypatch
    os.environ.pop("NO_COLOR", None)


def drawn(*words: str) -> str:
    screen = Screen()
    with contextlib.redirect_stdout(screen):
        assert run(words) == 0
    return screen.getvalue()


@pytest.mark.parametrize(
    ("verb", "width"),
    [
        *(("sessions", width) for width in (40, 80, 160)),
        *(("doctor", 40), ("doctor", 160), ("log -s short", 80), ("recall deep -s short", 80)),
    ],
)
def test_no_line_is_wider_than_the_terminal(
    sessions: pytest.MonkeyPatch, verb: str, width: int
) -> None:
    sessions.setenv("COLUMNS", str(width))
    told = drawn(*verb.split())
    assert COLOUR.search(told)
    assert "\x1b[31m water" not in told
    lines = COLOUR.sub("", told).split("\n")
    assert [line for line in lines if cell_len(line) > width] == []


def test_a_session_is_found_by_the_name_that_the_list_shows(
    sessions: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions.setenv("COLUMNS", "80")
    rows = COLOUR.sub("", drawn("sessions")).split("\n")
    (name,) = [row.split()[0] for row in rows if row.startswith("claude-code-")]
    assert name.endswith("…")
    assert run(["log", "-s", name, "-k", "user_message"]) == 0
    assert LONG in capsys.readouterr().out
    assert run(["log", "-s", "nobody…"]) == 2
    assert "No sessions have a name that begins with nobody…" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb",
    [
        *("log", "verify", "export", "context", "recall deep", "reindex", "files", "cost"),
        *("replay", "health", "checkpoint show"),
    ],
)
def test_a_verb_that_reads_takes_the_beginning_of_one_session_s_name(
    sessions: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, verb: str
) -> None:
    with contextlib.closing(transcript_in(home, f"agent:default:{LONG}~helper")) as child:
        say(child, "question", "answer")
    told = [
        (run([*verb.split(), "-s", name]), *capsys.readouterr())
        for name in (LONG, "claude-code-7777")
    ]
    assert told[0] == told[1]


def test_the_beginning_of_a_name_is_no_session_where_one_is_begun_or_several_are_meant(
    sessions: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert run(["task", "start", "Paint | when: it is blue", "-s", "claude-code"]) == 0
    assert run(["log", "-s", "claude-cod"]) == 2
    assert "2 sessions have a name that begins with claude-cod" in capsys.readouterr().err
    assert run(["log", "-s", "nobody"]) == 1


def test_a_bare_name_means_another_agent_s_session_where_the_default_one_has_none(
    sessions: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    with contextlib.closing(transcript_in(home, "agent:sample:tidewatch")) as other:
        say(other, "which port?", "8790")
    assert run(["log", "-s", "tide", "-k", "user_message"]) == 0
    assert "which port?" in capsys.readouterr().out
    with contextlib.closing(transcript_in(home, "agent:default:tide")) as own:
        say(own, "high or low?", "low")
    assert run(["log", "-s", "tide", "-k", "user_message"]) == 0
    assert "high or low?" in capsys.readouterr().out
    with contextlib.closing(transcript_in(home, "agent:work:tidewatch")):
        pass
    assert run(["log", "-s", "tidewatch"]) == 2
    assert "2 sessions have a name that begins with tidewatch" in capsys.readouterr().err


@pytest.mark.parametrize("asked", ["--no-color", "NO_COLOR"])
def test_nobody_gets_colour_who_does_not_want_it(sessions: pytest.MonkeyPatch, asked: str) -> None:
    if asked == "NO_COLOR":
        sessions.setenv("NO_COLOR", "1")
    told = drawn("sessions", *([asked] if asked.startswith("-") else []))
    assert "\x1b" not in told


def test_a_pipe_gets_whole_names_and_titles(
    sessions: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions.setenv("COLUMNS", "40")
    assert run(["sessions"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("SESSION ")
    assert f"agent:default:{LONG}" in told
    assert "\x1b" not in told
    assert run(["log", "-s", "short"]) == 0
    assert SAID in capsys.readouterr().out
