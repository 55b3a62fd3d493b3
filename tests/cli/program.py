"""The command, in a process of its own or in this one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from mindstone_tui.cli.main import run

ROOT = Path(__file__).parents[2]
Done = subprocess.CompletedProcess[str]


def mindstone(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Run `mindstone` as a user would, in this test's own home."""
    return subprocess.run(
        [sys.executable, "-m", "mindstone_tui", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )


def mindstone_here(*arguments: str, cwd: Path | None = None) -> Done:
    """The same without a process: for tests of what is said, which start many commands."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
