"""Plain messages: a JSON object a line, the format anything can be turned into.

    {"id": "m1", "role": "user", "name": "Ada", "content": "Hello", "ts": "2026-01-01T12:00:00Z"}

`role` is user, assistant or tool. Only `role` and `content` are needed. An assistant's line may
carry `tool_calls` (`id`, `name`, `arguments`), a tool's line the `tool_call_id` it answers and a
`status`; content may be a text or a list of parts as chat APIs use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.interchange.formats.format import Format, Sample
from mindstone_tui.core.interchange.reading import (
    Flaw,
    as_json,
    mapping,
    moment,
    objects,
    open_file,
    sequence,
    text,
)
from mindstone_tui.core.interchange.records import Broken, Gave, Record, Said

_TIMES = ("ts", "timestamp", "created_at", "time")


def _recognises(sample: Sample) -> bool:
    return any(
        isinstance(each.get("role"), str) and "content" in each and "type" not in each
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Iterator[Record]:
    with open_file(path) as stream:
        for number, found in objects(stream):
            if isinstance(found, Flaw):
                yield Broken(line=number, why=found.why)
            else:
                yield _record(number, found)


def _record(number: int, fields: dict[str, Any]) -> Record:
    said = content_text(fields.get("content"))
    calls = tuple(
        _call(number, at, each) for at, each in enumerate(sequence(fields.get("tool_calls")))
    )
    if said is None and not calls:
        return Broken(line=number, why="the content is neither text nor a list of parts")
    ts = next((found for name in _TIMES if (found := moment(fields.get(name)))), "")
    match fields.get("role"):
        case "user" | "human":
            return Said(
                line=number,
                role="user",
                text=said or "",
                id=text(fields.get("id")),
                name=text(fields.get("name")),
                ts=ts,
            )
        case "assistant":
            return Said(
                line=number,
                role="assistant",
                text=said or "",
                id=text(fields.get("id")),
                name=text(fields.get("name")),
                ts=ts,
                model=text(fields.get("model")),
                calls=calls,
            )
        case "tool" | "function":
            status = fields.get("status")
            return Gave(
                line=number,
                call=text(fields.get("tool_call_id")),
                text=said or "",
                name=text(fields.get("name")),
                status=cast(ToolStatus, status) if status in get_args(ToolStatus) else "ok",
                id=text(fields.get("id")),
                ts=ts,
            )
        case str() as role:
            return Broken(line=number, why=f"a {role} message is not part of a conversation")
        case _:
            return Broken(line=number, why="no role")


def content_text(content: object) -> str | None:
    """The text of a message's content; None when it holds something else."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    pieces = [
        part if isinstance(part, str) else text(mapping(part).get("text")) for part in content
    ]
    return "\n\n".join(filter(None, pieces))


def _call(number: int, at: int, fields: object) -> ToolCall:
    """A call, flat or nested under `function` as chat APIs have it."""
    call = mapping(fields)
    inner = mapping(call.get("function")) or call
    return ToolCall(
        id=text(call.get("id")) or f"call-{number}-{at}",
        name=text(inner.get("name")) or "tool",
        arguments=as_json(inner.get("arguments", {})),
    )


MESSAGES = Format(name="messages", title="plain messages", recognises=_recognises, read=_read)
