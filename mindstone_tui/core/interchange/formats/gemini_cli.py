"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json`, or `.jsonl` in newer versions.

A message carries its tool calls together with their results. In JSONL the newest message is written
again whenever its calls change, with notes about the session in between; the last writing counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindstone_tui.core.entries.conversation import Thinking, ToolStatus
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
from mindstone_tui.core.interchange.reading import as_json, mapping, moment, sequence, text
from mindstone_tui.core.interchange.records import Aside, Began, Broken, Gave, Record, Said, Titled

_STATUS: dict[str, ToolStatus] = {
    "success": "ok",
    "error": "error",
    "cancelled": "interrupted",
}


def _recognises(sample: Sample) -> bool:
    return b'"projectHash"' in sample.start and b'"sessionId"' in sample.start


def _read(path: Path) -> Iterator[Record]:
    held: Numbered | None = None
    for found in _found(path):
        if isinstance(found, Broken):
            yield found
            continue
        _, fields = found
        if not ("type" in fields and "id" in fields):
            yield from _about(fields)
            continue
        if held is not None and held[1]["id"] != fields["id"]:
            yield from _records(*held)
        held = found
    if held is not None:
        yield from _records(*held)


def _found(path: Path) -> Iterator[Numbered | Broken]:
    if is_lines(path, "messages"):
        yield from records_of(path)
        return
    session = document(path)
    if isinstance(session, Broken):
        yield session
        return
    yield 0, {key: value for key, value in session.items() if key != "messages"}
    for number, message in enumerate(sequence(session.get("messages")), 1):
        if isinstance(message, dict):
            yield number, message
        else:
            yield Broken(line=number, why="a message that is not an object")


def _about(fields: dict[str, Any]) -> Iterator[Record]:
    """What is said about the session as a whole."""
    if "projectHash" in fields:
        yield Began(id=text(fields.get("sessionId")), ts=moment(fields.get("startTime")))
    if summary := text(fields.get("summary") or mapping(fields.get("$set")).get("summary")):
        yield Titled(title=summary)
    if "projectHash" not in fields:
        yield unknown(next(iter(fields), ""))


def _records(number: int, fields: dict[str, Any]) -> Iterator[Record]:
    ts = moment(fields.get("timestamp"))
    said = plain(fields.get("content"))
    if said is None:
        yield Broken(line=number, why="the content is neither text nor a list of parts")
        return
    match fields.get("type"):
        case "user":
            yield Said(line=number, role="user", text=said, id=text(fields.get("id")), ts=ts)
        case "gemini":
            yield from _answer(number, fields, said, ts)
        case kind:
            yield unknown(kind)


def _answer(number: int, fields: dict[str, Any], said: str, ts: str) -> Iterator[Record]:
    used = [mapping(each) for each in sequence(fields.get("toolCalls"))]
    calls = tuple(
        tool_call(each.get("id"), each.get("name"), each.get("args"), f"call-{number}-{at}")
        for at, each in enumerate(used)
    )
    thoughts = tuple(
        Thinking(text=joined((text(each.get("subject")), text(each.get("description")))))
        for each in map(mapping, sequence(fields.get("thoughts")))
    )
    if not (said or calls or thoughts):
        yield Aside(what="empty answer")
        return
    yield Said(
        line=number,
        role="assistant",
        text=said,
        id=text(fields.get("id")),
        ts=ts,
        model=text(fields.get("model")),
        calls=calls,
        thinking=thoughts,
    )
    for call, each in zip(calls, used, strict=True):
        if each.get("result") is not None:
            yield Gave(
                line=number,
                call=call.id,
                text=joined(_result(part) for part in _listed(each.get("result"))),
                name=call.name,
                status=_STATUS.get(text(each.get("status")), "ok"),
                ts=moment(each.get("timestamp")) or ts,
            )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _result(part: object) -> str:
    """The text of one part of a result, which usually is a function's response."""
    response = mapping(mapping(part).get("functionResponse")).get("response")
    if isinstance(response, dict):
        inner = response.get("output", response.get("error", response))
        return inner if isinstance(inner, str) else as_json(inner)
    return plain(part) or ""


GEMINI_CLI = Format(name="gemini-cli", title="Gemini CLI", recognises=_recognises, read=_read)
