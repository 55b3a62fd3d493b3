"""A file that another program is writing, taken over as it grows.

Each look takes what is new and leaves the exchange at the end open, so that an answer joins its
question however often the file is looked at. Everything can be repeated: a look that was cut off
anywhere, by anything, is completed by the next one, and nothing is written twice.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Final

import msgspec

from mindstone_tui.core.config import Settings
from mindstone_tui.core.disk import REAL, ensure_folder
from mindstone_tui.core.entries import IMPORTED
from mindstone_tui.core.interchange.formats import Format, format_of
from mindstone_tui.core.interchange.formats.base import About
from mindstone_tui.core.interchange.import_many import key_for, only_conversation
from mindstone_tui.core.interchange.import_session import import_so_far
from mindstone_tui.core.interchange.read_bytes import open_file
from mindstone_tui.core.interchange.write_entries import ImportedBefore
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.session.find import bring_up_to_date
from mindstone_tui.core.session.lease import Lease
from mindstone_tui.core.session.profile import profile_of
from mindstone_tui.core.session.take_over import Cleaner, Importer, upstream_of
from mindstone_tui.core.transcript import Transcript

_CHUNK: Final = 1 << 20
_HEAD: Final = 1 << 12
"""Bytes at the beginning by which a file is known again."""
_SMALL: Final = 1 << 19
"""A file up to this size is read whole every time."""
_BACK: Final = 3
"""Prompts that are read again, for what came late."""
_MOST_OPEN: Final = 64

_PROMPT: Final = {
    "claude-code": pattern_of(rb'"type"\s*:\s*"user"'),
    "codex": pattern_of(rb'"role"\s*:\s*"user"'),
}
"""What a line with a prompt has; other formats are read from their beginning."""
_NO_PROMPT: Final = pattern_of(rb'"tool_use_id"|"isMeta"\s*:\s*true')
_CONTEXT: Final = pattern_of(rb'"type"\s*:\s*"turn_context"')


class _Known(msgspec.Struct, frozen=True):
    """What is known of a file of lines up to some place."""

    inode: int = 0
    head: bytes = b""
    """How it begins."""
    read: int = 0
    first: bytes = b""
    """Its first line, which often says whose the rest is."""
    context: bytes = b""
    """The newest line with settings that hold for what follows."""
    prompts: tuple[tuple[int, bytes], ...] = ()
    """Where the newest prompts begin, each with the settings that held there."""


class GrowingFile:
    """A file of lines of which only the end has to be read again."""

    def __init__(self, path: Path, program: str) -> None:
        self._path = path
        self._prompt = _PROMPT.get(program)
        self._known = self._next = _Known()

    def look(self) -> int:
        """Where to read from: a prompt before what is new; 0 where everything must be read."""
        with open_file(self._path) as stream:
            about = os.fstat(stream.fileno())
            known = self._known
            head = stream.read(len(known.head) or _HEAD)
            same = about.st_ino == known.inode and about.st_size >= known.read
            if not same or head[: len(known.head)] != known.head:
                self._known = known = _Known(inode=about.st_ino, head=head)
            if self._prompt is not None:
                stream.seek(known.read)
                self._next = _looked_further(known, stream, self._prompt)
        full = len(known.prompts) == _BACK and known.read > _SMALL
        return known.prompts[0][0] if full else 0

    def was_taken(self) -> None:
        """What the last look saw is in the transcript."""
        self._known = self._next

    @contextlib.contextmanager
    def cut(self, start: int) -> Iterator[Path]:
        """The file without what stands before a prompt: its first line, the settings, and on.

        Under its own name in a folder of its own, because names carry dates and ids.
        """
        folder = Path(tempfile.mkdtemp(prefix="mindstone-"))
        try:
            copy = folder / self._path.name
            context = next((held for at, held in self._known.prompts if at == start), b"")
            fd = REAL.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(fd, "wb") as out, open_file(self._path) as stream:
                out.write(self._known.first + context)
                stream.seek(start)
                shutil.copyfileobj(stream, out, _CHUNK)
            yield copy
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _looked_further(known: _Known, stream: IO[bytes], prompt: re.Pattern[bytes]) -> _Known:
    """What is known after the lines that are new and whole."""
    read, first, context = known.read, known.first, known.context
    prompts = deque(known.prompts, maxlen=_BACK)
    while line := stream.readline(_CHUNK):
        size = len(line)
        while not line.endswith(b"\n") and (more := stream.readline(_CHUNK)):
            size += len(more)  # a very long line: its beginning says what it is
            line = line[:_CHUNK] + more[-1:]
        if not line.endswith(b"\n"):
            break
        if not first and size <= _CHUNK:
            first = line
        elif size <= _CHUNK and _CONTEXT.search(line):
            context = line
        elif prompt.search(line) and not _NO_PROMPT.search(line):
            prompts.append((read, context))
        read += size
    return _Known(known.inode, known.head, read, first, context, tuple(prompts))


class LiveImport:
    """One file, and the session that is kept current with it."""

    def __init__(
        self,
        home: Places,
        settings: Settings,
        environ: Mapping[str, str],
        file: Path,
        clean: Cleaner,
    ) -> None:
        self.file = file
        self.folder = ""
        """Where the program runs, if it said so; not every file does."""
        self.key: SessionKey | None = None
        """The session; None while nobody has said anything."""
        self._home = home
        self._settings = settings
        self._environ = environ
        self._clean = clean
        self._reader: Format | None = None
        self._growing: GrowingFile | None = None
        self._before: ImportedBefore | None = None
        self._described = False

    def catch_up(self, *, settled: bool) -> int | None:
        """Take over what is new; how many messages, or None when the session is busy.

        The newest answer is only taken if it is settled: it may still get more pieces.
        """
        if self._reader is None:
            self._reader = format_of(self.file)
            self._growing = GrowingFile(self.file, self._reader.name)
        if self._reader.many:
            return self.close()
        assert self._growing is not None
        start = self._growing.look()
        if not start or self._before is None:
            added = self._take(self._reader, self.file, settled=settled, whole=True)
        else:
            with self._growing.cut(start) as rest:
                added = self._take(self._reader, rest, settled=settled, whole=False)
        if added is not None:
            self._growing.was_taken()
        return added

    def close(self) -> int | None:
        """End the open exchange, and write down that all of the file was taken over.

        None when the session is busy: somebody's turn is not waited for.
        """
        if self.key is not None:
            lease = Lease(self._home.session(self.key))
            if not lease.try_take():
                return None
            lease.give_back()
        added = 0
        importer = Importer(
            self._home,
            self._settings,
            self._environ,
            progress=lambda what, done, goal: None,
            on_busy=lambda key: None,
        )
        for report in importer.take(self.file, None, ""):
            added += report.added
            if report.session:
                self.key = SessionKey.parse(report.session)
        return added

    def _take(self, reader: Format, path: Path, *, settled: bool, whole: bool) -> int | None:
        found = only_conversation(reader, path)
        if found is None:
            return 0
        began, records = found
        if self.folder:
            records = chain([About(folder=self.folder)], records)
        # Once known, the session stays: a file that was cut may say less of itself.
        key = self.key or key_for(reader, self.file, began, "default")
        own = self._home.session(key)
        ensure_folder(own.folder)
        lease = Lease(own)
        if not lease.try_take():
            return None
        try:
            upstream = upstream_of(self._home, self._settings.history, key)
            transcript = Transcript(own, clean=self._clean, channel=IMPORTED, upstream=upstream)
            with contextlib.closing(transcript):
                if self._before is None or self._before.learned > transcript.head.seq:
                    self._before = ImportedBefore(transcript)
                else:
                    self._before.learn(transcript)
                added = import_so_far(
                    records,
                    transcript,
                    self._before,
                    clean=self._clean,
                    settled=settled,
                    describe_as=reader.name if whole and not self._described else "",
                )
        finally:
            lease.give_back()
        self.key = key
        if added:
            self._described = self._described or whole
            self._make_findable()
        return added

    def _make_findable(self) -> None:
        assert self.key is not None
        own = self._home.session(self.key)
        index = RecallIndex.open(own.index, open_embedder(self._settings.recall.embedder))
        try:
            bring_up_to_date(own, index, lambda what, done, goal: None, wait=False)
        finally:
            index.close()
        profile_of(own)


class LiveImports:
    """The files that are being followed, each with what is known of it."""

    def __init__(self, home: Places, settings: Settings, environ: Mapping[str, str]) -> None:
        self._home = home
        self._settings = settings
        self._environ = environ
        self._clean = Cleaner(environ)
        self._open: dict[Path, LiveImport] = {}

    def of(self, file: Path) -> LiveImport:
        """The one for this file."""
        known = self._open.pop(file, None) or LiveImport(
            self._home, self._settings, self._environ, file, self._clean
        )
        self._open[file] = known
        while len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        return known

    def forget(self, file: Path) -> None:
        """It is closed; if it grows again, it is read from its beginning."""
        self._open.pop(file, None)
