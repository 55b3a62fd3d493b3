"""One way to cut a text into sentences: nothing is lost, nothing is torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.language.intent import as_statement
from mindstone_tui.core.language.sentences import pieces, prose, sentences, shortened

BITS = [
    *(
        "Use tabs.",
        "e.g. this",
        "Dr. Who",
        "No. 5",
        "J. R. R. Tolkien",
        "v1.2.3",
        "3.14",
        "main.py",
    ),
    *("https://x.org/a.b?c=1.", "`a. b`", "…", "...", "?!", ".", "”", "*", "_", "\t", "  ", " "),
    *("- item one", "1. first", "a) b", "[x] ", "> said", "|a|b|", "# Title", "```\n", "~~~"),
    *("\n", "\n\n", "\r\n", "\u2028", "\ud800", "\x00", "e\u0301", "👩\u200d👧"),
    *("本当。", "क्या।", "هل؟", "a line that is long enough to be wrapped by an editor and"),
]
texts = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from(BITS), max_size=40).map("".join),
    st.lists(st.sampled_from(BITS), max_size=40).map(" ".join),
)


def _said(text: str) -> list[str]:
    return [one.text for one in sentences(text)]


@given(texts)
def test_no_character_is_lost(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert all(pieces(text))


@given(texts)
def test_sentences_are_slices_in_their_order(text: str) -> None:
    end = 0
    for one in sentences(text):
        assert one.start >= end
        assert text[one.start : one.end] == one.text
        assert one.text == one.text.strip()
        end = one.end


@given(texts)
def test_every_word_outside_markers_is_in_a_sentence(text: str) -> None:
    inside = "".join(one.text for one in sentences(text))
    for piece in pieces(text):
        words = [word for word in piece.split() if word.isalpha() and len(word) > 2]
        assert all(word in inside for word in words)


@given(texts, st.integers(0, 50))
def test_a_shortened_sentence_is_short_and_says_that_it_was_cut(text: str, longest: int) -> None:
    cut = shortened(text, longest)
    assert cut == text or (len(cut) <= max(longest, 1) and cut.endswith("…"))


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Use tabs. Never spaces!", ["Use tabs.", "Never spaces!"]),
        ("Is it done? Yes.", ["Is it done?", "Yes."]),
        ("Open main.py. Then run it.", ["Open main.py.", "Then run it."]),
        ("See https://example.org/a.b?c=d. It says so.", None),
        ("Pi is 3.14159 and e is 2.718. Fine.", None),
        ("Version 2.0.1 is out. Upgrade.", ["Version 2.0.1 is out.", "Upgrade."]),
        ("Use linters, e.g. Ruff, i.e. fast ones. Good.", None),
        ("Ask Dr. Byron. She knows.", ["Ask Dr. Byron.", "She knows."]),
        ("J. R. R. Tolkien wrote it. I read it.", None),
        ("Tabs, spaces, etc. The rest is free.", ["Tabs, spaces, etc.", "The rest is free."]),
        ("Run `git log. Then` twice. Done.", ["Run `git log. Then` twice.", "Done."]),
        ('He said "Stop!" and left. Good.', ['He said "Stop!" and left.', "Good."]),
        ("Well... maybe not. Yes.", ["Well... maybe not.", "Yes."]),
        ("(Use tabs.) Not spaces.", ["(Use tabs.)", "Not spaces."]),
        ("ペンです。何ですか？はい。", ["ペンです。", "何ですか？", "はい。"]),
        ("यह किताब है। वह कलम है।", ["यह किताब है।", "वह कलम है।"]),
        ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
        ("Bitte z.B. Ruff nehmen. Danke.", ["Bitte z.B. Ruff nehmen.", "Danke."]),
    ],
)  # fmt: skip
def test_only_an_end_ends_a_sentence(text: str, cut: list[str] | None) -> None:
    assert _said(text) == cut if cut is not None else len(_said(text)) == 2


def test_a_list_item_begins_a_sentence_and_loses_its_marker() -> None:
    assert _said("Rules:\n- use tabs\n* no spaces\n1. test first\n2) then push\n- [ ] review") == [
        "Rules:",
        "use tabs",
        "no spaces",
        "test first",
        "then push",
        "review",
    ]


def test_a_line_that_was_only_wrapped_goes_on() -> None:
    wrapped = "Please keep every public function of this package documented\nin plain English."
    assert _said(wrapped) == [wrapped]
    assert _said("Use tabs\nand be brief") == ["Use tabs", "and be brief"]


def test_a_code_block_stays_whole_and_nobody_said_it() -> None:
    text = "Run this:\n```sh\nmake. Now!\n\nmake test.\n```\nNever skip it.\n> quoted. Twice.\n"
    forms = [(one.form, one.text) for one in sentences(text)]
    assert ("code", "```sh\nmake. Now!\n\nmake test.\n```") in forms
    assert [one.text for one in prose(text)] == ["Run this:", "Never skip it."]


def test_an_unclosed_code_block_swallows_only_what_follows_it() -> None:
    assert [one.text for one in prose("Never push.\n```\nuse x. use y.\n")] == ["Never push."]


def test_headings_and_tables_are_told_apart() -> None:
    text = "# House rules\n| a. b | c |\n|---|---|\nText."
    assert [(one.form, one.text) for one in sentences(text)] == [
        ("heading", "House rules"),
        ("table", "a. b | c |"),
        ("prose", "Text."),
    ]


@pytest.mark.parametrize("text", ["", " \n\t", "...", "---", "```", "> ", "🙂"])
def test_what_holds_no_word_has_no_sentence(text: str) -> None:
    assert not prose(text)
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    "unit", ["a.", "`", "> ", "- ", "(", ". ", "a", "word ", "```\n", "。", "\n", "|", "a. b. "]
)
def test_endless_input_is_cut_in_one_pass(unit: str) -> None:
    text = unit * 20_000
    assert "".join(pieces(text)) == text


def test_a_row_of_backticks_is_looked_at_once() -> None:
    text = f"a {'`' * 400_000} b."
    assert "".join(pieces(text)) == text


def test_a_question_becomes_a_statement_however_many_marks_are_in_it() -> None:
    assert as_statement("Which port, then (if any?) ?!") == "Which port, then (if any."
    assert as_statement(f"{'?' * 400_000} Which port?") == "Which port."
    assert as_statement("Which port? This one") == "Which port  This one"
