"""Looking words up in the index: how rare they are, and which passages hold them.

Rare words retrieve; words so common that fetching them would take longer than they help only add
to the score of what the rare ones found. So the cost of a question does not grow with history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

import apsw
import msgspec

from mindstone_tui.core.recall.store import TOKENIZER
from mindstone_tui.core.recall.words import MOST_TERMS, quoted

MOST_POSTINGS: Final = 2_000
"""Occurrences that are fetched and scored for one question."""
_K1: Final = 1.2
_B: Final = 0.75


class WordMatches(msgspec.Struct, frozen=True):
    """What the words of a question found."""

    scores: dict[int, float]
    """BM25 by row, from the words that retrieve."""
    total_rarity: float
    """What a passage could earn at most before saturation: the rarity of every word asked for."""
    common: dict[str, float]
    """Beginning of the word → rarity, of the words that only rescore."""


class Lexicon:
    """Rarity and postings of words, with the stemmer that the index itself uses."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self._stemmer = database.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
        self._holding: dict[str, int] = {}
        self._counted_at = 0

    def rarity(self, term: str, passages: int) -> float:
        """Inverse document frequency of a word; of its rarest form when it has several."""
        stems = self.stems(term)
        return max((_rarity(self._count(stem, passages), passages) for stem in stems), default=0.0)

    def match(self, terms: Sequence[str], passages: int) -> WordMatches:
        """Passages that hold any of the terms, scored."""
        found = {
            stem: (term, self._count(stem, passages)) for term in terms for stem in self.stems(term)
        }
        rarest = sorted(found.items(), key=lambda item: item[1][1])[:MOST_TERMS]
        retrieving: list[str] = []
        common: dict[str, float] = {}
        room = MOST_POSTINGS
        for stem, (term, count) in rarest:
            if count <= room or not (retrieving or common):
                retrieving.extend([term] if count else [])
                room -= count
            else:
                common[_shared_start(term, stem)] = _rarity(count, passages)
        total = sum(_rarity(count, passages) for _, (_, count) in rarest)
        return WordMatches(self._retrieve(retrieving), total, common)

    def stems(self, text: str) -> list[str]:
        """The stems FTS5 makes of a text that `indexed` prepared."""
        found = self._stemmer(
            text.encode("utf-8", "replace"),
            apsw.FTS5_TOKENIZE_QUERY,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return [str(stem) for stem in found]

    def _retrieve(self, terms: list[str]) -> dict[int, float]:
        if not terms:
            return {}
        rows = self._database.execute(
            "select rowid, -bm25(words, 1.0, 0.0) from words where words match ?"
            " order by rowid desc limit ?",
            (f"body : ({quoted(terms)})", 2 * MOST_POSTINGS),
        )
        return dict(rows)

    def _count(self, stem: str, passages: int) -> int:
        if abs(passages - self._counted_at) > 16 + self._counted_at // 100:
            self._holding.clear()
            self._counted_at = passages
        count = self._holding.get(stem)
        if count is None:
            row = self._database.execute(
                "select doc from vocabulary where term = ?", (stem,)
            ).fetchone()
            count = self._holding[stem] = row[0] if row else 0
        return count


def _shared_start(term: str, stem: str) -> str:
    """`painted`, `paint` → paint; `happy`, `happi` → happ."""
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(term, stem)))  # noqa: B905
    return term[:length]


def score_common(common: Mapping[str, float], text: str, usual_length: float) -> float:
    """BM25 that common words add to a passage, from its own text.

    The text is searched for the words' beginnings instead of being stemmed: that is a hundred times
    faster, and these words only shift a score a little.
    """
    lowered = f" {text.lower()}"
    pull = _K1 * (1 - _B + _B * len(text) / max(usual_length, 1.0))
    score = 0.0
    for start, rarity in common.items():
        found = lowered.count(f" {start}" if start.isascii() else start)
        if found:
            score += rarity * found * (_K1 + 1) / (found + pull)
    return score


def _rarity(count: int, passages: int) -> float:
    return math.log(1 + (max(passages, count) - count + 0.5) / (count + 0.5))
