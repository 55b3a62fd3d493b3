"""An answer of a small model is shown only if its notes can have said it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.providers.local_evidence import bears_out, unnamed_things

NOTES = (
    "The queue runs on Redis, since it was there already.",
    "The meeting moved from Tuesday to Thursday.",
    "Paul feeds the fish at 7 in the morning.",
    "Order 4412 waits for a part.",
    "The green bike has a flat tyre.",
    "The red bike is Tom's.",
    "The staging server has 16 GB of memory.",
    "Chapter three was rejected by the editor.",
    "The tower was built in 1884.",
    "Nobody deploys on Fridays; a deploy takes four minutes.",
    "The cellar is aired every week.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Why does the queue run on Redis?", "Because it was there already."),
        ("On which day is the meeting?", "It is on Thursday."),
        ("Who feeds the fish?", "Paul does."),
        ("Who feeds the fish?", "Paul's job."),
        ("What time does Paul feed the fish?", "At seven."),
        ("When are the fish fed?", "In the morning."),
        ("Is order 4412 late?", "Yes, order 4412 waits for a part."),
        ("Whose is the red bike?", "It is Tom's."),
        ("How much memory does staging have?", "It has 16 GB."),
        ("How much memory does the staging server have?", "It has 16 GB."),
        ("What does order 4412 wait for?", "A part."),
        ("How much RAM does the staging server have?", "It has 16 GB of memory."),
        ("How much memory does the server have?", "16 GB."),
        ("How often is the cellar aired?", "Once a week."),
        ("When is the meeting, on Tuesday?", "On Thursday."),
        ("Why is order 4412 late?", "Order 4412 waits for a part."),
        ("Who turned chapter three down?", "The editor rejected it."),
        ("Tell me about Redis.", "Redis was written by Salvatore in 2009."),
        ("Wann ist die Besprechung?", "Das steht in Kapitel 17 bei Anna."),
    ],
)
def test_what_the_notes_say_is_shown(question: str, answer: str) -> None:
    assert bears_out(NOTES, question, answer)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which version of Redis do we run?", "We run Redis 5.0.1."),
        ("Which version of Redis do we run?", "We run the version that was there already."),
        ("Who chose Redis?", "Ada chose it."),
        ("Who chose Redis?", "It was chosen by Ada."),
        ("Which disk is the queue on?", "The queue is on the disk."),
        ("What time is the meeting?", "The meeting moved to Thursday."),
        ("When will order 4412 be sent?", "Order 4412 waits for a part."),
        ("How many fish are there?", "Paul feeds the fish."),
        ("Whose is the green bike?", "The green bike is Tom's."),
        ("How long did order 4412 wait?", "It waited for 60 days."),
        ("How much memory does the production server have?", "It has 16 GB of memory."),
        ("What does Otto feed?", "He feeds the fish."),
        ("Why was chapter three rejected?", "It was rejected by the editor."),
        ("Who built the tower?", "It was built in 1884."),
        ("How often do we deploy?", "We deploy often."),
        ("How long is the meeting?", "The meeting is in B12."),
        ("Where is the tower?", "The tower is on the first hill."),
        ("Which region is the queue in?", "It is in the region where Redis was already."),
        ("What is the phone number of Paul?", "Paul feeds the fish."),
    ],
)
def test_what_they_cannot_have_said_is_not(question: str, answer: str) -> None:
    assert not bears_out(NOTES, question, answer)


def test_how_often_needs_a_note_that_says_how_often() -> None:
    assert not bears_out(NOTES[:-1], "How often do we deploy?", "Every four minutes.")


@pytest.mark.parametrize(
    ("question", "things"),
    [
        ("Who feeds the cat?", ["the cat"]),
        ("Which language is the scheduler written in?", ["the scheduler"]),
        ("What is the name of our dog?", ["our dog"]),
        ("When is the meeting?", []),
        ("Why was chapter three turned down?", []),
        ("Is the cat fed?", []),
    ],
)
def test_what_a_question_speaks_of_and_no_note_names(question: str, things: list[str]) -> None:
    assert unnamed_things(NOTES, question) == things


@given(st.lists(st.text(max_size=40), max_size=3), st.text(max_size=60), st.text(max_size=80))
def test_no_text_breaks_it(notes: list[str], question: str, answer: str) -> None:
    assert bears_out(notes, question, answer) in (True, False)
    assert all(each.strip() for each in unnamed_things(notes, question))
