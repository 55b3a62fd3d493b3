"""kill -9 at every line around a call and in an undo: either state whole, and undoable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindstone_tui.core.undo import restore
from mindstone_tui.core.undo.changes import PathChange
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.restore import MANY
from mindstone_tui.core.undo.scan import Node
from tests.core.undo.trees import picture
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.file_keeper import keeper_in, mess, prepare, put_back

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("many", [MANY, 0], ids=["one by one", "in mass"])
def test_a_kill_at_any_line_leaves_files_that_can_be_taken_back(
    tmp_path: Path, tell: Tell, many: int
) -> None:
    prepare(tmp_path / "before")
    first = picture(tmp_path / "before" / "work")
    prepare(tmp_path / "after")
    states = [first, *(picture(tmp_path / "after" / "work") for _ in mess(tmp_path / "after"))]
    points, count = killed(tmp_path, many)
    assert picture(tmp_path / "0" / "work") == states[-1]
    outcomes = {"nothing": 0, "changed": 0, "taken back": 0}
    for point in points:
        folder = tmp_path / point
        keeper = keeper_in(folder, many)
        keeper.recover()
        now = picture(folder / "work")
        steps = keeper.steps()
        assert now in states, f"{point}: the files are in no state that they ever had"
        outcomes["changed" if steps.applied else "taken back" if steps.undone else "nothing"] += 1
        if steps.applied:
            put_back(keeper, "undo")
        assert picture(folder / "work") == first, f"{point}: changed, and nobody knows"
        # A walk, since what was removed may be vanishing meanwhile.
        left = [name for _, _, names in os.walk(folder / "home") for name in names]
        assert not [name for name in left if ".msgpack-" in name]
    assert all(outcomes.values()), outcomes
    tell(f"kill -9 around files ({many})", f"{len(points)} of {count} lines", str(outcomes))


def killed(base: Path, many: int) -> tuple[list[str], int]:
    """Run the program to its death at points; the folders that are left, and how many there are."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.file_keeper", base, str(many), str(sized(8, 0))],
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


def test_a_file_torn_while_it_was_written_to_is_finished(tmp_path: Path) -> None:
    root, store = tmp_path / "work", ObjectStore(tmp_path / "store", limit=1 << 20)
    root.mkdir()
    for number, (old, new) in enumerate([(b"x" * 9000, b"y" * 5000), (b"x" * 10, b"y" * 9000)]):
        change = PathChange(
            f"f{number}", Node("file", 0o644, store.put(old)), Node("file", 0o644, store.put(new))
        )
        store.save()
        for cut in (1, 4096, len(new)):
            path = root / f"f{number}"
            path.write_bytes(new[:cut] + old[cut:])
            path.chmod(0o644)
            restore.finish(root, [change], store, 1 << 20)
            assert path.read_bytes() == new
        (root / f"f{number}").write_bytes(b"somebody else's")
        restore.finish(root, [change], store, 1 << 20)
        assert (root / f"f{number}").read_bytes() == b"somebody else's"
