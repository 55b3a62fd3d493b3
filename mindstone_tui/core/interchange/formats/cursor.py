"""Cursor: `state.vscdb` of the editor, the transcripts of its agent, and the agent's own store.

The editor's database has, for all projects, an object a conversation and one a message; older ones
have a database a project, with conversations and chats as one value each. The agent of the command
line also leaves a transcript, a message a line, without dates.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mindstone_tui.core import entries, protobuf
from mindstone_tui.core.entries.conversation import ToolStatus

from ..read_bytes import Flaw, as_json, count, decode_object, mapping, moment, sequence, text
from . import parts, sources
from .base import About, Aside, Began, Broken, Format, Records, Sample

QUERY: Final = "user_query"
"""The tag around what the person said; the rest is the program's."""
_CHILD, _FOLDER = 1, 9
_HASH: Final = 32
_DEEPEST: Final = 8


def read_store(connection: sqlite3.Connection, path: Path) -> Records:
    """The one chat of a store."""
    about = _about(connection)
    ts = moment(about.get("createdAt"))
    # The transcript of the same chat tells less, and is a session of its own.
    yield Began(id=f"chat-{text(about.get('agentId')) or path.parent.name}", ts=ts)
    yield from parts.titled(about.get("name"))
    if (data := _blob(connection, text(about.get("latestRootBlobId")))) is None:
        yield Broken(line=1, why="the chat's newest state is not in the file")
        return
    for number, given in protobuf.fields_of(data):
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
    for number, given in protobuf.fields_of(data):
        if number != _CHILD or len(given) != _HASH:
            continue
        child = _blob(connection, given.hex())
        is_list = child is not None and not child.lstrip().startswith(b"{")
        if child is not None and is_list and depth < _DEEPEST:
            yield from _messages(connection, child, depth + 1)
        else:
            yield given.hex()


def _message(number: int, source: str, data: bytes | None, ts: str) -> Records:
    fields = decode_object(data) if data is not None else Flaw("the message is not in the file")
    if isinstance(fields, Flaw):
        yield Broken(line=number, why=fields.why)
        return
    pieces = parts.MessageParts(number)
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
                _add_result(pieces, part)
            case _:
                parts.add_block(pieces, part)
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
            yield parts.unknown(f"{text(role) or 'nameless'} message")


def asked_in(texts: list[str]) -> list[str]:
    """What the person said, where the program marks it; everything where it does not."""
    asked = [inside.strip() for each in texts for _, inside in parts.cut_tags(each, (QUERY,))[1]]
    return asked or texts


def _add_result(pieces: parts.MessageParts, part: dict[str, Any]) -> None:
    """What a tool gave: a text, or a value of some shape."""
    given = part.get("result", part.get("output"))
    inner = mapping(given).get("value", given)
    said = inner if isinstance(inner, str) else parts.plain(sequence(inner)) or as_json(inner)
    status = parts.error_if(part.get("isError") is True)
    pieces.give(part.get("toolCallId"), said, name=part.get("toolName"), status=status)


_PROJECT: Final = ("composer.composerData", "workbench.panel.aichat.view.aichat.chatdata")
_DONE: dict[str, ToolStatus] = {"completed": "ok", "error": "error", "cancelled": "interrupted"}


def _recognises(sample: Sample) -> bool:
    if sources.has_columns(sample, "ItemTable", "key"):
        return _has_conversations(sample.path)
    if sources.has_columns(sample, "blobs", "id", "data"):
        return True
    first = sample.first
    return (
        first.get("role") in ("user", "assistant")
        and "content" in mapping(first.get("message"))
        and "type" not in first
    )


def _has_conversations(path: Path) -> bool:
    with contextlib.suppress(sqlite3.Error), sources.connected(path) as data:
        return _has_table(data, "cursorDiskKV") or any(_value(data, key) for key in _PROJECT)
    return False


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _value(connection: sqlite3.Connection, key: str, table: str = "ItemTable") -> Any:
    """The JSON under a key; nothing where there is none."""
    row = connection.execute(f"SELECT value FROM {table} WHERE key = ?", (key,)).fetchone()
    raw = row[0] if row else None
    found = sources.json_in(raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw)
    return found if isinstance(found, dict | list) else None


@sources.guarded
def _read(path: Path) -> Records:
    if not sources.is_database(path):
        yield from _transcript(path)
        return
    with sources.connected(path) as connection:
        if _has_table(connection, "blobs"):
            yield from read_store(connection, path)
            return
        if _has_table(connection, "cursorDiskKV"):
            yield from _composers(connection)
        yield from _of_project(connection)


def _composers(connection: sqlite3.Connection) -> Records:
    """Conversations of all projects, a message a row."""
    query = "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'"
    for (key,) in connection.execute(query).fetchall():
        if isinstance(composer := _value(connection, key, "cursorDiskKV"), dict):
            yield from _composer(composer, _bubbles(connection, composer))


