"""Which later words lean on earlier ones: names, citations, and passages that were used.

Found in the transcript alone. A name is something no two people use by accident (a path, an
identifier); a citation is `#42` in an answer; a used passage was recalled and then leaned on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from mindstone_tui.core.context.eviction import text_of
from mindstone_tui.core.context.references import names_in
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolReturned,
    UserMessage,
)
from mindstone_tui.core.entries.memory import RecallUsed

Kind = Literal["name", "citation", "recalled"]
Place = Literal["window", "recalled", "on request", "nowhere"]
"""Where the source of a reference would have been found."""

_CITED: Final = re.compile(r"#(\d{1,9})\b")
_MOST_NAMES: Final = 12
"""Names of one message that are followed."""


class Reference(Part):
    """Something said in one turn that leans on another."""

    kind: Kind
    turn: int
    source: int
    """The turn it leans on."""
    words: str
    """The name, or what was asked."""


def references_in(lines: Iterable[Line]) -> dict[int, tuple[Reference, ...]]:
    """Every reference, by the turn that makes it."""
    owners: dict[str, int] = {}
    turns: dict[int, int] = {}
    entries: dict[str, int] = {}
    asked = ""
    found: dict[int, dict[tuple[str, int], Reference]] = {}

    def refer(kind: Kind, turn: int, source: int, words: str) -> None:
        if source and source < turn:
            one = Reference(kind=kind, turn=turn, source=source, words=words)
            found.setdefault(turn, {}).setdefault((words, source), one)

    for line in lines:
        match line.entry:
            case UserMessage(text=text):
                asked = text
            case AssistantMessage(text=text):
                for cited in _CITED.findall(text):
                    refer("citation", line.turn, turns.get(int(cited), 0), asked)
            case RecallUsed(used=used):
                for entry in used:
                    refer("recalled", line.turn, entries.get(entry, 0), asked)
        if isinstance(line.entry, UserMessage | AssistantMessage | AssistantPartial | ToolReturned):
            said = text_of(line)
            for name in sorted(names_in(said))[:_MOST_NAMES] if line.role != "tool" else ():
                refer("name", line.turn, owners.get(name, 0), name)
            turns[line.seq] = line.turn
            entries[line.id] = line.turn
            for name in names_in(said):
                owners.setdefault(name, line.turn)
    return {turn: tuple(each.values()) for turn, each in found.items()}
