"""opencode: what `opencode export` prints, its older `storage` folder, and its `opencode.db`.

All three hold the same: a session, its messages, and the parts of each message. Messages that were
reverted are counted as left out; a summary that the program made of its own history is, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mindstone_tui.core import entries, patterns

from ..pictures import pictures_in
from ..read_bytes import Fields, Flaw, as_json, mapping, moment, sequence, text
from . import sources
from .base import About, Aside, Began, Broken, Format, Gave, Records, Said, Sample, Used
from .parts import ANOTHER_BRANCH, MessageParts, counted, joined, model_of, plain, titled, unknown

Message = tuple[int, Fields, list[Any]]
"""Its number, what is known about it, and its parts."""


class OpencodeSession(NamedTuple):
    """A session and its messages, in order."""

    info: Fields
    messages: Iterable[Message | Broken]


def sessions_in_storage(path: Path, info: Fields) -> Iterator[OpencodeSession]:
    """The session that a file in the storage folder is about."""
    if path.parent.name == "info":
        base = path.parent.parent
        yield OpencodeSession(
            info, _stored(base / "message" / path.stem, base / "part" / path.stem)
        )
    else:
        base = path.parent.parent.parent
        yield OpencodeSession(info, _stored(base / "message" / path.stem, base / "part"))


def _stored(messages: Path, parts: Path) -> Iterator[Message | Broken]:
    for number, file in enumerate(sorted(messages.glob("*.json")), 1):
        found = sources.document(file)
        if isinstance(found, Broken):
            yield Broken(line=number, why=f"{file.name}: {found.why}")
            continue
        listed: list[Any] = []
        for part in sorted((parts / file.stem).glob("*.json")):
            if isinstance(read := sources.document(part), Broken):
                yield Broken(line=number, why=f"{part.name}: {read.why}")
            else:
                listed.append(read)
        yield number, found, listed


def sessions_in_database(path: Path) -> Iterator[OpencodeSession]:
    """All sessions of the database, the oldest first."""
    with sources.connected(path) as connection:
        for row in sources.rows(connection, "SELECT * FROM session ORDER BY time_created, id"):
            info = {
                "id": row.get("id"),
                "title": row.get("title"),
                "directory": row.get("directory"),
                "parentID": row.get("parent_id"),
                "time": {"created": row.get("time_created")},
                "revert": sources.json_in(row.get("revert")),
            }
            yield OpencodeSession(info, _messages(connection, str(row.get("id"))))


def _messages(connection: sqlite3.Connection, session: str) -> Iterator[Message | Broken]:
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for number, row in enumerate(sources.rows(connection, query, (session,)), 1):
        data = sources.json_in(row["data"])
        if isinstance(data, Flaw):
            yield Broken(line=number, why=data.why)
            continue
        parts = sources.rows(
            connection,
            "SELECT id, data FROM part WHERE message_id = ? ORDER BY id",
            (str(row["id"]),),
        )
        listed = [{**mapping(sources.json_in(each["data"])), "id": each["id"]} for each in parts]
        yield number, {**mapping(data), "id": row["id"]}, listed


_EXPORT = patterns.pattern_of(rb'\s*\{\s*"info"\s*:\s*\{')
_STEPS = frozenset({"text", "reasoning", "tool", "step-start", "step-finish"})


def _recognises(sample: Sample) -> bool:
    first = sample.first
    return (
        ("id" in mapping(first.get("info")) and "messages" in first)
        or (_EXPORT.match(sample.start) is not None and b'"messages"' in sample.start)
        or _is_stored(sample.path, first)
        or sources.has_columns(sample, "part", "message_id", "data")
    )


def _is_stored(path: Path, fields: Fields) -> bool:
    """Whether this is the file of a session in the storage folder, with its messages beside it."""
    in_place = "session" in (path.parent.name, path.parent.parent.name)
    return in_place and text(fields.get("id")).startswith("ses_") and "time" in fields


@sources.guarded
def _read(path: Path) -> Records:
    for session in _sessions(path):
        yield from (session,) if isinstance(session, Broken) else _session(session)


def _sessions(path: Path) -> Iterator[OpencodeSession | Broken]:
    if sources.is_database(path):
        yield from sessions_in_database(path)
        return
    if isinstance(fields := sources.document(path), Broken):
        yield fields
    elif _is_stored(path, fields):
        yield from sessions_in_storage(path, fields)
    else:
        messages = (
            (number, mapping(mapping(each).get("info")), sequence(mapping(each).get("parts")))
            for number, each in enumerate(sequence(fields.get("messages")), 1)
        )
        yield OpencodeSession(mapping(fields.get("info")), messages)


def _session(session: OpencodeSession) -> Records:
    info = session.info
    yield Began(id=text(info.get("id")), ts=moment(mapping(info.get("time")).get("created")))
    yield from titled(info.get("title"))
    yield About(folder=text(info.get("directory")), parent=text(info.get("parentID")))
    revert = mapping(info.get("revert"))
    back, part = text(revert.get("messageID")), text(revert.get("partID"))
    reverted = False
    for found in session.messages:
        if isinstance(found, Broken):
            yield found
            continue
        number, about, parts = found
        if reverted or (back and back == about.get("id")):
            kept = [] if reverted or not part else _until(part, parts)
            reverted = True
            if not kept:
                yield Aside(what=ANOTHER_BRANCH)
                continue
            parts = kept
        yield from _message((number, about, parts))


def _until(part: str, parts: list[Any]) -> list[Any]:
    """The parts that stand before the one that was reverted."""
    names = [mapping(each).get("id") for each in parts]
    return parts[: names.index(part)] if part in names else parts


def _message(message: Message) -> Records:
    number, info, listed = message
    parts = [mapping(each) for each in listed]
    ts = moment(mapping(info.get("time")).get("created"))
    match info.get("role"):
        case "user":
            yield from _user(number, info, parts, ts)
        case "assistant" if info.get("summary") is True:
            yield Aside(what="summary of the program")
        case "assistant":
            yield from _answer(number, info, parts, ts)
        case _:
            yield Broken(line=number, why="a message without a role")


def _user(number: int, info: Fields, parts: list[Fields], ts: str) -> Records:
    own = [each for each in parts if each.get("synthetic") is not True]
    for each in parts:
        if each.get("synthetic") is True:
            yield Aside(what="text of the program")
    if said := joined(_words(each) for each in own):
        source, images = text(info.get("id")), pictures_in(own)
        yield Said(line=number, role="user", text=said, id=source, ts=ts, images=images)
    else:
        yield Aside(what="message of the program")


def _words(part: Fields) -> str:
    """What a person gave: words, a file, a task for a sub-agent, or an agent that was named."""
    match part.get("type"):
        case "text":
            return plain(part) or ""
        case "file":
            name = text(part.get("filename"))
            return f"[file: {name}]" if name else "[file]"
        case "subtask":
            return text(part.get("prompt"))
        case _:
            return ""


def _answer(number: int, info: Fields, parts: list[Fields], ts: str) -> Records:
    """An answer is written in steps; a tool part belongs to the step it stands in."""
    model = model_of(info, "modelID", "providerID")
    if counts := mapping(info.get("tokens")):
        yield _used(counts, info, model)
    if not (steps := list(_steps(number, parts))):
        yield Aside(what="failed answer" if info.get("error") else "empty answer")
    for at, step in enumerate(steps):
        source = text(info.get("id")) if at == 0 else _own_id(at, steps)
        finish = text(info.get("finish"))
        yield step.record("assistant", id=source, ts=ts, model=model, finish=finish)
        for call, tool in zip(step.calls, step.tools, strict=True):
            yield from _result(number, call, tool, ts)
    for each in parts:
        if text(each.get("type")) not in _STEPS:
            yield unknown(each.get("type"))


def _own_id(at: int, steps: list[_Step]) -> str:
    """A step's id; where the file gives several steps the same one, their number tells them apart.

    A message is taken over once for each id, so without that only the first would be.
    """
    name = text(steps[at].id)
    before = sum(text(each.id) == name for each in steps[:at])
    return f"{name}#{before + 1}" if before else name


def _used(counts: Fields, info: Fields, model: str) -> Used:
    cache = mapping(counts.get("cache"))
    names = ("input", "output", "read", "write", "reasoning")
    usage = counted({**cache, **counts}, *names, apart=True, cost=info.get("cost"))
    return Used(usage=usage, model=model, answer=text(info.get("id")))


class _Step(MessageParts):
    """One request's worth of an answer."""

    def __init__(self, number: int, at: int) -> None:
        super().__init__(number, f"{number}-{at}")
        self.id: object = ""
        self.tools: list[Fields] = []

    def ask(self, part: Fields) -> None:
        """Add a part's call. Some files give many parts one id; then each gets one of its own,
        because a result must find the call that it stands with."""
        given = part.get("callID")
        is_known = any(each.get("callID") == given for each in self.tools)
        asked = mapping(part.get("state")).get("input")
        self.call(part.get("tool"), asked, None if is_known else given)
        self.tools.append(part)


