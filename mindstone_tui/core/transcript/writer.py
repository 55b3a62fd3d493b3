"""Appending to a transcript so that what was acknowledged is never lost and never rewritten.

One append, under the kernel's lock on the file: look whether the path still is this file; learn
the tail when somebody else wrote; set a torn tail aside; one write; check the count; sync. If the
disk refuses, the write is rolled back, the entry is kept in memory, `EntryNotSaved` is raised, and
every later append writes what is unsaved first. A failed sync is never tried again on the same
descriptor, because the kernel may already have dropped the pages it failed on.

With an `upstream`, history is kept there and the file is its copy (see `copy`); what cannot be kept
there is not saved, in the same way and with the same words.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui import __version__
from mindstone_tui.core import errors, paths
from mindstone_tui.core.disk import (
    REAL,
    Disk,
    ensure_folder,
    keep_blob,
    not_saved,
    replace_file,
    sync_young_folders,
)
from mindstone_tui.core.entries import Blob, Draft, Entry, Line, Malformed, decode_line
from mindstone_tui.core.entries.conversation import ForkPoint, SessionOpened
from mindstone_tui.core.entries.line import MAX_LINE, seal
from mindstone_tui.core.entries.quotes import LineOf, pointing
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.transcript import copy, encode, file, history_store, reader

_ENVELOPE: Final = 1 << 10


Holds = Callable[[], bool]


class _Pending(msgspec.Struct):
    """An entry that is not on disk yet, and its bytes once they are made."""

    draft: Draft
    body: encode.Body | None = None
    points: bool = False
    """Its bytes may lean on other lines of the file."""
    holds: Holds | None = None
    """What must be so of everything before it in the file; else it is never written."""
    dropped: bool = False


class Transcript:
    """A session's history, open for appending; several processes may hold one at a time."""

    longest_write = file.LONGEST_WRITE
    """Bytes that are written at once."""

    def __init__(
        self,
        places: paths.SessionPlaces,
        *,
        disk: Disk = REAL,
        clean: encode.Clean = str,
        clock: encode.Clock = encode.utc_now,
        entropy: encode.Entropy = os.urandom,
        channel: str = "cli",
        forked_from: ForkPoint | None = None,
        create: bool = True,
        upstream: history_store.HistoryStore | None = None,
        folder: str = "",
    ) -> None:
        self.places = places
        self.channel = channel
        self._disk = disk
        self.clean = clean
        """What every text goes through before it is written."""
        self._cleaned = ""
        """A long text that was cleaned ahead,"""
        self._kept: tuple[bytes, Blob] | None = None
        """and its bytes, where a blob has them already."""
        self._clock = clock
        self._entropy = entropy
        self._forked_from = forked_from
        self._folder = folder
        self._unsaved: list[_Pending] = []
        self._refused: list[_Pending] = []
        """What belonged to a turn that another machine has ended; it is never written."""
        self._attempt: list[Line] = []
        """What was written last, until it is certain that it was."""
        self._rescue_name = f"unsaved-{clock().strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"
        if create:
            ensure_folder(places.folder, disk)
        self._copy = copy.CopiedFile(places, disk, upstream) if upstream is not None else None
        self._ledger = self._copy or file.TranscriptFile(places, disk, create=create)
        try:
            self._settle()
        except errors.MindstoneError:
            if self._copy is not None:
                self._copy.close()
                self._copy.store.close()
            raise

    @property
    def unsaved(self) -> tuple[Draft, ...]:
        """Entries the disk refused; the next append writes them first."""
        return tuple(pending.draft for pending in self._unsaved)

    def clean_ahead(self, text: str) -> str:
        """A long text as it will be written; it is looked at and kept here, off the loop."""
        self._cleaned = self.clean(text)
        if self._copy is None and len(text) > MAX_LINE:
            with contextlib.suppress(errors.MindstoneError):  # whoever writes it is told
                data = encode.visible(self._cleaned).encode()
                self._kept = data, self.keep_blob(data)
                reader.blob_text(self.places.blobs, self._kept[1].sha256)  # it is asked for next
        return self._cleaned

    def _as_written(self, text: str) -> str:
        return text if text is self._cleaned else self.clean(text)

    @property
    def head(self) -> reader.Head:
        """The newest line this process knows of."""
        newest = self._ledger.newest
        return reader.Head(newest.seq, newest.hash)

    @property
    def size(self) -> int:
        """Where the newest line ends that this process knows of."""
        return self._ledger.newest.size

    @property
    def last_turn(self) -> int:
        """The turn of the newest line this process knows of, saved or not."""
        waiting = [pending.draft.turn for pending in self._unsaved if pending.draft.turn]
        return waiting[-1] if waiting else self._ledger.newest.turn

    @property
    def replacements(self) -> file.Replacements:
        """What other programs put in this file's place so far."""
        return self._ledger.replacements

    def append(
        self, entry: Entry, *, turn: int | None = None, ts: str = "", parent: str | None = None
    ) -> Line:
        """Write one entry; when this returns, it survives a power cut."""
        draft = Draft(entry=entry, turn=turn, channel=self.channel, ts=ts, parent=parent)
        return self.append_all([draft])[-1]

    def append_all(
        self, drafts: Sequence[Draft], past: LineOf | None = None, holds: Holds | None = None
    ) -> list[Line]:
        """Write several entries with as few writes and syncs as possible.

        Words that the `past` has already are not written again. What must hold of everything that
        stands before them in the file is looked at under its lock: of two who write on the same
        condition one does, and the other gets no lines. If this raises, what is not on disk is
        kept as unsaved; do not hand it in again.
        """
        stamped = (
            draft
            if draft.ts
            else msgspec.structs.replace(draft, ts=encode.timestamp(self._clock()))
            for draft in drafts
        )
        ours = [_Pending(draft, holds=holds) for draft in stamped]
        self._unsaved += ours
        lines = self.save(past)
        written = sum(not pending.dropped for pending in ours)
        return lines[len(lines) - written :]

    def _drop_what_does_not_hold(self) -> None:
        for pending in self._unsaved:
            pending.dropped = pending.holds is not None and not pending.holds()
        self._unsaved = [pending for pending in self._unsaved if not pending.dropped]

    def save(self, past: LineOf | None = None) -> list[Line]:
        """Write whatever is unsaved; raises `EntryNotSaved`, and then the rest still is."""
        if not self._unsaved:
            return []
        self._prepare_unsaved(past)
        lines: list[Line] = []
        try:
            with self._ledger.locked() as news:
                if news:  # what was pointed to may not be in this file
                    self._prepare_anew()
                self._record(news)
                lines += self._kept_after_all()
                self._drop_what_does_not_hold()
                while self._unsaved:
                    batch = self._next_batch()
                    try:
                        lines += self._write(batch)
                    except errors.Overtaken:
                        self._catch_up()
                        self._drop_what_does_not_hold()
                    else:
                        del self._unsaved[: len(batch)]
        except OSError as error:
            self._ledger.poison()
            raise not_saved(self.places.transcript, error) from error
        except errors.HistoryAway as error:
            raise _not_kept(error) from error
        except errors.LeaseLost:
            self._refused += self._unsaved
            self._unsaved.clear()
            raise
        return lines

    def look(self, *, fetch: bool = True) -> None:
        """Learn what other processes appended since; a torn end is set aside.

        Without `fetch` nobody upstream is asked.
        """
        try:
            self._settle(fetch=fetch)
        except errors.HistoryAway as error:
            raise _not_kept(error) from error

    def hold(self, grant: history_store.Grant | None) -> None:
        """Write under a right to a turn from now on, or under none."""
        if self._copy is not None:
            self._copy.grant = grant

    def _catch_up(self) -> None:
        if self._copy is not None:
            self._copy.catch_up()

    def _kept_after_all(self) -> list[Line]:
        """What was written last, if the connection broke and it turns out to have been kept."""
        if self._copy is None or not self._attempt:
            return []
        kept = self._attempt if self._copy.kept() else []
        self._attempt = []
        del self._unsaved[: len(kept)]
        return kept

    def rescue(self, folder: Path, returned: Sequence[Entry] = ()) -> Path | None:
        """Write what is unsaved somewhere else, and what was never taken in; None if nothing is.

        One file for as long as this is open: it is written anew each time, and removed when
        everything in it is on disk after all.
        """
        path = folder / self._rescue_name
        if not self._unsaved and not self._refused and not returned:
            path.unlink(missing_ok=True)
            return None

        def keep(data: bytes) -> Blob:
            return Blob(sha256=keep_blob(folder / "blobs", data), size=len(data))

        lines = []
        own, now = str(self.places.key), encode.timestamp(self._clock())
        drafts = [pending.draft for pending in (*self._refused, *self._unsaved)]
        drafts += [Draft(entry=one, turn=None, channel=self.channel, ts=now) for one in returned]
        for draft in drafts:
            body = encode.prepare(draft.entry, self._as_written, keep)
            place = msgspec.json.encode({"session": own, "ts": draft.ts, "turn": draft.turn})
            lines.append(place[:-1] + b"," + body.fields + body.extra + b"}\n")
        replace_file(path, b"".join(lines))
        return path

    def keep_blob(self, data: bytes) -> Blob:
        """Store bytes beside the transcript, durably, before a line names them."""
        if self._kept is not None and self._kept[0] == data:
            (_, ahead), self._kept = self._kept, None
            return ahead
        kept = Blob(sha256=keep_blob(self.places.blobs, data, self._disk), size=len(data))
        if self._copy is not None:
            try:
                self._copy.keep_blob(data)
            except errors.HistoryAway as error:
                raise _not_kept(error) from error
        return kept

    def history(self) -> reader.History:
        """A reader of the same file."""
        return reader.History(self.places, may_store_offsets=True)

    def close(self) -> None:
        """Give the file back; nothing is lost that was acknowledged."""
        self._ledger.close()
        if self._copy is not None:
            self._copy.store.close()

    def _settle(self, *, fetch: bool = True) -> None:
        """Know the tail; write a new session's header, clean up after a crash in an old one."""
        try:
            with self._ledger.locked() as news:
                if fetch:
                    self._catch_up()
                self._record(news)
                if self._ledger.tail.seq <= 1:
                    sync_young_folders(self.places.folder, self._disk)
        except OSError as error:
            self._ledger.poison()
            raise not_saved(self.places.transcript, error) from error
        except errors.MindstoneError:
            self._ledger.poison()
            raise

    def _record(self, news: Sequence[Entry]) -> None:
        """Write down what happened to the file itself, after a header if there is none yet."""
        tail = self._ledger.tail
        if entries := [*([self._header()] if tail.seq < 0 else []), *news]:
            try:
                self._write(
                    [
                        _Pending(Draft(entry=entry, turn=tail.turn, channel=self.channel))
                        for entry in entries
                    ]
                )
            except errors.Overtaken:
                # Another machine began the session in this very moment, with a header of its own.
                self._catch_up()
            finally:
                self._attempt = []

    def _header(self) -> SessionOpened:
        return SessionOpened(
            agent=self.places.key.agent,
            main=self.places.key.main,
            program=f"mindstone {__version__}",
            salt=self._entropy(16).hex(),
            forked_from=self._forked_from,
            folder=self._folder,
        )

    def _prepare_unsaved(self, past: LineOf | None) -> None:
        """Make the bytes of what is new; blobs are on disk before the lock is taken."""
        session = str(self.places.key)
        point = None if past is None else (lambda entry: pointing(entry, session, past))
        for pending in [pending for pending in self._unsaved if pending.body is None]:
            pending.points = point is not None
            try:
                pending.body = encode.prepare(
                    pending.draft.entry, self._as_written, self.keep_blob, point
                )
            except errors.TranscriptError as error:
                if not isinstance(error, errors.EntryNotSaved):
                    # It will never fit, and must not stand in the way of those after it.
                    self._unsaved.remove(pending)
                raise

    def _prepare_anew(self) -> None:
        """Let entries that are not on disk yet say everything themselves."""
        for pending in self._unsaved:
            entry = pending.draft.entry
            if isinstance(entry, PromptPlanned) and entry.like is not None:
                entry = msgspec.structs.replace(entry, like=None)
                pending.draft = msgspec.structs.replace(pending.draft, entry=entry)
            elif not pending.points:
                continue
            pending.points = False
            pending.body = encode.prepare(entry, self._as_written, self.keep_blob)

    def _next_batch(self) -> list[_Pending]:
        """As much of what is unsaved as one write may hold."""
        room = self.longest_write
        batch: list[_Pending] = []
        for pending in self._unsaved:
            room -= _ENVELOPE + (len(pending.body.fields) if pending.body else 0)
            if batch and room < 0:
                break
            batch.append(pending)
        return batch

    def _write(self, batch: Sequence[_Pending]) -> list[Line]:
        """One write and one sync for all of them, or nothing."""
        tails = [self._ledger.tail]
        lines: list[Line] = []
        first = tails[0].seq + 1 if len(batch) > 1 else None
        moment = self._clock()
        ids = encode.next_ids(moment, tails[0].id, self._entropy)
        for pending, name in zip(batch, ids, strict=False):
            raw, tail = self._seal(pending, tails[-1], first, name, moment)
            lines.append(self._read_back(raw, pending))
            tails.append(tail)
        self._attempt = lines
        self._ledger.put(b"".join(line.raw + b"\n" for line in lines), tails)
        self._attempt = []
        return lines

    def _read_back(self, raw: bytes, pending: _Pending) -> Line:
        """The line as every reader will see it; one that none could read is never written."""
        try:
            line = decode_line(raw[:-1])
        except Malformed as error:
            self._unsaved = [other for other in self._unsaved if other is not pending]
            raise errors.TranscriptError(
                f"A {pending.draft.entry.kind} entry could not be read back: {error}.",
                "This is a bug in the program; the entry was not written.",
            ) from error
        if isinstance(line.entry, PromptPlanned) and line.entry.leans:
            # What it leaves to an earlier plan is at hand: nobody has to look it up.
            return msgspec.structs.replace(line, entry=pending.draft.entry)
        return line

    def _seal(
        self, pending: _Pending, before: file.Tail, batch: int | None, name: str, moment: datetime
    ) -> tuple[bytes, file.Tail]:
        """A draft as the line that follows `before`, and the tail it makes."""
        draft = pending.draft
        body = pending.body or encode.prepare(draft.entry, self._as_written, self.keep_blob)
        turn = before.turn if draft.turn is None else draft.turn
        session = str(self.places.key)
        raw, digest = seal(
            body.fields,
            seq=before.seq + 1,
            id=name,
            session=session,
            ts=draft.ts or encode.timestamp(moment),
            turn=turn,
            role=draft.entry.role,
            channel=draft.channel,
            prev=before.hash,
            parent=draft.parent,
            extra=body.extra if batch is None else b'%b,"batch":%d' % (body.extra, batch),
        )
        size = before.size + len(raw)
        return raw, file.Tail(size, before.size, before.seq + 1, digest, name, turn, session)


def _not_kept(error: errors.HistoryAway) -> errors.EntryNotSaved:
    return errors.EntryNotSaved(
        f"NOT SAVED: {error.what}",
        "What is unsaved is kept, and written first once the server is back.",
    )
