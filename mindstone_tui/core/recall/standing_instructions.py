"""Recognising a lasting rule at the moment it is said.

Similarity finds such sentences badly later ("always use tabs" shares no word with the file that is
being written), so they are noticed when they are spoken and offered as a pin or a memory.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import StatementKind, Utterance, parts_of, recognise

_MARK: Final = pattern_of(r"\b(?:DO_NOT_EVICT|IMPORTANT)\b")
"""In capitals, as people write it who mean it."""
_STANDS: Final = frozenset({"rule", "memory", "preference"})
_READ: Final = 20_000
"""Characters of a message that are looked at; a longer one is a paste."""


class StandingInstruction(msgspec.Struct, frozen=True):
    """A sentence that sounds like a lasting rule, and what kind it is."""

    text: str
    kind: StatementKind


def recognise_standing_instruction(text: str) -> StandingInstruction | None:
    """The first sentence of a person's message that is marked or states a lasting rule, if any."""
    if _MARK.search(text):
        return StandingInstruction(_marked(text), "rule")
    said = recognise(Utterance(speaker="user", text=text[:_READ], line=0))
    for one in said:
        if one.kind in _STANDS and one.lasting and not one.permits:
            return StandingInstruction(one.words, one.kind)
    return None


def _marked(text: str) -> str:
    """The sentence that carries the mark; the whole message when the mark stands alone."""
    carrying = next((one for one in parts_of(text) if _MARK.search(one)), "")
    return carrying if re.search(r"\w", _MARK.sub("", carrying)) else text.strip()
