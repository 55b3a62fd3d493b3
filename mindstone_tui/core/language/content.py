"""What a statement is about: its subject, the value it gives, what it turns down, and why."""

from __future__ import annotations

from typing import Final

import msgspec

from mindstone_tui.core.language.clause import content_words, singular
from mindstone_tui.core.language.lists import english
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.values import Value

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
