"""Which passages are worth ranking: the best by words, the best by meaning, and their neighbours.

A question costs the same whether history holds a thousand passages or a million: some hundred
candidates are looked at closely, and nothing else is read.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, TypeVar

import apsw
import msgspec

from mindstone_tui.core.languages import is_english
from mindstone_tui.core.recall import import_numpy_on_one_thread
from mindstone_tui.core.recall.embedding import (
    BYTES_A_TOKEN,
    Encoded,
    Floats,
)
from mindstone_tui.core.recall.language_vectors import LanguageVectors
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.question import Question, only_asks
from mindstone_tui.core.recall.ranking import Candidate
from mindstone_tui.core.recall.store import PASSAGE_COLUMNS, STORED, TOKENIZER, passage_from
from mindstone_tui.core.words import MOST_TERMS, quoted

if TYPE_CHECKING:
    from mindstone_tui.core.recall.closeness import AskedTokens
    from mindstone_tui.core.recall.vector_view import VectorView

T = TypeVar("T")

MOST_POSTINGS: Final = 2_000
"""Occurrences that are fetched and scored for one question."""
LONG_HISTORY: Final = 500
"""Passages from which on the rarity of a word is what a history itself says."""
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
    asked: float
    """The rarity of every word asked for, as a long history knows it: in a short one no word is
    rare, yet a question means the same there."""


_WORD: Final = (1 << 32) - 1


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
            retrieves = count <= room or not (retrieving or common)
            if retrieves:
                retrieving.extend([term] if count else [])
                room -= count
            # FTS5 gives nothing for a word that half of all passages have.
            if not retrieves or 0 < passages <= 2 * count:
                common[_shared_start(term, stem)] = rarity_of(count, passages)
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


def rarity_of(count: int, passages: int) -> float:
    """Inverse document frequency of a word that so many of all passages have."""
    return math.log(1 + (max(passages, count) - count + 0.5) / (count + 0.5))


FROM_WORDS: Final = 100
FROM_MEANING: Final = 100
WITH_NEIGHBOURS: Final = 50
"""How many of the strongest bring their neighbours along."""
BACKGROUND: Final = 48
"""Passages, evenly spread over history, whose closeness says what is usual."""
USUAL_COSINE: Final = 0.1
USUAL_CLOSENESS: Final = 0.2
USUAL_OTHER: Final = 0.15
ASKS_ITSELF: Final = 0.5
"""The share of its nearness across languages that a question keeps: all of them are alike."""
"""What unrelated texts have; a short history cannot tell yet what is usual in it."""
BY_CHANCE: Final = 0.04
"""Closeness that a passage gains each time its length grows by a factor of e."""
FEW_TOKENS: Final = 20
"""The length from which that shows."""
_A_FEW_BYTES: Final = FEW_TOKENS * BYTES_A_TOKEN
DERIVED: Final = frozenset({"handoff_replayed"})
"""Kinds whose words stand elsewhere in history already."""
_SHORT_HISTORY: Final = 24
_LOADED_AT_ONCE: Final = 20_000
_FEW: Final = 300


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What may be found."""

    exclude: frozenset[int] = frozenset()
    """Sequence numbers that are in the window already, or were dropped."""
    since: float | None = None
    until: float | None = None
    kinds: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    """Kinds that are never among the hits."""
    unlike: str = ""
    """Entries whose name ends so are never among them."""

    @property
    def narrows(self) -> bool:
        """Whether rows have to be selected before anything is compared."""
        return self.since is not None or self.until is not None or bool(self.kinds)


_Read = tuple[int, int, Passage]
"""A row, its sitting, and the passage that stands there."""


class Signals(msgspec.Struct):
    """The evidence so far, by row."""

    words: dict[int, float]
    meaning: dict[int, float]
    other: dict[int, float]
    """By the model for many languages, less what is usual."""


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """What an index has to say about a question."""

    candidates: list[Candidate]
    passages: int = 0
    """How many there are to find."""
    asked: float = 0.0
    """How much was asked for: the rarity of the question's words, together."""
    unknown: tuple[str, ...] = ()
    """Names in the question that this history does not have."""


