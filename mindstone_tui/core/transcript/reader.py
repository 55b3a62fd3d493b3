"""Reading a transcript: forwards, backwards, by number, by id, by turn. Nothing here writes.

Readers are lenient: a line that cannot be read is handed over as `Damaged`, in its place, and the
caller decides whether to show a banner or to stop.
"""

from __future__ import annotations

import contextlib
import os
import struct
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, paths
from mindstone_tui.core.entries import Line, Malformed, decode_line
from mindstone_tui.core.entries.conversation import SessionOpened, TurnStarted
from mindstone_tui.core.entries.line import MAX_LINE
from mindstone_tui.core.entries.quotes import quoting
from mindstone_tui.core.entries.standings import CHANGES, REWINDS, Rewinds, Standings
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.transcript.encode import put_back

_MAGIC: Final = b"MSOFFS1\n"
_NUMBER: Final = struct.Struct("<Q")
_HEAD: Final = len(_MAGIC) + _NUMBER.size
_SCAN_CHUNK: Final = 1 << 22


def note(path: Path, inode: int, starts: Sequence[int], previous_start: int | None) -> None:
    """Add the starts of new lines, if the file is complete up to the line before them.

    Losing a number is harmless, so nothing is synced and no failure is reported.
    """
    try:
        fd = disk.REAL.open(path, os.O_RDWR | os.O_CREAT)
    except OSError:
        return
    numbers = array("Q", starts).tobytes()
    try:
        if (size := os.fstat(fd).st_size) == 0 and previous_start is None:
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
        self.total = 0
        """Where the newest whole line ends."""
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
        return self._starts[number + 1] if number + 1 < len(self._starts) else self.total

    def extend(self) -> None:
        """Take in the lines that were appended since."""
        known = len(self._starts)
        at = self.total
        while chunk := os.pread(self._transcript, _SCAN_CHUNK, at):
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                if len(chunk) < _SCAN_CHUNK:
                    break
                at += len(chunk)
                continue
            self._take(chunk, at)
            at += cut
            if (len(self._starts) - MOST_STRAY) * _SHORTEST > self.total:
                break  # these are no lines, and numbers would fill the memory
        if self._may_store and len(self._starts) - known > 1:
            self._store(known)

    def _take(self, chunk: bytes, at: int) -> None:
        position = 0
        while (newline := chunk.find(b"\n", position)) >= 0:
            self._starts.append(self.total)
            position = newline + 1
            self.total = at + position

    def _load(self) -> None:
        try:
            raw = disk.read_regular(self._path, most=disk.LARGEST_BLOB)
        except OSError:
            return
        if raw[:_HEAD] != _MAGIC + _NUMBER.pack(os.fstat(self._transcript).st_ino):
            return
        starts = array("Q")
        starts.frombytes(raw[_HEAD : len(raw) - (len(raw) - _HEAD) % _NUMBER.size])
        if starts and self._plausible(starts):
            self.total = starts.pop()
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
        # Named as every temporary file is, so that what a killed program leaves is swept.
        fresh = self._path.with_name(f".{self._path.name}.{os.urandom(6).hex()}")
        try:
            if known and self._append(known):
                return
            fd = disk.REAL.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                os.write(fd, _MAGIC + _NUMBER.pack(inode) + self._starts.tobytes())
            finally:
                os.close(fd)
            fresh.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)

    def _append(self, known: int) -> bool:
        """Add to a table that holds exactly what was known; False if it holds anything else."""
        fd = disk.REAL.open(self._path, os.O_WRONLY)
        try:
            # The newest number that was read is taken up again, so it may stand there already.
            if (os.fstat(fd).st_size - _HEAD) // _NUMBER.size not in (known, known + 1):
                return False
            os.pwrite(fd, self._starts[known:].tobytes(), _HEAD + known * _NUMBER.size)
            return True
        finally:
            os.close(fd)


Read = Callable[[int, int], bytes]
"""Up to so many bytes from an offset."""
Piece = tuple[int, int, bytes, bool]
"""Where it begins, where it ends with its newline, its bytes, and whether the newline is there."""

MOST_STRAY: Final = 1 << 16
"""Lines that cannot be read, behind which no good one is looked for; no torn write leaves more."""
_SHORTEST: Final = 128
"""Bytes that no line can do without: its two hashes."""
CUT: Final = MAX_LINE + 1
"""Over-long lines are cut to this length, which still tells that they are too long."""


