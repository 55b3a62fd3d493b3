"""A sentence as cues read it: lower case, one kind of apostrophe, without its opening noises."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mindstone_tui.core.values import Value

LONGEST_READ: Final = 1_000
"""Characters in which a sentence must have said what it settles; nobody settles anything later."""

_APOSTROPHES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "\u00a0": " "})
_BARE: Final = re.compile(
    r"\b(do|does|did|is|are|was|were|would|could|should|has|have|had|wo|ca)nt\b|\b(i)(m|ve)\b"
    r"|\b(you|they|we)(re|ve)\b(?<!were)|\b(that|what|there|here)(s)\b"
)
"""Words as people type them who leave the apostrophe out."""
_MISSPELT: Final = re.compile(r"\bsh(?:ou|u)l?dl?n'?t\b")
_SHORT: Final = re.compile(
    r"\b(?:u|ur|coz|cuz|bcoz|gonna|wanna|gotta|rn|tho|ofc|ofcourse|ofcouse|pls|plz|thx|lil|atm|afaik|imo|idk|w/o?|b/c)(?=\s|[,.;:!?)]|\Z)"
)
_LONG: Final = {
    "u": "you", "ur": "your", "coz": "because", "cuz": "because", "bcoz": "because", "b/c": "because",
    "gonna": "going to", "wanna": "want to", "gotta": "have to", "rn": "right now", "tho": "though",
    "ofc": "of course", "ofcourse": "of course", "ofcouse": "of course", "pls": "please",
    "plz": "please", "thx": "thanks", "lil": "little", "w/": "with", "w/o": "without",
    "idk": "i don't know",
}  # fmt: skip
_ITS: Final = re.compile(r"\bits (?=not|a\b|the\b|still|just|actually|only|always|never|fine|ok)")
_PLACE: Final = re.compile(r"@?[\w.~-]*[\\/][\w.\\/@~%?=&#:-]{6,}|@[\w.-]{3,}(?: \(\d+(?:-\d+)?\))?")
"""Paths and mentions: long, and full of words that nobody said."""
_ASIDE: Final = re.compile(r"(?<=[\w,]) ?\((?![^)]*\b(?:not|only|no|never|don't|always|must)\b)[^()]{1,120}\)")
"""What stands in brackets on the way does not belong to the clause around it."""
_CITED: Final = re.compile(r"\"[^\"]{24,400}\"|“[^”]{24,400}”")
"""Whole sentences between quotation marks are somebody else's."""
_EMPHASIS: Final = re.compile(r"\*{1,3}|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|~~")
_NOISES: Final = re.compile(
    r"[(]?(?:(?:i\.e\.?|e\.g\.?|that-file|anw|anyways?|c'?mon|come on|ok(?:ay)?|k+|yes|ye(?:ah|p)|yup|y|sure|so|well|h+m+|uh+|um+|oh+|ah+|also|and|but|then|now"
    r"|alright|all right|great|good|nice|cool|perfect|agreed|right|fine|please|pls|plz|honestly"
    r"|anyway|btw|by the way|thanks|thank you|hey|hi|hello|dude|my dude|man|omf?g|wow|look|listen"
    r"|lastly|finally|first(?: of all)?|second(?:ly)?|third(?:ly)?|next|plus|again|sorry|wait"
    r"|in (?:general|addition|short)|however|also note|for (?:clarity|the record)(?: though)?|of course|i think|i guess|you know what|agree|to be honest|to be precise|because|strictly|absolutely|definitely|personally|after some thought"
    r"|i suppose|presumably|maybe|just|really|seriously)\b[\s,.!:;…–—-]*)+"
)
_TAG_QUESTION: Final = re.compile(
    r"[,;.…-]? *\b(?:yeah|no|right|ok|okay|correct|agreed|make sense|wth|wtf|huh|eh|hm+|lol|isn't it|aren't we|don't we)\? *\Z"
)
_CLAUSES: Final = re.compile(r"\.{2,} *|…|; *|[,:]? +(?:but|though) +|,? +[–—-]{1,2} +|: +(?=\w)")
_MACHINE: Final = re.compile(
    r"\A\W*(?:at [\w.<>$]+ ?\(|file \"|traceback\b|error (?:code|\w+ing)\b|failed to \w+ \w+:|\[(?:info|debug|error|warn)\b|(?:info|debug|error|warn(?:ing)?):"
    r"|\d{1,4}[-/]\d{1,2}[-/]\d{1,4}[ t]\d|\[\d\d[:/]|https?://\S+\Z|[$➜❯%#] ?\w+ |line \d+:"
    r"|<[/!]?[\w-]+|\"[\w-]+\": |[\w./-]+:\d+:\d*|[\w./-]+\.\w{1,4}:\d+\b)"
    r"|\w*(?:error|warning|exception): |[<>]=?\d+\.\d|\w = \w+\(|</[a-z]|[;{}]\s*\Z|\w+\(.*\);?\Z|=>|:=|&&|\|\||\b(?:const|let|var|def|import|func|class)"
    r" \w+ ?[=({]"
)


