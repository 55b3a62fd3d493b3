"""Taking over what another program recorded: written, made findable, and given a window.

One session at a time, each under its lease, which is the server's as well where one keeps it, so
that nobody takes a turn in a session that is half imported.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import HistorySettings
from mindstone_tui.core.disk import ensure_folder, open_regular
from mindstone_tui.core.entries import IMPORTED, Line
from mindstone_tui.core.interchange.describe import Trust
from mindstone_tui.core.interchange.discover import keeps_its_own
from mindstone_tui.core.interchange.import_many import import_each
from mindstone_tui.core.interchange.import_session import ImportReport, import_file
from mindstone_tui.core.interchange.write_entries import Index
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall.catch_up import CatchUp, reading
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.session.find import Progress, bring_up_to_date
from mindstone_tui.core.session.import_window import Past, plan_imported_window
from mindstone_tui.core.session.lease import Lease, SharedLease
from mindstone_tui.core.session.profile import (
    keep_profile,
    read_profile,
    stored_profile,
    take_next,
)
from mindstone_tui.core.transcript import Transcript
from mindstone_tui.core.transcript.history_store import HistoryStore
from mindstone_tui.core.transcript.reader import with_blobs

_CHUNK: Final = 1 << 20
_REMEMBERED: Final = 8_000_000
"""Characters of texts that are remembered clean: those of a batch, and a few before it."""


class Cleaner:
    """Blacks out secrets, and remembers what it did of late.

    Whoever reads a file compares each message clean, and the transcript cleans it once more.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._redactor = Redactor(secrets_of(environ))
        self._known: dict[str, str] = {}
        self._room = _REMEMBERED

    def __call__(self, text: str) -> str:
        """The text without its secrets."""
        clean = self._known.get(text)
        if clean is None:
            clean = self._redactor.redact(text).text
            self._room -= len(text) + 1
            if self._room < 0:
                self._known.clear()
                self._room = _REMEMBERED
            self._known[text] = clean
        return clean


class Importer:
    """Imports files into sessions of their own, or into one that is named.

    They belong to the `project` if one is given, else to the folder that a file names, if the file
    lies where its program keeps its own.
    """

    def __init__(
        self,
        home: Places,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        origin: str = "auto",
        project: str = "",
        progress: Progress,
        on_busy: Callable[[SessionKey], None],
    ) -> None:
        self._home = home
        self._settings = settings
        self._origin = origin
        self._trust = Trust(believes=partial(keeps_its_own, environ), folder=project)
        self._progress = progress
        self._on_busy = on_busy
        self._embedder = open_embedder(settings.recall.embedder)
        self._clean = Cleaner(environ)
        self._lease: Lease | None = None
        self._uptake: _Uptake | None = None
        self.taken: list[SessionPlaces] = []
        """Sessions that were written to; words find all of them, and vectors can be made."""

    def take(self, file: Path, key: SessionKey | None, label: str) -> Iterator[ImportReport]:
        """Import one file, into one session or one for each conversation in it."""
        expected = _records_in(file)

        def progress(read: int, added: int) -> None:
            self._progress(label, read, expected)

        reports = self._into(file, key, progress) if key else self._each(file, progress)
        try:
            for report in reports:
                if self._uptake is not None:
                    self._finish(self._uptake, report)
                yield report
                self._give_back()
        finally:
            self._give_back()

    def _each(self, file: Path, progress: Callable[[int, int], None]) -> Iterator[ImportReport]:
        return import_each(
            file,
            self._open,
            format=self._origin,
            clean=self._clean,
            progress=progress,
            index=self._follow,
            trust=self._trust,
        )

    def _into(
        self, file: Path, key: SessionKey, progress: Callable[[int, int], None]
    ) -> Iterator[ImportReport]:
        with contextlib.closing(self._open(key)) as transcript:
            yield import_file(
                file,
                transcript,
                format=self._origin,
                clean=self._clean,
                progress=progress,
                index=self._follow(transcript),
                trust=self._trust,
            )

    def _open(self, key: SessionKey) -> Transcript:
        """The session to write to, with the right to do so; others wait, and so do we."""
        own = self._home.session(key)
        ensure_folder(own.folder)
        upstream = upstream_of(self._home, self._settings.history, key)
        if upstream is None:
            self._take(Lease(own))
            return Transcript(own, clean=self._clean, channel=IMPORTED)
        transcript = Transcript(own, clean=self._clean, channel=IMPORTED, upstream=upstream)
        seconds = self._settings.history.lease
        try:
            self._take(SharedLease(own, transcript, upstream.another(), seconds))
            transcript.look()
        except BaseException:
            transcript.close()
            raise
        return transcript

    def _take(self, lease: Lease) -> None:
        self._lease = lease
        if not lease.try_take():
            import asyncio  # seldom needed, and takes long to load

            asyncio.run(lease.take(wait=True, on_wait=lambda: self._on_busy(lease.key)))

    def _follow(self, transcript: Transcript) -> Index:
        """What takes in the lines of a session as they are written."""
        index = RecallIndex.open(transcript.places.index, self._embedder)
        self._uptake = _Uptake(transcript, index)
        return self._uptake.take

    def _finish(self, uptake: _Uptake, report: ImportReport) -> None:
        """Make it findable, then record which part of it is in the window."""
        own = uptake.transcript.places
        uptake.make_findable(self._progress)
        if report.added:
            plan_imported_window(uptake.transcript, self._settings, uptake.index, uptake.past)
        self.taken.append(own)
        uptake.keep_profile()
        if self._settings.history.search == "server":
            from mindstone_tui.core.session.shared_search import publish_quietly

            publish_quietly(own, self._settings)

    def _give_back(self) -> None:
        if self._uptake is not None:
            self._uptake.index.close()
            self._uptake = None
        if self._lease is not None:
            self._lease.close()
            self._lease = None


