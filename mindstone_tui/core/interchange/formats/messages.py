"""Plain messages: a JSON object a line, or one array of them: what anything can be turned into.

    {"id": "m1", "role": "user", "name": "Ada", "content": "Hello", "ts": "2026-01-01T12:00:00Z"}

`role` is user, assistant or tool. Only `role` and `content` are needed. An assistant's line may
carry `model` and `tool_calls` (`id`, `name`, `arguments`), a tool's line the `tool_call_id` that it
answers and a `status`; content may be a text or a list of parts as chat APIs use them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast, get_args

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.interchange.formats.base import Broken, Format, Gave, Record, Said, Sample
from mindstone_tui.core.interchange.formats.parts import Numbered, plain, records_of, tool_call
from mindstone_tui.core.interchange.read_bytes import (
    Flaw,
    decode_object,
    elements,
    mapping,
    moment,
    open_file,
    sequence,
    text,
)

_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_LOOK = 4_096
_TIMES = ("ts", "timestamp", "created_at", "time")


def _recognises(sample: Sample) -> bool:
    return any(_is_message(each) for each in sample.objects[:4]) or (
        _ARRAY.match(sample.start) is not None and _first_is_message(sample.start)
    )


def _is_message(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("role"), str) and "content" in fields and "type" not in fields


def _first_is_message(start: bytes) -> bool:
    """Whether the array that a file begins with holds messages, by its first one."""
    _, first = next(elements(io.BytesIO(start)), (0, Flaw("empty")))
    found = decode_object(first) if isinstance(first, bytes) else first
    return isinstance(found, dict) and _is_message(found)


def _read(path: Path) -> Iterator[Record]:
    with open_file(path) as stream:
        is_array = _ARRAY.match(stream.read(_LOOK)) is not None
    for found in _elements(path) if is_array else records_of(path):
        yield found if isinstance(found, Broken) else _record(*found)


def _elements(path: Path) -> Iterator[Numbered | Broken]:
    with open_file(path) as stream:
        for number, raw in elements(stream):
            found = decode_object(raw) if isinstance(raw, bytes) else raw
            yield Broken(line=number, why=found.why) if isinstance(found, Flaw) else (number, found)


def _record(number: int, fields: dict[str, Any]) -> Record:
    calls = tuple(
        _call(number, at, each) for at, each in enumerate(sequence(fields.get("tool_calls")))
    )
    said = plain(fields.get("content"))
    if said is None or ("content" not in fields and not calls):
        return Broken(line=number, why="the content is neither text nor a list of parts")
    match fields.get("role"):
        case "user" | "human":
            return _said(number, "user", said, fields)
        case "assistant":
            return _said(number, "assistant", said, fields, calls)
        case "tool" | "function":
            status = fields.get("status")
            return Gave(
                line=number,
                call=text(fields.get("tool_call_id")),
                text=said,
                name=text(fields.get("name")),
                status=cast(ToolStatus, status) if status in get_args(ToolStatus) else "ok",
                id=text(fields.get("id")),
                ts=_time(fields),
            )
        case str() as role:
            return Broken(line=number, why=f"a {role} message is not part of a conversation")
        case _:
            return Broken(line=number, why="no role")


def _said(
    number: int,
    role: Literal["user", "assistant"],
    said: str,
    fields: dict[str, Any],
    calls: tuple[ToolCall, ...] = (),
) -> Said:
    return Said(
        line=number,
        role=role,
        text=said,
        id=text(fields.get("id")),
        name=text(fields.get("name")),
        ts=_time(fields),
        model=text(fields.get("model")),
        calls=calls,
    )


def _time(fields: dict[str, Any]) -> str:
    return next((found for name in _TIMES if (found := moment(fields.get(name)))), "")


def _call(number: int, at: int, fields: object) -> ToolCall:
    """A call, flat or nested under `function` as chat APIs have it."""
    call = mapping(fields)
    inner = mapping(call.get("function")) or call
    return tool_call(
        call.get("id"), inner.get("name"), inner.get("arguments"), f"call-{number}-{at}"
    )


MESSAGES = Format(name="messages", title="plain messages", recognises=_recognises, read=_read)
