"""A sentence as cues read it: lower case, one kind of apostrophe, without its opening noises."""

import re
from functools import cache
from typing import Final

import msgspec

from mindstone_tui.core.language.lists import english, lists_of, pattern_beside
from mindstone_tui.core.language.words import tokens_of
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.values import Value

LONGEST_READ: Final = 1_000
"""Characters in which a sentence must have said what it settles; nobody settles anything later."""

_PLAIN: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "\u00a0": " "})
_PLACE: Final = pattern_beside(__file__, "place")
"""Paths and mentions: long, and full of words that nobody said."""
_ASIDE: Final = pattern_beside(__file__, "aside")
"""What stands in brackets on the way does not belong to the clause around it."""
_CITED: Final = pattern_of(r"\"[^\"]{24,400}\"")
"""Whole sentences between quotation marks are somebody else's."""
_EMPHASIS: Final = pattern_of(r"\*{1,3}|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|~~")
_NOISES: Final = pattern_beside(__file__, "noises")
_LABEL: Final = pattern_beside(__file__, "label")
"""The heading of a point in a list of requirements ("Security: never log the key"); not a wish
("Please keep in mind: no GPU")."""
_TAG_QUESTION: Final = pattern_beside(__file__, "tag question")
_PARTS: Final = pattern_beside(__file__, "parts")
_TOLD_FIRST: Final = pattern_beside(__file__, "told first")
"""An order, and a question behind its comma: "don't use puppeteer, will html do?"."""
_JOINT: Final = pattern_beside(__file__, "joint")
_DENIAL: Final = pattern_beside(__file__, "denial")
_WORD: Final = pattern_of(r"[a-z][a-z']*")
_ASKS: Final = pattern_beside(__file__, "asks")
"""A question whose sign was left out."""
_STRESSED: Final = pattern_of(r"\b(?:NEVER|ALWAYS|MUST|ONLY)\b")
_BARE: Final = pattern_beside(__file__, "bare")
_MISSPELT: Final = pattern_of(r"\bsh(?:ou|u)l?dl?n'?t\b")
_SHORTHAND: Final = pattern_of(r"\b(?:u|ur|b/c|w/o?|wan't|doens't|[a-z]{2,8})(?=\s|[,.;:!?)]|\Z)")
_ITS: Final = pattern_of(r"\bits (?=not|a\b|the\b|still|just|actually|only|always|never|fine|ok)")


class Clause(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What the cues look at."""

    whole: str
    """The sentence, lower case, its noises kept: "then I'll test it"."""
    core: str
    """The same without the noises it opens with and without a question at its end."""
    starts: tuple[tuple[int, int], ...]
    """Where clauses of the core begin: with the word or sign that joins them, and after it."""
    words: frozenset[str]
    asks: bool
    denies: bool
    """It opens by saying no to something."""
    stressed: frozenset[str]
    """Binding words in capitals."""


def read(sentence: str) -> Clause:
    """Take a sentence apart for the cues; only its first thousand characters count."""
    said = " ".join(sentence[:LONGEST_READ].translate(_PLAIN).split())
    if "*" in said or "_" in said or "~" in said:
        said = _EMPHASIS.sub("", said)
    whole, words = _folded(said)
    asks = whole.rstrip(" )\"'!").endswith(("?", "？", "؟"))
    core = _stripped(_without_question(whole) if asks else whole)
    if label := _LABEL.match(core):
        core = _stripped(core[label.end() :])
    if not asks and _ASKS.match(core):
        asks, core = True, _stripped(_without_question(whole))
    return Clause(
        whole=whole,
        core=core,
        starts=clause_starts(core),
        words=words,
        asks=asks,
        denies=_DENIAL.match(core) is not None,
        stressed=_stressed(said),
    )


def _stressed(said: str) -> frozenset[str]:
    """Binding words in capitals; where all is shouted, nothing is stressed."""
    found = _STRESSED.findall(said)
    shouted = found and sum(map(str.isupper, said)) > sum(map(str.islower, said))
    return frozenset() if shouted else frozenset(found)


def _folded(said: str) -> tuple[str, frozenset[str]]:
    """The sentence in lower case, without what others wrote in it, and its words."""
    if '"' in said:
        said = _CITED.sub("that", said)
    if "/" in said or "\\" in said or "@" in said:
        said = _PLACE.sub(_name, said)
    if "(" in said:
        said = _ASIDE.sub("", said)
    lowered = said.lower()
    words = frozenset(_WORD.findall(lowered))
    whole = _spelled_out(lowered, words)
    return whole, words if whole is lowered else frozenset(_WORD.findall(whole))


def _name(place: re.Match[str]) -> str:
    """A path or mention by its last name."""
    path = place[0].partition(" (")[0].replace("\\", "/").rstrip("/.:?=&#-")
    return "@" + (path.rpartition("/")[2].lstrip("@") or "there")


def clause_starts(core: str) -> tuple[tuple[int, int], ...]:
    """Where clauses begin: with the sentence, after a break, or after a word that joins."""
    return ((0, 0), *((found.start(), found.end()) for found in _JOINT.finditer(core)))


def after_denial(core: str) -> str:
    """What follows the "no" that a sentence opens with."""
    denial = _DENIAL.match(core)
    return _stripped(core[denial.end() :]) if denial else core


def _stripped(text: str) -> str:
    noises = _NOISES.match(text)
    return text[noises.end() :] if noises else text


def _without_question(whole: str) -> str:
    """What a sentence says before it asks; a question tag takes nothing back."""
    if tag := _TAG_QUESTION.search(whole):
        return whole[: tag.start()]
    if parts := list(_PARTS.finditer(whole)):
        return whole[: parts[-1].start()]
    told = _TOLD_FIRST.match(_stripped(whole))
    return told[1] if told else ""


def _spelled_out(text: str, words: frozenset[str]) -> str:
    """A lower-case text, whose words are given, with apostrophes and whole words."""
    written_out = _written_out()
    if words.isdisjoint(written_out) and words.isdisjoint(english("without apostrophe")):
        return text  # as most are
    text = _MISSPELT.sub("shouldn't", _BARE.sub(_with_apostrophe, text))
    text = _SHORTHAND.sub(lambda short: written_out.get(short[0], short[0]), text)
    return _ITS.sub("it's ", text)


@cache
def _written_out() -> dict[str, str]:
    """What shorthand and slips of the pen mean."""
    pairs = (line.partition(" ") for line in lists_of("english")["shorthand"])
    return {short: meant for short, _, meant in pairs}


def _with_apostrophe(bare: re.Match[str]) -> str:
    return f"{bare[1]}n't" if bare[1] else "'".join(part for part in bare.groups() if part)


def content_words(text: str) -> tuple[str, ...]:
    """The words of a lower-case text that carry meaning, folded, each once, in their order."""
    empty = english("empty")
    found = (singular(token) for token in tokens_of(text) if token not in empty)
    return tuple(dict.fromkeys(word for word in found if word and word not in empty))


def singular(token: str) -> str:
    """A word without the signs around it and without the ending of a plural."""
    word = token.strip(".'-:/").removesuffix("'s")
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word
