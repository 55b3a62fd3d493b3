"""The tests with a fault planted, in a process that has loaded nothing of ours yet."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
CUSTOMIZE: Final = """
import importlib.abc, importlib.machinery, importlib.util, os, sys

class Planted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != os.environ.get("MUTANT_MODULE"):
            return None
        loader = importlib.machinery.SourceFileLoader(name, os.environ["MUTANT_SOURCE"])
        where = os.environ["MUTANT_FILE"]
        return importlib.util.spec_from_file_location(name, where, loader=loader)

sys.dont_write_bytecode = True
sys.meta_path.insert(0, Planted())
"""
"""Every Python that the tests start takes the module with the fault, too.

It says that it lies where the right one does: some read a file of words beside them.
"""


def run_tests(environ: dict[str, str], tests: list[str], said: Path) -> None:
    """Become pytest, in a process and a folder of its own: a fault may write anywhere."""
    os.setsid()
    os.chdir(said.parent)
    os.environ.update(environ)
    tempfile.tempdir = None
    with said.open("wb") as out:
        os.dup2(out.fileno(), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    exec(CUSTOMIZE, {})
    without = ["-pno:cacheprovider", "-pno:xdist", "-pno:textual-snapshot"]
    loaded = "-Wignore:Module already imported"  # hypothesis, to begin sooner
    here = [f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}"]
    wanted = [str(ROOT / path) for path in tests]
    plain = ["-q", "-x", "--no-header", "--tb=no", loaded]
    sys.exit(pytest.main([*plain, *without, *here, *wanted]))
