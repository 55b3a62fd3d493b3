"""Which passages are worth ranking: the best by words, the best by meaning, and their neighbours.

A question costs the same whether history holds a thousand passages or a million: some hundred
candidates are looked at closely, and nothing else is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import apsw
import msgspec

from mindstone_tui.core.language.intent import only_asks
from mindstone_tui.core.language.languages import is_english
from mindstone_tui.core.recall import embedding, import_numpy_on_one_thread, language_vectors
from mindstone_tui.core.recall import thresholds as tuned
from mindstone_tui.core.recall.lexicon import (
    BESIDE_MEANING,
    MOST_POSTINGS,
    Lexicon,
    WordMatches,
    score_common,
    score_repeated,
)
from mindstone_tui.core.recall.library_file import EVERYBODY, EVERYTHING, ROWS_EACH, span_of
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.question import Question
from mindstone_tui.core.recall.ranking import Candidate, evidence_for
from mindstone_tui.core.recall.store import PASSAGE_COLUMNS, STORED, passage_from

if TYPE_CHECKING:
    from mindstone_tui.core.recall.closeness import AskedTokens  # numpy: 0.1 s
    from mindstone_tui.core.recall.vector_view import VectorView  # numpy: 0.1 s

T = TypeVar("T")

DERIVED: Final = frozenset({"handoff_replayed"})
"""Kinds whose words stand elsewhere in history already."""
_SHORT_HISTORY: Final = 24
_NEVER: Final = 1 << 62
_WITHIN: Final = (1 << ROWS_EACH) - 1


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What may be found."""

    exclude: frozenset[int] = frozenset()
    """Sequence numbers that are in the window already, or were dropped."""
    excluded_of: int = EVERYBODY
    """Whose numbers those are, where everybody is asked."""
    owners: frozenset[int] | None = None
    """Who may be found, where everybody is asked; None for all."""
    since: float | None = None
    until: float | None = None
    kinds: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    """Kinds that are never among the hits."""
    as_of: int | None = None
    """The line at which one looks: what was rewound after it still counts there."""

    @property
    def looks_until(self) -> int:
        """The newest line whose rewind counts."""
        return _NEVER if self.as_of is None else self.as_of

    @property
    def narrows(self) -> bool:
        """Whether rows have to be selected before anything is compared."""
        return self.since is not None or self.until is not None or bool(self.kinds)


_ROWS: Final = (
    "select passages.row, sitting, at, {tokens}, {columns} from passages {beside}"
    " where passages.row in (select value from json_each(?))"
)
_REWOUND: Final = PASSAGE_COLUMNS.split(", ").index("rewound")
_WITHOUT_TOKENS: Final = _ROWS.format(tokens="null", columns=PASSAGE_COLUMNS, beside="")
_WITH_TOKENS: Final = _ROWS.format(
    tokens="signs", columns=PASSAGE_COLUMNS, beside="left join tokens on tokens.row = passages.row"
)
_Read = tuple[int, int, bytes, Passage]
"""A row, its sitting, the signs of its tokens, and the passage that stands there."""


class Signals(msgspec.Struct):
    """The evidence so far, by row."""

    words: dict[int, float]
    meaning: dict[int, float]
    other: dict[int, float]
    """By the model for many languages, less what is usual."""


class AskedWords(msgspec.Struct, frozen=True):
    """How near the candidates come to each word that was asked for."""

    weights: embedding.Floats
    """How much each word counts; together 1."""
    nearness: dict[str, embedding.Floats]
    """By the passage's id, how near it comes to each."""

    def missing(self, passages: Iterable[str]) -> float:
        """The share of what was asked for that none of these passages comes near to."""
        rows = [self.nearness[each].tolist() for each in passages if each in self.nearness]
        weighed = zip(map(max, zip(*rows, strict=True)), self.weights.tolist(), strict=False)
        return sum((weight for near, weight in weighed if near < tuned.UNRELATED), 0.0)


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """What an index has to say about a question."""

    candidates: list[Candidate]
    passages: int = 0
    """How many there are,"""
    hidden: int = 0
    """and how many of them may not be found: the window has them, or they were taken back."""
    asked: float = 0.0
    """How much was asked for: the rarity of the question's words, together."""
    unknown: tuple[str, ...] = ()
    """Names in the question that this history does not have."""
    matched: AskedWords | None = None
    """Word by word, where passages could be compared so."""


