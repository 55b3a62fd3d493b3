"""Appending to a transcript so that what was acknowledged is never lost and never rewritten.

One append, under the kernel's lock on the file: look whether the path still is this file; learn
the tail when somebody else wrote; set a torn tail aside; one write; check the count; sync. If the
disk refuses, the write is rolled back, the entry is kept in memory, `NotSaved` is raised, and
every later append writes what is unsaved first. A failed sync is never tried again on the same
descriptor, because the kernel may already have dropped the pages it failed on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui import __version__
from mindstone_tui.core.disk import (
    REAL,
    Disk,
    ensure_folder,
    held,
    keep_blob,
    not_saved,
    place_error,
    replace_file,
    write_all,
)
from mindstone_tui.core.entries import Blob, Draft, Entry, Line, decode_line
from mindstone_tui.core.entries.conversation import ForkPoint, SessionOpened
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE, hash_matches, seal
from mindstone_tui.core.entries.store import FileReplaced, TailRecovered
from mindstone_tui.core.errors import DamagedTranscript, NotSaved, PlaceError
from mindstone_tui.core.places import SessionPlaces
from mindstone_tui.core.transcript import offsets
from mindstone_tui.core.transcript.drafting import Clean, prepare
from mindstone_tui.core.transcript.history import Damaged, Head, History, read_line
from mindstone_tui.core.transcript.stamps import Clock, Entropy, next_id, timestamp, utc_now

LOCK_WAIT: Final = 30.0
_TAIL: Final = 1 << 16


class _Tail(msgspec.Struct, frozen=True):
    """All that the next line needs to know about the ones before it."""

    size: int = 0
    start: int | None = None
    seq: int = -1
    hash: str = GENESIS
    id: str = ""
    turn: int = 0


class _Doubtful(msgspec.Struct, frozen=True):
    """A write whose sync failed and that could not be taken back: the bytes may be there."""

    offset: int
    hash: str


class Transcript:
    """A session's history, open for appending; several processes may hold one at a time."""

    def __init__(
        self,
        places: SessionPlaces,
        *,
        disk: Disk = REAL,
        clean: Clean = str,
        clock: Clock = utc_now,
        entropy: Entropy = os.urandom,
        channel: str = "cli",
        forked_from: ForkPoint | None = None,
        create: bool = True,
    ) -> None:
        if not create and not places.transcript.exists():
            raise PlaceError(
                f"There is no session {places.key}.",
                "`mindstone sessions` lists those that exist.",
            )
        self.places = places
        self.channel = channel
        self._disk = disk
        self._clean = clean
        self._clock = clock
        self._entropy = entropy
        self._fd = -1
        self._tail = _Tail()
        self._unsaved: list[Draft] = []
        self._doubtful: _Doubtful | None = None
        ensure_folder(places.folder, disk)
        self._open(forked_from)

    @property
    def unsaved(self) -> tuple[Draft, ...]:
        """Entries the disk refused; the next append writes them first."""
        return tuple(self._unsaved)

    @property
    def head(self) -> Head:
        """The newest line this process knows of."""
        return Head(self._tail.seq, self._tail.hash)

    @property
    def last_turn(self) -> int:
        """The turn of the newest line this process knows of."""
        return self._tail.turn

    def append(
        self, entry: Entry, *, turn: int | None = None, ts: str = "", parent: str | None = None
    ) -> Line:
        """Write one entry; when this returns, it survives a power cut."""
        turn = self._tail.turn if turn is None else turn
        draft = Draft(entry=entry, turn=turn, channel=self.channel, ts=ts, parent=parent)
        return self.append_all([draft])[-1]

    def append_all(self, drafts: Sequence[Draft]) -> list[Line]:
        """Write several entries with one write and one sync.

        If this raises, the drafts are kept as unsaved; do not hand them in again.
        """
        self._unsaved.extend(
            draft if draft.ts else msgspec.structs.replace(draft, ts=timestamp(self._clock()))
            for draft in drafts
        )
        return self.save()[-len(drafts) :]

    def save(self) -> list[Line]:
        """Write whatever is unsaved; raises `NotSaved`, and then everything still is."""
        if not self._unsaved:
            return []
        try:
            if self._fd < 0:
                self._fd = self._disk.open(self.places.transcript, os.O_RDWR | os.O_APPEND)
            with held(self._fd, wait=LOCK_WAIT, busy=f"{self.places.key} is being written to."):
                self._follow_path()
                self._learn_tail()
                lines = self._write(self._unsaved)
        except OSError as error:
            self._poison()
            raise not_saved(self.places.transcript, error) from error
        self._unsaved.clear()
        return lines

    def rescue(self, folder: Path) -> Path | None:
        """Write what is unsaved somewhere else; the file is named, or None if there is nothing."""
        if not self._unsaved:
            return None

        def keep(data: bytes) -> Blob:
            return Blob(sha256=keep_blob(folder / "blobs", data), size=len(data))

        lines = []
        for draft in self._unsaved:
            body = prepare(draft.entry, self._clean, keep)
            place = msgspec.json.encode({"ts": draft.ts, "turn": draft.turn})
            lines.append(place[:-1] + b"," + body.fields + body.extra + b"}\n")
        name = f"unsaved-{self._clock().strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"
        replace_file(folder / name, b"".join(lines))
        return folder / name

    def keep_blob(self, data: bytes) -> Blob:
        """Store bytes beside the transcript, durably, before a line names them."""
        return Blob(sha256=keep_blob(self.places.blobs, data, self._disk), size=len(data))

    def history(self) -> History:
        """A reader of the same file."""
        return History(self.places, may_store_offsets=True)

    def close(self) -> None:
        """Give the file back; nothing is lost that was acknowledged."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def _open(self, forked_from: ForkPoint | None) -> None:
        path = self.places.transcript
        try:
            self._fd = self._disk.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise place_error(path, error) from error
        with held(self._fd, wait=LOCK_WAIT, busy=f"{self.places.key} is being written to."):
            try:
                self._learn_tail()
                if self._tail.seq < 0:
                    self._write([self._header(forked_from)])
                    self._disk.sync_folder(path.parent)
            except OSError as error:
                raise not_saved(path, error) from error

    def _header(self, forked_from: ForkPoint | None) -> Draft:
        key = self.places.key
        entry = SessionOpened(
            agent=key.agent,
            main=key.main,
            program=f"mindstone {__version__}",
            salt=self._entropy(16).hex(),
            forked_from=forked_from,
        )
        return Draft(entry=entry, turn=0, channel=self.channel)

    def _follow_path(self) -> None:
        """Stay with the file that has the name: a backup tool may have put another one there."""
        ours = self._disk.inode(self._fd)
        theirs = self._disk.inode_at(self.places.transcript)
        if theirs == ours:
            return
        if theirs is None:
            raise NotSaved(
                f"NOT SAVED: {self.places.transcript} was moved or deleted while it was open.",
                "Put it back; what is unsaved is kept and written first.",
            )
        fresh = self._disk.open(self.places.transcript, os.O_RDWR | os.O_APPEND)
        self._disk.close(self._fd)
        self._fd = fresh
        self._tail = _Tail()
        self._learn_tail()
        moved = FileReplaced(inode_before=ours, inode_after=theirs)
        self._write([self._own(moved)])

    def _own(self, entry: Entry) -> Draft:
        return Draft(entry=entry, turn=self._tail.turn, channel=self.channel)

    def _learn_tail(self) -> None:
        """Know the newest line; set aside whatever a crash left behind it."""
        size = self._disk.size(self._fd)
        if size == self._tail.size:
            return
        size = self._take_back(size)
        start, end, line = self._last_good_line(size)
        if line is None and size > 0 and end > 0:
            raise DamagedTranscript(
                f"{self.places.transcript} has no readable line at its end.",
                "Run `mindstone verify`; nothing was written.",
            )
        self._tail = _Tail(
            size=end,
            start=start if line else None,
            seq=line.seq if line else -1,
            hash=line.hash if line else GENESIS,
            id=line.id if line else "",
            turn=line.turn if line else 0,
        )
        if end < size:
            self._set_aside(end, size)

    def _take_back(self, size: int) -> int:
        """Cut off our own line whose sync failed, so that it is not written a second time."""
        doubt, self._doubtful = self._doubtful, None
        if doubt is None or size <= doubt.offset:
            return size
        start = self._line_start(size)
        item = read_line(self._disk.read(self._fd, size - start - 1, start), start)
        if not (isinstance(item, Line) and item.hash == doubt.hash):
            return size
        self._doubtful = doubt
        self._disk.truncate(self._fd, doubt.offset)
        self._doubtful = None
        return doubt.offset

    def _last_good_line(self, size: int) -> tuple[int, int, Line | None]:
        """Start and end of the newest whole line; what follows its end was torn by a crash.

        A last line that is whole and readable but lacks only its newline counts as torn only up
        to that newline, which is added. A line that is readable but whose hash is wrong was not
        torn, it rotted: it stays, and `verify` names it.
        """
        end = size
        while end > 0:
            start = self._line_start(end)
            raw = self._disk.read(self._fd, end - start, start)
            whole = raw.endswith(b"\n")
            item = read_line(raw.rstrip(b"\n") if whole else raw, start)
            if isinstance(item, Line) and (whole or hash_matches(raw, item.hash)):
                if not whole:
                    write_all(self._fd, b"\n", self._disk)
                    self._disk.sync(self._fd)
                    end += 1
                return start, end, item
            if isinstance(item, Damaged) and whole and end < size - 2 * MAX_LINE:
                break
            end = start
        return 0, end, None

    def _line_start(self, end: int) -> int:
        """Where the line that ends at `end` begins."""
        position = end - 1
        while position > 0:
            start = max(0, position - _TAIL)
            newline = self._disk.read(self._fd, position - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            position = start
        return 0

    def _set_aside(self, end: int, size: int) -> None:
        """Copy torn bytes to a file of their own, cut them off, and write down that it happened."""
        fragment = self._read_range(end, size)
        digest = hashlib.sha256(fragment).hexdigest()
        name = f"{end}-{digest[:16]}"
        ensure_folder(self.places.torn, self._disk)
        replace_file(self.places.torn / name, fragment, self._disk)
        self._disk.truncate(self._fd, end)
        self._disk.sync(self._fd)
        if self._tail.seq >= 0:
            record = TailRecovered(offset=end, length=len(fragment), sha256=digest, copy=name)
            self._write([self._own(record)])

    def _read_range(self, start: int, end: int) -> bytes:
        pieces = []
        while start < end:
            piece = self._disk.read(self._fd, min(1 << 20, end - start), start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def _write(self, drafts: Sequence[Draft]) -> list[Line]:
        """One write and one sync for all of them, or nothing."""
        tails = [self._tail]
        whole: list[bytes] = []
        for draft in drafts:
            raw, tail = self._seal(draft, tails[-1])
            whole.append(raw)
            tails.append(tail)
        self._put(b"".join(whole), tails[-1].hash)
        self._tail = tails[-1]
        inode = self._disk.inode(self._fd)
        for before in tails[:-1]:
            offsets.note(self.places.offsets, inode, before.size, before.start)
        return [decode_line(raw[:-1]) for raw in whole]

    def _seal(self, draft: Draft, before: _Tail) -> tuple[bytes, _Tail]:
        """A draft as the line that follows `before`, and the tail it makes."""
        moment = self._clock()
        id_ = next_id(moment, before.id, self._entropy)
        body = prepare(draft.entry, self._clean, self.keep_blob)
        raw, digest = seal(
            body.fields,
            seq=before.seq + 1,
            id=id_,
            session=str(self.places.key),
            ts=draft.ts or timestamp(moment),
            turn=draft.turn,
            role=draft.entry.role,
            channel=draft.channel,
            prev=before.hash,
            parent=draft.parent,
            extra=body.extra,
        )
        size = before.size + len(raw)
        return raw, _Tail(size, before.size, before.seq + 1, digest, id_, draft.turn)

    def _put(self, data: bytes, digest: str) -> None:
        """Write and sync, or take the write back."""
        before = self._tail.size
        try:
            write_all(self._fd, data, self._disk)
            self._disk.sync(self._fd)
        except OSError:
            # A reader must not see a line that was never acknowledged. Where the disk refuses
            # even this, the next append knows which line to take back.
            self._doubtful = _Doubtful(before, digest)
            with contextlib.suppress(OSError):
                self._disk.truncate(self._fd, before)
                self._doubtful = None
            raise

    def _poison(self) -> None:
        """Never use a descriptor again that a write or sync failed on."""
        with contextlib.suppress(OSError):
            self._disk.close(self._fd)
        self._fd = -1
        self._tail = _Tail()
