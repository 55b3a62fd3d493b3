from __future__ import annotations

import msgspec
import pytest

from mindstone_tui.core.recall.index import SearchResult
from mindstone_tui.core.recall.inject import NO_ROOM, auto_query, choose, fill, queries, render
from mindstone_tui.core.recall.ranking import Hit
from mindstone_tui.core.recall.speak import ASKS_NOTHING, NOTHING_CLOSE, Judgement
from mindstone_tui.core.statements.recogniser import recognise_standing_instruction
from tests.core.recall.talk import said


def hit(text: str, seq: int = 1, score: float = 1.0) -> Hit:
    return Hit(
        passage=said(text, seq), score=score, parts={"words": score}, text=text, supersedes=()
    )


def answer(*hits: Hit, strength: float = 2.0) -> SearchResult:
    judged = Judgement(strength=strength, reason="" if strength >= 1 else NOTHING_CLOSE)
    return SearchResult(query="which port?", hits=hits, judged=judged, vectors=True)


def test_nothing_is_looked_for_when_a_message_asks_for_nothing() -> None:
    assert queries("thanks, go on", ["The port is 8443."]) == ()
    assert choose("thanks, go on", [], 1_000, len, most=5).silent == ASKS_NOTHING


def test_of_a_long_message_the_beginning_and_the_end_are_read() -> None:
    pasted = "ERROR 0x00 at line 1\n" * 5_000
    (query,) = queries(f"Why does Marigold fail?\n{pasted}It did so in July, too.", [])
    assert query.startswith("Why does Marigold fail?")
    assert query.endswith("It did so in July, too.")
    assert len(query) < 10_000
    assert queries("Why does Marigold fail?", []) == ("Why does Marigold fail?",)


def test_an_answer_that_is_not_good_enough_is_not_brought_back() -> None:
    choice = choose("which port?", [answer(hit("8443"), strength=0.9)], 1_000, len, most=5)
    assert (choice.injected, choice.silent) == ((), NOTHING_CLOSE)


def test_only_the_answers_that_have_something_to_say_are_heard() -> None:
    weak, strong = answer(hit("a faint memory", 1, 0.9), strength=0.2), answer(hit("8443", 2, 0.8))
    choice = choose("which port?", [weak, strong], 1_000, len, most=5)
    assert [each.hit.passage.seq for each in choice.injected] == [2]
    assert choice.silent == ""


def test_a_question_that_was_asked_before_is_no_answer() -> None:
    asked_before, told = hit("Which port?", 1, 1.2), hit("It is 8443.", 2)
    choice = choose("which port was it?", [answer(asked_before, told)], 1_000, len, most=5)
    assert [each.hit.passage.seq for each in choice.injected] == [2]


def test_what_does_not_fit_is_said_to_be_too_large() -> None:
    choice = choose("which port?", [answer(hit("8443 " * 99))], 10, len, most=5)
    assert choice.silent == NO_ROOM


def test_no_more_passages_are_brought_back_than_allowed() -> None:
    many = answer(*(hit(f"port {at}", at) for at in range(1, 9)))
    assert len(choose("which port?", [many], 10_000, len, most=3).injected) == 3


def test_a_message_that_leans_on_the_conversation_takes_it_along() -> None:
    exchange = ["npm start fails", "It says EADDRINUSE on port 3000."]
    assert "EADDRINUSE" in auto_query("that error again", exchange)
    assert auto_query("Which database did we choose for the billing service?", exchange) == (
        "Which database did we choose for the billing service?"
    )


def test_recalled_text_stays_within_its_share_and_is_never_cut_to_fit() -> None:
    hits = [hit("word " * 50, 1), hit("word " * 500, 2), hit("short", 3)]
    chosen = fill(hits, 100, lambda text: len(text.split()), "agent:default:main")
    assert [one.hit.passage.seq for one in chosen] == [1, 3]
    assert sum(one.tokens for one in chosen) <= 100


def test_the_heading_of_a_recalled_passage_is_short_and_leads_to_its_source() -> None:
    text = render(hit("The code is 7719.", 42), "agent:default:main")
    heading, _, body = text.partition("\n")
    assert heading == "[#42 · 1 January 2026 · user]"
    assert body == "The code is 7719."


