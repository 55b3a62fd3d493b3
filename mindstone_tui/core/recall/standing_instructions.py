"""Recognising a lasting rule at the moment it is said.

Similarity finds such sentences badly later ("always use tabs" shares no word with the file that is
being written), so they are noticed when they are spoken and offered as a pin or a memory.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_SENTENCE: Final = re.compile(r"[^.!?\n。！？]+[.!?。！？]?")
_ORDER: Final = r"(?:^|[,;:]\s*|\b(?:please|you should|you must|must|should|and|but|to)\s+)"
_RULES: Final = tuple(
    (name, re.compile("|".join(patterns), re.IGNORECASE))
    for name, *patterns in (
        (
            "from now on",
            r"\b(?:from now on|from here on|going forward|in (?:the )?future|as of today)\b",
            r"\b(?:henceforth|for the rest of (?:this|the|our))\b",
        ),
        (
            "always",
            _ORDER + r"always\s+(?!been\b)\w+",
            r"\b(?:every time (?:you|i|we)|whenever you)\b",
        ),
        (
            "never",
            _ORDER + r"never\s+(?!mind\b)\w+",
            r"\b(?:do not|don['’]t) ever\b",
            r"\bunder no circumstances\b",
        ),
        (
            "call me",
            r"\b(?:call|address) me\b(?! (?:when|if|back|later|tomorrow|at)\b)",
            r"\bmy name is\b",
        ),
        (
            "I prefer",
            r"\b(?:i|we) (?:always |strongly |really )?(?:prefer|want you to|expect you to)\b",
            r"\bmy preference is\b",
        ),
        (
            "remember",
            r"(?:^|\bplease\s+)(?:remember|keep in mind|don['’]t forget)\b(?! (?:when|how)\b)",
        ),
        (
            "rule",
            r"\b(?:stop (?:using|doing|adding|writing)|by default,? (?:use|do))\b",
            r"^(?:rule|convention|policy)\s*:",
        ),
    )
)
_MARK: Final = re.compile(r"\b(?:DO_NOT_EVICT|IMPORTANT)\b")
"""In capitals, as people write it who mean it."""
_QUESTION: Final = re.compile(r"[?？؟]\s*$")


class StandingInstruction(msgspec.Struct, frozen=True):
    """A sentence that sounds like a lasting rule, and the words that gave it away."""

    text: str
    cue: str


def recognise_standing_instruction(text: str) -> StandingInstruction | None:
    """The first sentence of a person's message that is marked or states a lasting rule, if any."""
    if mark := _MARK.search(text):
        return StandingInstruction(_marked(text), mark[0])
    for found in _SENTENCE.finditer(text):
        sentence = found[0].strip()
        if not sentence or _QUESTION.search(sentence):
            continue
        for name, rule in _RULES:
            if rule.search(sentence):
                return StandingInstruction(sentence, name)
    return None


def _marked(text: str) -> str:
    """The sentence that carries the mark; the whole message when the mark stands alone."""
    sentences = (found[0].strip() for found in _SENTENCE.finditer(text))
    carrying = next((one for one in sentences if _MARK.search(one)), "")
    return carrying if re.search(r"\w", _MARK.sub("", carrying)) else text.strip()
