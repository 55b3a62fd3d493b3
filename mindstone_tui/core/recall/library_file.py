"""The library: one file with the passages of every session, their words and their vectors.

Each owner of passages, a session or an agent's own files, has a range of row numbers to itself, so
that whatever asks about one owner seeks there and costs the same whatever else lies in the file. It
is a cache: deleted, it comes back from the transcripts. Any process may write it, in transactions
that are short, while others read.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from mindstone_tui.core import disk, errors

BUSY_MILLISECONDS: Final = 1_000
"""How long a step waits for another process: a turn must not stand still for the library."""
AGAIN_MILLISECONDS: Final = 20
"""And how long after one that waited in vain."""
TOKENIZER: Final = ("porter", "unicode61", "remove_diacritics", "0", "categories", "L* N* Co M*")
"""Only stems: words were folded and cut before they came here."""


@cache
def _steps() -> list[str]:
    """What makes the tables: each step is applied once, `user_version` counts them."""
    written = Path(__file__).with_name("library.sql").read_text("utf-8")
    tokenizer = " ".join(f"'{word}'" for word in TOKENIZER)
    return re.split(r"(?m)^-- Step \d.*$", written.replace("{tokenizer}", tokenizer))[1:]


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
    aside = path.with_name(f"{path.name}.damaged-{os.urandom(4).hex()}")
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


def unavailable(path: Path, error: Exception) -> errors.IndexUnavailable:
    """Say why the index cannot be used."""
    return errors.IndexUnavailable(
        f"The recall index {path.name} cannot be used: {error}.",
        "Free space or make the folder writable; `mindstone reindex` builds the index anew.",
    )


def _open(path: Path) -> tuple[apsw.Connection, bool]:
    # SQLite would create the file with the umask's mode.
    disk.REAL.close(disk.REAL.open(path, os.O_RDWR | os.O_CREAT))
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
    steps = _steps()
    if _version(database) == len(steps):
        return
    with writing(database):
        version = _version(database)
        if version > len(steps):
            raise errors.IndexUnavailable(
                "The recall index was made by a newer version of this program.",
                "Update the program, or move library.db away: it is rebuilt from the transcripts.",
            )
        for step in steps[version:]:
            database.execute(step).fetchall()
        database.execute(f"pragma user_version = {len(steps)}").fetchall()


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
