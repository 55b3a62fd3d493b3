"""Search looks everywhere, names the exchange, and never depends on the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.entries.line import seal
from mindstone_tui.core.library.search import (
    SessionAnswer,
    SessionHit,
    excerpt,
    search_everywhere,
    supported,
)
from mindstone_tui.core.paths import Places, SessionKey
from tests.builders import say, transcript_in, use_tool
from tests.cli.program import ROOT
from tests.core.session.stage import on_stage, script

ONE, TWO = "agent:default:one", "agent:default:two"


@pytest.fixture
def sessions(home: Path) -> Places:
    for name, lines in {
        "one": [("Use tabs, never spaces.", "Noted."), ("And the port?", "It is 8080.")],
        "two": [("The PORT is 9090 now, not 8080.", "Understood, port 9090.")],
    }.items():
        transcript = transcript_in(home, name)
        for question, answer in lines:
            say(transcript, question, answer)
        transcript.close()
    return Places.resolve({"MINDSTONE_HOME": str(home)})


@pytest.fixture
def without_library(sessions: Places) -> Places:
    """A home whose library cannot be opened."""
    sessions.library.mkdir()
    return sessions


def search(places: Places, query: str, count: int = 20) -> SessionAnswer:
    return search_everywhere(places, Settings(), query, count)


def test_a_phrase_is_found_in_every_session_with_its_place(without_library: Places) -> None:
    answer = search(without_library, "port is 9090")
    assert answer.sessions == 2
    assert sorted(answer.read) == [ONE, TWO]
    best = answer.hits[0]
    assert (best.session, best.turn, best.seq, best.score) == (TWO, 1, 2, 1.0)
    assert "9090 now" in best.excerpt


def test_an_exchange_is_one_hit(sessions: Places) -> None:
    answer = search(sessions, "port 9090")
    places = [(hit.session, hit.turn) for hit in answer.hits]
    assert len(places) == len(set(places))
    assert places[0] == (TWO, 1)
    assert answer.read == ()


def test_nothing_is_found_where_nothing_was_said(without_library: Places) -> None:
    assert search(without_library, "kubernetes").hits == ()
    assert search(without_library, "  ?! ").hits == ()


def test_a_number_that_no_index_can_hold_does_not_keep_anything_from_being_found(
    sessions: Places,
) -> None:
    file = sessions.session(SessionKey.parse("one")).transcript
    last = json.loads(file.read_bytes().splitlines()[-1])
    place = {name: last[name] for name in ("session", "ts", "turn", "role", "channel")}
    rewound = b'"kind":"rewound","to_turn":%d,"state":{"through":1}' % (1 << 70)
    raw, _ = seal(rewound, seq=last["seq"] + 1, id="0" * 26, prev=last["hash"], **place)
    file.write_bytes(file.read_bytes() + raw)
    assert {hit.session for hit in search(sessions, "port").hits} == {ONE, TWO}


def test_a_session_that_cannot_be_read_does_not_keep_the_others_from_being_found(
    sessions: Places,
) -> None:
    broken = sessions.session(SessionKey.parse("two")).transcript
    broken.unlink()
    broken.mkdir()
    answer = search(sessions, "port")
    assert (answer.sessions, answer.read) == (2, (TWO,))
    assert {hit.session for hit in answer.hits} == {ONE}


def test_what_is_written_later_is_found_and_nothing_else_is_read_again(sessions: Places) -> None:
    search(sessions, "port")
    transcript = transcript_in(sessions.data, "one")
    say(transcript, "The harbour master is called Bartholomew.", "Noted.")
    transcript.close()
    read: list[tuple[int, int]] = []
    answer = search_everywhere(
        sessions, Settings(), "Bartholomew", 5, progress=lambda *far: read.append(far)
    )
    assert [(hit.session, hit.turn) for hit in answer.hits][:1] == [(ONE, 3)]
    assert read == [(1, 1)]


def test_an_answer_that_repeats_a_statement_is_found_by_what_it_says_beyond_that(
    home: Path,
) -> None:
    transcript = transcript_in(home, "said")
    said = "The billing service listens on port 8443."
    say(transcript, said, "Noted.")
    say(transcript, "And where?", f"{said} It runs on the machine called pelican.")
    transcript.close()
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    assert 2 in [hit.turn for hit in search(places, "billing on pelican").hits if hit.says]
    assert [hit.turn for hit in search(places, "billing port").hits if hit.says] == [1]


def test_tool_results_are_searched_and_the_best_are_kept(home: Path) -> None:
    transcript = transcript_in(home, "tools")
    for number in range(30):
        use_tool(transcript, "look", f"EADDRINUSE at try {number}", "seen")
    transcript.close()
    answer = search(Places.resolve({"MINDSTONE_HOME": str(home)}), "eaddrinuse", 7)
    assert len(answer.hits) == 7


def test_a_session_with_several_hits_comes_before_one_with_a_single_better_one() -> None:
    hits = [
        SessionHit(session=session, turn=1, seq=seq, score=score, excerpt="")
        for session, seq, score in ((ONE, 1, 1.0), (TWO, 2, 0.9), (TWO, 3, 0.8), (TWO, 4, 0.4))
    ]
    assert [hit.score for hit in supported(hits)] == pytest.approx([1.0, 1.4, 0.8, 0.4])


def test_an_excerpt_is_a_line_around_the_word() -> None:
    text = "x " * 500 + "needle\nin\x1b[31m hay " + "y " * 500
    shown = excerpt(text, ["needle"])
    assert shown.startswith("…")
    assert "needle in\x1b[31m hay" in shown
    assert len(shown) <= 241


@pytest.mark.parametrize("reading", [False, True])
def test_an_excerpt_holds_the_sentence_that_was_asked_for_wherever_it_stands(
    home: Path, reading: bool
) -> None:
    filler = "The billing service was looked at again and nothing was found. "
    transcript = transcript_in(home, "long")
    say(transcript, f"{filler * 5}Its PORT is 8443 behind the proxy. Then we went home.", "Noted.")
    transcript.close()
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    if reading:
        places.library.mkdir()
    (hit, *_) = search(places, "port of the billing service").hits
    assert "PORT is 8443" in hit.excerpt
    assert hit.excerpt.startswith("…")


def test_a_correction_stands_first_and_marks_what_it_replaces_and_bystanders_are_left_out(
    home: Path,
) -> None:
    transcript = transcript_in(home, "main")
    for asked, answered in [
        ("hi", "Hello!"),
        ("The staging port is 8080.", "Noted: the staging port is 8080."),
        ("Sorry, the staging port is 9090, not 8080.", "Corrected."),
        ("thanks", "You are welcome."),
    ]:
        say(transcript, asked, answered)
    transcript.close()
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    hits = search(places, "staging port").hits
    assert [(hit.seq, hit.superseded_by) for hit in hits] == [(10, None), (6, 10)]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_a_statement_is_shown_where_it_was_made_and_not_in_the_forks_that_copied_it(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Noted."}, loop=True)) as stage:
        await stage.say("The harbour master is called Bartholomew.")
        await stage.run("/fork")
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    answer = search(places, "Bartholomew")
    assert answer.sessions == 2
    assert [hit.session for hit in answer.hits] == ["agent:default:main"]
    (child,) = [each.key for each in places.sessions() if each.key.main != "main"]
    async with on_stage(home, key=child, model=script(tmp_path, {"text": "Aye."})) as fork:
        await fork.say("Bartholomew leaves with the ferry from quay nine.")
    found = [(hit.session, hit.turn) for hit in search(places, "Bartholomew").hits]
    assert sorted(found) == sorted([("agent:default:main", 1), (str(child), 2)]), "and beside it"


@pytest.mark.thorough
def test_several_programs_may_fill_the_library_at_once_and_nothing_is_in_it_twice(
    home: Path,
) -> None:
    for number in range(6):
        transcript = transcript_in(home, f"talk-{number}")
        for turn in range(20):
            say(
                transcript, f"Crate {turn} of ship {number} holds pelican{number}x{turn}.", "Noted."
            )
        transcript.close()
    command = [sys.executable, "-m", "mindstone_tui", "search", "--json", "pelican3x7"]
    environ = {**os.environ, "MINDSTONE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    programs = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) for _ in range(4)]
    answers = [json.loads(program.communicate()[0]) for program in programs]
    assert {answer["hits"][0]["turn"] for answer in answers} == {8}
    assert {tuple(answer["read"]) for answer in answers} == {()}
    database = apsw.Connection(str(home / "library.db"))
    assert database.execute("select count(*) from passages").get == 240
    assert database.execute("select sum(passages) from owners").get == 240
    database.close()
