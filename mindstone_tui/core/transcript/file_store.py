"""The files of a home as a store of histories: the default, and one end of every copy.

Lines come and go as bytes here. An entry that is to be written goes through `Transcript`, which
knows what to do about a torn end; a copy whose end is torn is merely copied again from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from mindstone_tui.core.disk import REAL, Disk, ensure_folder, keep_blob, place_error, read_blob
from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import LeaseLost, Overtaken
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript.encode import timestamp
from mindstone_tui.core.transcript.file import Tail, TranscriptFile
from mindstone_tui.core.transcript.history_store import NOTHING, Grant, StoredSession, follows
from mindstone_tui.core.transcript.reader import Head, History, read_line

_LOOK_AGAIN: Final = 0.02


class FileStore:
    """Every session of a home, as lines."""

    name = "This machine"

    def __init__(self, home: Places, disk: Disk = REAL) -> None:
        self._home = home
        self._disk = disk
        self._leases: dict[tuple[SessionKey, str], int] = {}
        """Descriptors that hold the kernel's lock for a turn."""

    def sessions(self) -> list[StoredSession]:
        """Every session that has a transcript."""
        keys = sorted(places.key for places in self._home.sessions())
        return [found for key in keys if (found := self.find(key)) is not None]

    def find(self, key: SessionKey) -> StoredSession | None:
        """One of them; a file without a readable line counts as none."""
        places = self._home.session(key)
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
        places = self._home.session(key)
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
        with History(self._home.session(key)) as history:
            expected = first
            for offset, raw in history.raw_from(history.offset_after(first - 1)):
                if last is not None and expected > last:
                    return
                line = read_line(raw, offset)
                if not isinstance(line, Line) or line.seq != expected:
                    return
                yield raw
                expected += 1

    def wait(self, key: SessionKey, after: int, seconds: float) -> bool:
        """Look again and again until there is something."""
        until = time.monotonic() + seconds
        while True:
            found = self.find(key)
            if found is not None and found.head.seq > after:
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_AGAIN)

    def take(self, key: SessionKey, holder: str, seconds: float) -> Grant | None:
        """The kernel's lock: it runs out when the program ends, not before."""
        places = self._home.session(key)
        if (key, holder) not in self._leases:
            ensure_folder(places.folder, self._disk)
            fd = self._disk.open(places.lease, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            self._leases[key, holder] = fd
        return Grant(holder=holder, epoch=0, seconds=seconds)

    def renew(self, key: SessionKey, grant: Grant) -> bool:
        """Whether it is still held; the kernel keeps it as long as the program lives."""
        return (key, grant.holder) in self._leases

    def give_back(self, key: SessionKey, grant: Grant) -> None:
        """Free the lock."""
        fd = self._leases.pop((key, grant.holder), None)
        if fd is not None:
            os.close(fd)

    def missing_blobs(self, key: SessionKey, digests: Collection[str]) -> set[str]:
        """Those that have no file."""
        folder = self._home.session(key).blobs
        return {digest for digest in digests if not (folder / digest).exists()}

    def keep_blob(self, key: SessionKey, data: bytes) -> str:
        """A file named by its hash."""
        return keep_blob(self._home.session(key).blobs, data, self._disk)

    def blob(self, key: SessionKey, digest: str) -> bytes:
        """What is in it."""
        return read_blob(self._home.session(key).blobs, digest)

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
