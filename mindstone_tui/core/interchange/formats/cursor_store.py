"""Cursor's command line: `~/.cursor/chats/<project>/<id>/store.db`.

Every value is stored under the hash of its bytes. Messages are JSON; what holds them together is
the newest root, in the wire form of protocol buffers: its field 1 names the messages in their
order, or other such lists, its field 9 the folder. Messages have no dates, the chat has one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mindstone_tui.core.interchange.formats.base import (
    About,
    Aside,
    Began,
    Broken,
    Record,
    Titled,
)
from mindstone_tui.core.interchange.formats.blocks import BlockResult, MessageParts, add_block
from mindstone_tui.core.interchange.formats.parts import cut_tags, plain, unknown
from mindstone_tui.core.interchange.read_bytes import (
    Flaw,
    as_json,
    decode_object,
    mapping,
    moment,
    sequence,
    text,
)

TABLES: Final = ("blobs", "meta")
QUERY: Final = "user_query"
"""The tag around what the person said; the rest is the program's."""
_CHILD, _FOLDER = 1, 9
_HASH: Final = 32
_DEEPEST: Final = 8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_store(connection: sqlite3.Connection, path: Path) -> Iterator[Record]:
    """The one chat of a store."""
    about = _about(connection)
    ts = moment(about.get("createdAt"))
    # The transcript of the same chat tells less, and is a session of its own.
    yield Began(id=f"chat-{text(about.get('agentId')) or path.parent.name}", ts=ts)
    if title := text(about.get("name")):
        yield Titled(title=title)
    root = text(about.get("latestRootBlobId"))
    data = _blob(connection, root)
    if data is None:
        yield Broken(line=1, why="the chat's newest state is not in the file")
        return
    for number, given in fields_of(data):
        if number == _FOLDER:
            yield About(folder=_folder(given.decode("utf-8", "replace")))
    for line, name in enumerate(_messages(connection, data, 0), 1):
        yield from _message(line, name, _blob(connection, name), ts)


def _about(connection: sqlite3.Connection) -> dict[str, Any]:
    """What is said of the chat: JSON, written as hexadecimal digits."""
    row = connection.execute("SELECT value FROM meta WHERE key = '0'").fetchone()
    try:
        found = decode_object(bytes.fromhex(text(row[0]) if row else ""))
    except ValueError:
        return {}
    return {} if isinstance(found, Flaw) else found


def _blob(connection: sqlite3.Connection, name: str) -> bytes | None:
    row = connection.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
    data = row[0] if row else None
    return data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else None


def _folder(address: str) -> str:
    return unquote(urlsplit(address).path) if address.startswith("file:") else address


def _messages(connection: sqlite3.Connection, data: bytes, depth: int) -> Iterator[str]:
    """The names of all messages below a root, in their order."""
    for number, given in fields_of(data):
        if number != _CHILD or len(given) != _HASH:
            continue
        child = _blob(connection, given.hex())
        is_list = child is not None and not child.lstrip().startswith(b"{")
        if child is not None and is_list and depth < _DEEPEST:
            yield from _messages(connection, child, depth + 1)
        else:
            yield given.hex()


def fields_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer that are bytes, as far as it can be read."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                return
            yield key >> 3, data[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in as many bytes as it needs, and where the next thing begins."""
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
    return 0, len(data)


def _message(number: int, source: str, data: bytes | None, ts: str) -> Iterator[Record]:
    fields = decode_object(data) if data is not None else Flaw("the message is not in the file")
    if isinstance(fields, Flaw):
        yield Broken(line=number, why=fields.why)
        return
    pieces = MessageParts(number)
    content = fields.get("content")
    listed = content if isinstance(content, list) else [{"type": "text", "text": text(content)}]
    for part in map(mapping, listed):
        match part.get("type"):
            case "tool-call":
                pieces.call(
                    part.get("toolName"),
                    part.get("args", part.get("input")),
                    part.get("toolCallId"),
                )
            case "tool-result":
                pieces.results.append(_result(part))
            case _:
                add_block(pieces, part)
    model = text(mapping(mapping(fields.get("providerOptions")).get("cursor")).get("modelName"))
    match fields.get("role"):
        case "system":
            yield Aside(what="instructions of the program")
        case "user":
            pieces.texts[:] = asked_in(pieces.texts)
            yield pieces.record("user", id=source, ts=ts)
        case "assistant":
            yield pieces.record("assistant", id=source, ts=ts, model=model)
        case "tool":
            yield from pieces.given(ts, source)
        case role:
            yield unknown(f"{text(role) or 'nameless'} message")


def asked_in(texts: list[str]) -> list[str]:
    """What the person said, where the program marks it; everything where it does not."""
    asked = [inside.strip() for each in texts for _, inside in cut_tags(each, (QUERY,))[1]]
    return asked or texts


def _result(part: dict[str, Any]) -> BlockResult:
    """What a tool gave: a text, or a value of some shape."""
    given = part.get("result", part.get("output"))
    inner = mapping(given).get("value", given)
    said = inner if isinstance(inner, str) else plain(sequence(inner)) or as_json(inner)
    return BlockResult(
        call=text(part.get("toolCallId")),
        text=said,
        name=text(part.get("toolName")),
        status="error" if part.get("isError") is True else "ok",
    )
