"""Passages of histories on the server: kept there to be found without fetching a history.

Nothing here knows how text is cut or ranked. A passage is a body that only machines read, with the
stems of its words, and a vector where the server has pgvector. What is found is evidence for the
machine that asked, which ranks it as it ranks its own.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.standings import Rewinds
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript.reader import Head, read_line

Place = tuple[int, int]
"""A session's number on the server, and the number of a passage in it."""

_ALWAYS: Final = 1e300
_LONGEST_STEM: Final = 500
"""A lexeme may have 2,046 bytes; nobody types a word that comes near."""


class SearchMark(msgspec.Struct, frozen=True):
    """How far into a history search has come, and how its passages were cut."""

    seq: int = -1
    chunking: int = 0


class KeptPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage on its way to the server."""

    seq: int
    at: float
    kind: str
    sitting: int
    wanted: bool
    """Whether it is to have a vector."""
    stems: Sequence[str]
    body: bytes


class KeptMeaning(msgspec.Struct, frozen=True):
    """The vector of one, as the machine that made it keeps it."""

    place: int
    numbers: Sequence[float]
    tokens: bytes
    spread: bytes
    """Evenly distributed bytes: the first few in order are a sample."""


class FoundPassage(msgspec.Struct, frozen=True):
    """A passage as it came back."""

    session: int
    place: int
    key: str
    sitting: int
    passages: int
    """How many its session has."""
    body: bytes


class SearchBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What may be found."""

    without: Collection[SessionKey] = ()
    since: float | None = None
    until: float | None = None
    kinds: Collection[str] = ()

    def as_parameters(self) -> tuple[object, ...]:
        """The same, in the order that the functions on the server take it."""
        return (
            [str(key) for key in self.without],
            -_ALWAYS if self.since is None else self.since,
            _ALWAYS if self.until is None else self.until,
            list(self.kinds),
        )


