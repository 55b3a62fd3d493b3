"""From transcript to index: take in what was said since, and prove that it belongs together.

The index remembers the last line of the last whole exchange, by number and hash. If the transcript
has another line there, it is not the history this index was made from, and indexing starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mindstone_tui.core.entries import Line
from mindstone_tui.core.recall.chunks import Chunker
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.passage import Passage
from mindstone_tui.core.recall.tables import Mark
from mindstone_tui.core.transcript import History

AT_ONCE: Final = 256
"""Passages stored in one transaction while catching up."""

ReadFrom = Callable[[int], Iterable[Line]]
Progress = Callable[[int], None]


def catch_up(index: RecallIndex, read: ReadFrom, progress: Progress | None = None) -> int:
    """Index the words of all lines after the mark; how many passages were looked at.

    `read(seq)` gives the lines from that number on; `progress` hears the last number stored. The
    newest exchange may still be growing: it is stored too, but read again the next time.
    """
    mark = index.mark
    if mark.seq >= 0 and not _belongs(mark, read):
        index.clear()
        mark = Mark()
    chunker = Chunker()
    waiting: list[Passage] = []
    seen = 0
    last: Line | None = None
    for line in read(mark.seq + 1):
        if last is not None and line.turn != last.turn:
            mark = Mark(last.seq, last.hash)
            if len(waiting) >= AT_ONCE:
                index.add(waiting, mark)
                waiting = []
                if progress is not None:
                    progress(mark.seq)
        found = chunker.passages(line)
        waiting.extend(found)
        seen += len(found)
        last = line
    if last is not None:
        index.add(waiting, mark)
        if progress is not None:
            progress(last.seq)
    return seen


def reading(history: History) -> ReadFrom:
    """A transcript's lines with their whole bodies; what cannot be read is left to `verify`."""

    def read(first: int) -> Iterator[Line]:
        for line in history.read(first):
            if isinstance(line, Line):
                yield history.whole(line)

    return read


def _belongs(mark: Mark, read: ReadFrom) -> bool:
    line = next(iter(read(mark.seq)), None)
    return line is not None and (line.seq, line.hash) == (mark.seq, mark.hash)