class _Uptake:
    """Takes in the lines of an import while they are at hand: for index, profile and window.

    Where somebody else wrote in between, the file is read in the end.
    """

    def __init__(self, transcript: Transcript, index: RecallIndex) -> None:
        self.transcript = transcript
        self.index = index
        self._newest = transcript.head.hash
        with transcript.history() as history:
            self._words = CatchUp(index, reading(history))
            self._profile = read_profile(transcript.places, stored_profile(transcript.places))
            self._unbroken = history.size == transcript.size
        self._past = Past()
        self._is_new = transcript.head.seq == 0

    @property
    def past(self) -> Past | None:
        """The whole history as the window needs to know it, if all of it was taken in here."""
        return self._past if self._is_new and self._unbroken else None

    def take(self, lines: Sequence[Line]) -> None:
        """Take in lines that were just written."""
        self._unbroken = self._unbroken and lines[0].prev == self._newest
        self._newest = lines[-1].hash
        if self._unbroken:
            for line in lines:
                whole = with_blobs(line, self.transcript.places)
                self._past.take(whole, self._words.take(whole))
                if self._profile is not None:
                    take_next(self._profile, line)

    def make_findable(self, progress: Progress) -> None:
        """Let words find everything that was said."""
        if self._unbroken:
            self._words.finish()
        else:
            bring_up_to_date(self.transcript.places, self.index, progress, wait=False)

    def keep_profile(self) -> None:
        """Keep what was learned of the session as a whole."""
        places = self.transcript.places
        profile = read_profile(places, self._profile if self._unbroken else stored_profile(places))
        if profile is not None:
            keep_profile(places, profile)


def upstream_of(home: Places, history: HistorySettings, key: SessionKey) -> HistoryStore | None:
    """The server that a session is written to; None for files."""
    if not history.address_for(key):
        return None
    from mindstone_tui.core.shared.copies import upstream_for

    return upstream_for(home, history, key)


def _records_in(file: Path) -> int:
    """How many records to expect; 0 where a file is one value."""
    if file.suffix != ".jsonl":
        return 0
    try:
        with os.fdopen(open_regular(file), "rb") as stream:
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            # `count` would take as long as all the rest of this.
            return sum(len(chunk) - len(chunk.replace(b"\n", b"")) for chunk in chunks)
    except OSError:
        return 0  # whoever reads it in earnest says why it cannot be read
