"""Plain messages: a JSON object a line, or one array of them: what anything can be turned into.

    {"id": "m1", "role": "user", "name": "Ada", "content": "Hello", "ts": "2026-01-01T12:00:00Z"}

`role` is user, assistant or tool. Only `role` and `content` are needed. An assistant's line may
carry `model` and `tool_calls` (`id`, `name`, `arguments`), a tool's line the `tool_call_id` that it
answers and a `status`; content may be a text or a list of parts as chat APIs use them.
`marks` say how a message stood in the session that `mindstone export -f messages` wrote.
"""

from pathlib import Path
from typing import cast, get_args

import msgspec

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import Aside, Broken, Format, Gave, Marked, Record, Records, Said, Sample
from .parts import plain, tool_call
from .sources import array_of, is_array, records_of

_JUDGED = pattern_of(
    r"(?:imported .*, )?"
    r"(superseded|corrected in part|changes to files taken back|taken back) (?:by #|there)"
)
"""How our own export marks messages that do not simply hold; its numbers mean nothing here."""
_TIMES = ("ts", "timestamp", "created_at", "time")


def _recognises(sample: Sample) -> bool:
    return any(map(_is_message, (*sample.objects[:4], *sample.elements)))


def _is_message(fields: Fields) -> bool:
    return isinstance(fields.get("role"), str) and "content" in fields and "type" not in fields


def _read(path: Path) -> Records:
    for found in array_of(path) if is_array(path) else records_of(path):
        yield from [found] if isinstance(found, Broken) else _records(*found)


def _records(number: int, fields: Fields) -> Records:
    """A message with how it stood where it was exported, unless it was rewound there."""
    own, marks = text(fields.get("id")), [text(each) for each in sequence(fields.get("marks"))]
    if own and any(mark.startswith("rewound by #") for mark in marks):
        yield Aside(what="rewound", taken_back=own)
        return
    record = _record(number, fields)
    if isinstance(record, Said) and record.role == "assistant" and "interrupted" in marks:
        record = msgspec.structs.replace(record, cut_off=True)
    yield record
    if own and (said := [f"{found[1]} there" for found in map(_JUDGED.match, marks) if found]):
        yield Marked(message=own, words=", ".join(said))


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
