"""What a statement is about: its subject, the value it gives, what it turns down, and why."""

from typing import Final

import msgspec

from mindstone_tui.core.language.clause import content_words, singular
from mindstone_tui.core.language.lists import english, pattern_beside
from mindstone_tui.core.values import Value

_REJECTED: Final = pattern_beside(__file__, "rejected")
_CHOSEN: Final = pattern_beside(__file__, "chosen")
_FRAME: Final = pattern_beside(__file__, "frame")
_NAMED: Final = pattern_beside(__file__, "named")
_NUMBER: Final = pattern_beside(__file__, "number")
_REASON: Final = pattern_beside(__file__, "reason")
_SO: Final = pattern_beside(__file__, "so")


class Content(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """The parts of a statement."""

    subject: tuple[str, ...] = ()
    """The words that say what it is about, folded for comparing."""
    slot: tuple[str, ...] = ()
    """What can have only one value: the port, the language of the answers."""
    value: tuple[str, ...] = ()
    """The value that it gives to the slot; without a slot, what it chooses."""
    rejected: tuple[str, ...] = ()
    """What it turns down, in so many words."""


def topic(text: str) -> tuple[str, ...]:
    """The words that carry meaning, without the verbs that say where or how a thing is."""
    framing = english("frame verbs")
    return tuple(word for word in content_words(text) if word not in framing)


def parts(text: str, *, corrects: bool = False) -> Content:
    """Take a lower-case sentence apart into what it is about and what it says.

    Only what excludes another value becomes a slot: a choice for a purpose, a number, a name. Two
    rules about comments may both hold; two ports may not. A correction always excludes.
    """
    rejected = tuple(
        dict.fromkeys(
            word
            for match in _REJECTED.finditer(text)
            for word in topic(match[1] or match[2] or match[3] or "")
        )
    )
    slot, value = _slot(_REJECTED.sub(" ", text) if rejected else text, corrects)
    return Content(
        subject=tuple(word for word in topic(text) if word not in rejected),
        slot=slot,
        value=tuple(word for word in value if word not in rejected),
        rejected=rejected,
    )


def _slot(text: str, corrects: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if frame := _FRAME.search(text):
        return (frame[1] or frame[2],), topic(frame[3])
    if chosen := _CHOSEN.search(text):
        value, scope = topic(chosen[1]), topic(chosen[2] or "")
        if numbers := numbers_in(chosen[1]):
            return (*(word for word in value if word not in numbers), *scope), numbers
        return scope, value
    if named := _NAMED.search(text):
        slot, value, numbers = topic(named[1]), topic(named[2]), numbers_in(named[2])
        if slot and numbers:
            return slot, numbers
        if slot and value and (corrects or not english("one-valued").isdisjoint(slot)):
            return slot, value
    return (), ()


def numbers_in(text: str) -> tuple[str, ...]:
    """The numbers, versions and colours in a lower-case text."""
    return tuple(dict.fromkeys(singular(found) for found in _NUMBER.findall(text)))


def reason_of(sentence: str) -> str:
    """Why, in the words of the sentence; empty when it gives none."""
    lowered = sentence.lower()
    if len(lowered) != len(sentence):  # a few capitals grow when they are lowered
        return ""
    found = _REASON.search(lowered) or _SO.search(lowered)
    return sentence[found.start(1) : found.end(1)].strip().rstrip(".") if found else ""
