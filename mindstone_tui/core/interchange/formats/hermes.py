"""Hermes and Grok, which keep the messages of a chat API.

Hermes: `~/.hermes/state.db`, and the `sessions/*.jsonl` and `session_*.json` beside it. What was
rewound, and what the program wrote for the model alone, is counted as left out; what a compaction
took out of the window stays.

Grok: `~/.grok/sessions/<folder>/<id>/chat_history.jsonl`, both versions of it. What the session is,
and its only date, stand in `summary.json` beside it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from ..read_bytes import Fields, Flaw, mapping, moment, sequence, text
from . import sources
from .base import About, Aside, Began, Broken, Format, Records, Sample
from .parts import (
    ANOTHER_BRANCH,
    MessageParts,
    add_block,
    chat_message,
    counted,
    first_of,
    titled,
    unknown,
    used,
)

_META: Final = "session_meta"
_COUNTS: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    "reasoning_tokens",
)


_GROK: Final = "chat_history.jsonl"
_PERSON: Final = ("", "interjection")
"""Why a message stands in the file that a person wrote."""
_MARKS: Final = frozenset({"prompt_index", "synthetic_reason", "model_id"})


def _recognises(sample: Sample) -> bool:
    first = sample.objects[0] if sample.objects else {}
    if first.get("role") == _META or {"session_id", "session_start", "messages"} <= first.keys():
        return True
    return sources.has_columns(sample, "messages", "content", "tool_calls", "tool_call_id")


@sources.guarded
def _read(path: Path) -> Records:
    if sources.is_database(path):
        yield from _stored(path)
        return
    if sources.is_lines(path, "messages"):
        yield Began(id=path.stem)
        found = sources.records_of(path)
        about = next((each for _, each in sources.sound(sources.records_of(path))), {})
        yield from sources.each_with(found, partial(_message, text(about.get("model"))))
        return
    session = sources.document(path)
    if isinstance(session, Broken):
        yield session
        return
    model = text(session.get("model"))
    began = moment(session.get("session_start"))
    yield Began(id=text(session.get("session_id")) or path.stem, ts=began)
    for number, each in enumerate(sequence(session.get("messages")), 1):
        fields = each if isinstance(each, dict) else {}
        yield from _message(model, number, {"timestamp": began, **fields})


def _stored(path: Path) -> Records:
    """Every session of the database."""
    with sources.connected(path) as connection:
        for session in sources.rows(connection, "SELECT * FROM sessions ORDER BY started_at, id"):
            yield Began(id=text(session.get("id")), ts=moment(session.get("started_at")))
            yield from titled(session.get("title"))
            yield About(
                folder=text(session.get("cwd")),
                branch=text(session.get("git_branch")),
                parent=text(session.get("parent_session_id")),
            )
            model = text(session.get("model"))
            query = "SELECT * FROM messages WHERE session_id = ? ORDER BY timestamp, id"
            for row in sources.rows(connection, query, (text(session.get("id")),)):
                calls = sources.json_in(row.get("tool_calls"))
                told = {**row, "tool_calls": None if isinstance(calls, Flaw) else calls}
                yield from _message(model, row.get("id") or 0, told)
            cost = first_of(session, "actual_cost_usd", "estimated_cost_usd")
            usage = counted(session, *_COUNTS, apart=True, cost=cost)
            yield from used(usage, model, so_far=True)


def _message(model: str, number: int, fields: Fields) -> Records:
    if fields.get("active") == 0 and fields.get("compacted") != 1:
        yield Aside(what=ANOTHER_BRANCH)
    elif fields.get("_compressed_summary") == 1 or fields.get("display_kind") == "hidden":
        yield Aside(what="message for the model alone")
    elif (role := text(fields.get("role"))) == _META:
        yield Aside(what=role)
    else:
        yield from chat_message(number, fields, role, moment(fields.get("timestamp")), model)


HERMES = Format(name="hermes", title="Hermes", recognises=_recognises, read=_read, many=True)


def _is_grok(sample: Sample) -> bool:
    told = any("content" in each and _MARKS & each.keys() for each in sample.objects[:16])
    return told or (sample.path.name == _GROK and any("role" in it for it in sample.objects[:4]))


def _read_grok(path: Path) -> Records:
    about = sources.beside(path.with_name("summary.json"))
    info = mapping(about.get("info"))
    ts = moment(about.get("created_at"))
    yield Began(id=text(info.get("id")) or path.absolute().parent.name, ts=ts)
    yield from titled(first_of(about, "generated_title", "session_summary"))
    yield About(
        folder=text(info.get("cwd")),
        branch=text(about.get("head_branch")),
        parent=text(about.get("parent_session_id")),
    )
    yield from sources.each_with(sources.records_of(path), partial(_grok, ts))


def _grok(ts: str, number: int, fields: Fields) -> Records:
    role, model = text(first_of(fields, "type", "role")), text(fields.get("model_id"))
    if role == "user" and text(fields.get("synthetic_reason")) not in _PERSON:
        yield Aside(what="message of the program")
    elif role == "reasoning":
        pieces = MessageParts(number)
        add_block(pieces, fields)
        yield pieces.record("assistant", ts=ts)
    elif role in ("user", "assistant", "tool", "tool_result"):
        yield from chat_message(number, fields, role, ts, model)
    else:
        yield unknown(role)


GROK = Format(name="grok", title="Grok", recognises=_is_grok, read=_read_grok)
