"""What a crash, a full disk or a flipped bit leaves behind, tried out rather than argued about.

The suite runs every kind of fault at a small size. `make faults` sets MINDSTONE_FAULTS=1, runs
them at full size and prints a table of what was tried and what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

FULL = os.environ.get("MINDSTONE_FAULTS") == "1"


def sized(small: int, full: int) -> int:
    """How many cases to try."""
    return full if FULL else small


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """All of these cases: `make test` tries every so-many-th, `make thorough` the others."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough)
        if at % every
        else case
        for at, case in enumerate(cases)
    ]
