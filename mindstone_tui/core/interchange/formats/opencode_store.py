"""Where opencode keeps sessions: a folder of small files, or one database.

The folder has `session/<project>/<session>.json`, `message/<session>/<message>.json` and
`part/<message>/<part>.json`; its oldest form has all three under `session`. Names sort by time.
Places are taken from the names of files, never from what stands in them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mindstone_tui.core.interchange.formats.databases import connected, json_in, rows
from mindstone_tui.core.interchange.formats.parts import document
from mindstone_tui.core.interchange.reading import Flaw, mapping
from mindstone_tui.core.interchange.records import Broken

Message = tuple[int, dict[str, Any], list[Any]]
"""Its number, what is known about it, and its parts."""


class Session(NamedTuple):
    """A session and its messages, in order."""

    info: dict[str, Any]
    messages: Iterable[Message | Broken]


def sessions_in_storage(path: Path, info: dict[str, Any]) -> Iterator[Session]:
    """The session that a file in the storage folder is about."""
    if path.parent.name == "info":
        base = path.parent.parent
        yield Session(info, _stored(base / "message" / path.stem, base / "part" / path.stem))
    else:
        base = path.parent.parent.parent
        yield Session(info, _stored(base / "message" / path.stem, base / "part"))


def _stored(messages: Path, parts: Path) -> Iterator[Message | Broken]:
    for number, file in enumerate(sorted(messages.glob("*.json")), 1):
        found = document(file)
        if isinstance(found, Broken):
            yield Broken(line=number, why=f"{file.name}: {found.why}")
            continue
        listed: list[Any] = []
        for part in sorted((parts / file.stem).glob("*.json")):
            read = document(part)
            if isinstance(read, Broken):
                yield Broken(line=number, why=f"{part.name}: {read.why}")
            else:
                listed.append(read)
        yield number, found, listed


def sessions_in_database(path: Path) -> Iterator[Session]:
    """All sessions of the database, the oldest first."""
    with connected(path) as connection:
        found = rows(connection, "SELECT * FROM session ORDER BY time_created, id")
        for row in found:
            info = {
                "id": row.get("id"),
                "title": row.get("title"),
                "time": {"created": row.get("time_created")},
                "revert": json_in(row.get("revert")),
            }
            yield Session(info, _messages(connection, str(row.get("id"))))


def _messages(connection: sqlite3.Connection, session: str) -> Iterator[Message | Broken]:
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for number, row in enumerate(rows(connection, query, (session,)), 1):
        data = json_in(row["data"])
        if isinstance(data, Flaw):
            yield Broken(line=number, why=data.why)
            continue
        parts = rows(
            connection,
            "SELECT id, data FROM part WHERE message_id = ? ORDER BY id",
            (str(row["id"]),),
        )
        listed = [{**mapping(json_in(each["data"])), "id": each["id"]} for each in parts]
        yield number, {**mapping(data), "id": row["id"]}, listed