def test_a_passage_from_elsewhere_names_its_session_or_its_file() -> None:
    assert "agent:default:main #1" in render(hit("x"), "agent:default:other")
    memory = said("x", -1, entry="memory/fact_port.md", kind="memory", speaker="memory")
    file = Hit(passage=memory, score=1.0, parts={}, text="x")
    assert render(file).startswith("[memory/fact_port.md · 28 January 2026 · memory]")


def test_a_correction_and_what_it_corrects_are_marked() -> None:
    newer = msgspec.structs.replace(hit("Port 9090.", 7), supersedes=(3,))
    older = msgspec.structs.replace(hit("Port 8080.", 3), superseded_by=7)
    assert "newer than #3" in render(newer)
    assert "superseded by #7" in render(older)


def test_the_call_of_a_tool_is_shown_in_a_few_words() -> None:
    result = said("ok", 4, role="tool", speaker="shell", about="shell shell " + "x" * 300)
    heading = render(Hit(passage=result, score=1.0, parts={}, text="ok"), "agent:default:main")
    assert heading.startswith("[#4 · 1 January 2026 · shell (xxx")
    assert len(heading) < 90


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("From now on, answer in German.", "rule"),
        ("Always run the linter before you commit.", "rule"),
        ("Great. Please never push to main!", "rule"),
        ("You can call me Sam.", "preference"),
        ("I prefer tabs over spaces.", "preference"),
        ("Remember that the demo is on Tuesday.", "memory"),
        ("Stop adding emojis to commit messages.", "rule"),
    ],
)
def test_a_lasting_rule_is_recognised_when_it_is_said(text: str, kind: str) -> None:
    found = recognise_standing_instruction(text)
    assert found is not None
    assert found.kind == kind


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


def test_a_mark_in_the_middle_of_what_was_pasted_is_nobody_s() -> None:
    calm = "09:59 all is well\n" * 200
    log = calm + "10:00 IMPORTANT: the disk is full\n" * 4_000 + calm
    assert recognise_standing_instruction(f"{log}\nWhy?") is None
    found = recognise_standing_instruction(f"IMPORTANT: keep the port.\n{log}")
    assert found is not None
    assert "the port" in found.text


def test_what_a_person_marks_in_capitals_is_offered_too() -> None:
    found = recognise_standing_instruction("Fine. IMPORTANT: the vault opens at nine. Thanks!")
    assert found is not None
    assert (found.text, found.kind) == ("IMPORTANT: the vault opens at nine.", "rule")
    alone = recognise_standing_instruction("The word is basalt. DO_NOT_EVICT")
    assert alone is not None
    assert alone.text == "The word is basalt. DO_NOT_EVICT"
    assert recognise_standing_instruction("It is important to me, I think") is None


def test_an_overdrawn_share_raises_the_threshold_from_the_weak_end() -> None:
    found = [hit("x" * 300, 1, 1.0), hit("x" * 300, 2, 0.7), hit("x" * 9, 3, 0.3)]
    roomy = choose("which port?", [answer(*found)], 2_000, len, most=5)
    assert ([each.hit.passage.seq for each in roomy.injected], roomy.left_out) == ([1, 2, 3], 0)
    tight = choose("which port?", [answer(*found)], 450, len, most=5)
    assert [each.hit.passage.seq for each in tight.injected] == [1], "the faint one slipped in"
    assert tight.left_out == 2


def test_a_raised_threshold_never_parts_a_correction_from_what_it_corrects() -> None:
    corrected = msgspec.structs.replace(hit("x" * 40, 1, 1.0), superseded_by=9)
    correction = msgspec.structs.replace(hit("y" * 40, 9, 0.2), supersedes=(1,))
    found = [correction, corrected, *(hit("z" * 200, at, 0.5) for at in (2, 3))]
    chosen = choose("which port?", [answer(*found)], 300, len, most=5).injected
    assert [each.hit.passage.seq for each in chosen] == [9, 1]
