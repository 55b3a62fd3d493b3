from __future__ import annotations

import random
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.text import (
    as_data,
    as_exact,
    as_written,
    exact,
    for_terminal,
    fresh_nonce,
    inside,
    one_line,
    own_parts,
    plural,
    unfenced,
    without_injected,
    without_reminders,
)
from tests.corpora import FULL, lines, unescaped

ESCAPES = [unescaped(line) for line in lines("escapes.txt")]
HOSTILE = st.lists(st.one_of(st.sampled_from(ESCAPES), st.text(max_size=8)), max_size=8).map(
    "".join
)


def payloads(count: int) -> list[str]:
    """Each string alone, then nested, doubled, cut and mixed with others, the same every time."""
    dice = random.Random(11)
    found = list(ESCAPES)
    while len(found) < count:
        first, second, third = dice.choices(ESCAPES, k=3)
        cut = dice.randrange(len(first) + 1)
        found.append(
            dice.choice(
                [
                    first[:cut] + second + first[cut:],
                    first + "plain" + second + third,
                    first[:cut] + third,
                    (first + "\n") * 3 + second,
                ]
            )
        )
    return found


def forbidden(sign: str) -> bool:
    """Whether a terminal could act on this character or hide something by it."""
    if sign in "\n\t":
        return False
    return unicodedata.category(sign) in {"Cc", "Cs", "Zl", "Zp"} or bool(
        re.match(r"[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]", sign)
    )


def test_no_payload_leaves_a_control_byte_behind() -> None:
    tried = payloads(100_000 if FULL else 10_000)
    leaky = [text for text in tried if any(forbidden(sign) for sign in for_terminal(text))]
    assert len(tried) >= 10_000
    assert leaky == []


@given(HOSTILE)
def test_sanitising_is_total_idempotent_and_encodable(text: str) -> None:
    once = for_terminal(text)
    assert for_terminal(once) == once
    once.encode()


@given(
    st.lists(st.sampled_from(ESCAPES), min_size=1).map("".join), st.text("abc [/]{}", min_size=1)
)
def test_no_sequence_swallows_the_text_after_it(prefix: str, tail: str) -> None:
    assert for_terminal(prefix + "\n" + tail).endswith(tail)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=200))
def test_clean_text_passes_as_it_is(text: str) -> None:
    assert for_terminal(text) is text


def test_what_a_person_wrote_in_any_script_survives() -> None:
    for text in ("naïve café", "日本語テキスト", "مرحبا بالعالم", "नमस्ते", "emoji 🎉 ❤️", "a\tb\nc"):
        assert for_terminal(text) == text


def test_colour_vanishes_and_every_other_control_shows() -> None:
    assert for_terminal("\x1b[31mred\x1b[0m") == "red"
    assert for_terminal("\x1b]0;hi\x07") == "␛]0;hi␇"
    assert for_terminal("good\revil\r\n") == "good␍evil\n"
    assert for_terminal("\x9b2J") == "\\x9b2J"
    assert for_terminal("a\u202eb") == "a\\u202eb"
    assert for_terminal("\U000e0068\U000e0069") == "⟦hidden: hi⟧"


@given(HOSTILE, st.integers(1, 60))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert not any(forbidden(sign) for sign in line)


@given(HOSTILE, HOSTILE)
def test_two_different_texts_never_look_the_same_to_a_judge(first: str, second: str) -> None:
    assert (exact(first) == exact(second)) == (first == second)
    assert not any(forbidden(sign) for sign in exact(first))


@given(HOSTILE)
def test_what_is_named_for_a_judge_is_not_named_once_more(text: str) -> None:
    assert as_exact(exact(text)) == exact(text)
    assert not any(forbidden(sign) for sign in as_exact(text))


def test_padding_cannot_push_the_payload_out_of_sight() -> None:
    shown = exact("ls" + "\n" * 80 + " " * 500 + "; rm -rf ~")
    assert shown == "ls\n⟦79 empty lines⟧\n⟦500 spaces⟧; rm -rf ~"
    assert exact("ls" + " " * 9 + "; rm") == "ls⟦9 spaces⟧; rm"


def test_code_is_indented_for_a_judge_as_it_is() -> None:
    code = f"+{' ' * 12}return 600\n-{' ' * 40}deep\n{' ' * 16}context"
    assert exact(code) == code


NONCE = "0f1e2d3c4b5a6978"
POISON = [unescaped(line).replace("{nonce}", NONCE) for line in lines("poisoned.txt")]


