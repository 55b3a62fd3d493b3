"""Foreign text on a real terminal: no control byte of its own arrives, no bracket is lost."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.corpora import FULL
from tests.tui.hostile import BRACKETS, PLACES, text_of
from tests.tui.screen_model import ScreenModel

COUNT = 10_400 if FULL else 150
"""Payloads in each place, every one that is known among them; there are 26 places."""

ROWS, COLUMNS = (3_000 if FULL else 70), 180
OWN = {"\r", "\x1b[<u", "\x1b[>Nu", "\x1b[?N$p", "\x1b[?Nh", "\x1b[?Nl", "\x1b]N;default\x07"}
"""Every control sequence of the app itself, numbers left out: modes, keys and the pointer."""
FIRST_CELL = "\x1b[1;1H"
"""With this the app begins to draw a whole screen."""
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[P\]X^_].*?(?:\x07|\x1b\\)"  # strings
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
_PAINT = re.compile(r"\x1b\[(?:0|[0-9;]*(?:[34]8;2;|[34]9)[0-9;]*|[1-9])?m|\x1b\[\d+;\d+H")


def run(count: int, home: Path, rows: int, columns: int) -> str:
    """What the app writes to its terminal during a tour of all its places."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # A parallel run names a size of its own here, which would win over the terminal's.
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.tui.hostile", str(count), str(home)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=Path(__file__).parents[2],
        env={**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        close_fds=True,
    )
    os.close(follower)
    written: list[bytes] = []
    while True:
        try:
            chunk = os.read(leader, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        written.append(chunk)
    os.close(leader)
    assert child.wait(timeout=60) == 0, b"".join(written)[-2_000:]
    return b"".join(written).decode("utf-8", "strict")


Toured = tuple[str, dict[str, bool]]
"""What was written, and whether the text was read in each place."""


def places(home: Path) -> dict[str, bool]:
    """The notes of a tour."""
    seen: dict[str, bool] = json.loads((home / PLACES).read_bytes())
    return seen


def controls(output: str) -> set[str]:
    """Every control sequence that is not a colour or a place, with its numbers left out."""
    rest = _PAINT.sub("", output)
    found = {re.sub(r"\d+", "N", sequence) for sequence in _SEQUENCE.findall(rest)}
    plain = _SEQUENCE.sub("", rest)
    found |= {sign for sign in plain if ord(sign) < 32 or 127 <= ord(sign) < 160}
    return found | {sign for sign in plain if sign in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Toured:
    """A tour with everything a terminal might obey."""
    home = tmp_path_factory.mktemp("hostile") / "home"
    return run(COUNT, home, ROWS, COLUMNS), places(home)


@pytest.fixture(scope="module")
def tame(tmp_path_factory: pytest.TempPathFactory) -> Toured:
    """A tour with nothing but brackets: what the app writes by itself."""
    if not FULL:
        pytest.skip("a second tour, which `make faults` makes")
    home = tmp_path_factory.mktemp("tame") / "home"
    return run(0, home, 50, 120), places(home)


@pytest.mark.thorough
def test_no_foreign_control_byte_reaches_the_terminal(hostile: Toured) -> None:
    assert controls(hostile[0]) - {"\n", "\t"} == OWN
    assert "\x1b[2J" in text_of(COUNT)


def test_the_app_writes_the_same_control_bytes_without_foreign_text(tame: Toured) -> None:
    assert controls(tame[0]) - {"\n", "\t"} == OWN
    assert [place for place, found in tame[1].items() if not found] == []


def test_the_text_is_read_in_every_place_as_it_is(hostile: Toured) -> None:
    assert [place for place, found in hostile[1].items() if not found] == []
    assert len(hostile[1]) > 25


def test_brackets_are_shown_as_they_are(hostile: Toured) -> None:
    screen = ScreenModel(COLUMNS, ROWS)
    # The last screen is enough: the tour itself read every place.
    screen.feed(hostile[0][hostile[0].rindex(FIRST_CELL) :])
    assert [bracket for bracket in BRACKETS if bracket not in screen.text] == []
