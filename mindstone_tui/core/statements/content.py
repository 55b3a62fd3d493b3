"""What a statement is about: its subject, what it says of it, what it turns down, and why."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mindstone_tui.core.values import Value

_TOKEN: Final = re.compile(r"[^\W_](?:[\w./#@+:'-]*\w)?|#\w+|\w")
_STOP: Final = frozenset(
    """
    a about actually after again all also always am an and any anymore anything anyway are as at back
    be because been before being both but by can can't cannot could did didn't do does doesn't doing
    don't done each either else ever every everything for from get gets getting go goes going gonna
    got had has have having he her here him his how i i'd i'll i'm i've if in instead into is isn't it
    it's its just keep kind know lets let let's like lot make makes making many may maybe me mean
    might mine more most much must my need needs never no nope nor not nothing now of off ok okay on
    once one ones only or other our out over own please prefer rather really right said same say
    shall she should shouldn't so some something sort still stuff such sure take than that that's the
    their them then there there's these they they're thing things think this those though to too try
    under until up us use used uses using very want wants was way we we'd we'll we're we've well were
    what when where whether which while who why will with without won't would wouldn't wrong yeah yes
    yet you you'd you'll you're you've your yours mix mixed happen happens correct correction true
    yup nah hey remember forget mind note from forward future circumstances
    """.split()
)
_FRAME_VERBS: Final = frozenset(
    "listen run live sit stand stay remain set point bind serve start work come belong equal read"
    " reject drop skip rejected dropped skipped switch change replace".split()
)
"""Verbs that say where or how a thing is, and not which thing."""
_BREAK: Final = r"(?=[,;:!?]|\.(?:\s|\Z)|\s(?:because|since|so|but|as|in order|for now|and|when|if|unless|where|anymore|any more|until|please|again|now|instead|yet|either)\b|\s[–—-]|\s?\(|\Z)"
_OBJECT: Final = r"(?:the |a |an |any |our |my |your |using |have |to use |of )*([^,;:!?]{2,80}?)"
_REJECTED: Final = re.compile(
    r"\b(?:instead of|rather than|no longer (?:use|want|need)|not (?:going to |gonna )?(?:use|using)|don't (?:want|need|use)|do not (?:want|need|use)"
    r"|won't (?:use|need|want)|stop using|avoid(?: using)?|no need (?:for|to use)|forget(?: about)?|drop|ditch|scrap|skip|get rid of|reject(?:ed)?"
    r"|move away from|(?:switch|move|migrate|change)(?:d|ing)? from|over)\s+" + _OBJECT + _BREAK
    + r"|\b([\w.+#/-]{2,40}(?: [\w.+#/-]{2,40})?) (?:is|was|are|were|gets|has been|have been) (?:now )?(?:rejected|dropped|out\b|off the table|ruled out|discarded|abandoned|gone)"
    + r"|,? (?:and )?not (?!sure|only|yet|so|to|the case|just)" + _OBJECT + _BREAK
)
_CHOSEN: Final = re.compile(
    r"\b(?:use|using|go(?:ing)? with|stick(?:ing)? with|switch(?:ing)?(?: over| back)? to|settle(?:d)? on|opt(?:ed)? for|pick(?:ed)?|choose|chose|chosen|prefer|take|migrate to"
    r"|move to|moving to|moved to|decided on|go(?:ing)? for|answer(?:s)?(?: me)? in|reply in|respond in|write in|call me|address me as|stay with|keep)\s+"
    + _OBJECT
    + r"(?:\s(?:for|as|in|on|to|when|with|whenever|everywhere|inside)\s(?:the |a |an |our |my |all |every |any |each )*([^,;:!?]{2,60}?))?"
    + _BREAK
)
_FRAME: Final = re.compile(
    r"\b(answers?(?: me)? in|reply in|respond in|call me|address me as)\b"
)
_COPULA: Final = re.compile(
    r"(?:\A|[,;:] *|\bthat )(?:(?:actually|no),? )?((?:[\w`'./@#+-]+ ){1,8}?)"
    r"(?:is|are|was|were|isn't|should be|must be|will be|shall be|=|listens? (?:on|at)|runs? (?:on|at)|lives? (?:in|at|on|under)|sits? (?:in|at|on)|goes (?:to|in|into)|stands? (?:in|at)|uses?|needs?|becomes?|belongs? (?:in|to))"
    r"(?: (?:actually|now|really|still|on|at|in|port|called|named|set to|to be|the|a|an|of type))* ([^,;!?]{1,80}?)" + _BREAK
)
_NUMBER: Final = re.compile(r"(?<![\w.#])(?:v?\d[\d.,:]*\d|\d)(?:%|[a-z]{1,3})?(?![\w])|#[0-9a-f]{3,8}\b|\b[0-9a-f]{6}\b")
_REASON: Final = re.compile(
    r"(?:,? (?:because(?: of)?|since|as it|as they|as we|due to|so that|in order to|'?cause|given that|reason being|the reason is|for the sake of|to (?:avoid|match|prevent|make sure|ensure|keep))\b|[,;:]? ?\breason: )\s*(.{3,300})",
)
_SO: Final = re.compile(r"^(.{8,200}?),? so (?:we|let's|i|use|the|option|it|that|go|drop|keep|no|don't)\b")


class Content(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """The parts of a statement."""

    subject: tuple[str, ...]
    value: tuple[str, ...]
    rejected: tuple[str, ...]


def content_words(text: str) -> tuple[str, ...]:
    """The words that carry meaning, folded, each once, in their order."""
    found = (_folded(token) for token in _TOKEN.findall(text) if token not in _STOP)
    return tuple(dict.fromkeys(word for word in found if word and word not in _STOP))


def _folded(token: str) -> str:
    word = token.strip(".'-:/").removesuffix("'s")
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word


def _topic(text: str) -> tuple[str, ...]:
    return tuple(word for word in content_words(text) if word not in _FRAME_VERBS)


def parts(text: str) -> Content:
    """Take a lower-case sentence apart into what it is about and what it says."""
    rejected = _rejected(text)
    subject, value = _about(_without_rejected(text))
    if not subject and not value:
        subject = tuple(word for word in _topic(text) if word not in rejected)
    return Content(
        subject=subject,
        value=tuple(word for word in value if word not in rejected),
        rejected=rejected,
    )


def _rejected(text: str) -> tuple[str, ...]:
    found = (match[1] or match[2] or match[3] for match in _REJECTED.finditer(text))
    return tuple(dict.fromkeys(word for phrase in found if phrase for word in _topic(phrase)))


def _without_rejected(text: str) -> str:
    return _REJECTED.sub(" ", text) if _REJECTED.search(text) else text


def _about(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if chosen := _CHOSEN.search(text):
        return _of_choice(text, chosen)
    if copula := _COPULA.search(text):
        subject, value = _topic(copula[1]), _topic(copula[2])
        if subject and value:
            numbers = _numbers(copula[2])
            if numbers:
                rest = tuple(word for word in value if word not in numbers and word == "port")
                return (*subject, *(word for word in rest if word not in subject)), numbers
            return subject, value
    numbers = _numbers(text)
    if numbers:
        return tuple(word for word in _topic(text) if word not in numbers), numbers
    return (), ()


def _of_choice(text: str, chosen: re.Match[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """ "Use X for Y": Y is the subject and X what is said of it."""
    frame = _FRAME.search(text)
    value = _topic(chosen[1])
    scope = _topic(chosen[2] or "")
    if frame:
        return (frame[1].split()[0].rstrip("s"), *scope), value
    numbers = _numbers(chosen[1])
    if numbers:
        nouns = tuple(word for word in value if word not in numbers)
        return (*nouns, *scope), numbers
    return scope, value


def _numbers(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_folded(found) for found in _NUMBER.findall(text)))


def reason_of(sentence: str) -> str:
    """Why, in the words of the sentence; empty when it gives none."""
    lowered = sentence.lower()
    if len(lowered) != len(sentence):
        return ""
    if found := _REASON.search(lowered):
        return sentence[found.start(1) : found.end(1)].strip().rstrip(".")
    if found := _SO.search(lowered):
        return sentence[found.start(1) : found.end(1)].strip()
    return ""
