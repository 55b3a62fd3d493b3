"""Long texts in pieces that end where a reader would pause.

Pieces are slices of the text itself, so whatever is quoted from one stands in history letter for
letter. Code blocks and prose do not share a piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mindstone_tui.core.recall.passage import LONGEST_PIECE, Form

_FENCE: Final = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_PAUSES: Final = tuple(
    re.compile(pattern)
    for pattern in (r"\n\s*\n", r"\n", r"(?<=[.!?。！？؟])\s+|(?<=[。！？])", r"\s+")
)
_LEAST: Final = 0.4
"""A pause this early in a piece would waste most of it."""


def pieces_of(text: str, longest: int = LONGEST_PIECE) -> list[tuple[str, Form]]:
    """The text as pieces of at most `longest` characters, each prose or code."""
    if len(text) <= longest:
        return [(text, "code" if _FENCE.fullmatch(text.strip()) else "prose")]
    return [
        (piece, form)
        for block, form in _blocks(text)
        for piece in (part.strip() for part in _cut(block, longest))
        if piece
    ]


def _blocks(text: str) -> Iterator[tuple[str, Form]]:
    at = 0
    for fence in _FENCE.finditer(text):
        yield text[at : fence.start()], "prose"
        yield fence[0], "code"
        at = fence.end()
    yield text[at:], "prose"


def _cut(text: str, longest: int) -> Iterator[str]:
    start = 0
    while len(text) - start > longest:
        end = _pause(text, start, start + longest)
        yield text[start:end]
        start = end
    yield text[start:]


def _pause(text: str, start: int, limit: int) -> int:
    """The last good place to stop before `limit`: a paragraph, a line, a sentence, a word."""
    earliest = start + int((limit - start) * _LEAST)
    for pause in _PAUSES:
        ends = [found.end() for found in pause.finditer(text, earliest, limit)]
        if ends:
            return ends[-1]
    return limit
