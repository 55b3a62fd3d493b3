"""Kiro: sessions of its command line, `~/.kiro/sessions/cli/<id>.jsonl`, and of its editor.

The command line writes a line an entry: a prompt, an answer, the results of its tools; what the
session is stands in `<id>.json` beside it. The editor's files have the shape of Continue's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mindstone_tui.core.interchange.formats.base import (
    About,
    Began,
    Broken,
    Format,
    Record,
    Sample,
    Titled,
)
from mindstone_tui.core.interchange.formats.blocks import BlockResult, MessageParts
from mindstone_tui.core.interchange.formats.continue_dev import is_session, read_session
from mindstone_tui.core.interchange.formats.parts import (
    document,
    is_lines,
    joined,
    records_of,
    unknown,
)
from mindstone_tui.core.interchange.read_bytes import as_json, mapping, moment, sequence, text

_KINDS: Final = ("Prompt", "AssistantMessage", "ToolResults")
_EDITOR: Final = ("workspace-sessions", "kiro.kiroagent")


def _recognises(sample: Sample) -> bool:
    if any(each in sample.path.parts for each in _EDITOR) and is_session(sample):
        return True
    return any(
        each.get("kind") in _KINDS and "content" in mapping(each.get("data"))
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Iterator[Record]:
    if not is_lines(path, "history"):
        yield from read_session(path)
        return
    beside = path.with_suffix(".json")
    found = document(beside) if beside.is_file() else {}
    about = found if isinstance(found, dict) else {}
    yield Began(id=text(about.get("session_id")) or path.stem, ts=moment(about.get("created_at")))
    if title := text(about.get("title")):
        yield Titled(title=title)
    yield About(folder=text(about.get("cwd")))
    state = mapping(about.get("session_state"))
    model = text(mapping(mapping(state.get("rts_model_state")).get("model_info")).get("model_id"))
    ts = moment(about.get("created_at"))
    for record in records_of(path):
        if isinstance(record, Broken):
            yield record
            continue
        number, fields = record
        data = mapping(fields.get("data"))
        # Only prompts are dated; what follows is as old as the prompt.
        ts = moment(mapping(data.get("meta")).get("timestamp")) or ts
        yield from _entry(number, text(fields.get("kind")), data, ts, model)


def _entry(number: int, kind: str, data: dict[str, Any], ts: str, model: str) -> Iterator[Record]:
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
                pieces.results.append(_result(mapping(value)))
            case "image":
                pieces.texts.append("[image]")
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


def _result(value: dict[str, Any]) -> BlockResult:
    given = (mapping(each).get("data") for each in sequence(value.get("content")))
    return BlockResult(
        call=text(value.get("toolUseId")),
        text=joined(each if isinstance(each, str) else as_json(each) for each in given),
        status="error" if value.get("status") == "error" else "ok",
    )


KIRO = Format(name="kiro", title="Kiro", recognises=_recognises, read=_read)
