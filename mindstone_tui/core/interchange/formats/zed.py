"""Zed: `threads/threads.db` in its data folder, a row a thread of its own agent.

A thread is one JSON object, compressed; older rows and older versions of the object are read, too.
Only threads are dated, not their messages.
"""

from __future__ import annotations

import importlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from ..pictures import Picture
from ..read_bytes import (
    LONGEST_RECORD,
    Fields,
    Flaw,
    decode_object,
    mapping,
    moment,
    sequence,
    text,
)
from . import sources
from .base import About, Began, Broken, Format, Records, Sample
from .parts import (
    MessageParts,
    add_calls,
    counted,
    error_if,
    joined,
    model_of,
    titled,
    unknown,
    used,
)

_COUNTS: Final = (
    *("input_tokens", "output_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
)
_UNPACKER: Final = ("zstd", "-dcq")


def _recognises(sample: Sample) -> bool:
    return sources.has_columns(sample, "threads", "summary", "data_type", "data")


@sources.guarded
def _read(path: Path) -> Records:
    with sources.connected(path) as connection:
        found = sources.rows(connection, "SELECT * FROM threads ORDER BY updated_at, id")
        for number, row in enumerate(found, 1):
            yield from _thread(number, row)


def _thread(number: int, row: Fields) -> Records:
    yield Began(id=text(row.get("id")), ts=(ts := _dated(row)))
    yield from titled(row.get("summary"))
    folder = text(row.get("folder_paths")).partition("\n")[0]
    yield About(folder=folder, parent=text(row.get("parent_id")))
    thread = decode_object(_unpacked(row))
    if isinstance(thread, Flaw):
        yield Broken(line=number, why=thread.why)
        return
    model = model_of(mapping(thread.get("model")))
    for at, message in enumerate(sequence(thread.get("messages")), 1):
        if "role" in mapping(message):
            yield from _older(at, message, ts, model)
        elif kind := next(iter(mapping(message)), ""):
            yield from _message(at, kind, mapping(message[kind]), ts, model)
        else:
            yield unknown(message)
    told = mapping(thread.get("cumulative_token_usage"))
    yield from used(counted(told, *_COUNTS, apart=True), model, so_far=True)


def _dated(row: Fields) -> str:
    return moment(row.get("created_at")) or moment(row.get("updated_at"))


def _unpacked(row: Fields) -> bytes | Flaw:
    """A thread's bytes; those of newer rows are compressed."""
    data = row.get("data")
    raw = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""
    if row.get("data_type") != "zstd":
        return raw
    try:
        zstd = importlib.import_module("compression.zstd")  # Python has it from 3.14 on
        plain = zstd.ZstdDecompressor().decompress(raw, LONGEST_RECORD + 1)
    except ImportError:
        plain = _by_program(raw)
    except Exception as error:  # whatever a damaged frame makes of it
        return Flaw(f"a thread that cannot be unpacked: {error}")
    if not plain:
        return Flaw("Zed packed this thread, and there is no program `zstd` here that unpacks it")
    return Flaw(f"larger than {LONGEST_RECORD >> 20} MB") if len(plain) > LONGEST_RECORD else plain


def _by_program(raw: bytes) -> bytes:
    """The same by a program of this machine; empty where there is none, or it fails."""
    with tempfile.TemporaryFile() as packed:
        packed.write(raw)
        packed.seek(0)
        try:
            unpacker = subprocess.Popen(
                _UNPACKER, stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            return b""
        with unpacker:
            plain = unpacker.stdout.read(LONGEST_RECORD + 1) if unpacker.stdout else b""
            unpacker.kill()
    return plain


def _message(number: int, kind: str, fields: Fields, ts: str, model: str) -> Records:
    pieces = MessageParts(number)
    for block in map(mapping, sequence(fields.get("content"))):
        _add(pieces, block)
    match kind:
        case "User":
            yield pieces.record("user", id=text(fields.get("id")), ts=ts)
        case "Agent":
            yield pieces.record("assistant", ts=ts, model=model)
            for call, given in mapping(fields.get("tool_results")).items():
                _give(pieces, call, mapping(given))
            yield from pieces.given(ts)
        case _:
            yield unknown(kind)


def _add(pieces: MessageParts, block: Fields) -> None:
    """One block, which is called by its only name."""
    kind = next(iter(block), "")
    value = block.get(kind)
    inside = mapping(value)
    match kind:
        case "Text":
            pieces.texts.append(text(value))
        case "Thinking":
            pieces.think(inside.get("text"), inside.get("signature"))
        case "RedactedThinking":
            pieces.think("", redacted=value)
        case "ToolUse":
            add_calls(pieces, [inside])
        case "Mention":
            pieces.texts.append(_mentioned(inside))
        case "Image":
            pieces.texts.append("[image]")
            pieces.images.append(Picture(data=text(inside.get("source"))))


def _mentioned(mention: Fields) -> str:
    """What a person pointed at, by name, and what it said."""
    uri: Any = mention.get("uri")
    about = mapping(next(iter(uri.values()), None)) if isinstance(uri, dict) else {}
    name = text(about.get("abs_path")) or text(about.get("name")) or text(uri)
    return joined((f"[file: {name}]" if name else "", text(mention.get("content"))))


def _give(pieces: MessageParts, call: str, given: Fields) -> None:
    content = given.get("content")
    parts = content if isinstance(content, list) else [content]
    said = joined(_given(each) for each in parts) or text(given.get("output"))
    status = error_if(given.get("is_error") is True)
    pieces.give(call, said, name=given.get("tool_name"), status=status)


def _given(part: Any) -> str:
    """A text, or one that is called so; a picture by its name."""
    found = mapping(part)
    return (
        text(part)
        or text(found.get("Text"))
        or text(found.get("text"))
        or ("[image]" if "Image" in found else "")
    )


def _older(number: int, message: Fields, ts: str, model: str) -> Records:
    """A message of the first agent of the program."""
    pieces = MessageParts(number)
    for segment in map(mapping, sequence(message.get("segments"))):
        if segment.get("type") == "text":
            pieces.texts.append(text(segment.get("text")))
        else:
            pieces.think(segment.get("text"), segment.get("signature"), segment.get("data"))
    add_calls(pieces, message.get("tool_uses"))
    match message.get("role"):
        case "user" | "assistant" as role:
            yield pieces.record(role, id=text(message.get("id")), ts=ts, model=model)
        case role:
            yield unknown(f"{text(role) or 'nameless'} message")
    for each in map(mapping, sequence(message.get("tool_results"))):
        _give(pieces, text(each.get("tool_use_id")), each)
    yield from pieces.given(ts)


ZED = Format(name="zed", title="Zed", recognises=_recognises, read=_read, many=True)
