"""A disk that fills up after so many writes."""

from __future__ import annotations

import errno
import os

from mindstone_tui.core.disk import Disk


class FullDisk(Disk):
    """Writes a few times, then refuses."""

    def __init__(self, writes: int) -> None:
        self._left = writes

    def write(self, fd: int, data: bytes) -> int:
        if self._left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._left -= 1
        return super().write(fd, data)
