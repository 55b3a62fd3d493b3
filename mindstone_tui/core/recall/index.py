"""Recall's index of one session: what was said goes in, proof that it is there comes out.

It is that session's part of the library, one file for all sessions of a home.

Words are stored at once, in short transactions, and read back by content hash; vectors follow in
the background. Everything here can be rebuilt from the transcript, and the index remembers how
far it has come, so a crash costs at most the exchange being written and doubles nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar

import apsw
import msgspec

from mindstone_tui.core import disk, entries, errors, paths
from mindstone_tui.core.entries import actions, window
from mindstone_tui.core.language.intent import as_statement
from mindstone_tui.core.recall import acts, embedding, language_vectors, library_file, speak
from mindstone_tui.core.recall import thresholds as tuned
from mindstone_tui.core.recall.candidates import Across, Filter, Gatherer
from mindstone_tui.core.recall.lexicon import Counts
from mindstone_tui.core.recall.passages import CHUNKING, Passage
from mindstone_tui.core.recall.question import read_question
from mindstone_tui.core.recall.ranking import Hit, rank
from mindstone_tui.core.recall.store import IndexMark, Meaning, Tables, take_over

T = TypeVar("T")

EVERYTHING: Final = Filter()
_AT_FIRST: Final = 0.4
"""Seconds that the first question in another language waits for vectors of many languages,"""
_AT_ONCE: Final = 16
"""made so many at once, the newest first; the others are made beside it."""
_AS_CHEAP: Final = 8
"""So many vectors for many languages take about as long as one of the other kind."""
_FOREIGN: Final = 50
"""Of so many passages one must be in another language for a question in English to load the model
that knows them: it takes longer than everything else in a search."""
JUDGED: Final = 24
"""Hits that are looked at to judge the best of them, however few are wanted."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one search."""

    query: str
    hits: tuple[Hit, ...]
    judged: speak.Judgement
    """How good the best of them is."""
    vectors: bool
    """False when only words were searched."""

    @property
    def abstained(self) -> bool:
        """Whether nothing found is good enough to be brought back unasked for such a message."""
        return bool(speak.silence(self.query, self.hits, self.judged))


class Asked:
    """A question's meaning, worked out when it is wanted, once for all indexes."""

    def __init__(self, embedder: embedding.Embedder | None, query: str) -> None:
        self.embedder = embedder
        self.query = query

    @cached_property
    def encoded(self) -> embedding.Encoded | None:
        """By the model for English; None when there is none, or it cannot answer."""
        try:
            return (
                embedding.encode(self.embedder, self.query) if self.embedder is not None else None
            )
        except errors.VectorsUnavailable:
            return None

    @property
    def knows_languages(self) -> bool:
        """Whether there is a model for many languages."""
        return embedding.companion_of(self.embedder) is not None

    @cached_property
    def across(self) -> embedding.Floats | None:
        """By the model for many languages; None when there is none, or it cannot answer."""
        companion = embedding.companion_of(self.embedder)
        try:
            if companion is None:
                return None
            vector: embedding.Floats = companion.embed([as_statement(self.query)])[0]
            return vector
        except errors.VectorsUnavailable:
            return None


