"""Where each line starts: a flat file of numbers beside the transcript.

It is a cache. Whoever appends adds one number; whoever finds it missing, short or wrong scans the
transcript from the last number that can be trusted. Deleting it costs one scan and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindstone_tui.core.disk import REAL

_MAGIC: Final = b"MSOFFS1\n"
_NUMBER: Final = struct.Struct("<Q")
_HEAD: Final = len(_MAGIC) + _NUMBER.size
_CHUNK: Final = 1 << 22


def note(path: Path, inode: int, starts: Sequence[int], previous_start: int | None) -> None:
    """Add the starts of new lines, if the file is complete up to the line before them.

    Losing a number is harmless, so nothing is synced and no failure is reported.
    """
    try:
        fd = REAL.open(path, os.O_RDWR | os.O_CREAT)
    except OSError:
        return
    numbers = array("Q", starts).tobytes()
    try:
        size = os.fstat(fd).st_size
        if size == 0 and previous_start is None:
            os.pwrite(fd, _MAGIC + _NUMBER.pack(inode) + numbers, 0)
        elif size > _HEAD and previous_start is not None:
            end = size - (size - _HEAD) % _NUMBER.size
            if os.pread(fd, _NUMBER.size, end - _NUMBER.size) == _NUMBER.pack(previous_start):
                os.pwrite(fd, numbers, end)
    except OSError:
        return
    finally:
        os.close(fd)


class Offsets:
    """Line number → byte offset, for a transcript as long as it is now."""

    def __init__(self, transcript: int, path: Path, *, store: bool) -> None:
        self._transcript = transcript
        self._path = path
        self._may_store = store
        self._starts = array("Q")
        self._end = 0
        self._load()
        self.extend()

    def __len__(self) -> int:
        """How many whole lines there are."""
        return len(self._starts)

    def start(self, number: int) -> int:
        """Where a line begins."""
        return self._starts[number]

    def end(self, number: int) -> int:
        """Where a line ends, its newline included."""
        return self._starts[number + 1] if number + 1 < len(self._starts) else self._end

    @property
    def total(self) -> int:
        """Where the newest whole line ends."""
        return self._end

    def extend(self) -> None:
        """Take in the lines that were appended since."""
        known = len(self._starts)
        at = self._end
        while chunk := os.pread(self._transcript, _CHUNK, at):
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                if len(chunk) < _CHUNK:
                    break
                at += len(chunk)
                continue
            self._take(chunk, at)
            at += cut
        if self._may_store and len(self._starts) - known > 1:
            self._store(known)

    def _take(self, chunk: bytes, at: int) -> None:
        position = 0
        while (newline := chunk.find(b"\n", position)) >= 0:
            self._starts.append(self._end)
            position = newline + 1
            self._end = at + position

    def _load(self) -> None:
        try:
            raw = self._path.read_bytes()
        except OSError:
            return
        inode = os.fstat(self._transcript).st_ino
        if raw[:_HEAD] != _MAGIC + _NUMBER.pack(inode):
            return
        starts = array("Q")
        starts.frombytes(raw[_HEAD : len(raw) - (len(raw) - _HEAD) % _NUMBER.size])
        if starts and self._plausible(starts):
            self._end = starts.pop()
            self._starts = starts

    def _plausible(self, starts: array[int]) -> bool:
        """Whether the first, a middle and the last number point right behind a newline."""
        if starts[0] != 0 or starts[-1] >= os.fstat(self._transcript).st_size:
            return False
        samples = {len(starts) * part // 8 for part in range(1, 8)} | {len(starts) - 1}
        return all(
            at == 0 or os.pread(self._transcript, 1, starts[at] - 1) == b"\n"
            for at in samples
            if at < len(starts)
        )

    def _store(self, known: int) -> None:
        """Write the numbers down for the next reader, where that is possible."""
        inode = os.fstat(self._transcript).st_ino
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            if known and self._append(known):
                return
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            fd = REAL.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                os.write(fd, _MAGIC + _NUMBER.pack(inode) + self._starts.tobytes())
            finally:
                os.close(fd)
            fresh.replace(self._path)
        except OSError:
            return

    def _append(self, known: int) -> bool:
        """Add to a table that holds exactly what was known; False if it holds anything else."""
        fd = REAL.open(self._path, os.O_WRONLY)
        try:
            # The newest number that was read is taken up again, so it may stand there already.
            if (os.fstat(fd).st_size - _HEAD) // _NUMBER.size not in (known, known + 1):
                return False
            os.pwrite(fd, self._starts[known:].tobytes(), _HEAD + known * _NUMBER.size)
            return True
        finally:
            os.close(fd)
