"""Following the session folders of other programs: what changed is taken over, again and again.

Files grow, shrink, are replaced and end in half a line: a look that cannot read a file leaves it
for the next one. What was taken is remembered beside the sessions, so that a watch that was killed
goes on where it stood. Files that were there before the first watch are left alone until they
change; taking over old ones is what `mindstone import` is for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.config import Settings
from mindstone_tui.core.diagnostics import record
from mindstone_tui.core.disk import REAL, ensure_folder, read_regular, replace_file
from mindstone_tui.core.errors import MindstoneError, NotASession
from mindstone_tui.core.interchange.attach import is_attached
from mindstone_tui.core.interchange.discover import SessionFile, list_files, session_folders
from mindstone_tui.core.interchange.formats import FORMATS
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.session.live_import import LiveImports

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
    return is_attached(home) and state_file(home).exists()


def begin(home: Places, environ: Mapping[str, str]) -> None:
    """Remember what lies there now, so that only what changes from here on is taken over."""
    if state_file(home).exists():
        return
    files = {
        str(file.path): SeenFile(file.inode, file.size, int(file.changed * 1e9))
        for place in session_folders(environ)
        for file in list_files(place)
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


class FolderWatch:
    """Follows folders, and files that it is told of; one step at a time."""

    def __init__(
        self,
        home: Places,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home = home
        self._settings = settings
        self._environ = environ
        self._clock = clock
        self._live = LiveImports(home, settings, environ)
        self._known = _stored(home)
        self._active: dict[Path, _Active] = {}
        self._looked = self._kept = -_ALL_EVERY
        self._dirty = False
        for path, seen in self._known.files.items():
            if not seen.closed:
                self._active[Path(path)] = _Active(seen, settled=False)

    def begin(self) -> None:
        """Leave alone what lay there when somebody began, which may be since this was made."""
        self._known.files.update(_stored(self._home).files)

    def session_of(self, file: Path) -> SessionKey | None:
        """The session that a file is taken into, if anything was taken."""
        return self._live.of(file).key

    def step(self, *, folders: bool = True) -> list[TakenMessages]:
        """One look at whatever may have changed: in all folders, or what it was told of."""
        now = self._clock()
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
        active = self._active.setdefault(file, _Active(changed=self._clock()))
        return self._take(file, active, self._clock(), settled=settled)

    def end(self, file: Path) -> TakenMessages | None:
        """The program is done with a file: take the rest and close it."""
        return self._close(file, self._active.setdefault(file, _Active()))

    def keep(self) -> None:
        """Remember on disk what was taken, where somebody wanted folders followed."""
        self._dirty, self._kept = False, self._clock()
        if not state_file(self._home).exists():
            return  # nobody began: a file without what lay there would make all of it new
        with contextlib.suppress(MindstoneError, OSError):
            replace_file(state_file(self._home), msgspec.json.encode(self._known))

    def _look_everywhere(self, now: float) -> None:
        """Notice files that are new or other than they were."""
        for place in session_folders(self._environ):
            if place.program not in FORMATS:
                continue
            for file in list_files(place):
                known = self._known.files.get(str(file.path))
                if (known is None or _differs(known, file)) and file.path not in self._active:
                    self._active[file.path] = _Active(known, changed=now)

    def _tend(self, file: Path, now: float) -> TakenMessages | None:
        active = self._active[file]
        if now < active.retry:
            return None
        is_new = _stat(file)
        if is_new is None:
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
        is_new = _stat(file)
        if is_new is None:
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
            return TakenMessages(file, str(live.key), added) if added else None
        return None

    def _close(self, file: Path, active: _Active) -> TakenMessages | None:
        is_new = _stat(file)
        live = self._live.of(file)
        if is_new is None:
            self._drop(file)
            return None
        with self._forgiving(file, active, self._clock()):
            added = live.close()
            if added is None:
                active.retry = self._clock() + self._settings.attach.settle
                return None
            is_new.closed = True
            self._remember(file, is_new)
            self._live.forget(file)
            self._active.pop(file, None)
            return TakenMessages(file, str(live.key), added) if added else None
        return None

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


@contextlib.contextmanager
def only_watch(home: Places) -> Iterator[bool]:
    """True while this process is the one that follows folders; False where another does."""
    ensure_folder(home.state)
    fd = REAL.open(home.state / "watch.lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)


def _stored(home: Places) -> WatchState:
    try:
        return msgspec.json.decode(read_regular(state_file(home)), type=WatchState)
    except (OSError, msgspec.MsgspecError):
        return WatchState({})


def _stat(file: Path) -> SeenFile | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return SeenFile(about.st_ino, about.st_size, about.st_mtime_ns, closed=False)


def _same(one: SeenFile, other: SeenFile) -> bool:
    return (one.inode, one.size, one.changed) == (other.inode, other.size, other.changed)


def _differs(known: SeenFile, file: SessionFile) -> bool:
    moved = abs(known.changed / 1e9 - file.changed) > 0.001
    return known.inode != file.inode or known.size != file.size or moved
