"""Undo after do is identity, redo after undo is identity, and nothing outside is ever touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.undo import restore
from mindstone_tui.core.undo.changes import ChangeSet, PathChange, between, together
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import EMPTY, Limits, Node, TreeState, scan, stamp_of
from tests.core.undo.trees import DEEDS, Deed, do, picture

LIMITS = Limits(1_000, 1 << 20)


@contextmanager
def workspace() -> Iterator[tuple[Path, ObjectStore]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as base:
        root = Path(base, "outside", "work")
        root.mkdir(parents=True)
        (root.parent / "b").write_bytes(b"outside")
        yield root, ObjectStore(Path(base, "store"), limit=1 << 24)


def look(root: Path, store: ObjectStore, known: TreeState = EMPTY) -> TreeState:
    return scan(root, known, store, LIMITS)


@settings(max_examples=60, deadline=None)
@given(before=st.lists(DEEDS, max_size=12), deeds=st.lists(DEEDS, max_size=12))
def test_undo_is_the_inverse_of_do_and_redo_of_undo(before: list[Deed], deeds: list[Deed]) -> None:
    with workspace() as (root, store):
        for deed in before:
            do(root, deed)
        first, seen = picture(root), look(root, store)
        for deed in deeds:
            do(root, deed)
        second = picture(root)
        changes = between(root, seen, look(root, store, seen), store)
        store.save()
        assert not restore.apply(root, [each.turned() for each in changes], store)
        assert picture(root) == first
        assert not restore.apply(root, changes, store)
        assert picture(root) == second
        assert (root.parent / "b").read_bytes() == b"outside"
        assert sorted(each.name for each in root.parent.iterdir()) == ["b", "work"]


@settings(max_examples=40, deadline=None)
@given(rounds=st.lists(st.lists(DEEDS, max_size=6), min_size=2, max_size=4))
def test_several_steps_together_are_undone_as_one(rounds: list[list[Deed]]) -> None:
    with workspace() as (root, store):
        first = picture(root)
        seen = look(root, store)
        steps: list[tuple[PathChange, ...]] = []
        for deeds in rounds:
            for deed in deeds:
                do(root, deed)
            now = look(root, store, seen)
            steps.append(between(root, seen, now, store))
            seen = now
        every = together(steps)
        assert not restore.apply(root, [each.turned() for each in every], store)
        assert picture(root) == first
        again = ChangeSet.decode(ChangeSet(str(root), every).encode())
        assert again == ChangeSet(str(root), every)


@settings(max_examples=40, deadline=None)
@given(
    before=st.lists(DEEDS, max_size=8),
    deeds=st.lists(DEEDS, min_size=1, max_size=6),
    others=st.lists(DEEDS, min_size=1, max_size=6),
)
@example(
    before=[("write", "b", (b"", 420))],
    deeds=[("rename", "b", "a"), ("folder", "b", 493)],
    others=[("write", "b/a", (b"", 420))],
)
def test_what_somebody_else_changed_is_found_and_never_overwritten(
    before: list[Deed], deeds: list[Deed], others: list[Deed]
) -> None:
    with workspace() as (root, store):
        for deed in before:
            do(root, deed)
        seen = look(root, store)
        for deed in deeds:
            do(root, deed)
        now = look(root, store, seen)
        changes = between(root, seen, now, store)
        for deed in others:
            do(root, deed)
        foreign = {each.path for each in between(root, now, look(root, store, now), store)}
        untouched = {path: what for path, what in picture(root).items() if path in foreign}
        found = restore.look(root, [each.turned() for each in changes], 1 << 20, store)
        store.save()
        restore.apply(root, found.ready, store)
        after = picture(root)
        assert {path: after.get(path) for path in untouched} == untouched


def test_a_known_stamp_spares_the_reading_and_another_one_does_not() -> None:
    with workspace() as (root, store):
        (root / "f").write_bytes(b"as the turn left it")
        seen = look(root, store)
        info = (root / "f").stat()
        claimed = Node("file", seen.nodes["f"].mode, store.put(b"what the stamp stands for"))
        known = TreeState({"f": claimed}, {"f": stamp_of(info)})
        wanted = [PathChange("f", claimed, None)]
        assert restore.look(root, wanted, 1 << 20, store, known).ready == tuple(wanted)
        (root / "f").write_bytes(b"as somebody else l.")
        os.utime(root / "f", ns=(info.st_atime_ns, info.st_mtime_ns))
        assert restore.look(root, wanted, 1 << 20, store, known).conflicts


def test_after_a_crash_only_our_own_leftovers_are_removed() -> None:
    with workspace() as (root, store):
        (root / ".mindstone-notes").write_bytes(b"somebody's own")
        (root / f".mindstone-{'a' * 16}-1").write_bytes(b"half a file")
        restore.finish(root, [PathChange("f", None, None)], store, 1 << 20)
        assert sorted(each.name for each in root.iterdir()) == [".mindstone-notes"]


def test_after_a_crash_a_file_that_somebody_else_deleted_stays_deleted() -> None:
    with workspace() as (root, store):
        old, new = (Node("file", 0o644, store.put(text)) for text in (b"old", b"new"))
        folder = Node("folder", 0o755, "")
        store.save()
        cut_short = [PathChange("f", old, new), PathChange("was", folder, new)]
        restore.finish(root, cut_short, store, 1 << 20)
        # A folder goes before a file comes in its place: that one was on its way.
        assert picture(root) == {"was": ("file", 0o644, b"new")}


def test_a_content_that_is_lost_leaves_no_half_files_behind() -> None:
    with workspace() as (root, store):
        kept = Node("file", 0o644, store.put(b"kept"))
        store.save()
        wanted = [PathChange("a", None, kept), PathChange("b", None, Node("file", 0o644, "0" * 64))]
        with pytest.raises(UndoError, match="not in"):
            restore.apply(root, wanted, store)
        assert picture(root) == {}


def test_many_files_that_went_come_back_and_leave_nothing_beside_them() -> None:
    with workspace() as (root, store):
        for number in range(600):
            path = root / f"d{number % 7}" / f"f{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"%d" % number)
        first, seen = picture(root), look(root, store)
        for path in [*root.glob("d[1-5]/*"), *root.glob("d[1-5]")]:
            path.rmdir() if path.is_dir() else path.unlink()
        (root / "d6" / "f6").unlink()
        changes = between(root, seen, look(root, store, seen), store)
        store.save()
        (root / "d6" / "f6").write_bytes(b"in the way")
        assert not restore.apply(root, [each.turned() for each in changes], store)
        assert picture(root) == first
