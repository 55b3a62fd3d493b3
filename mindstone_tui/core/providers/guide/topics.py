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
from mindstone_tui.core.patterns import pattern_of


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

_WORK: Final = pattern_of(
    r"\A\s*(?:please\s+|can you\s+|could you\s+|would you\s+|i (?:want|need) you to\s+|let'?s\s+)?"
    r"(?:fix|write|implement|add|create|make|refactor|delete|remove|translate|summari[sz]e|generate"
    r"|draw|build|update|change|rewrite|improve|optimi[sz]e|debug|test|install|compare|review"
    r"|analy[sz]e|design|plan|compute|calculate|solve|tell me an? (?:joke|story|poem))\b",
    re.IGNORECASE,
)
_EXPLAIN: Final = pattern_of(
    r"\A\s*(?:and\s+|so\s+|please\s+)?"
    r"(?:what(?:'s| is| are| does| do| means)|how (?:do|does|can|to|are|is|would)"
    r"|where (?:do|does|can|is|are)|why (?:do|does|is|are)|explain|help(?: me)?(?: with)?"
    r"|tell me (?:about|how|what)|which|meaning of|why\b|can (?:i|you)|describe|add)\b",
    re.IGNORECASE,
)
_PAST: Final = pattern_of(
    r"\b(?:did|was|were|said|told|my|our|we|us|yesterday|earlier|ago|last|mentioned|decided?)\b",
    re.IGNORECASE,
)
_HELLO: Final = pattern_of(
    r"(?:\W*\b(?:"
    r"hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|greetings|yo"
    r"|help(?: me)?(?: please)?"
    r"|(?:who|what) (?:exactly )?are you(?: really)?|who am i (?:talking|speaking) (?:to|with)"
    r"|what(?:'s| is) your name|introduce yourself|are you there|anybody (?:there|home)"
    r"|what (?:can|do|could) you do(?: for me)?|what are you (?:for|able to do)"
    r"|how (?:can|do) you (?:help|work)(?: me)?|(?:can|could) you help(?: me)?"
    r"|are you (?:an? )?(?:ai|llm|language model|human|bot|robot|chatgpt|claude|real)"
    r"|how are you(?: doing)?|what can i (?:do|ask|say)(?: (?:you|here))?"
    r"|where do i (?:start|begin)"
    r"|how do i (?:start|begin)|what now|test(?:ing)?|ping"
    r"|and|so|then|there|please|today|here|mindstone|guide|nice to meet you"
    r")\b)+\W*\Z",
    re.IGNORECASE,
)
_SCREEN: Final = pattern_of(
    r"\b(?:panel|screen|sidebar|right (?:side|hand)|status (?:line|bar)|every word|these words"
    r"|all the words|glossary)\b",
    re.IGNORECASE,
)


_OURS: Final = pattern_of(
    r"\bmindstone\b|\bthis (?:app|program|screen)\b|\b(?:status line|panel|sidebar)\b"
    r"|(?:\A|\s)/[a-z]+\b(?!/)|\bF(?:[1-9]|1[0-2])\b",
    re.IGNORECASE,
)


def names_mindstone(text: str) -> bool:
    """Whether a question is about this program: it names it, its screen, a key or a command."""
    return _OURS.search(text) is not None


def is_greeting(text: str) -> bool:
    """Whether somebody says hello or asks who answers."""
    return not text.strip() or _HELLO.match(text) is not None


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
    return _WORK.match(text) is not None


def explanation(text: str, terms: Sequence[Term]) -> str | None:
    """What to say when the question is about the product; None when it is about anything else."""
    if not _EXPLAIN.match(text) or _PAST.search(text):
        return None
    if _SCREEN.search(text):
        return on_the_screen(terms)
    named = [
        *((_length(topic, text), topic.text) for topic in guide_texts().topics),
        *((term.named_in(text), f"**{term.word.capitalize()}**: {term.text}") for term in terms),
    ]
    length, answer = max(named, key=lambda each: each[0])
    return answer if length else None


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
