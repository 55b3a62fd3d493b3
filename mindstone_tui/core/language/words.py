"""Text as words: the one place that cuts them.

`words_of` gives the words a text can be found by, in any script. It prepares what is stored and
what is asked, so both sides meet: accents and case are folded; an identifier or path gives its
parts and its whole form; scripts without spaces give single characters and pairs; what stands
before or after an apostrophe is found without it; an emoji is a word. FTS5 then only stems.
`plain_words` is its cheap relative for comparing two texts, and `tokens_of` keeps what was written,
so that a path, a version or a contraction stays whole.
"""

import operator
import re
import string
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Final

from mindstone_tui.core.language import languages, lists
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text_cache import Known

_LOOKED_UP: Final = 400
"""Words at each end of a text that are looked up one by one."""
MOST_TERMS: Final = 48
"""A question with more words than this is answered by its rarest ones."""

_MARKS: Final = (
    "\u0900-\u0963\u0966-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u0f71-\u0f84\u0f90-\u0fbc\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a"
)
"""Signs above, below and beside letters that are part of the word, not an accent on it."""
_ACCENT: Final = pattern_of(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20f0\ufe20-\ufe2f]"
)
"""Accents, vowel points, and the tatweel, which stretches Arabic words for looks."""
_ALIKE: Final = str.maketrans(
    {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th",
     "ى": "ي", "ة": "ه"}
)  # fmt: skip
"""Letters that no accent was taken from, and that people write one for the other."""
_PUNCTUATION: Final = ".,;:!?\"'()[]{}…“”‘’*`"
_CORE: Final = pattern_of(rf"[\w{_MARKS}](?:.*[\w{_MARKS}])?", re.DOTALL)
"""From the first to the last character that words are made of."""
_ALNUM: Final = pattern_of(rf"(?:[^\W_]|[{_MARKS}])+")
_PLAIN: Final = pattern_of(r"[^\W_]+")
_TOKEN: Final = pattern_of(r"[#/.]?[^\W_](?:[\w./#@+:'-]*\w)?")
_POSSESSIVE: Final = pattern_of(r"['’ʼ]s$")
_APOSTROPHE: Final = pattern_of(r"(?<=\w)['’ʼ](?=\w)")
_CONTRACTED: Final = frozenset({"t", "s", "m", "d", "re", "ve", "ll"})
"""What English puts behind an apostrophe; everything else there, or before it, is a word."""
_ARTICLE: Final = pattern_of(r"^(?:[وفبك]?ال|لل)(?=\w{3})")
_BETWEEN_SEGMENTS: Final = "/\\:,;|(){}[]<>\"'`=&?!"
_SEGMENT: Final = pattern_of(f"[{re.escape(_BETWEEN_SEGMENTS)}]+")
_HUMPS: Final = pattern_of(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCRAMBLED: Final = pattern_of(r"[0-9](?=[A-Za-z])")
_LONGEST_NAME, _OFTEN = 60, 16
"""What is longer and where a letter follows a number once in so many signs is base64 or the like:
its capitals begin no words. Names and paths of that length have hardly a number in them."""
_DEPENDS: Final = pattern_of("[\u02bc\u1100-\u11ff\u2460-\u2793\U0001f100-\U0001f1ff]")
"""An apostrophe that is a letter, parts of Korean syllables, letters and numbers in rings."""
_CLUSTER: Final = pattern_of(rf".[{_MARKS}]*", re.DOTALL)
"""A character with the signs on it."""
_DENSE: Final = pattern_of(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u309f\u30a0-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]+"
)
_ASCII_EDGES: Final = string.punctuation.replace("_", "")
_ASCII_SEGMENTS: Final = bytes.maketrans(
    string.punctuation.encode(),
    "".join("\n" if sign in _BETWEEN_SEGMENTS else " " for sign in string.punctuation).encode(),
)
"""Makes a line of each segment of a chunk, and blanks of the other signs in it."""
_LINE_NUMBER: Final = pattern_of(r"\n[ \t]*+\d++→")
_LONGEST_WHOLE: Final = 80
_ENDINGS: Final = ("ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y")
_SHORTEST_ROOT: Final = 3
_SYMBOL: Final = pattern_of("[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")


