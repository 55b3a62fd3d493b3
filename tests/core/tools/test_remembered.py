"""What was read is handed out again as long as nothing changed, and never instead of a change."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mindstone_tui.core.session.tools import Project
from mindstone_tui.core.tools.trust import Looking, Remembered, TrustFile
from mindstone_tui.core.tools.workspace import Workspace
from tests.core.tools.instructions import project_instructions


def later() -> int:
    """A clock for which every file here is old."""
    return time.time_ns() + 10**10


def pass_a_tick(folder: Path) -> None:
    """Return when a change gets a time that no earlier one has."""
    probe = folder / "probe"
    probe.write_bytes(b"")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.write_bytes(b"")


class Reader:
    """Reads a file, and counts how often."""

    def __init__(self, folder: Path, path: str) -> None:
        self.reads = 0
        self._path = path
        self._folder = folder
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, looking: Looking) -> bytes:
        self.reads += 1
        there = looking.at(self._path)
        found = (self._folder / self._path).read_bytes() if there else b"none"
        self.meanwhile()
        return found


def same_size(path: Path) -> None:
    """Another content, with the size and the time that the file had."""
    info = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def another_file(path: Path) -> None:
    info = path.stat()
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes().swapcase())
    os.utime(fresh, ns=(info.st_atime_ns, info.st_mtime_ns))
    fresh.replace(path)


def a_link(path: Path) -> None:
    shutil.copy2(path, path.parent.parent / "elsewhere")
    path.unlink()
    path.symlink_to("../elsewhere")


def another_folder(path: Path) -> None:
    shutil.copytree(path.parent, path.parent.with_name("copy"))
    path.parent.rename(path.parent.with_name("away"))
    path.parent.with_name("copy").rename(path.parent)


@pytest.mark.parametrize("change", [same_size, another_file, a_link, another_folder, Path.unlink])
def test_every_change_is_read_and_nothing_is_read_twice_without_one(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "in" / "file"
    path.parent.mkdir()
    path.write_bytes(b"first")
    reader = Reader(tmp_path, "in/file")
    remembered = Remembered(tmp_path, reader, later)
    assert [remembered.get(), remembered.get()] == [b"first", b"first"]
    assert reader.reads == 1
    pass_a_tick(tmp_path)
    change(path)
    assert remembered.get() == (path.read_bytes() if path.exists() else b"none")
    assert reader.reads == 2


def test_a_young_file_and_one_behind_a_link_are_read_every_time(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"first")
    (tmp_path / "link").symlink_to("in/file")
    for path, clock in (("in/file", time.time_ns), ("link", later)):
        reader = Reader(tmp_path, path)
        remembered = Remembered(tmp_path, reader, clock)
        remembered.get()
        remembered.get()
        assert reader.reads == 2


def test_what_changed_while_it_was_read_is_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    reader = Reader(tmp_path, "file")
    pass_a_tick(tmp_path)
    reader.meanwhile = lambda: path.write_bytes(b"after it was read")
    remembered = Remembered(tmp_path, reader, later)
    assert remembered.get() == b"first"
    assert remembered.get() == b"after it was read"


FILES = (
    "AGENTS.md",
    ".mindstone/style.md",
    ".mindstone/hooks.json",
    ".claude/commands/deploy.md",
    ".claude/commands/api/route.md",
    ".claude/skills/sum/SKILL.md",
)
ACTS = st.tuples(
    st.sampled_from(
        ["write", "same size", "another file", "delete", "link", "folder", "read-only"]
    ),
    st.sampled_from(FILES),
)


def act(root: Path, what: str, name: str) -> None:
    """Do something to a project, if it can be done."""
    path = root / name
    for above in reversed(path.parents):
        if above.is_relative_to(root) and not above.is_dir():
            above.unlink(missing_ok=True)
            above.mkdir()
    there = path.is_file() and not path.is_symlink()
    if what == "write" or not there:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.write_text(f"---\ndescription: d\n---\nDo this {name}.\n")
    elif what == "same size":
        same_size(path)
    elif what == "another file":
        another_file(path)
    elif what == "delete":
        path.unlink()
    elif what == "link":
        path.rename(path.with_name("other"))
        path.symlink_to("other")
    elif what == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.chmod(0o400)


@settings(max_examples=25, deadline=None)
@given(acts=st.lists(st.tuples(ACTS, st.booleans()), min_size=1, max_size=8))
@example(acts=[(("write", FILES[4]), True), (("same size", FILES[4]), False)])
@example(acts=[(("write", FILES[3]), True), (("write", FILES[4]), False)])
@example(acts=[(("write", FILES[2]), True), (("link", FILES[2]), False)])
def test_a_project_that_is_remembered_is_trusted_exactly_when_its_files_are(
    acts: list[tuple[tuple[str, str], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve() / "project"
        root.mkdir()
        workspace, trust = Workspace((root,)), TrustFile(Path(base, "trust.json"))
        project = Project(workspace, trust, later)
        for (what, name), trusts in acts:
            pass_a_tick(Path(base))
            act(root, what, name)
            now = project_instructions(workspace, trust.digest(root))
            assert project.instructions() == now
            assert project.instructions() == now
            if trusts:
                project.trust(now)
                assert project.instructions().state in ("trusted", "none")
        project.distrust()
        assert project.instructions().state in ("untrusted", "none")