class RecallIndex:
    """Words and vectors of one owner in a file; safe to use from several threads and processes."""

    def __init__(
        self,
        path: Path,
        embedder: embedding.Embedder | None,
        owner: str | None = "",
        session: paths.SessionPlaces | None = None,
    ) -> None:
        """Open the part of an owner, or with None everybody's, which is for questions only."""
        self._path = path
        self._embedder = embedder
        self._owner = owner
        self._session = session
        self._lock = threading.RLock()
        self._model_worked = False
        self._companion_works = True
        self._impatient_since: int | None = None
        """How much had been written here when a step waited in vain."""
        self.damaged: Path | None = None
        """Where a damaged file went, if one was met; the index then has to catch up anew."""
        self._connect()

    @classmethod
    def open(cls, path: Path, embedder: embedding.Embedder | None) -> RecallIndex:
        """Open or create a file with one owner; a damaged one is put aside without a question."""
        return cls(path, embedder)

    @classmethod
    def of(cls, session: paths.SessionPlaces, embedder: embedding.Embedder | None) -> RecallIndex:
        """A session's part of its home's library."""
        return cls(session.library, embedder, str(session.key), session)

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._database.close()

    # What goes in

    def ensure(
        self, passages: Iterable[Passage], mark: IndexMark | None = None
    ) -> tuple[window.Receipt, ...]:
        """Store what is missing, exchange by exchange, and read all of it back.

        With a mark, the last transaction also records how far into history that is.
        """
        turns = _by_turn(passages)
        self._leave_mark()

        def work() -> tuple[window.Receipt, ...]:
            for at, turn in enumerate(turns, start=1):
                self._tables.store(turn, mark if at == len(turns) else None)
            if mark is not None and not turns:
                self._tables.store((), mark)
            return self._receipts(turns)

        return self._guarded(work)

    def add(
        self,
        passages: Sequence[Passage],
        mark: IndexMark,
        rewinds: Sequence[entries.Line] = (),
        done: Sequence[tuple[actions.Action, str]] = (),
    ) -> None:
        """Store many exchanges in one go, to catch up; receipts are read separately."""
        self._leave_mark()
        self._guarded(lambda: self._tables.store(passages, mark, rewinds, done))

    def _leave_mark(self) -> None:
        """Let a session whose transcript is lost be told from one that never was."""
        if self._session is not None and not os.path.lexists(self._session.indexed):
            with contextlib.suppress(OSError):
                disk.REAL.close(disk.REAL.open(self._session.indexed, os.O_RDWR | os.O_CREAT))

    def keep_only(self, passages: Sequence[Passage], mark: IndexMark) -> None:
        """Make these all that can be found; texts that stay keep their vectors."""
        self._guarded(lambda: self._tables.store(passages, mark, alone=True))

    def receipts(self, passages: Iterable[Passage]) -> tuple[window.Receipt, ...]:
        """Read back, one receipt an exchange, without storing anything."""
        turns = _by_turn(passages)
        return self._guarded(lambda: self._receipts(turns))

    def _receipts(self, turns: Sequence[Sequence[Passage]]) -> tuple[window.Receipt, ...]:
        languages = self._companion is not None
        return tuple(self._tables.receipt(turn, languages=languages) for turn in turns)

    @property
    def mark(self) -> IndexMark:
        """How far into the transcript this index has come."""
        return self._guarded(
            lambda: IndexMark(int(self._tables.fact("seq") or -1), self._tables.fact("hash"))
        )

    def clear(self) -> None:
        """Forget everything but the usage log; the transcript still has it."""

        def work() -> None:
            self._tables.start_over()
            self._look_anew()

        self._guarded(work)

    def __len__(self) -> int:
        return self._guarded(lambda: self._gatherer.passages())

    def known(self) -> dict[str, tuple[int, str]]:
        """By the name of each owner, its number and the note on what was read of it last."""
        return self._guarded(lambda: self._tables.known_owners("read"))

    def ask_done(self, owners: Iterable[int], ask: Callable[[acts.Done], T]) -> T:
        """What tools did for some owners, where everybody is asked."""
        numbers = list(owners)
        return self._guarded(lambda: ask(acts.Done(self._database, numbers)))

    def note(self, **facts: str) -> None:
        """Remember something about the owner."""
        self._guarded(lambda: self._tables.note(**facts))

    # Meaning, in the background

    def pending(self) -> int:
        """How many passages wait for a vector; all of them when another model made the old ones."""

        def work() -> int:
            model = self._tables.fact("model", library_file.EVERYBODY)
            foreign = self._embedder is not None and model not in ("", self._embedder.name)
            if foreign:
                return self._gatherer.passages()
            return self._tables.pending(languages=self._companion is not None)

        return self._guarded(work)

    def waits(self, passages: Sequence[Passage]) -> bool:
        """Whether one of these, or of what stands between them, has no vector yet.

        Cheap enough to be asked after every few vectors; only a receipt proves anything.
        """
        if not passages:
            return False
        lines = [passage.seq for passage in passages]
        languages = self._companion is not None
        return self._guarded(
            lambda: self._tables.waits(min(lines), max(lines), languages=languages)
        )

    def embed_pending(
        self, limit: int = 16, window_from: int = 0, through: Callable[..., Iterator[Meaning]] = map
    ) -> int:
        """Make vectors for some waiting passages, in the window first; returns how many it took.

        Blocks while the model works but holds no lock then; raises `VectorsUnavailable`. `through`
        goes through the texts: `map`, or that of an executor whose threads share the work.
        """
        embedder = self._embedder
        if embedder is None or not self._can_vectors:
            raise errors.VectorsUnavailable(
                "No embedding model is available.", "Recall works on words alone."
            )
        self._guarded(lambda: self._tables.adopt_model(embedder.name, embedder.dims))
        waiting = self._guarded(lambda: self._tables.waiting(limit, window_from))
        texts = {row: passage.embedded_hash for row, passage in waiting}
        different = {texts[row]: passage for row, passage in waiting}
        meanings = through(lambda passage: self._meaning(embedder, passage), different.values())
        fresh: dict[int, Meaning | None] = {}
        try:
            fresh.update(zip(different, meanings, strict=True))
        except errors.VectorsUnavailable as error:
            # If it worked before, it is this text that it cannot take.
            if self._model_worked and not isinstance(error, errors.VectorsInterrupted):
                fresh[next(text for text in different if text not in fresh)] = None
            raise
        finally:
            made = [(row, fresh[text]) for row, text in texts.items() if text in fresh]
            self._guarded(lambda: self._tables.store_meaning(made, texts))
        return len(made) + self._embed_languages(limit * _AS_CHEAP)

    @property
    def _companion(self) -> embedding.Embedder | None:
        """The model for many languages, as long as it works."""
        return embedding.companion_of(self._embedder) if self._companion_works else None

    def _embed_languages(self, limit: int, *, newest: bool = False) -> int:
        """Make vectors for many languages, where they are wanted; how many passages it took.

        A model that cannot be loaded costs nothing but itself.
        """
        companion = self._companion
        if companion is None or not self._can_vectors:
            return 0
        self._guarded(lambda: self._languages.adopt_model(companion.name))
        read = self._guarded(lambda: self._languages.read_languages())
        waiting = self._guarded(lambda: self._languages.waiting(limit, newest=newest))
        if waiting:
            try:
                vectors = companion.embed([text for _, text in waiting])
            except errors.VectorsUnavailable:
                self._companion_works = False
                return 0
            rows = [row for row, _ in waiting]
            self._guarded(lambda: self._languages.store(rows, vectors))
        return max(read, len(waiting))

    def _meaning(self, embedder: embedding.Embedder, passage: Passage) -> Meaning:
        """What is stored for a text; an identical one is not embedded again."""
        known = self._guarded(lambda: self._tables.known_meaning(passage))
        if known is None:
            known = _meaning_of(embedding.encode(embedder, passage.embedded_text))
            self._model_worked = True
        return known

    # What comes out

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        allowed: Filter = EVERYTHING,
        pinned_turns: Collection[int] = (),
        asked: Asked | None = None,
        weights: tuned.Weights = tuned.DEFAULT,
    ) -> SearchResult:
        """The k best hits; `asked` saves embedding one question for several indexes.

        The question is embedded only if there is a vector that it may be compared with.
        """
        question = read_question(query)
        meant = self._guarded(lambda: self._gatherer.respelt(question))
        if meant != query:
            question, asked = read_question(meant), None
        asked = asked or Asked(self._embedder, meant)
        english = embedding.understands(self._embedder, query)
        comparable = english and self._guarded(lambda: self._comparable(allowed))
        meaning = asked.encoded if comparable else None
        # That model is large: nobody waits for it where nothing could be found by it.
        compares = asked.knows_languages and self._guarded(
            lambda: self._gatherer.finds_any(allowed, by_meaning=False)
        )
        if compares and not english:
            self._answer_in_other_languages()
        compares = compares and self._guarded(lambda: self._compares_languages(english=english))
        across = asked.across if compares else None

        def work() -> SearchResult:
            with self._database:  # One state of the file, whatever others write meanwhile.
                ours = meaning if self._vectors_are_ours() else None
                if ours is not None:
                    self._view_vectors()
                other = None if across is None else Across(across, self._languages)
                only = embedding.knows_english_only(self._embedder)
                gathered = self._gatherer.gather(question, ours, allowed, other, english_only=only)
            hits = rank(
                question,
                gathered.candidates,
                count=max(k, JUDGED),
                pinned_turns=pinned_turns,
                weights=weights,
            )
            vectors = ours is not None or across is not None
            judged = speak.judge(question, gathered, hits, vectors=vectors, weights=weights)
            return SearchResult(query=query, hits=tuple(hits[:k]), judged=judged, vectors=vectors)

        return self._guarded(work)

    def _answer_in_other_languages(self) -> None:
        """Let everything here be found by a question that is not English, the newest at once."""
        if self._companion is None or not self._can_vectors or self._owner is None:
            return
        self._guarded(self._languages.want_everyone)
        until = time.monotonic() + _AT_FIRST
        while self._embed_languages(_AT_ONCE, newest=True) and time.monotonic() < until:
            pass

    def _compares_languages(self, *, english: bool) -> bool:
        """Whether a question's meaning in many languages could find anything.

        A question in English that finds nearly everything in English does not load that model.
        """
        companion = self._companion
        if companion is None or not self._can_vectors:
            return False
        if self._tables.fact("language_model", library_file.EVERYBODY) != companion.name:
            return False
        few = english and not getattr(companion, "is_loaded", True)
        least = len(self) // _FOREIGN if few else 0
        return self._languages.there_are(max(least, 1))

    def after(self, seq: int, most: int) -> list[tuple[int, Passage]]:
        """Passages of whole lines after a number, in order; each with its sitting."""
        return self._guarded(lambda: self._tables.after(seq, most))

    def meanings(self, passages: Sequence[Passage]) -> list[Meaning | None]:
        """The vectors that are stored for some passages; None for those that have none."""
        ours = self._guarded(self._vectors_are_ours)
        own = self._tables.own_meaning
        return self._guarded(lambda: [own(each) if ours else None for each in passages])

    def count_uses(self, used: Sequence[str], unused: Sequence[str] = ()) -> None:
        """Remember which injected entries an answer leaned on and which it did not."""
        self._guarded(lambda: self._tables.count_uses(used, unused))

    # The file underneath

    def _connect(self) -> None:
        try:
            self._start()
        except library_file.DAMAGED:
            self._database.close(True)
            self.damaged = library_file.put_aside(self._path)
            self._start()

    def _start(self) -> None:
        self._database, self._can_vectors, damaged = library_file.open_library(self._path)
        self.damaged = damaged or self.damaged
        self._inode = self._path.stat().st_ino
        self._begin()

    def _begin(self) -> None:
        owner = (
            library_file.EVERYBODY
            if self._owner is None
            else library_file.owner_number(self._database, self._owner)
        )
        self._tables = Tables(self._database, owner)
        self._look_anew()
        if owner != library_file.EVERYBODY:
            if self._tables.fact("chunking") not in ("", CHUNKING):
                self._tables.start_over()
            self._tables.try_failed_again()

    def _look_anew(self) -> None:
        self._gatherer = Gatherer(self._database, self._tables.owner)
        self._languages = language_vectors.LanguageVectors(self._database, self._tables)

    def take_over_earlier(self) -> None:
        """Use the vectors of the index that this session had to itself, once."""
        session, embedder = self._session, self._embedder
        if session is None or embedder is None or not self._can_vectors:
            return
        earlier = session.folder / paths.EARLIER_INDEX

        def work() -> None:
            if not self._tables.fact("taken_over"):
                self._tables.adopt_model(embedder.name, embedder.dims)
                take_over(self._database, self._tables, earlier, embedder.name)
                self._tables.note(taken_over="yes")

        if earlier.is_file():
            self._guarded(work)

    def _comparable(self, allowed: Filter) -> bool:
        """Whether a question's meaning could find anything."""
        return self._vectors_are_ours() and self._gatherer.finds_any(allowed, by_meaning=True)

    def _vectors_are_ours(self) -> bool:
        """Whether there are vectors of this very model."""
        if self._embedder is None or not self._can_vectors:
            return False
        return self._tables.fact("model", library_file.EVERYBODY) == self._embedder.name

    def _view_vectors(self) -> None:
        """Look at the vectors as they are now; the view of them is made on first use."""
        generation = self._tables.fact("generation", library_file.EVERYBODY)
        if self._gatherer.generation != generation:
            dims = int(self._tables.fact("dims", library_file.EVERYBODY))
            owner, lexicon = self._tables.owner, self._gatherer.lexicon
            self._gatherer = Gatherer(self._database, owner, dims, generation, lexicon)

    def _guarded(self, work: Callable[[], T]) -> T:
        """Run one step alone; a damaged or replaced file is exchanged for a good one first."""
        with self._lock:
            try:
                if self._path.stat().st_ino != self._inode:
                    self._reconnect()
                return self._waited(work())
            except FileNotFoundError:
                self._reconnect()
            except library_file.DAMAGED:
                self._database.close(True)
                self.damaged = library_file.put_aside(self._path)
                self._connect()
            except apsw.BusyError as error:
                # The steps that follow in the same turn do not wait as long again.
                self._database.set_busy_timeout(library_file.AGAIN_MILLISECONDS)
                self._impatient_since = self._database.total_changes()
                raise library_file.unavailable(self._path, error) from error
            except apsw.Error as error:
                raise library_file.unavailable(self._path, error) from error
            return work()

    def _waited(self, result: T) -> T:
        """Be patient again once the file could be written; whoever locks it lets others read."""
        since = self._impatient_since
        if since is not None and self._database.total_changes() > since:
            self._database.set_busy_timeout(library_file.BUSY_MILLISECONDS)
            self._impatient_since = None
        return result

    def _reconnect(self) -> None:
        self._database.close(True)
        self._connect()