def _steps(number: int, parts: list[Fields]) -> Iterator[_Step]:
    at = 0
    step = _Step(number, at)
    for part in parts:
        match part.get("type"):
            case "step-start" if step.has_any:
                yield step
                at += 1
                step = _Step(number, at)
                continue
            case "text" if said := text(part.get("text")):
                step.texts.append(said)
            case "reasoning" if said := text(part.get("text")):
                step.think(said)
            case "tool":
                step.ask(part)
            case _:
                continue
        step.id = step.id or part.get("id")
    if step.has_any:
        yield step


def _result(number: int, call: entries.ToolCall, part: Fields, ts: str) -> Records:
    """What a tool gave; one that is pending or running never came to its end."""
    state = mapping(part.get("state"))
    done = moment(mapping(state.get("time")).get("end")) or ts
    match state.get("status"):
        case "completed":
            output = state.get("output")
            said = output if isinstance(output, str) else as_json(output)
            files = sequence(state.get("attachments"))
            said = joined((said, *(_words(mapping(each)) for each in files)))
            images = pictures_in(files)
            yield Gave(line=number, call=call.id, text=said, name=call.name, ts=done, images=images)
        case "error":
            why = text(state.get("error"))
            yield Gave(line=number, call=call.id, text=why, name=call.name, status="error", ts=done)
        case _:
            return


OPENCODE = Format(name="opencode", title="opencode", recognises=_recognises, read=_read, many=True)
