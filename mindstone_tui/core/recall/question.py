"""A question as ranking sees it: its words, whom and when it means, and what it looks for."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from mindstone_tui.core.language import languages, lists
from mindstone_tui.core.language.words import query_terms, stopwords, words_of
from mindstone_tui.core.patterns import pattern_of

_WHEN: Final = lists.pattern_beside(__file__, "when", re.IGNORECASE)
_TIME: Final = lists.pattern_beside(__file__, "time", re.IGNORECASE)
_OF_THE_WORLD: Final = lists.pattern_beside(__file__, "of the world", re.IGNORECASE)
_OF_RECORD: Final = lists.pattern_beside(__file__, "of record", re.IGNORECASE)
_NAME: Final = pattern_of(r"(?<=[\w,;)\"'’] )[A-Z]\w[\w'’-]*")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH: Final = pattern_of("|".join(rf"\b{month}\b" for month in MONTHS))
_YEAR: Final = pattern_of(r"\b(?:19|20)\d\d\b")
_FIRST_PERSON: Final = frozenset({"i", "me", "my", "mine", "im", "ive", "id", "we", "our", "us"})
_SECOND_PERSON: Final = frozenset({"you", "your", "yours", "youve"})


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question as ranking sees it."""

    text: str
    terms: tuple[str, ...]
    """The words worth looking for."""
    words: frozenset[str]
    """All words, for names."""
    wants_time: bool
    of_record: bool = False
    """Whether it asks what was said or done: rules are for what is yet to be done."""
    of_the_world: bool = False
    """Whether it is put as one asks what anybody could know: "what is a monad", "how do I …"."""
    roles: frozenset[str]
    """Whose words are meant by "I" and "you"."""
    names: tuple[str, ...] = ()
    """Words written like names; the first word of a sentence is written so anyway."""
    month: int = 0
    """The month that the question names, 1 to 12; 0 for none."""
    year: int = 0


def read_question(text: str) -> Question:
    """Take a question apart; nothing is looked up."""
    words = frozenset(words_of(text))
    roles = {
        role
        for role, pronouns in (("user", _FIRST_PERSON), ("assistant", _SECOND_PERSON))
        if words & pronouns
    }
    return Question(
        text=text,
        terms=tuple(query_terms(text)),
        words=words,
        wants_time=bool(_WHEN.search(text)),
        of_record=bool(_OF_RECORD.search(text)),
        of_the_world=bool(_OF_THE_WORLD.search(text)),
        roles=frozenset(roles) if languages.is_english(text) else frozenset(),
        # Other languages write names differently, and German writes every noun like one.
        names=tuple(_names(text)) if languages.is_english(text) else (),
        month=_month(text),
        year=int(year[0]) if (year := _YEAR.search(text)) else 0,
    )


def _names(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        name = next(iter(words_of(found[0])), "")
        if name and name not in stopwords():
            yield name


def _month(text: str) -> int:
    found = _MONTH.search(text)
    return MONTHS.index(found[0]) + 1 if found else 0


def tells_time(text: str) -> bool:
    """Whether a text says when something was, is or will be."""
    return bool(_TIME.search(text))
