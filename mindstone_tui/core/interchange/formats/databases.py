"""Databases of other programs, read without touching them.

The file is opened read-only; where no writer has left a log beside it, as immutable too, so that
not even a lock file appears in the other program's folder.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mindstone_tui.core.disk import open_regular
from mindstone_tui.core.interchange.formats.base import Sample
from mindstone_tui.core.interchange.formats.parts import document_of
from mindstone_tui.core.interchange.read_bytes import LONGEST_RECORD, Flaw

_MAGIC: Final = b"SQLite format 3\x00"
_BUSY: Final = 5.0


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def has_tables(sample: Sample, *names: str) -> bool:
    """Whether the file is a database with all these tables."""
    if not sample.start.startswith(_MAGIC):
        return False
    try:
        with connected(sample.path) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return set(names) <= {name for (name,) in found}
    except sqlite3.Error:
        return False


@contextlib.contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """An open database that cannot be changed."""
    log = path.with_name(f"{path.name}-wal")
    alone = not (log.exists() and log.stat().st_size)
    place = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if alone else ''}"
    connection = sqlite3.connect(place, uri=True, timeout=_BUSY)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_RECORD)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.row_factory = sqlite3.Row
        yield connection
    finally:
        connection.close()


def rows(
    connection: sqlite3.Connection, query: str, values: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Rows by column name, one at a time."""
    for row in connection.execute(query, values):
        yield dict(zip(row.keys(), tuple(row), strict=True))


def json_in(value: object) -> Any:
    """A column that holds JSON; a `Flaw` where it does not."""
    return document_of(value) if isinstance(value, str) else Flaw("not a text")
