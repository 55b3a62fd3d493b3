"""kill -9 at any system call that changes the disk: nothing acknowledged is lost.

The calls are counted once by strace, then the program is killed at each of them in turn.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mindstone_tui.core.transcript import Transcript, verify
from tests.builders import places_in, say, transcript_in
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.story import gists, lines_of, script
from tests.faults.writer import SIZE, acknowledged

CALLS = "write,pwrite64,fdatasync,fsync,ftruncate,?rename,renameat,?renameat2,mkdirat,?mkdir"
TURNS = sized(4, 44)
ROOT = Path(__file__).parents[2]

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def _prepare(base: Path) -> None:
    """A session with a torn tail, so that recovery is part of what is killed."""
    transcript = transcript_in(base)
    say(transcript, "before", "the story")
    transcript.close()
    with transcript.places.transcript.open("ab") as file:
        file.write(b'{"v":1,"seq":5,"id":"torn')


def _run(folder: Path, base: Path, *strace: str) -> tuple[Path, Path, int]:
    home, notes = folder / "home", folder / "notes"
    shutil.copytree(base, home)
    notes.write_bytes(bytes(SIZE))
    python = os.path.realpath(sys.executable)
    command = ["strace", "-f", "-qq", "-e", f"trace={CALLS}", *strace, python]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(p for p in sys.path if p)]),
    }
    arguments = ["-S", "-m", "tests.faults.writer", str(home), str(notes), str(TURNS)]
    done = subprocess.run(
        command + arguments,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return home, notes, done.returncode


@needs_strace
def test_a_kill_at_any_system_call_costs_nothing_that_was_acknowledged(
    tmp_path: Path, tell: Tell
) -> None:
    base = tmp_path / "base"
    _prepare(base)
    trace = tmp_path / "trace"
    (tmp_path / "whole").mkdir()
    _, _, code = _run(tmp_path / "whole", base, "-o", str(trace))
    assert code == 0
    calls = Counter(re.findall(r"^(?:\d+ +)?(\w+)\(", trace.read_text(), re.MULTILINE))
    points = [(call, number) for call in calls for number in range(1, calls[call] + 1)]
    chosen = points[:: max(1, len(points) // sized(12, 600))]
    for call, number in chosen:
        folder = tmp_path / "killed"
        folder.mkdir()
        inject = f"inject={call}:signal=KILL:when={number}"
        home, notes, code = _run(folder, base, "-o", "/dev/null", "-e", inject)
        assert code != 0, f"{inject} did not kill"
        _check(home, acknowledged(notes), inject)
        shutil.rmtree(folder)
    assert len(chosen) >= sized(12, 500)
    tell("kill -9 at system calls", f"{len(chosen):,} of {len(points):,}", "0 acknowledged lost")


def _check(home: Path, sure: list[str], how: str) -> None:
    transcript = Transcript(places_in(home), channel="test")
    assert verify(transcript.places).ok, how
    with transcript.history() as history:
        lines = lines_of(history)
    hashes = {line.hash for line in lines}
    assert hashes.issuperset(sure), f"{how}: acknowledged lines are gone"
    story = gists(lines)[4:]
    assert story == script(TURNS)[: len(story)], f"{how}: something was invented"
    assert len(story) >= len(sure), how
    recovered = [line for line in lines if line.kind == "tail_recovered"]
    assert len(recovered) >= 1, f"{how}: the torn tail was not written down"
    transcript.close()
