from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.recall.ranking import (
    FLOOR,
    Candidate,
    Hit,
    good_enough,
    rank,
    worth_injecting,
)
from mindstone_tui.core.recall.words import read_question
from tests.core.recall.talk import said


def candidate(text: str, row: int, *, words: float = 0.0, **changes: object) -> Candidate:
    own = {key: changes.pop(key) for key in ("meaning", "closeness", "sitting") if key in changes}
    return Candidate(
        row=row,
        passage=said(text, row, **changes),
        words=words,
        **{"sitting": 0, **own},  # type: ignore[arg-type]
    )


def seqs(hits: list[Hit]) -> list[int]:
    return [hit.passage.seq for hit in hits]


def test_the_parts_of_a_score_add_up_to_it() -> None:
    question = read_question("When did Mel paint?")
    items = [
        candidate("I painted yesterday.", 1, words=0.9, meaning=0.3, closeness=0.2, speaker="Mel"),
        candidate("Nice!", 2, words=0.1),
    ]
    for hit in rank(question, items, count=5):
        assert abs(sum(hit.parts.values()) - hit.score) < 1e-6
    parts = rank(question, items, count=1)[0].parts
    assert {"words", "meaning", "closeness", "neighbours", "speaker", "time"} <= set(parts)


def test_the_answer_beside_a_matching_question_gains_from_it() -> None:
    items = [
        candidate("Which colour shall the boat have?", 1, words=1.5),
        candidate("Teal.", 2),
        candidate("Something else entirely.", 9),
    ]
    hits = rank(read_question("boat colour"), items, count=3)
    assert hits[1].passage.seq == 2
    assert hits[1].parts["neighbours"] > 0


def test_a_long_message_neither_gives_to_its_neighbours_nor_takes() -> None:
    items = [candidate("boat " * 200, 1, words=1.5), candidate("Teal.", 2)]
    hits = rank(read_question("boat colour"), items, count=3)
    assert all("neighbours" not in hit.parts for hit in hits)


def test_neighbours_do_not_reach_into_another_sitting() -> None:
    items = [candidate("The boat?", 1, words=1.5), candidate("Teal.", 2, sitting=1)]
    assert "neighbours" not in rank(read_question("boat"), items, count=2)[1].parts


def test_a_message_is_shown_once_by_its_best_piece() -> None:
    items = [
        candidate("start", 1, words=0.2, id="e1#0", pieces=2),
        candidate("the boat is teal", 2, words=1.0, id="e1#1", entry="e1", piece=1, pieces=2),
    ]
    (hit,) = rank(read_question("boat"), items, count=5)
    assert hit.passage.piece == 1


def test_the_newest_statement_of_a_changed_fact_comes_first_and_says_what_it_replaces() -> None:
    items = [
        candidate("The API listens on port 8080.", 1, words=1.0),
        candidate("Actually the API listens on port 9090.", 7, words=0.9),
    ]
    hits = rank(read_question("API port"), items, count=5)
    assert seqs(hits) == [7, 1]
    assert hits[0].supersedes == (1,)


def test_a_weak_newer_remark_does_not_push_a_good_old_answer_aside() -> None:
    items = [
        candidate("The API listens on port 8080.", 1, words=1.5),
        candidate("Actually I like the API.", 7, words=0.2),
    ]
    assert seqs(rank(read_question("API port"), items, count=5)) == [1, 7]


def test_what_repeats_an_earlier_hit_goes_further_down() -> None:
    text = "The nightly backup of the ledger runs at two in the morning."
    items = [
        candidate(text, 9, words=1.2),
        candidate(text, 1, words=1.1),
        candidate("The ledger backup takes an hour.", 4, words=0.8),
    ]
    assert seqs(rank(read_question("ledger backup"), items, count=3)) == [9, 4, 1]


def test_pins_and_kinds_weigh_in() -> None:
    items = [
        candidate("tabs please", 1, words=0.8, kind="journal"),
        candidate("tabs always", 5, words=0.8),
        candidate("tabs it is", 9, words=0.8),
    ]
    hits = rank(read_question("tabs"), items, count=3, pinned_turns={5})
    assert seqs(hits) == [9, 5, 1]
    assert hits[0].parts["pin"] > 0 > hits[2].parts["kind"]


def test_i_means_the_person_and_you_means_the_model() -> None:
    items = [
        candidate("the red lamp", 1, words=0.8, role="assistant"),
        candidate("the red lamp glows", 2, words=0.8, role="user"),
    ]
    assert seqs(rank(read_question("what did I say of the lamp"), items, count=2))[0] == 2
    assert seqs(rank(read_question("what did you say of the lamp"), items, count=2))[0] == 1


def test_nothing_found_or_only_weak_hits_means_silence() -> None:
    weak = rank(read_question("boat"), [candidate("Hello there", 1, closeness=0.1)], count=1)
    strong = rank(
        read_question("boat"), [candidate("The boat", 1, words=2.0, closeness=0.3)], count=1
    )
    assert not good_enough([], vectors=True)
    assert worth_injecting(weak, vectors=True) == []
    assert worth_injecting(strong, vectors=True) == strong


def test_neighbours_alone_cannot_carry_a_hit_over_the_floor() -> None:
    items = [candidate("ship", row, closeness=0.3) for row in range(1, 6)]
    hits = rank(read_question("boat"), items, count=5)
    assert hits[0].score > FLOOR
    assert not good_enough(hits, vectors=True)


@given(st.lists(st.tuples(st.text(max_size=40), st.floats(0, 2), st.floats(-1, 1)), max_size=25))
def test_ranking_returns_each_message_at_most_once_and_no_more_than_asked(
    drawn: list[tuple[str, float, float]],
) -> None:
    items = [
        candidate(text, row, words=words, meaning=meaning)
        for row, (text, words, meaning) in enumerate(drawn, start=1)
    ]
    hits = rank(read_question("anything at all"), items, count=7)
    assert len(hits) == min(7, len(items))
    assert len({hit.passage.entry for hit in hits}) == len(hits)
