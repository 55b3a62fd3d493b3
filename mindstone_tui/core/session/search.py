"""Search across sessions, down to the exchange; by index where there is one, else by reading.

Nothing here knows an index: each session hands in a way to ask its own, and a way to read its
lines. A session whose index cannot answer is read instead, so that search never comes back empty
because something is being rebuilt.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.errors import RecallError
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.recall.embedding import Embedder, Encoded, open_embedder
from mindstone_tui.core.recall.index import RecallIndex, catch_up, reading
from mindstone_tui.core.text import one_line
from mindstone_tui.core.transcript import History
from mindstone_tui.core.words import plain_words

_AROUND: Final = 80
EXCERPT: Final = 240
"""Characters of a hit that are shown."""


class SessionHit(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange that matches, and the line in it that matches best."""

    session: str
    turn: int
    seq: int
    score: float
    excerpt: str
    ts: str = ""
    speaker: str = ""
    by: str = "index"
    """`index`, or `reading` when the session had to be read."""
    says: bool = True
    """Whether a word of the question stands in it; else it is only near in meaning."""


class Searchable(msgspec.Struct, frozen=True, kw_only=True):
    """A session, by what can be asked of it."""

    session: str
    ask: Callable[[str, int], Iterable[SessionHit]] | None
    """Ask the session's index for the best few; None when it has none."""
    read: Callable[[], Iterable[Line]]
    """All lines, for when the index cannot answer."""


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and in which sessions the search was by reading."""

    query: str
    hits: tuple[SessionHit, ...]
    sessions: int
    read: tuple[str, ...] = ()


def search_all(query: str, sessions: Iterable[Searchable], count: int = 20) -> SessionAnswer:
    """The best exchanges of all sessions, best first, one hit an exchange."""
    best: dict[tuple[str, int], SessionHit] = {}
    read: list[str] = []
    asked = 0
    for session in sessions:
        asked += 1
        hits, by_reading = _ask(query, session, count)
        if by_reading:
            read.append(session.session)
        for hit in hits:
            place = (hit.session, hit.turn)
            if place not in best or hit.score > best[place].score:
                best[place] = hit
    ranked = heapq.nsmallest(
        count, best.values(), key=lambda hit: (-hit.score, hit.session, hit.turn)
    )
    return SessionAnswer(query=query, hits=tuple(ranked), sessions=asked, read=tuple(read))


def _ask(query: str, session: Searchable, count: int) -> tuple[Sequence[SessionHit], bool]:
    if session.ask is not None:
        # Where the index cannot answer, the transcript always can.
        with contextlib.suppress(RecallError):
            return list(session.ask(query, count)), False
    return _read(query, session, count), True


def _read(query: str, session: Searchable, count: int) -> Sequence[SessionHit]:
    """The best matches of a session by reading it: the phrase first, then the words."""
    phrase = " ".join(query.casefold().split())
    words = list(dict.fromkeys(plain_words(phrase)))
    if not words:
        return []
    scored = _scored(session, phrase, words)
    return heapq.nlargest(count, scored, key=lambda hit: (hit.score, hit.seq))


def _scored(session: Searchable, phrase: str, words: list[str]) -> Iterator[SessionHit]:
    for line in session.read():
        said = _said(line)
        if not said:
            continue
        speaker, text = said
        score, word = _score(text, phrase, words)
        if score > 0:
            yield SessionHit(
                session=session.session,
                turn=line.turn,
                seq=line.seq,
                score=score,
                excerpt=excerpt(text, word),
                ts=line.ts,
                speaker=speaker,
                by="reading",
            )


def _said(line: Line) -> tuple[str, str] | None:
    match line.entry:
        case UserMessage(text=text, name=name):
            return name or "user", text
        case AssistantMessage(text=text, name=name):
            return name or "assistant", text
        case ToolReturned(text=text, name=name):
            return name, text
        case _:
            return None


def _score(text: str, phrase: str, words: list[str]) -> tuple[float, str]:
    """1 for the whole phrase, else the share of words that occur, and what was found."""
    folded = text.casefold()
    if phrase in folded:
        return 1.0, phrase
    present = [word for word in words if word in folded]
    if not present:
        return 0.0, ""
    return 0.9 * len(present) / len(words), max(present, key=len)


def excerpt(text: str, word: str) -> str:
    """The text around a word, on one line."""
    at = max(text.casefold().find(word), 0)
    start = max(at - _AROUND, 0)
    lead = "…" if start else ""
    return lead + one_line(text[start:], EXCERPT)


def search_everywhere(home: Places, settings: Settings, query: str, count: int) -> SessionAnswer:
    """The best exchanges of all sessions; the question is embedded once."""
    embedder = open_embedder(settings.recall.embedder)
    asked: list[Encoded | None] = []
    excluded = set(settings.recall.exclude)
    sessions = [each for each in home.sessions() if str(each.key) not in excluded]
    return search_all(query, (_searchable(each, embedder, asked) for each in sessions), count)


def _searchable(each: SessionPlaces, embedder: Embedder, asked: list[Encoded | None]) -> Searchable:
    def ask(query: str, count: int) -> Iterable[SessionHit]:
        index = RecallIndex.open(each.index, embedder)
        try:
            with History(each) as history:
                catch_up(index, reading(history))
            if not asked:
                asked.append(index.ask(query))
            found = index.search(query, count, asked=asked[0])
        finally:
            index.close()
        return [
            SessionHit(
                session=str(each.key),
                turn=hit.passage.turn,
                seq=hit.passage.seq,
                score=hit.score,
                excerpt=one_line(hit.text, EXCERPT),
                ts=hit.passage.ts,
                speaker=hit.passage.speaker,
                says=hit.parts.get("words", 0.0) > 0,
            )
            for hit in found.hits
        ]

    def read() -> Iterator[Line]:
        with History(each) as history:
            yield from reading(history)(0)

    return Searchable(session=str(each.key), ask=ask, read=read)
