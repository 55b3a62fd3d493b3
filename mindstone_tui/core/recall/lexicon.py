"""What the words of a question are worth in one history, and which passages hold them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final

import apsw
import msgspec

from mindstone_tui.core.language.words import MOST_TERMS, quoted
from mindstone_tui.core.recall.store import TOKENIZER

MOST_POSTINGS: Final = 2_000
"""Occurrences that are fetched and scored for one question,"""
BESIDE_MEANING: Final = 800
"""and so many where passages are found by their meaning as well."""
LONG_HISTORY: Final = 500
"""Passages from which on the rarity of a word is what a history itself says."""
_K1: Final = 1.2
_B: Final = 0.75
_WORD: Final = (1 << 32) - 1


class WordMatches(msgspec.Struct, frozen=True):
    """What the words of a question found."""

    scores: dict[int, float]
    """BM25 by row, from the words that retrieve."""
    total_rarity: float
    """What a passage could earn at most before saturation: the rarity of every word asked for."""
    common: dict[str, float]
    """How a word begins in a text → rarity, of the words that only rescore."""
    asked: float
    """The rarity of every word asked for, as a long history knows it: in a short one no word is
    rare, yet a question means the same there."""


class Lexicon:
    """Rarity and postings of words, with the stemmer that the index itself uses."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self._stemmer = database.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
        self._holding: dict[str, int] = {}
        self._counted_at = 0
        self._vocabulary: tuple[array[int], array[int]] | None = None
        self._learned_at = 0

    def rarity(self, term: str, passages: int) -> float:
        """Inverse document frequency of a word; of its rarest form when it has several."""
        stems = self.stems(term)
        return max(
            (rarity_of(self._count(stem, passages), passages) for stem in stems), default=0.0
        )

    def match(self, terms: Sequence[str], passages: int, most: int = MOST_POSTINGS) -> WordMatches:
        """Passages that hold any of the terms, scored; the rarest terms find them."""
        stems = {stem: term for term in terms for stem in self.stems(term)}
        self._count_all(list(stems), passages)
        found = {stem: (term, self._holding[stem]) for stem, term in stems.items()}
        rarest = sorted(found.items(), key=lambda item: item[1][1])[:MOST_TERMS]
        retrieving: list[str] = []
        common: dict[str, float] = {}
        room = most
        for stem, (term, count) in rarest:
            retrieves = count <= room or not (retrieving or common)
            if retrieves:
                retrieving.extend([term] if count else [])
                room -= count
            # FTS5 gives nothing for a word that half of all passages have.
            if not retrieves or 0 < passages <= 2 * count:
                start = _shared_start(term, stem)
                common[f" {start}" if start.isascii() else start] = rarity_of(count, passages)
        total = sum(rarity_of(count, passages) for _, (_, count) in rarest)
        longer = max(passages, LONG_HISTORY)
        asked = sum(rarity_of(count, longer) for _, (_, count) in rarest)
        return WordMatches(self._retrieve(retrieving), total, common, asked)

    @property
    def has_learned(self) -> bool:
        """Whether `learn` was asked for."""
        return self._vocabulary is not None

    def learn(self, passages: int) -> None:
        """Keep how many passages have each word, unless that is known of about so many passages.

        SQLite needs fifty microseconds to look one word up, which is long for hundreds of
        histories; eight bytes a word are little. Two words in four billion are taken for one.
        """
        if self._vocabulary is None or not _is_about(passages, self._learned_at):
            found = self._database.execute("select term, doc from vocabulary")
            rows = sorted((hash(term) & _WORD, min(count, _WORD)) for term, count in found)
            words, counts = (
                array("I", (row[0] for row in rows)),
                array("I", (row[1] for row in rows)),
            )
            self._vocabulary = words, counts
            self._learned_at = passages

    def holding(self, stems: Sequence[Sequence[str]], passages: int) -> list[int]:
        """How many passages have each word, in its most common form."""
        self._count_all([stem for each in stems for stem in each], passages)
        return [max((self._holding[stem] for stem in each), default=0) for each in stems]

    def knows(self, word: str) -> bool:
        """Whether any passage has the word."""
        return any(self._count(stem, self._counted_at) for stem in self.stems(word))

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
        self._count_all((stem,), passages)
        return self._holding[stem]

    def _count_all(self, stems: Sequence[str], passages: int) -> None:
        """Look words up that were not asked for since the history was about as long as now."""
        if not _is_about(passages, self._counted_at):
            self._holding.clear()
            self._counted_at = passages
        missing = [stem for stem in dict.fromkeys(stems) if stem not in self._holding]
        if missing and self._vocabulary is not None and _is_about(passages, self._learned_at):
            words, counts = self._vocabulary
            for stem in missing:
                at = bisect_left(words, hash(stem) & _WORD)
                known = at < len(words) and words[at] == hash(stem) & _WORD
                self._holding[stem] = counts[at] if known else 0
        elif missing:
            found = self._database.execute(
                f"select term, doc from vocabulary where term in ({', '.join('?' * len(missing))})",
                missing,
            )
            self._holding |= {**dict.fromkeys(missing, 0), **dict(found)}


def _is_about(passages: int, before: int) -> bool:
    """Whether a history is about as long as it was."""
    return abs(passages - before) <= before // 100


def _shared_start(term: str, stem: str) -> str:
    """`painted`, `paint` → paint; `happy`, `happi` → happ."""
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(term, stem)))  # noqa: B905
    return term[:length]


def score_common(
    common: Mapping[str, float], texts: Iterable[str], usual_length: float
) -> list[float]:
    """BM25 that common words add to each passage, from its own text.

    The text is searched for the words' beginnings instead of being stemmed: that is a hundred times
    faster, and these words only shift a score a little.
    """
    lowered = [f" {text.lower()}" for text in texts]
    shares = [_B * (len(text) - 1) / max(usual_length, 1.0) for text in lowered]
    scores = [0.0] * len(lowered)
    for start, rarity in common.items():
        for at, text in enumerate(lowered):
            if found := text.count(start):
                pull = _K1 * (1 - _B + shares[at])
                scores[at] += rarity * found * (_K1 + 1) / (found + pull)
    return scores


def rarity_of(count: int, passages: int) -> float:
    """Inverse document frequency of a word that so many of all passages have."""
    return math.log(1 + (max(passages, count) - count + 0.5) / (count + 0.5))
