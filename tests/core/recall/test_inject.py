from __future__ import annotations

import pytest

from mindstone_tui.core.recall.inject import auto_query, fill, is_trivial, render
from mindstone_tui.core.recall.passages import LONGEST_EXCERPT, excerpt
from mindstone_tui.core.recall.ranking import Hit
from mindstone_tui.core.recall.standing_instructions import recognise_standing_instruction
from tests.core.recall.talk import said


def hit(text: str, seq: int = 1, score: float = 1.0) -> Hit:
    return Hit(
        passage=said(text, seq), score=score, parts={"words": score}, text=text, supersedes=()
    )


@pytest.mark.parametrize(
    "message", ["ok", "Thanks!", "yes please", "/context", "go on", "👍", "  ", "!ls", "do it"]
)
def test_small_talk_and_commands_ask_for_nothing(message: str) -> None:
    assert is_trivial(message)


@pytest.mark.parametrize("message", ["why does the build fail", "ok, but which port?", "東京は？"])
def test_a_real_message_is_not_trivial(message: str) -> None:
    assert not is_trivial(message)


def test_a_message_that_leans_on_the_conversation_takes_it_along() -> None:
    exchange = ["npm start fails", "It says EADDRINUSE on port 3000."]
    assert "EADDRINUSE" in auto_query("that error again", exchange)
    assert auto_query("Which database did we choose for the billing service?", exchange) == (
        "Which database did we choose for the billing service?"
    )


def test_recalled_text_stays_within_its_share_and_is_never_cut_to_fit() -> None:
    hits = [hit("word " * 50, 1), hit("word " * 500, 2), hit("short", 3)]
    chosen = fill(hits, 100, lambda text: len(text.split()))
    assert [one.hit.passage.seq for one in chosen] == [1, 3]
    assert sum(one.tokens for one in chosen) <= 100


def test_nothing_is_injected_below_the_floor() -> None:
    assert fill([hit("faint", score=0.1)], 1_000, len) == []


def test_a_recalled_passage_names_its_source_date_and_speaker() -> None:
    text = render(hit("The code is 7719."))
    assert "agent:default:main #1" in text
    assert "1 January 2026" in text
    assert "user" in text
    assert text.endswith("The code is 7719.")


def test_an_excerpt_holds_the_part_that_matches() -> None:
    text = f"{'Nothing here. ' * 80}The valve is behind the blue door. {'Nor here. ' * 80}"
    cut = excerpt(text, ["valve", "door"])
    assert "behind the blue door" in cut
    assert len(cut) <= LONGEST_EXCERPT + 4
    assert cut.startswith("… ")
    assert cut.endswith(" …")


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("From now on, answer in German.", "from now on"),
        ("Always run the linter before you commit.", "always"),
        ("Great. Please never push to main!", "never"),
        ("You can call me Sam.", "call me"),
        ("I prefer tabs over spaces.", "I prefer"),
        ("Remember that the demo is on Tuesday.", "remember"),
        ("Stop adding emojis to commit messages.", "rule"),
    ],
)
def test_a_lasting_rule_is_recognised_when_it_is_said(text: str, cue: str) -> None:
    found = recognise_standing_instruction(text)
    assert found is not None
    assert found.cue == cue


@pytest.mark.parametrize(
    "text",
    [
        "Why does it always fail?",
        "I have never seen this error.",
        "It has always been slow.",
        "Never mind.",
        "Call me when it is done.",
        "Do you remember the port?",
        "The test failed again.",
    ],
)
def test_a_passing_remark_is_not_a_rule(text: str) -> None:
    assert recognise_standing_instruction(text) is None


def test_what_a_person_marks_in_capitals_is_offered_too() -> None:
    found = recognise_standing_instruction("Fine. IMPORTANT: the vault opens at nine. Thanks!")
    assert found is not None
    assert (found.text, found.cue) == ("IMPORTANT: the vault opens at nine.", "IMPORTANT")
    alone = recognise_standing_instruction("The word is basalt. DO_NOT_EVICT")
    assert alone is not None
    assert alone.text == "The word is basalt. DO_NOT_EVICT"
    assert recognise_standing_instruction("It is important to me, I think") is None
