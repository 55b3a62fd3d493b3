"""A count from characters alone, for when no vocabulary can be had. It errs high, never low."""

from __future__ import annotations

import math
import re
from typing import Final

_DENSE: Final = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
"""Runs without a gap: base64, hashes, minified code. Vocabularies know no such words."""
_PLAIN: Final = re.compile(r"[\x00-\x7f]")
_SIGN: Final = re.compile(r"[0-9]|[^\w\s]", re.ASCII)

CHARS_PER_TOKEN: Final = 3.0
DENSE_CHARS_PER_TOKEN: Final = 1.3
WIDE_TOKENS: Final = 1.5
"""Tokens for one character outside ASCII: CJK and rare scripts cost more than one each."""
ASTRAL_TOKENS: Final = 4.0
"""Tokens for one emoji or other character beyond the first plane."""


def rough_count(text: str) -> int:
    """Tokens in a text, estimated from its characters."""
    if not text:
        return 0
    dense = sum(len(run) for run in _DENSE.findall(text))
    rest = _DENSE.sub(" ", text)
    plain = _PLAIN.sub("", rest)
    astral = sum(1 for character in plain if ord(character) > 0xFFFF)
    narrow = len(rest) - len(plain)
    signs = len(_SIGN.findall(rest)) - len(plain)
    return math.ceil(
        dense / DENSE_CHARS_PER_TOKEN
        + max(narrow / CHARS_PER_TOKEN, signs * 0.9 + (narrow - signs) / 4.5)
        + (len(plain) - astral) * WIDE_TOKENS
        + astral * ASTRAL_TOKENS
    )
