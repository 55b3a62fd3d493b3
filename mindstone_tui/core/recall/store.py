"""The index file: one SQLite database through apsw, with words in FTS5 and vectors in sqlite-vec.

It is a cache of the transcript. A file that cannot be trusted is put aside under another name and a
new one started; nobody is asked, because nothing is lost. Every change is one transaction, taken
for writing at its start, and a schema step is recorded in the transaction that makes it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import sqlite_vec  # type: ignore[import-untyped]

from mindstone_tui.core.errors import IndexUnavailable

BUSY_MILLISECONDS: Final = 10_000
TOKENIZER: Final = ("porter", "unicode61", "remove_diacritics", "0", "categories", "L* N* Co M*")
"""Only stems: words were folded and cut before they came here."""
_TOKENIZE: Final = " ".join(f"'{word}'" for word in TOKENIZER)

MIGRATIONS: Final = (
    f"""
    create table facts (name text primary key, value) without rowid;
    create table passages (
        row integer primary key,
        id text not null unique,
        hash blob not null,
        session text not null,
        seq integer not null,
        entry text not null,
        turn integer not null,
        ts text not null,
        at real not null,
        role text not null,
        speaker text not null,
        kind text not null,
        text text not null,
        source_id text not null,
        piece integer not null,
        pieces integer not null,
        form text not null,
        about text not null,
        sitting integer not null,
        vector integer not null
    );
    create index passages_by_seq on passages (seq, piece);
    create index passages_by_turn on passages (turn);
    create index passages_by_hash on passages (hash);
    create index passages_without_vector on passages (seq) where vector = 0;
    create index passages_that_failed on passages (seq) where vector = 2;
    create virtual table words using fts5 (
        body, hash, content='', contentless_delete=1, tokenize="{_TOKENIZE}"
    );
    create virtual table vocabulary using fts5vocab (words, row);
    create table signs (place integer primary key, row integer not null unique, bits blob not null);
    create table tokens (row integer primary key, signs blob not null);
    create table uses (
        entry text primary key, injected integer not null, used integer not null
    ) without rowid;
    """,
)
"""Each step is applied once; `user_version` counts them and changes in the same transaction."""

DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


class Opened(NamedTuple):
    """A database ready for use."""

    database: apsw.Connection
    vectors: bool
    """Whether sqlite-vec could be loaded."""
    damaged: Path | None
    """Where the file that stood there before went, if it could not be trusted."""


def open_store(path: Path) -> Opened:
    """Open or create the file; a damaged one is put aside first.

    Only what opening touches is looked at: damage further in shows when it is met.
    """
    try:
        try:
            return Opened(*_open(path), None)
        except DAMAGED:
            aside = put_aside(path)
            return Opened(*_open(path), aside)
    except (apsw.Error, OSError) as error:
        raise unavailable(path, error) from error


def put_aside(path: Path) -> Path:
    """Rename a damaged index, with its journal files, so that it can be looked at later."""
    aside = path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}")
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


@contextlib.contextmanager
def writing(database: apsw.Connection) -> Iterator[None]:
    """One transaction that holds the write lock from its start; all of it, or nothing."""
    database.execute("begin immediate")
    try:
        yield
    except BaseException:
        with contextlib.suppress(apsw.Error):
            database.execute("rollback")
        raise
    database.execute("commit")


def unavailable(path: Path, error: Exception) -> IndexUnavailable:
    """Say why the index cannot be used."""
    return IndexUnavailable(
        f"The recall index {path.name} cannot be used: {error}.",
        "Free space or make the folder writable; `mindstone reindex` builds the index anew.",
    )


def _open(path: Path) -> tuple[apsw.Connection, bool]:
    # SQLite would create the file with the umask's mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        database.set_busy_timeout(BUSY_MILLISECONDS)
        database.execute("pragma journal_mode = wal").fetchall()
        database.execute("pragma synchronous = normal").fetchall()
        database.execute("pragma cache_size = -32000").fetchall()
        _migrate(database)
        return database, _load_vectors(database)
    except BaseException:
        database.close(True)
        raise


def open_in_memory() -> tuple[apsw.Connection, bool]:
    """A database that touches no file and is gone when it is closed; whether it has vectors."""
    database = apsw.Connection(":memory:")
    database.execute("pragma temp_store = memory").fetchall()
    _migrate(database)
    return database, _load_vectors(database)


def _migrate(database: apsw.Connection) -> None:
    if _version(database) == len(MIGRATIONS):
        return
    with writing(database):
        version = _version(database)
        if version > len(MIGRATIONS):
            raise IndexUnavailable(
                "The recall index was made by a newer version of this program.",
                "Update the program, or move index.db away: it is rebuilt from the transcript.",
            )
        for step in MIGRATIONS[version:]:
            database.execute(step).fetchall()
        database.execute(f"pragma user_version = {len(MIGRATIONS)}").fetchall()


def _version(database: apsw.Connection) -> int:
    version = database.pragma("user_version")
    assert isinstance(version, int)
    return version


def _load_vectors(database: apsw.Connection) -> bool:
    """Add sqlite-vec to this connection; without it words still work."""
    try:
        database.enable_load_extension(True)
        database.load_extension(sqlite_vec.loadable_path())
    except (apsw.Error, AttributeError):
        return False
    finally:
        database.enable_load_extension(False)
    return True
