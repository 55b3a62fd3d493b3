"""A recorder that is killed at its work loses nothing; `make attached` kills all the others."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from mindstone_tui.core.config import Settings
from mindstone_tui.core.library.watch import LiveImports
from mindstone_tui.core.paths import Places
from tests.cli.program import ROOT
from tests.core.library.test_live_import import ClaudeFile, expected, said_in

KILLED_AFTER = (0.25, 0.4)
"""Seconds: while it loads, and about when it writes."""


def test_a_killed_recorder_is_completed_by_the_next_look(tmp_path: Path) -> None:
    file = tmp_path / "s1.jsonl"
    written = ClaudeFile()
    for number in range(20):
        written.exchange(number)
    environ = {
        "HOME": str(tmp_path),
        "MINDSTONE_HOME": str(tmp_path / "ours"),
        "PYTHONPATH": str(ROOT),
        "PATH": os.defpath,
    }
    for round_, seconds in enumerate(KILLED_AFTER, start=1):
        file.write_text("".join(written.lines[: 50 * round_]))
        recorder = subprocess.Popen(
            [sys.executable, "-P", "-m", "mindstone_tui", "watch", "--once", str(file)],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            recorder.wait(seconds)
        recorder.kill()
        recorder.wait()
    file.write_text("".join(written.lines))
    home = Places.resolve(environ)
    LiveImports(home, Settings(), {}).of(file).catch_up(settled=True)
    assert said_in(home) == expected(20)
