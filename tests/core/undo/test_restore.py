"""Putting files back, one promise at a time: what is seen, what is said and what stays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.undo import restore
from mindstone_tui.core.undo.changes import PathChange
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import Node
from tests.core.undo.trees import picture

FOLDER = Node("folder", 0o755, "")
MOST = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "outside" / "work"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    found = ObjectStore(tmp_path / "store", limit=1 << 24)
    found.get(file(found, "so that it is open").digest)
    yield found
    found.close()


def file(store: ObjectStore, text: str, mode: int = 0o644) -> Node:
    node = Node("file", mode, store.put(text.encode()))
    store.save()
    return node


def link(store: ObjectStore, target: str) -> Node:
    node = Node("link", 0o777, store.put(target.encode()))
    store.save()
    return node


def put(root: Path, path: str, text: str = "", mode: int = 0o644) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    (root / path).chmod(mode)


def descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))  # noqa: PTH208


@contextmanager
def somebody_else(*places: Path) -> Iterator[None]:
    """Without the rights of root, as the owner of these places."""
    if os.geteuid() != 0:
        yield
        return
    for place in places:
        for path in (place, *place.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
    above = {parent for place in places for parent in place.parents if parent.stat().st_uid == 0}
    modes = {parent: parent.stat().st_mode & 0o7777 for parent in above}
    for parent in above:
        parent.chmod(modes[parent] | 0o001)
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        for parent in above:
            parent.chmod(modes[parent])


def test_each_path_is_compared_with_what_was_left_and_with_what_is_wanted(
    root: Path, store: ObjectStore
) -> None:
    old, new, other = (file(store, text) for text in ("old", "new", "other"))
    put(root, "ready", "old")
    put(root, "there", "new")
    put(root, "changed", "other")
    put(root, "unkept", "old")
    put(root, "both", "new")
    lost = Node("unkept", 0o644, "9:9")
    wanted = {
        "ready": PathChange("ready", old, new),
        "gone": PathChange("gone", old, new),
        "there": PathChange("there", old, new),
        "changed": PathChange("changed", old, new),
        "unkept": PathChange("unkept", old, lost),
        "goes": PathChange("ready", old, None),
        "went": PathChange("nowhere", old, None),
    }
    found = restore.look(root, list(wanted.values()), MOST, store)
    assert found.ready == (wanted["ready"], wanted["goes"])
    assert found.there == (wanted["there"], wanted["went"])
    assert found.unkept == (wanted["unkept"],)
    assert found.conflicts == (
        restore.Conflict(wanted["gone"], None),
        restore.Conflict(wanted["changed"], other),
    )
    assert other.digest in store


KINDS: dict[str, Callable[[ObjectStore], Node | None]] = {
    "nothing": lambda store: None,
    "file": lambda store: file(store, "text", 0o640),
    "link": lambda store: link(store, "../elsewhere"),
    "folder": lambda store: Node("folder", 0o750, ""),
}


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("after", KINDS)
def test_anything_comes_in_the_place_of_anything(
    root: Path, store: ObjectStore, before: str, after: str
) -> None:
    old, new = KINDS[before](store), KINDS[after](store)
    first = PathChange("a/b/x", None, old)
    assert restore.apply(root, [first], store) == ()
    assert restore.node_in(root, "a/b/x", store, MOST) == old
    free = descriptors()
    assert restore.apply(root, [PathChange("a/b/x", old, new)], store) == ()
    assert restore.node_in(root, "a/b/x", store, MOST) == new
    assert descriptors() == free
    left = sorted(each.name for each in (root / "a" / "b").iterdir()) if new or old else []
    assert left == (["x"] if new else [])
    assert not (store.folder / "removed").exists()


def test_a_folder_that_should_go_and_has_others_files_stays(root: Path, store: ObjectStore) -> None:
    put(root, "d/theirs", "x")
    put(root, "e/theirs", "x")
    changes = [PathChange("d", FOLDER, None), PathChange("e", FOLDER, file(store, "new"))]
    assert restore.apply(root, changes, store) == ("e: somebody else's files are in this folder",)
    assert set(picture(root)) == {"d", "d/theirs", "e", "e/theirs"}


def test_a_whole_tree_goes_and_comes_with_its_permissions(root: Path, store: ObjectStore) -> None:
    tree = {
        "d": Node("folder", 0o555, ""),
        "d/e": Node("folder", 0o700, ""),
        "d/e/f": file(store, "f", 0o444),
        "d/g": file(store, "g", 0o755),
        "h": file(store, "h", 0o600),
    }
    coming = [PathChange(path, None, node) for path, node in reversed(tree.items())]
    with somebody_else(root, store.folder):
        assert restore.apply(root, coming, store) == ()
        found = {path: (mode, data) for path, (_, mode, data) in picture(root).items()}
        assert found == {
            "d": (0o555, b""),
            "d/e": (0o700, b""),
            "d/e/f": (0o444, b"f"),
            "d/g": (0o755, b"g"),
            "h": (0o600, b"h"),
        }
        inner = [
            PathChange("d/g", tree["d/g"], file(store, "new")),
            PathChange("d/i", None, tree["h"]),
        ]
        assert restore.apply(root, inner, store) == ()
        assert (root / "d").stat().st_mode & 0o777 == 0o555, "read-only again"
        assert (root / "d" / "g").read_text() == "new"
        back = [each.turned() for each in inner]
        assert restore.apply(root, back, store) == ()
        assert restore.apply(root, [each.turned() for each in coming], store) == ()
        assert picture(root) == {}


def test_a_folder_that_was_there_gets_its_permissions_back(root: Path, store: ObjectStore) -> None:
    put(root, "d/f", "x")
    (root / "d").chmod(0o700)
    change = PathChange("d", Node("folder", 0o700, ""), Node("folder", 0o755, ""))
    assert restore.apply(root, [change], store) == ()
    assert picture(root) == {"d": ("folder", 0o755, b""), "d/f": ("file", 0o644, b"x")}


@pytest.mark.parametrize("path", ["..", "../b", "a/../../b", ".", "", "a/..", "a//b", "a/"])
def test_nothing_outside_is_ever_reached(root: Path, store: ObjectStore, path: str) -> None:
    put(root.parent, "b", "outside")
    (root / "a").mkdir()
    before = picture(root.parent)
    new = file(store, "new")
    for change in (PathChange(path, None, new), PathChange(path, new, None)):
        (problem,) = restore.apply(root, [change], store)
        assert problem == f"{path}: not a path of the workspace"
    assert picture(root.parent) == before


def test_no_link_on_the_way_is_followed(root: Path, store: ObjectStore) -> None:
    put(root.parent, "b/f", "outside")
    (root / "l").symlink_to("../b")
    put(root, "f", "x")
    before = picture(root.parent)
    new = file(store, "new")
    assert restore.node_in(root, "l/f", store, MOST) is None
    assert restore.node_in(root, "f/f", store, MOST) is None
    for path in ("l/f", "l/new", "f/f"):
        (problem,) = restore.apply(root, [PathChange(path, None, new)], store)
        assert problem.startswith(f"{path}: ")
    assert restore.apply(root, [PathChange("l", link(store, "../b"), new)], store) == ()
    assert picture(root.parent) == {**before, "work/l": ("file", 0o644, b"new")}


def test_what_is_neither_nor_or_cannot_be_read_is_said(root: Path, store: ObjectStore) -> None:
    os.mkfifo(root / "pipe")
    put(root, "shut", "x", 0)
    put(root, "large", "x" * 50)
    put(root, "closed/f", "x")
    (root / "closed").chmod(0)
    try:
        with somebody_else(root, store.folder):
            pipe, shut, large, inner = (
                restore.node_in(root, path, store, 20)
                for path in ("pipe", "shut", "large", "closed/f")
            )
    finally:
        (root / "closed").chmod(0o700)
    assert pipe == Node("unkept", 0, "neither a file nor a link nor a folder")
    assert shut == inner == Node("unkept", 0, "unreadable: Permission denied")
    assert large is not None
    assert large.kind == "unkept"


def test_a_root_that_is_gone_is_said(root: Path, store: ObjectStore) -> None:
    root.rmdir()
    with pytest.raises(UndoError, match="cannot be opened: No such file") as refused:
        restore.apply(root, [], store)
    assert refused.value.remedy


def test_one_path_that_cannot_be_is_named_and_the_others_are_put_back(
    root: Path, store: ObjectStore
) -> None:
    new = file(store, "new")
    changes = [
        PathChange("a", None, new),
        PathChange(f"{'n' * 300}", None, new),
        PathChange("nowhere", new, None),
        PathChange("z", None, new),
    ]
    assert restore.apply(root, changes, store) == (
        "nowhere: No such file or directory",
        f"{'n' * 300}: File name too long",
    )
    assert set(picture(root)) == {"a", "z"}


def test_looking_at_a_path_makes_nothing_on_the_way_to_it(root: Path, store: ObjectStore) -> None:
    new = file(store, "new")
    assert restore.node_in(root, "a/b/c", store, MOST) is None
    restore.look(root, [PathChange("d/e/f", new, None)], MOST, store)
    assert len(restore.apply(root, [PathChange("g/h/i", new, None)], store)) == 1
    restore.finish(root, [PathChange("j/k/l", new, None)], store, MOST)
    assert picture(root) == {}


def test_a_disk_that_takes_little_at_a_time_gets_all_of_it(
    root: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = file(store, "a text of some length")
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:4]))
    assert restore.apply(root, [PathChange("f", None, new)], store) == ()
    assert (root / "f").read_text() == "a text of some length"


def test_folders_that_went_are_not_held_open(root: Path, store: ObjectStore) -> None:
    new = file(store, "new")
    tree = {"a": FOLDER, "a/b": FOLDER, "a/b/c": FOLDER, "a/b/c/f": new, "a/g": new}
    coming = [PathChange(path, None, node) for path, node in tree.items()]
    free = descriptors()
    assert restore.apply(root, coming, store) == ()
    assert restore.apply(root, [each.turned() for each in coming], store) == ()
    assert picture(root) == {}
    assert descriptors() == free


@pytest.mark.parametrize("count", [16, 17])
def test_of_many_files_the_old_ones_are_freed_later(
    root: Path, store: ObjectStore, count: int
) -> None:
    old, new = file(store, "old"), file(store, "new")
    for number in range(count):
        put(root, f"f{number}", "old")
    changes = [
        PathChange(f"f{number}", old, None if number % 2 else new) for number in range(count)
    ]
    free = descriptors()
    assert restore.apply(root, changes, store) == ()
    assert descriptors() == free
    assert {path: node[2] for path, node in picture(root).items()} == {
        f"f{number}": b"new" for number in range(0, count, 2)
    }
    removed = store.folder / "removed"
    waiting = [path.read_text() for path in removed.iterdir()] if removed.exists() else []
    assert waiting == (["old"] * count if count > 16 else [])
    restore.clear_removed(store.folder)
    while removed.exists():
        pass
    restore.clear_removed(store.folder)
    assert picture(root)


def test_any_number_of_folders_is_walked_with_few_of_them_open(
    root: Path, store: ObjectStore, tmp_path: Path
) -> None:
    most = 0

    class Watching(ObjectStore):
        def get(self, digest: str) -> bytes:
            nonlocal most
            most = max(most, len(descriptors()))
            return super().get(digest)

    watching = Watching(tmp_path / "watched", limit=1 << 24)
    new = file(watching, "new")
    watching.get(new.digest)
    changes = [PathChange(f"d{number}/e/f", None, new) for number in range(300)]
    free = descriptors()
    assert restore.apply(root, changes, watching) == ()
    assert len(picture(root)) == 900
    assert 150 < most - len(free) < 260
    assert descriptors() == free
    watching.close()
    assert restore.apply(root, [each.turned() for each in changes], store) == ()
    assert not any(kind == "file" for kind, _, _ in picture(root).values())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no way to name an open file")
def test_files_and_their_names_are_synced_before_it_is_said_to_be_done(
    root: Path, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        synced.append((path.name, (root / "a" / "f").exists()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    assert restore.apply(root, [PathChange("a/f", None, file(store, "new"))], store) == ()
    ours = [(name, there) for name, there in synced if name != "store" and "pack" not in name]
    assert [(name.startswith(".mindstone-"), there) for name, there in ours[-2:]] == [
        (True, False),
        (False, True),
    ]
    assert ours[-1][0] == "a"


def test_what_a_crash_cut_short_is_brought_to_its_end_and_others_changes_stay(
    root: Path, store: ObjectStore
) -> None:
    old, new = file(store, "old"), file(store, "new")
    put(root, "ready", "old")
    put(root, "theirs", "theirs")
    put(root, "d/e/old", "old")
    put(root, "d/e/.mindstone-0123456789abcdef-12", "half")
    put(root, "d/e/.mindstone-0123456789abcdef-", "theirs")
    put(root, "d/e/x.mindstone-0123456789abcdef-12", "theirs")
    changes = [
        PathChange("ready", old, new),
        PathChange("theirs", old, new),
        PathChange("d/e/old", old, None),
        PathChange("was folder", FOLDER, new),
        PathChange("was file", old, FOLDER),
        PathChange("deleted", old, new),
    ]
    restore.finish(root, changes, store, MOST)
    found = {path: data for path, (kind, _, data) in picture(root).items() if kind == "file"}
    assert found == {
        "ready": b"new",
        "theirs": b"theirs",
        "was folder": b"new",
        "d/e/.mindstone-0123456789abcdef-": b"theirs",
        "d/e/x.mindstone-0123456789abcdef-12": b"theirs",
    }
    assert (root / "was file").is_dir()
