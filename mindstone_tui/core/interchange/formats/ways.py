"""Rules that say what an object of a file is, and the ways at which its parts stand.

A way is a list of names, `message.payload|text`: the first of them at which there is anything. What
a content is made of can be told by such rules, too, where its blocks are not those of an API.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

import msgspec

from ..read_bytes import Fields, mapping, text
from . import parts
from .base import Gave

USUAL: Final = {
    "began": "id", "content": "content", "id": "id", "title": "title", "folder": "cwd",
    "branch": "", "parent": "", "cost": "", "told": "", "provider": "", "name": "tool_name",
    "ts": "time|timestamp|created_at", "created": "created_at", "model": "model|model_id",
    "calls": "tool_calls", "thought": "reasoning_content|reasoning|thinking", "error": "",
    "call": "tool_call_id", "totals": "", "finish": "", "signature": "", "redacted": "",
    "picture": "", "files": "", "file": "",
}  # fmt: skip
"""Where parts of an object stand in most programs' files."""


class RecordRule(msgspec.Struct, frozen=True):
    """What an object is that has one of these values at each way."""

    do: str
    when: dict[str, list[str]] = {}
    at: dict[str, str] = {}
    named: str = ""
    counts: list[str] = []
    apart: bool = True
    """Whether the count of the prompt leaves out what came from the cache."""


@cache
def steps(ways: str) -> list[list[str]]:
    """The names to follow, way by way."""
    return [way.split(".") for way in ways.split("|")]


def at_ways(fields: Fields, ways: str) -> Any:
    """What stands at the first way at which there is anything."""
    for way in steps(ways):
        found: Any = fields
        for step in way:
            found = mapping(found).get(step)
        if found is not None and found not in ("", []):
            return found
    return None


def fits(fields: Fields, when: dict[str, list[str]]) -> bool:
    """Whether each way has one of these values; `*` is any."""
    return all(
        at_ways(fields, ways) is not None
        if wanted == ["*"]
        else any(fnmatchcase(_word(at_ways(fields, ways)), each) for each in wanted)
        for ways, wanted in when.items()
    )


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else text(value)


def rule_for(fields: Fields, rules: list[RecordRule]) -> tuple[RecordRule, Callable[[str], Any]]:
    """The first rule that fits, and what finds the parts of the object by it."""
    rule = next(it for it in rules if fits(fields, it.when))
    return rule, lambda name: at_ways(fields, rule.at[name])


def result(
    number: int,
    get: Callable[[str], Any],
    *,
    failed: bool,
    ts: str,
    id: str,  # noqa: A002 (the record's own name for it)
) -> Gave:
    """What a tool gave, by the ways of a rule."""
    content, error, picture = get("content"), text(get("error")), get("picture")
    shown = [{"type": "image", "source": {"type": "base64", "data": picture}}] if picture else []
    said = parts.joined((parts.plain(content) or "", error, parts.plain(shown) or ""))
    told = (number, get("call"), shown or content)
    failed = failed or bool(error)
    return parts.result_of(*told, said=said, name=get("name"), failed=failed, id=id, ts=ts)


def pieces_by(rules: list[RecordRule], content: object, number: int) -> parts.MessageParts | None:
    """The pieces of a content, without rules one for an API; None where it is none."""
    if not rules:
        return parts.pieces_of_blocks(content, number)
    if not isinstance(content, list | None):
        return None
    pieces = parts.MessageParts(number)
    for each in map(mapping, content or ()):
        rule, get = rule_for(each, rules)
        match rule.do:
            case "block":
                parts.add_block(pieces, each)
            case "text":
                pieces.texts.append(text(get("content")))
            case "thought":
                pieces.think(get("thought"), get("signature"), get("redacted"))
            case "call":
                pieces.call(get("name"), get("calls"), get("call"))
            case "result" | "failed" as what:
                pieces.results.append(result(number, get, failed=what == "failed", ts="", id=""))
            case "file":
                pieces.attach(text(get("name")), text(get("content")), get("picture"))
            case "finish":
                pieces.finish = text(get("finish"))
            case _:
                pieces.others.append(parts.unknown(each.get("type")))
    return pieces
