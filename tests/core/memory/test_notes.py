"""Notes stand alone, come by priority, and fit their room with their headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.memory.notes import (
    CATEGORIES,
    Note,
    cold_start,
    notes_of,
    parse,
    render,
    write,
)
from mindstone_tui.core.memory.notes import take as take_note
from tests.builders import places_in, transcript_in
from tests.core.context.fake_models import words


@pytest.mark.parametrize(
    "text",
    ["", "done", "It works now after the change.", "As discussed, use the other one.",
     "Same as before but for ports.", "Use what you said in the previous message.", "x " * 600],
)  # fmt: skip
def test_a_note_that_means_nothing_to_a_stranger_is_not_taken(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        take_note("misc", text)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "text", ["src/io.py closes the socket twice.", "This project uses tabs in every Makefile."]
)
def test_a_note_that_stands_alone_is_taken(text: str) -> None:
    assert take_note("bugs", text).text == text
    assert cold_start(text) == ""


def test_a_category_nobody_knows_is_kept_by_name_and_a_near_one_is_understood() -> None:
    assert take_note("Decision", "Use apsw for the index.").category == "decisions"
    odd = take_note("weather", "The build machine overheats at noon.")
    assert odd.category == "misc"
    assert odd.text == "(weather) The build machine overheats at noon."
    assert take_note("misc", "Use apsw for it all.", "enormous").importance == "normal"


NOTES = [
    Note(category="misc", text="Plain note number one here.", importance="normal", seq=1),
    Note(category="bugs", text="High bug in src/io.py here.", importance="high", seq=2),
    Note(category="decisions", text="Critical decision to use apsw.", importance="critical", seq=3),
]


def test_critical_notes_come_first_when_few_fit_and_the_rest_are_counted() -> None:
    text = render(NOTES, words, 16)
    assert "Critical decision" in text
    assert "High bug" not in text
    assert "(2 more notes: /notes)" in text
    assert words(text) <= 16
    assert "High bug" in render(NOTES, words, 25)
    assert "Plain note" not in render(NOTES, words, 25)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*CATEGORIES, "odd"]),
            st.sampled_from(["critical", "high", "normal"]),
            st.integers(3, 30),
        ),
        max_size=20,
    ),
    st.integers(0, 200),
)
def test_rendered_notes_never_exceed_their_limit(
    made: list[tuple[str, str, int]], budget: int
) -> None:
    notes = [
        Note(category=category, text="word " * size, importance=importance, seq=n)  # type: ignore[arg-type]
        for n, (category, importance, size) in enumerate(made)
    ]
    assert words(render(notes, words, budget)) <= budget
    whole = render(notes, words, 10_000)
    assert whole.count("\n- ") + whole.startswith("- ") == len(notes)


def test_notes_live_in_history_and_in_a_file(home: Path) -> None:
    transcript = transcript_in(home)
    transcript.append(take_note("bugs", "src/io.py closes the socket twice."), turn=1)
    transcript.append(take_note("bugs", "src/io.py closes the socket twice."), turn=2)
    transcript.append(take_note("todo", "Cover the 512 KB limit."), turn=2)
    with transcript.history() as history:
        notes = notes_of(line for line in history.read() if isinstance(line, Line))
    transcript.close()
    assert [(note.turn, note.category) for note in notes] == [(2, "bugs"), (2, "task_progress")]
    places = places_in(home)
    write(places, notes)
    text = places.notes.read_text()
    assert text.index("## task_progress") < text.index("## bugs")
    assert "Cover the 512 KB limit. (turn 2)" in text


def test_a_models_notes_are_read_line_by_line() -> None:
    found = parse("bugs | high | src/io.py leaks one socket.\nchatter\nmisc | normal | it is\n")
    assert [(note.category, note.importance) for note in found] == [("bugs", "high")]
