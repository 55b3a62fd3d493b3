"""Following the session folders of other programs: what changed is taken over, again and again.

Files grow, shrink, are replaced and end in half a line: a look that cannot read a file leaves it
for the next one. What was taken is remembered beside the sessions, so that a watch that was killed
goes on where it stood. Files that were there before the first watch are left alone until they
change; taking over old ones is what `mindstone import` is for.
"""

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import IO, Final

import msgspec

from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.diagnostics import note, record
from mindstone_tui.core.disk import REAL, ensure_folder, read_stored, replace_file, status_of
from mindstone_tui.core.entries import IMPORTED
from mindstone_tui.core.errors import MindstoneError, NotASession
from mindstone_tui.core.interchange import attach, discover, import_session
from mindstone_tui.core.interchange.describe import Trust
from mindstone_tui.core.interchange.formats import Format, format_of, formats
from mindstone_tui.core.interchange.read_bytes import open_file
from mindstone_tui.core.interchange.write_entries import ImportedBefore
from mindstone_tui.core.library import find, profile, raw_copy, take_over
from mindstone_tui.core.library.lease import Lease, only_one
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.patterns import pattern_of
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
    """What is known after the lines that are new and whole; those that tell nothing cost little."""
    read, first, context = known.read, known.first, known.context
    prompts = deque(known.prompts, maxlen=_BACK)
    telling = re.compile(prompt.pattern + b"|" + _CONTEXT.pattern)
    block, left_out = b"", 0
    while more := stream.read(_CHUNK):
        block += more
        end = block.rfind(b"\n") + 1
        if not end:  # a very long line: its beginning says what it is
            left_out += max(len(block) - _CHUNK, 0)
            block = block[:_CHUNK]
            continue
        at = 0
        if not first and not left_out:
            at = block.find(b"\n") + 1
            first = block[:at]
        while (found := telling.search(block, at, end)) is not None:
            start = block.rfind(b"\n", at, found.start()) + 1 or at
            at = block.find(b"\n", found.start()) + 1
            line, is_cut = block[start:at], left_out and not start
            if _CONTEXT.search(line) and not is_cut:
                context = line
            elif prompt.search(line) and not _NO_PROMPT.search(line):
                prompts.append((read + start + left_out * (start > 0), context))
        read += end + left_out
        block, left_out = block[end:], 0
    return _Known(known.inode, known.head, read, first, context, tuple(prompts))


class LiveImport(msgspec.Struct, eq=False):
    """One file, and the session that is kept current with it."""

    _home: Places
    _settings: Settings
    _environ: Mapping[str, str]
    file: Path
    _clean: take_over.Cleaner
    folder: str = ""
    """Where the program runs, if it said so; not every file does."""
    key: SessionKey | None = None
    """The session; None while nobody has said anything."""
    _reader: Format | None = None
    _growing: GrowingFile | None = None
    _before: ImportedBefore | None = None
    _described: bool = False

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
        if not (start := self._growing.look()) or self._before is None:
            added = self._take(self._reader, self.file, settled=settled, whole=True)
        else:
            with self._growing.cut(start) as rest:
                added = self._take(self._reader, rest, settled=settled, whole=False)
        if added is not None:
            self._growing.was_taken()
        return added

    @property
    def shared(self) -> bool:
        """Whether the file holds more than one session, as a database does."""
        return self._reader is None or self._reader.many

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
        importer = take_over.Importer(
            self._home, self._settings, self._environ, project=self.folder
        )
        for report in importer.take(self.file, None, ""):
            added += report.added
            if report.session:
                self.key = SessionKey.parse(report.session)
        return added

    def _take(self, reader: Format, path: Path, *, settled: bool, whole: bool) -> int | None:
        if (found := import_session.only_conversation(reader, path)) is None:
            return 0
        began, records = found
        # Once known, the session stays: a file that was cut may say less of itself.
        key = self.key or import_session.key_for(reader, self.file, began, "default")
        own = self._home.session(key)
        ensure_folder(own.folder)
        lease = Lease(own)
        if not lease.try_take():
            return None
        try:
            upstream = take_over.upstream_of(self._home, self._settings.history, key)
            transcript = Transcript(own, clean=self._clean, channel=IMPORTED, upstream=upstream)
            with contextlib.closing(transcript):
                # Until it is on disk, what is learned on the way counts for nothing.
                before, self._before = self._before, None
                known = transcript.head.seq
                if before is None or before.learned > transcript.head.seq:
                    before = ImportedBefore(transcript)
                else:
                    before.learn(transcript)
                added = import_session.import_so_far(
                    records,
                    transcript,
                    before,
                    clean=self._clean,
                    settled=settled,
                    describe=partial(
                        import_session.described_by,
                        program=reader.name,
                        agent=key.agent,
                        file=self.file,
                        trust=self._trust(),
                    )
                    if whole and not self._described
                    else None,
                    source=(self.file, reader.name),
                    whole=whole,
                )
                grew = transcript.head.seq > known
                self._before = before
        finally:
            lease.give_back()
        self.key = key
        self._described = self._described or (whole and added > 0)
        if grew:
            self._make_findable()
        return added

    def _trust(self) -> Trust:
        return Trust(believes=partial(discover.keeps_its_own, self._environ), folder=self.folder)

    def _make_findable(self) -> None:
        assert self.key is not None
        own = self._home.session(self.key)
        find.index_session(own, self._settings, wait=False)
        profile.profile_of(own)


