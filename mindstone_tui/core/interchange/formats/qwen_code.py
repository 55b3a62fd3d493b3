"""Qwen Code: `~/.qwen/projects/<project>/chats/<id>.jsonl`.

A line a record, each naming the one it follows; messages are the contents of the model's API. Older
versions wrote the files of Gemini CLI, from which the program comes, into a folder of their own.
"""

from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.entries.conversation import ToolStatus

from ..read_bytes import Fields, mapping, moment, text
from .base import About, Aside, Began, Broken, Format, Records, Sample, Titled
from .gemini_cli import GEMINI_CLI, not_said, pieces_of
from .parts import ANOTHER_BRANCH, Branches, MessageParts, counted, unknown, used
from .sources import records_of, sound

_KINDS: Final = ("user", "assistant", "tool_result", "system")
_PERSON: Final = ("", "mid_turn_user_message", "realtime_message", "at_command")
"""Kinds of user records that a person wrote."""
_COUNTS: Final = (
    *("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
    *("", "thoughtsTokenCount"),
)
_STATUS: Final[dict[str, ToolStatus]] = {"error": "error", "cancelled": "interrupted"}


def _recognises(sample: Sample) -> bool:
    if ".qwen" in sample.path.parts and GEMINI_CLI.recognises(sample):
        return True
    return any(map(_is_record, sample.objects[:16]))


def _is_record(fields: Fields) -> bool:
    return (
        fields.get("type") in _KINDS
        and {"uuid", "sessionId"} <= fields.keys()
        and ("parts" in mapping(fields.get("message")) or "systemPayload" in fields)
    )


def _read(path: Path) -> Records:
    if (branches := _branches(path)) is None:
        yield from GEMINI_CLI.read(path)
        return
    begun = False
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        number, fields = found
        if not begun and "sessionId" in fields:
            begun = True
            yield Began(id=text(fields["sessionId"]), ts=moment(fields.get("timestamp")))
            yield About(folder=text(fields.get("cwd")))
        if branch := text(fields.get("gitBranch")):
            yield About(branch=branch)
        if fields.get("type") != "system" and not branches.keeps(text(fields.get("uuid"))):
            yield Aside(what=ANOTHER_BRANCH)
        else:
            yield from _record(number, fields)


def _branches(path: Path) -> Branches | None:
    """Which record follows which; None where the file has no such records."""
    branches = Branches()
    seen = False
    for _, fields in sound(records_of(path)):
        if "parentUuid" not in fields:
            continue
        seen = seen or _is_record(fields)
        parent = fields["parentUuid"]
        branches.add(
            text(fields.get("uuid")),
            None if parent is None else text(parent),
            forks=fields.get("type") == "user",
            counts=fields.get("type") != "system",
        )
    return branches if seen else None


def _record(number: int, fields: Fields) -> Records:
    kind, subtype = text(fields.get("type")), text(fields.get("subtype"))
    if kind == "system":
        payload = mapping(fields.get("systemPayload"))
        if subtype == "custom_title":
            yield Titled(title=text(payload.get("customTitle")) or text(fields.get("title")))
        else:
            yield unknown(subtype or kind)
        return
    if (pieces := pieces_of(mapping(fields.get("message")).get("parts"), number)) is None:
        yield Broken(line=number, why="the message has no parts")
        return
    ts, source = moment(fields.get("timestamp")), text(fields.get("uuid"))
    match kind:
        case "user" if subtype not in _PERSON:
            yield Aside(what=subtype)
        case "user":
            what = not_said(pieces.said, "user")
            yield Aside(what=what) if what else pieces.record("user", id=source, ts=ts)
        case "assistant":
            yield from _answer(fields, pieces, source, ts)
        case "tool_result":
            yield from _results(fields, pieces, source, ts)
        case _:
            yield unknown(kind)


def _answer(fields: Fields, pieces: MessageParts, source: str, ts: str) -> Records:
    model = text(fields.get("model"))
    yield pieces.record("assistant", id=source, ts=ts, model=model)
    yield from used(counted(mapping(fields.get("usageMetadata")), *_COUNTS), model, answer=source)


def _results(fields: Fields, pieces: MessageParts, source: str, ts: str) -> Records:
    told = mapping(fields.get("toolCallResult"))
    status = _STATUS.get(text(told.get("status")), "ok")
    # The response may have an id of its own; the record says which call it answers.
    only = text(told.get("callId")) if len(pieces.results) == 1 else ""
    for each in pieces.given(ts, source):
        ended = each.status if each.status == "error" else status
        yield msgspec.structs.replace(each, call=only or each.call, status=ended)


QWEN_CODE = Format(name="qwen-code", title="Qwen Code", recognises=_recognises, read=_read)
