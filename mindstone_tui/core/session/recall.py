"""Recall as a session uses it: kept up to date, asked before each turn, read back before a prune.

Opening the index is cheap; the embedding model is loaded on first use, off the loop. If recall
fails, the turn goes on without it and the failure is said once.
"""

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from typing import Final

import msgspec

from mindstone_tui.core import errors, paths, transcript
from mindstone_tui.core.agent.memories import telling_words
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.context.window_view import ExchangeLines
from mindstone_tui.core.entries import Line, conversation, derived, window
from mindstone_tui.core.entries.provenance import ImportSource
from mindstone_tui.core.language.content import topic
from mindstone_tui.core.language.intent import is_correction
from mindstone_tui.core.language.replacement import could_replace, others_of, replaced_in
from mindstone_tui.core.library import agent_files, all_sessions, lineage, profile, vectors
from mindstone_tui.core.providers.guide.provider import is_guidance
from mindstone_tui.core.recall import answer as extracts
from mindstone_tui.core.recall import course, embedding, inject, ranking, speak
from mindstone_tui.core.recall.candidates import DERIVED, Filter
from mindstone_tui.core.recall.catch_up import catch_up, news_of, reading
from mindstone_tui.core.recall.index import (
    Asked,
    Inquiry,
    RecallIndex,
    SearchResult,
    best_of,
    rarities,
)
from mindstone_tui.core.recall.passages import Passage, parse_time, passages_of
from mindstone_tui.core.text import fresh_nonce

_EMBEDDED_AT_ONCE: Final = 8
_SOON_MADE: Final = 300
"""Passages of an exchange whose vectors are worth waiting for."""
_EMBEDDED_IN_A_HURRY: Final = 2
"""Passages, while a turn waits for their vectors and may wait only so long."""
_LAG_LOOKED_AT: Final = 2_000
_ECHOED: Final = 3
"""Telling words of a passage, not in the question, that make an answer one that leaned on it."""

_READ_FOR_COURSE: Final = 20_000
"""Newest lines in which days are looked for, and what was said on them;"""
_OPENING: Final = 40
"""and so many passages of how a session began."""
_BESIDE: Final = 30
"""Lines in which the messages beside one are looked for."""
_TALK: Final = frozenset({"user", "assistant"})
_FEW: Final = 4
"""Pieces of a message in which somebody says something, and does not paste it."""
_NEWEST: Final = 40
_PATIENCE: Final = 3.0
"""Lines whose vectors an answer waits for, and the seconds that it does."""
_SAID_OTHERWISE: Final = 2.5
"""What a word is worth that was not said, where another one for it was."""

Scope = str

Verdicts = dict[tuple[int, int], derived.StatementSuperseded]
"""What was judged of a line and the line that replaces it."""


def may_correct(passage: Passage) -> bool:
    """Whether something that a person said could make an earlier statement hold no more.

    People say so in a few sentences; what is pasted would have to be compared with everything.
    """
    asks = could_replace if passage.pieces <= _FEW else is_correction
    return asks(passage.text)


def _counts(passage: Passage, source: ImportSource | None) -> bool:
    """Whether something was not taken back where it comes from, nor said of this program."""
    if passage.role == "assistant" and is_guidance(passage.text):
        return False
    return not (passage.imported and source is not None and source.taken_back)


def _dated(passage: Passage) -> Passage:
    """The same by the clock here: a question means the days of whoever asks."""
    moment = parse_time(passage.ts)
    here = moment.astimezone().replace(tzinfo=None).isoformat() if moment else passage.ts
    return msgspec.structs.replace(passage, ts=here)


