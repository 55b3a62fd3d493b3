"""Reading a transcript: forwards, backwards, by number, by id, by turn. Nothing here writes.

Readers are lenient: a line that cannot be read is handed over as `Damaged`, in its place, and the
caller decides whether to show a banner or to stop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Final

import msgspec

from mindstone_tui.core.disk import place_error, read_blob
from mindstone_tui.core.entries import Entry, Line, Malformed, Unknown, decode_line
from mindstone_tui.core.entries.line import MAX_LINE
from mindstone_tui.core.errors import DamagedTranscript, NoSuchEntry, NoSuchSession
from mindstone_tui.core.places import SessionPlaces
from mindstone_tui.core.transcript.drafting import restore
from mindstone_tui.core.transcript.offsets import Offsets
from mindstone_tui.core.transcript.splitting import CUT, backwards, forwards

_KIND: Final = b'"kind":"'
_CHUNK: Final = 1 << 18


class Damaged(msgspec.Struct, frozen=True):
    """Bytes between two newlines that are not a line of a transcript."""

    offset: int
    raw: bytes
    why: str


class Head(msgspec.Struct, frozen=True):
    """The newest line: its number and hash stand for all that came before."""

    seq: int
    hash: str


class History:
    """A transcript, opened for reading."""

    def __init__(self, places: SessionPlaces, *, may_store_offsets: bool = False) -> None:
        self.places = places
        self._may_store_offsets = may_store_offsets
        self._fd = _open_to_read(places)
        self._offsets: Offsets | None = None

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        """The open file, for whoever must lock or watch it."""
        return self._fd

    def read(self, first: int = 0, last: int | None = None) -> Iterator[Line | Damaged]:
        """Lines `first` to `last`, both included, in order; a torn end is not handed over."""
        start = 0 if first == 0 else self._start_of(first)
        for item in self.read_from(start):
            if isinstance(item, Line):
                if item.seq < first:
                    continue
                if last is not None and item.seq > last:
                    return
            yield item

    def read_from(self, offset: int) -> Iterator[Line | Damaged]:
        """Lines from a byte offset on."""
        for start, _, raw in self._pieces(offset):
            yield read_line(raw, start)

    def read_with_ends(self, offset: int) -> Iterator[tuple[Line | Damaged, int]]:
        """Lines from a byte offset on, each with the offset at which it ends."""
        for start, end, raw in self._pieces(offset):
            yield read_line(raw, start), end

    def raw_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Whole lines as bytes, each with its offset; one that is too long comes cut."""
        for start, _, raw in self._pieces(offset):
            yield start, raw

    def offset_after(self, seq: int) -> int:
        """Where the first line numbered higher than `seq` begins, or will."""
        return 0 if seq < 0 else self._start_of(seq + 1)

    def back(self) -> Iterator[Line | Damaged]:
        """Lines from the newest to the oldest; a torn end is not handed over."""
        for start, _, raw, whole in backwards(self._read, self.size, _CHUNK):
            if whole:
                yield read_line(raw, start)

    def newest(self, kinds: Collection[str], within: int) -> Iterator[Line]:
        """Lines of some kinds among the newest `within`, newest first; no other is decoded."""
        wanted = {kind.encode() for kind in kinds}
        for start, _, raw, whole in islice(backwards(self._read, self.size, _CHUNK), within):
            at = raw.find(_KIND) + len(_KIND)
            if whole and raw[at : raw.find(b'"', at)] in wanted:
                line = read_line(raw, start)
                if isinstance(line, Line):
                    yield self.whole(line)

    def line(self, seq: int) -> Line:
        """The line with this number; raises `NoSuchEntry`."""
        expected = self._at(seq) if seq >= 0 else None
        if expected is not None and expected.seq == seq:
            return expected
        for item in self.read(seq, seq):
            if isinstance(item, Line):
                return item
        raise NoSuchEntry(
            f"There is no line {seq} in {self.places.key}.",
            "`mindstone log --tail 20` shows the newest.",
        )

    def find(self, id: str) -> Line:  # noqa: A002 (the field's own name)
        """The line with this id, found by halving: ids ascend."""
        number = self._first_where(lambda line: line.id >= id)
        found = self._at(number)
        if found is None or not found.id.startswith(id):
            raise NoSuchEntry(
                f"There is no entry {id} in {self.places.key}.",
                "`mindstone log --json` shows the ids of the newest entries.",
            )
        return found

    def turn(self, turn: int) -> list[Line]:
        """Every line of a turn; empty when there is none."""
        number = self._first_where(lambda line: line.turn >= turn)
        if self._at(number) is None:
            return []
        lines: list[Line] = []
        for item in self.read_from(self.offsets.start(number)):
            if isinstance(item, Line):
                if item.turn > turn:
                    break
                if item.turn == turn:
                    lines.append(item)
        return lines

    @property
    def header(self) -> Line:
        """Line 0, which says which session this is."""
        first = next(self.read_from(0), None)
        if not isinstance(first, Line) or first.kind != "session_opened":
            raise DamagedTranscript(
                f"{self.places.transcript} does not begin with the header of a session.",
                "Run `mindstone verify`, and restore the file from a backup.",
            )
        return first

    @property
    def head(self) -> Head:
        """The newest readable line."""
        for item in self.back():
            if isinstance(item, Line):
                return Head(item.seq, item.hash)
        return Head(-1, "")

    @property
    def offsets(self) -> Offsets:
        """Where each line starts, up to the newest."""
        if self._offsets is None:
            self._offsets = Offsets(self._fd, self.places.offsets, store=self._may_store_offsets)
        else:
            self._offsets.extend()
        return self._offsets

    def whole(self, line: Line) -> Line:
        """The same line with the texts that were moved to blobs put back."""
        if not line.blobs or isinstance(line.entry, Unknown):
            return line
        fields: dict[str, Any] = msgspec.to_builtins(line.entry)
        restore(
            fields,
            {
                path: read_blob(self.places.blobs, blob.sha256).decode()
                for path, blob in line.blobs.items()
            },
        )
        entry: Entry = msgspec.convert(fields, type(line.entry))
        return msgspec.structs.replace(line, entry=entry)

    def blob(self, digest: str) -> bytes:
        """The bytes that a line keeps beside the transcript."""
        return read_blob(self.places.blobs, digest)

    def _start_of(self, seq: int) -> int:
        """Where the first line numbered `seq` or later begins."""
        offsets = self.offsets
        if seq < len(offsets):
            start = offsets.start(seq)
            line = self._parse(start, offsets.end(seq))
            if line is not None and line.seq == seq:
                return start
        number = self._first_where(lambda line: line.seq >= seq)
        return offsets.start(number) if number < len(offsets) else offsets.total

    def _first_where(self, reached: Callable[[Line], bool]) -> int:
        """The number of the first line for which an ascending condition holds."""
        low, high = 0, len(self.offsets)
        while low < high:
            middle = (low + high) // 2
            probe = middle
            line = self._at(probe)
            while line is None and probe + 1 < high:
                probe += 1
                line = self._at(probe)
            if line is None or reached(line):
                high = middle
            else:
                low = probe + 1
        return low

    def _at(self, number: int) -> Line | None:
        offsets = self.offsets
        if number >= len(offsets):
            return None
        return self._parse(offsets.start(number), offsets.end(number))

    def _parse(self, start: int, end: int) -> Line | None:
        item = read_line(self._read(min(end - start - 1, CUT), start), start)
        return item if isinstance(item, Line) else None

    def _pieces(self, offset: int) -> Iterator[tuple[int, int, bytes]]:
        for start, end, raw, whole in forwards(self._read, offset, self.size, _CHUNK):
            if whole:
                yield start, end, raw

    def _read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)


def read_line(raw: bytes, offset: int) -> Line | Damaged:
    """Decode one line's bytes, or say why they are none."""
    if len(raw) > MAX_LINE:
        return Damaged(offset, raw, "longer than a line may be")
    try:
        return decode_line(raw)
    except Malformed as error:
        return Damaged(offset, raw, str(error))


def _open_to_read(places: SessionPlaces) -> int:
    path = places.transcript
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise NoSuchSession(places.key) from error
    except OSError as error:
        raise place_error(path, error) from error
