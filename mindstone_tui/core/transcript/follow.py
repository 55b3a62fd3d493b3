"""Reading on as a transcript grows: another surface's lines, in order, each once.

Whoever follows decides when to look again: when `following.changes` says so, or by a timer.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from mindstone_tui.core import disk, entries, paths
from mindstone_tui.core.transcript.reader import Damaged, History

_MODIFY: Final = 0x2
_MOVE_SELF: Final = 0x800
_DELETE_SELF: Final = 0x400
_FLAGS: Final = os.O_CLOEXEC | os.O_NONBLOCK
_POLL: Final = 1.0


async def changes(path: Path) -> AsyncIterator[None]:
    """One item whenever the file may have grown; several changes may come as one."""
    import asyncio  # deferred: whoever only reads a transcript has no loop

    if (descriptor := _watch(path)) is None:
        async for _ in _polled(path):
            yield
        return
    loop = asyncio.get_running_loop()
    grown = asyncio.Event()

    def drain() -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(descriptor, 4096):
                pass
        grown.set()

    loop.add_reader(descriptor, drain)
    try:
        while True:
            await grown.wait()
            grown.clear()
            yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _watch(path: Path) -> int | None:
    """An inotify descriptor for the file, or None where there is no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(_FLAGS)
    if descriptor < 0:
        return None
    mask = _MODIFY | _MOVE_SELF | _DELETE_SELF
    if libc.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0:
        os.close(descriptor)
        return None
    return descriptor


async def _polled(path: Path) -> AsyncIterator[None]:
    import asyncio

    size = -1
    while True:
        if (now := _size_of(path)) != size:
            size = now
            yield
        await asyncio.sleep(_POLL)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


class Follower:
    """The lines that appear after a point; by default after the present end."""

    def __init__(self, places: paths.SessionPlaces, after: int | None = None) -> None:
        self._places = places
        self._history = History(places)
        self._seq = self._history.head.seq if after is None else after
        self._offset = self._history.offset_after(self._seq)

    def poll(self) -> list[entries.Line | Damaged]:
        """What was added since the last look; a line that is being written is waited for."""
        self._stay_with_the_name()
        with disk.settled(self._history.fileno()):
            return [] if self._history.size <= self._offset else list(self._read_on())

    def close(self) -> None:
        """Give the file back."""
        self._history.close()

    def _read_on(self) -> Iterator[entries.Line | Damaged]:
        for item, end in self._history.read_with_ends(self._offset):
            self._offset = end
            if isinstance(item, entries.Line):
                if item.seq <= self._seq:
                    continue
                self._seq = item.seq
            yield item

    def _stay_with_the_name(self) -> None:
        """Another program may have put a different file there, or cut this one."""
        with contextlib.suppress(FileNotFoundError):
            named = self._places.transcript.lstat()
            opened = os.fstat(self._history.fileno())
            replaced = (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino)
            if replaced or opened.st_size < self._offset:
                self._history.close()
                self._history = History(self._places)
                self._offset = self._history.offset_after(self._seq)
