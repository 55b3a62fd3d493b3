"""What the words of a question are worth in a part of the library, and which passages hold them.

Scores are worked out here instead of by FTS5's own `bm25()`: that one, like its table of words,
looks at every passage of the library, however small the part that is asked about.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final

import apsw
import msgspec

from mindstone_tui.core.language.words import MOST_TERMS, quoted
from mindstone_tui.core.recall.library_file import ROWS_EACH, TOKENIZER, RowRange, owner_of, span_of

MOST_POSTINGS: Final = 2_000
"""Occurrences that are fetched and scored for one question,"""
BESIDE_MEANING: Final = 800
"""and so many where passages are found by their meaning as well."""
LONG_HISTORY: Final = 500
"""Passages from which on the rarity of a word is what a history itself says."""
_COUNTED: Final = 500
"""Occurrences of a word that are counted; of more the number is estimated."""
_SHORT_WORD: Final = 5
"""Letters of a word that is near too many others to be a slip of one."""
_WITHOUT_VOWELS: Final = str.maketrans("", "", "aeiouy")
Counts = Callable[[int, str, bool], bool]
"""Whether a passage is something that was said, by its line, its text, and being imported."""
_LOOKED_AT: Final = 12
"""Passages with a word of which one must count; a word that more have was said by somebody."""
_MEASURED: Final = 256
"""Passages whose length counts in a score: the best before it was looked at."""
_HOLDING: Final = (
    "words match ? and rowid between ? and ?"
    f" and (? or rowid >> {ROWS_EACH} in (select value from json_each(?)))"
)
_SHORTEST_SLIP: Final = 4
"""Letters of a name that may be misspelt; a shorter one is near too many words."""
_LONG_NAME: Final = 7
"""From so many letters on two of them may be wrong."""
_K1: Final = 1.2
_B: Final = 0.75


class WordMatches(msgspec.Struct, frozen=True):
    """What the words of a question found."""

    scores: dict[int, float]
    """BM25 by row, from the words that retrieve."""
    total_rarity: float
    """What a passage could earn at most before saturation: the rarity of every word asked for."""
    common: dict[str, float]
    """How a word begins in a text → rarity, of the words that only rescore."""
    held: dict[int, list[str]]
    """How those words begin that each row was found by,"""
    rarities: dict[str, float]
    """and what they are worth."""
    asked: float
    """The rarity of every word asked for, as a long history knows it: in a short one no word is
    rare, yet a question means the same there."""


class Lexicon:
    """Rarity and postings of words in a range of rows, with the stemmer that the library uses."""

    def __init__(
        self, database: apsw.Connection, span: RowRange, owners: frozenset[int] | None = None
    ) -> None:
        """Look at a range of rows, and there at some owners only if they are named."""
        self.owners = owners
        self._database = database
        self._within = (*span, owners is None, json.dumps(sorted(owners or ())))
        self._stemmer = database.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
        self._holding: dict[str, int] = {}
        self._counted_at = 0

    def rarity(self, term: str, passages: int) -> float:
        """Inverse document frequency of a word."""
        return rarity_of(self._count(term, passages), passages) if self.stems(term) else 0.0

    def match(self, terms: Sequence[str], passages: int, most: int = MOST_POSTINGS) -> WordMatches:
        """Passages that hold any of the terms, scored; the rarest terms find them."""
        forms = {" ".join(stems): term for term in terms if (stems := self.stems(term))}
        rows = {term: self._newest(term, most) for term in forms.values()}
        found = [
            (self._estimated(term, rows[term], passages, most), term, stem)
            for stem, term in forms.items()
        ]
        rarest = sorted(found, key=lambda each: each[0])[:MOST_TERMS]
        held: dict[int, list[str]] = {}
        rarities: dict[str, float] = {}
        common: dict[str, float] = {}
        room = most
        for count, term, stem in rarest:
            start = _shared_start(term, stem)
            start = f" {start}" if start.isascii() else start
            if count <= room or not (rarities or common):
                rarities[start] = rarity_of(count, passages)
                room -= count
                for row in rows[term]:
                    held.setdefault(row, []).append(start)
            else:
                common[start] = rarity_of(count, passages)
        longer = max(passages, LONG_HISTORY)
        return WordMatches(
            scores=self._scored(held, rarities),
            total_rarity=sum(rarity_of(count, passages) for count, _, _ in rarest),
            common=common,
            held=held,
            rarities=rarities,
            asked=sum(rarity_of(count, longer) for count, _, _ in rarest),
        )

    def knows(self, word: str) -> bool:
        """Whether any passage has the word."""
        return bool(self.stems(word)) and self._count(word, self._counted_at) > 0

    def is_said(self, word: str, counts: Counts) -> bool:
        """Whether a passage that counts has the word."""
        rows = self._newest(word, _LOOKED_AT) if self.stems(word) else []
        found = self._database.execute(
            "select seq, text, imported from passages"
            " where row in (select value from json_each(?))",
            (json.dumps(rows),),
        )
        return len(rows) == _LOOKED_AT or any(counts(*each) for each in found)

    def spelt(self, word: str, counts: Counts) -> str:
        """A word as it was said: itself, or what it is a slip of the pen for; empty for neither.

        A letter is missing, too many, in the wrong place, or another vowel.
        """

        def said(other: str) -> bool:
            return self.is_said(other, counts)

        if said(word):
            return word
        meant, stem = self.like(word, said), "".join(self.stems(word))
        one, other = (sorted(each.translate(_WITHOUT_VOWELS)) for each in (stem, meant))
        likely = len(stem) > _SHORT_WORD and (one == other or len(stem) != len(meant))
        return meant if meant and likely and slips_between(stem, meant, 1) <= 1 else ""

    def like(self, word: str, knows: Callable[[str], bool] | None = None) -> str:
        """The word of a passage that a name is a slip of the pen for; empty where none is.

        It begins with the same letter, and one letter, or two of a long name, differ.
        """
        stem = next(iter(self.stems(word)), "")
        if len(stem) < _SHORTEST_SLIP:
            return ""
        most = 1 if len(stem) < _LONG_NAME else 2
        self._database.execute(
            "create virtual table if not exists temp.vocabulary using fts5vocab(main, words, row)"
        )
        known = self._database.execute(
            "select term from vocabulary where term >= ? and term < ?",
            (stem[0], chr(ord(stem[0]) + 1)),
        )
        near = sorted(
            (distance, term)
            for (term,) in known
            if abs(len(term) - len(stem)) <= most
            and (distance := slips_between(stem, term, most)) <= most
        )
        return next((term for _, term in near if (knows or self.knows)(term)), "")

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

    def _newest(self, term: str, most: int) -> list[int]:
        """The newest passages that have a word, so many at most."""
        found = self._database.execute(
            f"select rowid from words where {_HOLDING} order by rowid desc limit ?",
            (f"body : ({quoted([term])})", *self._within, most),
        )
        return [row for (row,) in found]

    def _estimated(self, term: str, newest: Sequence[int], passages: int, most: int) -> int:
        """How many passages have a word, of which these are the newest, at most so many."""
        count = len(newest)
        if count == most:
            count = max(count, round(count * passages / max(self._from(newest[-1]), 1)))
        self._keep_up(passages)
        self._holding[term] = count
        return count

    def _scored(
        self, held: Mapping[int, list[str]], rarities: Mapping[str, float]
    ) -> dict[int, float]:
        """What the words that passages have are worth, once each, and how long the best are."""
        earned = {row: sum(rarities[start] for start in starts) for row, starts in held.items()}
        lengths = self._lengths(sorted(earned, key=lambda row: (-earned[row], -row))[:_MEASURED])
        usual = sum(lengths.values()) / max(len(lengths), 1)
        for row, length in lengths.items():
            earned[row] *= (_K1 + 1) / (1 + _K1 * (1 - _B + _B * length / usual))
        return earned

    def _lengths(self, rows: Sequence[int]) -> dict[int, int]:
        """How many words each passage has; at least one."""
        found = self._database.execute(
            "select id, sz from words_docsize where id in (select value from json_each(?))",
            (json.dumps(rows),),
        )
        return {row: max(_first_number(sizes), 1) for row, sizes in found}

    def _count(self, term: str, passages: int) -> int:
        """How many passages have a word; estimated from the newest where those are many."""
        self._keep_up(passages)
        if term not in self._holding:
            self._estimated(term, self._newest(term, _COUNTED), passages, _COUNTED)
        return self._holding[term]

    def _keep_up(self, passages: int) -> None:
        """Forget what was counted when the history was much shorter."""
        if abs(passages - self._counted_at) > self._counted_at // 100:
            self._holding.clear()
            self._counted_at = passages

    def _from(self, row: int) -> int:
        """How many passages there are from a row on."""
        owner = owner_of(row)
        _, last, everybody, owners = self._within
        later, own = self._database.execute(
            "select coalesce(sum(passages) filter (where number > ?1), 0),"
            " coalesce(sum(passages) filter (where number = ?1), 0)"
            " from owners where number between ?1 and ?2"
            " and (?3 or number in (select value from json_each(?4)))",
            (owner, owner_of(last), everybody, owners),
        ).get
        return int(later + max(own - (row - span_of(owner).first) + 1, 1))


def slips_between(one: str, other: str, most: int) -> int:
    """How many letters are wrong, missing, too many or in the wrong order; more than `most` is
    not counted further."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        before, row, last = row, [at], before
        for to, theirs in enumerate(other, start=1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != theirs))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == theirs:
                cost = min(cost, last[to - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def _first_number(sizes: bytes) -> int:
    """The first of FTS5's numbers of variable length: seven bits a byte, the highest first."""
    number = 0
    for byte in sizes:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


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


def score_repeated(matches: WordMatches, row: int, text: str, usual_length: float) -> float:
    """BM25 that a passage earns for having the words it was found by more than once."""
    lowered = f" {text.lower()}"
    pull = _K1 * (1 - _B + _B * (len(lowered) - 1) / max(usual_length, 1.0))
    return sum(
        matches.rarities[start] * (found / (found + pull) - 1 / (1 + pull)) * (_K1 + 1)
        for start in matches.held.get(row, ())
        if (found := lowered.count(start)) > 1
    )


def rarity_of(count: int, passages: int) -> float:
    """Inverse document frequency of a word that so many of all passages have."""
    return math.log(1 + (max(passages, count) - count + 0.5) / (count + 0.5))
