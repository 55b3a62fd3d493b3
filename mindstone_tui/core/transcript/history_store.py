"""What every place that keeps histories can do, and how a history is copied between two of them.

A store knows lines as bytes. Whoever reads them checks the chain, so it does not matter who kept
them: the same bytes have the same head everywhere.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from mindstone_tui.core import disk, errors
from mindstone_tui.core.disk import REAL, Disk, ensure_folder, keep_blob, place_error, read_blob
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE, hash_matches
from mindstone_tui.core.errors import DamagedTranscript, LeaseLost, Overtaken, UsageError
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.transcript.encode import timestamp
from mindstone_tui.core.transcript.file import Tail, TranscriptFile
from mindstone_tui.core.transcript.reader import Head, History, read_line
from mindstone_tui.core.transcript.verify import blobs_of, verify

NOTHING: Final = Head(-1, GENESIS)
"""The head of a history in which nothing stands yet."""
LINES_AT_ONCE: Final = 500
_LARGEST_HISTORY: Final = 8 << 30
BYTES_AT_ONCE: Final = 2 << 20
"""A batch that is copied is at most this large, or one line."""


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a store knows it."""

    key: SessionKey
    head: Head
    size: int
    """Bytes of all lines, newlines included."""
    updated: str = ""
    """When its newest line was stored, UTC, ISO 8601."""
    holder: str = ""
    """Who has the right to a turn now; empty for nobody."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The right to take turns in one session, until it runs out or somebody takes over."""

    holder: str
    epoch: int
    """Rises with every take-over; a line that comes with an older one is refused."""
    seconds: float


class LineStore(Protocol):
    """A place that keeps histories as lines: list, read a range, append, blobs."""

    @property
    def name(self) -> str:
        """Where this is, in words that hold no secret."""

    def sessions(self) -> list[StoredSession]:
        """Every session that can be seen, in the order of their keys."""

    def find(self, key: SessionKey) -> StoredSession | None:
        """One of them; None when there is none."""

    def append(
        self, key: SessionKey, lines: Sequence[bytes], after: Head, grant: Grant | None = None
    ) -> None:
        """Keep lines (without newlines) behind `after`, all or none; durable when this returns.

        Raises `Overtaken` when the head is another, `LeaseLost` when the grant is no longer good,
        and `HistoryAway` when nobody can say whether they were kept.
        """

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        """Lines `first` to `last`, both included, in order."""

    def missing_blobs(self, key: SessionKey, digests: Collection[str]) -> set[str]:
        """Those of these blobs that are not kept here."""

    def keep_blob(self, key: SessionKey, data: bytes) -> str:
        """Keep bytes beside a session under their own hash, durably."""

    def blob(self, key: SessionKey, digest: str) -> bytes:
        """The bytes that were kept under a hash, checked against it."""


class HistoryStore(LineStore, Protocol):
    """One that is worked in, too: who may take a turn, and what comes in from elsewhere."""

    def wait(self, key: SessionKey, after: int, seconds: float) -> bool:
        """Whether there is a line behind number `after`; waits for one, but not for longer."""

    def take(self, key: SessionKey, holder: str, seconds: float) -> Grant | None:
        """The right to take turns, unless another holder has it; None then."""

    def renew(self, key: SessionKey, grant: Grant) -> bool:
        """Have it for longer; False when somebody took over."""

    def give_back(self, key: SessionKey, grant: Grant) -> None:
        """Let others have it; nothing happens if they have it already."""

    def another(self) -> HistoryStore:
        """The same place once more, for another thread."""

    def break_off(self) -> None:
        """End what another thread waits for in this store."""

    def close(self) -> None:
        """Give back what is open."""


class _Envelope(msgspec.Struct, frozen=True):
    seq: int
    session: str
    prev: str
    hash: str


_decode = msgspec.json.Decoder(_Envelope).decode


def follows(raw: bytes, before: Head, key: SessionKey) -> Head:
    """The head that a line makes behind another; raises `DamagedTranscript` if it is not next."""
    try:
        line = _decode(raw)
    except (ValueError, RecursionError) as error:
        raise _broken(key, before, "it cannot be read") from error
    if len(raw) > MAX_LINE or b"\n" in raw:
        raise _broken(key, before, "it is too long, or more than one")
    if line.session != str(key):
        raise _broken(key, before, f"it belongs to {line.session}")
    if line.seq != before.seq + 1 or line.prev != before.hash:
        raise _broken(key, before, "it was written after another line")
    if not hash_matches(raw, line.hash):
        raise _broken(key, before, "its bytes do not have the hash that it carries")
    return Head(line.seq, line.hash)


def _broken(key: SessionKey, before: Head, why: str) -> DamagedTranscript:
    return DamagedTranscript(
        f"The line that should be line {before.seq + 1} of {key} is not: {why}.",
        "Nothing of it was kept; `mindstone verify` says how the copy here is.",
    )