class Across(msgspec.Struct, frozen=True):
    """A question as the model for many languages sees it, and what it may be compared with."""

    asked: embedding.Floats
    vectors: language_vectors.LanguageVectors


class _Look(msgspec.Struct, kw_only=True):
    """One question on its way through an index: what is known so far."""

    signals: Signals
    matches: WordMatches
    asked: embedding.Encoded | None
    across: Across | None
    passages: int
    mean: float
    """The cosine that is usual here,"""
    ordinary: float
    """and by the model for many languages."""
    english_only: bool
    length: float = 0.0
    """Of the passages that were read first."""
    tokens: AskedTokens | None = None
    usual_closeness: float | None = None
    """Of passages chosen without regard to the question, once it was measured."""
    nearness: dict[str, embedding.Floats] = {}

    def matched(self) -> AskedWords | None:
        """What was compared word by word."""
        if self.tokens is None:
            return None
        from mindstone_tui.core.recall.closeness import word_weights  # numpy: 0.1 s

        return AskedWords(word_weights(self.tokens), self.nearness)


class Gatherer:
    """Reads candidates of one owner, or of everybody, from the library."""

    def __init__(
        self,
        database: apsw.Connection,
        owner: int,
        dims: int | None = None,
        generation: str = "",
        lexicon: Lexicon | None = None,
    ) -> None:
        self.generation = generation
        """Which making of the vectors it looks at; empty for none."""
        self._span = span_of(owner) if owner != EVERYBODY else EVERYTHING
        self.lexicon = lexicon or Lexicon(database, self._span)
        self._database = database
        self._owner = owner
        self._view = _view_of(database, dims, owner) if dims else None
        self._background: list[bytes] = []
        self._background_of = 0

    def gather(
        self,
        question: Question,
        asked: embedding.Encoded | None,
        allowed: Filter,
        across: Across | None = None,
        *,
        english_only: bool = False,
    ) -> Gathered:
        """Candidates with their evidence, and what the question's words are worth here.

        With `english_only`, what was asked is compared with English passages alone; `across` is
        for what remains.
        """
        if self.lexicon.owners != allowed.owners:
            self.lexicon = Lexicon(self._database, self._span, allowed.owners)
        passages = self.passages(allowed.owners)
        compared = asked is not None and self._view is not None
        most = BESIDE_MEANING if compared else MOST_POSTINGS
        matches = self.lexicon.match(question.terms, passages, most)
        hidden = self._hidden_rows(allowed)
        signals, mean, ordinary = self._first_look(matches, asked, allowed, across, hidden)
        look = _Look(
            signals=signals,
            matches=matches,
            asked=asked,
            across=across,
            passages=passages,
            mean=usual(mean, tuned.USUAL_COSINE, passages) if compared else 0.0,
            ordinary=usual(ordinary, tuned.USUAL_OTHER, passages),
            english_only=english_only,
        )
        if asked is not None and len(asked.token_vectors):
            from mindstone_tui.core.recall.closeness import asked_tokens  # numpy: 0.1 s

            look.tokens = asked_tokens(asked, lambda word: self.lexicon.rarity(word, passages))
        by_words = tuned.FROM_WORDS if compared else tuned.FROM_WORDS_ALONE
        found = self._read(look, _choose(signals, by_words), allowed)
        if self._owner == EVERYBODY:
            found = _originals(found)
        candidates = self._weigh(look, found)
        strongest = sorted(candidates, key=evidence_for, reverse=True)
        leading = [item.row for item in strongest[: tuned.WITH_NEIGHBOURS]]
        beside = self._read_beside(look, leading, found, allowed)
        if self._owner == EVERYBODY:
            known = {read[0] for read in found}
            beside = [read for read in _originals([*found, *beside]) if read[0] not in known]
        candidates += self._weigh(look, beside)
        return Gathered(
            candidates=candidates,
            passages=passages,
            hidden=len(hidden),
            asked=matches.asked,
            unknown=tuple(name for name in question.names if not self.lexicon.knows(name)),
            matched=look.matched(),
        )

    def respelt(self, question: Question) -> str:
        """The question with names as they are written here, where it misspells them."""
        text = question.text
        for name in question.names:
            if not self.lexicon.knows(name) and (meant := self.lexicon.like(name)):
                text = re.sub(rf"\b{re.escape(name)}\b", meant.title(), text, flags=re.IGNORECASE)
        return text

    def _first_look(
        self,
        matches: WordMatches,
        asked: embedding.Encoded | None,
        allowed: Filter,
        across: Across | None,
        hidden: Collection[int],
    ) -> tuple[Signals, float, float]:
        """What words and meaning find, and the mean cosine here by either model."""
        rows = self._allowed_rows(allowed)
        signals = Signals(_kept(matches.scores, rows, hidden), {}, {})
        mean = ordinary = 0.0
        count = tuned.FROM_MEANING + len(hidden)
        if asked is not None and self._view is not None:
            self._view.refresh()
            nearest, mean = self._view.nearest(asked.vector, count, rows, allowed.owners)
            signals.meaning = _kept(nearest, None, hidden)
        if across is not None:
            nearest, ordinary = across.vectors.nearest(across.asked, count, rows)
            signals.other = _kept(nearest, None, hidden)
        return signals, mean, ordinary

    def _weigh(self, look: _Look, found: Sequence[_Read]) -> list[Candidate]:
        """Passages with all the evidence for them."""
        signals = look.signals
        self._complete(look, found)
        near = self._closeness(look, found)
        uses = self._uses([passage.entry for _, _, _, passage in found])
        rarity = max(look.matches.total_rarity, 1e-9)
        counts = self._counts({row >> ROWS_EACH for row, _, _, _ in found})
        ours = {
            row
            for row, _, _, passage in found
            if row in signals.meaning and not (look.english_only and not is_english(passage.text))
        }
        return [
            Candidate(
                row=row,
                sitting=sitting,
                passage=passage,
                words=signals.words.get(row, 0.0) / rarity,
                by_words=row not in ours,
                meaning=signals.meaning[row] - look.mean if row in ours else 0.0,
                closeness=near.get(row, 0.0) if row in ours else 0.0,
                other=None if row in ours else signals.other.get(row),
                injected=injected,
                used=used,
                recency=(row & _WITHIN) / counts[row >> ROWS_EACH],
            )
            for row, sitting, _, passage in found
            for injected, used in (uses.get(passage.entry, (0, 0)),)
        ]

    def passages(self, owners: Collection[int] | None = None) -> int:
        """How many there are."""
        meant = {self._owner} if self._owner != EVERYBODY else owners
        found = self._database.execute(
            "select coalesce(sum(passages), 0) from owners"
            " where ? or number in (select value from json_each(?))",
            (meant is None, json.dumps(sorted(meant or ()))),
        )
        return int(found.get)

    def _counts(self, owners: Collection[int]) -> dict[int, int]:
        """How many passages each has."""
        found = self._database.execute(
            "select number, max(passages, 1) from owners"
            " where number in (select value from json_each(?))",
            (json.dumps(list(owners)),),
        )
        return dict(found)

    def finds_any(self, allowed: Filter, *, by_meaning: bool) -> bool:
        """Whether there is any passage that may be found, or any with a vector."""
        found = self._database.execute(
            "select 1 from passages where row between ? and ? and (vector = ? or not ?)"
            " and (owner <> ? or seq not in (select value from json_each(?)))"
            " and (? or kind in (select value from json_each(?))) limit 1",
            (
                *self._span,
                STORED,
                by_meaning,
                self._owner or allowed.excluded_of,
                json.dumps(sorted(allowed.exclude)),
                not allowed.kinds,
                json.dumps(sorted(allowed.kinds)),
            ),
        )
        return found.fetchone() is not None

    def _hidden_rows(self, allowed: Filter) -> frozenset[int]:
        """Rows that must not take the place of others in the lists."""
        whose = "" if self._owner == EVERYBODY else f"owner = {self._owner:d} and "
        found = self._database.execute(
            "select row from passages where owner = ? and seq in (select value from json_each(?))"
            f" union all select row from passages where {whose}rewound > 0 and rewound <= ?",
            (
                self._owner or allowed.excluded_of,
                json.dumps(sorted(allowed.exclude)),
                allowed.looks_until,
            ),
        )
        return frozenset(row[0] for row in found)

    def _allowed_rows(self, allowed: Filter) -> frozenset[int] | None:
        if not allowed.narrows:
            return None
        found = self._database.execute(
            "select row from passages where row between ? and ? and at >= ? and at <= ?"
            " and (? or kind in (select value from json_each(?)))",
            (
                *self._span,
                -1e300 if allowed.since is None else allowed.since,
                1e300 if allowed.until is None else allowed.until,
                not allowed.kinds,
                json.dumps(sorted(allowed.kinds)),
            ),
        )
        return frozenset(row[0] for row in found)

    def _read_beside(
        self, look: _Look, strongest: Sequence[int], known: Sequence[_Read], allowed: Filter
    ) -> list[_Read]:
        """What is not known yet of two messages on either side of the strongest."""
        found = {each[0]: each for each in known}
        first = len(found)
        edge = list(strongest)
        for _ in range(2):
            beside = list(dict.fromkeys(row for each in edge for row in _beside(found[each])))
            missing = [row for row in beside if row not in found]
            found |= {each[0]: each for each in self._read(look, missing, allowed)}
            edge = [row for row in beside if row in found]
        return list(found.values())[first:]

    def _read(self, look: _Look, rows: Sequence[int], allowed: Filter) -> list[_Read]:
        statement = _WITHOUT_TOKENS if look.tokens is None else _WITH_TOKENS
        found = self._database.execute(statement, (json.dumps(rows),))
        own = self._owner or allowed.excluded_of
        exclude, owners = allowed.exclude, allowed.owners
        return [
            (row, (row >> ROWS_EACH << ROWS_EACH) + sitting, signs or b"", passage_from(columns))
            for row, sitting, at, signs, *columns in found
            if not (columns[2] in exclude and row >> ROWS_EACH == own)
            and (owners is None or row >> ROWS_EACH in owners)
            and not 0 < columns[_REWOUND] <= allowed.looks_until
            and (allowed.since is None or at >= allowed.since)
            and (allowed.until is None or at <= allowed.until)
            and (not allowed.kinds or columns[8] in allowed.kinds)
            and columns[8] not in allowed.without
        ]

    def _complete(self, look: _Look, found: Sequence[_Read]) -> None:
        """Fill in what only one of the lists knew."""
        signals, matches = look.signals, look.matches
        if look.asked is not None and self._view is not None:
            missing = [row for row, _, _, _ in found if row not in signals.meaning]
            signals.meaning |= self._view.cosines(look.asked.vector, missing)
        if found:
            texts = [passage.text for _, _, _, passage in found]
            look.length = look.length or sum(map(len, texts)) / len(texts)
            for row, _, _, passage in found:
                if row in signals.words:
                    signals.words[row] += score_repeated(matches, row, passage.text, look.length)
            gained = score_common(matches.common, texts, look.length)
            for (row, _, _, _), extra in zip(found, gained, strict=True):
                signals.words[row] = signals.words.get(row, 0.0) + extra
        if look.across is not None:
            missing = [row for row, _, _, _ in found if row not in signals.other]
            signals.other |= look.across.vectors.cosines(look.across.asked, missing)
            crowded = look.across.vectors.crowding(
                len(look.across.asked), [row for row, _, _, _ in found if row in signals.other]
            )
            known = tuned.CROWDED * look.passages / (look.passages + _SHORT_HISTORY)
            for row, _, _, passage in found:
                if row in signals.other:
                    nearer = crowded.get(row, tuned.USUAL_CROWDING) - tuned.USUAL_CROWDING
                    kept = tuned.ASKS_ITSELF if only_asks(passage.text) else 1.0
                    near = signals.other[row] - look.ordinary - known * nearer
                    signals.other[row] = near * kept

    def _closeness(self, look: _Look, found: Sequence[_Read]) -> dict[int, float]:
        """By row, how close it comes beyond what is usual; word by word it is kept in the look."""
        if look.tokens is None:
            return {}
        from mindstone_tui.core.recall.closeness import closeness  # numpy: 0.1 s

        stored = [read for read in found if read[2]]
        some = [] if look.usual_closeness is not None else self._some_tokens(look.passages)
        measured = closeness(look.tokens, some + [signs for _, _, signs, _ in stored])
        if look.usual_closeness is None:
            mean = float(measured.whole[: len(some)].mean()) if some else 0.0
            look.usual_closeness = usual(mean, tuned.USUAL_CLOSENESS, look.passages)
        words = measured.words[len(some) :]
        look.nearness |= dict(zip([passage.id for _, _, _, passage in stored], words, strict=True))
        beyond = measured.whole - look.usual_closeness - by_chance(measured.tokens)
        return dict(zip([read[0] for read in stored], beyond[len(some) :].tolist(), strict=True))

    def _some_tokens(self, passages: int) -> list[bytes]:
        """The tokens of some passages, evenly spread: what is usual in this history."""
        if passages > 1.25 * self._background_of or len(self._background) < tuned.BACKGROUND // 2:
            spread = self._view.spread(tuned.BACKGROUND) if self._view is not None else []
            self._background = list(self._tokens(spread).values())
            self._background_of = passages
        return self._background

    def _tokens(self, rows: Sequence[int]) -> dict[int, bytes]:
        return dict(
            self._database.execute(
                "select row, signs from tokens where row in (select value from json_each(?))",
                (json.dumps(rows),),
            )
        )

    def _uses(self, entries: Collection[str]) -> dict[str, tuple[int, int]]:
        # Nothing was ever recalled in most histories: those of other programs, and new ones.
        if self._database.execute("select 1 from uses limit 1").fetchone() is None:
            return {}
        found = self._database.execute(
            "select entry, injected, used from uses"
            " where entry in (select value from json_each(?))",
            (json.dumps(list(entries)),),
        )
        return {entry: (injected, used) for entry, injected, used in found}


