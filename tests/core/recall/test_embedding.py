"""Vectors: the shipped model, remote ones, and the view that is scanned on every question."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import VectorsInterrupted, VectorsUnavailable
from mindstone_tui.core.recall.closeness import asked_tokens, closeness, passage_tokens
from mindstone_tui.core.recall.embed_apart import ModelApart
from mindstone_tui.core.recall.embedding import (
    EmbeddedModel,
    Encoded,
    Floats,
    RemoteEmbedder,
    open_embedder,
    tells_tokens_apart,
)
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.library_file import open_in_memory, span_of
from mindstone_tui.core.recall.vector_view import VectorView, as_bytes, lowest, signs_of
from tests.core.recall.talk import WordModel, said

UNRELATED = 0.35


@pytest.fixture(scope="module")
def model() -> EmbeddedModel:
    return EmbeddedModel()


def test_the_shipped_model_gives_the_similarities_its_makers_published(
    model: EmbeddedModel,
) -> None:
    cat, mat, dog = model.embed(
        [
            "That is a happy person",
            "That is a happy dog",
            "Today is a sunny day",
        ]
    )
    assert cat @ mat == pytest.approx(0.695, abs=0.02)
    assert cat @ dog == pytest.approx(0.257, abs=0.02)
    assert np.linalg.norm(cat) == pytest.approx(1, abs=1e-4)


def test_a_text_has_the_same_vector_whatever_it_is_embedded_with(model: EmbeddedModel) -> None:
    alone = model.embed(["a short text"])[0]
    beside = model.embed(["a much longer text " * 20, "a short text"])[1]
    assert np.array_equal(alone, beside)


def test_a_text_longer_than_the_model_reads_is_cut_and_not_refused(model: EmbeddedModel) -> None:
    assert len(model.encode("word " * 5_000).pieces) <= 256


def test_the_model_file_is_the_one_its_papers_name() -> None:
    home = files("mindstone_tui.core.recall") / "minilm"
    digest = hashlib.sha256((home / "minilm-int8.onnx").read_bytes()).hexdigest()
    assert digest in (home / "PROVENANCE.md").read_text(encoding="utf-8")
    assert "Apache License" in (home / "LICENSE").read_text(encoding="utf-8")


def test_meaning_finds_what_shares_no_word_with_the_question(
    tmp_path: Path, model: EmbeddedModel
) -> None:
    index = RecallIndex.open(tmp_path / "index.db", model)
    index.ensure(
        said(text, seq)
        for seq, text in enumerate(
            [
                "The puppy chewed my slippers again.",
                "Invoices are due within thirty days.",
                "We painted the kitchen yellow.",
                "My flight to Lisbon leaves at dawn.",
                "The compiler rejects that lambda.",
            ]
        )
    )
    while index.embed_pending():
        pass
    found = index.search("What did the young canine ruin?", 1)
    assert "puppy" in found.hits[0].text
    assert index.search("When must customers pay their bills?", 1).hits[0].passage.seq == 1


def test_words_of_a_question_meet_their_counterparts_one_by_one(model: EmbeddedModel) -> None:
    asked = asked_tokens(model.encode("Where is the physician?"), lambda _: 1.0)
    kept = [
        passage_tokens(model.encode(text))
        for text in ("The doctor is in the garden.", "Bread needs salt and time.", "")
    ]
    found = closeness(asked, kept)
    doctor, bread, nothing = found.whole
    assert doctor > bread
    assert nothing == 0
    assert found.words.shape == (3, 1)  # "physician" is all that the question asks about
    assert found.words[0, 0] > UNRELATED > found.words[1, 0]


@pytest.mark.parametrize("tokens", [1, 5, 8, 13])
def test_looking_signs_up_in_tables_gives_their_products(tokens: int) -> None:
    random = np.random.default_rng(tokens)
    vectors = random.standard_normal((tokens, 384), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = asked_tokens(
        Encoded(vectors.mean(axis=0), tuple(f"w{at}" for at in range(tokens)), vectors),
        lambda _: 1.0,
    )
    sizes = [3, 0, 9_000, 40]  # more than are compared at a time
    passages = [random.integers(0, 256, size * 32, np.uint8).tobytes() for size in sizes]
    found = closeness(asked, passages)
    assert found.tokens.tolist() == sizes
    for kept, near in zip(passages, found.words, strict=True):
        bits = np.unpackbits(
            np.frombuffer(kept, np.uint8).reshape(-1, 32), axis=1, bitorder="little"
        )
        products = (2.0 * bits - 1) @ vectors[:, :256].T
        best = products.max(axis=0) if len(bits) else np.zeros(tokens)
        scale = np.sqrt(256 * 2 / np.pi) * np.sqrt(256 / 384)
        assert near == pytest.approx(best / scale, abs=5e-4)


@given(
    st.lists(st.integers(0, 384), min_size=1, max_size=400),
    st.integers(1, 60),
    st.integers(1, 200),
)
def test_the_lowest_are_all_found_whichever_of_them_were_counted(
    values: list[int], repeated: int, count: int
) -> None:
    many = np.array(values * repeated, np.int16)
    found = lowest(many, count)
    assert len(found) >= min(count, len(many))
    assert sorted(found) == sorted(np.flatnonzero(many <= many[found].max()))


def test_a_remote_model_is_asked_by_name_and_its_answer_checked() -> None:
    asked: list[dict[str, object]] = []

    def call(**request: object) -> dict[str, object]:
        asked.append(request)
        texts = request["input"]
        assert isinstance(texts, list)
        return {"data": [{"embedding": [3.0, 4.0]} for _ in texts]}

    remote = RemoteEmbedder("openai/small", call)
    assert remote.dims == 2
    assert remote.embed(["a", "b"]).tolist() == pytest.approx(np.array([[0.6, 0.8]] * 2))
    assert asked[-1]["model"] == "openai/small"
    short = RemoteEmbedder("openai/small", lambda **_: {"data": []})
    with pytest.raises(VectorsUnavailable):
        short.embed(["a"])


def test_a_setting_names_the_embedded_model_or_a_remote_one() -> None:
    assert tells_tokens_apart(open_embedder("minilm"))
    remote = open_embedder("openai/text-embedding-3-small")
    assert remote.name == "openai/text-embedding-3-small"
    assert not tells_tokens_apart(remote)


def view_of(rows: Floats, *, names: Sequence[int] = (), owner: int = 1) -> VectorView:
    """A view of vectors as a library holds them."""
    database, _ = open_in_memory()
    for row, vector in zip(names or range(1, len(rows) + 1), rows, strict=True):
        numbers = as_bytes(vector)
        database.execute("insert into numbers values (?, ?)", (row, numbers))
        database.execute(
            "insert into signs (owner, row, bits) values (?, ?, ?)", (owner, row, signs_of(numbers))
        )
    view = VectorView(database, rows.shape[1])
    view.refresh()
    return view


def test_nearest_by_sign_then_by_numbers_agrees_with_comparing_everything() -> None:
    count = 60_000 if os.environ.get("MINDSTONE_FAULTS") else 4_000
    random = np.random.default_rng(5)
    some = count // 66
    centres = random.standard_normal((some, 384), np.float32)
    rows = centres[random.integers(0, some, count)] + random.standard_normal(
        (count, 384), np.float32
    )
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    view = view_of(rows)
    shared = 0
    for asked in rows[:40] + random.standard_normal((40, 384)).astype(np.float32) / 20:
        vector: Floats = (asked / np.linalg.norm(asked)).astype(np.float32)
        best = 1 + np.argsort(-(rows @ vector))[:10]
        shared += len(set(best.tolist()) & set(list(view.nearest(vector, 80)[0])[:20]))
    assert shared >= 0.95 * 400


def test_numbers_kept_as_bytes_hardly_move_a_cosine() -> None:
    random = np.random.default_rng(7)
    rows = random.standard_normal((400, 384), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    view = view_of(rows)
    for asked in rows[:20]:
        found, mean = view.nearest(asked, 400)
        cosines = rows @ asked
        assert max(abs(found[row] - cosines[row - 1]) for row in range(1, 401)) < 0.004
        assert abs(mean - cosines.mean()) < 0.001
        assert view.cosines(asked, [9])[9] == pytest.approx(float(cosines[8]), abs=0.004)


def test_only_allowed_rows_are_compared() -> None:
    model = WordModel()
    rows = model.embed(["red", "green", "blue"])
    view = view_of(rows, names=[3, 7, 9])
    found, _ = view.nearest(model.embed(["red"])[0], 5, [7, 8])
    assert list(found) == [7]
    assert set(view.cosines(rows[0], [3, 4])) == {3}


def test_only_the_rows_of_owners_that_are_meant_are_compared() -> None:
    rows = WordModel().embed(["red", "green", "blue"])
    names = [span_of(owner).first + 1 for owner in (1, 2, 300)]
    view = view_of(rows, names=names)
    found, _ = view.nearest(rows[0], 5, owners=[2, 300])
    assert set(found) == set(names[1:])


def test_searching_and_embedding_can_run_in_several_threads(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", WordModel())
    index.ensure(said(f"fact number {seq} of the harbour", seq) for seq in range(60))
    failed: list[BaseException] = []

    def work(step: int) -> None:
        try:
            for number in range(10):
                index.search(f"harbour fact {number * step}")
                index.embed_pending(3)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(step,)) for step in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    while index.embed_pending():
        pass
    assert (index.pending(), len(index)) == (0, 60)
    assert index.search("harbour fact 7").vectors


def test_a_process_of_its_own_makes_the_same_vectors_and_is_started_again_when_it_ended(
    model: EmbeddedModel, hostile_folder: Path
) -> None:
    apart = ModelApart()
    question = "Which port does the staging database listen on?"
    here, there = model.encode(question), apart.encode(question)
    assert (here.vector == there.vector).all()
    assert (here.token_vectors == there.token_vectors).all()
    assert here.pieces == there.pieces
    child = apart._process._child
    assert child is not None
    child.kill()
    child.wait()
    assert (apart.embed([question])[0] == here.vector).all()
    apart.interrupt()
    assert apart._process._child is None
    assert not (hostile_folder / "ran").exists()


def test_whoever_goes_away_does_not_wait_for_a_vector_and_spoils_no_passage(tmp_path: Path) -> None:
    apart = ModelApart()
    told: list[BaseException] = []
    index = RecallIndex.open(tmp_path / "index.db", apart)
    index.ensure([said("a text like any other")])
    index._model_worked = True

    def make() -> None:
        try:
            index.embed_pending(1)
        except VectorsUnavailable as error:
            told.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    while thread.is_alive() and not told:
        apart.interrupt()
        thread.join(0.01)
    thread.join()
    assert [type(error) for error in told] == [VectorsInterrupted]
    assert index.pending() == 1