class Inquiry(msgspec.Struct, frozen=True):
    """A question that several indexes are asked: how many answers it wants, and which may be."""

    asked: Asked
    k: int
    allowed: Filter

    def of(self, index: RecallIndex, pinned_turns: Collection[int] = ()) -> SearchResult:
        """What one of them says."""
        asked, allowed = self.asked, self.allowed
        how = (asked.query, self.k)
        return index.search(*how, allowed=allowed, pinned_turns=pinned_turns, asked=asked)


def rarities(
    index: RecallIndex, words: Iterable[str], counts: Counts
) -> dict[str, tuple[str, float]]:
    """Each word as it is written in a session, with its rarity there; 0 for one nobody said."""

    def work() -> dict[str, tuple[str, float]]:
        lexicon, passages = index._gatherer.lexicon, index._gatherer.passages()
        return {
            word: (spelt or word, lexicon.rarity(spelt, passages) if spelt else 0.0)
            for word, spelt in {word: lexicon.spelt(word, counts) for word in words}.items()
        }

    return index._guarded(work)


def best_of(first: SearchResult, *others: SearchResult | None, k: int) -> SearchResult:
    """The k best of several answers to one question, each in its own order; None is no answer."""
    given = [first, *(found for found in others if found is not None)]
    best = max(given, key=lambda found: found.judged.strength)
    return SearchResult(
        query=first.query,
        hits=tuple(_merged([found.hits for found in given])[:k]),
        judged=best.judged if best.judged.strength else first.judged,
        vectors=any(found.vectors for found in given),
    )