class LiveImports:
    """The files that are being followed, each with what is known of it."""

    def __init__(self, home: Places, settings: Settings, environ: Mapping[str, str]) -> None:
        self._home = home
        self._settings = settings
        self._environ = environ
        self._clean = take_over.Cleaner(environ)
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


_ALL_EVERY: Final = 2.0
"""Seconds between two looks at all folders."""
_KEEP_EVERY: Final = 2.0
_AFTER_A_FAULT: Final = 5.0


class SeenFile(msgspec.Struct, array_like=True):
    """A file as it was when it was last dealt with."""

    inode: int
    size: int
    changed: int
    """Nanoseconds since 1970."""
    closed: bool = True
    """Whether its last exchange was ended; else more is expected."""


class WatchState(msgspec.Struct):
    """What a watch remembers."""

    files: dict[str, SeenFile] = {}


def state_file(home: Places) -> Path:
    """There once somebody attached a program or watched; says what was seen."""
    return home.state / "watched.json"


def is_wanted(home: Places) -> bool:
    """Whether the resident is to follow folders: while a program is attached, and only then."""
    return attach.is_attached(home) and state_file(home).exists()


def begin(home: Places, environ: Mapping[str, str]) -> None:
    """Remember what lies there now, so that only what changes from here on is taken over."""
    if state_file(home).exists():
        return
    files = {
        str(file.path): SeenFile(file.inode, file.size, int(file.changed * 1e9))
        for place in discover.session_folders(environ)
        for file in discover.list_files(place)
    }
    ensure_folder(home.state)
    replace_file(state_file(home), msgspec.json.encode(WatchState(files)))


def end_watching(home: Places) -> None:
    """Nobody is attached any more: what is written meanwhile is left alone by the next `begin`."""
    state_file(home).unlink(missing_ok=True)


class TakenMessages(msgspec.Struct, frozen=True):
    """What one look at a file brought."""

    file: Path
    session: str
    added: int


class _Active(msgspec.Struct):
    """A file that changed a short while ago."""

    seen: SeenFile | None = None
    changed: float = 0.0
    """When a change was last noticed, by the watch's own clock."""
    settled: bool = True
    retry: float = 0.0


