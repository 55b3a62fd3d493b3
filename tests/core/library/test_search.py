"""Search looks everywhere, names the exchange, and never depends on an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import IndexUnavailable
from mindstone_tui.core.library.search import Searchable, SessionHit, excerpt, search_all
from tests.builders import say, transcript_in, use_tool


@pytest.fixture
def sessions(home: Path) -> list[Searchable]:
    found = []
    for name, lines in {
        "one": [("Use tabs, never spaces.", "Noted."), ("And the port?", "It is 8080.")],
        "two": [("The PORT is 9090 now, not 8080.", "Understood, port 9090.")],
    }.items():
        transcript = transcript_in(home, name)
        for question, answer in lines:
            say(transcript, question, answer)
        found.append(Searchable(session=name, ask=None, read=_reading(home, name)))
        transcript.close()
    return found


def _reading(home: Path, name: str) -> Callable[[], Iterator[Line]]:
    def read() -> Iterator[Line]:
        transcript = transcript_in(home, name)
        with transcript.history() as history:
            yield from (line for line in history.read() if isinstance(line, Line))
        transcript.close()

    return read


def test_a_phrase_is_found_in_every_session_with_its_place(sessions: list[Searchable]) -> None:
    answer = search_all("port is 9090", sessions)
    assert answer.sessions == 2
    assert answer.read == ("one", "two")
    best = answer.hits[0]
    assert (best.session, best.turn, best.seq, best.score) == ("two", 1, 2, 1.0)
    assert "9090 now" in best.excerpt


def test_an_exchange_is_one_hit(sessions: list[Searchable]) -> None:
    places = [(hit.session, hit.turn) for hit in search_all("port 9090", sessions).hits]
    assert len(places) == len(set(places))
    assert places[0] == ("two", 1)


def test_nothing_is_found_where_nothing_was_said(sessions: list[Searchable]) -> None:
    assert search_all("kubernetes", sessions).hits == ()
    assert search_all("  ?! ", sessions).hits == ()


def test_the_index_is_asked_first_and_reading_helps_out(sessions: list[Searchable]) -> None:
    def answers(query: str, count: int) -> Iterable[SessionHit]:
        return [SessionHit(session="one", turn=2, seq=6, score=0.7, excerpt=f"{query} {count}")]

    def broken(query: str, count: int) -> Iterable[SessionHit]:
        raise IndexUnavailable("being rebuilt")

    asked = [
        Searchable(session="one", ask=answers, read=sessions[0].read),
        Searchable(session="two", ask=broken, read=sessions[1].read),
    ]
    answer = search_all("port", asked, count=5)
    assert answer.read == ("two",)
    assert {(hit.session, hit.by) for hit in answer.hits} == {("one", "index"), ("two", "reading")}
    assert "port 5" in {hit.excerpt for hit in answer.hits}


def test_tool_results_are_searched_and_the_best_are_kept(home: Path) -> None:
    transcript = transcript_in(home, "tools")
    for number in range(30):
        use_tool(transcript, "look", f"EADDRINUSE at try {number}", "seen")
    transcript.close()
    session = Searchable(session="tools", ask=None, read=_reading(home, "tools"))
    answer = search_all("eaddrinuse", [session], count=7)
    assert len(answer.hits) == 7


def test_an_excerpt_is_a_line_around_the_word() -> None:
    text = "x " * 500 + "needle\nin\x1b[31m hay " + "y " * 500
    shown = excerpt(text, "needle")
    assert shown.startswith("…")
    assert "needle in hay" in shown
    assert len(shown) <= 241
