from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.recall.question import read_question
from mindstone_tui.core.recall.ranking import Candidate, Hit, mark_corrected, rank
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


def test_a_long_message_gives_more_to_what_asked_for_it_than_to_what_follows() -> None:
    def gains(middle: str) -> list[float]:
        items = [
            candidate("Which?", 1),
            candidate(middle, 2, words=1.5, role="assistant"),
            candidate("Fine.", 3),
        ]
        hits = {hit.passage.seq: hit for hit in rank(read_question("boat colour"), items, count=3)}
        return [hits[seq].parts["neighbours"] for seq in (1, 3)]

    short, long = gains("The boat."), gains("boat " * 200)
    assert short[0] == short[1] > long[0] > long[1] > 0


@pytest.mark.parametrize(
    ("talk", "takes"),
    [
        ((("user", "teal"), ("assistant", "boat")), {1}),
        ((("user", "boat"), ("assistant", "teal")), set()),
        ((("user", "Boat?"), ("assistant", "teal")), {2}),
        ((("assistant", "boat"), ("user", "teal")), set()),
    ],
)
def test_of_long_messages_a_request_takes_from_its_answer_and_an_answer_from_a_short_request(
    talk: tuple[tuple[str, str], ...], takes: set[int]
) -> None:
    items = [
        candidate(
            text if text == "Boat?" else f"{text} " * 200,
            row,
            words=0.0 if text == "teal" else 1.5,
            role=role,
        )
        for row, (role, text) in enumerate(talk, start=1)
    ]
    hits = rank(read_question("boat colour"), items, count=3)
    long = [hit for hit in hits if len(hit.text) > 400]
    assert {hit.passage.seq for hit in long if "neighbours" in hit.parts} == takes


def test_a_short_message_takes_from_the_best_piece_of_the_message_beside_it() -> None:
    def piece(row: int, at: int, words: float) -> Candidate:
        return candidate(
            "boat " * 90, row, words=words, id=f"long#{at}", entry="long", piece=at, pieces=3
        )

    items = [candidate("Teal.", 1), piece(2, 0, 0.1), piece(4, 2, 1.5), candidate("Nice.", 5)]
    hits = {hit.passage.seq: hit for hit in rank(read_question("boat colour"), items, count=5)}
    assert hits[1].parts["neighbours"] > hits[5].parts["neighbours"] > 0.02


def test_what_comes_after_a_question_gains_more_than_what_came_before() -> None:
    items = [
        candidate("It was cold.", 1),
        candidate("Which colour shall the boat have?", 2, words=1.5),
        candidate("Teal.", 3),
    ]
    hits = {hit.passage.seq: hit for hit in rank(read_question("boat colour"), items, count=3)}
    assert hits[3].parts["neighbours"] > hits[1].parts["neighbours"] > 0


def test_the_output_of_a_tool_gives_nothing_to_the_messages_around_it() -> None:
    items = [
        candidate("Teal.", 1),
        candidate("boat", 2, words=1.5, role="tool", kind="tool_returned", speaker="shell"),
    ]
    hits = {hit.passage.seq: hit for hit in rank(read_question("boat colour"), items, count=2)}
    assert "neighbours" not in hits[1].parts


def test_the_best_of_many_pieces_counts_less_than_the_same_words_said_alone() -> None:
    items = [
        candidate("the boat is teal", 1, words=1.0),
        candidate("the boat is teal, too", 9, words=1.0, pieces=8),
    ]
    assert seqs(rank(read_question("boat"), items, count=2)) == [1, 9]


def test_only_a_short_question_loses_for_asking() -> None:
    told = f"I bought the boat in March, {'and painted it, ' * 8}is that wise?"
    items = [candidate(told, 1, words=1.0), candidate("Which boat?", 9, words=1.0)]
    hits = {hit.passage.seq: hit for hit in rank(read_question("boat"), items, count=2)}
    assert "asks" not in hits[1].parts
    assert hits[9].parts["asks"] < 0


def test_what_the_named_person_said_comes_first() -> None:
    items = [
        candidate("the boat is teal", 1, words=1.0, speaker="Ada"),
        candidate("the boat is teal indeed", 9, words=1.0, speaker="Ben"),
    ]
    assert seqs(rank(read_question("What did Ben say of the boat?"), items, count=2)) == [9, 1]


@pytest.mark.parametrize(
    ("question", "role", "speaker"),
    [
        ("Which user roles are there?", "user", "user"),
        ("What does the assistant role do?", "assistant", "assistant"),
        ("Which task is open?", "system", "task"),
    ],
)
def test_a_word_that_labels_a_speaker_names_nobody(question: str, role: str, speaker: str) -> None:
    items = [candidate("teal", 1, role=role, speaker=speaker)]
    hits = rank(read_question(question), items, count=1)
    assert "speaker" not in hits[0].parts


def test_what_was_said_in_the_month_that_is_asked_for_gains() -> None:
    items = [
        candidate("we sailed", 1, words=1.0, ts="2025-05-03T10:00:00Z"),
        candidate("we sailed off", 9, words=1.0, ts="2025-06-03T10:00:00Z"),
        candidate("we sailed on", 17, words=1.0, ts="2024-05-03T10:00:00Z"),
    ]
    hits = rank(read_question("Where did we sail in May 2025?"), items, count=3)
    assert [hit.passage.seq for hit in hits if "date" in hit.parts] == [1]
    assert hits[0].passage.seq == 1


