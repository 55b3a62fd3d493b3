"""Zed: `threads/threads.db` in its data folder, a row a thread of its own agent.

A thread is one JSON object, compressed; older rows and older versions of the object are read, too.
Only threads are dated, not their messages.
"""

import importlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from mindstone_tui.core.paths import helper

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
from . import parts, sources
from .base import About, Began, Broken, Format, Records, Sample

_KINDS: Final = {
    "Text": "text",
    "Mention": "text",
    "Image": "image",
    "ToolUse": "tool_use",
    "Thinking": "thinking",
    "RedactedThinking": "redacted_thinking",
}
_COUNTS: Final = (
    *("input_tokens", "output_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
)
_RATIO: Final = 1_000
"""Threads may unpack to so many times their size; a log that was read 200 times does to 600."""


def _recognises(sample: Sample) -> bool:
    return sources.has_columns(sample, "threads", "summary", "data_type", "data")


@sources.guarded
def _read(path: Path) -> Records:
    with sources.connected(path) as connection:
        found = sources.rows(connection, "SELECT * FROM threads ORDER BY updated_at, id")
        left = sources.most_unpacked(sources.stored_size(path), _RATIO)
        for number, row in enumerate(found, 1):
            raw = _unpacked(row)
            left -= len(raw) if isinstance(raw, bytes) else 0
            if left < 0:
                yield Broken(line=number, why="the threads unpack to far more than threads do")
                return
            yield from _thread(number, row, raw)


def _thread(number: int, row: Fields, raw: bytes | Flaw) -> Records:
    ts = moment(row.get("created_at")) or moment(row.get("updated_at"))
    yield Began(id=text(row.get("id")), ts=ts)
    yield from parts.titled(row.get("summary"))
    folder = text(row.get("folder_paths")).partition("\n")[0]
    yield About(folder=folder, parent=text(row.get("parent_id")))
    thread = decode_object(raw)
    if isinstance(thread, Flaw):
        yield Broken(line=number, why=thread.why)
        return
    model = parts.model_of(mapping(thread.get("model")))
    for at, message in enumerate(sequence(thread.get("messages")), 1):
        known = message if isinstance(message, dict) else {text(message): {}}
        yield from _message(at, known, ts, model)
    told = mapping(thread.get("cumulative_token_usage"))
    yield from parts.used(parts.counted(told, *_COUNTS, apart=True), model, so_far=True)


def _unpacked(row: Fields) -> bytes | Flaw:
    """A thread's bytes; those of newer rows are compressed."""
    data = row.get("data")
    raw = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""
    if row.get("data_type") != "zstd":
        return raw
    try:
        zstd = importlib.import_module("compression.zstd")  # Python has it from 3.14 on
        plain: bytes = zstd.ZstdDecompressor().decompress(raw, LONGEST_RECORD + 1)
    except ImportError:
        plain = _by_program(raw)
    except Exception as error:  # whatever a damaged frame makes of it
        return Flaw(f"a thread that cannot be unpacked: {error}")
    if not plain or len(plain) > LONGEST_RECORD:
        return Flaw("Zed packed this thread, and it cannot be unpacked here: is `zstd` installed?")
    return plain


def _by_program(raw: bytes) -> bytes:
    """The same by a program of this machine; empty where there is none, or it fails."""
    with tempfile.TemporaryFile() as packed:
        packed.write(raw)
        packed.seek(0)
        try:
            unpacker = subprocess.Popen(
                [helper("zstd") or "", "-dcq"],
                stdin=packed,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return b""
        with unpacker:
            plain = unpacker.stdout.read(LONGEST_RECORD + 1) if unpacker.stdout else b""
            unpacker.kill()
    return plain


def _message(number: int, message: Fields, ts: str, model: str) -> Records:
    """A message under its kind, or one of the program's first agent, which has a role."""
    kind = text(message.get("role")) or next(iter(message), "")
    fields = mapping(message.get(kind)) or message
    content = sequence(fields.get("content")) or sequence(fields.get("segments"))
    pieces = parts.MessageParts(number)
    for each in map(mapping, content):
        parts.add_block(pieces, _block(each))
    parts.add_calls(pieces, fields.get("tool_uses"))
    match kind.lower():
        case "user":
            yield pieces.record("user", id=text(fields.get("id")), ts=ts)
        case "agent" | "assistant":
            yield pieces.record("assistant", ts=ts, model=model)
        case _:
            yield parts.unknown(f"{kind} message")
    results = fields.get("tool_results")
    for given in map(mapping, results.values() if isinstance(results, dict) else results or ()):
        found = given.get("content")
        blocks = [_block(mapping(each)) for each in found] if isinstance(found, list) else found
        said = (parts.plain(blocks) or "") or text(given.get("output"))
        call, name = given.get("tool_use_id"), given.get("tool_name")
        failed = given.get("is_error") is True
        yield parts.result_of(number, call, None, said=said, name=name, failed=failed, ts=ts)


def _block(block: Fields) -> Fields:
    """A block as others have it: here its kind is its only name."""
    kind = text(block.get("type")) or next(iter(block), "")
    value = block if "type" in block else block.get(kind)
    inside = mapping(value)
    if kind == "Mention":
        place = inside.get("uri")
        found = mapping(next(iter(place.values()), None)) if isinstance(place, dict) else {}
        name = text(parts.first_of(found, "abs_path", "name")) or text(place)
        value = parts.joined((f"[file: {name}]" if name else "", text(inside.get("content"))))
    said = {"text": value, "data": value} if isinstance(value, str) else {}
    return {**inside, **said, "thinking": inside.get("text"), "type": _KINDS.get(kind, kind)}


ZED = Format(name="zed", title="Zed", recognises=_recognises, read=_read, many=True)
