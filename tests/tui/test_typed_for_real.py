"""Ordinary English typed at the real program in a real terminal, while approvals open.

`make typed` does it at length; the suite types a little.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.events.question import GRACE
from tests.builders import places_in
from tests.cli.program import ROOT
from tests.tui.test_decisions import english

ROUNDS = int(os.environ.get("MINDSTONE_TYPED", "0"))
PATIENCE = 60.0
HELD = 30
"""How often a second a key repeats that is held down."""
SPEEDS = (5, 20, 200) if ROUNDS else (20,)
WAYS = (*SPEEDS, "paste", "held")
PARTS = [(way,) * (ROUNDS // 2) for way in WAYS * 2] if ROUNDS > 1 else [WAYS]
"""Ways to type in one terminal; at length there are many, for most of it is waiting."""

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """The app in a terminal of its own."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._at = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        words = ["env", f"PYTHONPATH={ROOT}", *command]
        self.run("new-session", "-d", "-x", "120", "-y", "40", "-c", str(folder), *words)

    def run(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            [*self._at, *words], input=given, capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, text: str, speed: float) -> None:
        """Type so many characters a second."""
        begun, pause = time.monotonic(), threading.Event()
        for number, letter in enumerate(text):
            self.run("send-keys", "-l", letter)
            pause.wait(max(0.0, begun + (number + 1) / speed - time.monotonic()))

    def paste(self, text: str) -> None:
        self.run("load-buffer", "-", given=text)
        self.run("paste-buffer", "-p")

    def screen(self) -> str:
        return self.run("capture-pane", "-p")


@pytest.fixture
def terminals() -> Iterator[list[Tmux]]:
    opened: list[Tmux] = []
    yield opened
    for each in opened:
        each.run("kill-server")


def wait_for(holds: Callable[[], Any], what: Callable[[], str]) -> None:
    pause, end = threading.Event(), time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what()
        pause.wait(0.05)


def lines_of(transcript: Path, kind: str) -> list[dict[str, Any]]:
    """The entries of one kind so far."""
    if not transcript.exists():
        return []
    lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


class Typist:
    """Types each text into a turn that will ask, and goes on when the turn was stopped."""

    def __init__(self, app: Tmux, transcript: Path) -> None:
        self._app = app
        self._transcript = transcript

    def see(self, kind: str, number: int) -> None:
        """Wait for as many entries."""
        wait_for(lambda: len(lines_of(self._transcript, kind)) >= number, self._app.screen)

    def type(self, number: int, way: int | str, text: str) -> None:
        app = self._app
        self.see("turn_started", number)
        if way == "paste":
            app.paste(text)
        else:
            app.type(text, way if isinstance(way, int) else HELD)
        self.see("tool_asked", number)
        app.run("send-keys", "Enter")
        # One that is sent again while the turn before it is tidied up is queued once more.
        wait_for(
            lambda: (
                [one["text"] for one in lines_of(self._transcript, "message_queued")][-1:] == [text]
            ),
            app.screen,
        )
        answers = [one["how"] for one in lines_of(self._transcript, "tool_answered")]
        assert answers == ["Esc"] * (number - 1), "nothing but a stop decides"
        self._stop(number)
        self.see("message_withdrawn", number)  # it is in the prompt again
        app.run("send-keys", "Enter")

    def _stop(self, number: int) -> None:
        """Press Esc until it counts, and not once more."""
        pause = threading.Event()
        while len(lines_of(self._transcript, "turn_ended")) < number:
            pause.wait(GRACE * 1.3)
            self._app.run("send-keys", "Escape")
            pause.wait(GRACE)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_typing_while_approvals_open_decides_nothing_and_loses_no_character(
    part: int, home: Path, tmp_path: Path, terminals: list[Tmux]
) -> None:
    chance, ways = random.Random(11 + part), PARTS[part]
    texts = [english(chance, 9) if way != "held" else "y" * 50 for way in ways]
    replies = []
    for way, text in zip(ways, texts, strict=True):
        seconds = len(text) / (way if isinstance(way, int) else HELD)
        call = {"name": "shell", "arguments": {"command": "touch decided"}}
        delay = int(1000 * seconds * chance.uniform(0.0, 1.2))
        replies.append({"text": "Well.", "tool_calls": [call], "delay_ms": delay})
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps(each) for each in [*replies, {"text": "Done."}]))
    command = [sys.executable, "-m", "mindstone_tui", "--model", f"scripted/{script}"]
    app = Tmux(tmp_path, command)
    terminals.append(app)
    wait_for(lambda: "Message" in app.screen(), app.screen)
    app.type("go", 50)
    app.run("send-keys", "Enter")
    transcript = places_in(home).transcript
    typist = Typist(app, transcript)
    for number, (way, text) in enumerate(zip(ways, texts, strict=True), 1):
        typist.type(number, way, text)
    assert lines_of(transcript, "tool_approved") == []
    assert not (tmp_path / "decided").exists()
    print(f"{len(ways)} openings, 0 decisions, {sum(map(len, texts))} characters, 0 lost")
