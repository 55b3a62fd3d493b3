"""Continue and Kiro: a JSON file a session, `~/.continue/sessions/<id>.json`.

Kiro's editor comes from Continue and keeps the same shape below its `workspace-sessions`; what its
agent did there stands elsewhere, in files that it does not share. Dates are only in the list of all
sessions beside the file, and there only for the beginning.

Kiro's command line writes a line an entry, `~/.kiro/sessions/cli/<id>.jsonl`: a prompt, an answer,
the results of its tools; what the session is stands in `<id>.json` beside it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.patterns import pattern_of

from ..pictures import Picture
from ..read_bytes import as_json, mapping, moment, sequence, text
from .base import About, Began, Broken, Format, Gave, Record, Sample, Used
from .parts import MessageParts, counted, error_if, joined, money, plain, titled, unknown, used
from .sources import array_of, beside, document, is_lines, records_of

_LIST: Final = "sessions.json"
_ID: Final = "sessionId"
_ADDRESS: Final = pattern_of(r"file://|vscode-remote://[^/]*")
_DRIVE: Final = pattern_of(r"/[A-Za-z]:")
_STATUS: Final[dict[str, ToolStatus]] = {"errored": "error", "canceled": "refused"}


def _is_session(sample: Sample) -> bool:
    """Whether a file is a session of this shape."""
    first = sample.objects[0] if sample.objects else {}
    history = sequence(first.get("history"))
    shaped = not history or "role" in mapping(mapping(history[0]).get("message"))
    return "history" in first and shaped and bool({_ID, "workspaceDirectory"} & first.keys())


def _read_session(path: Path) -> Iterator[Record]:
    """The session that a file is."""
    found = document(path)
    if isinstance(found, Broken):
        yield found
        return
    name = text(found.get(_ID)) or path.stem
    ts = moment(found.get("dateCreated")) or _listed(path.with_name(_LIST), name)
    yield Began(id=name, ts=ts)
    yield from titled(found.get("title"))
    folder = text(found.get("workspaceDirectory")) or text(found.get("workspacePath"))
    yield About(folder=_folder(folder))
    answered: set[str] = set()
    chosen = text(found.get("chatModelTitle"))
    total = mapping(found.get("usage"))
    model = ""
    for number, each in enumerate(sequence(found.get("history")), 1):
        model = _model(mapping(each)) or model
        yield from _item(number, mapping(each), ts, answered, chosen)
        if not total:
            yield from _used_by(mapping(mapping(each).get("message")))
    yield from _used_in_all(total, model or chosen)


def _folder(named: str) -> str:
    """A folder that is written as an address, or as itself."""
    if not (found := _ADDRESS.match(named)):
        return named
    path = unquote(named[found.end() :])
    return path[1:] if _DRIVE.match(path) else path


def _used_by(message: dict[str, Any]) -> Iterator[Record]:
    told = mapping(message.get("usage"))
    cost = (money(told.get("cost_cents")) or 0) / 100
    return used(counted(told, "prompt_tokens", "completion_tokens", cost=cost), told.get("model"))


def _used_in_all(total: dict[str, Any], model: str) -> Iterator[Record]:
    """What the whole session took; the file does not say by which of its models."""
    told = {**mapping(total.get("promptTokensDetails")), **total}
    names = ("promptTokens", "completionTokens", "cachedTokens", "cacheWriteTokens")
    return used(counted(told, *names, cost=total.get("totalCost")), model, so_far=True)


def _listed(path: Path, name: str) -> str:
    """When a session was begun, from the list beside it."""
    for found in array_of(path) if path.is_file() else ():
        if isinstance(found, tuple) and found[1].get(_ID) == name:
            return moment(found[1].get("dateCreated"))
    return ""


def _item(
    number: int, fields: dict[str, Any], ts: str, answered: set[str], chosen: str
) -> Iterator[Record]:
    message = mapping(fields.get("message"))
    said = plain(message.get("content"))
    pieces = MessageParts(number)
    source = text(message.get("id"))
    match message.get("role"):
        case _ if said is None:
            yield Broken(line=number, why="the content is neither text nor a list of parts")
        case "user":
            pieces.texts += [said, *_context(fields)]
            yield pieces.record("user", id=source, ts=ts)
        case "thinking":
            pieces.think(said, message.get("signature"))
            yield pieces.record("assistant", ts=ts)
        case "assistant":
            pieces.texts.append(said)
            pieces.think(mapping(fields.get("reasoning")).get("text"))
            for each in map(mapping, sequence(message.get("toolCalls"))):
                called = mapping(each.get("function"))
                pieces.call(called.get("name"), called.get("arguments"), each.get("id"))
            yield pieces.record("assistant", id=source, ts=ts, model=_model(fields) or chosen)
            yield from _results(number, fields, ts, answered)
        case "tool" if text(message.get("toolCallId")) in answered:
            return
        case "tool":
            answered.add(text(message.get("toolCallId")))
            yield Gave(line=number, call=text(message.get("toolCallId")), text=said, ts=ts)
        case role:
            yield unknown(f"{text(role) or 'nameless'} message")


def _context(fields: dict[str, Any]) -> Iterator[str]:
    """What the person added to a message, by name."""
    for each in map(mapping, sequence(fields.get("contextItems"))):
        name = text(each.get("name")) or text(each.get("description"))
        if name:
            yield joined((f"[file: {name}]", text(each.get("content"))))


def _model(fields: dict[str, Any]) -> str:
    """The model that answered, from the log of the request if it was kept."""
    for each in map(mapping, sequence(fields.get("promptLogs"))):
        if name := text(each.get("modelTitle")) or text(each.get("model")):
            return name
    message = mapping(fields.get("message"))
    return text(message.get("model")) or text(mapping(message.get("usage")).get("model"))


def _results(number: int, fields: dict[str, Any], ts: str, answered: set[str]) -> Iterator[Record]:
    """What tools gave, where it is kept with the answer that called them."""
    for state in map(mapping, sequence(fields.get("toolCallStates"))):
        call, status = text(state.get("toolCallId")), text(state.get("status"))
        output = sequence(state.get("output"))
        if not output and status not in ("done", "errored", "canceled"):
            continue
        answered.add(call)
        said = joined(plain(mapping(each).get("content")) or "" for each in output)
        ended = _STATUS.get(status, "ok")
        yield Gave(line=number, call=call, text=said, status=ended, ts=ts)


CONTINUE = Format(name="continue", title="Continue", recognises=_is_session, read=_read_session)


_KINDS: Final = ("Prompt", "AssistantMessage", "ToolResults")
_EDITOR: Final = ("workspace-sessions", "kiro.kiroagent")


def _recognises(sample: Sample) -> bool:
    if any(each in sample.path.parts for each in _EDITOR) and _is_session(sample):
        return True
    return any(
        each.get("kind") in _KINDS and "content" in mapping(each.get("data"))
        for each in sample.objects[:4]
    )


def _read(path: Path) -> Iterator[Record]:
    if not is_lines(path, "history"):
        yield from _read_session(path)
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


def _ended(turns: list[dict[str, Any]]) -> dict[str, str]:
    """When turns ended, by the last message of each."""
    found = (
        (sequence(each.get("message_ids")), moment(each.get("end_timestamp"))) for each in turns
    )
    return {text(ids[-1]): ts for ids, ts in found if ids and ts}


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


def _add_result(pieces: MessageParts, value: dict[str, Any]) -> None:
    parts = [mapping(each) for each in sequence(value.get("content"))]
    shown = [_pictures(each.get("data")) for each in parts if each.get("kind") == "image"]
    pieces.give(
        value.get("toolUseId"),
        joined(map(_given, parts)),
        status=error_if(value.get("status") == "error"),
        images=tuple(chain(*shown)),
    )


def _given(part: dict[str, Any]) -> str:
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