def stopwords() -> frozenset[str]:
    """English words that nothing is looked for by."""
    return lists.english("stopwords")


def fold(text: str) -> str:
    """Lower case without accents, in one canonical form."""
    return text.lower() if text.isascii() else unmarked(text).casefold().translate(_ALIKE)


def unmarked(text: str) -> str:
    """The text without accents, which would cut a word in two; case is kept."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))


def words_of(text: str) -> Iterator[str]:
    """Every word of a text, in order, with the parts and whole forms of compound ones."""
    for chunk in without_line_numbers(text).split():
        yield from _known[chunk].split()


def _words_between_blanks(chunk: str) -> str:
    """The words of what stands between blanks, joined."""
    if len(chunk) > _LONGEST_NAME and len(_SCRAMBLED.findall(chunk)) * _OFTEN > len(chunk):
        chunk = chunk.lower()
    core = chunk.strip(_ASCII_EDGES)
    if core.isalnum() and core.isascii() and (low := core.lower())[1:] == core[1:]:
        return low
    if not chunk.isascii():
        chunk = chunk.strip(_PUNCTUATION)
        core = chunk.strip(_ASCII_EDGES)
    if chunk.isascii() and core.isprintable():
        return _ascii_words(core)
    low = core.lower() if len(core) <= _LONGEST_NAME else ""
    if low[1:] == core[1:] and "\n" not in (word := low.translate(_folded)):
        if (dense := _DENSE.search(word)) is None:
            return _ARTICLE.sub("", word)
        if dense[0] == word:
            return _pairs(word)
    return " ".join(_words_of_chunk(chunk))


class _Folded(dict[int, str]):
    """What each lower letter of a word becomes; a new line if that depends on those beside it."""

    def __missing__(self, code: int) -> str:
        plain = unmarked(letter := chr(code))
        alone = len(plain) == 1 and letter.isalnum() and plain.isalnum() and plain == plain.lower()
        known = not plain or (alone and not _DEPENDS.search(letter + plain))
        self[code] = fold(plain) if known else "\n"
        return self[code]


_folded: Final = _Folded()


def _words_of_segment(segment: str) -> tuple[str, str]:
    """The words of a part of such a chunk, in ASCII with blanks for its signs; its whole form."""
    low = segment.lower()
    words = (low if low[1:] == segment[1:] else _HUMPS.sub(" ", segment).lower()).split()
    whole = low.replace(" ", "")
    if len(words) > 1:
        words.append(whole)
    return " ".join(words), whole


_known: Final = Known(_words_between_blanks)
_segments: Final = Known(_words_of_segment)


def plain_words(text: str, shortest: int = 1) -> list[str]:
    """Runs of letters and digits in lower case, without those that are too short to say much."""
    return [word for word in _PLAIN.findall(text.lower()) if len(word) >= shortest]


def tokens_of(text: str) -> list[str]:
    """What stands between blanks and sentence marks, as it was written."""
    return _TOKEN.findall(text)


def indexed(text: str) -> str:
    """The text as it is handed to FTS5: `words_of`, joined."""
    return " ".join(filter(None, map(_known.__getitem__, without_line_numbers(text).split())))


def without_line_numbers(text: str) -> str:
    """The text without the numbers that tools print before an arrow; blanks may be others."""
    return _LINE_NUMBER.sub("\n", f"\n{text}") if "→" in text else text


def root(word: str) -> str:
    """The beginning that forms of an English word share, roughly; for comparing two texts.

    What is indexed is stemmed by FTS5 itself.
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_ROOT:
            return word[: -len(ending)]
    return word


