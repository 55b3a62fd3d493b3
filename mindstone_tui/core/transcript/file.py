"""The file under a transcript: locked, known to its end, free of what a crash left behind.

Whoever holds it may put lines at its end. It says what it had to do to get there (`news`): a torn
tail that was set aside, a file that another program had put in its place. Those become entries.
"""

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from mindstone_tui.core import errors, paths, patterns
from mindstone_tui.core.disk import Disk, held, place_error, replace_with, write_all
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE, hash_matches
from mindstone_tui.core.entries.store import FileReplaced, TailRecovered
from mindstone_tui.core.transcript import reader

LONGEST_WRITE: Final = 4 << 20
"""No write is longer, so no crash tears more."""

_CHUNK: Final = 1 << 16
_HEADER_BEGINS: Final = b'{"v":1,"seq":0,'
_LOOKS_WHOLE: Final = patterns.pattern_of(rb'\{"v":.*,"hash":"([0-9a-f]{64})"\}', re.DOTALL)


class Tail(msgspec.Struct, frozen=True):
    """All that the next line needs to know about the ones before it."""

    size: int = 0
    """Where the next line begins."""
    start: int | None = None
    """Where the newest one does."""
    seq: int = -1
    hash: str = GENESIS
    id: str = ""
    turn: int = 0
    session: str = ""


class End(msgspec.Struct, frozen=True):
    """A transcript's end as it was found."""

    tail: Tail
    torn: bool = False
    """Bytes behind the tail are of no use."""
    newline: bool = True
    """False when the newest line is whole but for its newline."""


class _Batched(msgspec.Struct, frozen=True):
    seq: int
    batch: int | None = None


_decode_batched = msgspec.json.Decoder(_Batched).decode


def find_end(read: reader.Read, size: int, name: object) -> End:
    """Look back from the end to the newest line that counts; raises `DamagedTranscript`."""
    end = size
    rotten: list[reader.Piece] = []
    pieces = islice(reader.backwards(read, size, _CHUNK), reader.MOST_STRAY)
    for piece in pieces:
        begin, stop, raw, whole = piece
        if (line := _readable(raw, begin)) is not None and hash_matches(raw, line.hash):
            before = _before_torn_batch(line, begin, pieces) if whole and not rotten else None
            if before is not None:
                return End(before, torn=True)
            tail = _after(line, begin, stop + (not whole), rotten)
            return End(tail, torn=tail.size < size, newline=whole)
        if whole and _rotted(raw):
            rotten.append(piece)
            continue
        rotten.clear()
        end = begin
        if size - end > LONGEST_WRITE + MAX_LINE:
            break
    return End(_when_nothing_is_good(read, size, end, rotten, name), torn=end < size)


def _after(line: Line, begin: int, stop: int, rotten: list[reader.Piece]) -> Tail:
    """The tail behind a good line and the rotten ones that follow it and stay."""
    if not rotten:
        return Tail(stop, begin, line.seq, line.hash, line.id, line.turn, line.session)
    start, stop, raw, _ = rotten[0]
    return Tail(
        stop, start, line.seq + len(rotten), _claimed_hash(raw), line.id, line.turn, line.session
    )


def _before_torn_batch(line: Line, begin: int, pieces: Iterator[reader.Piece]) -> Tail | None:
    """The tail before the write that a good last line was part of, if that write is torn."""
    if (first := _decode_batched(line.raw).batch) is None or first >= line.seq:
        return None
    torn = False
    for start, stop, raw, _ in pieces:
        if (found := _readable(raw, start)) is not None and found.seq < first:
            return _after(found, start, stop, []) if torn else None
        torn = torn or b"\x00" in raw
        if begin - start > LONGEST_WRITE + MAX_LINE:
            return None
    return Tail() if torn and first == 0 else None


def _when_nothing_is_good(
    read: reader.Read, size: int, end: int, rotten: list[reader.Piece], name: object
) -> Tail:
    """The tail where no line can be trusted: fine for a header that was never finished."""
    if rotten and rotten[-1][0] == 0:
        start, stop, raw, _ = rotten[0]
        return Tail(stop, start, len(rotten) - 1, _claimed_hash(raw))
    if end == 0 and (size == 0 or _torn_header(read(min(size, _CHUNK), 0), size)):
        return Tail()
    raise errors.DamagedTranscript(
        f"{name} has no readable line at its end.",
        "Run `mindstone verify`, and restore the file from a backup; nothing was written.",
    )