class Across(msgspec.Struct, frozen=True):
    """A question as the model for many languages sees it, and what it may be compared with."""

    asked: Floats
    vectors: LanguageVectors


class Gatherer:
    """Reads candidates from one open index."""

    def __init__(
        self,
        database: apsw.Connection,
        dims: int | None = None,
        generation: str = "",
        lexicon: Lexicon | None = None,
    ) -> None:
        self.generation = generation
        """Which making of the vectors it looks at; empty for none."""
        self.lexicon = lexicon or Lexicon(database)
        self._database = database
        self._view = _view_of(dims) if dims else None
        self._last_place = 0
        self._background: list[bytes] = []
        self._background_of = 0

    def gather(
        self,
        question: Question,
        asked: Encoded | None,
        allowed: Filter,
        across: Across | None = None,
        *,
        english_only: bool = False,
        share: int = 1,
    ) -> Gathered:
        """Candidates with their evidence, and what the question's words are worth here.

        With `english_only`, what was asked is compared with English passages alone; `across` is
        for what remains. One of several indexes gives its `share` of the candidates.
        """
        passages = self.passages()
        rows = self._allowed_rows(allowed)
        hidden = self._hidden_rows(allowed)
        matches = self.lexicon.match(question.terms, passages)
        signals = Signals(_kept(matches.scores, rows, hidden), {}, {})
        mean = 0.0
        if asked is not None and self._view is not None:
            self.refresh()
            count = FROM_MEANING // share + len(hidden)
            nearest, mean = self._view.nearest(asked.vector, count, rows, self._floats)
            signals.meaning = _kept(nearest, None, hidden)
            mean = usual(mean, USUAL_COSINE, passages)
        if across is not None:
            count = FROM_MEANING // share + len(hidden)
            nearest, ordinary = across.vectors.nearest(across.asked, count, rows)
            signals.other = _kept(nearest, None, hidden)
        found = self._read_around(_choose(signals, share), allowed, WITH_NEIGHBOURS // share)
        self._complete(signals, found, matches, asked)
        if across is not None:
            missing = [row for row, _, _ in found if row not in signals.other]
            signals.other |= across.vectors.cosines(across.asked, missing)
            ordinary = usual(ordinary, USUAL_OTHER, passages)
            asking = {row for row, _, passage in found if only_asks(passage.text)}
            signals.other = {
                row: (near - ordinary) * (ASKS_ITSELF if row in asking else 1.0)
                for row, near in signals.other.items()
            }
        near = self._closeness(asked, [row for row, _, _ in found], passages)
        uses = self._uses([passage.entry for _, _, passage in found])
        ours = {
            row
            for row, _, passage in found
            if row in signals.meaning and not (english_only and not is_english(passage.text))
        }
        candidates = [
            Candidate(
                row=row,
                sitting=sitting,
                passage=passage,
                words=signals.words.get(row, 0.0) / max(matches.total_rarity, 1e-9),
                by_words=row not in ours,
                meaning=signals.meaning[row] - mean if row in ours else 0.0,
                closeness=near.get(row, 0.0) if row in ours else 0.0,
                other=None if row in ours else signals.other.get(row),
                injected=uses.get(passage.entry, (0, 0))[0],
                used=uses.get(passage.entry, (0, 0))[1],
                recency=row / max(passages, 1),
            )
            for row, sitting, passage in found
        ]
        return Gathered(
            candidates=candidates,
            passages=passages,
            asked=matches.asked,
            unknown=tuple(name for name in question.names if not self.lexicon.knows(name)),
        )

    def passages(self) -> int:
        """How many there are; rows are numbered without gaps worth mentioning."""
        row = self._database.execute("select max(row) from passages").fetchone()
        return int(row[0] or 0) if row else 0

    def stems(self, terms: Sequence[str]) -> list[list[str]]:
        """The forms in which words are looked up; the same in every index."""
        return [self.lexicon.stems(term) for term in terms]

    def learn_words(self) -> None:
        """Look all words up at once, so that `holding` is quick from now on."""
        self.lexicon.learn(self.passages())

    def holding(self, stems: Sequence[Sequence[str]]) -> tuple[int, list[int]]:
        """How many there are, and how many hold each of these words."""
        passages = self.passages()
        return passages, self.lexicon.holding(stems, passages)

    def has_meaning(self, allowed: Filter) -> bool:
        """Whether any passage that may be found has a vector."""
        found = self._database.execute(
            "select 1 from passages where vector = ?"
            " and seq not in (select value from json_each(?))"
            " and (? or kind in (select value from json_each(?))) limit 1",
            (
                STORED,
                json.dumps(sorted(allowed.exclude)),
                not allowed.kinds,
                json.dumps(sorted(allowed.kinds)),
            ),
        )
        return found.fetchone() is not None

    def refresh(self) -> None:
        """Take vectors into memory that were stored since the last look."""
        assert self._view is not None
        fresh = self._database.execute(
            "select place, row, bits from signs where place > ? order by place",
            (self._last_place,),
        )
        while block := list(islice(fresh, _LOADED_AT_ONCE)):
            places, rows, bits = zip(*block, strict=True)
            self._view.add(rows, bits, self._floats)
            self._last_place = places[-1]

    def _hidden_rows(self, allowed: Filter) -> frozenset[int]:
        """Rows that must not take the place of others in the lists."""
        if not allowed.exclude:
            return frozenset()
        found = self._database.execute(
            "select row from passages where seq in (select value from json_each(?))",
            (json.dumps(sorted(allowed.exclude)),),
        )
        return frozenset(row[0] for row in found)

    def _allowed_rows(self, allowed: Filter) -> frozenset[int] | None:
        if not allowed.narrows:
            return None
        found = self._database.execute(
            "select row from passages where at >= ? and at <= ?"
            " and (? or kind in (select value from json_each(?)))",
            (
                -1e300 if allowed.since is None else allowed.since,
                1e300 if allowed.until is None else allowed.until,
                not allowed.kinds,
                json.dumps(sorted(allowed.kinds)),
            ),
        )
        return frozenset(row[0] for row in found)

    def _read_around(self, chosen: Sequence[int], allowed: Filter, strongest: int) -> list[_Read]:
        """The chosen rows, and around the strongest of them two messages on either side."""
        found = {each[0]: each for each in self._read(chosen, allowed)}
        edge = [row for row in chosen[:strongest] if row in found]
        for _ in range(2):
            beside = [row for each in edge for row in _beside(found[each])]
            missing = [row for row in dict.fromkeys(beside) if row not in found]
            found |= {each[0]: each for each in self._read(missing, allowed)}
            edge = [row for row in dict.fromkeys(beside) if row in found]
        return list(found.values())

    def _read(self, rows: Sequence[int], allowed: Filter) -> list[_Read]:
        found = self._database.execute(
            f"select row, sitting, at, {PASSAGE_COLUMNS} from passages"
            " where row in (select value from json_each(?))",
            (json.dumps(rows),),
        )
        return [
            (row, sitting, passage_from(columns))
            for row, sitting, at, *columns in found
            if columns[2] not in allowed.exclude
            and (allowed.since is None or at >= allowed.since)
            and (allowed.until is None or at <= allowed.until)
            and (not allowed.kinds or columns[8] in allowed.kinds)
            and columns[8] not in allowed.without
            and not (allowed.unlike and columns[3].endswith(allowed.unlike))
        ]

    def _complete(
        self,
        signals: Signals,
        found: Sequence[_Read],
        matches: WordMatches,
        asked: Encoded | None,
    ) -> None:
        """Fill in what only one of the lists knew."""
        if asked is not None and self._view is not None:
            missing = [row for row, _, _ in found if row not in signals.meaning]
            signals.meaning |= self._view.cosines(asked.vector, missing)
        if matches.common and found:
            length = sum(len(passage.text) for _, _, passage in found) / len(found)
            for row, _, passage in found:
                extra = score_common(matches.common, passage.text, length)
                signals.words[row] = signals.words.get(row, 0.0) + extra

    def _closeness(
        self, asked: Encoded | None, rows: Sequence[int], passages: int
    ) -> dict[int, float]:
        if asked is None or not len(asked.token_vectors):
            return {}
        from mindstone_tui.core.recall.closeness import asked_tokens, closeness

        tokens = asked_tokens(asked, lambda word: self.lexicon.rarity(word, passages))
        stored = self._tokens(rows)
        ordinary = self._usual_closeness(tokens, passages)
        measured = closeness(tokens, list(stored.values())).tolist()
        return {
            row: near - ordinary - by_chance(kept)
            for (row, kept), near in zip(stored.items(), measured, strict=True)
        }

    def _usual_closeness(self, tokens: AskedTokens, passages: int) -> float:
        from mindstone_tui.core.recall.closeness import closeness

        if passages > 1.25 * self._background_of or len(self._background) < BACKGROUND // 2:
            some = min(BACKGROUND, passages)
            spread = [1 + at * (passages - 1) // max(some - 1, 1) for at in range(some)]
            self._background = list(self._tokens(spread).values())
            self._background_of = passages
        measured = closeness(tokens, self._background).mean() if self._background else 0.0
        return usual(float(measured), USUAL_CLOSENESS, passages)

    def _tokens(self, rows: Sequence[int]) -> dict[int, bytes]:
        return dict(
            self._database.execute(
                "select row, signs from tokens where row in (select value from json_each(?))",
                (json.dumps(rows),),
            )
        )

    def _floats(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Numbers by row. sqlite-vec seeks a single row but scans everything for a list."""
        if len(rows) > _FEW:
            wanted = frozenset(rows)
            everything = self._database.execute("select rowid, embedding from vectors")
            return {row: numbers for row, numbers in everything if row in wanted}
        seek = "select embedding from vectors where rowid = ?"
        found = ((row, self._database.execute(seek, (row,)).fetchone()) for row in rows)
        return {row: numbers[0] for row, numbers in found if numbers is not None}

    def _uses(self, entries: Collection[str]) -> dict[str, tuple[int, int]]:
        found = self._database.execute(
            "select entry, injected, used from uses"
            " where entry in (select value from json_each(?))",
            (json.dumps(list(entries)),),
        )
        return {entry: (injected, used) for entry, injected, used in found}


def by_chance(tokens: bytes) -> float:
    """The more a passage says, the more of it is close to anything by chance."""
    return BY_CHANCE * math.log(max(len(tokens) / _A_FEW_BYTES, 1.0))


def _view_of(dims: int) -> VectorView:
    """An empty view; from here on numpy is loaded."""
    import_numpy_on_one_thread()
    from mindstone_tui.core.recall.vector_view import VectorView

    return VectorView(dims)


def _choose(signals: Signals, share: int) -> list[int]:
    """The best by words and the best by meaning, in turn: the strongest of each come first."""
    by_words = sorted(signals.words, key=signals.words.__getitem__, reverse=True)
    by_words = by_words[: FROM_WORDS // share]
    by_meaning = list(dict.fromkeys(in_turn(list(signals.meaning), list(signals.other))))
    return list(dict.fromkeys(in_turn(by_words, by_meaning)))


def _beside(read: _Read) -> tuple[int, int]:
    """The last row of the message before, and the first row of the message after."""
    row, _, passage = read
    first = row - passage.piece
    return first - 1, first + passage.pieces


def _kept(
    scores: dict[int, float], rows: Collection[int] | None, hidden: Collection[int]
) -> dict[int, float]:
    """The scores of rows that may be shown."""
    if rows is None and not hidden:
        return scores
    among = scores.keys() if rows is None else scores.keys() & set(rows)
    return {row: score for row, score in scores.items() if row in among and row not in hidden}


def usual(measured: float, known: float, passages: int) -> float:
    """What is usual here: the more history there is, the more its own measure counts."""
    share = passages / (passages + _SHORT_HISTORY)
    return share * measured + (1 - share) * known


def in_turn(first: Sequence[T], second: Sequence[T]) -> Iterable[T]:
    """One of the first, one of the second, and so on."""
    for at in range(max(len(first), len(second))):
        yield from first[at : at + 1]
        yield from second[at : at + 1]
