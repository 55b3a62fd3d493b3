"""Which server keeps a session, and how the copies on this machine are kept up to date.

Reading never needs the server: it reads the copy. So whoever reads asks for what is new first, and
goes on with what is there when nobody answers.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core import disk, errors
from mindstone_tui.core.config.settings import HistorySettings
from mindstone_tui.core.paths import EARLIER_INDEX, Places, SessionKey, SessionPlaces
from mindstone_tui.core.shared.passage_store import PassageStore, uncovered
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import SessionSummary, encode, history_store
from mindstone_tui.core.transcript.copy import CopiedFile
from mindstone_tui.core.transcript.reader import Head

_LISTENS: Final = 10.0
"""Seconds after which a listener looks even if it was told nothing."""
_TRIES_AGAIN: Final = (0.2, 1.0, 5.0, 15.0)
"""Seconds between attempts to reach a server that is away."""


def open_address(history: HistorySettings, url: str) -> PostgresStore:
    """A server by its address; nothing is connected yet."""
    return PostgresStore(url, team=history.team, timeout=history.timeout)


def open_store(history: HistorySettings, key: SessionKey) -> PostgresStore | None:
    """The server that keeps a session; None for files."""
    url = history.address_for(key)
    return open_address(history, url) if url else None


def upstream_for(home: Places, history: HistorySettings, key: SessionKey) -> PostgresStore | None:
    """The server to write a session to; None for files, and for one that is only here so far."""
    if (store := open_store(history, key)) is None:
        return None
    if home.session(key).transcript.exists() and store.find(key) is None:
        store.close()
        return None
    return store


def catch_up(
    home: Places,
    history: HistorySettings,
    keys: Iterable[SessionKey] | None = None,
    *,
    elsewhere: bool = False,
) -> list[str]:
    """Bring the copies of some sessions up to date; None for all that are here.

    With `elsewhere`, sessions that are only on the server are fetched as well, unless search there
    finds all that they say. What could not be done is said; nothing is raised, because what is here
    can be read all the same.
    """
    if not history.url and not any(history.sessions.values()):
        return []
    wanted = set(keys) if keys is not None else None
    told: list[str] = []
    for url in dict.fromkeys((history.url, *history.sessions.values())):
        if url:
            try:
                told += _catch_up_from(url, home, history, wanted, elsewhere)
            except errors.MindstoneError as error:
                told.append(f"{error.what} This is what this machine has.")
    return told


def _catch_up_from(
    url: str,
    home: Places,
    history: HistorySettings,
    wanted: set[SessionKey] | None,
    elsewhere: bool,
) -> list[str]:
    if wanted is not None and not any(history.address_for(key) == url for key in wanted):
        return []
    told: list[str] = []
    files = history_store.FileStore(home)
    with contextlib.closing(open_address(history, url)) as store:
        if wanted is not None and len(wanted) == 1:
            there = [found for key in wanted if (found := store.find(key)) is not None]
        else:
            there = store.sessions()
        if elsewhere and history.search == "server":
            missing = uncovered(PassageStore(store).marks(), {it.key: it.head for it in there})
            there = [each for each in there if each.key in missing or files.find(each.key)]
        for found in there:
            here = files.find(found.key)
            if (
                history.address_for(found.key) != url
                or (wanted is not None and found.key not in wanted)
                or (wanted is None and here is None and not elsewhere)
                or (here is not None and here.head == found.head)
            ):
                continue
            try:
                fetch(home.session(found.key), store)
            except errors.MindstoneError as error:
                if isinstance(error, errors.HistoryAway):
                    raise
                told.append(error.sentence)
    return told


def only_there(home: Places, history: HistorySettings) -> list[SessionSummary]:
    """What is on the server and not here, at a glance; nothing when it is away."""
    try:
        with contextlib.closing(open_address(history, history.url)) as store:
            there, where = store.sessions(), store.name
    except errors.MindstoneError:
        return []
    return [
        SessionSummary(
            session=str(each.key),
            agent=each.key.agent,
            main=each.key.main,
            size=each.size,
            entries=each.head.seq + 1,
            updated=each.updated,
            role="event",
            text=f"{where} has it; opening it brings it here.",
            readable=True,
        )
        for each in there
        if history.address_for(each.key) == history.url
        and not home.session(each.key).transcript.exists()
    ]


def fetch(places: SessionPlaces, store: history_store.HistoryStore) -> Head:
    """Bring one copy up to date; the head it has then."""
    disk.ensure_folder(places.folder)
    copy = CopiedFile(places, disk.REAL, store)
    try:
        with copy.locked():
            copy.catch_up()
            return Head(copy.tail.seq, copy.tail.hash)
    finally:
        copy.close()


class Feed:
    """Brings what other machines write into the copy here, as they write it; a thread."""

    def __init__(self, places: SessionPlaces, store: history_store.HistoryStore) -> None:
        self._places = places
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """End at once, whatever it waits for."""
        self._stop.set()
        self._store.break_off()
        self._thread.join(_TRIES_AGAIN[1])

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                seq = fetch(self._places, self._store).seq
                failures = 0
                while not self._stop.is_set() and not self._store.wait(
                    self._places.key, seq, _LISTENS
                ):
                    continue
            except (errors.MindstoneError, OSError):
                # Whoever writes next hears why. Here there is nobody to tell.
                self._stop.wait(_TRIES_AGAIN[min(failures, len(_TRIES_AGAIN) - 1)])
                failures += 1
        self._store.close()


State = Literal["same", "behind", "ahead", "only here", "only there", "differs"]
Progress = Callable[[int, int], None]


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """One session here and there."""

    session: str
    state: State
    """Of the copy here: `behind` when the server has more, `ahead` when it has less."""
    here: Head | None
    there: Head | None
    updated: str = ""
    """When the server got its newest line."""
    holder: str = ""
    """The machine that takes a turn now."""


def compare(home: Places, store: PostgresStore, keys: list[SessionKey]) -> list[SessionState]:
    """How these sessions, or all, stand; nothing is copied."""
    files = history_store.FileStore(home)
    here = {each.key: each for each in files.sessions()}
    there = {each.key: each for each in store.sessions()}

    def word(key: SessionKey) -> State:
        if key not in here or key not in there:
            return "only here" if key in here else "only there"
        own, other = here[key].head, there[key].head
        if own == other:
            return "same"
        if own.seq < other.seq:
            return "behind" if history_store.head_at(store, key, own.seq) == own else "differs"
        return "ahead" if history_store.head_at(files, key, other.seq) == other else "differs"

    known = here.keys() | there.keys()
    return [
        SessionState(
            session=str(key),
            state=word(key),
            here=here[key].head if key in here else None,
            there=there[key].head if key in there else None,
            updated=there[key].updated if key in there else "",
            holder=there[key].holder if key in there else "",
        )
        for key in sorted((set(keys) or known) & known)
    ]


def push(home: Places, store: PostgresStore, key: SessionKey, progress: Progress) -> Head:
    """Have the server keep what is here, if it is sound; the head that both have then."""
    files = history_store.FileStore(home)
    if files.find(key) is not None:
        files.require_sound(key)
    return history_store.copy_session(key, files, store, progress)


def pull(home: Places, store: PostgresStore, key: SessionKey, *, again: bool) -> Head:
    """Have here what the server keeps; with `again`, whatever is here is set aside first."""
    if store.find(key) is None:
        raise errors.UsageError(
            f"{store.name} has no session {key}.", "`mindstone history status` lists what it has."
        )
    if again:
        set_aside(home.session(key))
    elif home.session(key).transcript.exists():
        history_store.FileStore(home).require_sound(key)
    return fetch(home.session(key), store)


def set_aside(places: SessionPlaces) -> Path | None:
    """Move a copy, and the index made from it, to the folder of lost histories; where they are."""
    if not places.transcript.exists():
        return None
    aside = places.lost / encode.timestamp(datetime.now(UTC)).replace(":", "")
    disk.ensure_folder(aside)
    try:
        earlier = places.folder / EARLIER_INDEX
        for path in (places.transcript, places.offsets, earlier, places.indexed):
            if path.exists():
                path.rename(aside / path.name)
    except OSError as error:
        raise disk.place_error(aside, error) from error
    return aside
