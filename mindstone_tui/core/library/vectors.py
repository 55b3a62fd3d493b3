"""Vectors that follow: how many are missing, who makes them, and leaving them to a worker."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import apsw
import msgspec

from mindstone_tui.core import disk, entries, errors
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.library import agent_files, lease
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.recall import embedding, multilingual, store

T = TypeVar("T")

_MOST_COUNTED: Final = 50_000
_READ_OF: Final = (
    "select value from facts join owners on number = facts.owner"
    " where owners.name = ? and facts.name = 'hash'"
)
"""The mark of what was read of an agent's files."""
_WORKER: Final = "mindstone_tui.core.library.vector_worker"


class VectorProgress(entries.Part, omit_defaults=False):
    """What a home's worker is doing."""

    running: bool = False
    pid: int = 0
    made: int = 0
    """Vectors since it began."""
    pending: int = 0
    """Passages of the session it works on that are found by words only so far."""
    session: str = ""


def pending_in(session: SessionPlaces) -> int:
    """Passages of a session that are found by words only so far, if they are not very many."""
    return _pending(session.library).get(str(session.key), 0)


def pending_everywhere(home: Places) -> dict[str, int]:
    """The same for everyone in the library who has such passages."""
    return _pending(home.library)


def _pending(library: Path) -> dict[str, int]:
    """By owner, how many passages wait."""

    def count(database: apsw.Connection) -> dict[str, int]:
        found = database.execute("select value from facts where name = 'model'").fetchone()
        # Only the built-in embedder has another beside it for what it does not understand.
        is_ours = found is None or found[0] in ("", embedding.EmbeddedModel.name)
        languages = is_ours and multilingual.open_multilingual() is not None
        # A session is opened after this: of a million that wait, not all are counted.
        return dict(database.execute(store.waiting_owners(languages=languages, most=_MOST_COUNTED)))

    return _look(library, count, {})


def _look(library: Path, look: Callable[[apsw.Connection], T], otherwise: T) -> T:
    """What a look into the library says; nothing is written, and without one nothing is said."""
    if not library.is_file():  # SQLite would wait for ever for what a pipe has to say
        return otherwise
    try:
        with contextlib.closing(
            apsw.Connection(str(library), flags=apsw.SQLITE_OPEN_READONLY)
        ) as database:
            return look(database)
    except apsw.Error:
        return otherwise


def progress_of(home: Places) -> VectorProgress:
    """What the home's worker is doing, if there is one."""
    if not lock_file(home).exists():
        return VectorProgress()
    try:
        with locked(home) as free:
            if free:
                return VectorProgress()
    except errors.PlaceError:
        return VectorProgress()
    told = disk.read_stored(progress_file(home), VectorProgress) or VectorProgress()
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
    """Whether a session has vectors to be made, or its agent's files changed since then."""
    agent = home.agent(session.key.agent)
    files = agent_files.files_of(agent.agent)
    waiting = pending_everywhere(home)
    if str(session.key) in waiting or files in waiting:
        return True
    return agent_files.state_of_files(agent) != _look(
        home.library, lambda database: str(database.execute(_READ_OF, (files,)).get or ""), ""
    )


def lock_file(home: Places) -> Path:
    """Held by the home's worker; gone when the home is."""
    return home.state / "vectors.lock"


def progress_file(home: Places) -> Path:
    """Where the worker says how far it is."""
    return home.state / "vectors.json"


def locked(home: Places) -> contextlib.AbstractContextManager[bool]:
    """True while the lock is ours, False when another has it; raises where there can be none."""
    return lease.only_one(home.state, lock_file(home).name)