def _merged(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """One list by score that keeps the order of each: a correction stays above what it corrects."""
    if len(lists) == 1:
        return list(lists[0])
    keyed: list[tuple[float, Hit]] = []
    for hits in lists:
        height = -math.inf
        raised: list[tuple[float, Hit]] = []
        for hit in reversed(hits):  # A hit counts as much as the best of those it stands above.
            height = max(height, hit.score)
            raised.append((height, hit))
        keyed += reversed(raised)
    return [hit for _, hit in sorted(keyed, key=lambda each: -each[0])]


def _by_turn(passages: Iterable[Passage]) -> list[tuple[Passage, ...]]:
    return [tuple(group) for _, group in groupby(passages, key=lambda each: each.turn)]


def _meaning_of(encoded: embedding.Encoded) -> Meaning:
    from mindstone_tui.core.recall.closeness import passage_tokens  # numpy: 0.1 s
    from mindstone_tui.core.recall.vector_view import as_bytes  # numpy: 0.1 s

    return Meaning(as_bytes(encoded.vector), passage_tokens(encoded))


_NOWHERE: Final = Path(":memory:")


class InMemoryIndex(RecallIndex):
    """Ranks as a session's own index does, over what it was told since it was made."""

    def __init__(self, embedder: embedding.Embedder | None = None) -> None:
        super().__init__(_NOWHERE, embedder)

    def _start(self) -> None:
        self._database, self._can_vectors = library_file.open_in_memory()
        self._begin()

    def _guarded(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()
