"""The index that a session had to itself, before there was a library: its vectors are taken over.

Words come from the transcript, as ever. A vector takes a hundred times as long to make, and belongs
to a text: where the same text stands in the library, it gets the vector that was made for it. The
old file is read and left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from mindstone_tui.core.recall.library_file import load_vectors, writing
from mindstone_tui.core.recall.store import STORED, Meaning, Tables

_AT_ONCE: Final = 128


def take_over(database: apsw.Connection, tables: Tables, earlier: Path, model: str) -> None:
    """Give waiting passages the vectors that an earlier index has for their texts."""
    with contextlib.suppress(apsw.Error), _reading(earlier) as old:
        known = old.execute("select value from facts where name = 'model'").fetchone()
        if known is not None and known[0] == model:
            waiting = tables.waiting_texts()
            for at in range(0, len(waiting), _AT_ONCE):
                found = [
                    (row, meaning)
                    for row, content in waiting[at : at + _AT_ONCE]
                    if (meaning := _meaning(old, content)) is not None
                ]
                tables.store_meaning(found)
        uses = old.execute("select entry, injected, used from uses").fetchall()
        with writing(database):
            database.executemany("insert or ignore into uses values (?, ?, ?)", uses)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[apsw.Connection]:
    old = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        load_vectors(old)
        yield old
    finally:
        old.close()


def _meaning(old: apsw.Connection, content: bytes) -> Meaning | None:
    import numpy as np

    from mindstone_tui.core.recall.vector_view import as_bytes  # numpy: 0.1 s

    found = old.execute(
        "select passages.row, signs from passages join tokens on tokens.row = passages.row"
        " where hash = ? and vector = ? limit 1",
        (content, STORED),
    ).fetchone()
    if found is None:
        return None
    row, tokens = found
    numbers = old.execute("select embedding from vectors where rowid = ?", (row,)).fetchone()
    if numbers is None:
        return None
    return Meaning(as_bytes(np.frombuffer(numbers[0], np.float32)), tokens)
