"""Recall over sessions as they lie on disk, for every surface that is asked to look something up.

Nothing here opens a session for a turn. Words are brought up to the end of the transcript before a
search; vectors are used as far as they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final, Literal

import msgspec

from mindstone_tui.core import config, errors, numbers, signals, transcript
from mindstone_tui.core.context import budget
from mindstone_tui.core.entries.derived import Replacement
from mindstone_tui.core.entries.provenance import ImportSource
from mindstone_tui.core.library import agent_files, all_sessions, lineage, profile
from mindstone_tui.core.paths import EARLIER_INDEX, Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall import candidates, embedding, inject, ranking
from mindstone_tui.core.recall import index as recall_index
from mindstone_tui.core.recall.catch_up import catch_up, news_of, reading
from mindstone_tui.core.recall.passages import parse_time
from mindstone_tui.core.text import inside
from mindstone_tui.core.values import alike, shared

Scope = Literal["session", "agent", "all"]
SCOPES: Final[tuple[Scope, ...]] = ("session", "agent", "all")
_EMBEDDED_AT_ONCE: Final = 16
_CHARACTERS_PER_TOKEN: Final = 4


class RecalledEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The line that a hit was said in."""

    id: str
    seq: int
    source_id: str | None


class RecalledHit(Replacement, kw_only=True, omit_defaults=False):
    """One passage with its score and its source."""

    score: float
    parts: Mapping[str, float]
    """What the score is made of."""
    text: str
    tokens: int
    session: str
    turn: int
    ts: str
    role: str
    speaker: str
    kind: str
    entries: Sequence[RecalledEntry]
    file: str | None
    """The memory, journal or log file that it stands in, if it is not a line of a transcript."""
    imported: ImportSource | None = None
    """The program and the file that the words come from, if they were not said here."""


class RecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question."""

    query: str
    hits: Sequence[RecalledHit]
    abstained: bool
    """A turn would not have used any of the hits."""
    vectors: bool
    """False when only words were searched."""
    failure: str = ""
    """Why the library could not be used, and the session was read instead."""


class AutoRecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn would be given for a message if nothing of the session stood in its window."""

    query: str
    injected: Sequence[RecalledHit]
    silent: str | None
    """Why nothing is injected."""


class StoredRecall:
    """A session's index, with those of its neighbours if the scope is wider, open for questions."""

    def __init__(
        self, home: Places, key: SessionKey, settings: config.Settings, scope: Scope = "session"
    ) -> None:
        self._own = str(key)
        self._scope: Scope = scope
        self._home = home
        self._settings = settings
        self._agent = key.agent
        self._most = settings.recall.max_passages
        room = budget.room_for(settings.context.window, "assumed", settings.budget)
        self._room = budget.limit_of("memory_injection", room, settings.budget)
        self._open = ExitStack()
        self._failure = ""
        self._embedder = embedder = embedding.open_embedder(settings.recall.embedder)
        # A wider scope has them among the others.
        excluded = settings.recall.exclude
        wide = scope != "session"
        self._lineage = [] if wide else lineage.ancestors(home, home.session(key), excluded)
        self._meant = list(_searched(home, key, scope, excluded))
        try:
            if wide:
                self._everybody = all_sessions.AllSessions(home, embedder)
                self._open.callback(self._everybody.close)
                self._everybody.bring_up_to_date(self._meant)
            else:
                self._index, self._failure = _fresh(self._meant[0], embedder)
                self._open.callback(self._index.close)
            self._files = agent_files.AgentFilesIndex(home.agent(key.agent), embedder)
            self._open.callback(self._files.close)
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> StoredRecall:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(
        self, query: str, count: int = 10, *, since: str = "", kinds: Collection[str] = ()
    ) -> RecallAnswer:
        """The best passages, best first; of these kinds, not older than this date."""
        allowed = candidates.Filter(since=_moment(since), kinds=frozenset(kinds))
        # Files have no date of their own that could be compared.
        everything = () if since else agent_files.kinds_of_files(self._scope, memories=True)
        files = [each for each in everything if not kinds or each in kinds]
        found = recall_index.best_of(*self._answers(query, count, allowed, files), k=count)
        return RecallAnswer(
            query=found.query,
            hits=[_hit(hit) for hit in found.hits],
            abstained=found.abstained,
            vectors=found.vectors,
            failure=self._failure,
        )

    def ask_unasked(self, message: str) -> AutoRecallAnswer:
        """What automatic recall would bring back for a message, or why nothing."""
        allowed = candidates.Filter(without=candidates.DERIVED)
        files = agent_files.kinds_of_files("agent", memories=True)
        answers = [
            answer
            for query in inject.queries(message, ())
            for answer in self._answers(query, inject.CONSIDERED, allowed, files)
        ]
        choice = inject.choose(
            message, answers, self._room, _estimated, most=self._most, session=self._own
        )
        return AutoRecallAnswer(
            query=message,
            injected=[_hit(each.hit) for each in choice.injected],
            silent=choice.silent or None,
        )

    def _answers(
        self, query: str, count: int, allowed: candidates.Filter, files: Collection[str]
    ) -> list[recall_index.SearchResult]:
        """What the sessions and the agent's files say; the question is embedded once."""
        asked = recall_index.Asked(self._embedder, query)
        inquiry = recall_index.Inquiry(asked, count, allowed)
        if self._scope == "session":
            found = inquiry.of(self._index)
        else:
            found = self._everybody.search(inquiry, [each.key for each in self._meant])
        kept = self._files.search(inquiry, files)
        there = self._elsewhere(inquiry)
        past = lineage.ask_ancestors(self._lineage, inquiry, found)
        answers = [found, *(each for each in (past, kept, there) if each is not None)]
        return lineage.told_whole(self._home, answers)

    def _elsewhere(self, inquiry: recall_index.Inquiry) -> recall_index.SearchResult | None:
        """What sessions say that are only on a server; None unless they are searched there."""
        if self._scope == "session" or self._settings.history.search != "server":
            return None
        from mindstone_tui.core.library.shared_search import ask_servers  # as it needs the driver

        agent = self._agent if self._scope == "agent" else ""
        return ask_servers(self._home, self._settings, inquiry, agent).found


