"""What must not be lost when a text gets shorter, found without a model.

Names, paths, numbers, the user's rules, open items, decisions and errors, as they stand in the
text. Every pattern runs in time linear in the text. The same facts audit summaries, fill handoffs
and become the probes that measure whether recall still finds what left the window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mindstone_tui.core.context.material import Passage
from mindstone_tui.core.entries import Part

LONGEST_SENTENCE: Final = 400
"""A rule or an item longer than this is cut there, with a sign."""

_URL: Final = re.compile(r"https?://[^\s<>()\"'`]{3,200}")
_PATH: Final = re.compile(
    r"(?<![\w/.:@-])(?:~?/|\.{1,2}/)?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{1,80}"
    r"|(?<![\w/.-])[\w-]{1,80}\.(?:py|pyi|md|txt|toml|json|jsonl|ya?ml|js|ts|tsx|jsx|rs|go|c|h|cc|cpp"
    r"|java|rb|sh|sql|html|css|csv|ini|cfg|lock|db|env|log|xml|ipynb)\b"
)
_IDENTIFIER: Final = re.compile(
    r"\b[A-Za-z_][A-Za-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,12}\b"  # snake_case, CONSTANT_CASE
    r"|\b[A-Z][a-z0-9]{1,40}(?:[A-Z][a-z0-9]{1,40}){1,8}\b"  # CamelCase
    r"|\b[a-z]{1,40}(?:[A-Z][a-z0-9]{1,40}){1,8}\b"  # camelCase
    r"|\b[A-Z]{2,12}-\d{1,8}\b"  # ticket numbers
    r"|\b(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b"  # commit hashes
    r"|\bv?\d{1,5}(?:\.\d{1,5}){2,3}\b"  # versions, addresses
)
_QUOTED_CODE: Final = re.compile(r"`([^`\n]{2,80})`")
_NUMBER: Final = re.compile(
    r"(?<![\w.,:/-])[$€£]?\d{1,3}(?:[,_ ]\d{3}){1,4}(?:\.\d{1,6})?(?![\w-])"
    r"|(?<![\w.,:/-])[$€£]?\d{1,12}(?:\.\d{1,6})?\s?(?:%|ms|s|min|h|[KMGT]i?B|kB|bytes|tokens|px|x|×)?"
    r"(?![\w-])"
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9ÄÖÜ`])|\n+")

_RULE: Final = re.compile(
    r"\b(?:must(?: not|n['’]t)?|never|always|do not|don['’]t|shall not|from now on|make sure"
    r"|at most|at least|no more than|only (?:use|ever|if|when|in)"
    r"|without (?:using|touching|changing)|i (?:prefer|want|need|like|hate)"
    r"|please (?:use|keep|avoid|call)|call me|my name is"
    r"|keep (?:it|the|all|every)|avoid|forbidden|not allowed|required|deadline|budget is)\b",
    re.IGNORECASE,
)
_DECISION: Final = re.compile(
    r"\b(?:decided|decision|we(?:['’]ll| will)? (?:go with|use|keep|drop|choose)"
    r"|let['’]s (?:go with|use|keep|drop|take|do)|chose|chosen|agreed|settled on|instead of"
    r"|we went with|approved|rejected|i(?:['’]ll| will) (?:go with|use))\b",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"^\s*[-*]?\s*\[ \]\s+|\b(?:todo|fixme|next step|next up|still (?:need|to|open|missing)"
    r"|remaining|not yet|unresolved|open question|waiting for|blocked (?:on|by)|follow[- ]up"
    r"|left to do)\b",
    re.IGNORECASE,
)
_ERROR: Final = re.compile(
    r"\b\w{0,60}(?:Error|Exception|Warning)\b\s?:|\b(?:traceback|segfault|panic|fatal|failed|failure"
    r"|exit (?:code|status) [1-9])\b",
    re.IGNORECASE,
)
_LESSON: Final = re.compile(
    r"\b(?:root cause|turns? out|the (?:bug|problem|cause|reason|trick|fix) (?:was|is)|lesson"
    r"|learned|learnt|because of this|caused by|was wrong|my mistake|note to self|gotcha)\b",
    re.IGNORECASE,
)


class Facts(Part):
    """What stands in a text, each as it stands there, in order of first appearance."""

    constraints: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class Limits(Part):
    """How many facts of a kind count, most used first; None for all of them."""

    decisions: int | None = None
    errors: int | None = None
    paths: int | None = None
    identifiers: int | None = None
    numbers: int | None = None


EVERYTHING: Final = Limits()
SURVIVORS: Final = Limits(decisions=0, errors=0, paths=12, identifiers=16, numbers=10)
"""What a summary is held to: every rule and open item, and the names used most."""


def sentences(text: str) -> Iterator[str]:
    """Sentences and list items, trimmed, each at most `LONGEST_SENTENCE` long."""
    for piece in _SENTENCE_END.split(text):
        said = piece.strip()
        if said:
            yield said if len(said) <= LONGEST_SENTENCE else said[: LONGEST_SENTENCE - 1] + "…"


def is_rule(sentence: str) -> bool:
    """Whether a sentence of the user binds later work; a question does not."""
    return bool(_RULE.search(sentence)) and not sentence.rstrip().endswith("?")


def is_decision(sentence: str) -> bool:
    """Whether a sentence settles something."""
    return bool(_DECISION.search(sentence)) and not sentence.rstrip().endswith("?")


def is_open(sentence: str) -> bool:
    """Whether a sentence names work that is not finished."""
    return bool(_OPEN.search(sentence))


def is_error(sentence: str) -> bool:
    """Whether a sentence reports that something went wrong."""
    return bool(_ERROR.search(sentence))


def is_lesson(sentence: str) -> bool:
    """Whether a sentence says what was learned."""
    return bool(_LESSON.search(sentence)) and not sentence.rstrip().endswith("?")


def facts_of(passages: Sequence[Passage], limits: Limits = EVERYTHING) -> Facts:
    """Everything that counts in the passages; names are ranked by use.

    Rules are taken from the user alone: text from a tool cannot bind anybody.
    """
    said = [(passage.speaker, one) for passage in passages for one in sentences(passage.text)]
    talk = [sentence for speaker, sentence in said if speaker != "tool"]
    names = _ranked_names(passages)
    return Facts(
        constraints=_unique(one for speaker, one in said if speaker == "user" and is_rule(one)),
        open_items=_unique(filter(is_open, talk)),
        decisions=_unique(filter(is_decision, talk))[: limits.decisions],
        errors=_unique(one for _, one in said if is_error(one))[: limits.errors],
        paths=names["path"][: limits.paths],
        identifiers=names["identifier"][: limits.identifiers],
        numbers=names["number"][: limits.numbers],
    )


def missing(facts: Facts, text: str) -> tuple[str, ...]:
    """Which facts do not stand in a text, whatever its case and its spaces."""
    haystack = folded(text)
    groups = (
        facts.constraints,
        facts.open_items,
        facts.paths,
        facts.identifiers,
        facts.numbers,
        facts.decisions,
        facts.errors,
    )
    return tuple(fact for group in groups for fact in group if not holds(haystack, folded(fact)))


def holds(haystack: str, needle: str) -> bool:
    """Whether a folded text contains a folded fact as a whole: 24 does not stand in 2024."""
    at = haystack.find(needle)
    while at >= 0:
        before, after = haystack[at - 1 : at], haystack[at + len(needle) : at + len(needle) + 1]
        if not (before.isalnum() and needle[:1].isalnum()) and not (
            after.isalnum() and needle[-1:].isalnum()
        ):
            return True
        at = haystack.find(needle, at + 1)
    return False


def _ranked_names(passages: Iterable[Passage]) -> dict[str, tuple[str, ...]]:
    """Names by kind: what the user said and what came up often stands first."""
    weights: dict[str, Counter[str]] = {
        "path": Counter(),
        "identifier": Counter(),
        "number": Counter(),
    }
    for passage in passages:
        weight = {"user": 4, "assistant": 2, "tool": 1}[passage.speaker]
        for kind, name in _names(passage.text):
            weights[kind][name] += weight
    return {kind: tuple(name for name, _ in found.most_common()) for kind, found in weights.items()}


def _names(text: str) -> Iterator[tuple[str, str]]:
    """Each name with its kind; what is part of a path is not counted again."""
    rest = text
    for pattern in (_URL, _PATH):
        for match in pattern.finditer(rest):
            name = match.group().rstrip(".,;:")
            if len(name) > 3 and not name.replace("/", "").isdigit():
                yield "path", name
        rest = pattern.sub(" ", rest)
    for match in _QUOTED_CODE.finditer(rest):
        yield "identifier", match.group(1).strip()
    rest = _QUOTED_CODE.sub(" ", rest)
    for match in _IDENTIFIER.finditer(rest):
        yield "identifier", match.group()
    rest = _IDENTIFIER.sub(" ", rest)
    for match in _NUMBER.finditer(rest):
        number = match.group().strip()
        if len(number) > 1:
            yield "number", number


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def folded(text: str) -> str:
    """The text for comparing: case and spacing do not count."""
    return " ".join(text.casefold().split())
