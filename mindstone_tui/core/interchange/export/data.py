"""A session as data: every entry, or the conversation alone as plain messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.line import FORMAT
from mindstone_tui.core.interchange.export.story import StorySource
from mindstone_tui.core.transcript import Damaged


def json_pieces(source: StorySource) -> Iterator[str]:
    """One JSON object with all entries, whole, an entry a line.

    Each entry is as its line in the transcript is, but texts that stood in blobs are inside and
    `hash` still is the hash of the line as it was written.
    """
    yield f'{{"mindstone_session":1,"session":{_json(source.session)},"entries":['
    between = "\n"
    damaged: list[dict[str, Any]] = []
    for item in source.items():
        if isinstance(item, Damaged):
            damaged.append({"offset": item.offset, "why": item.why})
        else:
            yield between + _json(_entry(item))
            between = ",\n"
    yield f'\n],"damaged":{_json(damaged)}}}\n'


def _entry(line: Line) -> dict[str, Any]:
    own = line.entry.fields if isinstance(line.entry, Unknown) else msgspec.to_builtins(line.entry)
    return {
        "v": FORMAT,
        "seq": line.seq,
        "id": line.id,
        "session": line.session,
        "ts": line.ts,
        "turn": line.turn,
        "role": line.role,
        "channel": line.channel,
        **own,
        "kind": line.kind,
        "parent": line.parent,
        "prev": line.prev,
        "hash": line.hash,
    }


def message_pieces(source: StorySource) -> Iterator[str]:
    """A message a line, as `import --from messages` reads them."""
    for line in source.lines():
        if message := _message(line):
            yield _json(message) + "\n"


def _message(line: Line) -> dict[str, Any]:
    match line.entry:
        case UserMessage(text=text, name=name, source_id=source):
            own: dict[str, Any] = {"role": "user", "name": name, "content": text}
        case AssistantMessage(source_id=source) as answer:
            own = {
                "role": "assistant",
                "name": answer.name,
                "content": answer.text,
                "model": answer.model,
                "tool_calls": msgspec.to_builtins(answer.calls),
            }
        case ToolReturned(source_id=source) as result:
            own = {
                "role": "tool",
                "name": result.name,
                "content": result.text,
                "tool_call_id": result.call,
                "status": "" if result.status == "ok" else result.status,
            }
        case _:
            return {}
    kept = {key: value for key, value in own.items() if value or key in ("role", "content")}
    return {"id": source or line.id, **kept, "ts": line.ts}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
