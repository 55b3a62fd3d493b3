"""Looking tokens up counts exactly as the loaded vocabulary does."""

from __future__ import annotations

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
    load_encoding,
    open_vocabulary,
    written,
)
from tests.core.tokens.test_count import SAMPLES

PLACE = Path(__file__).parents[3] / "mindstone_tui" / "core" / "tokens" / "vocabularies"
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
    encoding = load_encoding(name)
    assert encoding is not None
    return len(encoding.encode_ordinary(text))


@pytest.mark.parametrize("name", VOCABULARIES)
def test_samples_count_as_tiktoken_counts_them(name: str) -> None:
    texts = [text[:240] for text in SAMPLES.values()]
    for text in (*texts, *AWKWARD, Path(__file__).read_text()):
        assert looked_up(name).count(text) == loaded(name, text), text


@given(st.text(max_size=200))
def test_any_text_counts_as_tiktoken_counts_it_or_is_left_to_it(text: str) -> None:
    for name in VOCABULARIES:
        count = looked_up(name).count(text)
        assert count in (None, loaded(name, text))
        assert count is not None or not text.isascii()


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


@pytest.mark.parametrize("text", ["\ud800 alone", "\U000e0080", "a" * (LONGEST_PIECE + 1)])
def test_what_cannot_be_looked_up_is_counted_nevertheless(text: str) -> None:
    assert looked_up("o200k_base").count(text) is None
    assert TokenCounter("gpt-4o").text(text) == loaded("o200k_base", text)


def test_after_megabytes_the_count_stays_the_same() -> None:
    counter = TokenCounter("gpt-4o")
    text = SAMPLES["prose"]
    before = counter.text(text)
    counter.text(" " * 3_000_000)
    assert counter.text(text) == before == loaded("o200k_base", text)


def test_the_shipped_file_is_what_tiktoken_has() -> None:
    encoding = load_encoding("cl100k_base")
    assert encoding is not None
    made = written(encoding._pat_str, encoding._mergeable_ranks)
    assert made == (PLACE / "cl100k_base.bpe").read_bytes()


def test_another_file_is_no_vocabulary(tmp_path: Path) -> None:
    other = tmp_path / "other.bpe"
    other.write_bytes(b"x" * 64)
    with pytest.raises(ValueError, match=r"other\.bpe"):
        Vocabulary(other)


ENDS = st.sampled_from(["a b", " x", "\n", ";\n", "//", "1,2", "\t", "end.", "é"])


@settings(max_examples=15, deadline=None)
@given(st.lists(ENDS, max_size=9))
def test_a_long_text_counts_the_same_in_parts(pieces: list[str]) -> None:
    text = "".join(f"line {number}{''.join(pieces)}\n" for number in range(9_000))
    for name in VOCABULARIES:
        assert looked_up(name).count(text) == loaded(name, text)
