"""Plain messages: a JSON object a line, or one array of them: what anything can be turned into.

    {"id": "m1", "role": "user", "name": "Ada", "content": "Hello", "ts": "2026-01-01T12:00:00Z"}

`role` is user, assistant or tool. Only `role` and `content` are needed. An assistant's line may
carry `model` and `tool_calls` (`id`, `name`, `arguments`), a tool's line the `tool_call_id` that it
answers and a `status`; content may be a text or a list of parts as chat APIs use them.
"""

from pathlib import Path
from typing import cast, get_args

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import ToolStatus

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import Broken, Format, Gave, Record, Records, Said, Sample
from .parts import plain, tool_call
from .sources import array_of, is_array, records_of

_TIMES = ("ts", "timestamp", "created_at", "time")


def _recognises(sample: Sample) -> bool:
    return any(map(_is_message, (*sample.objects[:4], *sample.elements)))


def _is_message(fields: Fields) -> bool:
    return isinstance(fields.get("role"), str) and "content" in fields and "type" not in fields


def _read(path: Path) -> Records:
    for found in array_of(path) if is_array(path) else records_of(path):
        yield found if isinstance(found, Broken) else _record(*found)


def _record(number: int, fields: Fields) -> Record:
    calls = tuple(_call(number, at, it) for at, it in enumerate(sequence(fields.get("tool_calls"))))
    said = plain(fields.get("content"))
    if said is None or ("content" not in fields and not calls):
        return Broken(line=number, why="the content is neither text nor a list of parts")
    match fields.get("role"):
        case "user" | "human" | "assistant" as role:
            is_answer = role == "assistant"
            return Said(
                line=number,
                role="assistant" if is_answer else "user",
                text=said,
                id=text(fields.get("id")),
                name=text(fields.get("name")),
                ts=_time(fields),
                model=text(fields.get("model")),
                calls=calls if is_answer else (),
            )
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


def _time(fields: Fields) -> str:
    return next((found for name in _TIMES if (found := moment(fields.get(name)))), "")


def _call(number: int, at: int, fields: object) -> ToolCall:
    """A call, flat or nested under `function` as chat APIs have it."""
    call = mapping(fields)
    own = mapping(call.get("function")) or call
    return tool_call(call.get("id"), own.get("name"), own.get("arguments"), f"call-{number}-{at}")


MESSAGES = Format(name="messages", title="plain messages", recognises=_recognises, read=_read)