def by_chance(tokens: embedding.Floats) -> embedding.Floats:
    """The more tokens a passage has, the closer it comes to anything by chance."""
    import numpy as np

    return np.asarray(
        tuned.BY_CHANCE * np.log(np.maximum(tokens / tuned.FEW_TOKENS, 1)), np.float32
    )


def _originals(found: Sequence[_Read]) -> list[_Read]:
    """Each thing that was said once: where it was said, and not in the forks it was copied to.

    A copy's line has a younger name than the one that it is a copy of.
    """
    first: dict[tuple[str, str, str], str] = {}
    for _, _, _, passage in found:
        said = (passage.ts, passage.speaker, passage.text)
        first[said] = min(first.get(said, passage.entry), passage.entry)
    return [
        read for read in found if first[read[3].ts, read[3].speaker, read[3].text] == read[3].entry
    ]


def _view_of(database: apsw.Connection, dims: int, owner: int) -> VectorView:
    """An empty view; from here on numpy is loaded."""
    import_numpy_on_one_thread()
    from mindstone_tui.core.recall.vector_view import VectorView  # numpy: 0.1 s

    return VectorView(database, dims, owner or None)


def _choose(signals: Signals, most: int) -> list[int]:
    """The best by words and the best by meaning, in turn: the strongest of each come first."""
    by_words = sorted(signals.words, key=signals.words.__getitem__, reverse=True)[:most]
    by_meaning = list(dict.fromkeys(in_turn(list(signals.meaning), list(signals.other))))
    return list(dict.fromkeys(in_turn(by_words, by_meaning)))


def _beside(read: _Read) -> tuple[int, int]:
    """The last row of the message before, and the first row of the message after."""
    row, _, _, passage = read
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
