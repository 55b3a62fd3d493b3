"""Sessions between the files of this machine and a server: how they compare, and copying them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from mindstone_tui.core.disk import ensure_folder, place_error
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.shared.copies import fetch
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript.encode import timestamp
from mindstone_tui.core.transcript.file_store import FileStore
from mindstone_tui.core.transcript.history_store import StoredSession, copy_session, head_at
from mindstone_tui.core.transcript.reader import Head

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
    files = FileStore(home)
    here = {each.key: each for each in files.sessions()}
    there = {each.key: each for each in store.sessions()}
    chosen = sorted(set(keys) or here.keys() | there.keys())
    return [
        _state(key, here.get(key), there.get(key), files, store)
        for key in chosen
        if key in here or key in there
    ]


def _state(
    key: SessionKey,
    here: StoredSession | None,
    there: StoredSession | None,
    files: FileStore,
    store: PostgresStore,
) -> SessionState:
    return SessionState(
        session=str(key),
        state=_word(key, here, there, files, store),
        here=here.head if here else None,
        there=there.head if there else None,
        updated=there.updated if there else "",
        holder=there.holder if there else "",
    )


def _word(
    key: SessionKey,
    here: StoredSession | None,
    there: StoredSession | None,
    files: FileStore,
    store: PostgresStore,
) -> State:
    if there is None or here is None:
        return "only here" if there is None else "only there"
    if here.head == there.head:
        return "same"
    if here.head.seq < there.head.seq:
        return "behind" if head_at(store, key, here.head.seq) == here.head else "differs"
    return "ahead" if head_at(files, key, there.head.seq) == there.head else "differs"


def push(home: Places, store: PostgresStore, key: SessionKey, progress: Progress) -> Head:
    """Have the server keep what is here; the head that both have then."""
    return copy_session(key, FileStore(home), store, progress)


def pull(home: Places, store: PostgresStore, key: SessionKey, *, again: bool) -> Head:
    """Have here what the server keeps; with `again`, whatever is here is set aside first."""
    if store.find(key) is None:
        raise UsageError(
            f"{store.name} has no session {key}.", "`mindstone history status` lists what it has."
        )
    if again:
        set_aside(home.session(key))
    return fetch(home.session(key), store)


def set_aside(places: SessionPlaces) -> Path | None:
    """Move a copy, and the index made from it, to the folder of lost histories; where they are."""
    if not places.transcript.exists():
        return None
    aside = places.lost / timestamp(datetime.now(UTC)).replace(":", "")
    ensure_folder(aside)
    try:
        for path in (places.transcript, places.offsets, places.index):
            if path.exists():
                path.rename(aside / path.name)
    except OSError as error:
        raise place_error(aside, error) from error
    return aside
