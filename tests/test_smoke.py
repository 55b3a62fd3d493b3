"""The runs of `make smoke` hold; all of them at full length, the shortest always."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import FULL
from tests.smoke.runs import RUNS


@pytest.mark.parametrize("name", RUNS if FULL else ["unified-session"])
def test_a_watched_run_holds(name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    RUNS[name](home)
    told = capsys.readouterr().out
    assert (told.count(" ✓ ") >= 4, told.count(" ✗ ")) == (True, 0), "too little was looked at"
