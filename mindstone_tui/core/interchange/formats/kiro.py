"""Kiro: sessions of its command line, `~/.kiro/sessions/cli/<id>.jsonl`, and of its editor.

The command line writes a line an entry: a prompt, an answer, the results of its tools; what the
session is stands in `<id>.json` beside it. Its older versions, and Amazon Q before them, keep each
conversation as one object, in `data.sqlite3` or where `/save` wrote it: pairs of what went to the
model and what it answered. The editor's files have the shape of Continue's.
"""

import base64
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, Literal

import msgspec

from ..pictures import Picture
from ..read_bytes import Fields, as_json, mapping, moment, sequence, text
from . import parts, sources
from .base import About, Began, Broken, Format, Records, Sample, Used
from .continue_dev import is_session, read_session

_NO_VALUE: Final = Broken(line=1, why="a conversation that is no object")
_KINDS: Final = ("Prompt", "AssistantMessage", "ToolResults")
_TABLES: Final = ("conversations_v2", "conversations")
_EDITOR: Final = ("workspace-sessions", "kiro.kiroagent")


def _recognises(sample: Sample) -> bool:
    if {"conversation_id", "history"} <= sample.first.keys() or any(
        sources.has_columns(sample, each, "key", "value") for each in _TABLES
    ):
        return True
    if any(each in sample.path.parts for each in _EDITOR) and is_session(sample):
        return True
    return any(
        each.get("kind") in _KINDS and "content" in mapping(each.get("data"))
        for each in sample.objects[:4]
    )


@sources.guarded
def _read(path: Path) -> Records:
    if sources.is_database(path):
        for number, found, row in _stored(path):
            yield from _pairs(number, found, row)
        return
    if not sources.is_lines(path, "history"):
        found = sources.document(path)
        is_saved = not isinstance(found, Broken) and "conversation_id" in found
        yield from _pairs(1, found, {}) if is_saved else read_session(path)
        return
    about = sources.beside(path.with_suffix(".json"))
    yield Began(id=text(about.get("session_id")) or path.stem, ts=moment(about.get("created_at")))
    yield from parts.titled(about.get("title"))
    yield About(folder=text(about.get("cwd")))
    state = mapping(about.get("session_state"))
    model = text(mapping(mapping(state.get("rts_model_state")).get("model_info")).get("model_id"))
    ts = moment(about.get("created_at"))
    turns = sequence(mapping(state.get("conversation_metadata")).get("user_turn_metadatas"))
    ended = _ended([mapping(each) for each in turns])
    for record in sources.records_of(path):
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
        usage = parts.counted(each, "input_token_count", "output_token_count")
        if usage.prompt or usage.completion:
            yield Used(usage=usage, model=model)


def _stored(path: Path) -> Iterator[tuple[int, Fields | Broken, Fields]]:
    """The conversations of the database; those that a newer table has again are not told twice."""
    seen: set[str] = set()
    with sources.connected(path) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        for table in (each for each in _TABLES if each in tables):
            for number, row in enumerate(sources.rows(connection, f"SELECT * FROM {table}"), 1):
                found = sources.json_in(row.get("value"))
                name = text(row.get("conversation_id") or mapping(found).get("conversation_id"))
                if name not in seen:
                    yield number, found if isinstance(found, dict) else _NO_VALUE, row
                seen.add(name)


def _pairs(line: int, found: Fields | Broken, row: Fields) -> Records:
    """One conversation; what tools gave goes to the model as the person's half of a pair."""
    if isinstance(found, Broken):
        yield msgspec.structs.replace(found, line=line)
        return
    ts = moment(row.get("created_at"))
    yield Began(id=text(found.get("conversation_id")), ts=ts)
    yield About(folder=text(row.get("key")))
    for number, pair in enumerate(sequence(found.get("history")), 1):
        halves = [pair.get("user"), pair.get("assistant")] if isinstance(pair, dict) else pair
        asked, answered = map(mapping, halves) if len(sequence(halves)) == 2 else ({}, {})
        ts = moment(asked.get("timestamp")) or ts
        place = mapping(mapping(asked.get("env_context")).get("env_state"))
        yield About(folder=text(place.get("current_working_directory")))
        model = text(mapping(mapping(pair).get("request_metadata")).get("model_id"))
        yield from _pair(number, mapping(asked.get("content")), answered, ts, model)


def _pair(number: int, asked: Fields, answered: Fields, ts: str, model: str) -> Records:
    pieces = parts.MessageParts(number)
    for kind, value in asked.items():
        for each in map(mapping, sequence(mapping(value).get("tool_use_results"))):
            found = chain(*(mapping(part).values() for part in sequence(each.get("content"))))
            said = parts.joined(map(as_json, found))
            status = parts.error_if(text(each.get("status")).lower() == "error")
            pieces.give(each.get("tool_use_id"), said, status=status)
        pieces.texts.append(text(mapping(value).get("prompt")))
        yield from pieces.given(ts)
        if pieces.said or kind == "Prompt":
            yield pieces.record("user", ts=ts)
    for answer in map(mapping, answered.values()):
        pieces = parts.MessageParts(number, said=text(answer.get("content")))
        parts.add_calls(pieces, answer.get("tool_uses"))
        yield pieces.record("assistant", id=text(answer.get("message_id")), ts=ts, model=model)


def _ended(turns: list[Fields]) -> dict[str, str]:
    """When turns ended, by the last message of each."""
    found = ((sequence(it.get("message_ids")), moment(it.get("end_timestamp"))) for it in turns)
    return {text(ids[-1]): ts for ids, ts in found if ids and ts}


def _entry(number: int, kind: str, data: Fields, ts: str, model: str) -> Records:
    pieces = parts.MessageParts(number)
    for each in map(mapping, sequence(data.get("content"))):
        value, inside = each.get("data"), mapping(each.get("data"))
        match each.get("kind"):
            case "text":
                pieces.texts.append(text(value))
            case "thinking" | "reasoning":
                pieces.think(inside.get("text"), inside.get("signature"))
            case "toolUse":
                pieces.call(inside.get("name"), inside.get("input"), inside.get("toolUseId"))
            case "toolResult":
                _add_result(pieces, inside)
            case "image":
                pieces.texts.append("[image]")
                pieces.images += _pictures(value)
            case other:
                yield parts.unknown(other)
    source = text(data.get("message_id"))
    if kind == "ToolResults":
        yield from pieces.given(ts, source)
    elif kind in _KINDS:
        role: Literal["user", "assistant"] = "user" if kind == "Prompt" else "assistant"
        yield pieces.record(role, id=source, ts=ts, model=model)
    else:
        yield parts.unknown(kind)


def _add_result(pieces: parts.MessageParts, value: Fields) -> None:
    given = [mapping(each) for each in sequence(value.get("content"))]
    images = chain(*(_pictures(it.get("data")) for it in given if it.get("kind") == "image"))
    said = parts.joined(
        "[image]" if it.get("kind") == "image" else as_json(it.get("data")) for it in given
    )
    status = parts.error_if(value.get("status") == "error")
    pieces.give(value.get("toolUseId"), said, status=status, images=tuple(images))


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


KIRO = Format(name="kiro", title="Kiro", recognises=_recognises, read=_read, many=True)
