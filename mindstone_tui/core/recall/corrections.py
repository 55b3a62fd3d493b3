"""Whether a message says anew what an older one said: a correction, or the same with another value.

Only people change facts by saying so: what they said themselves, and what the model made of it.
Nothing is looked up; two texts are compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from mindstone_tui.core.language.intent import correcting_parts, is_correction, only_asks
from mindstone_tui.core.language.lists import english
from mindstone_tui.core.language.words import query_terms, stopwords
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall.passages import Passage
from mindstone_tui.core.recall.thresholds import CORRECTED_SUBJECT, CORRECTED_VALUE, SAME_SUBJECT

_SAYS_WHAT: Final = 3
"""Words from which on a correcting sentence says itself what it is about."""
_VALUE: Final = pattern_of(r"\d")
_NO_LONGER: Final = pattern_of(
    r"\b(?:not|no longer|instead of|rather than)\s+(?:(?:on|in|at|to|port|the)\s+){0,2}(\S*\d\S*)",
    re.IGNORECASE,
)
_GIVEN_UP: Final = pattern_of(
    r"(?<!\S)(\S*\d{3}\S*)\s+(?:is|was|are|were)\s+(?:(?:already|now|also|no longer)\s+)?"
    r"(?:taken|occupied|in use|blocked|gone|dead|wrong|broken|retired|deprecated|reserved)\b"
    r".*?\b(?:use|take|make it|go with|switch to|try|move to)\s+(?:port\s+)?\S*\d",
    re.IGNORECASE | re.DOTALL,
)
"""A value that is said to be of no use, and another in its place."""
_NAME: Final = pattern_of(r"\b[A-Z][a-z]\w+")
_MODEL: Final = "assistant"
"""How the model is called where it has no name."""


def has_news(text: str) -> bool:
    """Whether a message gives a value or corrects something: only then it can replace another."""
    return bool(_VALUE.search(text)) or is_correction(text)


def may_replace(new: Passage, old: Passage) -> bool:
    """Whether the newer one is said by somebody whose word counts more than the older one."""
    return not (
        new.seq <= old.seq
        or old.speaker not in (new.speaker, _MODEL)
        or new.speaker == _MODEL
        or "tool" in (new.role, old.role)
        or only_asks(new.text)
    )


def restates(
    new: Passage, old: Passage, ours: frozenset[str], theirs: frozenset[str], least: float = 0.0
) -> bool:
    """Whether a message says anew what an older one said; `least` is the share of the words of a
    correcting sentence that the older one must have, where that is more than usual."""
    if ours.isdisjoint(theirs) or ours == theirs:
        return False
    if not (_VALUE.search(old.text) or has_news(new.text)):  # Most messages: no closer look.
        return False
    if not _values(_GIVEN_UP, new.text).isdisjoint(theirs):
        return True
    only_ours, only_theirs = ours - theirs, theirs - ours
    both_valued = all(any(map(_VALUE.search, words)) for words in (only_ours, only_theirs))
    if is_correction(new.text):
        return _corrects(new, old, theirs, both_valued=both_valued, least=least)
    # Said again in the same words, with another value; other words on both sides are about others.
    other_words = [
        any(not _VALUE.search(word) for word in each) for each in (only_ours, only_theirs)
    ]
    valued = any(map(_VALUE.search, only_ours | only_theirs))
    shared = len(ours & theirs)
    return valued and not all(other_words) and shared >= SAME_SUBJECT * len(ours | theirs)


def _corrects(
    new: Passage, old: Passage, theirs: frozenset[str], *, both_valued: bool, least: float
) -> bool:
    """Whether a message that corrects something corrects this.

    What counts are the words of its correcting sentence: in a long message other sentences speak of
    other things. Of what the model made of a statement only another value is corrected.
    """
    named = _means(new.text, old.text, theirs, by_name=both_valued)
    if named is False or (old.speaker == _MODEL and not both_valued and named is None):
        return False
    ours = _correcting_words(new.text, and_next=both_valued)
    enough = CORRECTED_VALUE if both_valued else CORRECTED_SUBJECT
    if not named:
        enough = max(enough, least)
    return len(ours & theirs) >= max(1.0, enough * len(ours))


def _correcting_words(text: str, *, and_next: bool) -> frozenset[str]:
    """What the sentence that corrects is about.

    It may say no more than that something is wrong: then the next one says what, if that has a
    value. Who answers "no" and says thanks for something corrects nothing.
    """
    words: frozenset[str] = frozenset()
    for part in correcting_parts(text)[: 2 if and_next else 1]:
        if len(words) < _SAYS_WHAT:
            words |= frozenset(query_terms(part)) - english("of every correction")
    return words


def _means(new: str, old: str, said: Collection[str], *, by_name: bool) -> bool | None:
    """Whether a correction means an older statement; None where nothing tells.

    Who says which value no longer holds means a statement with that value. And where two numbers
    differ, names tell whose they are.
    """
    if outdated := _values(_NO_LONGER, new):
        return not outdated.isdisjoint(said)
    ours, theirs = (_capitalised(text) for text in (new, old))
    strangers = by_name and ours and theirs and ours.isdisjoint(theirs)
    return False if strangers else None


def _values(pattern: re.Pattern[str], text: str) -> set[str]:
    return {word for found in pattern.findall(text) for word in query_terms(found)}


def _capitalised(text: str) -> set[str]:
    return {word.lower() for word in _NAME.findall(text)} - stopwords()