def batches(
    read: Read, start: int, stop: int, chunk: int
) -> Iterator[tuple[int, int, list[bytes], bool]]:
    """Lines from `start` on, as many at a time as one read brings.

    Where the first of them begins, where it ends with its newline, and all of them; only the first
    can be cut. Last, if there is one, comes a fragment, and only then the newline is not there.
    """
    begin = position = start
    rest = b""
    while position < stop:
        if not (data := read(min(chunk, stop - position), position)):
            break
        first = position
        position += len(data)
        raws = data.split(b"\n")
        end = first + len(raws[0]) + 1
        raws[0] = _joined(rest, raws[0])
        rest = raws.pop()
        if raws:
            yield begin, end, raws, True
            begin = position - len(rest)
    if begin < position:
        yield begin, position, [rest], False


def forwards(read: Read, start: int, stop: int, chunk: int) -> Iterator[Piece]:
    """Every line from `start` on, in order; last, if there is one, a fragment without newline."""
    for begin, end, raws, whole in batches(read, start, stop, min(chunk, CUT)):
        yield begin, end, raws[0], whole
        for raw in islice(raws, 1, None):
            begin, end = end, end + len(raw) + 1
            yield begin, end, raw, whole


def backwards(read: Read, size: int, chunk: int) -> Iterator[Piece]:
    """Every line from the end to the start; first, if there is one, a fragment without newline."""
    end = position = size
    rest = b""
    whole = False
    while position > 0:
        start = max(0, position - chunk)
        data = read(position - start, start)
        cut = len(data)
        while (newline := data.rfind(b"\n", 0, cut)) >= 0:
            begin = start + newline + 1
            raw = _joined(data[newline + 1 : cut], rest)
            if whole or raw:
                yield begin, end, raw, whole
            rest, end, whole, cut = b"", begin, True, newline
        rest = _joined(data[:cut], rest)
        position = start
    if whole or rest:
        yield 0, end, rest, whole


def _joined(front: bytes, back: bytes) -> bytes:
    return front[:CUT] if len(front) >= CUT else (front + back)[:CUT]


_KIND: Final = b'"kind":"'
_CHUNK: Final = 1 << 18


class Damaged(msgspec.Struct, frozen=True):
    """Bytes between two newlines that are not a line of a transcript."""

    offset: int
    raw: bytes
    why: str


Item = Line | Damaged
"""What stands between two newlines of a transcript."""


class Head(msgspec.Struct, frozen=True):
    """The newest line: its number and hash stand for all that came before."""

    seq: int
    hash: str


