"""How bytes reach the disk: whole or not at all, the owner's alone, and said in words if not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mindstone_tui.core.disk import (
    REAL,
    Disk,
    ensure_folder,
    held,
    keep_blob,
    open_regular,
    place_error,
    read_blob,
    replace_file,
    settled,
    sweep,
)
from mindstone_tui.core.errors import EntryNotSaved, PlaceError, SessionBusy


class FullDisk(Disk):
    """Takes half of every write."""

    def write(self, fd: int, data: bytes) -> int:
        return super().write(fd, data[: len(data) // 2])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    replace_file(path, b"old")
    with pytest.raises(EntryNotSaved, match="NOT SAVED") as refused:
        replace_file(path, b"something new", FullDisk())
    assert "try again" in refused.value.remedy, "nobody keeps it for later, as entries are kept"
    with pytest.raises(EntryNotSaved) as refused:
        replace_file(path.parent, b"a file in place of a folder")
    assert refused.value.remedy == "Name a file in it."
    assert path.read_bytes() == b"old"
    assert [child.name for child in path.parent.iterdir()] == ["file"]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_blob_is_kept_once_and_a_damaged_one_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    digest = keep_blob(folder, b"content")
    inode = (folder / digest).stat().st_ino
    assert keep_blob(folder, b"content") == digest
    assert (folder / digest).stat().st_ino == inode
    (folder / digest).write_bytes(b"CONTENT")
    with pytest.raises(PlaceError, match="not what it was"):
        read_blob(folder, digest)
    keep_blob(folder, b"content")
    assert read_blob(folder, digest) == b"content"


def test_a_lock_is_waited_for_and_then_given_up_with_words(tmp_path: Path) -> None:
    path = tmp_path / "file"
    one = REAL.open(path, os.O_RDWR | os.O_CREAT)
    other = REAL.open(path, os.O_RDWR)
    try:
        with (
            held(one, wait=1, busy="busy"),
            pytest.raises(SessionBusy, match="busy"),
            held(other, wait=0.01, busy="It is busy."),
        ):
            raise AssertionError("two held the lock")
        with held(other, wait=0, busy="busy"), settled(one):
            pass
        with settled(one), settled(other):
            pass
    finally:
        os.close(one)
        os.close(other)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EACCES, "cannot be written"),
        (errno.EROFS, "cannot be written"),
        (errno.ENOSPC, "is full"),
        (errno.EDQUOT, "is full"),
        (errno.ELOOP, "symbolic link"),
        (errno.EISDIR, "is a folder"),
        (errno.ENOTDIR, "something on the way is a file"),
        (errno.EIO, "cannot be used"),
    ],
)
def test_each_refusal_has_a_sentence_and_a_remedy(code: int, words: str) -> None:
    error = place_error(Path("/some/where"), OSError(code, os.strerror(code)))
    assert words in error.what
    assert "/some/where" in error.what
    assert error.remedy


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "folder" / "deeper"):
        with pytest.raises(PlaceError, match="file is a file, but a folder is needed"):
            ensure_folder(folder)


def test_temporary_files_of_killed_programs_are_swept_and_nothing_else(tmp_path: Path) -> None:
    abandoned = tmp_path / ".checkpoint.json.0123456789ab"
    young = tmp_path / ".checkpoint.json.ba9876543210"
    others = [tmp_path / name for name in ("checkpoint.json", ".hidden", "a.0123456789ab")]
    for path in (abandoned, young, *others):
        path.write_bytes(b"x")
    now = young.stat().st_mtime
    for path in (abandoned, *others):
        os.utime(path, (now - 7_200, now - 7_200))
    sweep(tmp_path, now)
    assert sorted(tmp_path.iterdir()) == sorted([young, *others])
    sweep(tmp_path / "nowhere", now)


def test_a_name_that_no_file_can_have_is_no_file() -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(Path("a\0b"))


def test_what_was_hardly_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "hollow").touch()
    os.truncate(tmp_path / "hollow", 200 << 30)
    with pytest.raises(OSError, match="never written"):
        open_regular(tmp_path / "hollow")
