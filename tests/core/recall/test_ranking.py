from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.recall.question import read_question
from mindstone_tui.core.recall.ranking import Candidate, Hit, arrange, mark_corrected, rank
from tests.core.recall.talk import said

OF_A_CANDIDATE = frozenset(Candidate.__struct_fields__) - {"row", "passage", "words"}


def candidate(text: str, row: int, *, words: float = 0.0, **changes: object) -> Candidate:
    own = {key: changes.pop(key) for key in OF_A_CANDIDATE if key in changes}
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


LONG = "boat " * 90
SIZES: dict[str, tuple[str, list[dict[str, Any]], dict[str, float]]] = {
    "nothing": ("boat", [{}], {}),
    "three signals": (
        "boat",
        [{"words": 1.0, "meaning": 1.0, "closeness": 1.0}],
        {"words": 0.35, "meaning": 0.45, "closeness": 1.3, "sitting": 0.25 * 2.1},
    ),
    "words alone": (
        "boat",
        [{"words": 1.0, "by_words": True}],
        {"words": 1.0, "sitting": 0.25},
    ),
    "another language": (
        "boat",
        [{"words": 1.0, "other": 0.5, "meaning": 1.0, "closeness": 1.0}],
        {"words": 0.5, "meaning": 1.0, "sitting": 0.375},
    ),
    "against it": ("boat", [{"meaning": -1.0}], {"meaning": -0.45}),
    "the person who is named": ("What did Ada say?", [{"speaker": "Ada"}], {"speaker": 0.4}),
    "the person who asks": ("What did I say?", [{}], {"person": 0.2}),
    "a question": ("boat", [{"text": "Which?"}], {"asks": -0.1}),
    "a time for one who asks when": (
        "When was it?",
        [{"text": "On Sunday."}],
        {"time": 0.1},
    ),
    "a time for one who does not": ("boat", [{"text": "On Sunday."}], {}),
    "the month that is named": ("boat of January", [{}], {"date": 0.15}),
    "the year that is named": ("boat of 2026", [{}], {"date": 0.15}),
    "another month": ("boat of May", [{}], {}),
    "another year": ("boat of 2025", [{}], {}),
    "another month of the year": ("boat of May 2026", [{}], {}),
    "the month of another year": ("boat of January 2025", [{}], {}),
    "a time that cannot be read": ("boat of 2026", [{"ts": "once"}], {}),
    "a rule": ("boat", [{"text": "Always use tabs."}], {"rule": 0.14}),
    "a rule of the model": ("boat", [{"text": "Always use tabs.", "role": "assistant"}], {}),
    "a pin": ("boat", [{"turn": 7}], {"pin": 0.1}),
    "a correction": ("boat", [{"text": "No, it is blue."}], {"correction": 0.05}),
    "one of eight pieces": ("boat", [{"pieces": 8}], {"pieces": -0.08 * 2.0794}),
    "one of two pieces": ("boat", [{"pieces": 2}], {"pieces": -0.08 * 0.6931}),
    "used twice and shown thrice": (
        "boat",
        [{"used": 2, "injected": 3}],
        {"use": 0.02 * (2 * 1.0986 - 1.3863)},
    ),
    "shown in vain": ("boat", [{"injected": 3}], {"use": -0.02 * 1.3863}),
    "the newest": ("boat", [{"recency": 1.0}], {"age": 0.005}),
    "a memory": ("boat", [{"kind": "memory"}], {"kind": 0.1}),
    "a note": ("boat", [{"kind": "note_taken"}], {"kind": 0.05}),
    "a handoff": ("boat", [{"kind": "handoff_replayed"}], {"kind": -0.3}),
    "a log": ("boat", [{"kind": "log"}], {"kind": -0.1}),
    "a journal": ("boat", [{"kind": "journal"}], {"kind": -0.1}),
    "what a tool said": ("boat", [{"kind": "tool_returned"}], {"kind": -0.08}),
    "after a match": ("boat", [{}, {"row": 0, "words": 2.0}], {"neighbours": 0.21}),
    "after a question that matches": (
        "boat",
        [{}, {"row": 0, "words": 2.0, "text": "Why?"}],
        {"neighbours": 0.7 * 0.55},
    ),
    "before a question that matches": (
        "boat",
        [{}, {"row": 2, "words": 2.0, "text": "Why?"}],
        {"neighbours": 0.21},
    ),
    "next but one to matches": (
        "boat",
        [{}, *({"row": row, "words": 2.0 * (abs(row - 1) == 2)} for row in (-1, 0, 2, 3))],
        {"neighbours": 2 * 0.7 * 0.18},
    ),
    "next but one to long ones": (
        "boat",
        [
            {},
            *(
                {
                    "row": row,
                    "words": 2.0 * (abs(row - 1) == 2),
                    "text": "teal " + LONG * (abs(row - 1) == 2),
                }
                for row in (-1, 0, 2, 3)
            ),
        ],
        {"neighbours": 0.7 * 0.18 * (0.2 + 0.6)},
    ),
    "before a long answer": (
        "boat",
        [{}, {"row": 2, "words": 2.0, "text": LONG, "role": "assistant"}],
        {"neighbours": 0.7 * 0.3 * 0.6},
    ),
    "after a long answer": (
        "boat",
        [{}, {"row": 0, "words": 2.0, "text": LONG, "role": "assistant"}],
        {"neighbours": 0.7 * 0.3 * 0.2},
    ),
    "beside a long output": (
        "boat",
        [{}, *({"row": row, "words": 2.0, "text": LONG, "role": "tool"} for row in (0, 2))],
        {"neighbours": 0.0},
    ),
    "a long answer after a short request": (
        "boat",
        [{"text": LONG, "role": "assistant"}, {"row": 0, "words": 2.0}],
        {"neighbours": 0.7 * 0.2},
    ),
    "a long output after a short request": (
        "boat",
        [{"text": LONG, "role": "tool"}, {"row": 0, "words": 2.0}],
        {"neighbours": 0.0},
    ),
    "a long request before a short answer": (
        "boat",
        [{"text": LONG}, {"row": 2, "words": 2.0, "role": "assistant"}],
        {"neighbours": 0.7 * 0.3},
    ),
    "a long request after a match": (
        "boat",
        [{"text": LONG}, {"row": 0, "words": 2.0}],
        {"neighbours": 0.0},
    ),
    "in a sitting with a match": (
        "boat",
        [{}, {"row": 50, "words": 2.0}, {"row": 60, "words": 1.0}],
        {"sitting": 0.7 * 0.25},
    ),
}
"""A question, the passage that is looked at and others, and what its score is made of.

Scores compare between questions and between indexes, so each part has its fixed size.
"""


