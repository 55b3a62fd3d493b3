"""What lends rights to whoever uses it, taken off when a confined command ends.

A setuid or setgid program, a file with capabilities and a device node outlive the command that
made them. `seccomp.py` refuses the calls; this looks at what is there afterwards, which also holds
where no filter could be had. Folders are left alone: a setgid one lends nothing, it only hands its
group down, and people who share files want that.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["take_off"]

_LENDING: Final = stat.S_ISUID | stat.S_ISGID
_CAPABILITY: Final = "security.capability"
_MOST_VISITED: Final = 200_000
_COARSE: Final = 50_000_000
"""Nanoseconds by which a file system's clock may lag behind the system's."""
_UNOPENED: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


def take_off(roots: tuple[Path, ...], since: int) -> tuple[str, ...]:
    """Leave nothing that was made or changed since and lends rights; says what it was, by path.

    The time is in nanoseconds. A file's own comes from the system, whatever a program claims.
    """
    changed = _changed(roots, since - _COARSE)
    found = [(path, info) for path, info in changed if _lends(path, info)]
    return tuple(_short(path, roots) for path, info in found if _made_plain(path, info))


def _changed(roots: tuple[Path, ...], since: int) -> Iterator[tuple[str, os.stat_result]]:
    """Everything but folders and links that is not as old; links are not followed."""
    todo = [str(root) for root in roots]
    visited = 0
    while todo and visited < _MOST_VISITED:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                visited += 1
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif not entry.is_symlink():
                    info = entry.stat(follow_symlinks=False)
                    if info.st_ctime_ns >= since:
                        yield entry.path, info


def _lends(path: str, info: os.stat_result) -> bool:
    return bool(info.st_mode & _LENDING) or _is_device(info) or _has_capability(path)


def _is_device(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode)


def _has_capability(path: str) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        return bool(os.getxattr(path, _CAPABILITY, follow_symlinks=False))
    return False


def _made_plain(path: str, info: os.stat_result) -> bool:
    """Take the bits off, or the node away; False where somebody else's hands are needed."""
    try:
        if _is_device(info):
            Path(path).unlink()
            return True
        if _has_capability(path):
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


def _short(path: str, roots: tuple[Path, ...]) -> str:
    root = next((root for root in roots if root in Path(path).parents), None)
    return path if root is None else str(Path(path).relative_to(root))
