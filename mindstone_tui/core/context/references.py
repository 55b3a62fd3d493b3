"""Who refers to what: later messages that name the same file, identifier or entry, and recall.

A name is something no two people use by accident: a path, an identifier with a sign in it, an
entry's id. Plain words do not count.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from mindstone_tui.core.context.eviction import text_of
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.memory import RecallInjected

_WORD: Final = re.compile(r"[\w./-]{4,}")
_NAMELIKE: Final = re.compile(
    r"\w[/._-]\w"  # a path, dotted, snake or kebab case
    r"|^/\w"
    r"|[a-z][A-Z]"  # camel case
    r"|^[0-9A-HJKMNP-TV-Z]{26}$"  # an entry's id
)
_READ: Final = 20_000
"""Characters of one message that are looked at."""


class Referenced(msgspec.Struct):
    """How often, and when last, a turn was referred to."""

    last: int
    count: int = 0


@functools.lru_cache(maxsize=8_192)
def names_in(text: str) -> frozenset[str]:
    """The names a text uses."""
    found = (word.strip("./-") for word in _WORD.findall(text[:_READ]))
    return frozenset(word for word in found if _NAMELIKE.search(word))


def references(messages: Iterable[Line], recalls: Iterable[Line]) -> dict[int, Referenced]:
    """For each turn in the window: who named something of it again, when last and how often."""
    found: dict[int, Referenced] = {}
    owners: dict[str, int] = {}
    owners_by_id: dict[str, int] = {}
    for line in messages:
        found.setdefault(line.turn, Referenced(line.turn))
        owners_by_id[line.id] = line.turn
        named = names_in(text_of(line))
        turns = {owners[name] for name in named if name in owners}
        turns |= {owners_by_id[name] for name in named if name in owners_by_id}
        for turn in turns - {line.turn}:
            _refer(found, turn, line.turn)
        for name in named:
            owners.setdefault(name, line.turn)
    for recall in recalls:
        if isinstance(recall.entry, RecallInjected):
            for passage in recall.entry.passages:
                if passage.session == recall.session and passage.turn in found:
                    _refer(found, passage.turn, recall.turn)
    return found


def _refer(found: dict[int, Referenced], turn: int, by: int) -> None:
    known = found[turn]
    known.count += 1
    known.last = max(known.last, by)
