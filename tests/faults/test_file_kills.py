"""kill -9 at every line around a call and in an undo: either state whole, and undoable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mindstone_tui.core.undo import restore
from mindstone_tui.core.undo.changes import PathChange
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import Node
from mindstone_tui.core.undo.steps import wanted
from tests.core.undo.trees import picture
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.file_keeper import keeper_in, mess, prepare

ROOT = Path(__file__).parents[2]


def run(base: Path, *points: int) -> set[str]:
    """Run the program; how it ended at the points."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.file_keeper", str(base), *map(str, points)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    return {line.split(" ", 1)[1] for line in done.stdout.splitlines()}


def test_a_kill_at_any_line_leaves_files_that_can_be_taken_back(tmp_path: Path, tell: Tell) -> None:
    prepare(tmp_path / "before")
    first = picture(tmp_path / "before" / "work")
    prepare(tmp_path / "after")
    states = [first, *(picture(tmp_path / "after" / "work") for _ in mess(tmp_path / "after"))]
    assert run(tmp_path, 0) == {"0"}
    assert picture(tmp_path / "0" / "work") == first
    count = int((tmp_path / "0" / "points").read_text())
    chosen = range(1, count + 1, max(1, count // sized(16, count)))
    assert run(tmp_path, *chosen) == {"killed"}
    outcomes = {"nothing": 0, "changed": 0, "taken back": 0}
    for point in chosen:
        folder = tmp_path / str(point)
        keeper = keeper_in(folder)
        keeper.recover()
        now = picture(folder / "work")
        steps = keeper.steps()
        assert now in states, f"{point}: the files are in no state that they ever had"
        outcomes["changed" if steps.applied else "taken back" if steps.undone else "nothing"] += 1
        if not steps.applied:
            assert now == first, f"{point}: changed, and nobody knows"
            continue
        turns, sets = wanted(steps, "undo", 1)
        for each in sets:
            found = keeper.outlook(each)
            assert not found.conflicts, f"{point}: {found.conflicts}"
            keeper.put_back("undo", turns, each.root, found.ready)
        assert picture(folder / "work") == first, point
        assert not list((folder / "home").rglob("*.msgpack-*"))
    assert all(outcomes.values()), outcomes
    tell("kill -9 around files", f"{len(chosen)} of {count} lines", str(outcomes))


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
