"""A session that exists only in memory: the same lines, the same readers, nothing on disk.

What-if needs a transcript it may write decisions into and a history to fold them from, and must
not touch a file for it. A sketch is both. It is dropped when the question is answered.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from mindstone_tui.core import disk, paths
from mindstone_tui.core.entries import Blob, Draft, Line, Unknown, quotes
from mindstone_tui.core.entries.conversation import SessionOpened, without_usage
from mindstone_tui.core.entries.line import GENESIS
from mindstone_tui.core.errors import EntryNotSaved, NoSuchEntry
from mindstone_tui.core.transcript import Damaged, Head, History, Transcript, file
from mindstone_tui.core.transcript.writer import Holds

_MADE = "sketch"


class SketchedHistory(History):
    """Reads a list of lines as if it were a file."""

    def __init__(self, places: paths.SessionPlaces, lines: list[Line]) -> None:
        self.places = places
        self._lines = lines

    def close(self) -> None:
        """There is nothing to give back."""

    @property
    def size(self) -> int:
        """Nothing is on disk."""
        return 0

    def read(self, first: int = 0, last: int | None = None) -> Iterator[Line | Damaged]:
        """Lines `first` to `last`, both included, in order."""
        end = len(self._lines) if last is None else min(last + 1, len(self._lines))
        yield from self._lines[max(first, 0) : end]

    def back(self) -> Iterator[Line | Damaged]:
        """Lines from the newest to the oldest."""
        return reversed(self._lines)

    def line(self, seq: int) -> Line:
        """The line with this number; raises `NoSuchEntry`."""
        if 0 <= seq < len(self._lines):
            return self._lines[seq]
        raise NoSuchEntry(f"There is no line {seq} in this rehearsal.", "Choose an earlier one.")

    def find(self, id: str) -> Line:  # noqa: A002 (the field's own name)
        """The line with this id."""
        for line in self._lines:
            if line.id.startswith(id):
                return line
        raise NoSuchEntry(f"There is no entry {id} in this rehearsal.", "Choose another one.")

    def turn(self, turn: int, *, before: type | tuple[type, ...] = ()) -> list[Line]:
        """Every line of a turn, or those `before` the first of a kind; empty when there is none."""
        at = bisect_left(self._lines, turn, key=lambda line: line.turn)
        found = takewhile(lambda line: line.turn == turn, self._lines[at:])
        return list(takewhile(lambda line: not isinstance(line.entry, before), found))

    @property
    def header(self) -> Line:
        """Line 0."""
        return self._lines[0]

    @property
    def head(self) -> Head:
        """The newest line."""
        return Head(self._lines[-1].seq, self._lines[-1].hash)

    def whole(self, line: Line) -> Line:
        """The line itself: nothing was moved elsewhere."""
        return line

    def blob(self, digest: str) -> bytes:
        """Pictures stay where the session they came from keeps them."""
        return disk.read_blob(self.places.blobs, digest)


class InMemoryTranscript(Transcript):
    """A transcript whose lines are kept in a list."""

    def __init__(self, places: paths.SessionPlaces, *, channel: str = "replay") -> None:
        self.places = places
        self.channel = channel
        self.lines: list[Line] = []
        header = SessionOpened(agent=places.key.agent, main=places.key.main, program="", salt="")
        self.append_all([Draft(entry=header, turn=0, channel=channel)])

    @property
    def unsaved(self) -> tuple[Draft, ...]:
        """Nothing waits for a disk."""
        return ()

    @property
    def head(self) -> Head:
        """The newest line."""
        return Head(self.lines[-1].seq, self.lines[-1].hash)

    @property
    def size(self) -> int:
        """Nothing is on disk."""
        return 0

    @property
    def last_turn(self) -> int:
        """The turn of the newest line."""
        return self.lines[-1].turn

    @property
    def replacements(self) -> file.Replacements:
        """There is no file that anybody could replace."""
        return file.Replacements()

    def append_all(
        self, drafts: Sequence[Draft], past: quotes.LineOf | None = None, holds: Holds | None = None
    ) -> list[Line]:
        """Take entries in, in order; each keeps all its words."""
        return [self._put(draft) for draft in drafts if holds is None or holds()]

    def copy(self, line: Line) -> Line:
        """Take in a line of another session under its own id, hash and time."""
        before = self.lines[-1]
        taken = msgspec.structs.replace(
            line,
            seq=before.seq + 1,
            session=str(self.places.key),
            entry=line.entry if isinstance(line.entry, Unknown) else without_usage(line.entry),
            prev=before.hash,
            blobs={},
            raw=b"",
        )
        self.lines.append(taken)
        return taken

    def history(self) -> History:
        """A reader of the same lines, which sees what is added later."""
        return SketchedHistory(self.places, self.lines)

    def save(self, past: quotes.LineOf | None = None) -> list[Line]:
        """Nothing is ever unsaved."""
        return []

    def look(self, *, fetch: bool = True) -> None:
        """Nobody else writes here."""

    def keep_blob(self, data: bytes) -> Blob:
        """There is no place beside a sketch."""
        raise EntryNotSaved("A rehearsal keeps no files.", "Import the session first.")

    def close(self) -> None:
        """There is nothing to give back."""

    def _put(self, draft: Draft) -> Line:
        seq = len(self.lines)
        line = Line(
            seq=seq,
            # The sample is such a sketch itself: a rehearsal must not name its lines alike.
            id=f"{_MADE}-{self.channel}-{seq:08}",
            session=str(self.places.key),
            ts=draft.ts or (self.lines[-1].ts if self.lines else ""),
            turn=self.last_turn if draft.turn is None else draft.turn,
            role=draft.entry.role,
            channel=draft.channel,
            entry=draft.entry,
            parent=draft.parent,
            prev=self.lines[-1].hash if self.lines else GENESIS,
            hash=f"{_MADE}-{seq:08}",
            raw=b"",
        )
        self.lines.append(line)
        return line
