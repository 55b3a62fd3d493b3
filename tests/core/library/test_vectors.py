"""Vectors follow: in the background, once for each home, and never for longer than needed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import RecallSettings
from mindstone_tui.core.context.window_view import ExchangeLines
from mindstone_tui.core.library import vector_worker
from mindstone_tui.core.library.agent_files import AgentFilesIndex
from mindstone_tui.core.library.read_only import Look, look_at
from mindstone_tui.core.library.take_over import Importer
from mindstone_tui.core.library.vectors import follow, locked, pending_in, progress_of
from mindstone_tui.core.paths import Places, SessionPlaces
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.embedding import Encoded
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.session.recall import SessionRecall
from mindstone_tui.core.transcript import History
from tests.builders import places_in, say, transcript_in
from tests.core.interchange.helpers import write_lines
from tests.core.recall.talk import WordModel
from tests.core.session.stage import on_stage

SETTINGS = Settings()


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


def with_words_alone(home: Path, turns: int = 12) -> SessionPlaces:
    """A session whose index has words and no vectors."""
    transcript = transcript_in(home)
    for number in range(turns):
        say(transcript, f"The lamp {number} is lit.", f"Lamp {number} it is.")
    transcript.close()
    session = places_in(home)
    index = RecallIndex.of(session, None)
    with History(session) as history:
        catch_up(index, reading(history))
    index.close()
    return session


def test_a_worker_makes_every_vector_and_ends(home: Path, places: Places) -> None:
    session = with_words_alone(home)
    waiting = pending_in(session)
    assert waiting == 24
    model = WordModel()
    assert vector_worker.work(places, SETTINGS, model, lingers=0.1) == waiting
    assert pending_in(session) == 0
    assert not progress_of(places).running
    assert not (places.state / "vectors.json").exists()


def test_what_was_said_last_comes_first_and_no_text_twice(tmp_path: Path, places: Places) -> None:
    for name, day in (("a", "2026-03-01"), ("b", "2026-03-09"), ("c", "2026-03-05")):
        said = [
            {"role": "user", "content": f"The {name} lamp.", "ts": f"{day}T10:00:00Z"},
            {"role": "assistant", "content": "Lit, as ever.", "ts": "2026-02-01T10:00:00Z"},
        ]
        file = write_lines(tmp_path / f"{name}.jsonl", [*said, *said[:1]])
        list(Importer(places, SETTINGS, {}).take(file, None, ""))
    model = WordModel()
    assert vector_worker.work(places, SETTINGS, model, lingers=0.1) == 9
    read = [text.partition(": ")[2] for text in model.seen]
    assert sorted(read[:2]) == ["Lit, as ever.", "The b lamp."], "two may change places"
    assert read[2:] == ["The c lamp.", "The a lamp."]


def test_a_home_has_one_worker(home: Path, places: Places) -> None:
    session = with_words_alone(home)
    with locked(places) as ours:
        assert ours
        assert progress_of(places).running
        assert vector_worker.work(places, SETTINGS, WordModel()) == 0
    assert pending_in(session) == 24


def test_a_worker_that_is_told_to_end_leaves_the_rest_to_the_next(
    home: Path, places: Places
) -> None:
    session = with_words_alone(home, turns=100)
    waiting = pending_in(session)
    model = WordModel()
    made = vector_worker.work(places, SETTINGS, model, ends=lambda: len(model.seen) > 10)
    assert 10 < made < waiting, "it ends in the middle of a session"
    assert pending_in(session) == waiting - made, "what is made is kept"
    assert vector_worker.work(places, SETTINGS, model, lingers=0.1) == waiting - made


class Vandal(WordModel):
    """Removes the home while it is being worked on."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home

    def encode(self, text: str) -> Encoded:
        shutil.rmtree(self._home, ignore_errors=True)
        return super().encode(text)


def test_a_worker_ends_when_its_home_is_gone(home: Path, places: Places) -> None:
    with_words_alone(home)
    vector_worker.work(places, SETTINGS, Vandal(home))
    assert not (places.state / "vectors.lock").exists()


def test_a_worker_ends_when_another_home_takes_the_place_of_its_own(
    home: Path, places: Places
) -> None:
    session = with_words_alone(home)

    class Replaces(WordModel):
        def encode(self, text: str) -> Encoded:
            lock = places.state / "vectors.lock"
            lock.rename(lock.with_name("old"))
            lock.touch()
            return super().encode(text)

    vector_worker.work(places, SETTINGS, Replaces())
    assert pending_in(session) > 0


def test_a_worker_that_comes_too_late_makes_no_home_anew(home: Path, places: Places) -> None:
    with_words_alone(home)
    shutil.rmtree(home)
    assert vector_worker.work(places, SETTINGS, WordModel()) == 0
    assert not home.exists()


def test_what_is_left_to_a_process_is_done_by_it_and_it_ends_by_itself(
    home: Path, places: Places, hostile_folder: Path
) -> None:
    session = with_words_alone(home, turns=3)
    inherited, held = os.pipe()
    os.set_inheritable(held, True)
    process = follow(places, SETTINGS, os.environ, [session])
    os.close(held)
    assert process
    _, status = os.waitpid(process, 0)
    assert os.read(inherited, 1) == b""
    os.close(inherited)
    assert os.waitstatus_to_exitcode(status) == 0
    assert pending_in(session) == 0
    assert not (hostile_folder / "ran").exists()


def test_nothing_is_started_where_nothing_is_missing_or_it_is_not_wanted(
    home: Path, places: Places
) -> None:
    assert follow(places, SETTINGS, {}, [places_in(home)]) == 0
    session = with_words_alone(home)
    off = msgspec.structs.replace(SETTINGS, recall=RecallSettings(background=False))
    assert follow(places, off, {}, [session]) == 0


def test_indexed_is_said_only_of_what_has_its_vectors(home: Path, places: Places) -> None:
    session = with_words_alone(home)
    look = Look(key=session.key, places=places, environ={}, model="local/guide")
    before = look_at(look).outside
    assert (before.indexed, before.state) == (False, "by words only so far: 24")
    vector_worker.work(places, SETTINGS, WordModel(), lingers=0.1)
    after = look_at(look).outside
    assert (after.indexed, after.state) == (True, "all indexed")


@pytest.mark.parametrize(("required", "leaves"), [(False, True), (True, False)])
def test_without_vectors_an_exchange_stays_where_they_are_required(
    home: Path, places: Places, required: bool, leaves: bool
) -> None:
    session = with_words_alone(home, turns=2)
    with History(session) as history:
        exchange = ExchangeLines(1, tuple(history.turn(1)))
    recall = SessionRecall(
        places,
        session,
        SETTINGS.recall,
        None,
        AgentFilesIndex(places.agent("default"), None),
        require_vectors=required,
    )
    assert (1 in recall.ensure([exchange])) is leaves
    recall.close()


async def test_an_open_session_makes_what_is_missing_before_anybody_writes(home: Path) -> None:
    session = with_words_alone(home)
    async with on_stage(home, follow=True, embedder=lambda _: WordModel()) as stage:
        told = await stage.until(events.ContextReported, lambda each: each.report.outside.indexed)
        assert told.report.outside.by_words == 0
    assert pending_in(session) == 0
