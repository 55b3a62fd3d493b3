"""Passages in other languages, with models that are made up: one that knows English words, and one
that knows what a German word means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest

from mindstone_tui.core.errors import VectorsUnavailable
from mindstone_tui.core.library.find import _make_vectors
from mindstone_tui.core.recall.candidates import Filter
from mindstone_tui.core.recall.embedding import Embedder, Floats
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.store import IndexMark
from tests.core.recall.talk import WordModel, said

MEANS = {
    "schlussel": "key",
    "liegt": "lies",
    "unter": "under",
    "blumentopf": "flowerpot",
    "wo": "where",
    "hund": "dog",
    "bellt": "barks",
    "nachts": "night",
}


class Translating:
    """A model for two languages: every German word counts as the English one."""

    name = "translating"
    dims = 64

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._words = WordModel("shared")

    def embed(self, texts: Sequence[str]) -> Floats:
        self.seen += texts
        return self._words.embed([self._translated(text) for text in texts])

    def _translated(self, text: str) -> str:
        plain = text.lower().replace("ü", "u").rstrip(".?")
        return " ".join(MEANS.get(word, word) for word in plain.split())


class Broken(Translating):
    def embed(self, texts: Sequence[str]) -> Floats:
        raise VectorsUnavailable("No model today.", "Try again.")


class EnglishModel(WordModel):
    english_only = True

    def __init__(self, companion: Embedder | None) -> None:
        super().__init__("english")
        self.companion = companion


GERMAN = "Der Schlüssel liegt unter dem Blumentopf."
ENGLISH = "The key lies under the flowerpot."


def _index(path: Path, model: Embedder, *passages: Passage) -> RecallIndex:
    path.mkdir(exist_ok=True)
    index = RecallIndex.open(path / "index.db", model)
    index.add(passages, IndexMark(len(passages), "x"))
    while index.embed_pending():
        pass
    return index


def _said(*texts: str) -> list[Passage]:
    return [said(text, seq) for seq, text in enumerate(texts, start=1)]


def test_an_english_history_never_wakes_the_model_for_other_languages(tmp_path: Path) -> None:
    other = Translating()
    index = _index(tmp_path, EnglishModel(other), *_said(ENGLISH, "The dog barks at night."))
    index.search("where is the key?")
    assert other.seen == []
    assert index.pending() == 0


def test_a_german_message_is_found_by_an_english_question(tmp_path: Path) -> None:
    lines = _said("We had pasta for lunch.", GERMAN, "Der Hund bellt nachts.")
    index = _index(tmp_path, EnglishModel(Translating()), *lines)
    found = index.search("where is the key under the flowerpot")
    assert found.hits[0].text == GERMAN
    assert found.hits[0].parts["meaning"] > 0.3


def test_a_german_question_is_answered_from_an_english_history_at_once(tmp_path: Path) -> None:
    lines = _said("We had pasta for lunch.", ENGLISH, "The dog barks at night.")
    index = _index(tmp_path, EnglishModel(Translating()), *lines)
    found = index.search("Wo liegt der Schlüssel?")
    assert found.hits[0].text == ENGLISH
    assert found.vectors


def test_a_phrase_that_is_near_to_everything_steps_back(tmp_path: Path) -> None:
    """It shares as much with the question as what answers it, and with all the rest, too."""
    rest = [f"hund nachts wort{at}" for at in range(40)]
    lines = _said("schlüssel hund nachts", "schlüssel blumentopf fenster", *rest)
    index = _index(tmp_path, EnglishModel(Translating()), *lines)
    assert index.search("Wo ist der Schlüssel?").hits[0].text == "schlüssel blumentopf fenster"


def test_what_was_said_often_does_not_step_back_for_that(tmp_path: Path) -> None:
    lines = _said(*[GERMAN] * 30, "Der Hund bellt nachts.")
    index = _index(tmp_path, EnglishModel(Translating()), *lines)
    found = index.search("Wo liegt der Schlüssel?")
    assert found.hits[0].text == GERMAN
    assert found.hits[0].parts["meaning"] > 0.3


def test_once_a_person_writes_german_everything_gets_both_vectors(tmp_path: Path) -> None:
    other = Translating()
    index = _index(tmp_path, EnglishModel(other), *_said(ENGLISH))
    assert other.seen == []
    index.add([said(GERMAN, 2)], IndexMark(2, "x"))
    assert index.pending() == 1
    while index.embed_pending():
        pass
    assert sorted(other.seen) == sorted([ENGLISH, GERMAN])
    assert index.pending() == 0


def test_what_a_tool_printed_in_german_leaves_the_rest_alone(tmp_path: Path) -> None:
    other = Translating()
    printed = said(GERMAN, 2, role="tool", speaker="shell", kind="tool_returned")
    _index(tmp_path, EnglishModel(other), said(ENGLISH, 1), printed)
    assert other.seen == [GERMAN]


def test_a_passage_waits_until_it_has_both_vectors(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", EnglishModel(Translating()))
    german = said(GERMAN, 1)
    (receipt,) = index.ensure([german], IndexMark(1, "x"))
    assert receipt.vectors == "pending"
    assert index.waits([german])
    while index.embed_pending():
        pass
    assert index.receipts([german])[0].vectors == "stored"
    assert not index.waits([german])


@pytest.mark.parametrize("companion", [None, Broken()])
def test_without_that_model_german_is_found_by_words_and_nothing_waits(
    tmp_path: Path, companion: Embedder | None
) -> None:
    lines = _said("Der Hund bellt nachts.", GERMAN, "We had pasta for lunch.")
    index = _index(tmp_path, EnglishModel(companion), *lines)
    found = index.search("Wo ist der Schlüssel?")
    assert found.hits[0].text == GERMAN
    assert not found.vectors
    assert set(found.hits[0].parts) <= {"words", "sitting", "age", "neighbours"}
    assert index.pending() == 0
    assert index.receipts([lines[1]])[0].vectors == "stored"


def test_english_scores_do_not_change_when_somebody_also_writes_german(tmp_path: Path) -> None:
    english = _said(ENGLISH, "The dog barks at night.", "We had pasta for lunch.")
    alone = _index(tmp_path / "alone", EnglishModel(None), *english)
    mixed = _index(tmp_path / "mixed", EnglishModel(Translating()), *english)
    mixed.search("Wo liegt der Schlüssel?")
    for index in (alone, mixed):
        assert index.search("where is the key?").hits[0].text == ENGLISH
    before, after = (
        [(hit.text, hit.score) for hit in index.search("where is the key?").hits]
        for index in (alone, mixed)
    )
    assert before == after


def test_what_is_taken_out_takes_its_vectors_with_it(tmp_path: Path) -> None:
    index = _index(tmp_path, EnglishModel(Translating()), *_said(GERMAN, "Der Hund bellt nachts."))
    index.keep_only([said("Der Hund bellt nachts.", 2)], IndexMark(2, "x"))
    database = apsw.Connection(str(tmp_path / "index.db"))
    rows = database.execute("select row from language_numbers").fetchall()
    assert len(rows) == 1
    assert np.isfinite(index.search("Was bellt nachts?").hits[0].score)


def test_the_bar_counts_passages_that_have_their_vectors_and_nothing_else(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", EnglishModel(Translating()))
    passages = _said(
        *(f"The key number {at} lies under the flowerpot." for at in range(40)), GERMAN
    )
    index.add(passages, IndexMark(len(passages), "x"))
    told: list[tuple[int, int]] = []
    assert _make_vectors(index, lambda _, done, goal: told.append((done, goal))) == ""
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (41, 41)
    assert len(told) > 2


def test_where_nothing_could_be_found_no_question_is_embedded(tmp_path: Path) -> None:
    """That model takes seconds to load, and the first long message of a session waits for it."""
    languages = Translating()
    index = RecallIndex.open(tmp_path / "index.db", EnglishModel(languages))
    index.add(_said(GERMAN, ENGLISH), IndexMark(2, "x"))
    for allowed in (Filter(exclude=frozenset({1, 2})), Filter(kinds=frozenset({"memory"}))):
        assert index.search("Wo liegt der Schlüssel?", allowed=allowed).hits == ()
    assert languages.seen == []
    index.search("Wo liegt der Schlüssel?", allowed=Filter(exclude=frozenset({1})))
    assert languages.seen