def _bubbles(connection: sqlite3.Connection, composer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of a conversation: named in order, or still within it."""
    name = text(composer.get("composerId"))
    inside = mapping(composer.get("conversationMap"))
    for header in map(mapping, sequence(composer.get("fullConversationHeadersOnly"))):
        bubble = text(header.get("bubbleId"))
        stored = _value(connection, f"bubbleId:{name}:{bubble}", "cursorDiskKV")
        yield {**header, **mapping(stored or inside.get(bubble))}
    yield from map(mapping, sequence(composer.get("conversation")))


def _of_project(connection: sqlite3.Connection) -> Records:
    """Conversations and chats of one project, as older versions keep them."""
    composers = mapping(_value(connection, _PROJECT[0]))
    for composer in map(mapping, sequence(composers.get("allComposers"))):
        if sequence(composer.get("conversation")):
            yield from _composer(composer, map(mapping, sequence(composer["conversation"])))
    for tab in map(mapping, sequence(mapping(_value(connection, _PROJECT[1])).get("tabs"))):
        about = {
            "composerId": tab.get("tabId"),
            "name": tab.get("chatTitle"),
            "createdAt": tab.get("lastSendTime"),
        }
        yield from _composer(about, map(mapping, sequence(tab.get("bubbles"))))


def _composer(composer: dict[str, Any], bubbles: Iterator[dict[str, Any]]) -> Records:
    ts = moment(composer.get("createdAt"))
    yield Began(id=text(composer.get("composerId")), ts=ts)
    yield from parts.titled(composer.get("name"))
    model = text(mapping(composer.get("modelConfig")).get("modelName"))
    model = "" if model == "default" else model
    for number, bubble in enumerate(bubbles, 1):
        # Only some messages are dated; the others are as old as the one before.
        ts = _time(bubble) or ts
        yield from _bubble(number, bubble, ts, model)


def _time(bubble: dict[str, Any]) -> str:
    timing = mapping(bubble.get("timingInfo"))
    sent = timing.get("clientRpcSendTime") or timing.get("clientStartTime")
    # What is not a time since 1970 is one since the editor was started.
    dated = sent if isinstance(sent, int | float) and sent > 1e12 else None
    return moment(bubble.get("createdAt")) or moment(dated)


def _bubble(number: int, bubble: dict[str, Any], ts: str, model: str) -> Records:
    pieces = parts.MessageParts(number, said=text(bubble.get("text") or bubble.get("rawText")))
    source = text(bubble.get("bubbleId")) or text(bubble.get("id"))
    if bubble.get("type") in (1, "user"):
        pieces.texts += [_named(each) for each in sequence(bubble.get("selectedImages"))]
        yield pieces.record("user", id=source, ts=ts)
        return
    if bubble.get("type") not in (2, "ai"):
        yield parts.unknown("message without a known type")
        return
    thought = mapping(bubble.get("thinking"))
    pieces.think(thought.get("text"), thought.get("signature"))
    _add_tool(pieces, mapping(bubble.get("toolFormerData")))
    own = text(mapping(bubble.get("modelInfo")).get("modelName")) or text(bubble.get("modelType"))
    yield pieces.record("assistant", id=source, ts=ts, model=own or model)
    yield from pieces.given(ts)
    told = mapping(bubble.get("tokenCount"))
    usage = entries.Usage(
        prompt=count(told.get("inputTokens")) or None,
        completion=count(told.get("outputTokens")) or None,
    )
    yield from parts.used(usage, own or model, answer=source)


def _named(image: object) -> str:
    path = text(mapping(image).get("path")).replace("\\", "/")
    return f"[image: {path.rsplit('/', 1)[-1]}]" if path else "[image]"


def _add_tool(pieces: parts.MessageParts, tool: dict[str, Any]) -> None:
    """The one call that a message stands for, with what came of it."""
    if not (name := text(tool.get("name"))):
        return
    arguments = tool.get("rawArgs") or tool.get("params") or "{}"
    call = pieces.call(name, arguments, tool.get("toolCallId"))
    status = text(tool.get("status"))
    if (result := tool.get("result")) or status in _DONE:
        given = result if isinstance(result, str) else "" if result is None else as_json(result)
        pieces.give(call.id, given, name=name, status=_DONE.get(status, "ok"))


def _transcript(path: Path) -> Records:
    """What the agent of the command line wrote down."""
    yield Began(id=path.stem)
    yield from sources.each_with(sources.records_of(path), _noted)


def _noted(number: int, fields: dict[str, Any]) -> Records:
    pieces = parts.pieces_of_blocks(mapping(fields.get("message")).get("content"), number)
    match fields.get("role"):
        case _ if pieces is None:
            yield Broken(line=number, why="the content is neither text nor a list of blocks")
        case "user":
            pieces.texts[:] = asked_in(pieces.texts)
            yield from pieces.given("")
            yield pieces.record("user")
        case "assistant":
            yield pieces.record("assistant")
        case role:
            yield parts.unknown(f"{text(role) or 'nameless'} message")


CURSOR = Format(name="cursor", title="Cursor", recognises=_recognises, read=_read, many=True)
