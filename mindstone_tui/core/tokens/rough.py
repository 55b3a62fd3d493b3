"""A count from characters alone, for when no vocabulary can be had. It errs high, never low."""

from __future__ import annotations

import math
import re
from typing import Final

_DENSE: Final = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
"""Runs without a gap: base64, hashes, minified code. Vocabularies know no such words."""
_WORD: Final = re.compile(r"[A-Za-z]+")
_DIGIT: Final = re.compile(r"[0-9]")
_SIGN: Final = re.compile(r"[!-/:-@\[-`{-~]|\s*\n\s*")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")

DENSE_CHARS_PER_TOKEN: Final = 1.3
CHARS_PER_TOKEN: Final = 5
"""Letters that one token of a plain word covers; a shorter word is a token of its own."""
DIGITS_PER_TOKEN: Final = 1.5
NEAR_TOKENS: Final = 0.9
"""Tokens for a letter of the European alphabets beyond ASCII."""
WIDE_TOKENS: Final = 1.7
"""Tokens for a character of any other script."""
ASTRAL_TOKENS: Final = 4.0
"""Tokens for one emoji or other character beyond the first plane."""
_LAST_EUROPEAN: Final = 0x052F


def rough_count(text: str) -> int:
    """Tokens in a text, estimated from its characters."""
    dense = sum(len(run) for run in _DENSE.findall(text))
    rest = _DENSE.sub(" ", text)
    words = sum(math.ceil(len(word) / CHARS_PER_TOKEN) for word in _WORD.findall(rest))
    digits = len(_DIGIT.findall(rest))
    signs = len(_SIGN.findall(rest))
    beyond = sum(_worth(ord(character)) for character in _BEYOND_ASCII.findall(rest))
    count = dense / DENSE_CHARS_PER_TOKEN + words + digits / DIGITS_PER_TOKEN + signs + beyond
    return max(math.ceil(count), math.ceil(len(text) / 16))


def _worth(code: int) -> float:
    if code <= _LAST_EUROPEAN:
        return NEAR_TOKENS
    return WIDE_TOKENS if code <= 0xFFFF else ASTRAL_TOKENS
