"""A statement or a request as the question that somebody would ask for it later.

What a sentence is about is taken from its own words. Where they do not name a thing or a deed by
themselves, there is no question: fewer are better than one that nobody would ask.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.language.clause import content_words, read
from mindstone_tui.core.language.lists import lists_in, verb
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import Statement, StatementKind
from mindstone_tui.core.values import Value

_FILE: Final = Path(__file__).with_name("questions.txt")
_NAME: Final = pattern_of(r"\w[._/-]\w|\d|_|`|[a-z][A-Z]|\A[A-Z]{2,}\Z")
_TYPED: Final = pattern_of(
    r">>|&&|\||\$|=|[\\{}<>@]|https?:|\.(?:png|jpe?g)\b|\b(?:error|failure|log|output)s?\Z|\w{40,}"
)
"""A command, a path of pictures or the head of a paste: nobody talks like that."""
_POLITE: Final = pattern_of(
    r"(?:(?:can|could|would|will) (?:you|we) (?:please |also |now |maybe |just )*"
    r"|(?:i(?:'d| would) like|i want|i need) you to |let'?s |please |now |also |go ahead and )+"
)
_REQUEST: Final = pattern_of(r"[,;:!?()…]+(?:\s|\Z)|\.(?:\s|\Z)|\.{2,}|\s[–—-]+\s")
_MOST_WORDS: Final = 7
_LONGEST_REQUEST: Final = 12


@cache
def _words(name: str) -> frozenset[str]:
    """The words of a list in `questions.txt`."""
    return frozenset(word for line in lists_in(_FILE)[name] for word in line.split())


@cache
def _trailing() -> frozenset[str]:
    return (_words("leading") - {"use"}) | _words("trailing")


@cache
def _between() -> re.Pattern[str]:
    """What stands between the parts of a sentence: signs, and words that are about none of them."""
    signs = r"[,;:.!?()\[\]{}<>…|]+(?=\s|\Z)|[\[\](){}|]|\s[–—=-]+>?\s|\.{2,}|…"
    words = "|".join(lists_in(_FILE)["between"])
    return re.compile(rf"{signs}|(?<![\w'-])(?:{words})(?![\w'-])", re.IGNORECASE)


class Matter(msgspec.Struct, metaclass=Value, frozen=True):
    """What a sentence is about: a deed with its object, or a thing."""

    words: str
    deed: bool

    @property
    def thing(self) -> str:
        """A deed as what a rule is about: "write code" as "writing code"."""
        if not self.deed:
            return self.words
        verb, _, rest = self.words.partition(" ")
        verb = verb.lower()
        stem = verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb
        doubled = stem[-1] if verb in _words("doubled") else ""
        return f"{stem}{doubled}ing {rest}"


def question_about(one: Statement) -> str:
    """The question whose answer is this statement; empty when its words name nothing."""
    about = matter(one.words, subject=one.kind == "correction")
    if about is None:
        return ""
    if one.kind == "commitment":
        return f"Is anybody still going to {about.words}?" if about.deed else ""
    if one.kind == "decision" and one.reason:
        return f"What did we decide about {about.thing}, and why?"
    return f"{_ASKED[one.kind]} {about.thing}?"


_ASKED: Final[dict[StatementKind, str]] = {
    "rule": "What is the rule about",
    "preference": "What do I prefer about",
    "memory": "What should be remembered about",
    "correction": "What did I correct about",
    "decision": "What did we decide about",
    "question": "What is still open about",
}


def question_of_request(said: str) -> str:
    """Ask what came of a request, when it names a deed and what it is done to."""
    core = read(said).whole.rstrip("?!. ")
    polite = _POLITE.match(core)
    asked = core[polite.end() :] if polite else core
    asked = _REQUEST.split(asked, maxsplit=1)[0].strip(" \"'`*-")
    words = asked.split()
    if len(words) < 2 or len(words) > _LONGEST_REQUEST or _TYPED.search(asked):
        return ""
    if not _deed().fullmatch(words[0]) or words[-1] in _trailing() or not _tells_enough(words[1:]):
        return ""
    if not _words("then").isdisjoint(words):
        return ""
    return f"What came of the request to {_as_written(asked, said)}?"


def matter(said: str, *, subject: bool = False) -> Matter | None:
    """What a sentence is about, as somebody would name it; None when no part of it does.

    With `subject`, what is said of its subject is no answer: it is what a question asks for.
    """
    core = (read(said).core or said).replace("`", "").replace('"', "")
    at, ordered = 0, True
    for joint in (*_between().finditer(core), None):
        part = core[at : joint.start() if joint else len(core)].strip(" \"'*-").split()
        said_of = joint is not None and joint[0].lower() in _words("says of")
        words = _trimmed(part)
        deed = words[:1] == part[:1] and ordered and not said_of and (at > 0 or _is_a_deed(words))
        words = _as_written(" ".join(words), said).split()
        if words and _names(words, deed=deed, of_something=said_of):
            return None if subject and deed else Matter(" ".join(words), deed)
        if part and subject:
            return None
        if joint is not None:
            word = joint[0].lower()
            ordered = (
                (ordered and word in _words("carries"))
                or word in _words("orders")
                or word in ("make sure", "be sure")
                or word.endswith("'ll")
            )
            at = joint.end()
    return None


def _names(words: list[str], *, deed: bool, of_something: bool) -> bool:
    """Whether words name a deed with its object, or a thing that somebody knows by them."""
    lowered = [word.lower() for word in words]
    if (
        _TYPED.search(" ".join(words))
        or lowered[0] in _words("tells")
        or not _words("vague").isdisjoint(lowered)
    ):
        return False
    if deed:
        return len(words) > 1 and not lowered[0].endswith(("ing", "ed")) and _tells(words[1:])
    if not _words("told").isdisjoint(lowered[1:]) or (
        lowered[0].endswith("ed") and lowered[1:2] == ["the"]
    ):
        return False
    if len(words) == 1:
        name = _NAME.search(words[0]) is not None or words[0][0].isupper()
        return name and not words[0].isdigit()
    if lowered[0] in _words("kept") and len(words) == 2:
        return of_something and len(words[1]) > 3
    return _tells_enough(words)


def _is_a_deed(words: list[str]) -> bool:
    return bool(words) and _deed().fullmatch(words[0].lower()) is not None


@cache
def _deed() -> re.Pattern[str]:
    return re.compile(verb())


def _trimmed(words: list[str]) -> list[str]:
    """Words without those that only lead to a thing or away from it; a long one ends at a joint."""
    article = ""
    while words and words[0].lower() in _words("leading"):
        article = words[0].lower() if words[0].lower() in _words("kept") else ""
        words = words[1:]
    words = [article, *words] if article and words else words
    if len(words) > _MOST_WORDS:
        joints = [at for at in range(3, _MOST_WORDS) if words[at].lower() in _words("joints")]
        words = words[: joints[-1]] if joints else []
    while words and words[-1].lower() in _trailing():
        words = words[:-1]
    return words


def _tells(words: list[str]) -> bool:
    """Whether one of them carries meaning."""
    telling = content_words(" ".join(words).lower())
    return any(word not in _words("vague") and len(word) > 2 for word in telling)


def _tells_enough(words: list[str]) -> bool:
    """Two words that carry meaning, or a name."""
    telling = [one for one in content_words(" ".join(words).lower()) if one not in _words("vague")]
    return len(telling) > 1 or any(_NAME.search(word) and not word.isdigit() for word in words)


def _as_written(part: str, said: str) -> str:
    """A part of a folded sentence with the capitals that it had; a first word loses its own."""
    at = said.lower().find(part.lower())
    if at < 0:
        return part
    found = said[at : at + len(part)]
    first = found.partition(" ")[0]
    return found[:1].lower() + found[1:] if first[1:].islower() and at == 0 else found