class History:
    """A transcript, opened for reading."""

    _fd = -1

    def __init__(self, places: paths.SessionPlaces, *, may_store_offsets: bool = False) -> None:
        self.places = places
        self._may_store_offsets = may_store_offsets
        self._fd = _open_to_read(places)
        self._offsets: Offsets | None = None
        self._leaned_on: tuple[int, PromptPlanned] | None = None

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back, at the latest when nobody holds this any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def reopen(self) -> None:
        """Go on with the file that has the name now."""
        fd = _open_to_read(self.places)
        self.close()
        self._fd = fd
        self._offsets = self._leaned_on = None

    def keep_copy(self, path: Path) -> None:
        """Copy the file as it was opened, even if it has lost its name since."""
        size = self.size
        steps = range(0, size, _SCAN_CHUNK)
        disk.replace_with(path, (self._read(min(_SCAN_CHUNK, size - at), at) for at in steps))

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        """The open file, for whoever must lock or watch it."""
        return self._fd

    def read(self, first: int = 0, last: int | None = None) -> Iterator[Item]:
        """Lines `first` to `last`, both included, in order; a torn end is not handed over."""
        for item in self.read_from(0 if first == 0 else self._start_of(first)):
            if isinstance(item, Line):
                if item.seq < first:
                    continue
                if last is not None and item.seq > last:
                    return
            yield item

    def read_from(self, offset: int) -> Iterator[Item]:
        """Lines from a byte offset on."""
        yield from (self._item(raw, start) for start, _, raw in self._pieces(offset))

    def read_with_ends(self, offset: int) -> Iterator[tuple[Item, int]]:
        """Lines from a byte offset on, each with the offset at which it ends."""
        yield from ((self._item(raw, start), end) for start, end, raw in self._pieces(offset))

    def raw_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Whole lines as bytes, each with its offset; one that is too long comes cut."""
        yield from ((start, raw) for start, _, raw in self._pieces(offset))

    def offset_after(self, seq: int) -> int:
        """Where the first line numbered higher than `seq` begins, or will."""
        return 0 if seq < 0 else self._start_of(seq + 1)

    def back(self) -> Iterator[Item]:
        """Lines from the newest to the oldest; a torn end is not handed over."""
        for start, _, raw, whole in backwards(self._read, self.size, _CHUNK):
            if whole:
                yield self._item(raw, start)

    def newest(self, kinds: Collection[str], within: int) -> Iterator[Line]:
        """Lines of some kinds among the newest `within`, newest first; no other is decoded."""
        wanted = {kind.encode() for kind in kinds}
        for start, _, raw, whole in islice(backwards(self._read, self.size, _CHUNK), within):
            if whole and named_kind(raw) in wanted:
                line = self._item(raw, start)
                if isinstance(line, Line):
                    yield self.whole(line)

    def line(self, seq: int) -> Line:
        """The line with this number; raises `NoSuchEntry`."""
        if seq >= 0:
            if (expected := self._at(seq)) is not None and expected.seq == seq:
                return expected
            for item in self.read(seq, seq):
                if isinstance(item, Line):
                    return item
        raise errors.NoSuchEntry(
            f"There is no line {seq} in {self.places.key}.",
            "`mindstone log --tail 20` shows the newest.",
        )

    def find(self, id: str) -> Line:  # noqa: A002 (the field's own name)
        """The line with this id, found by halving: ids ascend."""
        start = self._start_where(lambda line: line.id >= id)
        found = next((item for item in self.read_from(start) if isinstance(item, Line)), None)
        if found is None or not found.id.startswith(id):
            raise errors.NoSuchEntry(
                f"There is no entry {id} in {self.places.key}.",
                "`mindstone log --json` shows the ids of the newest entries.",
            )
        return found

    def turn(self, turn: int, *, before: type | tuple[type, ...] = ()) -> list[Line]:
        """Every line of a turn, or those `before` the first of a kind; empty when there is none."""
        lines: list[Line] = []
        for item in self.read_from(self._start_where(lambda line: line.turn >= turn)):
            if isinstance(item, Line) and item.turn >= turn:
                if item.turn > turn or isinstance(item.entry, before):
                    break
                lines.append(item)
        return lines

    @property
    def header(self) -> Line:
        """Line 0, which says which session this is."""
        first = next(self.read_from(0), None)
        if not isinstance(first, Line) or first.kind != "session_opened":
            raise errors.DamagedTranscript(
                f"{self.places.transcript} does not begin with the header of a session.",
                "Run `mindstone verify`, and restore the file from a backup.",
            )
        return first

    @property
    def head(self) -> Head:
        """The newest readable line."""
        for item in islice(self.back(), MOST_STRAY):
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
        """The same line with everything put back that stands in blobs and in other lines."""
        return quoting(with_blobs(line, self.places), lambda seq: readable(self, seq))

    def blob(self, digest: str) -> bytes:
        """The bytes that a line keeps beside the transcript."""
        return disk.read_blob(self.places.blobs, digest)

    def _start_of(self, seq: int) -> int:
        """Where the first line numbered `seq` or later begins."""
        offsets = self.offsets
        if seq < len(offsets):
            start = offsets.start(seq)
            line = self._parse(start, offsets.end(seq))
            if line is not None and line.seq == seq:
                return start
        return self._start_where(lambda line: line.seq >= seq)

    def _start_where(self, reached: Callable[[Line], bool]) -> int:
        """Where the first line begins for which an ascending condition holds, or will.

        Lines that cannot be read may stand before it.
        """
        offsets = self.offsets
        low, high = 0, len(offsets)
        while low < high:
            middle = (low + high) // 2
            probe = middle
            line = self._parse(offsets.start(probe), offsets.end(probe))
            while line is None and probe + 1 < high:
                probe += 1
                line = self._parse(offsets.start(probe), offsets.end(probe))
            if line is None or reached(line):
                high = middle
            else:
                low = probe + 1
        return offsets.start(low) if low < len(offsets) else offsets.total

    def _at(self, number: int) -> Line | None:
        offsets = self.offsets
        if number >= len(offsets):
            return None
        return self._parse(offsets.start(number), offsets.end(number))

    def _parse(self, start: int, end: int) -> Line | None:
        item = self._item(self._read(min(end - start - 1, CUT), start), start)
        return item if isinstance(item, Line) else None

    def _item(self, raw: bytes, start: int) -> Item:
        """One line; a plan with what it leaves to an earlier one, if that can be read."""
        item = read_line(raw, start)
        if not isinstance(item, Line) or not isinstance(item.entry, PromptPlanned):
            return item
        plan = item.entry
        full = self._full_plan(plan.like) if plan.like is not None and plan.leans else None
        return item if full is None else msgspec.structs.replace(item, entry=plan.completed(full))

    def _full_plan(self, seq: int) -> PromptPlanned | None:
        """A plan that others lean on; the last that was asked for is remembered."""
        if self._leaned_on is None or self._leaned_on[0] != seq:
            line = self._at(seq)
            entry = line.entry if line is not None and line.seq == seq else None
            if not isinstance(entry, PromptPlanned) or entry.like is not None:
                return None
            self._leaned_on = (seq, entry)
        return self._leaned_on[1]

    def _pieces(self, offset: int) -> Iterator[tuple[int, int, bytes]]:
        for start, end, raw, whole in forwards(self._read, offset, self.size, _CHUNK):
            if whole:
                yield start, end, raw

    def _read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)


def readable(history: History, seq: int) -> Line | None:
    """The line with this number and its own text; None where either cannot be read."""
    try:
        return with_blobs(history.line(seq), history.places) if seq >= 0 else None
    except (errors.NoSuchEntry, errors.PlaceError):
        return None


def with_blobs(line: Line, places: paths.SessionPlaces) -> Line:
    """The same line with the texts that were moved to blobs put back, and nothing else."""
    return put_back(line, lambda digest: blob_text(places.blobs, digest))


def blob_text(folder: Path, digest: str) -> str:
    """A blob's text; of a file that nobody touched since, from memory."""
    with contextlib.suppress(OSError):
        seen = (folder / digest).lstat()
        return _read_once(folder, digest, seen.st_ino, seen.st_size, seen.st_mtime_ns)
    return disk.read_blob(folder, digest).decode()