class Clause(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What the cues look at."""

    whole: str
    """The sentence, lower case, its noises kept: "then I'll test it"."""
    core: str
    """The same without the noises it opens with and without a question at its end."""
    words: frozenset[str]
    asks: bool
    denies: bool
    """It opens by saying no to something."""
    stressed: frozenset[str]
    """Words in capitals that are usually not."""


_DENIAL: Final = re.compile(
    r"(?:no(?=[,.!;:…–—-]| (?:that|this|it|the|man|dude|i|we|you|they|there|not|don't|it's|that's)\b)"
    r"|nope|nah|(?:(?:a (?:little )?bit|quite|kinda|slightly|completely|totally|all) )?(?:wrong|incorrect|not (?:quite|true|correct|right|exactly|it|really))(?=[,.!;:…–—-]))"
    r"[\s,.!;:…–—-]*(?:(?:man|dude|wait|sorry)\b[\s,.!]*)?"
)
_WORD: Final = re.compile(r"[a-z][a-z']*")
_STRESSED: Final = re.compile(r"\b(?:NEVER|ALWAYS|MUST|ONLY|NOT|DON'T|NO|EVERY|ALL|DO NOT)\b")


def read(sentence: str) -> Clause:
    """Take a sentence apart for the cues; only its first thousand characters count."""
    said = " ".join(sentence[:LONGEST_READ].translate(_APOSTROPHES).split())
    if "*" in said or "_" in said or "~" in said:
        said = _EMPHASIS.sub("", said)
    plain = _PLACE.sub("that-file", _CITED.sub("that", said))
    whole = _spelled_out((_ASIDE.sub("", plain) if "(" in plain else plain).lower())
    asks = whole.rstrip(" )\"'").endswith(("?", "？", "؟"))
    core = whole
    if asks:
        core = _without_question(whole)
    core = _stripped(core)
    denial = _DENIAL.match(core)
    return Clause(
        whole=whole,
        core=core,
        words=frozenset(_WORD.findall(whole)),
        asks=asks,
        denies=denial is not None,
        stressed=frozenset(_STRESSED.findall(said)) if not said.isupper() else frozenset(),
    )


def _spelled_out(text: str) -> str:
    text = _BARE.sub(_with_apostrophe, text)
    text = _MISSPELT.sub("shouldn't", text)
    text = _SHORT.sub(lambda short: _LONG.get(short[0], short[0]), text)
    return _ITS.sub("it's ", text)


def _with_apostrophe(bare: re.Match[str]) -> str:
    if bare[1]:
        return f"{bare[1]}n't"
    parts = [part for part in bare.groups() if part]
    return "'".join(parts)


def _stripped(text: str) -> str:
    noises = _NOISES.match(text)
    return text[noises.end() :] if noises else text


def _without_question(whole: str) -> str:
    """What a sentence says before it asks; a question tag takes nothing back."""
    if tag := _TAG_QUESTION.search(whole):
        return whole[: tag.start()]
    last = None
    for found in _CLAUSES.finditer(whole):
        last = found
    return whole[: last.start()] if last else ""


def after_denial(core: str) -> str:
    """What follows the "no" that a sentence opens with."""
    denial = _DENIAL.match(core)
    return _stripped(core[denial.end() :]) if denial else core


def from_a_machine(sentence: str) -> bool:
    """Whether a line was printed by a program or stands in quotes as a whole: nobody said it."""
    start = sentence[:200].lower()
    if start[:1] in "\"'“`" and sentence.rstrip(" ,.").endswith(("\"", "'", "”", "`")):
        return sentence.count(sentence[0]) <= 2
    if _MACHINE.search(start):
        return True
    letters = sum(map(str.isalpha, start)) + start.count(" ")
    return letters < 0.5 * len(start)
