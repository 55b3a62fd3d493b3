from __future__ import annotations

import base64
import hashlib

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core.language.words import (
    _words_between_blanks,
    _words_of_chunk,
    indexed,
    query_terms,
    root,
    words_of,
)
from mindstone_tui.core.recall.library_file import TOKENIZER


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("getUserById()", {"get", "user", "by", "id", "getuserbyid"}),
        ("XMLHttpRequest", {"xml", "http", "request", "xmlhttprequest"}),
        ("max_retry_count", {"max", "retry", "count", "maxretrycount"}),
        ("src/api.ts:42", {"src", "api", "ts", "42", "apits", "srcapits42"}),
        ("EADDRINUSE", {"eaddrinuse"}),
        ("--dry-run", {"dry", "run", "dryrun"}),
        ("Caroline's", {"caroline"}),
        ("don’t", {"dont"}),
        ("CAFÉ naïve", {"cafe", "naive"}),
        ("東京都", {"東", "東京", "京都"}),
        ("مُحَمَّد", {"محمد"}),
        ("Москве", {"москве"}),
        ("हिन्दी", {"हिन्दी"}),
        ("ΟΔΟΣ οδός", {"οδοσ"}),
        ("ЁЛКА", {"елка"}),
        ("Łódź İzmir ILGAZ ılgaz Øre", {"lodz", "izmir", "ilgaz", "ore"}),
        ("STRASSE Straße", {"strasse"}),
        ("l'eau d'Anna Lizbon'a", {"eau", "anna", "lizbon"}),
        ("الكتاب", {"كتاب"}),
        ("데이터는", {"데이", "이터"}),
        ("バグ ﾊﾞｸﾞ", {"バグ"}),
        ("รหัสผ่าน", {"รหั", "หัส"}),
        ("🎉 done", {"u1f389", "done"}),
        ("v1.2.3", {"v1", "2", "3", "v123"}),
        ("ｆｕｌｌ", {"full"}),
    ],
)
def test_a_word_is_found_whole_and_by_its_parts(text: str, among: set[str]) -> None:
    assert among <= set(words_of(text))


def test_stopwords_are_asked_for_only_when_there_is_nothing_else() -> None:
    assert query_terms("What is the port of the server?") == ["port", "server"]
    assert query_terms("what is it") == ["what", "is", "it"]


@given(st.text())
def test_any_text_can_be_indexed_and_preparing_it_twice_changes_nothing(text: str) -> None:
    once = indexed(text)
    assert "\n" not in once
    assert set(indexed(once).split()) >= set(query_terms(once)) - set("")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
def test_the_quick_way_for_ascii_gives_what_the_general_way_gives(chunk: str) -> None:
    assert indexed(chunk) == " ".join(_words_of_chunk(chunk))


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12))
@example("Жёлтый")
@example("Émile")
@example("الكتابُ")
@example("한국어")
@example("❶x")
@example("Ⅱa")
@example("Ĳa")
@example("ﾵￛ")
def test_the_quick_way_for_letters_gives_what_the_general_way_gives(chunk: str) -> None:
    assert _words_between_blanks(chunk) == " ".join(_words_of_chunk(chunk))


@given(st.lists(st.sampled_from(["getUserById", "it's", "…", "a/b.py:12", "東京都", "Café", "x"])))
def test_what_is_indexed_is_every_word_in_order(chunks: list[str]) -> None:
    text = " ".join(chunks)
    assert indexed(text) == " ".join(words_of(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ข้าว", "ขาว"),  # rice, white
        ("かき", "がき"),  # oyster, brat
        ("дом", "том"),
    ],
)
def test_signs_that_are_part_of_a_word_keep_words_apart(one: str, other: str) -> None:
    assert query_terms(one) != query_terms(other)


def test_small_words_are_left_out_in_their_own_language_only() -> None:
    assert query_terms("Wo ist der Schlüssel für die Wohnung?") == ["schlussel", "wohnung"]
    assert "die" in query_terms("Why did the server die?")


@given(st.text(max_size=40))
def test_the_index_cuts_no_word_that_was_cut_here(text: str) -> None:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer(TOKENIZER[1], list(TOKENIZER[2:]))
    found = tokenizer(
        indexed(text).encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    assert list(found) == list(words_of(text))


def test_line_numbers_before_an_arrow_are_no_words() -> None:
    assert indexed("   12→def start():\n   13→    return 14") == "def start return 14"
    assert "12" in indexed("from 12→13").split()


def test_marks_without_end_between_two_words_are_read_once() -> None:
    """A search for the end from each of them would take hours."""
    assert list(words_of("«é" + "(" * 300_000 + "é»"))[:2] == ["e", "e"]


def test_capitals_begin_no_words_in_base64_but_in_the_longest_names() -> None:
    scrambled = base64.b64encode(hashlib.sha512(b"stones").digest()).decode()
    assert len(indexed(scrambled).split()) <= 8
    assert indexed(scrambled) in indexed(f"the key is {scrambled}, they say")
    name = "tests/Unit2/ConvertsUtf8ToUtf16LittleEndianAndBackAgain/testThatItKeepsEverySurrogate"
    assert {"utf8", "endian", "surrogate"} <= set(indexed(name).split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ver.2東京/京都", "ver 2 東 東京 京 京 京都 都"),
        ("getUserById東京", "get user by id 東 東京 京"),
        ("東・京", "東 京"),
        ("北京,上海", "北 北京 京 上 上海 海"),
        ("l'avion 東京's", "avion lavion 東 東京 京"),
        ("한국어", "한 한국 국 국어 어"),
        ("src/app/東", "src app 東"),  # no whole form: nobody writes one
    ],
)
def test_a_script_without_blanks_gives_characters_and_pairs_beside_other_words(
    text: str, words: str
) -> None:
    assert sorted(indexed(text).split()) == sorted(words.split())


@pytest.mark.parametrize(
    ("word", "shared"), [("carries", "carr"), ("running", "runn"), ("us", "us"), ("boxes", "box")]
)
def test_forms_of_a_word_share_a_root(word: str, shared: str) -> None:
    assert root(word) == shared
