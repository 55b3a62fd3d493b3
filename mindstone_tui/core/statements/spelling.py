"""Typed shorthand, spelled out: "dont u ever" says the same as "don't you ever"."""

from __future__ import annotations

import re
from typing import Final

_BARE: Final = re.compile(
    r"\b(?:(do|does|did|is|are|was|were|would|could|should|has|have|had|wo|ca)nt"
    r"|(i)(m|ve)|(you|they|we)(re|ve)(?<!were)|(that|what|there|here)(s))\b"
)
_MISSPELT: Final = re.compile(r"\bsh(?:ou|u)l?dl?n'?t\b")
_SHORT: Final = re.compile(r"\b(?:u|ur|b/c|w/o?|[a-z]{2,8})(?=\s|[,.;:!?)]|\Z)")
_ITS: Final = re.compile(r"\bits (?=not|a\b|the\b|still|just|actually|only|always|never|fine|ok)")
_LONG: Final = {
    "u": "you", "ur": "your", "coz": "because", "cuz": "because", "bcoz": "because",
    "b/c": "because", "gonna": "going to", "wanna": "want to", "gotta": "have to",
    "rn": "right now", "tho": "though", "ofc": "of course", "ofcourse": "of course",
    "ofcouse": "of course", "pls": "please", "plz": "please", "thx": "thanks", "lil": "little",
    "w/": "with", "w/o": "without", "idk": "i don't know",
}  # fmt: skip
_SIGNS: Final = frozenset(
    re.findall(
        r"\S+",
        """
    dont doesnt didnt isnt arent wasnt werent wouldnt couldnt shouldnt hasnt havent hadnt wont cant
    im ive youre theyre youve theyve weve thats whats theres heres its shoudln't shoudlnt shuoldnt
    shoudnt w b
    """,
    )
) | frozenset(_LONG)
"""Words that show a text to be in shorthand; most texts hold none and are left as they are."""


def spelled_out(text: str, words: frozenset[str]) -> str:
    """A lower-case text, whose words are given, with apostrophes and whole words."""
    if not words & _SIGNS:
        return text
    text = _MISSPELT.sub("shouldn't", _BARE.sub(_with_apostrophe, text))
    text = _SHORT.sub(lambda short: _LONG.get(short[0], short[0]), text)
    return _ITS.sub("it's ", text)


def _with_apostrophe(bare: re.Match[str]) -> str:
    return f"{bare[1]}n't" if bare[1] else "'".join(part for part in bare.groups() if part)
