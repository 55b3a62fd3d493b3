"""DeepSeek Harness: `~/.dsh/sessions/<folder>/<id>/session*.jsonl`, unpacked.

A header, then a line an event. What the screen shows is appended as a message; the pieces that a
message came in, and what plug-ins put in under the person's name, are counted as left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..read_bytes import Fields, mapping, moment, text
from .base import About, Aside, Began, Broken, Format, Records, Sample, Titled
from .parts import MessageParts, counted, model_of, pieces_of_blocks, unknown, used
from .sources import each_with, records_of

_COUNTS: Final = (
    *("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"),
    "reasoningTokens",
)


def _recognises(sample: Sample) -> bool:
    return any(
        each.get("type") == "session" and {"id", "createdAt", "delegationDepth"} <= each.keys()
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Records:
    return each_with(records_of(path), _event)


def _event(number: int, fields: Fields) -> Records:
    data, ts = mapping(fields.get("data")), moment(fields.get("time"))
    match fields.get("type"):
        case "session":
            yield Began(id=text(fields.get("id")), ts=moment(fields.get("createdAt")))
            is_child = fields.get("origin") == "subagent"
            parent = text(fields.get("parentSession")) if is_child else ""
            yield About(folder=text(fields.get("cwd")), parent=parent)
        case "session/title":
            yield Titled(title=text(data.get("title")))
        case "user/message":
            yield from _message(number, data, ts)
        case "assistant/message":
            yield from _message(number, mapping(data.get("message")), ts)
            source = mapping(mapping(data.get("message")).get("source"))
            told = counted(mapping(data.get("usage")), *_COUNTS, apart=True)
            yield from used(told, model_of(source))
        case "tool/result":
            yield from _message(number, mapping(data.get("message")), ts)
        case kind:
            yield unknown(kind)


def _message(number: int, message: Fields, ts: str) -> Records:
    pieces: MessageParts | None = pieces_of_blocks(message.get("content"), number)
    source, name = mapping(message.get("source")), text(message.get("id"))
    match source.get("kind"):
        case _ if pieces is None:
            yield Broken(line=number, why="the content is neither text nor a list of blocks")
        case "model":
            yield pieces.record("assistant", id=name, ts=ts, model=model_of(source))
        case "tool":
            yield from pieces.given(ts, name)
        case "user":
            yield pieces.record("user", id=name, ts=ts)
        case _:
            yield Aside(what="message of the program")


DSH = Format(name="dsh", title="DeepSeek Harness", recognises=_recognises, read=_read)
