"""A statement or a request as the question that somebody would ask for it later.

What a sentence is about is taken from its own words. Where they do not name a thing or a deed by
themselves, there is no question: fewer are better than one that nobody would ask.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import msgspec

from mindstone_tui.core.language.clause import content_words, read
from mindstone_tui.core.language.lists import verb
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import Statement, StatementKind
from mindstone_tui.core.values import Value


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PARTS: Final = pattern_of(
    r"[,;:.!?()\[\]{}<>…|]+(?=\s|\Z)|[\[\](){}|]|\s[–—=-]+>?\s|\.{2,}|…"
    r"|(?<![\w'-])(?:must(?:n't)?|should(?:n't)?|shall|is(?:n't)?|are(?:n't)?|was(?:n't)?|were"
    r"|do(?:es)?(?:n't)?|did(?:n't)?|has|have|had|can(?:'t|not)?|could|will|won't|would|may|might"
    r"|needs?|never|always|only|which|when|whenever|while|where|if|so|because|since|but|instead"
    r"|and|or|then|than|unless|until|please|make sure|be sure|ensure|remember|keep in mind|forget"
    r"|from now on|for now|going forward|by default"
    r"|(?:you|we|they|i|he|she)(?:'(?:m|ll|ve|d|re|s))?|(?:it|there|that|this|these|those)(?:'s)?"
    r"|let'?s|not|no|nothing|yes|actually|decided|decide|prefer|wants?|want to|also|really|now"
    r"|still|just|to be|be|been|simply|even|rather|about|as|who|what|how|why|like)(?![\w'-])",
    re.IGNORECASE,
)
"""Between these stands what a sentence is about."""
_SAYS_OF: Final = _words(
    "must mustn't should shouldn't shall is isn't are aren't was wasn't were has have had can can't"
    " cannot could will won't would may might need needs does doesn't"
)
"""After the subject of a sentence."""
_ORDERS: Final = _words(
    "must mustn't should shouldn't shall can can't cannot could will won't would may might don't"
    " do didn't doesn't never always let's lets please make sure be sure remember"
) | {"make sure", "be sure"}
"""A deed follows."""
_CARRIES: Final = _words(
    "instead just simply even really still now also then actually rather only not"
)
"""Whether a deed follows was said before them."""
_KEPT: Final = frozenset(["the", "my", "our", "all", "every", "each", "any"])
_LEADING: Final = _words(
    "the a an my our your their his her its any all some every each both more most to on for in at"
    " of by with from into over under per via too very quite using use used go going stick"
    " sticking get got getting try trying"
    " here there fucking damn stupid again back up out off down new same other"
    " own"
)
_TRAILING: Final = _LEADING - {"use"} | _words(
    "yet anymore please well anyway later soon today tomorrow either else ever once twice way"
    " manually directly already entirely completely properly correctly first next last"
)
_JOINTS: Final = _words("in on for at of by with from into under via to before after")
_VAGUE: Final = _words(
    "anything something everything stuff thing things someone anyone everyone everybody somebody"
    " them him her me us myself yourself itself one ones bit lot lots kind sort point part case"
    " sense time times day issue problem idea question answer work works working stuff lol haha"
    " ok okay yeah hey thanks sorry sure right wrong good bad nice great fine better best place"
    " places rule rules decision"
)
"""Words that name nothing by themselves."""
_TELLS: Final = _words(
    "meant said told made done went came took gave got saw seen seems seem looks look feels think"
    " thought know knew mean means says am were gets goes makes takes happens happened works"
    " worked tried wanted asked needed called"
)
"""Verbs that tell something; what they begin is no thing and no deed."""
_TOLD: Final = _words("use uses make makes get gets see want need have has add change remove put")
"""Verbs inside of what looks like a thing: it is a sentence with a slip of the finger."""
_NAME: Final = pattern_of(r"\w[._/-]\w|\d|_|`|[a-z][A-Z]|\A[A-Z]{2,}\Z")
_DOUBLED: Final = _words(
    "cut get put run set stop commit drop skip plan log ship begin format debug pin"
)
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
_MEANS_THEN: Final = _words(
    "it this that these those them they he she here there above below following attached"
)
"""Words that meant something only when they were said."""


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
        doubled = stem[-1] if verb in _DOUBLED else ""
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
    if not _deed().fullmatch(words[0]) or words[-1] in _TRAILING or not _tells_enough(words[1:]):
        return ""
    if not _MEANS_THEN.isdisjoint(words):
        return ""
    return f"What came of the request to {_as_written(asked, said)}?"


def matter(said: str, *, subject: bool = False) -> Matter | None:
    """What a sentence is about, as somebody would name it; None when no part of it does.

    With `subject`, what is said of its subject is no answer: it is what a question asks for.
    """
    core = (read(said).core or said).replace("`", "").replace('"', "")
    at, ordered = 0, True
    for joint in (*_PARTS.finditer(core), None):
        part = core[at : joint.start() if joint else len(core)].strip(" \"'*-").split()
        said_of = joint is not None and joint[0].lower() in _SAYS_OF
        words = _trimmed(part)
        deed = words[:1] == part[:1] and ordered and not said_of and (at > 0 or _is_a_deed(words))
        words = _as_written(" ".join(words), said).split()
        if words and _names(words, deed=deed, of_something=said_of):
            return None if subject and deed else Matter(" ".join(words), deed)
        if part and subject:
            return None
        if joint is not None:
            word = joint[0].lower()
            ordered = (ordered and word in _CARRIES) or word in _ORDERS or word.endswith("'ll")
            at = joint.end()
    return None


def _names(words: list[str], *, deed: bool, of_something: bool) -> bool:
    """Whether words name a deed with its object, or a thing that somebody knows by them."""
    lowered = [word.lower() for word in words]
    if _TYPED.search(" ".join(words)) or lowered[0] in _TELLS or not _VAGUE.isdisjoint(lowered):
        return False
    if deed:
        return len(words) > 1 and not lowered[0].endswith(("ing", "ed")) and _tells(words[1:])
    if not _TOLD.isdisjoint(lowered[1:]) or (lowered[0].endswith("ed") and lowered[1:2] == ["the"]):
        return False
    if len(words) == 1:
        name = _NAME.search(words[0]) is not None or words[0][0].isupper()
        return name and not words[0].isdigit()
    if lowered[0] in _KEPT and len(words) == 2:
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
    while words and words[0].lower() in _LEADING:
        article = words[0].lower() if words[0].lower() in _KEPT else ""
        words = words[1:]
    words = [article, *words] if article and words else words
    if len(words) > _MOST_WORDS:
        joints = [at for at in range(3, _MOST_WORDS) if words[at].lower() in _JOINTS]
        words = words[: joints[-1]] if joints else []
    while words and words[-1].lower() in _TRAILING:
        words = words[:-1]
    return words


def _tells(words: list[str]) -> bool:
    """Whether one of them carries meaning."""
    telling = content_words(" ".join(words).lower())
    return any(word not in _VAGUE and len(word) > 2 for word in telling)


def _tells_enough(words: list[str]) -> bool:
    """Two words that carry meaning, or a name."""
    telling = [one for one in content_words(" ".join(words).lower()) if one not in _VAGUE]
    return len(telling) > 1 or any(_NAME.search(word) and not word.isdigit() for word in words)


def _as_written(part: str, said: str) -> str:
    """A part of a folded sentence with the capitals that it had; a first word loses its own."""
    at = said.lower().find(part.lower())
    if at < 0:
        return part
    found = said[at : at + len(part)]
    first = found.partition(" ")[0]
    return found[:1].lower() + found[1:] if first[1:].islower() and at == 0 else found
