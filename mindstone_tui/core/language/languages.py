"""Which language a text is in, told by its script and its small words. Pure, and quick enough to be
asked for every passage.

The answer decides which model compares meanings and which words are too common to look for, so it
is cautious: a text is English, or code, until something says otherwise. A name with an accent, a
quoted word or a greeting in an English sentence does not.
"""

from collections import Counter
from functools import cache
from typing import Final

import msgspec

from mindstone_tui.core.language.lists import lists_of
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text_cache import remembers

ENGLISH: Final = "en"
UNKNOWN: Final = "und"
"""A script that is not told apart here."""

_READ: Final = 1_200
"""Characters that are looked at."""
_SCRIPT_SHARE: Final = 0.3
"""The share of a text that another script must have for the text to be in it."""
_DENSE_LETTERS: Final = 3
"""A character of Chinese, Japanese or Korean says as much as this many letters."""
_IN_WORDS: Final = 5
"""One letter of so many must be in a word for a text to be in any language."""
_ONE_TELLS: Final = 8
"""One word of so many tells the language, and more do in any real text: by chance it is a few."""
_FEW_WORDS: Final = 14
"""In a text this short, with no English word in it, one telling word is enough."""

_ALIKE: Final = "also English"
"""The list of words that tell nothing, because English and code write them alike."""
_OTHER_ALPHABETS: Final = ("ru", "uk", "el", "ar")
_ENGLISH_ALONE: Final = (" the ", " and ", " this ", " that ", " with ", " you ", " are ", " not ")
"""Words that no other language has which is written without accents."""
_LETTERS_ALONE: Final = bytes(sign if 97 <= sign <= 122 else 32 for sign in range(256))
"""Makes blanks of everything but small letters."""

_TABLES: Final = lists_of("languages")
_HINTS: Final = tuple(
    (name, pattern_of(f"[{letters}]")) for name, letters in map(str.split, _TABLES["letters"])
)
_UMLAUT: Final = pattern_of("[äöü]")

_WORD: Final = pattern_of(r"(?<![\w./@:$#<>=\\-])[^\W\d_]+(?![\w/@:()=]|\.\w)")
"""A word of prose: part of an address, a path or an identifier is none."""
_ENDINGS: Final = dict(line.split() for line in _TABLES["endings"])
_ENDS: Final = pattern_of(
    "|".join(rf"(?P<{name}>\w{{3,}}(?:{ends}))" for name, ends in _ENDINGS.items())
)
"""How long words end in these languages and not in English."""
_ANY_END: Final = tuple(end for ends in _ENDINGS.values() for end in ends.split("|"))
_LAST_TWO: Final = frozenset(end[-2:] for end in _ANY_END)
_SCRIPTS: Final = pattern_of(
    "(?P<kana>[\u3041-\u30ff\uff66-\uff9d])|(?P<han>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])|(?P<ko>[\uac00-\ud7af\u1100-\u11ff])|(?P<ru>[\u0400-\u052f])"
    "|(?P<el>[\u0370-\u03ff\u1f00-\u1fff])|(?P<ar>[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff"
    "\ufe70-\ufefc])|(?P<he>[\u0590-\u05ff])|(?P<th>[\u0e00-\u0e7f])|(?P<hi>[\u0900-\u097f])"
    "|(?P<und>[\u0530-\u058f\u0980-\u0dff\u0e80-\u10ff\u1200-\u139f\u1780-\u17ff\u1800-\u18af])"
)
_BEYOND_ENGLISH: Final = pattern_of(
    "[^\x00-\x7f\xa0\xa2-\xa9\xab-\xb9\xbb-\xbe\xd7\xf7\u2000-\u206f\u20a0-\u20bf\u2100-\u2bff"
    "\ufe0f\U0001f000-\U0001faff]"
)
"""A letter that no English word has: not a dash, a quotation mark, an arrow or a face."""
_DENSE: Final = frozenset({"kana", "han", "ko"})
_UKRAINIAN: Final = pattern_of("[іїєґІЇЄҐ]")
_PERSIAN: Final = pattern_of("[پچژگ]")
_MOSTLY_KANA: Final = 0.1
"""The share of kana from which on Chinese characters are Japanese."""


class _Telling(msgspec.Struct, frozen=True):
    """Small words in Latin letters, and what they tell."""

    languages: dict[str, tuple[str, ...]]
    """Which languages a word speaks for."""
    english: frozenset[str]
    others: frozenset[str]


