"""The part of a long passage that answers, in whole sentences, bounded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from mindstone_tui.core.recall.words import words_of

LONGEST_EXCERPT: Final = 600
_SENTENCES: Final = re.compile(r"(?<=[.!?。！？؟])\s+|\n+")


def excerpt(text: str, terms: Sequence[str], longest: int = LONGEST_EXCERPT) -> str:
    """The part of a text that holds most of the terms, in whole sentences where possible."""
    if len(text) <= longest:
        return text
    wanted = frozenset(terms)
    sentences = _spans(text, longest)
    found = [len(wanted.intersection(words_of(text[a:b]))) for a, b in sentences]
    first, last = _densest(sentences, found, longest)
    start, end = sentences[first][0], sentences[last][1]
    before, after = "… " if start else "", " …" if end < len(text) else ""
    return f"{before}{text[start:end].strip()}{after}"


def _spans(text: str, longest: int) -> list[tuple[int, int]]:
    """Where sentences begin and end; one longer than the whole excerpt is cut hard."""
    edges = [0, *(found.end() for found in _SENTENCES.finditer(text)), len(text)]
    return [
        (at, min(at + longest, end))
        for start, end in pairwise(edges)
        for at in range(start, end, longest)
    ]


def _densest(
    sentences: Sequence[tuple[int, int]], found: Sequence[int], longest: int
) -> tuple[int, int]:
    """The run of sentences within the bound that holds most; the longest of equals."""
    best = (-1, -1)
    run = (0, 0)
    for first in range(len(sentences)):
        last = first
        while last + 1 < len(sentences) and sentences[last + 1][1] - sentences[first][0] <= longest:
            last += 1
        value = (sum(found[first : last + 1]), sentences[last][1] - sentences[first][0])
        if value > best:
            best, run = value, (first, last)
    return run
