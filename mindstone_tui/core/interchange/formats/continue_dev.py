"""Continue and Kiro: a JSON file a session, `~/.continue/sessions/<id>.json`.

Kiro's editor comes from Continue and keeps the same shape below its `workspace-sessions`; what its
agent did there stands elsewhere, in files that it does not share. Dates are only in the list of all
sessions beside the file, and there only for the beginning.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, mapping, moment, sequence, text
from .base import About, Began, Broken, Format, Gave, Records, Sample
from .parts import MessageParts, add_calls, counted, joined, money, plain, titled, unknown, used
from .sources import array_of, document

_LIST: Final = "sessions.json"
_ID: Final = "sessionId"
_ADDRESS: Final = pattern_of(r"file://|vscode-remote://[^/]*")
_DRIVE: Final = pattern_of(r"/[A-Za-z]:")
_STATUS: Final[dict[str, ToolStatus]] = {"errored": "error", "canceled": "refused"}


def is_session(sample: Sample) -> bool:
    """Whether a file is a session of this shape."""
    first = sample.first
    history = sequence(first.get("history"))
    shaped = not history or "role" in mapping(mapping(history[0]).get("message"))
    return "history" in first and shaped and bool({_ID, "workspaceDirectory"} & first.keys())


def read_session(path: Path) -> Records:
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
    yield About(folder=folder_of(folder))
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


def folder_of(named: str) -> str:
    """A folder that is written as an address, or as itself."""
    if not (found := _ADDRESS.match(named)):
        return named
    path = unquote(named[found.end() :])
    return path[1:] if _DRIVE.match(path) else path


def _used_by(message: Fields) -> Records:
    told = mapping(message.get("usage"))
    cost = (money(told.get("cost_cents")) or 0) / 100
    return used(counted(told, "prompt_tokens", "completion_tokens", cost=cost), told.get("model"))


def _used_in_all(total: Fields, model: str) -> Records:
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


def _item(number: int, fields: Fields, ts: str, answered: set[str], chosen: str) -> Records:
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
            add_calls(pieces, message.get("toolCalls"))
            yield pieces.record("assistant", id=source, ts=ts, model=_model(fields) or chosen)
            yield from _results(number, fields, ts, answered)
        case "tool" if text(message.get("toolCallId")) in answered:
            return
        case "tool":
            answered.add(text(message.get("toolCallId")))
            yield Gave(line=number, call=text(message.get("toolCallId")), text=said, ts=ts)
        case role:
            yield unknown(f"{text(role) or 'nameless'} message")


def _context(fields: Fields) -> Iterator[str]:
    """What the person added to a message, by name."""
    for each in map(mapping, sequence(fields.get("contextItems"))):
        if name := text(each.get("name")) or text(each.get("description")):
            yield joined((f"[file: {name}]", text(each.get("content"))))


def _model(fields: Fields) -> str:
    """The model that answered, from the log of the request if it was kept."""
    for each in map(mapping, sequence(fields.get("promptLogs"))):
        if name := text(each.get("modelTitle")) or text(each.get("model")):
            return name
    message = mapping(fields.get("message"))
    return text(message.get("model")) or text(mapping(message.get("usage")).get("model"))


def _results(number: int, fields: Fields, ts: str, answered: set[str]) -> Records:
    """What tools gave, where it is kept with the answer that called them."""
    for state in map(mapping, sequence(fields.get("toolCallStates"))):
        call, status = text(state.get("toolCallId")), text(state.get("status"))
        output = sequence(state.get("output"))
        if not output and status not in ("done", "errored", "canceled"):
            continue
        answered.add(call)
        said = joined(plain(mapping(each).get("content")) or "" for each in output)
        yield Gave(line=number, call=call, text=said, status=_STATUS.get(status, "ok"), ts=ts)


CONTINUE = Format(name="continue", title="Continue", recognises=is_session, read=read_session)