class SessionRecall(msgspec.Struct, dict=True, eq=False):
    """Finds what was said before, for one session and, if asked, beyond it."""

    _home: paths.Places
    _places: paths.SessionPlaces
    _settings: RecallSettings
    _embedder: embedding.Embedder | None
    _shelves: agent_files.AgentFilesIndex
    dropped: set[str] = set()
    require_vectors: bool = False
    by_words: int = 0
    """Passages that were found by words only when this was last announced."""
    on: bool = True
    last: SearchResult | None = None
    silent: str = ""
    """Why nothing was brought back for the newest message; empty where something was."""
    _judged: set[tuple[int, int]] = set()
    """Verdicts that were written down, which the index may not know yet."""
    failure: str = ""
    vectors: bool = True
    """Whether meaning can be searched: the last vectors that were wanted could be made."""
    _opening: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _embedding: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _index: RecallIndex | None = None
    _asked: tuple[str, Asked] | None = None

    def __post_init__(self) -> None:
        self.by_words = vectors.pending_in(self._places)
        self.on = self._settings.auto

    @property
    def index(self) -> RecallIndex:
        """This session's own index, opened on first use."""
        with self._opening:
            if self._index is None:
                self._index = RecallIndex.of(self._places, self._embedder)
            return self._index

    async def likeness(self, query: str) -> Mapping[str, float]:
        """How much each memory has to do with a question; nothing when recall is off."""
        if not self.on:
            return {}
        try:
            return await asyncio.to_thread(
                lambda: self._shelves.likeness(query, asked=self._ask(query))
            )
        except errors.RecallError as error:
            self.failure = error.what
            return {}

    def news(self) -> str:
        """What is to be told of the library, once: that it was damaged."""
        own = news_of(self._index)
        return self._shelves.news() or own

    def switch(self, *, on: bool) -> None:
        """Recall before each turn, or only when asked."""
        self.on = on

    def drop(self, session: str, entry: str) -> None:
        """Keep an entry out of automatic recall from here on."""
        self.dropped.add(f"{session} {entry}")

    async def gather(self, text: str, vacancy: inject.Vacancy) -> derived.RecallInjected | None:
        """What is worth bringing back for a message; None when nothing is good enough."""
        self.silent = ""
        if not self.on:
            return None
        began = time.monotonic()
        nonce = fresh_nonce()
        try:
            choice = await self._choose(text, vacancy, nonce)
        except errors.RecallError as error:
            self.failure = error.what
            return None
        # Nobody misses what the window still has, nor asks history for what they do not name.
        unsaid = (speak.NOTHING_THERE, speak.NAMES_NOTHING)
        self.silent = "" if choice.silent in unsaid else choice.silent
        injected = inject.inject(text, choice, vacancy, nonce)
        if injected is None:
            return None
        elapsed = round(time.monotonic() - began, 4)
        return msgspec.structs.replace(injected, elapsed=elapsed)

    async def _choose(self, text: str, vacancy: inject.Vacancy, nonce: str) -> inject.Choice:
        """Ask with the message alone, then with what it leans on, until something is found."""
        choice = inject.Choice()
        room = inject.room_in(vacancy, nonce)
        scope = self._settings.scope
        allowed = Filter(exclude=frozenset(vacancy.shown), without=DERIVED)
        # A turn has its memories in the digest.
        kinds = agent_files.kinds_of_files("agent", memories=False)
        for query in inject.queries(text, vacancy.recent):
            inquiry = self._inquiry(query, allowed)
            answers = await asyncio.to_thread(self._answers, inquiry, scope, kinds)
            self.last = best_of(*answers, k=inject.CONSIDERED)
            # Of a long message every word is looked at: whoever types meanwhile does not wait.
            choice = await asyncio.to_thread(
                inject.choose,
                text,
                [self._without_dropped(each) for each in answers],
                room,
                vacancy.count,
                most=self._settings.max_passages,
                session=str(self._places.key),
                said=vacancy.said,
            )
            if choice.injected:
                break
            if choice.silent == speak.NOTHING_CLOSE and vacancy.shown:
                # Would it speak, were all but the message itself out of the window?
                alone = Filter(exclude=frozenset({max(vacancy.shown)}), without=DERIVED)
                found = await asyncio.to_thread(self._inquiry(query, alone).of, self.index)
                if not await asyncio.to_thread(speak.silence, text, found.hits, found.judged):
                    choice = msgspec.structs.replace(choice, silent=speak.SHOWN_ALREADY)
        return choice

    def _inquiry(self, query: str, allowed: Filter, k: int = inject.CONSIDERED) -> Inquiry:
        return Inquiry(self._ask(query), k, allowed)

    def _without_dropped(self, found: SearchResult) -> SearchResult:
        hits = tuple(
            hit
            for hit in found.hits
            if f"{hit.passage.session} {hit.passage.entry}" not in self.dropped
            # A note only repeats what was said; one that was let go repeats nothing.
            and not (hit.passage.kind == "note_taken" and hit.passage.superseded)
            # Who asks for it finds what was taken back where it comes from, and is told so.
            and _counts(hit.passage, hit.imported)
        )
        return msgspec.structs.replace(found, hits=hits)

    async def search(
        self,
        query: str,
        k: int,
        scope: Scope,
        *,
        exclude: Collection[int] = (),
        pinned: Collection[int] = (),
        memories: bool = False,
        aside: bool = False,
    ) -> SearchResult:
        """The k best hits; what is in the window may be left out, and pinned turns gain.

        Memories and handoffs are looked at when somebody asks; a turn has memories in its digest,
        and the originals of a handoff. A search aside is nobody's newest search: a probe, say.
        """
        without = frozenset() if memories else DERIVED
        allowed = Filter(exclude=frozenset(exclude), without=without)
        kinds = agent_files.kinds_of_files(scope, memories=memories)
        inquiry = self._inquiry(query, allowed, k)
        answers = await asyncio.to_thread(self._answers, inquiry, scope, kinds, pinned)
        found = best_of(*answers, k=k)
        if not aside:
            self.last = found
        return found

    def _answers(
        self, inquiry: Inquiry, scope: Scope, kinds: Collection[str], pinned: Collection[int] = ()
    ) -> list[SearchResult]:
        """What this session, others and the agent's files say; the question is embedded once."""
        self._catch_up()
        answers = [inquiry.of(self.index, pinned)]
        past = lineage.ask_ancestors(self._lineage, inquiry, answers[0])
        answers += [past] if past is not None else []
        if others := list(self._others(scope)):
            library = contextlib.closing(all_sessions.AllSessions(self._home, self._embedder))
            with library as everybody:
                elsewhere = Filter(without=inquiry.allowed.without)
                there = msgspec.structs.replace(inquiry, allowed=elsewhere)
                answers.append(everybody.search(there, others))
        kept = self._shelves.search(inquiry, kinds)
        answers += [kept] if kept is not None else []
        return lineage.told_whole(self._home, answers)

    async def answer(self, question: str, exclude: Collection[int]) -> extracts.Extract:
        """What history says to a question, with its source: it answers, or only comes near."""
        return await asyncio.to_thread(self._answer, question, frozenset(exclude))

    def _answer(self, question: str, exclude: frozenset[int]) -> extracts.Extract:
        """Each part of a question that asks two things; one that leans on the other needs none."""
        self._catch_up()
        if self.waiting() < len(self.index):  # With words alone for all of them none falls behind.
            first = self.index.mark.seq - _NEWEST
            newest = self._after(first, _NEWEST)
            self.embed_within(_PATIENCE, lambda: not self.index.waits(newest), max(first, 0))
        parts = inject.questions_in(question) or (question,)
        asked = [part for part in parts if part == parts[0] or not extracts.leans(part)]
        every = [self._answer_one(part, exclude) for part in asked]
        found = [one for one in every if one.text]
        sure = any(one.sure for one in found)
        lines = (one.text for one in found if one.sure or not sure)
        return extracts.Extract("\n".join(lines), sure=sure)

    def _answer_one(self, question: str, exclude: frozenset[int]) -> extracts.Extract:
        if course.is_of_course(question):
            first = max(self.index.mark.seq - _READ_FOR_COURSE, -1)
            told = [*self._after(-1, _OPENING), *self._after(first, _READ_FOR_COURSE)]
            told = list({one.id: one for one in told if one.seq not in exclude}.values())
            if line := course.answer_of_course(question, told, datetime.now().astimezone().date()):
                return extracts.Extract(line)

        def counts(seq: int, text: str, imported: bool) -> bool:
            """Whether it was said: not for a question of today, nor for what answered one."""
            return (
                seq not in exclude
                and not (extracts.is_own(text) or is_guidance(text))
                and (imported or not extracts.asks(text))
            )

        known = rarities(self.index, extracts.telling(question), counts)
        for word, (meant, _) in known.items():
            question = re.sub(rf"\b{re.escape(word)}\b", meant, question, flags=re.IGNORECASE)
        others = {meant: extracts.words_like(meant) for meant, worth in known.values() if not worth}
        said = rarities(self.index, frozenset().union(*others.values()), counts)
        rarity = {
            meant: worth or _SAID_OTHERWISE * any(said[each][1] for each in others[meant])
            for meant, worth in known.values()
        }
        allowed = Filter(exclude=exclude, without=DERIVED)
        answers = self._answers(self._inquiry(question, allowed), self._settings.scope, ("memory",))
        near = partial(self._near, exclude)
        for at, one in enumerate(answers):
            hits = (hit for hit in one.hits if _counts(hit.passage, hit.imported))
            dated = (msgspec.structs.replace(hit, passage=_dated(hit.passage)) for hit in hits)
            answers[at] = msgspec.structs.replace(one, hits=tuple(dated))
        found = best_of(*answers, k=inject.CONSIDERED)
        return extracts.answer(question, found, near, rarity, str(self._places.key))

    def _near(self, exclude: frozenset[int], passage: Passage) -> Sequence[Passage]:
        """A message with those around it; what only says what is done next is none."""
        if passage.session != str(self._places.key) or passage.role == "tool":
            return [passage]
        around = [
            one
            for one in self._after(passage.seq - _BESIDE, 4 * _BESIDE)
            if one.id == passage.id
            or (
                one.role in _TALK
                and one.seq not in exclude
                and not extracts.means("steps", one.text)
            )
        ]
        at = next((at for at, one in enumerate(around) if one.id == passage.id), 0)
        return around[max(at - 3, 0) : at + 6] or [passage]

    def _after(self, seq: int, most: int) -> list[Passage]:
        """What was said after a line and not taken back, in order."""
        found, origin = self.index.after(max(seq, -1), most), profile.Origins(self._home)
        told = (one for _, one in found if not one.rewound)
        return [_dated(one) for one in told if _counts(one, origin(one.session, one.seq))]

    @cached_property
    def _lineage(self) -> list[lineage.Ancestor]:
        """What this session was forked from; nothing for most."""
        return lineage.ancestors(self._home, self._places, self._settings.exclude)

    def _ask(self, query: str) -> Asked:
        """The question's meaning; a turn that asks several times embeds it once, if at all."""
        if self._asked is None or self._asked[0] != query:
            self._asked = (query, Asked(self._embedder, query))
        return self._asked[1]

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, window.Receipt]:
        """Index exchanges and read them back; the proof that they may leave the window."""
        passages = {each.turn: self._passages(each) for each in turns}
        for each in passages.values():
            self.index.ensure(each)
        # Words are enough to find it again; meaning is waited for, but not for ever, and for that
        # of megabytes not at all. What leaves is made first, whatever else has no vector yet.
        every = [passage for each in passages.values() for passage in each]
        if every and max(map(len, passages.values())) <= _SOON_MADE:
            first = min(passage.seq for passage in every)
            wait = self._settings.vector_wait
            self.embed_within(wait, lambda: not self.index.waits(every), first)
        receipts: dict[int, window.Receipt] = {}
        for turn, each in passages.items():
            found = self.index.receipts(each)
            receipt = found[0] if found else window.Receipt(turn=turn, passages=0)
            if receipt.vectors == "stored" or not self.require_vectors:
                receipts[turn] = receipt
        return receipts

    def _passages(self, leaving: ExchangeLines) -> list[Passage]:
        """What the index has of an exchange: a result stands there with how its call was shown."""
        with transcript.History(self._places) as history:
            told = [one for one in history.turn(leaving.turn) if one.kind == "tool_called"]
            lines = [*leaving.lines, *map(history.whole, told)]
        return passages_of(sorted(lines, key=lambda line: line.seq))

    def embed_within(
        self, seconds: float, enough: Callable[[], bool] = lambda: False, first: int = 0
    ) -> None:
        """Make missing vectors for at most this long; words alone do where none can be made."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(errors.VectorsUnavailable):
            while (left := deadline - time.monotonic()) > 0 and not enough():
                if not self.embed_some(_EMBEDDED_IN_A_HURRY, left, first):
                    break

    def keep_up(self) -> None:
        """Take the newest exchange into the index; blocks, so call it off the loop."""
        self._catch_up()

    def waiting(self) -> int:
        """Passages that are found by words only so far, counted anew; blocks."""
        return self.index.pending()

    async def backfill(self) -> int:
        """Index what is not yet; how many exchanges wait nevertheless."""
        with contextlib.suppress(errors.RecallError):
            await asyncio.to_thread(self.keep_up)
        return await self.unindexed()

    async def unindexed(self) -> int:
        """Exchanges whose words the index does not have yet, as far as it can be asked."""
        with contextlib.suppress(errors.RecallError):
            return await asyncio.to_thread(self._lag)
        return 0

    def _lag(self) -> int:
        """Exchanges before the newest that are not in the index yet; blocks."""
        mark = self.index.mark
        with transcript.History(self._places) as history:
            lines = islice(history.read(mark.seq + 1), _LAG_LOOKED_AT)
            behind = {
                line.turn
                for line in lines
                if isinstance(line, Line) and isinstance(line.entry, conversation.UserMessage)
            }
            return max(len(behind) - 1, 0)

    def embed_some(
        self, limit: int = _EMBEDDED_AT_ONCE, patience: float = -1, first: int = 0
    ) -> bool:
        """Make a few of the vectors that are missing, from a line on first; False when none is.

        It is False, too, when somebody else makes them and is not done within that patience. Raises
        `VectorsUnavailable` when they cannot be made.
        """
        # A prune that waits and the background would make the same ones.
        if not self._embedding.acquire(timeout=patience):
            return False
        try:
            made = self.index.embed_pending(limit, first) > 0 or self._shelves.embed_some(limit)
        except errors.VectorsUnavailable:
            self.vectors = False
            raise
        finally:
            self._embedding.release()
        self.vectors = True
        return made

    def interrupt(self) -> None:
        """Wait for no vector that is being made in another process."""
        if (stop := getattr(self._embedder, "interrupt", None)) is not None:
            stop()

    def corrected_in(self, lines: Sequence[Line], known: Collection[int]) -> Verdicts:
        """What a person corrects in these lines, each with the line that does, and the sentences
        that are meant; blocks. Of the known ones a recall has judged that they correct something.

        It is looked for when it is said, so that no later question has to bring both together.
        """
        found: Verdicts = {}
        told = (one for one in passages_of(lines) if one.role == "user")
        with contextlib.suppress(errors.RecallError):
            for one in (one for one in told if one.seq in known or may_correct(one)):
                alone = Filter(exclude=frozenset({one.seq}))
                said = " ".join((one.text, *others_of(topic(one.text.lower()))))
                others = self._inquiry(said, alone).of(self.index)
                # What others say of it may be taken back one day, and then this is what counts.
                bare = [
                    msgspec.structs.replace(hit, superseded_by=None, corrected={})
                    for hit in others.hits
                ]
                for hit in ranking.mark_corrected(bare, [one]):
                    partly, old = one.seq in hit.corrected, hit.passage
                    if partly or hit.superseded_by == one.seq:
                        words = replaced_in(one.text, old.text)
                        if (before := found.get((old.seq, one.seq))) is not None:
                            words = (*before.words, *words)
                        found[old.seq, one.seq] = derived.StatementSuperseded(
                            statement=old.seq, by=one.seq, words=words, partly=partly
                        )
        return found

    def verdicts(
        self, recorded: set[tuple[int, int]], recalled: set[tuple[int, int]], corrected: Verdicts
    ) -> list[derived.StatementSuperseded]:
        """What recalls and the newest search judged to be superseded in this session and nobody
        wrote down."""
        self._judged |= recorded
        hits = self.last.hits if self.last is not None else ()
        every = {
            (hit.passage.seq, by): derived.StatementSuperseded(
                statement=hit.passage.seq, by=by, words=words, partly=bool(words)
            )
            for hit in hits
            if hit.passage.session == str(self._places.key)
            for by, words in ((hit.superseded_by or 0, ()), *hit.corrected.items())
            if by and by not in (hit.passage.superseded, *hit.passage.parts_replaced)
        }
        every |= {
            (seq, by): derived.StatementSuperseded(statement=seq, by=by) for seq, by in recalled
        } | corrected
        fresh = every.keys() - self._judged
        self._judged |= fresh
        return [every[pair] for pair in sorted(fresh)]

    def note_use(
        self, injected: derived.RecallInjected, question: str, answer: str
    ) -> derived.RecallUsed:
        """Which passages an answer leaned on: cited by number, or echoed in telling words."""
        used: list[str] = []
        unused: list[str] = []
        for passage in injected.passages:
            echoes = _echoes(passage, question, answer)
            (used if echoes else unused).append(passage.entry)
        self.index.count_uses(used, unused)
        return derived.RecallUsed(used=tuple(used), of=len(injected.passages))

    def close(self) -> None:
        """Give the files back; vectors that are missing are left to whoever comes next."""
        if self._index is not None:
            self._index.close()
        self._shelves.close()

    def _catch_up(self) -> None:
        with transcript.History(self._places) as history:
            catch_up(self.index, reading(history))

    def _others(self, scope: Scope) -> Iterator[paths.SessionKey]:
        """Other sessions that may be searched: the agent's, or everyone's."""
        excluded = {*self._settings.exclude, *(str(each.places.key) for each in self._lineage)}
        for each in () if scope == "session" else self._home.sessions():
            same_agent = each.key.agent == self._places.key.agent
            if each.key == self._places.key or str(each.key) in excluded:
                continue
            if scope == "all" or same_agent:
                yield each.key


def _echoes(passage: derived.RecalledPassage, question: str, answer: str) -> bool:
    if f"#{passage.seq}" in answer:
        return True
    shared = telling_words(passage.text) & telling_words(answer)
    return len(shared - telling_words(question)) >= _ECHOED
