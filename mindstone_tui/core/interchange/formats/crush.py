"""Crush: `.crush/crush.db` in the project's folder.

A row a session, a row a message whose `parts` are JSON. Sessions that another one started as its
sub-agent name it. The summary that the program made of its own history is counted as left out. Its
token counts are of the last request alone, so only the cost is taken over.
"""

import base64
import binascii
import contextlib
import sqlite3
from pathlib import Path
from typing import Final

from ..pictures import Picture, pictures_in
from ..read_bytes import Fields, mapping, moment, text
from . import sources
from .base import About, Aside, Began, Broken, Format, Records, Sample
from .parts import MessageParts, counted, error_if, joined, model_of, titled, unknown, used

_FOLDER: Final = ".crush"


def _recognises(sample: Sample) -> bool:
    return sources.has_columns(sample, "messages", "parts")


@sources.guarded
def _read(path: Path) -> Records:
    folder = path.absolute().parent
    project = str(folder.parent) if folder.name == _FOLDER else ""
    with sources.connected(path) as connection:
        found = sources.rows(connection, "SELECT * FROM sessions ORDER BY created_at, rowid")
        for session in found:
            yield from _session(connection, session, project)


def _session(connection: sqlite3.Connection, session: Fields, project: str) -> Records:
    name = text(session.get("id"))
    yield Began(id=name, ts=moment(session.get("created_at")))
    yield from titled(session.get("title"))
    yield About(folder=project, parent=text(session.get("parent_session_id")))
    summary = text(session.get("summary_message_id"))
    query = "SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid"
    for number, row in enumerate(sources.rows(connection, query, (name,)), 1):
        if summary and summary == row.get("id"):
            yield Aside(what="summary of the program")
        else:
            yield from _message(number, row)
    yield from used(counted({}, cost=session.get("cost")))


def _message(number: int, row: Fields) -> Records:
    parts = sources.json_in(row.get("parts"))
    if not isinstance(parts, list):
        yield Broken(line=number, why="a message without parts")
        return
    pieces = MessageParts(number)
    finish = "stop"
    for each in map(mapping, parts):
        data = mapping(each.get("data"))
        match each.get("type"):
            case "text":
                pieces.texts.append(text(data.get("text")))
            case "reasoning":
                pieces.think(data.get("thinking"), data.get("signature"))
            case "tool_call":
                pieces.call(data.get("name"), data.get("input") or "{}", data.get("id"))
            case "tool_result":
                _add_result(pieces, data)
            case "finish":
                finish = text(data.get("reason")) or finish
            case "image_url" | "binary":
                pieces.texts.append(_attached(data))
                pieces.images += _pictures(data, "MIMEType", "Data")
            case kind:
                yield unknown(kind)
    ts, source = moment(row.get("created_at")), text(row.get("id"))
    match row.get("role"):
        case "tool":
            yield from pieces.given(ts, source)
        case "user" | "assistant" as role:
            yield pieces.record(role, id=source, ts=ts, model=model_of(row), finish=finish)
        case role:
            yield unknown(f"{text(role) or 'nameless'} message")


def _add_result(pieces: MessageParts, data: Fields) -> None:
    images = _pictures(data, "mime_type", "data")
    said = joined((text(data.get("content")), "[image]" if images else ""))
    status = error_if(data.get("is_error") is True)
    pieces.give(data.get("tool_call_id"), said, name=data.get("name"), status=status, images=images)


def _attached(data: Fields) -> str:
    """A file that was added to a message: a text itself, else the word for what it is."""
    kind = text(data.get("MIMEType"))
    if kind.startswith("text/"):
        with contextlib.suppress(binascii.Error, ValueError):
            return base64.b64decode(text(data.get("Data"))).decode("utf-8", "replace")
    return f"[{kind.split('/')[0] or 'image'}]"


def _pictures(data: Fields, kind: str, inside: str) -> tuple[Picture, ...]:
    """The picture in a part of a message or in a result, if it is one."""
    if text(data.get(kind)).startswith("image/"):
        return (Picture(data=text(data.get(inside))),)
    return pictures_in(data)


CRUSH = Format(name="crush", title="Crush", recognises=_recognises, read=_read, many=True)
