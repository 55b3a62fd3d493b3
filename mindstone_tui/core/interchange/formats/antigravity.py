"""Antigravity: `brain/<id>/.system_generated/logs/transcript.jsonl` below `~/.gemini/antigravity*`.

A line a step. The model's answers name their calls; what a call gave is the next step of another
kind, and does not say which call it answers. `transcript_full.jsonl` beside it is whole where the
other is cut, and is read in its place. The conversation's own file is encrypted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..read_bytes import Fields, mapping, moment, text
from .base import Aside, Began, Format, Gave, Records, Sample
from .parts import MessageParts, add_calls, cut_tags, error_if, joined, unknown
from .sources import each_with, records_of

_ASKED: Final = "USER_REQUEST"
_ADDED: Final = ("ADDITIONAL_METADATA", "USER_SETTINGS_CHANGE", "EPHEMERAL_MESSAGE")
_WHOLE: Final = "transcript_full.jsonl"
_ANSWER: Final = "PLANNER_RESPONSE"
_SOURCES: Final = ("USER_EXPLICIT", "MODEL", "SYSTEM")


def _recognises(sample: Sample) -> bool:
    return any(
        each.get("source") in _SOURCES
        and "type" in each
        and {"step_index", "content"} & each.keys()
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Records:
    whole = path.with_name(_WHOLE)
    logs = path.absolute().parent
    yield Began(id=logs.parent.parent.name if logs.name == "logs" else path.stem)
    yield from each_with(records_of(whole if whole.is_file() else path), _step)


def _step(number: int, fields: Fields) -> Records:
    kind, source, content = (text(fields.get(name)) for name in ("type", "source", "content"))
    ts = moment(fields.get("created_at"))
    pieces = MessageParts(number)
    if source == "USER_EXPLICIT":
        pieces.texts.append(_asked(content))
        yield pieces.record("user", ts=ts)
    elif source == "SYSTEM" or not kind:
        yield unknown(kind.lower())
    elif kind == _ANSWER:
        pieces.texts.append(content)
        pieces.think(fields.get("thinking"))
        add_calls(pieces, fields.get("tool_calls"))
        yield pieces.record("assistant", ts=ts)
    elif fields.get("status") == "RUNNING":
        yield Aside(what="step that was not over")
    else:
        error = text(mapping(fields.get("error")).get("message")) or text(fields.get("error"))
        failed = error_if(bool(error) or fields.get("status") == "ERROR")
        said, name = joined((content, error)), kind.lower()
        yield Gave(line=number, call="", text=said, name=name, status=failed, ts=ts)


def _asked(content: str) -> str:
    """What the person said, without what the program put around it."""
    around, found = cut_tags(content, (_ASKED, *_ADDED))
    inside = [cut_tags(each, _ADDED)[0].strip() for name, each in found if name == _ASKED]
    return joined(inside) or around


ANTIGRAVITY = Format(name="antigravity", title="Antigravity", recognises=_recognises, read=_read)
