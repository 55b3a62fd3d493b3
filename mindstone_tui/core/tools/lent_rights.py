"""What lends rights to whoever uses it, taken off when a confined command ends.

A setuid or setgid program, a file with capabilities and a device node outlive the command that
made them. `seccomp.py` refuses the calls; this looks at what is there afterwards, which also holds
where no filter could be had. A folder that was setgid stays so, and so do those made inside it:
people who share files want their group there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["LentRights"]

_LENDING: Final = stat.S_ISUID | stat.S_ISGID
_CAPABILITY: Final = "security.capability"
_MOST_VISITED: Final = 200_000
_COARSE: Final = 50_000_000
"""Nanoseconds by which a file system's clock may lag behind the system's."""
_UNOPENED: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


class LentRights:
    """The folders that hand their group down, as they were when a command began."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self._roots = roots
        self._since = time.time_ns() - _COARSE
        self._shared = {path for path, info in _folders(roots) if info.st_mode & _LENDING}

    def take_off(self) -> tuple[str, ...]:
        """Leave nothing that was made or changed since and lends rights; says what it was."""
        found = [(path, info) for path, info in _everything(self._roots) if self._lends(path, info)]
        return tuple(self._short(path) for path, info in found if _made_plain(path, info))

    def _lends(self, path: str, info: os.stat_result) -> bool:
        """The system sets the time of a change, whatever a program claims."""
        if stat.S_ISLNK(info.st_mode) or info.st_ctime_ns < self._since:
            return False
        if stat.S_ISDIR(info.st_mode):
            if os.path.dirname(path) in self._shared:  # noqa: PTH120 (a string among thousands)
                self._shared.add(path)
            return bool(info.st_mode & _LENDING) and path not in self._shared
        if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
            return True
        return bool(info.st_mode & _LENDING) or _has_capability(path)

    def _short(self, path: str) -> str:
        root = next((root for root in self._roots if root in Path(path).parents), None)
        return path if root is None else str(Path(path).relative_to(root))


def _made_plain(path: str, info: os.stat_result) -> bool:
    """Take the bits off, or the node away; False where somebody else's hands are needed."""
    try:
        if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
            Path(path).unlink()
            return True
        if stat.S_ISREG(info.st_mode) and _has_capability(path):
            os.removexattr(path, _CAPABILITY, follow_symlinks=False)
        # Without opening it for reading, which its permissions may forbid, and without following.
        fd = os.open(path, _UNOPENED)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode) & ~_LENDING
            Path(f"/proc/self/fd/{fd}").chmod(mode)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _has_capability(path: str) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        return bool(os.getxattr(path, _CAPABILITY, follow_symlinks=False))
    return False


def _folders(roots: tuple[Path, ...]) -> Iterator[tuple[str, os.stat_result]]:
    for root in roots:
        with contextlib.suppress(OSError):
            yield str(root), root.lstat()
    for entry in _walk(roots):
        if entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                yield entry.path, entry.stat(follow_symlinks=False)


def _everything(roots: tuple[Path, ...]) -> Iterator[tuple[str, os.stat_result]]:
    for entry in _walk(roots):
        with contextlib.suppress(OSError):
            yield entry.path, entry.stat(follow_symlinks=False)


def _walk(roots: tuple[Path, ...]) -> Iterator[os.DirEntry[str]]:
    """Everything below some folders, a folder before what is in it; links are not followed."""
    todo = [str(root) for root in reversed(roots)]
    visited = 0
    while todo and visited < _MOST_VISITED:
        try:
            with os.scandir(todo.pop()) as entries:
                found = list(entries)
        except OSError:
            continue
        visited += len(found)
        yield from found
        todo += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
