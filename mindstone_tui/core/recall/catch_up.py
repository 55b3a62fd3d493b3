"""The words of a session's newest lines go into its index: read from the file, or as they come."""

from collections.abc import Callable, Iterable, Iterator

from mindstone_tui.core.entries import Line, actions, standings
from mindstone_tui.core.recall import acts, passages, store
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.transcript import History, reader

ReadFrom = Callable[[int], Iterable[Line]]
Progress = Callable[[int], None]


class CatchUp:
    """Indexes the words of lines that come in order; the newest may still be written.

    The newest exchange may still be growing: it is stored too, but read again the next time.
    """

    def __init__(
        self, index: RecallIndex, read: ReadFrom, progress: Progress | None = None
    ) -> None:
        """Take in all lines after the mark; `read(seq)` gives those from that number on."""
        self._index = index
        self._progress = progress
        self._mark = index.mark
        if self._mark.seq >= 0 and not _belongs(self._mark, read):
            index.clear()
            self._mark = store.IndexMark()
        self._chunker = passages.Chunker()
        self._waiting: list[passages.Passage] = []
        self._rewinds: list[Line] = []
        self._doings = acts.Doings()
        self._done: list[tuple[actions.Action, str]] = []
        self._last: Line | None = None
        self.seen = 0
        """Passages that were looked at."""
        for line in read(self._mark.seq + 1):
            self.take(line)

    def take(self, line: Line) -> list[passages.Passage]:
        """Take in the line after the last one, with its whole body; what can be found of it."""
        last = self._last
        if last is not None and line.turn != last.turn:
            self._mark = store.IndexMark(last.seq, last.hash)
            if len(self._waiting) >= store.AT_ONCE:
                self._store(self._mark.seq)
        takes_back = line.kind in (*standings.TAKES_BACK, "imported")
        if takes_back or standings.superseded_in(line):
            self._rewinds.append(line)
        self._done += self._doings.take(line) if line.intact else []
        found = self._chunker.passages(line) if line.intact else []
        self._waiting += found
        self.seen += len(found)
        self._last = line
        return found

    def finish(self) -> None:
        """Store what is left."""
        if self._last is not None:
            self._store(self._last.seq)
        self._index.take_over_earlier()

    def _store(self, through: int) -> None:
        self._index.add(self._waiting, self._mark, self._rewinds, self._done)
        self._waiting, self._rewinds, self._done = [], [], []
        if self._progress is not None:
            self._progress(through)


def catch_up(index: RecallIndex, read: ReadFrom, progress: Progress | None = None) -> int:
    """Index the words of all lines after the mark; how many passages were looked at.

    `read(seq)` gives the lines from that number on; `progress` hears the last number stored.
    """
    work = CatchUp(index, read, progress)
    work.finish()
    return work.seen


def reading(history: History) -> ReadFrom:
    """A transcript's lines with their whole bodies; what cannot be read is left to `verify`."""

    def read(first: int) -> Iterator[Line]:
        for line in history.read(first):
            if isinstance(line, Line):
                yield reader.with_blobs(line, history.places)

    return read


def _belongs(mark: store.IndexMark, read: ReadFrom) -> bool:
    line = next(iter(read(mark.seq)), None)
    return line is not None and (line.seq, line.hash) == (mark.seq, mark.hash)


def news_of(index: RecallIndex | None) -> str:
    """What is to be told of the library, once: that a damaged one was met, and where it is."""
    if index is None or index.damaged is None:
        return ""
    aside, index.damaged = index.damaged, None
    return (
        "The library was damaged; it is made anew from the transcripts, vectors a little "
        f"later. The damaged file is kept as {aside.name}."
    )
