"""Shorter texts that say so and never tear a character apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final

Count = Callable[[str], int]

_JOINER: Final = "\u200d"
_TRIES: Final = 12


def boundary(text: str, at: int) -> int:
    """The nearest place at or before `at` where no visible character is torn apart."""
    at = min(max(at, 0), len(text))
    while 0 < at < len(text) and _joined(text[at - 1], text[at]):
        at -= 1
    return at


def _joined(before: str, after: str) -> bool:
    """Whether two neighbours are one character for a reader."""
    return (
        after == _JOINER
        or before == _JOINER
        or bool(unicodedata.combining(after))
        or unicodedata.category(after) in ("Mn", "Me", "Mc")
        or 0x1F3FB <= ord(after) <= 0x1F3FF  # skin tones
        or (_is_flag(before) and _is_flag(after))
        or (before == "\r" and after == "\n")
    )


def _is_flag(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def head(text: str, length: int) -> str:
    """At most the first `length` characters."""
    return text[: boundary(text, length)]


def tail(text: str, length: int) -> str:
    """At most the last `length` characters."""
    at = len(text) - length
    if at <= 0:
        return text
    while at < len(text) and _joined(text[at - 1], text[at]):
        at += 1
    return text[at:]


def one_line(text: str, tokens: int, count: Count) -> str:
    """A text as one line of at most so many tokens."""
    line = " ".join(text.split())
    length = min(len(line), tokens * 8)
    for _ in range(_TRIES):
        shorter = head(line, length)
        said = shorter if len(shorter) == len(line) else shorter.rstrip() + "…"
        if count(said) <= tokens:
            return said
        length = min(length - 1, int(length * 0.8))
    return ""


def shorten(text: str, tokens: int, count: Count, note: Callable[[int], str]) -> str:
    """Beginning and end of a text in at most so many tokens, with a note of what is missing.

    `note` is told how many characters were taken out.
    """
    whole = count(text)
    if whole <= tokens:
        return text
    room = max(tokens - count(note(len(text))) - 2, 0)
    length = int(len(text) * room / max(whole, 1))
    for _ in range(_TRIES):
        start, end = head(text, length * 2 // 3), tail(text, length // 3)
        said = f"{start}\n{note(len(text) - len(start) - len(end))}\n{end}"
        if length <= 0 or count(said) <= tokens:
            return said.strip()
        length = int(length * 0.85)
    return note(len(text))
