"""Reading on as a transcript grows: another surface's lines, in order, each once.

Whoever follows decides when to look again: when `following.changes` says so, or by a timer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from mindstone_tui.core.disk import settled
from mindstone_tui.core.entries import Line
from mindstone_tui.core.places import SessionPlaces
from mindstone_tui.core.transcript.history import Damaged, History


class Follower:
    """The lines that appear after a point; by default after the present end."""

    def __init__(self, places: SessionPlaces, after: int | None = None) -> None:
        self._places = places
        self._history = History(places)
        self._seq = self._history.head.seq if after is None else after
        self._offset = self._history.offset_after(self._seq)

    def poll(self) -> list[Line | Damaged]:
        """What was added since the last look; a line that is being written is waited for."""
        self._stay_with_the_name()
        with settled(self._history.fileno()):
            if self._history.size <= self._offset:
                return []
            return list(self._read_on())

    def close(self) -> None:
        """Give the file back."""
        self._history.close()

    def _read_on(self) -> Iterator[Line | Damaged]:
        for item, end in self._history.read_with_ends(self._offset):
            self._offset = end
            if isinstance(item, Line):
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
