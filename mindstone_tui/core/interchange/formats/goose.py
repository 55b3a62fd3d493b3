"""goose: `goose session export --format json`, or the older `sessions/*.jsonl`.

The export is one object with a `conversation`; the older file has a line about the session, then a
message a line. Tool results come as messages of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.formats.parts import (
    Numbered,
    document,
    is_lines,
    joined,
    plain,
    records_of,
    tool_call,
    unknown,
)
from mindstone_tui.core.interchange.reading import mapping, moment, sequence, text
from mindstone_tui.core.interchange.records import Aside, Began, Broken, Gave, Record, Said, Titled


def _recognises(sample: Sample) -> bool:
    if sample.objects and "working_dir" in sample.objects[0]:
        return True
    return b'"working_dir"' in sample.start and b'"conversation"' in sample.start


def _read(path: Path) -> Iterator[Record]:
    for found in _found(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        if "role" in fields:
            yield from _message(number, fields)
        elif "working_dir" in fields:
            yield Began(id=text(fields.get("id")), ts=moment(fields.get("created_at")))
            if title := text(fields.get("name")) or text(fields.get("description")):
                yield Titled(title=title)
        else:
            yield unknown(fields.get("type"))


def _found(path: Path) -> Iterator[Numbered | Broken]:
    if is_lines(path, "conversation"):
        yield from records_of(path)
        return
    session = document(path)
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


def _message(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    ts = moment(fields.get("created"))
    pieces: list[str] = []
    calls: list[ToolCall] = []
    thinking: list[Thinking] = []
    for at, each in enumerate(sequence(fields.get("content"))):
        part = mapping(each)
        match part.get("type"):
            case "toolRequest" | "frontendToolRequest":
                wish = mapping(mapping(part.get("toolCall")).get("value"))
                spare = f"call-{number}-{at}"
                calls.append(
                    tool_call(part.get("id"), wish.get("name"), wish.get("arguments"), spare)
                )
            case "toolResponse":
                yield _result(number, part, ts)
            case "thinking" | "redactedThinking":
                thinking.append(
                    Thinking(
                        text=text(part.get("thinking")),
                        signature=text(part.get("signature")),
                        redacted=text(part.get("data")),
                    )
                )
            case "text" | "image":
                pieces.append(plain(part) or "")
            case kind:
                yield unknown(kind)
    role = fields.get("role")
    said = joined(pieces)
    if role not in ("user", "assistant"):
        yield Broken(line=number, why="a message without a known role")
    elif said or calls or thinking:
        yield Said(
            line=number,
            role=role,
            text=said,
            id=text(fields.get("id")),
            ts=ts,
            calls=tuple(calls) if role == "assistant" else (),
            thinking=tuple(thinking) if role == "assistant" else (),
        )
    elif not sequence(fields.get("content")):
        yield Aside(what="empty message")


def _result(number: int, part: dict[str, Any], ts: str) -> Gave:
    """A result; its value is a list of contents, or an object that has one."""
    result = mapping(part.get("toolResult"))
    value = result.get("value")
    content = value.get("content") if isinstance(value, dict) else value
    failed = result.get("status") == "error" or mapping(value).get("isError") is True
    said = plain(content) or text(result.get("error"))
    return Gave(
        line=number,
        call=text(part.get("id")),
        text=said,
        status="error" if failed else "ok",
        ts=ts,
    )


GOOSE = Format(name="goose", title="goose", recognises=_recognises, read=_read)
