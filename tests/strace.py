"""The real command under strace: what it reached for and what it changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.program import ROOT

# A byte to our own event loop, from a thread to a socket pair, names no address.
_REACHING = r"^.*\b(?:(?:connect|bind)\(|send\w+\(.*sa_family).*"
_CHANGING = r"^.*\b(?:mkdir|rename|unlink|ftruncate|truncate|symlink|link|chmod|fsync)\w*\(.*"
_WATCHED = r"/^(connect|bind|send.*|mkdir.*|rename.*|unlink.*|f?truncate.*|symlink.*|link.*"
_WATCHED += r"|f?chmod.*|fsync|fdatasync|open.*|creat)$"
_OPENING = r'open(?:at)?\([^"]*"([^"]+)", ([A-Z_|]+)'


def only(calls: str) -> list[str]:
    """Options with which strace stops a program, its threads and children at these calls alone."""
    return ["-f", "--seccomp-bpf", "-qq", "-e", f"trace={calls}"]


def run_touching_nothing(
    home: Path, trace: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run `mindstone`; assert that it connected to nothing and wrote nothing anywhere."""
    before = _state(home)
    watched = ["strace", *only(_WATCHED), "-o", str(trace)]
    done = subprocess.run(
        [*watched, sys.executable, "-m", "mindstone_tui", *arguments],
        env={
            **os.environ,
            "MINDSTONE_HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls = trace.read_text()
    assert not re.findall(_REACHING, calls, re.MULTILINE)
    assert not re.findall(_CHANGING, calls, re.MULTILINE)
    opened = re.findall(_OPENING, calls)
    written = [path for path, how in opened if re.search("O_WRONLY|O_RDWR|O_CREAT", how)]
    assert not [path for path in written if not path.startswith("/dev/")]
    assert _state(home) == before
    return done


def _state(home: Path) -> dict[str, tuple[int, int]]:
    """Every file, its size and when it was changed."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(home.rglob("*"))
    }
