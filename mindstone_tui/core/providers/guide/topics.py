"""What the guide knows about the product, a few lines a topic (`topics.toml`).

The words on the screen, and every number, come from the glossary of the settings in force.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.config.glossary import Term
from mindstone_tui.core.entries import Part
from mindstone_tui.core.language.lists import expression


class Topic(Part):
    """One thing that can be explained."""

    name: str
    about: str
    """Regular expression of the words that mean it."""
    text: str


class GuideTexts(Part):
    """All of `topics.toml`."""

    greeting: str
    beyond: str
    """Said where only a language model would do."""
    not_found: str
    no_recall: str
    noted: str
    proposed: str
    topics: tuple[Topic, ...]


@cache
def guide_texts() -> GuideTexts:
    """What the guide says, read when it first says something."""
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=GuideTexts)


COURTESIES: Final = (
    (r"(?:many )?thanks?(?: you)?|thx|cheers|great|nice|perfect|cool", "You are welcome."),
    (r"bye|goodbye|see you|good night", "Goodbye. Everything is saved; I will be here."),
    (r"ok(?:ay)?|yes|no|sure|fine|right|hm+|i see|got it", "All right."),
)
"""What is said out of politeness, and what is said back."""


_WHOLE: Final = 0.7
"""The share of what is asked for that must be a word of the product."""


def _means(what: str) -> re.Pattern[str]:
    return expression(Path(__file__).with_suffix(".txt"), what)


def names_mindstone(text: str) -> bool:
    """Whether a question is about this program: it names it, its screen, a key or a command."""
    return _means("ours").search(text) is not None


def is_greeting(text: str) -> bool:
    """Whether somebody says hello or asks who answers."""
    return not text.strip() or _means("hello").match(text) is not None


def courtesy(text: str) -> str | None:
    """What to say to a mere politeness; None when it is more than that."""
    for said, reply in COURTESIES:
        if re.fullmatch(
            rf"\W*(?:{said})(?:\W+(?:you|a lot|so much|then))?\W*", text, re.IGNORECASE
        ):
            return reply
    return None


def is_work(text: str) -> bool:
    """Whether somebody wants a thing done that only a language model can do."""
    return _means("work").match(text) is not None


def explanation(text: str, terms: Sequence[Term]) -> str | None:
    """What to say when the question is about the product; None when it is about anything else."""
    if not _means("explain").match(text) or _means("past").search(text):
        return None
    if _means("screen").search(text):
        return on_the_screen(terms)
    length, answer = _longest_named(text, terms)
    return answer if length else None


def _longest_named(text: str, terms: Sequence[Term]) -> tuple[int, str]:
    """How many characters of a text name a topic or a word of the screen, and what it means."""
    named = [
        *((_length(topic, text), topic.text) for topic in guide_texts().topics),
        *((term.named_in(text), f"**{term.word.capitalize()}**: {term.text}") for term in terms),
    ]
    return max(named, key=lambda each: each[0])


def defined(text: str, terms: Sequence[Term]) -> str | None:
    """What a word means, where a question asks for that or how it is used, and for nothing else."""
    found = _means("defines").match(text)
    if found is None or (not found["rest"] and not found["use"]):
        return None
    rest = found["rest"] or ""
    if rest and _longest_named(rest, terms)[0] < _WHOLE * len(rest):
        return None
    return explanation(text, terms)


def on_the_screen(terms: Sequence[Term]) -> str:
    """Every word of the screen with what it means."""
    groups = dict.fromkeys(term.group for term in terms)
    parts = ["These are the words on the screen; `?` shows them in the app at any time."]
    for group in groups:
        rows = [f"- **{term.word}**: {term.text}" for term in terms if term.group == group]
        parts.append("\n".join([f"*{group}*", "", *rows]))
    return "\n\n".join(parts)


def _length(topic: Topic, text: str) -> int:
    found = re.search(rf"\b(?:{topic.about})\b", text, re.IGNORECASE)
    return len(found[0]) if found else 0
