"""Vectors that follow: how many are missing, who makes them, and leaving them to a worker."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec

from mindstone_tui.core.bounded_json import read_as
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.disk import ensure_folder, read_regular
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import PlaceError
from mindstone_tui.core.library.lease import take_lock
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.recall.embedding import EmbeddedModel
from mindstone_tui.core.recall.multilingual import open_multilingual
from mindstone_tui.core.recall.store import count_waiting

_MOST_COUNTED: Final = 50_000
_WORKER: Final = "mindstone_tui.core.library.vector_worker"


class VectorProgress(Part, omit_defaults=False):
    """What a home's worker is doing."""

    running: bool = False
    pid: int = 0
    made: int = 0
    """Vectors since it began."""
    pending: int = 0
    """Passages of the session it works on that are found by words only so far."""
    session: str = ""


def _written(path: Path) -> float:
    """When a file was last written; 0.0 if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def pending_in(index: Path) -> int:
    """Passages of an index that are found by words only so far, if they are not very many.

    Nothing is written.
    """
    if not index.is_file():  # SQLite would wait for ever for what a pipe has to say
        return 0
    try:
        database = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error:
        return 0
    try:
        found = database.execute("select value from facts where name = 'model'").fetchone()
        # Only the built-in embedder has another beside it for what it does not understand.
        is_ours = found is None or found[0] in ("", EmbeddedModel.name)
        languages = is_ours and open_multilingual() is not None
        every = count_waiting(languages=languages).replace("count(*)", "1")
        # A session is opened after this: of a million that wait, not all are counted.
        row = database.execute(f"select count(*) from ({every} limit {_MOST_COUNTED})").fetchone()
        return int(row[0]) if row else 0
    except apsw.Error:
        return 0
    finally:
        database.close()


def pending_everywhere(home: Places) -> int:
    """The same, for all sessions of a home."""
    return sum(pending_in(each.index) for each in home.sessions())


def progress_of(home: Places) -> VectorProgress:
    """What the home's worker is doing, if there is one."""
    if not lock_file(home).exists():
        return VectorProgress()
    try:
        with locked(home) as free:
            if free:
                return VectorProgress()
    except PlaceError:
        return VectorProgress()
    try:
        told = read_as(read_regular(progress_file(home)), VectorProgress)
    except (OSError, msgspec.MsgspecError):
        return VectorProgress(running=True)
    return msgspec.structs.replace(told, running=True)


def follow(
    home: Places, settings: Settings, environ: Mapping[str, str], sessions: Iterable[SessionPlaces]
) -> int:
    """Leave the vectors that these sessions and their agents lack to a worker.

    Returns its process, 0 when none is needed. If one works already, it takes this up, and the
    new one ends.
    """
    if not settings.recall.background or not any(_lacking(home, each) for each in sessions):
        return 0
    # Everything else is closed by `exec`: Python opens files so that no child inherits them.
    streams = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    command = [sys.executable, "-P", "-m", _WORKER, *map(str, home.own)]
    spawn = partial(os.posix_spawn, sys.executable, command, environ, file_actions=streams)
    try:
        return spawn(setsid=True)
    except NotImplementedError:  # no setsid here: a group of its own is what there is
        return spawn(setpgroup=0)
    except OSError:
        return 0


def _lacking(home: Places, session: SessionPlaces) -> bool:
    """Whether a session has vectors to be made, or its agent's files changed since their index."""
    agent = home.agent(session.key.agent)
    if pending_in(session.index) or pending_in(agent.index):
        return True
    files = (*agent.memory.glob("*_*.md"), agent.log, *agent.journals.glob("*.md"))
    return max(map(_written, files)) > _written(agent.index)


def lock_file(home: Places) -> Path:
    """Held by the home's worker; gone when the home is."""
    return home.state / "vectors.lock"


def progress_file(home: Places) -> Path:
    """Where the worker says how far it is."""
    return home.state / "vectors.json"


@contextlib.contextmanager
def locked(home: Places) -> Iterator[bool]:
    """True while the lock is ours, False when another has it; raises where there can be none."""
    ensure_folder(home.state)
    fd = take_lock(lock_file(home))
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)
