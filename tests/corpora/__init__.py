"""Attacks as readable data: one case a line, comments start with `#`, easy to extend."""

from __future__ import annotations

import os
from pathlib import Path

FULL = os.environ.get("MINDSTONE_FAULTS") == "1"
"""Whether the long versions of the sweeps were asked for."""


def lines(name: str) -> list[str]:
    """The cases of a corpus, in order."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def unescaped(case: str) -> str:
    r"""A case as the program meets it: `\n`, `\t`, `\x1b` and `\u202e` become what they name."""
    return case.encode("latin-1", "backslashreplace").decode("unicode_escape")