class PassageStore:
    """The passages of one owner on one server."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._ask = partial(store.ask, list[Any], make=False)
        self._owner = store.owner
        self._meaning: bool | None = None

    @property
    def has_meaning(self) -> bool:
        """Whether the server can compare vectors; if it could and this role may, it is made so."""
        if self._meaning is None:
            with self._store.talk() as connection:
                import psycopg

                try:
                    row = connection.execute("select mindstone.add_meaning()").fetchone()
                    self._meaning = bool(row and row[0])
                except psycopg.errors.InsufficientPrivilege:
                    self._meaning = False
        return self._meaning

    def compares(self, model: str) -> bool:
        """Whether there is a vector of this model that a question may be compared with."""
        if not self.has_meaning:
            return False
        rows = self._ask(
            "select exists (select from mindstone.meaning where owner = %s and model = %s)",
            *(self._owner, model),
        )
        return bool(rows[0][0])

    # What goes in

    def marks(self) -> dict[SessionKey, SearchMark]:
        """How far search has come, by session."""
        rows = self._store.ask(
            list[tuple[str, int, int]],
            "select s.key, d.seq, d.chunking from mindstone.searched d "
            "join mindstone.session s on s.id = d.session where d.owner = %s",
            self._owner,
        )
        return {SessionKey.parse(key): SearchMark(seq, chunking) for key, seq, chunking in rows}

    def mark(self, key: SessionKey) -> SearchMark:
        """How far search has come in one session."""
        rows = self._ask("select seq, chunking from mindstone.searched where session = %s", of=key)
        return SearchMark(*rows[0]) if rows else SearchMark()

    def start_over(self, key: SessionKey, chunking: int) -> None:
        """Forget passages that were cut in an older way."""
        self._ask("select mindstone.search_anew(%s, %s)", chunking, of=key)

    def add(
        self, key: SessionKey, after: SearchMark, through: Head, passages: Sequence[KeptPassage]
    ) -> bool:
        """Keep the passages up to a line; False when another machine was quicker."""
        rows = self._ask(
            "select mindstone.add_passages(%s, %s, %s, %s, %s, %s::bigint[], %s::float8[], "
            "%s::text[], %s::int[], %s::boolean[], %s::int[], %s::text[], %b::bytea[])",
            *(after.chunking, after.seq, through.seq, through.hash),
            [each.seq for each in passages],
            [each.at for each in passages],
            [each.kind for each in passages],
            [each.sitting for each in passages],
            [each.wanted for each in passages],
            [len(each.stems) for each in passages],
            [" ".join(_kept_stems(each.stems)) for each in passages],
            [each.body for each in passages],
            of=key,
        )
        return bool(rows[0][0])

    def without_meaning(self, key: SessionKey, model: str, most: int) -> list[tuple[int, bytes]]:
        """Passages that have no vector of this model: place and body."""
        return self._ask(
            "select place, body from mindstone.without_meaning(%s, %s, %s)", model, most, of=key
        )

    def keep_meaning(self, key: SessionKey, model: str, made: Sequence[KeptMeaning]) -> None:
        """Keep vectors of passages that are there."""
        self._ask(
            "select mindstone.keep_meaning(%s, %s, %s::int[], %s::text[], %b::bytea[], "
            "%b::bytea[])",
            model,
            [each.place for each in made],
            [_as_text(each.numbers) for each in made],
            [each.tokens for each in made],
            [each.spread for each in made],
            of=key,
        )

    # What comes out

    def size(self) -> int:
        """How many passages there are to find."""
        rows = self._ask(
            "select coalesce(sum(passages), 0) from mindstone.searched where owner = %s",
            self._owner,
        )
        return int(rows[0][0])

    def counts(self, stems: Sequence[str], most: int) -> dict[str, int]:
        """In how many passages each stem stands; counting ends at `most`."""
        return dict(
            self._ask(
                "select stem, passages from mindstone.count_stems(%s, %s, %s)",
                *(self._owner, _kept_stems(stems), most),
            )
        )

    def by_words(self, rarity: dict[str, float], bounds: SearchBounds, most: int) -> list[Place]:
        """The passages with the most of what is rare."""
        if not (stems := _kept_stems(rarity)):
            return []
        return self._ask(
            "select session, place from mindstone.find_by_words(%s, %s, %s::float8[], %s::text[], "
            "%s, %s, %s::text[], %s)",
            *(self._owner, stems, [rarity[stem] for stem in stems]),
            *bounds.as_parameters(),
            most,
        )

    def by_meaning(
        self, model: str, asked: Sequence[float], bounds: SearchBounds, most: int
    ) -> list[Place]:
        """The nearest passages, best first."""
        return self._ask(
            "select session, place from mindstone.find_by_meaning(%s, %s, %s, %s, %s::text[], "
            "%s, %s, %s::text[], %s)",
            *(self._owner, model, len(asked), _as_text(asked)),
            *bounds.as_parameters(),
            most,
        )

    def read(self, places: Collection[Place]) -> list[FoundPassage]:
        """Passages by their places; a place where none is has none."""
        rows = self._ask(
            "select session, place, key, sitting, passages, body from "
            "mindstone.read_passages(%s, %s::bigint[], %s::int[])",
            *(self._owner, *_apart(places)),
        )
        return [FoundPassage(*row) for row in rows]

    def read_meaning(
        self, model: str, asked: Sequence[float], places: Collection[Place]
    ) -> dict[Place, tuple[float, bytes]]:
        """Cosine and tokens of those that have a vector of this model."""
        rows = self._ask(
            "select session, place, cosine, tokens from "
            "mindstone.read_meaning(%s, %s, %s, %s::bigint[], %s::int[])",
            *(self._owner, model, _as_text(asked), *_apart(places)),
        )
        return {(session, place): (cosine, tokens) for session, place, cosine, tokens in rows}

    def sample(self, model: str, asked: Sequence[float], most: int) -> list[tuple[float, bytes]]:
        """Cosines and tokens of some passages, evenly spread: what is usual here."""
        return self._ask(
            "select cosine, tokens from mindstone.sample_meaning(%s, %s, %s, %s)",
            *(self._owner, model, _as_text(asked), most),
        )

    def lines(self, key: SessionKey, seqs: Collection[int]) -> dict[int, bytes]:
        """Lines of a history, as they are kept."""
        rows = self._ask(
            "select seq, line from mindstone.entry where session = %s and seq = any(%s)",
            sorted(seqs),
            of=key,
        )
        return dict(rows)

    def rewinds(self, key: SessionKey) -> Rewinds:
        """What of a history was taken back."""
        rows = self._ask(
            "select line from mindstone.entry where session = %s and ("
            'position(\'"kind":"rewound"\'::bytea in line) > 0 '
            'or position(\'"kind":"restored"\'::bytea in line) > 0)',
            of=key,
        )
        lines = (read_line(raw, 0) for (raw,) in rows)
        return Rewinds(line for line in lines if isinstance(line, Line))

    def blob(self, key: SessionKey, digest: str) -> bytes:
        """Bytes that are kept beside a history."""
        return self._store.blob(key, digest)


def uncovered(
    marks: dict[SessionKey, SearchMark], heads: dict[SessionKey, Head]
) -> set[SessionKey]:
    """Sessions whose newest line cannot be found on the server."""
    return {key for key, head in heads.items() if marks.get(key, SearchMark()).seq < head.seq}


def _kept_stems(stems: Iterable[str]) -> list[str]:
    kept = (stem for stem in stems if stem and len(stem) <= _LONGEST_STEM and "\0" not in stem)
    return list(dict.fromkeys(kept))


def _as_text(numbers: Sequence[float]) -> str:
    return "[" + ",".join(f"{number:.5g}" for number in numbers) + "]"


def _apart(places: Collection[Place]) -> tuple[list[int], list[int]]:
    return [session for session, _ in places], [place for _, place in places]
