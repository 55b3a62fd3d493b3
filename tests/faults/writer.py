"""A program that tells the story and notes, without a system call, what was acknowledged.

Run as `python -m tests.faults.writer HOME NOTES TURNS`. The notes are a shared mapping: a kill at
any system call leaves them exactly as they were.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from pathlib import Path

from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in
from tests.faults.story import told

SIZE = 1 << 16
_COUNT = struct.Struct("<Q")


def acknowledged(notes: Path) -> list[str]:
    """The hashes of all lines that a writer was told are on disk, in order."""
    raw = notes.read_bytes()
    (count,) = _COUNT.unpack_from(raw)
    return [raw[8 + 64 * at : 72 + 64 * at].decode() for at in range(count)]


def main(home: Path, notes: Path, turns: int) -> None:
    """Tell the whole story."""
    fd = os.open(notes, os.O_RDWR)
    memory = mmap.mmap(fd, SIZE)
    count = 0
    transcript = Transcript(places_in(home), channel="test")
    for lines in told(transcript, turns):
        for line in lines:
            memory[8 + 64 * count : 72 + 64 * count] = line.hash.encode()
            count += 1
        memory[:8] = _COUNT.pack(count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
