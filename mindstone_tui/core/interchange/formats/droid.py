"""Droid of Factory: `~/.factory/sessions/<project>/<id>.jsonl`.

A line says how the session began, then a line a message in the shape of Anthropic's API. Beside it,
`<id>.settings.json` has the model and the tokens of the whole session. What the program slips into
messages as reminders, its lists of work and its own summaries are counted as left out.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from ..read_bytes import Fields, mapping, moment, text
from .base import About, Aside, Began, Broken, Format, Records, Sample
from .parts import MessageParts, counted, cut_tags, pieces_of_blocks, titled, unknown, used
from .sources import beside, each_with, records_of

_REMINDERS: Final = ("system-reminder", "system-notification")


def _recognises(sample: Sample) -> bool:
    return any(
        each.get("type") == "session_start" and "id" in each and not {"ts", "event"} & each.keys()
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Records:
    settings = beside(path.with_name(f"{path.stem}.settings.json"))
    model = text(settings.get("model"))
    yield from each_with(records_of(path), partial(_record, model))
    told = mapping(settings.get("tokenUsage"))
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    yield from used(counted(told, *names, "thinkingTokens", apart=True), model, so_far=True)


def _record(model: str, number: int, fields: Fields) -> Records:
    match fields.get("type"):
        case "session_start":
            yield from _start(fields)
        case "message":
            yield from _message(number, fields, model)
        case "compaction_state":
            yield Aside(what="summary of the program")
        case kind:
            yield unknown(kind)


def _start(fields: Fields) -> Records:
    """How it began; older versions keep it one level deeper."""
    inner = {**mapping(fields.get("session")), **fields}
    ts = moment(inner.get("created_at")) or moment(inner.get("timestamp"))
    yield Began(id=text(inner.get("id")), ts=ts)
    yield from titled(text(inner.get("sessionTitle")) or inner.get("title"))
    yield About(
        folder=text(inner.get("cwd")) or text(inner.get("workspace_root")),
        parent=text(inner.get("callingSessionId")) or text(inner.get("parent")),
    )


def _message(number: int, fields: Fields, model: str) -> Records:
    message = mapping(fields.get("message"))
    pieces = pieces_of_blocks(message.get("content"), number)
    ts, source = moment(fields.get("timestamp")), text(fields.get("id"))
    match message.get("role"):
        case _ if pieces is None:
            yield Broken(line=number, why="the content is neither text nor a list of blocks")
        case "assistant":
            model = text(message.get("model")) or text(message.get("modelId")) or model
            yield pieces.record("assistant", id=source, ts=ts, model=model)
        case "user":
            yield from pieces.given(ts, source)
            yield from _person(pieces, source, ts)
        case role:
            yield unknown(f"{text(role) or 'nameless'} message")


def _person(pieces: MessageParts, source: str, ts: str) -> Records:
    """What the person said, without what the program put beside it."""
    had_words = bool(pieces.texts)
    own: list[str] = []
    for each in pieces.texts:
        kept, reminders = cut_tags(each, _REMINDERS)
        own.append(kept)
        yield from (Aside(what="reminder of the program") for _ in reminders)
    pieces.texts[:] = own
    if pieces.said or not (had_words or pieces.results):
        yield pieces.record("user", id=source, ts=ts)


DROID = Format(name="droid", title="Droid", recognises=_recognises, read=_read)
