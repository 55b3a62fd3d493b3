"""What was read from files, as long as they are the ones that were read.

Before a path is listed or read, it is looked at: what stands there, how large, since when. As long
as every path that was looked at has the same stamp, the value that was read is handed out again,
the very same bytes, so a file that changed can be noticed late but never be taken for the old one.
Nothing is remembered of a way that leads through a link, or of a file so young that another change
could bear the same time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
Seen = tuple[int, int, int, int, int, int]
"""Device, inode, mode, size, and the times of the last change of content and of anything."""

_YOUNG: Final = 2_000_000_000
"""Nanoseconds in which a file system may give two changes the same time."""


class Looking:
    """The paths below a root on which something that is read depends."""

    def __init__(self, root: os.PathLike[str], clock: Callable[[], int] = time.time_ns) -> None:
        self._root = os.fspath(root)
        self._since = clock() - _YOUNG
        self._seen: dict[str, Seen | None] = {}

    def at(self, path: str) -> bool:
        """Note what stands at a path below the root, and on the way there; whether anything does.

        To be called before the path is listed or read.
        """
        whole = f"{self._root}/{path}"
        if whole not in self._seen:
            if above := path.rpartition("/")[0]:
                self.at(above)
            self._seen[whole] = _seen_at(whole)
        return self._seen[whole] is not None

    def holds(self) -> bool:
        """Whether everything is still as it was seen."""
        return all(_seen_at(path) == seen for path, seen in self._seen.items())

    def can_be_relied_on(self) -> bool:
        """Whether a change of what was read would show."""
        there = [seen for seen in self._seen.values() if seen is not None]
        return not any(
            stat.S_ISLNK(mode) or max(content, anything) >= self._since
            for _, _, mode, _, content, anything in there
        )


class Remembered(Generic[T]):
    """A value that is read from files below a root, and read again when one of them changed."""

    def __init__(
        self,
        root: os.PathLike[str],
        read: Callable[[Looking], T],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._root = root
        self._read = read
        self._clock = clock
        self._kept: tuple[Looking, T] | None = None

    def get(self) -> T:
        """The value as the files say it now."""
        if self._kept is not None and self._kept[0].holds():
            return self._kept[1]
        looking = Looking(self._root, self._clock)
        value = self._read(looking)
        self._kept = (looking, value) if looking.can_be_relied_on() else None
        return value


def _seen_at(path: str) -> Seen | None:
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (
        info.st_dev,
        info.st_ino,
        info.st_mode,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
    )