class FolderWatch(msgspec.Struct, dict=True, eq=False):
    """Follows folders, and files that it is told of; one step at a time."""

    _home: Places
    _settings: Settings
    _environ: Mapping[str, str]
    clock: Callable[[], float] = time.monotonic
    _active: dict[Path, _Active] = {}
    _looked: float = -_ALL_EVERY
    _kept: float = -_ALL_EVERY
    _dirty: bool = False

    def __post_init__(self) -> None:
        self._live = LiveImports(self._home, self._settings, self._environ)
        self._known = _stored(self._home)
        for path, seen in self._known.files.items():
            if not seen.closed:
                self._active[Path(path)] = _Active(seen, settled=False)

    def begin(self) -> None:
        """Leave alone what lay there when somebody began, which may be since this was made."""
        self._known.files.update(_stored(self._home).files)

    def step(self, *, folders: bool = True) -> list[TakenMessages]:
        """One look at whatever may have changed: in all folders, or what it was told of."""
        now = self.clock()
        if folders and now - self._looked >= _ALL_EVERY:
            self._looked = now
            self._look_everywhere(now)
        taken = [each for file in list(self._active) if (each := self._tend(file, now))]
        if self._dirty and now - self._kept >= _KEEP_EVERY:
            self.keep()
        return taken

    def take(self, file: Path, *, settled: bool, folder: str = "") -> TakenMessages | None:
        """Look at one file now, because a program that runs in this folder says that it changed."""
        self._live.of(file).folder = folder
        active = self._active.setdefault(file, _Active(changed=self.clock()))
        return self._take(file, active, self.clock(), settled=settled)

    def end(self, file: Path) -> TakenMessages | None:
        """The program is done with a file: take the rest and close it."""
        return self._close(file, self._active.setdefault(file, _Active()))

    def keep(self) -> None:
        """Remember on disk what was taken, where somebody wanted folders followed."""
        self._dirty, self._kept = False, self.clock()
        if not state_file(self._home).exists():
            return  # nobody began: a file without what lay there would make all of it new
        with contextlib.suppress(MindstoneError, OSError):
            replace_file(state_file(self._home), msgspec.json.encode(self._known))

    def _look_everywhere(self, now: float) -> None:
        """Notice files that are new or other than they were."""
        for place in discover.session_folders(self._environ):
            if place.program not in formats():
                continue
            for file in discover.list_files(place):
                known = self._known.files.get(str(file.path))
                if (known is None or _differs(known, file)) and file.path not in self._active:
                    self._active[file.path] = _Active(known, changed=now)

    def _tend(self, file: Path, now: float) -> TakenMessages | None:
        active = self._active[file]
        if now < active.retry:
            return None
        if (is_new := _stat(file)) is None:
            # Told of before it was written: some programs run their hooks first.
            if active.seen is not None or now - active.changed >= self._settings.attach.idle:
                self._drop(file)
            return None
        if active.seen is None or not _same(active.seen, is_new):
            return self._take(file, active, now, settled=False)
        if not active.settled and now - active.changed >= self._settings.attach.settle:
            return self._take(file, active, now, settled=True)
        if active.settled and now - active.changed >= self._settings.attach.idle:
            return self._close(file, active)
        return None

    def _take(
        self, file: Path, active: _Active, now: float, *, settled: bool
    ) -> TakenMessages | None:
        if (is_new := _stat(file)) is None:
            return None
        live = self._live.of(file)
        with self._forgiving(file, active, now):
            added = live.catch_up(settled=settled)
            if added is None:  # somebody takes a turn there: the next look will do
                active.retry = now + self._settings.attach.settle
                return None
            if active.seen is None or not _same(active.seen, is_new):
                active.changed = now
            active.seen, active.settled = is_new, settled
            self._remember(file, is_new)
            self._keep_raw(file, live)
            return TakenMessages(file, str(live.key), added) if added else None
        return None

    def _close(self, file: Path, active: _Active) -> TakenMessages | None:
        is_new = _stat(file)
        live = self._live.of(file)
        if is_new is None:
            self._drop(file)
            return None
        with self._forgiving(file, active, self.clock()):
            if (added := live.close()) is None:
                active.retry = self.clock() + self._settings.attach.settle
                return None
            is_new.closed = True
            self._remember(file, is_new)
            self._keep_raw(file, live)
            self._live.forget(file)
            self._active.pop(file, None)
            return TakenMessages(file, str(live.key), added) if added else None
        return None

    def _keep_raw(self, file: Path, live: LiveImport) -> None:
        """Keep the bytes as well, where that was said yes to and the file is one session."""
        wish = load(self._home, self._environ).settings.attach  # said while a resident may run
        if not wish.keep_raw or live.key is None or live.shared:
            return
        copy = raw_copy.RawCopy(self._home.session(live.key))
        full = copy.source is not None and copy.source.full
        if not full and not copy.take(file, wish.raw_bytes):
            note(f"The raw copy of {live.key} is full (attach.raw_bytes).", self._home.log)

    @contextlib.contextmanager
    def _forgiving(self, file: Path, active: _Active, now: float) -> Iterator[None]:
        """A file that cannot be taken now is left for later; one that is no session, for good."""
        try:
            yield
        except NotASession:
            active.retry = now + _AFTER_A_FAULT
            if now - active.changed > self._settings.attach.idle and (seen := _stat(file)):
                seen.closed = True
                self._remember(file, seen)
                self._drop(file)
        except (MindstoneError, OSError) as error:
            active.retry = now + _AFTER_A_FAULT
            record(error, self._home.log)

    def _remember(self, file: Path, seen: SeenFile) -> None:
        self._known.files[str(file)] = seen
        self._dirty = True

    def _drop(self, file: Path) -> None:
        self._active.pop(file, None)
        self._live.forget(file)


def only_watch(home: Places) -> AbstractContextManager[bool]:
    """True while this process is the one that follows folders; False where another does."""
    return only_one(home.state, "watch.lock")


def _stored(home: Places) -> WatchState:
    return read_stored(state_file(home), WatchState) or WatchState({})


def _stat(file: Path) -> SeenFile | None:
    about = status_of(file)
    return about and SeenFile(about.st_ino, about.st_size, about.st_mtime_ns, closed=False)


def _same(one: SeenFile, other: SeenFile) -> bool:
    return (one.inode, one.size, one.changed) == (other.inode, other.size, other.changed)


def _differs(known: SeenFile, file: discover.SessionFile) -> bool:
    moved = abs(known.changed / 1e9 - file.changed) > 0.001
    return known.inode != file.inode or known.size != file.size or moved
