"""What a statement is about: its subject, the value it gives, what it turns down, and why."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.values import Value
from mindstone_tui.core.words import tokens_of

_STOP: Final = frozenset(
    re.findall(
        r"\S+",
        """
    a about actually after again all also always am an and any anymore anything anyway are
    as at back be because been before being both but by can can't cannot could did didn't do does
    doesn't doing don't done each either else ever every everything fine for from get gets getting
    go goes going gonna got had has have having he her here him his how i i'd i'll i'm i've if in
    instead into is isn't it it's its just keep kind know lets let let's like longer lot make makes
    making many may maybe me mean might mine more most much must my need needs never no nope nor not
    nothing now of off ok okay on once one ones only or other our out over own please prefer rather
    really right said same say shall she should shouldn't so some something sort still stuff such
    sure take than that that's the their them then there there's these they they're thing things
    think this those though to too try under until up us use used uses using very want wants was
    way we we'd we'll we're we've well were what when where whether which while who why will with
    without won't would wouldn't wrong yeah yes yet you you'd you'll you're you've your yours mix
    mixed happen happens correct correction true yup nah hey remember forget mind note forward
    future circumstances rule rules free okay switch stick settle settled choose chose decided
    decide agreed since
    """,
    )
)
_FRAME_VERBS: Final = frozenset(
    re.findall(
        r"\S+",
        "listen run live sit stand stay remain set point bind serve start work come belong equal"
        " read reject rejected drop dropped skip skipped change replace move migrate",
    )
)
"""Verbs that say where or how a thing is, and not which thing."""
_ONE_VALUED: Final = frozenset(
    re.findall(
        r"\S+",
        "name title port version language deadline database branch licence license url host"
        " hostname domain address timeout limit colour color default budget timezone currency",
    )
)
"""What a thing has one of, so that a second value puts an end to the first."""

_END: Final = (
    r"(?=[,;:!?]|\.(?:\s|\Z)|\s(?:because|since|so|but|as|in order|for now|and|when|if|unless|where"
    r"|anymore|any more|until|please|again|now|instead|yet|either|from now on|to avoid)\b"
    r"|\s[–—-]|\s?\(|\Z)"
)
_THING: Final = r"(?:the |a |an |any |our |my |your |using |to use |of )*([^,;:!?]{2,80}?)"
_REJECTED: Final = pattern_of(
    r"\b(?:instead of|rather than|no longer (?:use|want|need)"
    r"|not (?:going to )?(?:use|using)|(?:don't|do not|won't) (?:want|need|use)"
    r"|stop using|avoid(?: using)?|no need (?:for|to use)|forget(?: about)?|drop|ditch|scrap|skip"
    r"|get rid of|reject(?:ed)?|move away from"
    r"|(?:switch|move|migrate|change)(?:d|ing)? from|over)\s+"
    + _THING
    + _END
    + r"|\b([\w.+#/-]{2,40}(?: [\w.+#/-]{2,40})?) (?:is|was|are|were|has been|have been) (?:now )?"
    r"(?:rejected|dropped|out\b|off the table|ruled out|abandoned|gone)"
    r"|,? (?:and )?not (?!sure|only|yet|so|to|the case|just)" + _THING + _END
)
_CHOSEN: Final = pattern_of(
    r"\b(?:use|using|go(?:ing)? (?:with|for)|stick(?:ing)? (?:with|to)|switch(?:ing)?(?: back)? to"
    r"|settled? on|opt(?:ed)? for|pick(?:ed)?|choose|chose|chosen|prefer|take|migrate to"
    r"|mov(?:e|ing|ed) to|decided on|stay with)\s+"
    + _THING
    + r"(?:\s(?:for|as|in|on|to|with|inside)\s(?:the |a |an |our |my |all |every |any |each )*"
    r"([^,;:!?]{2,60}?))?" + _END
)
_FRAME: Final = pattern_of(
    r"\b(?:(answer|reply|respond|speak)(?:s|ing)?(?: to me| me)? in|(call|address) me(?: as)?) "
    + _THING
    + _END
)
_NAMED: Final = pattern_of(
    r"(?:\A|[,;:] *|\bthat )(?:(?:actually|no),? )?((?:[\w`'./@#+-]+ ){1,8}?)"
    r"(?:is|are|was|were|should be|must be|will be|shall be|=|listens? (?:on|at)|runs? (?:on|at)"
    r"|lives? (?:in|at|on|under)|sits? (?:in|at|on)|goes (?:to|in|into)|stands? (?:in|at)"
    r"|belongs? (?:in|to)|uses?|returns?)"
    r"(?: (?:actually|now|really|still|on|at|in|port|called|named|set to|to be|the|a|an|of type))*"
    r" ([^,;!?]{1,80}?)" + _END
)
_NUMBER: Final = pattern_of(
    r"(?<![\w.#-])(?:v?\d[\d.,:]*\d|\d)(?:%|[a-z]{1,3})?(?![\w-])|#[0-9a-f]{3,8}\b"
)
_REASON: Final = pattern_of(
    r"(?:,? (?:because(?: of)?|since|as it|as they|as we|due to|so that|in order to|'?cause"
    r"|given that|reason being|the reason is|to (?:avoid|match|prevent))\b|[,;:]? ?\breason: )"
    r"\s*(.{3,300})"
)
_SO: Final = pattern_of(
    r"^(.{8,200}?),? so (?:we|let's|i|use|the|option|it|that|go|drop|keep|no|don't)\b"
)


class Content(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """The parts of a statement."""

    subject: tuple[str, ...]
    slot: tuple[str, ...]
    value: tuple[str, ...]
    rejected: tuple[str, ...]


def content_words(text: str) -> tuple[str, ...]:
    """The words of a lower-case text that carry meaning, folded, each once, in their order."""
    found = (_folded(token) for token in tokens_of(text) if token not in _STOP)
    return tuple(dict.fromkeys(word for word in found if word and word not in _STOP))


def topic(text: str) -> tuple[str, ...]:
    """The same without the verbs that say where or how a thing is."""
    return tuple(word for word in content_words(text) if word not in _FRAME_VERBS)


def _folded(token: str) -> str:
    word = token.strip(".'-:/").removesuffix("'s")
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word


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
    rest = _REJECTED.sub(" ", text) if rejected else text
    slot, value = _slot(rest, corrects)
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
        numbers = numbers_in(chosen[1])
        if numbers:
            return (*(word for word in value if word not in numbers), *scope), numbers
        return scope, value
    if named := _NAMED.search(text):
        slot, value, numbers = topic(named[1]), topic(named[2]), numbers_in(named[2])
        if slot and numbers:
            return slot, numbers
        if slot and value and (corrects or not _ONE_VALUED.isdisjoint(slot)):
            return slot, value
    return (), ()


def numbers_in(text: str) -> tuple[str, ...]:
    """The numbers, versions and colours in a lower-case text."""
    return tuple(dict.fromkeys(_folded(found) for found in _NUMBER.findall(text)))


def reason_of(sentence: str) -> str:
    """Why, in the words of the sentence; empty when it gives none."""
    lowered = sentence.lower()
    if len(lowered) != len(sentence):  # a few capitals grow when they are lowered
        return ""
    found = _REASON.search(lowered) or _SO.search(lowered)
    return sentence[found.start(1) : found.end(1)].strip().rstrip(".") if found else ""