def bounded(
    lines: Iterator[bytes], key: SessionKey, name: str, most: int = _LARGEST_HISTORY
) -> Iterator[bytes]:
    """The same lines, no more than were announced or can be: a chain may go on without end."""
    left = min(most, _LARGEST_HISTORY)
    for raw in lines:
        if (left := left - len(raw) - 1) < 0:
            what = f"{name} sends more of {key} than it has, or than any history is."
            raise DamagedTranscript(what, "What came before stays; look at that place first.")
        yield raw


def in_batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The same lines in pieces that can be sent and kept at once."""
    batch: list[bytes] = []
    room = BYTES_AT_ONCE
    for raw in lines:
        if batch and (room < len(raw) or len(batch) >= LINES_AT_ONCE):
            yield batch
            batch, room = [], BYTES_AT_ONCE
        batch.append(raw)
        room -= len(raw)
    if batch:
        yield batch


def copy_blobs(
    key: SessionKey,
    lines: Sequence[bytes],
    source: LineStore,
    target: LineStore,
    into: SessionKey | None = None,
) -> None:
    """Keep every blob that these lines name, before any of them is kept; `into` another session."""
    named = {digest for raw in lines for digest in blobs_of(raw)}
    for digest in sorted(target.missing_blobs(into or key, named)) if named else ():
        target.keep_blob(into or key, source.blob(key, digest))


def fetch_blobs(
    key: SessionKey, lines: Sequence[bytes], source: HistoryStore, places: SessionPlaces, disk: Disk
) -> None:
    """The same for the files of one session."""
    for digest in sorted({digest for raw in lines for digest in blobs_of(raw)}):
        if not (places.blobs / digest).exists():
            keep_blob(places.blobs, source.blob(key, digest), disk)


def hash_of(raw: bytes) -> str:
    """The hash that a line carries; empty for what is no line."""
    try:
        return _decode(raw).hash
    except (ValueError, RecursionError):
        return ""


def head_at(store: LineStore, key: SessionKey, seq: int) -> Head:
    """The head that a store's history had at a line; `NOTHING` where there is no such line."""
    if seq < 0:
        return NOTHING
    for raw in store.read(key, seq, seq):
        return Head(seq, hash_of(raw))
    return NOTHING


def copy_session(
    key: SessionKey,
    source: LineStore,
    target: LineStore,
    progress: Callable[[int, int], None] = lambda done, all_: None,
) -> Head:
    """Bring a session that `target` has in part, or not at all, up to where `source` has it.

    Goes on where an earlier copy was broken off. Every line is checked before it is kept; what
    comes out is the common head. Raises `UsageError` when the two hold different histories.
    """
    there, here = source.find(key), target.find(key)
    if there is None:
        raise UsageError(
            f"{source.name} has no session {key}.", "`mindstone history status` lists them."
        )
    head = here.head if here is not None else NOTHING
    if head.seq > there.head.seq:
        if head_at(target, key, there.head.seq) == there.head:
            return head
        raise differ(key, source.name, target.name)
    if head.seq >= 0 and head_at(source, key, head.seq) != head:
        raise differ(key, source.name, target.name)
    lines = source.read(key, head.seq + 1, there.head.seq)
    for batch in in_batches(bounded(lines, key, source.name, there.size)):
        after = head
        for raw in batch:
            head = follows(raw, head, key)
        copy_blobs(key, batch, source, target)
        target.append(key, batch, after)
        progress(head.seq + 1, there.head.seq + 1)
    return head


def differ(key: SessionKey, one: str, other: str) -> UsageError:
    """Two stores hold different histories under one name."""
    return UsageError(
        f"{one} and {other} hold different histories of {key}; neither was changed.",
        f"`mindstone history pull {key} --again` sets the one here aside, to be imported or "
        "compared, and takes the server's.",
    )


_LOOK_AGAIN: Final = 0.02


