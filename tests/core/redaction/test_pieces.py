"""A text that comes in pieces is shown as if it had come at once."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.redaction import Redacted, RedactedPieces, Redactor
from tests.core.redaction.specimens import INNOCENT, PLACES, SAMPLES, made
from tests.corpora import FULL

REDACTOR = Redactor({"KNOWN": "known value of two lines\nand words"})


def fed(pieces: Iterable[str], redactor: Redactor = REDACTOR) -> Redacted:
    """What a stream of these pieces gives out in the end."""
    stream = RedactedPieces(redactor)
    shown = [*(stream.feed(piece) for piece in pieces), stream.end()]
    found = tuple(finding for each in shown for finding in each.found)
    return Redacted("".join(each.text for each in shown), found)


def test_a_secret_is_blacked_out_wherever_a_stream_cuts_it() -> None:
    places = list(PLACES.values())
    for number, (_, template) in enumerate(SAMPLES):
        for put in places if FULL else (places[number % len(places)],):
            text = put(made(template, number)[0])
            whole = REDACTOR.redact(text)
            step = 1 if FULL else max(len(text) // 9, 1)
            for cut in range(number % step, len(text), step):
                assert fed((text[:cut], text[cut:])) == whole, (template, cut)


def test_a_secret_is_blacked_out_when_it_comes_letter_by_letter() -> None:
    places = list(PLACES.values())
    dice = random.Random(1)
    for template in dice.sample(
        [template for _, template in SAMPLES], len(SAMPLES) if FULL else 60
    ):
        text = dice.choice(places)(made(template, 7)[0])
        assert fed(text) == REDACTOR.redact(text), template


FRAGMENTS = st.sampled_from(
    [made(template, number)[0] for number, (_, template) in enumerate(SAMPLES)]
    + [made(template, number)[0] for number, template in enumerate(INNOCENT)]
    + ["known value of two lines\nand words", " ", "\n", "Done.\n", "......", "\r 45 %"]
)


@given(
    st.lists(st.one_of(FRAGMENTS, st.sampled_from((" ", "\n"))), max_size=8).map("\n".join),
    st.lists(st.integers(0, 2000), max_size=6),
)
def test_lines_of_secrets_and_others_are_shown_the_same_however_they_are_cut(
    text: str, cuts: list[int]
) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert fed(pieces) == REDACTOR.redact(text)


def test_what_cannot_become_a_secret_is_shown_at_once() -> None:
    stream = RedactedPieces(Redactor())
    assert (
        stream.feed("Compiling 45 crates\nwarning: unused ").text
        == "Compiling 45 crates\nwarning: unused "
    )
    assert stream.feed("import\n").text == "import\n"
    assert stream.feed("password").text == ""
    assert stream.feed(" prompt\nnext line\n").text == "password prompt\nnext line\n"


def test_a_text_without_an_end_is_not_held_back_for_ever() -> None:
    stream = RedactedPieces(Redactor())
    shown = sum(len(stream.feed("ab1" * 1000).text) for _ in range(100))
    assert shown > 250_000


def test_a_secret_without_an_end_is_blacked_out_and_not_held_back_for_ever() -> None:
    stream = RedactedPieces(Redactor())
    dice = random.Random(3)
    pieces = ["token=", *("".join(dice.choices("abcXYZ0189", k=1000)) for _ in range(60))]
    shown = [stream.feed(piece).text for piece in pieces]
    assert "[redacted:secret:" in "".join(shown)
    assert pieces[1] not in "".join(shown)
    assert pieces[20] not in "".join(shown)
