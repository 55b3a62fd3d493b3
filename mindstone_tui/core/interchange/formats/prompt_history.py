"""`history.jsonl` of Claude Code and Codex: every prompt that was typed, of all sessions.

It outlives the sessions themselves, which Claude Code deletes, and holds none of the answers. The
prompts of one session are one conversation; those of a file without sessions are one a project.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mindstone_tui.core.patterns import pattern_of

from ..read_bytes import Fields, mapping, moment, text
from .base import About, Aside, Began, Broken, Format, Records, Sample
from .parts import MessageParts, first_of
from .sources import Numbered, records_of

_PASTED: Final = pattern_of(r"\[Pasted text #(\d{1,6})[^\]]{0,40}\]")
_COMMAND: Final = pattern_of(r"/[a-z][\w:-]*")


def _recognises(sample: Sample) -> bool:
    first = sample.objects[0] if sample.objects else {}
    return {"display", "timestamp", "project"} <= first.keys() or (
        {"session_id", "ts", "text"} == first.keys()
    )


def _read(path: Path) -> Records:
    sessions: dict[str, list[Numbered]] = {}
    for found in records_of(path):
        if isinstance(found, Broken):
            yield found
            continue
        name = text(first_of(found[1], "sessionId", "session_id", "project"))
        sessions.setdefault(name, []).append(found)
    for name, typed in sessions.items():
        yield Began(id=name, ts=_time(typed[0][1]))
        yield About(folder=text(typed[0][1].get("project")))
        for number, fields in typed:
            yield from _prompt(number, fields)


def _prompt(number: int, fields: Fields) -> Records:
    pieces = MessageParts(number)
    pasted = mapping(fields.get("pastedContents"))
    said = text(first_of(fields, "display", "text"))

    def inside(found: re.Match[str]) -> str:
        return text(mapping(pasted.get(found[1])).get("content")) or found[0]

    if _COMMAND.fullmatch(said.strip()):
        yield Aside(what="command of the program")
        return
    pieces.texts.append(_PASTED.sub(inside, said))
    yield pieces.record("user", ts=_time(fields))


def _time(fields: Fields) -> str:
    return moment(first_of(fields, "timestamp", "ts"))


PROMPT_HISTORY = Format(
    name="prompt-history",
    title="prompt history",
    recognises=_recognises,
    read=_read,
    many=True,
)