class FileStore:
    """Every session of a home, as lines."""

    name = "This machine"

    def __init__(self, home: Places, disk: Disk = REAL, *, foreign: bool = False) -> None:
        self._home = home
        self._foreign = foreign
        """Others may have written it: a stick, say. Nothing of it may lead elsewhere by a link."""
        self._disk = disk
        self._leases: dict[tuple[SessionKey, str], int] = {}
        """Descriptors that hold the kernel's lock for a turn."""

    def sessions(self) -> list[StoredSession]:
        """Every session that has a transcript, also where that cannot be read."""
        found: list[StoredSession] = []
        for key in sorted(places.key for places in self._home.sessions()):
            try:
                found += filter(None, [self.find(key)])
            except errors.MindstoneError:  # whoever opens it hears why
                found.append(StoredSession(key=key, head=Head(-1, ""), size=0))
        return found

    def _session(self, key: SessionKey) -> SessionPlaces:
        places = self._home.session(key)
        if self._foreign and os.path.realpath(places.blobs) != str(places.blobs):
            what = f"On the way to {places.blobs} is a link."
            raise errors.PlaceError(what, "Put the folder itself there.")
        return places

    def find(self, key: SessionKey) -> StoredSession | None:
        """One of them; a file without a readable line counts as none."""
        places = self._session(key)
        if not os.path.lexists(places.transcript):
            return None
        with History(places) as history:
            status = os.fstat(history.fileno())
            head = history.head
        if head.seq < 0:
            return None
        touched = timestamp(datetime.fromtimestamp(status.st_mtime, UTC))
        return StoredSession(key=key, head=head, size=status.st_size, updated=touched)

    def append(
        self, key: SessionKey, lines: Sequence[bytes], after: Head, grant: Grant | None = None
    ) -> None:
        """Write lines behind `after`, after a look at whether they are what must follow."""
        if grant is not None and (key, grant.holder) not in self._leases:
            raise LeaseLost(f"NOT SAVED: another program took over {key}.")
        places = self._session(key)
        ensure_folder(places.folder, self._disk)
        ledger = TranscriptFile(places, self._disk, create=True, copy=True)
        try:
            with ledger.locked():
                if known(ledger.tail) != after:
                    raise Overtaken(f"{key} ends with line {ledger.tail.seq}, not {after.seq}.")
                tails = tails_behind(ledger.tail, key, lines)
                ledger.put(b"".join(raw + b"\n" for raw in lines), tails)
        except OSError as error:
            raise place_error(places.transcript, error) from error
        finally:
            ledger.close()

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        """Lines as bytes; ends before one that cannot be read."""
        with History(self._session(key)) as history:
            expected = first
            for offset, raw in history.raw_from(history.offset_after(first - 1)):
                if last is not None and expected > last:
                    return
                line = read_line(raw, offset)
                if not isinstance(line, Line) or line.seq != expected:
                    return
                yield raw
                expected += 1

    def require_sound(self, key: SessionKey) -> None:
        """Prove all of it; a last line that was broken off is no damage: it is written again."""
        for problem in verify(self._session(key)).problems:
            if problem.kind != "torn":
                raise DamagedTranscript(
                    f"{self.name} has a damaged copy of {key}: line {problem.line}: "
                    f"{problem.detail}.",
                    f"It was left alone on both sides: `mindstone verify -s {key}` says more.",
                )

    def wait(self, key: SessionKey, after: int, seconds: float) -> bool:
        """Look again and again until there is something."""
        until = time.monotonic() + seconds
        while True:
            if (found := self.find(key)) is not None and found.head.seq > after:
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_AGAIN)

    def take(self, key: SessionKey, holder: str, seconds: float) -> Grant | None:
        """The kernel's lock: it runs out when the program ends, not before."""
        places = self._session(key)
        if (key, holder) not in self._leases:
            ensure_folder(places.folder, self._disk)
            if (fd := disk.take_lock(places.lease, self._disk)) is None:
                return None
            self._leases[key, holder] = fd
        return Grant(holder=holder, epoch=0, seconds=seconds)

    def renew(self, key: SessionKey, grant: Grant) -> bool:
        """Whether it is still held; the kernel keeps it as long as the program lives."""
        return (key, grant.holder) in self._leases

    def give_back(self, key: SessionKey, grant: Grant) -> None:
        """Free the lock."""
        if (fd := self._leases.pop((key, grant.holder), None)) is not None:
            os.close(fd)

    def missing_blobs(self, key: SessionKey, digests: Collection[str]) -> set[str]:
        """Those that have no file."""
        folder = self._session(key).blobs
        return {digest for digest in digests if not (folder / digest).exists()}

    def keep_blob(self, key: SessionKey, data: bytes) -> str:
        """A file named by its hash."""
        return keep_blob(self._session(key).blobs, data, self._disk)

    def blob(self, key: SessionKey, digest: str) -> bytes:
        """What is in it."""
        return read_blob(self._session(key).blobs, digest)

    def another(self) -> FileStore:
        """The same files."""
        return FileStore(self._home, self._disk)

    def break_off(self) -> None:
        """Nothing to do: nobody waits here for long."""

    def close(self) -> None:
        """Give back every lease."""
        for fd in self._leases.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self._leases.clear()


def known(tail: Tail) -> Head:
    """A file's end as the head of its history."""
    return Head(tail.seq, tail.hash) if tail.seq >= 0 else NOTHING


class _Place(msgspec.Struct, frozen=True):
    id: str
    turn: int


_decode_place = msgspec.json.Decoder(_Place).decode


def tails_behind(tail: Tail, key: SessionKey, lines: Sequence[bytes]) -> list[Tail]:
    """A tail and those that lines make behind it; each line is checked against the one before."""
    tails = [tail]
    for raw in lines:
        before = tails[-1]
        head = follows(raw, known(before), key)
        place = _decode_place(raw)
        size = before.size + len(raw) + 1
        tails.append(Tail(size, before.size, head.seq, head.hash, place.id, place.turn, str(key)))
    return tails
