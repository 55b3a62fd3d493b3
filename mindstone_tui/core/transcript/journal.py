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
from collections.abc import Iterator, Sequence
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
    replace_with,
    sync_young_folders,
    write_all,
)
from mindstone_tui.core.entries import Blob, Draft, Entry, Line, decode_line
from mindstone_tui.core.entries.conversation import ForkPoint, SessionOpened
from mindstone_tui.core.entries.line import seal
from mindstone_tui.core.entries.store import FileReplaced, TailRecovered
from mindstone_tui.core.errors import DamagedTranscript, MindstoneError, NotSaved, PlaceError
from mindstone_tui.core.places import SessionPlaces
from mindstone_tui.core.transcript import offsets
from mindstone_tui.core.transcript.drafting import Body, Clean, prepare
from mindstone_tui.core.transcript.history import Head, History, read_line
from mindstone_tui.core.transcript.splitting import backwards
from mindstone_tui.core.transcript.stamps import Clock, Entropy, next_id, timestamp, utc_now
from mindstone_tui.core.transcript.tail import LONGEST_WRITE, Tail, find_end

LOCK_WAIT: Final = 30.0
_CHUNK: Final = 1 << 16
_ENVELOPE: Final = 1 << 10


class _Pending(msgspec.Struct):
    """An entry that is not on disk yet, and its bytes once they are made."""

    draft: Draft
    body: Body | None = None


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
        self.places = places
        self.channel = channel
        self._disk = disk
        self._clean = clean
        self._clock = clock
        self._entropy = entropy
        self._fd = -1
        self._tail = Tail()
        self._known = Tail()
        """The newest tail, also while the file has to be opened anew."""
        self._inode: int | None = None
        self._acknowledged = 0
        """Where the newest line ends that this process was told is on disk."""
        self._unsaved: list[_Pending] = []
        self._doubtful: _Doubtful | None = None
        if create:
            ensure_folder(places.folder, disk)
        self._open(create, forked_from)

    @property
    def unsaved(self) -> tuple[Draft, ...]:
        """Entries the disk refused; the next append writes them first."""
        return tuple(pending.draft for pending in self._unsaved)

    @property
    def clean(self) -> Clean:
        """What every text goes through before it is written."""
        return self._clean

    def look(self) -> None:
        """Learn what other processes appended since; a torn end is set aside."""
        try:
            with self._locked():
                pass
        except OSError as error:
            self._poison()
            raise place_error(self.places.transcript, error) from error

    @property
    def head(self) -> Head:
        """The newest line this process knows of."""
        known = self._newest
        return Head(known.seq, known.hash)

    @property
    def last_turn(self) -> int:
        """The turn of the newest line this process knows of, saved or not."""
        waiting = [pending.draft.turn for pending in self._unsaved if pending.draft.turn]
        return waiting[-1] if waiting else self._newest.turn

    @property
    def _newest(self) -> Tail:
        return self._tail if self._tail.seq >= 0 else self._known

    def append(
        self, entry: Entry, *, turn: int | None = None, ts: str = "", parent: str | None = None
    ) -> Line:
        """Write one entry; when this returns, it survives a power cut."""
        draft = Draft(entry=entry, turn=turn, channel=self.channel, ts=ts, parent=parent)
        return self.append_all([draft])[-1]

    def append_all(self, drafts: Sequence[Draft]) -> list[Line]:
        """Write several entries with as few writes and syncs as possible.

        If this raises, what is not on disk is kept as unsaved; do not hand it in again.
        """
        self._unsaved.extend(
            _Pending(
                draft if draft.ts else msgspec.structs.replace(draft, ts=timestamp(self._clock()))
            )
            for draft in drafts
        )
        lines = self.save()
        return lines[len(lines) - len(drafts) :]

    def save(self) -> list[Line]:
        """Write whatever is unsaved; raises `NotSaved`, and then the rest still is."""
        if not self._unsaved:
            return []
        self._prepare_unsaved()
        lines: list[Line] = []
        try:
            with self._locked():
                while self._unsaved:
                    batch = self._next_batch()
                    lines += self._write(batch)
                    del self._unsaved[: len(batch)]
        except OSError as error:
            self._poison()
            raise not_saved(self.places.transcript, error) from error
        return lines

    def rescue(self, folder: Path) -> Path | None:
        """Write what is unsaved somewhere else; the file is named, or None if there is nothing."""
        if not self._unsaved:
            return None

        def keep(data: bytes) -> Blob:
            return Blob(sha256=keep_blob(folder / "blobs", data), size=len(data))

        lines = []
        for pending in self._unsaved:
            body = prepare(pending.draft.entry, self._clean, keep)
            place = msgspec.json.encode({"ts": pending.draft.ts, "turn": pending.draft.turn})
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

    def _open(self, create: bool, forked_from: ForkPoint | None) -> None:
        path = self.places.transcript
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
        try:
            self._fd = self._disk.open(path, flags)
        except FileNotFoundError as error:
            raise PlaceError(
                f"There is no session {self.places.key}.",
                "`mindstone sessions` lists those that exist.",
            ) from error
        except OSError as error:
            raise place_error(path, error) from error
        try:
            with self._locked():
                if self._tail.seq < 0:
                    self._write([_Pending(self._header(forked_from)), *self._copies_to_record()])
                if self._tail.seq <= 1:
                    sync_young_folders(path.parent, self._disk)
        except OSError as error:
            self._poison()
            raise not_saved(path, error) from error
        except MindstoneError:
            self._poison()
            raise

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

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the file that has the name, with its tail known and clean."""
        busy = f"{self.places.key} is being written to by another program."
        while True:
            if self._fd < 0:
                self._fd = self._disk.open(self.places.transcript, os.O_RDWR | os.O_APPEND)
            with held(self._fd, wait=LOCK_WAIT, busy=busy):
                inode = self._disk.inode(self._fd)
                named = self._disk.inode_at(self.places.transcript)
                if named == inode:
                    self._meet(inode)
                    yield
                    return
            if named is None:
                raise NotSaved(
                    f"NOT SAVED: {self.places.transcript} was moved or deleted while it was open.",
                    "Put it back; what is unsaved is kept and written first.",
                )
            self._poison()

    def _meet(self, inode: int) -> None:
        """Learn the tail, and write it down if a backup or sync tool put another file here."""
        before, self._inode = self._inode, inode
        if before in (None, inode):
            self._learn_tail()
            return
        self._acknowledged = 0
        self._learn_tail()
        if self._tail.seq >= 0 and before is not None:
            self._write([self._own(FileReplaced(inode_before=before, inode_after=inode))])

    def _own(self, entry: Entry) -> _Pending:
        return _Pending(Draft(entry=entry, turn=self._tail.turn, channel=self.channel))

    def _learn_tail(self) -> None:
        """Know the newest line; set aside whatever a crash left behind it."""
        size = self._disk.size(self._fd)
        if size == self._tail.size and self._tail.seq >= 0:
            return
        size = self._take_back(size)
        if size < self._acknowledged:
            raise DamagedTranscript(
                f"NOT SAVED: another program cut {self.places.transcript} from "
                f"{self._acknowledged} to {size} bytes.",
                "Restore the file from a backup; what is unsaved is kept in memory.",
            )
        end = find_end(self._read, size, self.places.transcript)
        if end.tail.session not in ("", str(self.places.key)):
            raise DamagedTranscript(
                f"{self.places.transcript} is the history of {end.tail.session}, "
                f"not of {self.places.key}.",
                "Move the folder back; a session is copied with /fork, not with cp.",
            )
        if not end.newline:
            write_all(self._fd, b"\n", self._disk)
            self._disk.sync(self._fd)
        self._tail = end.tail
        if end.torn:
            self._set_aside(end.tail.size, size)
        if self._tail.seq >= 0 and (records := self._copies_to_record()):
            self._write(records)

    def _take_back(self, size: int) -> int:
        """Cut off our own lines whose sync failed, so that they are not written a second time."""
        doubt, self._doubtful = self._doubtful, None
        if doubt is None or size <= doubt.offset:
            return size
        start, _, raw, whole = next(backwards(self._read, size, _CHUNK))
        item = read_line(raw, start)
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
        replace_with(self.places.torn / name, self._pieces(end, size), self._disk)
        self._disk.truncate(self._fd, end)
        self._disk.sync(self._fd)

    def _copies_to_record(self) -> list[_Pending]:
        """Fragments that were set aside and not yet written down.

        The entry about a fragment begins where the fragment did. So whatever was set aside at
        the present end is unrecorded, even if the program was killed right after the cut.
        """
        end = self._tail.size
        records = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for copy in sorted(self.places.torn.glob(f"{end}-*-*")):
                _, length, digest = copy.name.split("-", 2)
                records.append(
                    self._own(
                        TailRecovered(offset=end, length=int(length), sha256=digest, copy=copy.name)
                    )
                )
        return records

    def _read(self, size: int, offset: int) -> bytes:
        return self._disk.read(self._fd, size, offset)

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        while start < end and (piece := self._read(min(1 << 20, end - start), start)):
            yield piece
            start += len(piece)

    def _prepare_unsaved(self) -> None:
        """Make the bytes of what is new; blobs are on disk before the lock is taken."""
        for pending in list(self._unsaved):
            if pending.body is None:
                try:
                    pending.body = prepare(pending.draft.entry, self._clean, self.keep_blob)
                except NotSaved:
                    raise
                except MindstoneError:
                    self._unsaved.remove(pending)
                    raise

    def _next_batch(self) -> list[_Pending]:
        """As much of what is unsaved as one write may hold."""
        room = LONGEST_WRITE
        batch: list[_Pending] = []
        for pending in self._unsaved:
            room -= len(pending.body.fields) + _ENVELOPE if pending.body else _ENVELOPE
            if batch and room < 0:
                break
            batch.append(pending)
        return batch

    def _write(self, batch: Sequence[_Pending]) -> list[Line]:
        """One write and one sync for all of them, or nothing."""
        tails = [self._tail]
        whole: list[bytes] = []
        first = self._tail.seq + 1 if len(batch) > 1 else None
        for pending in batch:
            raw, tail = self._seal(pending, tails[-1], first)
            whole.append(raw)
            tails.append(tail)
        self._put(b"".join(whole), tails[-1].hash)
        self._tail = tails[-1]
        self._acknowledged = self._tail.size
        inode = self._disk.inode(self._fd)
        for before in tails[:-1]:
            offsets.note(self.places.offsets, inode, before.size, before.start)
        return [decode_line(raw[:-1]) for raw in whole]

    def _seal(self, pending: _Pending, before: Tail, batch: int | None) -> tuple[bytes, Tail]:
        """A draft as the line that follows `before`, and the tail it makes."""
        draft = pending.draft
        body = pending.body or prepare(draft.entry, self._clean, self.keep_blob)
        turn = before.turn if draft.turn is None else draft.turn
        moment = self._clock()
        id_ = next_id(moment, before.id, self._entropy)
        extra = body.extra if batch is None else b'%s,"batch":%d' % (body.extra, batch)
        raw, digest = seal(
            body.fields,
            seq=before.seq + 1,
            id=id_,
            session=str(self.places.key),
            ts=draft.ts or timestamp(moment),
            turn=turn,
            role=draft.entry.role,
            channel=draft.channel,
            prev=before.hash,
            parent=draft.parent,
            extra=extra,
        )
        size = before.size + len(raw)
        session = str(self.places.key)
        return raw, Tail(size, before.size, before.seq + 1, digest, id_, turn, session)

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
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self._disk.close(self._fd)
        self._fd = -1
        self._known = self._newest
        self._tail = Tail()
