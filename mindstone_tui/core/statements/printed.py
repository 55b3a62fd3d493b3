"""Telling what a program printed from what a person said."""

from __future__ import annotations

import re
from typing import Final

_LOOKED_AT: Final = 200
_OPENS: Final = re.compile(
    r"[⨯✖❌✗×]|\W*(?:at [\w.<>$]+ ?\(|file \"|traceback\b|error (?:code|\w+ing)\b"
    r"|failed to \w+ \w+:|\[(?:info|debug|error|warn)\b|(?:info|debug|error|warn(?:ing)?):"
    r"|\d{1,4}[-/]\d{1,2}[-/]\d{1,4}[ t]\d|\[\d\d[:/]|https?://\S+\Z|[$➜❯%#] ?\w+ |line \d+:"
    r"|<[/!]?[\w-]+|\"[\w-]+\": |[\w./-]{1,80}:\d+:\d*|[\w./-]{1,80}\.\w{1,4}:\d+\b)"
)
_HOLDS: Final = re.compile(
    r"(?:error|warning|exception): |[<>]=?\d+\.\d|\w = \w+\(|</[a-z]|[;{}]\s*\Z"
    r"|=>|:=|&&|\|\||\b(?:const|let|var|def|import|func|class) \w+ ?[=({]"
)
_CALL: Final = re.compile(r"[\w.]+\(.*\);?\Z")
_PLACE: Final = re.compile(r"\S:\d+:\d+\W*\Z")
_SIGNS: Final = frozenset(";{}=<>&|:")


def is_printed(sentence: str) -> bool:
    """Whether a program printed a line, or it stands in quotes as a whole: nobody said it."""
    start = sentence[:_LOOKED_AT].lower()
    if start[:1] in "\"'“`" and sentence.rstrip(" ,.").endswith(('"', "'", "”", "`")):
        return sentence.count(sentence[0]) <= 2
    if sentence.count('"') == 1 and sentence.endswith(('."', '!"', '?"')):
        return True  # the end of a quotation that began some sentences ago
    if _OPENS.match(start) or _CALL.match(start) or _PLACE.search(sentence[-40:]):
        return True
    if not _SIGNS.isdisjoint(start) and _HOLDS.search(start):
        return True
    if start.replace(" ", "").isalpha():
        return False
    return sum(map(str.isalpha, start)) + start.count(" ") < len(start) // 2
