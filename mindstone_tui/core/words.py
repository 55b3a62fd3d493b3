"""Text as words: the one place that cuts them.

`words_of` gives the words a text can be found by, in any script. It prepares what is stored and
what is asked, so both sides meet: accents and case are folded; an identifier or path gives its
parts and its whole form; scripts without spaces give single characters and pairs; an emoji is a
word. FTS5 then only stems. `plain_words` is its cheap relative for comparing two texts, and
`tokens_of` keeps what was written, so that a path, a version or a contraction stays whole.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

MOST_TERMS: Final = 48
"""A question with more words than this is answered by its rarest ones."""

STOPWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
    a about after again all also am an and any are as at be been before being but by can could did
    do does doing done down for from get got had has have having he her here hers him his how i if
    in into is it its just let me might mine more most much must my no nor not now of off on once
    only or other our ours out over own please same shall she should so some such than that the
    their theirs them then there these they this those through to too under until up us very was
    we were what when where which while who whom whose why will with would yes you your yours
    tell know remember said say says anything something im ive dont didnt doesnt isnt wasnt
    s t d m ll re ve
    """,
    )
)

_PUNCTUATION: Final = ".,;:!?\"'()[]{}…“”‘’*`"
_EDGES: Final = re.compile(r"^[^\w\u0900-\u0dff]+|[^\w\u0900-\u0dff]+$")
_ALNUM: Final = re.compile(r"(?:[^\W_]|[\u0900-\u0dff])+")
_PLAIN: Final = re.compile(r"[^\W_]+")
_TOKEN: Final = re.compile(r"[#/.]?[^\W_](?:[\w./#@+:'-]*\w)?")
_POSSESSIVE: Final = re.compile(r"['’ʼ]s$")
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’ʼ](?=\w)")
_SEGMENT: Final = re.compile(r"[/\\:,;|(){}\[\]<>\"'`=&?!]+")
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DENSE: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u309f\u30a0-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]+"
)
_ASCII_EDGES: Final = string.punctuation.replace("_", "")
_ASCII_ALNUM: Final = re.compile("[A-Za-z0-9]+")
_LONGEST_WHOLE: Final = 80
_TATWEEL: Final = "\u0640"
"""Stretches Arabic words for looks."""
_SYMBOL: Final = re.compile("[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")


def fold(text: str) -> str:
    """Lower case without accents, in one canonical form."""
    return text.lower() if text.isascii() else unmarked(text).casefold()


def unmarked(text: str) -> str:
    """The text without combining marks, which would cut a word in two; case is kept."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in apart if not unicodedata.combining(char) and char != _TATWEEL)
    return unicodedata.normalize("NFKC", bare)


def words_of(text: str) -> Iterator[str]:
    """Every word of a text, in order, with the parts and whole forms of compound ones."""
    for chunk in text.split():
        yield from _words_between_blanks(chunk)


class _KnownChunks(dict[str, str]):
    """What stands between blanks → its words, joined: most of a long text was met before."""

    def __missing__(self, chunk: str) -> str:
        words = " ".join(_words_between_blanks(chunk))
        if len(chunk) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[chunk] = words
        return words


_MOST_KNOWN: Final = 20_000
_LONGEST_KNOWN: Final = 60
_known: Final = _KnownChunks()


def plain_words(text: str, shortest: int = 1) -> list[str]:
    """Runs of letters and digits in lower case, without those that are too short to say much."""
    return [word for word in _PLAIN.findall(text.lower()) if len(word) >= shortest]


def tokens_of(text: str) -> list[str]:
    """What stands between blanks and sentence marks, as it was written."""
    return _TOKEN.findall(text)


def indexed(text: str) -> str:
    """The text as it is handed to FTS5: `words_of`, joined."""
    return " ".join(filter(None, map(_known.__getitem__, text.split())))


def query_terms(text: str) -> list[str]:
    """The distinct words worth looking for; stopwords only if there is nothing else."""
    distinct = list(dict.fromkeys(words_of(text)))
    telling = [word for word in distinct if word not in STOPWORDS] or distinct
    pairs = {char for word in telling if len(word) == 2 and _DENSE.fullmatch(word) for char in word}
    return [word for word in telling if word not in pairs]


def quoted(terms: list[str]) -> str:
    """An FTS5 expression that matches any of the terms and cannot be anything but terms."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


def _words_between_blanks(chunk: str) -> Iterable[str]:
    if not chunk.isalpha():
        chunk = chunk.strip(_PUNCTUATION)
    if not (chunk.isascii() and chunk.isprintable()):
        return _words_of_chunk(chunk)
    if chunk.isalpha() and (chunk.islower() or chunk[1:].islower()):
        return (chunk.lower(),)
    return _ascii_words(chunk)


def _ascii_words(chunk: str) -> list[str]:
    """What `_words_of_chunk` gives for plain ASCII, several times as fast."""
    core = chunk.strip(_ASCII_EDGES)
    if "'" in core:
        core = _APOSTROPHE.sub("", _POSSESSIVE.sub("", core))
    words: list[str] = []
    joined: list[str] = []
    for segment in _SEGMENT.split(core):
        if not segment:
            continue
        whole = ""
        before = len(words)
        for run in _ASCII_ALNUM.findall(segment):
            whole += run
            if run.islower() or run.isdigit():
                words.append(run)
            else:
                words += [part.lower() for part in _HUMPS.split(run) if part]
        joined.append(whole.lower())
        if len(words) - before > 1:
            words.append(joined[-1])
    if len(joined) > 1 and len(whole := "".join(joined)) <= _LONGEST_WHOLE:
        words.append(whole)
    return words


def _words_of_chunk(chunk: str) -> Iterator[str]:
    if not chunk.isascii():
        for symbol in _SYMBOL.findall(chunk):
            yield f"u{ord(symbol):x}"
    core = _EDGES.sub("", chunk)
    if not core:
        return
    core = _APOSTROPHE.sub("", _POSSESSIVE.sub("", core))
    segments = [segment for segment in _SEGMENT.split(unmarked(core)) if segment]
    joined: list[str] = []
    for segment in segments:
        parts = [part for word in _ALNUM.findall(segment) for part in _parts(word)]
        yield from parts
        whole = fold("".join(_ALNUM.findall(segment)))
        joined.append(whole)
        if len(parts) > 1 and not _DENSE.search(whole):
            yield whole
    if (
        len(segments) > 1
        and len(whole := "".join(joined)) <= _LONGEST_WHOLE
        and not _DENSE.search(whole)
    ):
        yield whole


def _parts(word: str) -> Iterator[str]:
    """`getUserById` → get, user, by, id; `東京都` → 東, 東京, 京, 京都, 都."""
    at = 0
    for run in _DENSE.finditer(word):
        yield from _humps(word[at : run.start()])
        yield from _pairs(run[0])
        at = run.end()
    yield from _humps(word[at:])


def _humps(word: str) -> Iterator[str]:
    yield from (fold(part) for part in _HUMPS.split(word) if part)


def _pairs(run: str) -> Iterator[str]:
    folded = fold(run)
    for at, char in enumerate(folded):
        yield char
        if at + 1 < len(folded):
            yield folded[at : at + 2]
