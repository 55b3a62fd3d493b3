from __future__ import annotations

import contextlib
import stat
from pathlib import Path

import apsw
import pytest

from mindstone_tui.core.errors import IndexUnavailable, VectorsUnavailable
from mindstone_tui.core.recall.candidates import Filter
from mindstone_tui.core.recall.index import RecallIndex, best_of
from mindstone_tui.core.recall.store import IndexMark
from tests.core.recall.talk import BrokenModel, PickyModel, WordModel, said

TALK = [
    said("The staging database lives in Frankfurt.", 1),
    said("Noted, Frankfurt it is.", 2, role="assistant", speaker="assistant"),
    said("My sister's dog is called Biscuit.", 3),
    said("We ship on Thursdays, never on Fridays.", 5),
]


def filled(path: Path, model: WordModel | None = None) -> RecallIndex:
    index = RecallIndex.open(path, model)
    index.ensure(TALK)
    while model is not None and index.embed_pending(2):
        pass
    return index


def test_a_receipt_counts_what_was_read_back_and_not_what_was_handed_in(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", None)
    receipts = index.ensure(TALK)
    assert [(receipt.turn, receipt.passages) for receipt in receipts] == [(1, 2), (2, 1), (3, 1)]
    assert all(receipt.vectors == "pending" for receipt in receipts)
    assert len({receipt.digest for receipt in receipts}) == 3


def test_words_that_vanished_from_the_index_are_missing_from_the_receipt(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    filled(path).close()
    database = apsw.Connection(str(path))
    database.execute("delete from words where rowid = (select min(row) from passages)")
    database.close()
    index = RecallIndex.open(path, None)
    assert index.receipts(TALK)[0].passages == 1


def test_indexing_twice_adds_nothing(tmp_path: Path) -> None:
    index = filled(tmp_path / "index.db")
    before = index.receipts(TALK)
    assert index.ensure(TALK) == before
    assert len(index) == len(TALK)


def test_a_text_that_changed_under_its_id_replaces_the_old_one(tmp_path: Path) -> None:
    model = WordModel()
    index = filled(tmp_path / "index.db", model)
    index.ensure([said("My sister's cat is called Waffle.", 3)])
    while index.embed_pending():
        pass
    assert index.search("Waffle", 1).hits[0].passage.seq == 3
    assert all("Biscuit" not in hit.text for hit in index.search("Biscuit dog").hits)


def test_the_receipt_says_when_the_vectors_are_there(tmp_path: Path) -> None:
    index = filled(tmp_path / "index.db", WordModel())
    assert {receipt.vectors for receipt in index.receipts(TALK)} == {"stored"}
    assert index.pending() == 0


def test_the_window_is_embedded_first_and_its_oldest_before_the_rest(tmp_path: Path) -> None:
    model = WordModel()
    index = RecallIndex.open(tmp_path / "index.db", model)
    index.ensure(TALK)
    index.embed_pending(1, window_from=3)
    assert "Biscuit" in model.seen[-1]
    index.embed_pending(2, window_from=3)
    assert "Thursdays" in model.seen[-2]
    assert "Frankfurt" in model.seen[-1]


def test_identical_texts_are_embedded_once(tmp_path: Path) -> None:
    model = WordModel()
    index = RecallIndex.open(tmp_path / "index.db", model)
    index.ensure([said("same words", seq, ts="2026-01-01T00:00:00Z") for seq in range(1, 6)])
    while index.embed_pending(2):
        pass
    assert len(model.seen) == 1
    assert index.pending() == 0


def test_a_later_piece_of_an_output_is_embedded_once_whatever_call_printed_it(
    tmp_path: Path,
) -> None:
    model = WordModel()
    for owner, call in (("one", "read a.py"), ("two", "cat a.py")):
        index = RecallIndex(tmp_path / "library.db", model, owner)
        printed: dict[str, object] = {"kind": "tool_returned", "about": call, "pieces": 2}
        index.ensure([said("import os", 1, **printed), said("def main", 2, piece=1, **printed)])
        while index.embed_pending():
            pass
        assert index.pending() == 0
    assert model.seen.count("def main") == 1
    assert [text.rpartition("· ")[2] for text in model.seen if text != "def main"] == [
        "read a.py: import os",
        "cat a.py: import os",
    ]


def test_a_row_that_says_something_else_by_now_lends_its_vector_to_nobody(tmp_path: Path) -> None:
    model = WordModel()
    index = RecallIndex(tmp_path / "library.db", model, "files")
    for text in ("a first draft", "rewritten"):
        index.keep_only([said(text, -1)], IndexMark(-1, text))
        index.embed_pending()
    other = RecallIndex(tmp_path / "library.db", model, "session")
    other.ensure([said("a first draft", -1)])
    other.embed_pending()
    assert sum("a first draft" in text for text in model.seen) == 2


def test_vectors_of_another_model_are_never_compared(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    filled(path, WordModel("old")).close()
    index = RecallIndex.open(path, WordModel("new", dims=32))
    assert not index.search("Frankfurt").vectors
    assert index.pending() == len(TALK)
    while index.embed_pending():
        pass
    found = index.search("Frankfurt")
    assert found.vectors
    assert found.hits[0].passage.seq in (1, 2)


def test_a_text_the_model_cannot_take_is_marked_and_does_not_hold_up_the_rest(
    tmp_path: Path,
) -> None:
    path = tmp_path / "index.db"
    index = RecallIndex.open(path, PickyModel())
    index.ensure(TALK)
    with pytest.raises(VectorsUnavailable):
        index.embed_pending()
    while index.embed_pending():
        pass
    states = [receipt.vectors for receipt in index.receipts(TALK)]
    assert states == ["stored", "failed", "stored"]
    index.close()
    index = RecallIndex.open(path, WordModel())
    while index.embed_pending():
        pass
    assert {receipt.vectors for receipt in index.receipts(TALK)} == {"stored"}


def test_vectors_made_anew_by_another_process_replace_the_ones_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index = filled(path, WordModel())
    assert index.search("Biscuit").vectors
    other = RecallIndex.open(path, WordModel())
    other.clear()
    other.ensure(reversed(TALK))
    while other.embed_pending():
        pass
    hit = index.search("sister dog called Biscuit", 1).hits[0]
    assert (hit.passage.seq, "meaning" in hit.parts) == (3, True)


def test_without_a_model_words_still_work_and_the_answer_says_so(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", BrokenModel())
    index.ensure(TALK)
    with pytest.raises(VectorsUnavailable):
        index.embed_pending()
    found = index.search("dog Biscuit")
    assert found.hits[0].passage.seq == 3
    assert not found.vectors


@pytest.mark.parametrize(
    "junk", [b"not a database at all" * 400, b"SQLite format 3\0" + b"\7" * 9000]
)
def test_a_damaged_file_is_put_aside_and_a_new_one_started(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(junk)
    index = RecallIndex.open(path, None)
    index.ensure(TALK)
    assert index.search("Biscuit").hits[0].passage.seq == 3
    (aside,) = tmp_path.glob("index.db.damaged-*")
    assert aside.read_bytes() == junk


def test_damage_met_while_working_costs_a_rebuild_and_no_question(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    filled(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    index = RecallIndex.open(path, None)
    receipts = index.ensure(TALK, IndexMark(5, "hash"))
    assert sum(receipt.passages for receipt in receipts) == len(TALK)
    assert list(tmp_path.glob("index.db.damaged-*"))
    assert index.search("Biscuit").hits[0].passage.seq == 3


def test_an_index_that_another_process_replaced_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index = filled(path)
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert len(index) == 0
    index.ensure(TALK)
    assert index.search("Biscuit").hits


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    filled(tmp_path / "index.db", WordModel())
    for file in tmp_path.glob("index.db*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_is_not_there_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable) as caught:
        RecallIndex.open(tmp_path / "nowhere" / "index.db", None)
    assert caught.value.remedy


def test_what_is_in_the_window_does_not_come_back(tmp_path: Path) -> None:
    index = filled(tmp_path / "index.db", WordModel())
    found = index.search("staging database Frankfurt", allowed=Filter(exclude=frozenset({1})))
    assert 1 not in [hit.passage.seq for hit in found.hits]


def test_a_window_full_of_matches_does_not_hide_what_stands_outside_it(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", WordModel())
    index.ensure([said("the harbour pilot is called Ines", 1)])
    index.ensure(said(f"harbour pilot harbour pilot {seq}", seq) for seq in range(2, 400))
    while index.embed_pending(200):
        pass
    window = Filter(exclude=frozenset(range(2, 400)))
    assert [hit.passage.seq for hit in index.search("harbour pilot", allowed=window).hits] == [1]


def test_a_search_can_be_narrowed_to_a_time_and_to_kinds(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", WordModel())
    index.ensure(
        [
            said("the plan is blue", 1, ts="2025-01-01T00:00:00Z"),
            said("the plan is red", 3, ts="2026-01-01T00:00:00Z"),
            said("the plan is green", 5, ts="2026-01-02T00:00:00Z", kind="note_taken"),
        ]
    )
    while index.embed_pending():
        pass
    since = Filter(since=1_767_225_600.0)
    assert {hit.passage.seq for hit in index.search("plan", allowed=since).hits} == {3, 5}
    notes = Filter(kinds=frozenset({"note_taken"}))
    assert {hit.passage.seq for hit in index.search("plan", allowed=notes).hits} == {5}


def test_all_owners_of_a_file_answer_as_one_and_each_for_itself(tmp_path: Path) -> None:
    model, path = WordModel(), tmp_path / "library.db"
    first, second = (RecallIndex(path, model, owner=name) for name in ("first", "second"))
    first.ensure([said("the kettle is copper", 1)])
    second.ensure([said("the teapot is porcelain", 2, session="agent:default:other")])
    for index in (first, second):
        while index.embed_pending():
            pass
    everybody = RecallIndex(path, model, owner=None)
    found = everybody.search("porcelain teapot or copper kettle", 5).hits
    assert {hit.passage.text for hit in found} == {
        "the kettle is copper",
        "the teapot is porcelain",
    }
    assert [hit.passage.text for hit in first.search("porcelain teapot or copper kettle").hits] == [
        "the kettle is copper"
    ]
    first.clear()
    assert (len(first), len(second), len(everybody)) == (0, 1, 1)
    assert len(first.search("kettle").hits) == 0
    assert [hit.passage.seq for hit in second.search("porcelain").hits] == [2]


def test_a_text_that_somebody_else_has_is_not_embedded_again(tmp_path: Path) -> None:
    model, path = WordModel(), tmp_path / "library.db"
    for name in ("first", "second"):
        index = RecallIndex(path, model, owner=name)
        index.ensure([said("the kettle is copper", 1)])
        while index.embed_pending():
            pass
        assert index.search("kettle").vectors
    assert len([text for text in model.seen if "kettle is copper" in text]) == 1


def test_answers_are_joined_without_undoing_their_order(tmp_path: Path) -> None:
    own = RecallIndex.open(tmp_path / "own.db", None)
    own.ensure(
        [
            said("The API of the billing service listens on port 8080.", 1),
            said("Sorry, the API of the billing service is on port 9090.", 7),
            *(said(f"Something else, number {at}.", at) for at in range(11, 40, 2)),
        ]
    )
    other = RecallIndex.open(tmp_path / "other.db", None)
    other.ensure([said("The port of Hamburg.", 1, session="agent:default:other")])
    question = "Which port does the API of the billing service listen on?"
    ordered = own.search(question, 5).hits
    assert [hit.passage.seq for hit in ordered[:2]] == [7, 1]
    assert ordered[0].score < ordered[1].score
    joined = best_of(own.search(question, 5), other.search(question, 5), k=5).hits
    assert [hit.passage.seq for hit in joined if hit.passage.session.endswith("main")][:2] == [7, 1]


def test_an_entry_that_helped_before_gains_and_one_that_did_not_loses(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", None)
    index.ensure([said("deploy with make ship", 1), said("deploy with make push", 3)])
    for _ in range(3):
        index.count_uses(["e1"], unused=["e3"])
    parts = {hit.passage.entry: hit.parts for hit in index.search("deploy make").hits}
    assert parts["e1"]["use"] > 0 > parts["e3"]["use"]


def test_the_mark_survives_and_a_cleared_index_has_none(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index = RecallIndex.open(path, None)
    assert index.mark == IndexMark()
    index.ensure(TALK, IndexMark(5, "abc"))
    index.close()
    index = RecallIndex.open(path, None)
    assert index.mark == IndexMark(5, "abc")
    index.clear()
    assert index.mark == IndexMark()
    assert len(index) == 0


def test_a_question_is_embedded_only_if_a_vector_could_be_compared_with_it(tmp_path: Path) -> None:
    model = WordModel()
    index = RecallIndex.open(tmp_path / "index.db", model)
    index.ensure([said("the kettle is copper", 1)])
    assert [hit.passage.seq for hit in index.search("copper kettle").hits] == [1]
    assert model.seen == []
    index.embed_pending()
    model.seen.clear()
    assert not index.search("copper kettle", allowed=Filter(exclude=frozenset({1}))).hits
    assert not index.search("copper kettle", allowed=Filter(kinds=frozenset({"memory"}))).hits
    assert model.seen == []
    assert index.search("copper kettle").vectors
    assert model.seen == ["copper kettle"]
    index.close()


def test_words_alone_find_what_was_said_a_moment_ago(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", None)
    assert not index.search("otter").hits
    index.ensure([said("The otter in the harbour is called Bartholomew.", 1)])
    index.ensure([said("Saved.", 3)])
    best = index.search("otter Bartholomew").hits[0]
    assert best.passage.seq == 1
    assert best.parts["words"] > 0.2
    index.close()


def test_a_locked_file_is_waited_for_once_however_often_it_is_read_meanwhile(
    tmp_path: Path,
) -> None:
    index = filled(tmp_path / "index.db")
    more = said("The ferry leaves at nine.", 9)

    def patience() -> object:
        return index._database.pragma("busy_timeout")

    patient = patience()
    other = apsw.Connection(str(tmp_path / "index.db"))
    other.execute("begin immediate")
    with pytest.raises(IndexUnavailable, match="locked"):
        index.ensure([more])
    assert len(index) == len(TALK)
    assert patience() != patient
    other.execute("rollback")
    index.ensure([more])
    assert patience() == patient


def test_a_long_exchange_is_stored_in_parts_that_others_may_write_between(tmp_path: Path) -> None:
    index = RecallIndex.open(tmp_path / "index.db", None)
    taken: list[int] = []

    def count() -> bool:
        taken.append(1)
        return False

    index._database.set_commit_hook(count)
    long = [said(f"part {at} of the log", at, turn=1) for at in range(700)]
    (receipt,) = index.ensure(long, IndexMark(699, "x"))
    assert (receipt.passages, len(taken)) == (700, 3)
    assert index.mark.seq == 699


def test_vectors_of_a_library_from_before_the_newest_step_go_on_being_used(tmp_path: Path) -> None:
    path = tmp_path / "library.db"
    filled(path, WordModel()).close()
    with contextlib.closing(apsw.Connection(str(path))) as library:
        library.execute("drop table embedded; create index passages_by_hash on passages (hash)")
        library.pragma("user_version", 8)
    model = WordModel()
    index = RecallIndex.open(path, model)
    assert index.pending() == 0
    (hit,) = index.search("Where is the staging database?", 1).hits
    assert hit.parts["meaning"] > 0
    assert model.seen == ["Where is the staging database?"]
    index.close()
