"""The command, in a process of its own or in this one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mindstone_tui.cli.main import run
from tests.cli.forked import ROOT as ROOT
from tests.cli.forked import begin

Done = subprocess.CompletedProcess[str]


def mindstone(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Run `mindstone` as a user would, in this test's own home."""
    process = begin(
        *arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


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
