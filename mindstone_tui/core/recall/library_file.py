"""The library: one file with the passages of every session, their words and their vectors.

Each owner of passages, a session or an agent's own files, has a range of row numbers to itself, so
that whatever asks about one owner seeks there and costs the same whatever else lies in the file. It
is a cache: deleted, it comes back from the transcripts. Any process may write it, in transactions
that are short, while others read.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from mindstone_tui.core.disk import REAL
from mindstone_tui.core.errors import IndexUnavailable

BUSY_MILLISECONDS: Final = 1_000
"""How long a step waits for another process: a turn must not stand still for the library."""
AGAIN_MILLISECONDS: Final = 20
"""And how long after one that waited in vain."""
TOKENIZER: Final = ("porter", "unicode61", "remove_diacritics", "0", "categories", "L* N* Co M*")
"""Only stems: words were folded and cut before they came here."""
_TOKENIZE: Final = " ".join(f"'{word}'" for word in TOKENIZER)

MIGRATIONS: Final = (
    f"""
    create table facts (
        owner integer not null, name text not null, value, primary key (owner, name)
    ) without rowid;
    create table owners (
        number integer primary key, name text not null unique, passages integer not null default 0
    );
    create table passages (
        row integer primary key,
        owner integer not null,
        id text not null,
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
        imported integer not null,
        rewound integer not null,
        sitting integer not null,
        vector integer not null,
        other integer not null
    );
    create index passages_by_seq on passages (owner, seq, piece);
    create index passages_by_turn on passages (owner, turn);
    create index passages_by_hash on passages (hash);
    create index passages_without_vector on passages (owner, seq) where vector = 0;
    create index passages_that_failed on passages (owner) where vector = 2;
    create index passages_of_other_languages on passages (owner, seq) where other = 0;
    create index passages_of_unread_language on passages (owner, seq) where other = 4;
    create index passages_rewound on passages (owner) where rewound > 0;
    create virtual table words using fts5 (
        body, hash, content='', contentless_delete=1, tokenize="{_TOKENIZE}"
    );
    insert into words (words, rank) values ('automerge', 0);
    insert into words (words, rank) values ('crisismerge', 1999);
    create table signs (
        place integer primary key, owner integer not null, row integer not null, bits blob not null
    );
    create index signs_by_owner on signs (owner);
    create table numbers (row integer primary key, numbers blob not null);
    create table tokens (row integer primary key, signs blob not null);
    create table language_signs (
        place integer primary key, owner integer not null, row integer not null, bits blob not null
    );
    create index language_signs_by_owner on language_signs (owner);
    create table language_numbers (row integer primary key, numbers blob not null);
    create table acts (
        row integer primary key,
        owner integer not null,
        seq integer not null,
        turn integer not null,
        ts text not null,
        kind text not null,
        about text not null,
        ok integer not null,
        code integer,
        error text not null,
        signature text not null,
        rewound integer not null default 0,
        unique (owner, seq, about)
    );
    create index acts_by_turn on acts (owner, turn);
    create index acts_by_signature on acts (signature) where signature <> '';
    create index acts_by_file on acts (about) where kind <> 'command';
    create table act_programs (
        program text not null, act integer not null, primary key (program, act)
    ) without rowid;
    create table uses (
        entry text primary key, injected integer not null, used integer not null
    ) without rowid;
    """,
    "alter table passages add column superseded integer not null default 0",
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


def open_library(path: Path) -> Opened:
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
    REAL.close(REAL.open(path, os.O_RDWR | os.O_CREAT))
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        database.set_busy_timeout(BUSY_MILLISECONDS)
        database.execute("pragma journal_mode = wal").fetchall()
        database.execute("pragma synchronous = normal").fetchall()
        # The kernel keeps what was read anyway; a larger cache here only holds it twice.
        database.execute("pragma cache_size = -2000").fetchall()
        _migrate(database)
        return database, load_vectors(database)
    except BaseException:
        database.close(True)
        raise


def open_in_memory() -> tuple[apsw.Connection, bool]:
    """A database that touches no file and is gone when it is closed; whether it has vectors."""
    database = apsw.Connection(":memory:")
    database.execute("pragma temp_store = memory").fetchall()
    _migrate(database)
    return database, load_vectors(database)


def _migrate(database: apsw.Connection) -> None:
    if _version(database) == len(MIGRATIONS):
        return
    with writing(database):
        version = _version(database)
        if version > len(MIGRATIONS):
            raise IndexUnavailable(
                "The recall index was made by a newer version of this program.",
                "Update the program, or move library.db away: it is rebuilt from the transcripts.",
            )
        for step in MIGRATIONS[version:]:
            database.execute(step).fetchall()
        database.execute(f"pragma user_version = {len(MIGRATIONS)}").fetchall()


def _version(database: apsw.Connection) -> int:
    version = database.pragma("user_version")
    assert isinstance(version, int)
    return version


def load_vectors(database: apsw.Connection) -> bool:
    """Add sqlite-vec to this connection; without it words still work."""
    try:
        database.enable_load_extension(True)
        database.load_extension(_vector_extension())
    except (apsw.Error, ModuleNotFoundError):
        return False
    finally:
        database.enable_load_extension(False)
    return True


@cache
def _vector_extension() -> str:
    """Where sqlite-vec's library lies; its Python package is not imported, for it loads numpy."""
    found = find_spec("sqlite_vec")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("sqlite_vec")
    return str(Path(found.origin).with_name("vec0"))


EVERYBODY: Final = 0
"""The owner of what is true of the whole file."""
ROWS_EACH: Final = 24
"""Bits of a row's number that count inside one owner's range."""


class RowRange(NamedTuple):
    """Row numbers, the last one included."""

    first: int
    last: int


EVERYTHING: Final = RowRange(0, (1 << 62) - 1)


def span_of(owner: int) -> RowRange:
    """The rows of one owner."""
    return RowRange(owner << ROWS_EACH, (owner + 1 << ROWS_EACH) - 1)


def owner_of(row: int) -> int:
    """Whose row this is."""
    return row >> ROWS_EACH


def owner_number(database: apsw.Connection, name: str) -> int:
    """The number of an owner, who gets one if there is none yet."""
    found = database.execute("select number from owners where name = ?", (name,)).fetchone()
    if found is None:
        with writing(database):
            database.execute("insert or ignore into owners (name) values (?)", (name,))
        found = database.execute("select number from owners where name = ?", (name,)).fetchone()
    assert found is not None
    return int(found[0])
