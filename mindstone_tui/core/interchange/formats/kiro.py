"""Kiro: sessions of its command line, `~/.kiro/sessions/cli/<id>.jsonl`, and of its editor.

The command line writes a line an entry: a prompt, an answer, the results of its tools; what the
session is stands in `<id>.json` beside it. The editor's files have the shape of Continue's.
"""

from __future__ import annotations

import base64
from itertools import chain
from pathlib import Path
from typing import Final

from ..pictures import Picture
from ..read_bytes import Fields, as_json, mapping, moment, sequence, text
from .base import About, Began, Broken, Format, Records, Sample, Used
from .continue_dev import is_session, read_session
from .parts import MessageParts, counted, error_if, joined, titled, unknown
from .sources import beside, is_lines, records_of

_KINDS: Final = ("Prompt", "AssistantMessage", "ToolResults")
_EDITOR: Final = ("workspace-sessions", "kiro.kiroagent")


def _recognises(sample: Sample) -> bool:
    if any(each in sample.path.parts for each in _EDITOR) and is_session(sample):
        return True
    return any(
        each.get("kind") in _KINDS and "content" in mapping(each.get("data"))
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Records:
    if not is_lines(path, "history"):
        yield from read_session(path)
        return
    about = beside(path.with_suffix(".json"))
    yield Began(id=text(about.get("session_id")) or path.stem, ts=moment(about.get("created_at")))
    yield from titled(about.get("title"))
    yield About(folder=text(about.get("cwd")))
    state = mapping(about.get("session_state"))
    model = text(mapping(mapping(state.get("rts_model_state")).get("model_info")).get("model_id"))
    ts = moment(about.get("created_at"))
    turns = sequence(mapping(state.get("conversation_metadata")).get("user_turn_metadatas"))
    ended = _ended([mapping(each) for each in turns])
    for record in records_of(path):
        if isinstance(record, Broken):
            yield record
            continue
        number, fields = record
        data = mapping(fields.get("data"))
        # Only prompts and the ends of turns are dated; what stands between is as old as the prompt.
        dated = moment(mapping(data.get("meta")).get("timestamp"))
        ts = dated or ended.get(text(data.get("message_id")), ts)
        yield from _entry(number, text(fields.get("kind")), data, ts, model)
    for each in map(mapping, turns):
        usage = counted(each, "input_token_count", "output_token_count")
        if usage.prompt or usage.completion:
            yield Used(usage=usage, model=model)


def _ended(turns: list[Fields]) -> dict[str, str]:
    """When turns ended, by the last message of each."""
    found = ((sequence(it.get("message_ids")), moment(it.get("end_timestamp"))) for it in turns)
    return {text(ids[-1]): ts for ids, ts in found if ids and ts}


def _entry(number: int, kind: str, data: Fields, ts: str, model: str) -> Records:
    pieces = MessageParts(number)
    for each in map(mapping, sequence(data.get("content"))):
        value = each.get("data")
        match each.get("kind"):
            case "text":
                pieces.texts.append(text(value))
            case "thinking" | "reasoning":
                pieces.think(mapping(value).get("text"), mapping(value).get("signature"))
            case "toolUse":
                used = mapping(value)
                pieces.call(used.get("name"), used.get("input"), used.get("toolUseId"))
            case "toolResult":
                _add_result(pieces, mapping(value))
            case "image":
                pieces.texts.append("[image]")
                pieces.images += _pictures(value)
            case other:
                yield unknown(other)
    source = text(data.get("message_id"))
    match kind:
        case "Prompt":
            yield pieces.record("user", id=source, ts=ts)
        case "AssistantMessage":
            yield pieces.record("assistant", id=source, ts=ts, model=model)
        case "ToolResults":
            yield from pieces.given(ts, source)
        case _:
            yield unknown(kind)


def _add_result(pieces: MessageParts, value: Fields) -> None:
    parts = [mapping(each) for each in sequence(value.get("content"))]
    shown = [_pictures(each.get("data")) for each in parts if each.get("kind") == "image"]
    pieces.give(
        value.get("toolUseId"),
        joined(map(_given, parts)),
        status=error_if(value.get("status") == "error"),
        images=tuple(chain(*shown)),
    )


def _given(part: Fields) -> str:
    data = part.get("data")
    if part.get("kind") == "image":
        return "[image]"
    return data if isinstance(data, str) else as_json(data)


def _pictures(value: object) -> tuple[Picture, ...]:
    """A picture's bytes, which the program writes as numbers."""
    source = mapping(mapping(value).get("source"))
    data = source.get("data") or source.get("bytes")
    if isinstance(data, str):
        return (Picture(data=data),)
    try:
        return (Picture(data=base64.b64encode(bytes(sequence(data))).decode()),)
    except (TypeError, ValueError):
        return ()


KIRO = Format(name="kiro", title="Kiro", recognises=_recognises, read=_read)
