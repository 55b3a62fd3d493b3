"""An agent that goes in circles over several turns: it says the same again and again."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

ANSWERS: Final = 3
ANSWER_LENGTH: Final = 120
"""Shorter answers may well be the same."""
LIKENESS: Final = 0.97
_COMPARED: Final = 2_000


def saying_the_same(answers: Sequence[str], times: int = ANSWERS) -> bool:
    """Whether the newest answers, over as many turns, are nearly one and the same."""
    newest = list(answers[-times:])
    if len(newest) < times or any(len(text) < ANSWER_LENGTH for text in newest):
        return False
    last = newest[-1][:_COMPARED]
    return all(_alike(text[:_COMPARED], last) for text in newest[:-1])


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return (
        matcher.real_quick_ratio() >= LIKENESS
        and matcher.quick_ratio() >= LIKENESS
        and matcher.ratio() >= LIKENESS
    )