def _torn_header(content: bytes, size: int) -> bool:
    """Whether a file is no more than a header that a crash cut short."""
    came = content.rstrip(b"\x00")
    begun = came.startswith(_HEADER_BEGINS) or _HEADER_BEGINS.startswith(came)
    return size <= MAX_LINE and begun


def _readable(raw: bytes, offset: int) -> Line | None:
    if b"\x00" in raw:
        return None
    item = reader.read_line(raw, offset)
    return item if isinstance(item, Line) else None


def _rotted(raw: bytes) -> bool:
    """Whether a line was written whole and changed later: pages that never came are all NUL."""
    return len(raw) <= MAX_LINE and b"\x00" not in raw and _LOOKS_WHOLE.fullmatch(raw) is not None


def _claimed_hash(raw: bytes) -> str:
    found = _LOOKS_WHOLE.fullmatch(raw)
    return found[1].decode() if found else GENESIS


LOCK_WAIT: Final = 30.0


class _Doubtful(msgspec.Struct, frozen=True):
    """A write whose sync failed and that could not be taken back: the bytes may be there."""

    offset: int
    hash: str


class Replacements(msgspec.Struct, frozen=True):
    """How often another program put something else in a transcript's place while it was open."""

    files: int = 0
    histories: int = 0
    """Times in which the newest line that was known was not in it: an older copy, perhaps."""