@lru_cache(maxsize=2)
def _read_once(folder: Path, digest: str, *state: int) -> str:
    """The largest message is asked for a dozen times in its turn; others are soon read again."""
    del state
    return disk.read_blob(folder, digest).decode()


def named_kind(raw: bytes) -> bytes:
    """The kind that a line names, without decoding it."""
    at = raw.find(_KIND) + len(_KIND)
    return raw[at : raw.find(b'"', at)]


def read_line(raw: bytes, offset: int) -> Item:
    """Decode one line's bytes, or say why they are none."""
    if len(raw) > MAX_LINE:
        return Damaged(offset, raw, "longer than a line may be")
    try:
        return decode_line(raw)
    except Malformed as error:
        return Damaged(offset, raw, str(error))


def _open_to_read(places: paths.SessionPlaces) -> int:
    path = places.transcript
    try:
        return disk.open_regular(path, follow=False)
    except FileNotFoundError as error:
        raise places.missing() from error
    except OSError as error:
        raise disk.place_error(path, error) from error


def standings_of(history: History) -> Standings:
    """What counts of all that stands in a history; only lines that say so are decoded."""
    return Standings(reversed(list(history.newest(CHANGES, history.head.seq + 1))))


def copies_in(history: History) -> Iterator[Line]:
    """The lines that a fork began with, as it took them along; none of any other session."""
    opened = history.header.entry
    if isinstance(opened, SessionOpened) and opened.forked_from is not None:
        for line in history.read(1):
            if isinstance(line, Line) and line.parent:
                yield line
            elif isinstance(line, Line) and isinstance(line.entry, TurnStarted):
                return


def unheard(history: History, kinds: Collection[str]) -> Iterator[Line]:
    """Lines of some kinds since the newest message that stands, newest first, with what was rewound
    or restored since: what a message told that was rewound has to be told again.
    """
    rewinds: list[Line] = []
    kept_to = 1 << 40
    for line in history.newest((*kinds, "user_message", *REWINDS), history.head.seq + 1):
        if line.kind in REWINDS:
            rewinds.append(line)
            kept_to = min(kept_to, getattr(line.entry, "to_turn", kept_to))
        elif line.kind == "user_message":
            # One that was restored says nothing of those that were not.
            if line.turn <= kept_to and Rewinds(rewinds).of(line) is None:
                return
            continue
        yield line


def taken_back_since(history: History, seq: int) -> bool:
    """Whether other lines up to this one are taken back where they come from than were then."""
    imports = list(history.newest(("imported",), history.head.seq + 1))
    then = Rewinds(line for line in imports if line.seq <= seq)
    return any(one <= seq for one in then.there ^ Rewinds(imports).there)


def rewinds_of(history: History) -> Rewinds:
    """What of a history was rewound; no other line is decoded."""
    return Rewinds(history.newest((*REWINDS, "imported"), history.head.seq + 1))