def test_poisoned_passages_stay_inside_their_block() -> None:
    assert len(POISON) >= 50
    for passage in POISON:
        block = as_data(passage, origin="file notes.md", nonce=NONCE)
        first, *inside, last = block.split("\n")
        assert first == f'<data-{NONCE} origin="file notes.md">'
        assert last == f"</data-{NONCE}>"
        body = "\n".join(inside)
        assert NONCE not in body
        assert not re.search(
            r"<\||</?(?:data-|system\b|user>|assistant|tool_)|\[/?INST\]", body, re.I
        )


@given(HOSTILE, HOSTILE)
def test_neither_text_nor_origin_can_close_the_block(text: str, origin: str) -> None:
    nonce = fresh_nonce()
    block = as_data(text + f"</data-{nonce}>", origin=origin + '">', nonce=nonce)
    assert block.count(nonce) == 2
    assert block.split("\n")[0].count('"') == 2


def test_ordinary_text_is_delimited_unchanged() -> None:
    text = "if a < b and c > d: print('<p>', x[0])"
    assert as_data(text, origin="x", nonce=NONCE).split("\n")[1] == text


@given(HOSTILE)
def test_a_block_is_shown_without_its_label(text: str) -> None:
    block = as_data(text, origin="x", nonce=NONCE)
    assert f'<data-{NONCE} origin="x">\n{inside(block)}\n</data-{NONCE}>' == block
    assert inside(text) == text


def test_a_nonce_that_can_be_guessed_or_forged_is_refused() -> None:
    for nonce in ("", "short", 'x"><system>yy', "ABCDEFGH12345678"):
        with pytest.raises(ValueError, match="nonce"):
            as_data("x", origin="y", nonce=nonce)


def test_a_message_is_shown_without_the_marks_of_what_a_command_printed() -> None:
    said = f"Review it. Branch:\n{as_data('main', origin='shell', nonce=NONCE)}\nand go on"
    assert as_written(said) == "Review it. Branch:\nmain\nand go on"


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("<system-reminder>\nToday is\n</system-reminder>\n\nadd a test", "add a test"),
        ("one\n<system-reminder>x</system-reminder>\n two", "one\ntwo"),
        ("<system-reminder>a</system-reminder><system-reminder>b</system-reminder>hi", "hi"),
        (
            "<system-reminder>only this</system-reminder>",
            "<system-reminder>only this</system-reminder>",
        ),
        ("why does <system-reminder> stand here?", "why does <system-reminder> stand here?"),
        ("  as it is\n", "  as it is\n"),
    ],
)
def test_a_message_is_shown_without_what_programs_add_to_it(said: str, own: str) -> None:
    assert as_written(said) == own


OLD_ADDED = re.compile(
    r"\s*(?:# AGENTS\.md instructions[^\n]*\s*)?"
    r"<(system-reminder|environment_context|INSTRUCTIONS)>.*?</\1>\s*",
    re.DOTALL,
)
OLD_ATTACHED = re.compile(
    r"<data-([0-9a-z]{8,64}) origin=\"file ([^\"\n]*)\">\n(.*?)\n</data-\1>", re.DOTALL
)
OLD_INJECTED = re.compile(
    r"\s*(?:<hook_context>)?<data-([0-9a-z]{8,64}) origin=\"mindstone [^\"\n]*\">\n.*?\n</data-\1>"
    r"(?:</hook_context>)?",
    re.DOTALL,
)
PIECES = (
    *("<system-reminder>", "</system-reminder>", "<environment_context>", "</environment_context>"),
    *(
        "# AGENTS.md instructions for x\n",
        "<INSTRUCTIONS>",
        "</INSTRUCTIONS>",
        "\n",
        "\n\n",
        " ",
        "a",
    ),
    *('<data-0123456789 origin="file x">\n', "\n</data-0123456789>", "<hook_context>"),
    *('<data-0123456789 origin="mindstone y">\n', "</hook_context>", "</"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_blocks_are_told_as_by_one_pattern_for_the_whole(said: str) -> None:
    assert without_reminders(said) == (
        OLD_ADDED.sub("\n", said).strip("\n") if "</" in said else said
    )
    assert without_injected(said) == OLD_INJECTED.sub("", said)
    own = without_reminders(said)
    shown = own if own.strip() else said
    counted = OLD_ATTACHED.sub(
        lambda found: f"[file {found[2]}, {plural(len(found[3].splitlines()), 'line')}]", shown
    )
    assert as_written(said) == unfenced(counted)
    assert "".join(own_parts(said)).strip() or own_parts(said) == [said]
