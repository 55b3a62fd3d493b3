"""Search over every session of this user, at the exchange."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.foreign import one_line
from mindstone_tui.core.interchange.searching import EXCERPT, Answer, Hit, Searchable, search_all
from mindstone_tui.core.places import Places, SessionPlaces
from mindstone_tui.core.recall.catching_up import catch_up, reading
from mindstone_tui.core.recall.embedding import Embedder, Encoded, open_embedder
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.transcript import History


def search_everywhere(home: Places, settings: Settings, query: str, count: int) -> Answer:
    """The best exchanges of all sessions; the question is embedded once."""
    embedder = open_embedder(settings.recall.embedder)
    asked: list[Encoded | None] = []
    excluded = set(settings.recall.exclude)
    sessions = [each for each in home.sessions() if str(each.key) not in excluded]
    return search_all(query, (_searchable(each, embedder, asked) for each in sessions), count)


def _searchable(each: SessionPlaces, embedder: Embedder, asked: list[Encoded | None]) -> Searchable:
    def ask(query: str, count: int) -> Iterable[Hit]:
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
            Hit(
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