def query_terms(text: str) -> list[str]:
    """The distinct words worth looking for; stopwords only if there is nothing else.

    Of very many, those it begins and ends with: each is looked up, and what is meant stands there.
    """
    distinct = list(dict.fromkeys(indexed(text).split()))
    common = _small_words(languages.language_of(text))
    telling = [word for word in distinct if word not in common] or distinct
    if len(telling) > 2 * _LOOKED_UP:
        telling = telling[:_LOOKED_UP] + telling[-_LOOKED_UP:]
    dense = (_CLUSTER.findall(word) for word in telling if _DENSE.match(word))
    halves = {half for clusters in dense if len(clusters) == 2 for half in clusters}
    return [word for word in telling if word not in halves]


@cache
def _small_words(language: str) -> frozenset[str]:
    """The small words of English and of another language, as they are indexed."""
    if language == languages.ENGLISH:
        return stopwords()
    words = languages.small_words().get(language, ())
    return stopwords().union(each for word in words for each in words_of(word))


def quoted(terms: list[str]) -> str:
    """An FTS5 expression that matches any of the terms and cannot be anything but terms."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


def _ascii_words(core: str) -> str:
    """What `_words_of_chunk` gives for plain ASCII, joined, several times as fast."""
    words: list[str] = []
    if "'" in core:
        core = _POSSESSIVE.sub("", core)
        words = _beside_apostrophes(core)
        core = _APOSTROPHE.sub("", core)
    segments, joined = 0, ""
    for segment in core.encode().translate(_ASCII_SEGMENTS).decode().split("\n"):
        if segment:
            parts, whole = _segments[segment]
            segments += 1
            joined += whole
            if parts:
                words.append(parts)
    if segments > 1 and len(joined) <= _LONGEST_WHOLE:
        words.append(joined)
    return " ".join(words)


def _words_of_chunk(chunk: str) -> Iterator[str]:
    yield from (f"u{ord(symbol):x}" for symbol in _SYMBOL.findall(chunk))
    if (found := _CORE.search(chunk)) is None:
        return
    core = _POSSESSIVE.sub("", found[0])
    yield from _beside_apostrophes(core)
    segments = [each for each in _SEGMENT.split(unmarked(_APOSTROPHE.sub("", core))) if each]
    joined: list[str] = []
    for segment in segments:
        words = _ALNUM.findall(segment)
        parts = [part for word in words for part in _parts(word)]
        yield from parts
        if not _DENSE.search(whole := "".join(words)):
            joined.append(whole := fold(whole))
            if len(parts) > 1:
                yield whole
    if 1 < len(segments) == len(joined) and len(whole := "".join(joined)) <= _LONGEST_WHOLE:
        yield whole


def _beside_apostrophes(core: str) -> list[str]:
    """`l'avion` → avion, `Lizbon'a` → lizbon; nothing for `don't`."""
    parts = _APOSTROPHE.split(core)
    if len(parts) != 2 or parts[1].lower() in _CONTRACTED:
        return []
    return [fold(part) for part in parts if len(part) > 2 and part.isalpha()]


def _parts(word: str) -> Iterator[str]:
    """`getUserById` → get, user, by, id; `東京都` → "東 東京 京 京都 都"."""
    at = 0
    for run in () if word.isascii() else _DENSE.finditer(word):
        yield from _humps(word[at : run.start()])
        yield _pairs(run[0])
        at = run.end()
    yield from _humps(word[at:])


def _humps(word: str) -> Iterator[str]:
    for part in _HUMPS.split(word):
        if part:
            folded = fold(part)
            yield folded if folded.isascii() else _ARTICLE.sub("", folded)


def _pairs(run: str) -> str:
    """Each character without accents, and between two of them the pair that they make, joined."""
    clusters = _CLUSTER.findall(run)
    pairs = map(operator.add, clusters, clusters[1:])
    return " ".join(chain(chain.from_iterable(zip(clusters, pairs, strict=False)), clusters[-1:]))
