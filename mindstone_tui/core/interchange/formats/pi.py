"""pi: `~/.pi/agent/sessions/<project>/<time>_<id>.jsonl`, all three versions.

OpenClaw is built on it and keeps its sessions so, too: `~/.openclaw/agents/<name>/sessions`.

A header, then entries; later versions link them into a tree, and the branch that ends in the last
entry is the conversation. Commands that the person ran are theirs; what an extension put in and
what the program summed up are counted as left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from ..pictures import pictures_in
from ..read_bytes import Fields, mapping, moment, sequence, text
from . import parts
from .base import About, Aside, Began, Broken, Format, Record, Said, Sample, Titled, Used
from .sources import each_with, records_of, sound

_HOMES: Final = frozenset({".openclaw", ".clawdbot", ".moltbot"})
_SNAPSHOT: Final = "model-snapshot"
_MIRROR: Final = "openclaw/delivery-mirror"
"""The "model" of an answer that stands a second time, as it went out to a messenger."""


def _recognises(sample: Sample) -> bool:
    return any(
        (each.get("type") == "session" and {"id", "cwd", "timestamp"} <= each.keys())
        or (each.get("type") == "message" and "role" in mapping(each.get("message")))
        for each in sample.objects
    ) and not any(each.get("type") == "session_start" for each in sample.objects)


def _is_openclaw(sample: Sample) -> bool:
    kinds = {text(each.get("customType")) for each in sample.objects}
    told = _SNAPSHOT in kinds or any(each.startswith("openclaw") for each in kinds)
    return (told or bool(_HOMES & set(sample.path.parts))) and _recognises(sample)


def _read(path: Path) -> Iterator[Record]:
    return each_with(records_of(path), partial(_entry, _branches(path)))


def _entry(branches: parts.Branches, number: int, fields: Fields) -> Iterator[Record]:
    match fields.get("type"):
        case "message" if not branches.keeps(text(fields.get("id"))):
            yield Aside(what=parts.ANOTHER_BRANCH)
        case "session":
            yield Began(id=text(fields.get("id")), ts=moment(fields.get("timestamp")))
            yield About(folder=text(fields.get("cwd")))
        case "session_info":
            yield Titled(title=text(fields.get("name")))
        case "message":
            message = mapping(fields.get("message"))
            yield _message(number, fields, message)
            yield from _used(message)
        case kind:
            yield parts.unknown(kind)


def _branches(path: Path) -> parts.Branches:
    """Which entry follows which; the first versions have no names, and no branches."""
    branches = parts.Branches()
    for _, fields in sound(records_of(path)):
        if "parentId" in fields:
            parent = fields["parentId"]
            branches.add(text(fields.get("id")), None if parent is None else text(parent))
    return branches


def _message(number: int, fields: Fields, message: Fields) -> Record:
    ts = moment(fields.get("timestamp")) or moment(message.get("timestamp"))
    source = text(fields.get("id"))
    match message.get("role"):
        case "user":
            if (said := parts.plain(message.get("content"))) is None:
                return Broken(line=number, why="the content is neither text nor a list of blocks")
            images = pictures_in(message.get("content"))
            return Said(line=number, role="user", text=said, id=source, ts=ts, images=images)
        case "assistant":
            pieces = parts.pieces_of_blocks(sequence(message.get("content")), number)
            model, finish = parts.model_of(message), text(message.get("stopReason"))
            if pieces is None or model == _MIRROR:
                return Aside(what="copy of what was delivered")
            return pieces.record("assistant", id=source, ts=ts, model=model, finish=finish)
        case "toolResult":
            call, name = message.get("toolCallId"), message.get("toolName")
            given, failed = message.get("content"), message.get("isError") is True
            return parts.result_of(number, call, given, name=name, failed=failed, id=source, ts=ts)
        case "bashExecution":
            ran = parts.joined((f"!{text(message.get('command'))}", text(message.get("output"))))
            return Said(line=number, role="user", text=ran, id=source, ts=ts)
        case role:
            return parts.unknown(role)


def _used(message: Fields) -> Iterator[Record]:
    if (usage := mapping(message.get("usage"))) and message.get("role") == "assistant":
        names = ("input", "output", "cacheRead", "cacheWrite")
        cost = mapping(usage.get("cost")).get("total")
        took = parts.counted(usage, *names, apart=True, cost=cost)
        yield Used(usage=took, model=parts.model_of(message))


PI = Format(name="pi", title="pi", recognises=_recognises, read=_read)
OPENCLAW = Format(name="openclaw", title="OpenClaw", recognises=_is_openclaw, read=_read)