@cache
def small_words() -> dict[str, frozenset[str]]:
    """The words of each language that stand in every text and say what none of them is about."""
    return {
        name: frozenset(word for line in lines for word in line.split())
        for name, lines in lists_of("small_words").items()
        if name != _ALIKE
    }


@cache
def _telling() -> _Telling:
    alike = {word for line in lists_of("small_words")[_ALIKE] for word in line.split()}
    found: dict[str, tuple[str, ...]] = {}
    for name, words in small_words().items():
        for word in words if name not in _OTHER_ALPHABETS else ():
            if name == ENGLISH or (word not in alike and len(word) > 1):
                found[word] = (*found.get(word, ()), name)
    return _Telling(
        languages=found,
        english=frozenset(word for word, names in found.items() if ENGLISH in names),
        others=frozenset(word for word, names in found.items() if names != (ENGLISH,)),
    )


@remembers(4_096)  # A passage is read when it is stored and whenever it is found.
def language_of(text: str) -> str:
    """The language as a code such as `de`; English where nothing tells otherwise."""
    read = text[:_READ]
    plain = read.isascii() or not _BEYOND_ENGLISH.search(read)
    if not plain and (script := _by_script(read)):
        return script
    return _by_words(read.lower(), plain=plain)


def is_english(text: str) -> bool:
    """Whether the model for English may be trusted with a text: code and numbers are, too.

    Hundreds of passages are asked this for each question, so most are told by one word.
    """
    if text.isascii() and any(word in text for word in _ENGLISH_ALONE):
        return True
    return language_of(text) == ENGLISH


def _by_script(text: str) -> str:
    """The language of another script than Latin; empty where that has too small a share."""
    if not (counted := Counter(found.lastgroup or "" for found in _SCRIPTS.finditer(text))):
        return ""
    weight = sum(n * (_DENSE_LETTERS if name in _DENSE else 1) for name, n in counted.items())
    latin = sum(char.isalpha() for char in text) - counted.total()
    if weight < _SCRIPT_SHARE * (weight + max(latin, 0)):
        return ""
    counted["han"], kana = counted["han"] + counted["kana"], counted.pop("kana", 0)
    if (name := counted.most_common(1)[0][0]) == "han":
        return "ja" if kana >= _MOSTLY_KANA * counted["han"] else "zh"
    if name == "ru" and _UKRAINIAN.search(text):
        return "uk"
    return "fa" if name == "ar" and _PERSIAN.search(text) else name


def _is_plainly_english(text: str) -> bool:
    """Whether nothing in a text without other letters hints at another language, at a first look.

    Without any small word of English, as in code, a word's end may still be such a hint.
    """
    words = text.encode("latin-1", "replace").translate(_LETTERS_ALONE).decode().split()
    telling = _telling()
    if not telling.others.isdisjoint(words):
        return False
    return not telling.english.isdisjoint(text.split()) or not any(map(_may_end, set(words)))


def _may_end(word: str) -> bool:
    """Whether a word ends as some in other languages do."""
    return word[-2:] in _LAST_TWO and word.endswith(_ANY_END)


def _by_words(text: str, *, plain: bool) -> str:
    """The language written in Latin letters whose small words and letters a text has most of.

    A `plain` text has no letters but those of English.
    """
    if plain and _is_plainly_english(text):
        return ENGLISH
    words = _WORD.findall(text)
    if plain and sum(map(len, words)) * _IN_WORDS < len(text):
        return ENGLISH  # hashes, base64, tables
    scores: Counter[str] = Counter()
    telling = _telling().languages
    for word in words:
        for name in telling.get(word, ()):
            scores[name] += 2
    if (english := scores.pop(ENGLISH, 0)) and not scores and plain:
        return ENGLISH
    for word in words:
        if _may_end(word) and (ends := _ENDS.fullmatch(word)) and ends.lastgroup:
            scores[ends.lastgroup] += 1
    if not plain:
        for name, hint in _HINTS:
            scores[name] += 2 * len(hint.findall(text))
        if scores["de"]:
            scores["de"] += len(_UMLAUT.findall(text))
    if not scores:
        return ENGLISH
    name, most = scores.most_common(1)[0]
    few = not english and len(words) <= _FEW_WORDS
    enough = 2 if few else max(4, len(words) // _ONE_TELLS)
    return name if most >= enough and most > english else ENGLISH