def test_a_standing_instruction_of_the_person_gains() -> None:
    items = [
        candidate("Always answer in metric units.", 1, words=0.5),
        candidate("It is always cold in metric towns.", 9, words=0.5, role="assistant"),
    ]
    hits = {hit.passage.seq: hit for hit in rank(read_question("how far is it"), items, count=2)}
    assert hits[1].parts["rule"] > 0
    assert "rule" not in hits[9].parts


@pytest.mark.parametrize("question", ["Have I ever pushed to main?", "When did we push to main?"])
def test_a_rule_gains_nothing_where_it_is_asked_what_happened(question: str) -> None:
    items = [candidate("Never push to main.", 1, words=1.0)]
    assert "rule" not in rank(read_question(question), items, count=1)[0].parts
    assert rank(read_question("Push it to main."), items, count=1)[0].parts["rule"] > 0


def test_a_question_that_hesitates_corrects_nothing() -> None:
    items = [
        candidate("hmm, so how is the boat painted?", 1, words=1.0),
        candidate("hmm, the boat is blue.", 9, words=1.0),
    ]
    hits = {hit.passage.seq: hit for hit in rank(read_question("boat"), items, count=2)}
    assert "correction" not in hits[1].parts
    assert hits[9].parts["correction"] > 0


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
    assert (hits[0].supersedes, hits[0].superseded_by) == ((1,), None)
    assert (hits[1].supersedes, hits[1].superseded_by) == ((), 7)


def test_a_correction_replaces_what_the_model_made_of_the_old_statement_too() -> None:
    items = [
        candidate("The staging port is 8443.", 1, words=1.0),
        candidate("Noted: staging is 8443.", 2, words=1.0, role="assistant", speaker="assistant"),
        candidate("No, that's wrong: staging listens on 9443.", 7, words=0.8),
    ]
    hits = rank(read_question("which port has staging"), items, count=5)
    assert seqs(hits)[0] == 7
    assert hits[0].supersedes == (1, 2)
    assert {hit.superseded_by for hit in hits[1:]} == {7}


def test_a_value_that_is_taken_gives_way_to_the_one_to_use_instead() -> None:
    items = [
        candidate("OK starlette. Port 8765.", 1, words=1.0),
        candidate("Port clash: 8765 is taken by the old system. Use 8790.", 7, words=0.9),
    ]
    hits = rank(read_question("which port did we settle on?"), items, count=5)
    assert seqs(hits) == [7, 1]
    assert hits[1].superseded_by == 7


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("OK starlette. Port 8765.", "Port clash: 8765 is taken. Use 8790.", True),
        ("The app listens on 127.0.0.1:8765.", "Port clash: 8765 is taken. Use 8790.", True),
        ("The poll timeout is 5 seconds.", "Make the poll timeout 8 seconds, not 5.", True),
        ("The staging port is 8443.", "Correction: the staging port is 9443.", True),
        ("The staging port is 8443.", "Actually the production port is 9443, I think.", False),
        ("Which port, 8765?", "Port clash: 8765 is taken. Use 8790.", False),
        ("The staging port is 8443.", "Is 8443 in use?", False),
        ("The staging port is 8443.", "Use 3 workers from now on.", False),
    ],
)
def test_what_was_corrected_in_the_window_is_marked_though_only_it_was_found(
    old: str, new: str, marked: bool
) -> None:
    found = Hit(passage=said(old, 3), score=1.0, parts={}, text=old)
    (hit,) = mark_corrected([found], [said("Go on.", 5), said(new, 9)])
    assert hit.superseded_by == (9 if marked else None)
    assert mark_corrected([found], [said(new, 2)]) == [found]
    assert mark_corrected([found], [said(new, 9, session="agent:default:other")]) == [found]


def test_nobody_corrects_what_somebody_else_said() -> None:
    items = [
        candidate("My flat has number 12.", 1, words=1.0, speaker="Ada"),
        candidate("No, my flat has number 14.", 7, words=0.9, speaker="Ben"),
    ]
    hits = rank(read_question("number of the flat"), items, count=5)
    assert all(hit.superseded_by is None for hit in hits)


OLD_STATEMENT = "I track my reading goal of 24 books with a paper journal and a wall calendar."


@pytest.mark.parametrize(
    "said",
    [
        "No problem, reading 24 books with a journal sounds like a fine goal.",
        "No, I think that was all. Thanks for the help with my reading journal!",
        "I want to plan 30 evenings of guitar practice with a metronome, a teacher, two songs"
        " and a journal like the one for my reading goal, which I have never actually looked at.",
    ],
    ids=["friendly", "answers-a-question", "about-something-else"],
)
def test_who_says_no_or_actually_corrects_nothing_yet(said: str) -> None:
    items = [candidate(OLD_STATEMENT, 1, words=1.0), candidate(said, 7, words=1.0)]
    hits = rank(read_question("how do I track my reading goal"), items, count=5)
    assert all(hit.superseded_by is None for hit in hits)


def test_a_correction_may_say_in_its_second_sentence_what_is_right() -> None:
    items = [
        candidate(OLD_STATEMENT, 1, words=1.0),
        candidate("No, that was wrong. My reading goal is 30 books.", 7, words=1.0),
    ]
    hits = rank(read_question("what is my reading goal"), items, count=5)
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


def test_of_what_one_said_twice_the_last_keeps_the_place() -> None:
    text = "The nightly backup of the ledger runs at two in the morning."
    items = [
        candidate(text, 1, words=1.2),
        candidate(text, 9, words=1.1),
        candidate(text, 12, words=1.0, role="assistant", speaker="assistant"),
        candidate("The ledger backup takes an hour.", 4, words=0.8),
    ]
    assert seqs(rank(read_question("ledger backup"), items, count=4)) == [9, 4, 1, 12]


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
