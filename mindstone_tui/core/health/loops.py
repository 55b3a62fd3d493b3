"""An agent that goes in circles: the same call again, a short cycle of calls, the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

REPEATS: Final = 3
LONGEST_CYCLE: Final = 4
ANSWERS: Final = 3
ANSWER_LENGTH: Final = 120
"""Shorter answers may well be the same."""
LIKENESS: Final = 0.97
_COMPARED: Final = 2_000


def going_in_circles(calls: Sequence[str], repeats: int = REPEATS) -> str:
    """Why a turn's calls look like a loop, or nothing; a call is its tool's name and digest."""
    for length in range(1, LONGEST_CYCLE + 1):
        span = length * repeats
        if len(calls) < span:
            return ""
        tail = list(calls[-span:])
        if tail == tail[:length] * repeats:
            if length == 1:
                return f"the same call was made {repeats} times in a row"
            return f"the same {length} calls were made {repeats} times in a row"
    return ""


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
