"""Which passages are worth ranking: the best by words, the best by meaning, and their neighbours.

A question costs the same whether history holds a thousand passages or a million: some hundred
candidates are looked at closely, and nothing else is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

import apsw
import msgspec
import numpy as np

from mindstone_tui.core.recall.embedding import Encoded
from mindstone_tui.core.recall.lexicon import Lexicon, WordMatches, score_common
from mindstone_tui.core.recall.passage import Passage
from mindstone_tui.core.recall.question import Question
from mindstone_tui.core.recall.ranking import Candidate
from mindstone_tui.core.recall.tables import PASSAGE_COLUMNS, passage_from
from mindstone_tui.core.recall.tokenwise import AskedTokens, asked_tokens, closeness
from mindstone_tui.core.recall.vectors import Rows, VectorView

FROM_WORDS: Final = 80
FROM_MEANING: Final = 80
WITH_NEIGHBOURS: Final = 30
"""How many of the strongest bring their neighbours along."""
BACKGROUND: Final = 48
"""Passages, evenly spread over history, whose closeness says what is usual."""
USUAL_COSINE: Final = 0.1
USUAL_CLOSENESS: Final = 0.2
"""What unrelated texts have; a short history cannot tell yet what is usual in it."""
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

    @property
    def narrows(self) -> bool:
        """Whether rows have to be selected before anything is compared."""
        return self.since is not None or self.until is not None or bool(self.kinds)


class Signals(msgspec.Struct):
    """The evidence so far, by row."""

    words: dict[int, float]
    meaning: dict[int, float]


class Gatherer:
    """Reads candidates from one open index."""

    def __init__(
        self, database: apsw.Connection, dims: int | None = None, generation: str = ""
    ) -> None:
        self.generation = generation
        """Which making of the vectors it looks at; empty for none."""
        self._database = database
        self._lexicon = Lexicon(database)
        self._view = VectorView(dims) if dims else None
        self._last_place = 0
        self._background: list[bytes] = []
        self._background_of = 0

    def gather(self, question: Question, asked: Encoded | None, allowed: Filter) -> list[Candidate]:
        """Candidates with their evidence."""
        passages = self.passages()
        rows = self._allowed_rows(allowed)
        hidden = self._hidden_rows(allowed)
        matches = self._lexicon.match(question.terms, passages)
        signals = Signals(_kept(matches.scores, rows, hidden), {})
        mean = 0.0
        if asked is not None and self._view is not None:
            self.refresh()
            count = FROM_MEANING + len(hidden)
            nearest, mean = self._view.nearest(asked.vector, count, rows, self._floats)
            signals.meaning = _kept(nearest, None, hidden)
            mean = _usual(mean, USUAL_COSINE, passages)
        chosen = self._choose(signals, passages)
        found = self._read(chosen, allowed)
        self._complete(signals, found, matches, asked)
        near = self._closeness(asked, [row for row, _, _ in found], passages)
        uses = self._uses([passage.entry for _, _, passage in found])
        return [
            Candidate(
                row=row,
                sitting=sitting,
                passage=passage,
                words=signals.words.get(row, 0.0) / max(matches.total_rarity, 1e-9),
                meaning=signals.meaning[row] - mean if row in signals.meaning else 0.0,
                closeness=near.get(row, 0.0),
                injected=uses.get(passage.entry, (0, 0))[0],
                used=uses.get(passage.entry, (0, 0))[1],
                recency=row / max(passages, 1),
            )
            for row, sitting, passage in found
        ]

    def passages(self) -> int:
        """How many there are; rows are numbered without gaps worth mentioning."""
        row = self._database.execute("select max(row) from passages").fetchone()
        return int(row[0] or 0) if row else 0

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

    def _allowed_rows(self, allowed: Filter) -> Rows | None:
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
        return np.array([row[0] for row in found], np.int64)

    def _choose(self, signals: Signals, passages: int) -> list[int]:
        by_words = sorted(signals.words, key=signals.words.__getitem__, reverse=True)[:FROM_WORDS]
        by_meaning = list(signals.meaning)
        # The two lists in turn: the strongest of each come first and bring their neighbours.
        chosen = list(dict.fromkeys(_in_turn(by_words, by_meaning)))
        neighbours = (
            row + step
            for row in chosen[:WITH_NEIGHBOURS]
            for step in (-2, -1, 1, 2)
            if 0 < row + step <= passages
        )
        return list(dict.fromkeys((*chosen, *neighbours)))

    def _read(self, rows: Sequence[int], allowed: Filter) -> list[tuple[int, int, Passage]]:
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
        ]

    def _complete(
        self,
        signals: Signals,
        found: Sequence[tuple[int, int, Passage]],
        matches: WordMatches,
        asked: Encoded | None,
    ) -> None:
        """Fill in what only one of the lists knew."""
        if asked is not None and self._view is not None:
            missing = [row for row, _, _ in found if row not in signals.meaning]
            signals.meaning |= self._view.cosines(asked.vector, missing)
        if matches.common and found:
            usual = sum(len(passage.text) for _, _, passage in found) / len(found)
            for row, _, passage in found:
                extra = score_common(matches.common, passage.text, usual)
                signals.words[row] = signals.words.get(row, 0.0) + extra

    def _closeness(
        self, asked: Encoded | None, rows: Sequence[int], passages: int
    ) -> dict[int, float]:
        if asked is None or not len(asked.token_vectors):
            return {}
        tokens = asked_tokens(asked, lambda word: self._lexicon.rarity(word, passages))
        stored = self._tokens(rows)
        usual = self._usual_closeness(tokens, passages)
        values = closeness(tokens, [stored[row] for row in stored]) - usual
        return dict(zip(stored, values.tolist(), strict=True))

    def _usual_closeness(self, tokens: AskedTokens, passages: int) -> float:
        if passages > 1.25 * self._background_of or len(self._background) < BACKGROUND // 2:
            spread = np.linspace(1, passages, min(BACKGROUND, passages)).astype(np.int64)
            self._background = list(self._tokens(spread.tolist()).values())
            self._background_of = passages
        measured = closeness(tokens, self._background).mean() if self._background else 0.0
        return _usual(float(measured), USUAL_CLOSENESS, passages)

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


def _kept(scores: dict[int, float], rows: Rows | None, hidden: Collection[int]) -> dict[int, float]:
    """The scores of rows that may be shown."""
    if rows is None and not hidden:
        return scores
    among = scores.keys() if rows is None else scores.keys() & set(rows.tolist())
    return {row: score for row, score in scores.items() if row in among and row not in hidden}


def _usual(measured: float, known: float, passages: int) -> float:
    """What is usual here: the more history there is, the more its own measure counts."""
    share = passages / (passages + _SHORT_HISTORY)
    return share * measured + (1 - share) * known


def _in_turn(first: Sequence[int], second: Sequence[int]) -> Iterable[int]:
    for at in range(max(len(first), len(second))):
        yield from first[at : at + 1]
        yield from second[at : at + 1]