def recallable_kinds() -> frozenset[str]:
    """Kinds of files that can be asked for beside the kinds of lines."""
    return frozenset(agent_files.kinds_of_files("all", memories=True))


def checked_scope(name: str) -> Scope:
    """The scope of that name."""
    for scope in SCOPES:
        if scope == name:
            return scope
    raise errors.UsageError(f"Unknown scope {name}.", f"Use {', '.join(SCOPES)}.")


Progress = Callable[[str, int, int], None]
"""Told what is done (`words` or `vectors`), how far it is and how far it has to go."""


class Indexed(msgspec.Struct, frozen=True, kw_only=True):
    """How far a session's index is."""

    session: str
    passages: int
    pending: int
    """Passages that have no vector yet and are found by words alone."""
    failure: str = ""
    """Why vectors cannot be made here."""


def index_session(
    places: SessionPlaces,
    settings: config.Settings,
    progress: Progress = lambda what, done, goal: None,
    *,
    wait: bool,
    anew: bool = False,
) -> Indexed:
    """Open a session's index and bring it up to the end of the transcript."""
    if not places.transcript.exists():
        raise places.missing()
    with closing(
        recall_index.RecallIndex.of(places, embedding.open_embedder(settings.recall.embedder))
    ) as index:
        if anew:
            index.clear()
            (places.folder / EARLIER_INDEX).unlink(missing_ok=True)
        return bring_up_to_date(places, index, progress, wait=wait)


def bring_up_to_date(
    places: SessionPlaces, index: recall_index.RecallIndex, progress: Progress, *, wait: bool
) -> Indexed:
    """Add the words that are missing, and the vectors if told to wait for them."""
    with transcript.History(places) as history:
        goal = history.head.seq + 1
        catch_up(index, reading(history), lambda seq: progress("words", seq + 1, goal))
    failure = _make_vectors(index, progress) if wait else ""
    return Indexed(
        session=str(places.key), passages=len(index), pending=index.pending(), failure=failure
    )


def _make_vectors(index: recall_index.RecallIndex, progress: Progress) -> str:
    from concurrent.futures import ThreadPoolExecutor  # 9 ms

    goal = index.pending()
    try:
        with ThreadPoolExecutor(signals.usable_cores()) as threads:
            while index.embed_pending(_EMBEDDED_AT_ONCE, through=threads.map):
                progress("vectors", max(goal - index.pending(), 0), goal)
    except errors.VectorsUnavailable as error:
        return error.sentence
    return ""


def _searched(
    home: Places, key: SessionKey, scope: Scope, excluded: Collection[str]
) -> Iterator[SessionPlaces]:
    own = home.session(key)
    if scope == "session":
        yield own
        return
    for each in home.sessions():
        hidden = str(each.key) in excluded and each.key != key
        if not hidden and (scope == "all" or each.key.agent == key.agent):
            yield each


def _fresh(
    each: SessionPlaces, embedder: embedding.Embedder
) -> tuple[recall_index.RecallIndex, str]:
    """A session's index with all its words and the vectors there are, and why it is none kept."""
    if not each.transcript.exists():
        raise each.missing()
    with transcript.History(each) as history:
        try:
            index = recall_index.RecallIndex.of(each, embedder)
            catch_up(index, reading(history))
            return index, news_of(index)
        except errors.IndexUnavailable as error:
            # A disk that cannot be written can still be read: this index lasts for one question.
            index = recall_index.InMemoryIndex(embedder)
            catch_up(index, reading(history))
            return index, error.sentence


def _moment(text: str) -> float | None:
    if not text:
        return None
    timed = parse_time(text) if len(text) > len("2026-03-31") else None
    return timed.timestamp() if timed else numbers.midnight(profile.day_named(text, 0))


def _hit(hit: ranking.Hit) -> RecalledHit:
    passage = hit.passage
    in_transcript = passage.seq >= 0
    line = RecalledEntry(id=passage.entry, seq=passage.seq, source_id=passage.source_id or None)
    return alike(
        RecalledHit,
        passage,
        score=round(hit.score, 4),
        parts={name: round(value, 4) for name, value in hit.parts.items()},
        text=hit.text,
        tokens=_estimated(hit.text),
        entries=[line] if in_transcript else [],
        file=None if in_transcript else passage.entry,
        **shared(Replacement, hit),
    )


def _estimated(text: str) -> int:
    """Tokens of a text for no model in particular."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def readable(hit: RecalledHit) -> str:
    """A hit's text without the marks that fence foreign words off from a prompt."""
    return inside(hit.text).strip()
