"""Looking tokens up counts exactly as the loaded vocabulary does."""

from __future__ import annotations

import base64
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.core.tokens import (
    _BEYOND,
    LONGEST_PIECE,
    VOCABULARIES,
    TokenCounter,
    Vocabulary,
    open_vocabulary,
)
from tests.core.tokens.test_count import SAMPLES
from tests.core.tokens.vocabularies import PLACE, load_encoding, written

AWKWARD = (
    "It's, IT'S, don'T, we\u2019ll \u017f'\u017f K\u212a",
    " \t \r\n\r\n   x  \x0b\x1c\x85\u2028\u3000 end   ",
    "e\u0301 \u0e01\u0e33 \u1112\u1161\u11ab Ⅳ ½ ٣٤٥ 一二三" * 3,
    "<|endoftext|> /* --- */ ====== ~~~~ \\u00e9",
    "a" * LONGEST_PIECE,
)


def looked_up(name: str) -> Vocabulary:
    found = open_vocabulary(name)
    assert found is not None
    return found


def loaded(name: str, text: str) -> int:
    return len(load_encoding(name).encode_ordinary(text))


@pytest.mark.parametrize("name", VOCABULARIES)
def test_samples_count_as_tiktoken_counts_them(name: str) -> None:
    texts = [text[:240] for text in SAMPLES.values()]
    for text in (*texts, *AWKWARD, Path(__file__).read_text()):
        assert looked_up(name).count(text) == loaded(name, text), text


@given(st.text(max_size=200))
def test_any_text_counts_as_tiktoken_counts_it(text: str) -> None:
    fresh = sum(unicodedata.category(each) == "Cn" for each in text)  # classed by newer tables
    for name in VOCABULARIES:
        assert abs(looked_up(name).count(text) - loaded(name, text)) <= fresh


def test_marks_that_need_no_tables_are_no_letter_number_or_space() -> None:
    plain_marks = [chr(code) for code in range(0x80, 0x110000) if not _BEYOND.search(chr(code))]
    assert "…" in plain_marks
    assert "é" not in plain_marks
    assert not [each for each in plain_marks if unicodedata.category(each)[0] in "LMNZC"]


@given(
    st.text(st.sampled_from("aZbY09 \t\n\r\x0b\x0c\x1c\x7f'sSdDtTlLeEvVrRmM/.,_…→×"), max_size=60)
)
def test_plain_texts_are_split_without_tables_as_they_are_with_them(text: str) -> None:
    for name in VOCABULARIES:
        vocabulary = looked_up(name)
        assert vocabulary._split_plain(text) == vocabulary._split_any(text)


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("run", ["a", "xYz", "=-", "7", "é", "\ud800", "qwertyuiop"])
def test_a_run_without_end_is_counted_in_stretches_and_never_low(name: str, run: str) -> None:
    text = run * (220_000 // len(run))
    exact = loaded(name, text[:110_000]) + loaded(name, text[110_000:])
    assert exact - 2 <= looked_up(name).count(text) <= exact * 1.02 + 2


def test_the_shipped_file_is_what_tiktoken_has() -> None:
    encoding = load_encoding("cl100k_base")
    made = written(encoding._pat_str, encoding._mergeable_ranks)
    assert made == (PLACE / "cl100k_base.bpe").read_bytes()


def test_another_file_is_no_vocabulary(tmp_path: Path) -> None:
    other = tmp_path / "other.bpe"
    other.write_bytes(b"x" * 64)
    with pytest.raises(ValueError, match=r"other\.bpe"):
        Vocabulary(other)


ENDS = st.sampled_from(
    ["a b", " x", "\n", ";\n", "//", "1,2", "\t", "end.", "é", "it's", "aB", "x1y", "! ?", "12345"]
)


@pytest.mark.thorough
@settings(max_examples=10, deadline=None)
@given(st.lists(ENDS, max_size=9))
def test_a_long_text_counts_the_same_in_parts(pieces: list[str]) -> None:
    text = "".join(f"line {number}{''.join(pieces)}" for number in range(16_000))
    for name in VOCABULARIES:
        assert looked_up(name).count(text) == loaded(name, text)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_text_of_pieces_that_were_never_met_counts_as_tiktoken_counts_it(name: str) -> None:
    text = base64.encodebytes(random.Random(7).randbytes(60_000)).decode()
    assert looked_up(name).count(text) == loaded(name, text)


STRANGE = {
    "punctuation": "".join(random.Random(7).choices("!#$%&()*+,-./:;<=>?@[]^_{|}~", k=400_000)),
    "letters": "".join(random.Random(7).choices("abcdefghijklmnop", k=400_000)),
    "base64": base64.b64encode(random.Random(7).randbytes(900_000)).decode(),
    "script": "".join(map(chr, random.Random(7).choices(range(0x4E00, 0x9FA5), k=300_000))),
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_megabytes_that_no_vocabulary_knows_are_counted_by_stretches(text: str) -> None:
    """Each sign of them takes long, and loading a vocabulary would hold up every thread."""
    counter = TokenCounter("gpt-4o")
    told = counter.text(text)
    exact = sum(
        loaded(counter.encoding, text[at : at + 50_000]) for at in range(0, len(text), 50_000)
    )
    assert abs(told - exact) <= 0.03 * exact
    assert TokenCounter("gpt-4o").text(text) == told  # whatever was counted before


def test_words_of_another_alphabet_that_were_never_met_are_counted_by_stretches() -> None:
    chance = random.Random(7)
    text = " ".join("".join(chance.choices("абвгдежзиклмнопрст", k=7)) for _ in range(60_000))
    counter = TokenCounter("gpt-4o")
    told, exact = counter.text(text), looked_up(counter.encoding).count(text)
    assert told != exact
    assert abs(told - exact) <= 0.01 * exact


@pytest.mark.thorough
def test_no_message_is_a_reason_to_load_a_vocabulary() -> None:
    program = (
        "import base64, random, sys\n"
        "from mindstone_tui.core.tokens import counter_for\n"
        "count, chance = counter_for('gpt-4o').text, random.Random(7)\n"
        "count(base64.b64encode(chance.randbytes(750_000)).decode())\n"
        "count(''.join(chance.choices('!#$%&()*+,-./', k=500_000)))\n"
        "print('tiktoken' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")  # it would hold up every thread
