"""kill -9 at every line around a call and in an undo: either state whole, and undoable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.core.undo.trees import picture
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.file_keeper import keeper_in, mess, prepare, put_back

ROOT = Path(__file__).parents[2]


def test_a_kill_at_any_line_leaves_files_that_can_be_taken_back(tmp_path: Path, tell: Tell) -> None:
    prepare(tmp_path / "before")
    first = picture(tmp_path / "before" / "work")
    prepare(tmp_path / "after")
    states = [first, *(picture(tmp_path / "after" / "work") for _ in mess(tmp_path / "after"))]
    points, count = killed(tmp_path)
    assert picture(tmp_path / "0" / "work") == states[-1]
    outcomes = {"nothing": 0, "changed": 0, "taken back": 0}
    for point in points:
        folder = tmp_path / point
        keeper = keeper_in(folder)
        keeper.recover()
        now = picture(folder / "work")
        steps = keeper.steps()
        assert now in states, f"{point}: the files are in no state that they ever had"
        outcomes["changed" if steps.applied else "taken back" if steps.undone else "nothing"] += 1
        if steps.applied:
            put_back(keeper, "undo")
        assert picture(folder / "work") == first, f"{point}: changed, and nobody knows"
        left = [name for _, _, names in os.walk(folder / "home") for name in names]
        assert not [name for name in left if ".msgpack-" in name]
    assert all(outcomes.values()), outcomes
    tell("kill -9 around files", f"{len(points)} of {count} lines", str(outcomes))


def killed(base: Path) -> tuple[list[str], int]:
    """Run the program to its death at points; the folders that are left, and how many there are."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.file_keeper", base, str(sized(16, 0))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    count, *ends = done.stdout.splitlines()
    # A file that is old enough is not read again, so a slow run may pass fewer lines and live.
    assert sum(end.endswith(" killed") for end in ends) > len(ends) * 0.8
    return [end.split()[0] for end in ends], int(count)