@pytest.mark.parametrize("case", SIZES)
def test_each_part_of_a_score_has_its_size_and_nothing_else_counts(case: str) -> None:
    question, wanted, parts = SIZES[case]
    items = [
        candidate(**{"text": f"teal {number}", "row": 1, **one})
        for number, one in enumerate(wanted)
    ]
    hits = rank(read_question(question), items, count=9, pinned_turns={7})
    (hit,) = [hit for hit in hits if hit.passage.seq == 1]
    found = dict(hit.parts)
    if len(items) > 1 and "sitting" not in parts:
        found.pop("sitting", None)
    assert found == pytest.approx({name: size for name, size in parts.items() if size}, abs=2e-4)
    assert hit.score == pytest.approx(sum(hit.parts.values()), abs=1e-9)


def test_a_message_of_four_hundred_characters_is_long() -> None:
    """And so is every message in pieces: neither takes from both of its neighbours."""
    for length, pieces, takes in ((399, 1, True), (400, 1, False), (10, 2, False)):
        items = [
            candidate("x" * length, 1, role="assistant", pieces=pieces),
            candidate("the boat", 1 + pieces, words=1.0),
        ]
        hits = rank(read_question("boat"), items, count=2)
        (hit,) = [hit for hit in hits if hit.passage.seq == 1]
        assert ("neighbours" in hit.parts) is takes


