"""goose: `sessions.db`, `goose session export --format json`, or the older `sessions/*.jsonl`.

The export is one object with a `conversation`; the older file has a line about the session, then a
message a line; the database has a row a message. Tool results come as messages of the user. What
the program wrote for the model alone (summaries of its own history) is counted as left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..read_bytes import Fields, mapping, moment, sequence, text
from . import sources
from .base import About, Aside, Began, Broken, Format, Gave, Records, Sample
from .parts import MessageParts, add_block, counted, joined, plain, result_of, titled, unknown, used

_ABOUT = frozenset({"working_dir", "extension_data", "message_count"})
"""A line about the session has one of these at least."""


def _recognises(sample: Sample) -> bool:
    if sample.first.keys() & _ABOUT or (
        b'"working_dir"' in sample.start and _has_body(sample.start)
    ):
        return True
    known = any(map(_is_message, sample.objects))
    return known or sources.has_columns(sample, "messages", "content_json")


def _has_body(start: bytes) -> bool:
    return b'"conversation"' in start or b'"message_count"' in start


def _is_message(fields: Fields) -> bool:
    """Whether an object is a message of goose: a time in seconds, and parts with a type."""
    return (
        "role" in fields
        and isinstance(fields.get("created"), int)
        and any("type" in mapping(each) for each in sequence(fields.get("content")))
    )


@sources.guarded
def _read(path: Path) -> Records:
    return sources.each_with(_found(path), _records)


def _records(number: int, fields: Fields) -> Records:
    if "role" in fields:
        if mapping(fields.get("metadata")).get("userVisible") is False:
            yield Aside(what="message for the model alone")
        else:
            yield from _message(number, fields)
    elif fields.keys() & _ABOUT:
        yield Began(id=text(fields.get("id")), ts=moment(fields.get("created_at")))
        yield from titled(text(fields.get("name")) or fields.get("description"))
        yield About(folder=text(fields.get("working_dir")))
        usage = counted(fields, "accumulated_input_tokens", "accumulated_output_tokens")
        yield from used(usage, so_far=True)
    else:
        yield unknown(fields.get("type"))


def _found(path: Path) -> Iterator[sources.Numbered | Broken]:
    if sources.is_database(path):
        yield from _stored(path)
    elif sources.is_lines(path, "conversation"):
        yield from sources.records_of(path)
    else:
        yield from _exported(path)


def _exported(path: Path) -> Iterator[sources.Numbered | Broken]:
    session = sources.document(path)
    if isinstance(session, Broken):
        yield session
        return
    yield 0, {key: value for key, value in session.items() if key != "conversation"}
    conversation = session.get("conversation", session.get("messages"))
    if isinstance(conversation, dict):
        conversation = conversation.get("messages")
    for number, message in enumerate(sequence(conversation), 1):
        if isinstance(message, dict) and "role" in message:
            yield number, message
        else:
            yield Broken(line=number, why="a message without a role")


def _stored(path: Path) -> Iterator[sources.Numbered | Broken]:
    """The rows of the database as an export has them: a session, then its messages."""
    with sources.connected(path) as connection:
        for session in sources.rows(connection, "SELECT * FROM sessions ORDER BY created_at, id"):
            yield 0, session
            found = sources.rows(
                connection,
                "SELECT * FROM messages WHERE session_id = ? ORDER BY created_timestamp, id",
                (str(session.get("id")),),
            )
            for row in found:
                message = {
                    "id": row.get("message_id"),
                    "role": row.get("role"),
                    "created": row.get("created_timestamp"),
                    "content": sources.json_in(row.get("content_json")),
                    "metadata": sources.json_in(row.get("metadata_json")),
                }
                if isinstance(message["content"], list):
                    yield row.get("id") or 0, message
                else:
                    yield Broken(line=row.get("id") or 0, why="a message without content")


_BLOCKS: Final = {"redactedThinking": "redacted_thinking"}
"""Kinds of content that others know by another name."""


def _message(number: int, fields: Fields) -> Records:
    ts = moment(fields.get("created"))
    pieces = MessageParts(number)
    listed = sequence(fields.get("content"))
    for part in map(mapping, listed):
        match part.get("type"):
            case "toolRequest" | "frontendToolRequest":
                wish = mapping(mapping(part.get("toolCall")).get("value"))
                pieces.call(wish.get("name"), wish.get("arguments"), part.get("id"))
            case "toolResponse":
                yield _result(number, part, ts)
            case "text" | "image" | "thinking" | "redactedThinking":
                add_block(pieces, {**part, "type": _BLOCKS.get(text(part["type"]), part["type"])})
            case kind:
                yield unknown(kind)
    if (role := fields.get("role")) not in ("user", "assistant"):
        yield Broken(line=number, why="a message without a known role")
    elif pieces.has_any or not listed:
        yield pieces.record(role, id=text(fields.get("id")), ts=ts)


def _result(number: int, part: Fields, ts: str) -> Gave:
    """A result; its value is a list of contents, or an object that has one."""
    result = mapping(part.get("toolResult"))
    value = result.get("value")
    content = value.get("content") if isinstance(value, dict) else value
    failed = result.get("status") == "error" or mapping(value).get("isError") is True
    said = joined(_resource(each) or plain([each]) or "" for each in sequence(content))
    said = said or text(content) or text(result.get("error"))
    return result_of(number, part.get("id"), content, said=said, failed=failed, ts=ts)


def _resource(content: object) -> str:
    """The text of a file that a tool handed over."""
    return text(mapping(mapping(content).get("resource")).get("text"))


GOOSE = Format(name="goose", title="goose", recognises=_recognises, read=_read, many=True)