class TranscriptFile:
    """One session's file, for appending."""

    _fd = -1

    def __init__(
        self, places: paths.SessionPlaces, disk: Disk, *, create: bool, copy: bool = False
    ) -> None:
        self._places = places
        self._disk = disk
        self._copy = copy
        """The history itself is kept elsewhere: what is missing here is not lost."""
        self._inode: int | None = None
        self._doubtful: _Doubtful | None = None
        self.replacements = Replacements()
        self._acknowledged = 0
        """Where the newest line ends that this process was told is on disk."""
        self.tail = Tail()
        self.newest = Tail()
        """The same, and still known while the file has to be opened anew."""
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
        if create and not copy and places.derived and not os.path.lexists(places.transcript):
            raise places.missing()
        self._read_only: OSError | None = None
        """Why nothing can be written; what is there can be read all the same."""
        try:
            self._fd = self._open(flags)
        except FileNotFoundError as error:
            raise places.missing() from error
        except OSError as error:
            raise place_error(places.transcript, error) from error

    def _open(self, flags: int) -> int:
        try:
            fd = self._disk.open(self._places.transcript, flags)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            fd = self._disk.open(self._places.transcript, os.O_RDONLY)
            self._read_only = error
        else:
            self._read_only = None
        return fd

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[Entry]]:
        """Hold the lock of the file that has the name; what must be recorded is handed over."""
        busy = f"{self._places.key} is being written to by another program."
        while True:
            if self._fd < 0:
                self._fd = self._reopen()
            with held(self._fd, wait=LOCK_WAIT, busy=busy):
                inode = self._disk.inode(self._fd)
                if (named := self._disk.inode_at(self._places.transcript)) == inode:
                    yield self._meet(inode)
                    return
            if named is None:
                raise self._gone()
            self.poison()

    def _reopen(self) -> int:
        """Open the file that has the name now; none is made, because there was one."""
        try:
            return self._open(os.O_RDWR | os.O_APPEND)
        except FileNotFoundError as error:
            raise self._gone() from error

    def _gone(self) -> errors.EntryNotSaved:
        return errors.EntryNotSaved(
            f"NOT SAVED: {self._places.transcript} was moved or deleted while it was open.",
            "Put it back; what is unsaved is kept and written first.",
        )

    def put(self, data: bytes, tails: list[Tail]) -> None:
        """Write and sync, or take the write back; `tails` are those before and after each line."""
        if self._read_only is not None:
            raise self._read_only
        before, after = tails[0], tails[-1]
        try:
            write_all(self._fd, data, self._disk)
            self._disk.sync(self._fd)
        except OSError:
            # A reader must not see a line that was never acknowledged. Where the disk refuses
            # even this, the next append knows which line to take back.
            self._doubtful = _Doubtful(before.size, after.hash)
            with contextlib.suppress(OSError):
                self._disk.truncate(self._fd, before.size)
                self._doubtful = None
            raise
        self.tail = self.newest = after
        self._acknowledged = after.size
        starts = [tail.size for tail in tails[:-1]]
        reader.note(self._places.offsets, self._disk.inode(self._fd), starts, before.start)

    def poison(self) -> None:
        """Never use a descriptor again that a write or sync failed on."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self._disk.close(self._fd)
        self._fd = -1
        self.tail = Tail()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back, at the latest when nobody holds this any more."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def _meet(self, inode: int) -> list[Entry]:
        """Learn the tail; notice when a backup or sync tool put another file here."""
        before, self._inode = self._inode, inode
        if before in (None, inode):
            return self._learn_tail()
        self._acknowledged = 0
        self.tail = Tail()
        known = self.replacements
        self.replacements = msgspec.structs.replace(known, files=known.files + 1)
        return [FileReplaced(inode_before=before or 0, inode_after=inode), *self._learn_tail()]

    def _learn_tail(self) -> list[Entry]:
        """Know the newest line; set aside whatever a crash left behind it."""
        size = self._disk.size(self._fd)
        if size == self.tail.size and self.tail.seq >= 0 and self._ends_with(self.tail):
            return []
        size = self._take_back(size)
        self._refuse_a_cut(size)
        end = find_end(self._read, size, self._places.transcript)
        if end.tail.seq < 0 and self._places.derived and not self._copy:
            raise self._places.missing()
        self._refuse_a_stranger(end.tail.session)
        if not self._still_there(self.newest):
            known = self.replacements
            self.replacements = msgspec.structs.replace(known, histories=known.histories + 1)
        if not end.newline:
            write_all(self._fd, b"\n", self._disk)
            self._disk.sync(self._fd)
        if end.torn:
            self._set_aside(end.tail.size, size)
        self.tail = self.newest = end.tail
        return self._unrecorded_copies()

    def _ends_with(self, known: Tail) -> bool:
        """Whether the file's last bytes are still this line's: it may be rewritten in place."""
        seal = known.hash.encode() + b'"}\n'
        return self._read(len(seal), known.size - len(seal)) == seal

    def _still_there(self, known: Tail) -> bool:
        """Whether the newest line that was known stands where it stood, with its hash."""
        if known.start is None:
            return True
        raw = self._read(known.size - known.start, known.start)
        return raw.endswith(b"\n") and _claimed_hash(raw[:-1]) == known.hash

    def _refuse_a_cut(self, size: int) -> None:
        if size < self._acknowledged:
            raise errors.EntryNotSaved(
                f"NOT SAVED: another program cut {self._places.transcript} from "
                f"{self._acknowledged:,} to {size:,} bytes.",
                "Restore the file from a backup; what is unsaved is kept in memory.",
            )

    def _refuse_a_stranger(self, session: str) -> None:
        if session not in ("", str(self._places.key)):
            raise errors.DamagedTranscript(
                f"{self._places.transcript} is the history of {session}, "
                f"not of {self._places.key}.",
                "Move the folder back; a session is copied with /fork, not with cp.",
            )

    def _take_back(self, size: int) -> int:
        """Cut off our own lines whose sync failed, so that they are not written a second time."""
        doubt, self._doubtful = self._doubtful, None
        if doubt is None or size <= doubt.offset:
            return size
        start, _, raw, whole = next(reader.backwards(self._read, size, _CHUNK))
        item = reader.read_line(raw, start)
        if not (whole and isinstance(item, Line) and item.hash == doubt.hash):
            return size
        self._doubtful = doubt
        self._disk.truncate(self._fd, doubt.offset)
        self._doubtful = None
        return doubt.offset

    def _set_aside(self, end: int, size: int) -> None:
        """Copy torn bytes to a file of their own, durably, then cut them off."""
        digest = hashlib.sha256()
        for piece in self._pieces(end, size):
            digest.update(piece)
        name = f"{end}-{size - end}-{digest.hexdigest()}"
        replace_with(self._places.torn / name, self._pieces(end, size), self._disk)
        self._disk.truncate(self._fd, end)
        self._disk.sync(self._fd)

    def _unrecorded_copies(self) -> list[Entry]:
        """Fragments that were set aside and not yet written down.

        The entry about a fragment begins where the fragment did. So whatever was set aside at
        the present end is unrecorded, even if the program was killed right after the cut.
        """
        end = self.tail.size
        records: list[Entry] = []
        for copy in sorted(self._places.torn.glob(f"{end}-*-*")):
            _, length, digest = copy.name.split("-", 2)
            records.append(
                TailRecovered(offset=end, length=int(length), sha256=digest, copy=copy.name)
            )
        return records

    def _read(self, size: int, offset: int) -> bytes:
        return self._disk.read(self._fd, size, offset)

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        while start < end and (piece := self._read(min(1 << 20, end - start), start)):
            yield piece
            start += len(piece)