def test_only_twelve_hits_are_compared_with_each_other() -> None:
    """Comparing each with each is what the time goes into; nobody reads the thirteenth."""

    def found(again: int) -> list[int]:
        letters = "abcdefghijklmnopqrst"
        texts = {at: f"keel{one} mast{one} sail{one} rope{one}" for at, one in enumerate(letters)}
        items = [
            candidate(texts[0 if at == again else at], 10 * at, words=2 - at / 50, speaker=f"{at}")
            for at in range(20)
        ]
        return [seq // 10 for seq in seqs(rank(read_question("boat"), items, count=20))]

    assert found(12) == list(range(20))
    assert found(10) == [*range(10), 11, 10, *range(12, 20)]


def test_as_many_are_weighed_as_are_asked_for_and_the_strongest_of_all() -> None:
    items = [candidate(f"boat {row}", 2 * row, words=row / 100) for row in range(1, 160)]
    question = read_question("boat")
    assert len(rank(question, items, count=150)) == 150
    assert seqs(rank(question, items, count=3)) == [318, 316, 314]
    assert rank(question, [], count=3) == []
    strong = [candidate(f"boat {row}", 2 * row, words=1.0) for row in range(1, 61)]
    pinned = candidate("boat again", 200, words=0.99)
    for others, best in ((strong, 120), (strong[1:], 200)):
        found = rank(question, [*others, pinned], count=1, pinned_turns={pinned.passage.turn})
        assert seqs(found) == [best], "of the others nobody reads the text"


def test_of_two_that_are_as_good_the_later_comes_first_and_of_two_pieces_the_earlier() -> None:
    items = [
        candidate("the boat", 1, words=1.0),
        candidate("a boat", 9, words=1.0),
        candidate("boat", 20, words=0.5, id="l#0", entry="l", pieces=2),
        candidate("boat", 21, words=0.5, id="l#1", entry="l", piece=1, pieces=2),
    ]
    hits = rank(read_question("boat"), items, count=4)
    assert [(hit.passage.seq, hit.passage.piece) for hit in hits] == [(9, 0), (1, 0), (20, 0)]


def test_a_rule_is_looked_for_where_it_could_bring_a_message_among_those_asked_for() -> None:
    def found(words: float) -> list[int]:
        items = [
            candidate("the boat is teal", 1, words=1.0),
            candidate("Always use tabs.", 9, words=words, sitting=1),
        ]
        return seqs(rank(read_question("boat"), items, count=1))

    assert found(0.9) == [9]
    assert found(0.2) == [1]
    three = [
        candidate("the boat is teal", 1, words=1.2),
        candidate("the boat is blue", 19, words=1.0, sitting=1),
        candidate("Always use tabs.", 9, words=0.8, sitting=2),
    ]
    assert seqs(rank(read_question("boat"), three, count=2)) == [1, 9]


def test_a_rule_is_found_in_any_sentence_but_not_in_a_paste() -> None:
    def gains(text: str) -> bool:
        (hit,) = rank(read_question("boat"), [candidate(text, 1)], count=1)
        return "rule" in hit.parts

    assert gains("I saw the boat. Always use tabs.")
    assert gains(f"{'It sails. ' * 500}Always use tabs.")
    assert not gains(f"{'It sails. ' * 700}Always use tabs.")
    assert not gains("It is a rule that boats sail.")


@pytest.mark.parametrize(
    ("ours", "theirs", "repeats"),
    [
        ("red blue green white", "red blue green white", True),
        ("red blue green white", "white green blue red", True),
        ("red blue green", "red blue green", False),
        (
            "one red blue green white black grey brown",
            "red blue green white black grey brown",
            True,
        ),
        ("two red blue green white black", "red blue green white black grey", False),
    ],
)
def test_what_shares_nearly_all_of_at_least_four_words_repeats(
    ours: str, theirs: str, repeats: bool
) -> None:
    items = [
        candidate(ours, 9, words=1.0),
        candidate(theirs, 1, words=0.9, role="assistant", speaker="assistant"),
        candidate("something else altogether", 30, words=0.1),
    ]
    assert seqs(rank(read_question("paint"), items, count=3))[1] == (30 if repeats else 1)


def test_a_newer_statement_needs_three_fifths_of_the_strength_of_the_older() -> None:
    def replaced(words: float) -> bool:
        items = [
            candidate("The API listens on port 8080.", 1, words=1.0, by_words=True),
            candidate("The API listens on port 9090.", 7, words=words, by_words=True, sitting=1),
        ]
        return rank(read_question("API port"), items, count=2)[0].passage.seq == 7

    assert [replaced(words) for words in (0.5, 0.55, 0.65, 0.9)] == [False, False, True, True]


def test_the_last_of_several_statements_stands_first_and_each_names_its_next() -> None:
    items = [
        candidate(f"The API listens on port {port}.", seq, words=1.0 - seq / 100)
        for seq, port in ((1, 8080), (7, 9090), (20, 7070))
    ]
    hits = rank(read_question("API port"), items, count=3)
    assert seqs(hits)[0] == 20
    told = {hit.passage.seq: (hit.supersedes, hit.superseded_by) for hit in hits}
    assert told == {1: ((), 20), 7: ((1,), 20), 20: ((1, 7), None)}


def test_what_was_marked_before_keeps_the_newest_mark() -> None:
    old = "The staging port is 8443."
    found = Hit(passage=said(old, 3), score=1.0, parts={}, text=old, superseded_by=12)
    new = "Correction: the staging port is 9443."
    assert [hit.superseded_by for hit in mark_corrected([found], [said(new, 9)])] == [12]
    assert [hit.superseded_by for hit in mark_corrected([found], [said(new, 15)])] == [15]
    of_the_model = said(new, 15, role="assistant", speaker="user")
    assert [hit.superseded_by for hit in mark_corrected([found], [of_the_model])] == [12]


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


def test_what_the_model_repeats_of_what_was_replaced_does_not_hold_again() -> None:
    model = {"role": "assistant", "speaker": "assistant"}
    items = [
        candidate("The staging port is 8443.", 1, words=0.9),
        candidate("No, that's wrong: staging listens on 9443.", 7, words=0.8),
        candidate("The staging port is 8443.", 9, words=1.0, **model),
    ]
    hits = rank(read_question("which port has staging"), items, count=5)
    assert (hits[0].passage.seq, hits[0].superseded_by) == (7, None)
    assert {one.superseded_by for one in hits[1:]} == {7}
    assert hits[0].supersedes == (1,)
    again = candidate("The staging port is 8443 again, not 9443.", 8, words=0.8)
    marks = {
        one.passage.seq: one.superseded_by
        for one in rank(read_question("which port has staging"), [*items, again], count=5)
    }
    assert marks[9] is None


def test_a_value_that_is_taken_gives_way_to_the_one_to_use_instead() -> None:
    items = [
        candidate("OK starlette. Port 8765.", 1, words=1.0),
        candidate("Port clash: 8765 is taken by the old system. Use 8790.", 7, words=0.9),
    ]
    hits = rank(read_question("which port did we settle on?"), items, count=5)
    assert seqs(hits) == [7, 1]
    assert hits[1].corrected == {7: ("Port 8765.",)}, "starlette stays"


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("OK. Port 8765.", "Port clash: 8765 is taken. Use 8790.", True),
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


@pytest.mark.parametrize(
    "known", [{"corrected": '{"7": ["the api listens on port 8765."]}'}, {"superseded": 7}]
)
def test_what_was_written_down_as_corrected_stands_below_however_well_it_fits(
    known: dict[str, object],
) -> None:
    old = "The API listens on port 8765. The database is Postgres 15. Never log passwords."
    items = [
        candidate(old, 1, words=1.0, **known),
        candidate("No, the port is 8790, not 8765.", 7, words=0.2),
    ]
    hits = rank(read_question("which port does the API listen on"), items, count=5)
    assert hits[0].score < 0.6 * hits[1].score
    assert seqs(hits) == [7, 1]
    assert hits[0].supersedes == (1,)
    assert 7 in (hits[1].superseded_by, *hits[1].corrected)


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


def test_what_was_taken_over_from_another_program_replaces_nothing_that_was_said_here() -> None:
    here = candidate("The jetty opens at 7.", 2, words=1.0)
    later = candidate("No, the jetty opens at 9, not at 7.", 11, words=0.9)
    imported = msgspec.structs.replace(
        later, passage=msgspec.structs.replace(later.passage, imported=True)
    )
    question = read_question("when does the jetty open")
    assert rank(question, [here, later], count=5)[1].superseded_by == 11
    assert {hit.superseded_by for hit in rank(question, [here, imported], count=5)} == {None}


def test_a_line_with_the_same_number_in_another_session_is_not_called_superseded() -> None:
    texts = ("The API port is 8765.", "No, the API port is 8790, not 8765.", "The API has docs.")
    old, new = said(texts[0], 3), said(texts[1], 9)
    beside = said(texts[2], 3, session="agent:default:other", id="o3#0", entry="o3")
    hits = [Hit(passage=one, score=1.0, parts={}, text=one.text) for one in (beside, old, new)]
    marked = {hit.text: hit.superseded_by for hit in arrange(hits)}
    assert marked == {texts[0]: 9, texts[1]: None, texts[2]: None}


def test_a_question_that_only_asks_again_stands_below_what_tells_and_a_quote_below_its_source() -> (
    None
):
    told = "Port clash: 8765 is taken on the harbour machine. Use 8790 for the API."
    model = {"role": "assistant", "speaker": "assistant"}
    items = [
        candidate(told, 3, words=0.6),
        candidate("The lamp is green on every jetty.", 5, words=0.2),
        candidate("Which port does the API use?", 7, words=1.0),
        candidate(f"It is settled. {told} (2 January, line 3)", 8, words=0.9, **model),
    ]
    asked = read_question("which port does the API use?")
    assert seqs(rank(asked, items, count=5)) == [3, 8, 7, 5]
    both, topic = [items[0], items[2]], read_question("port of the API")
    assert seqs(rank(asked, both, count=5)) == [3, 7]
    assert seqs(rank(topic, both, count=5)) == [7, 3], "who asks nothing may look for a question"
    more = candidate(f"{told} The API runs on pelican.", 9, words=0.95, **model)
    assert seqs(rank(asked, [items[0], more], count=5)) == [9, 3], "it says more than its source"
