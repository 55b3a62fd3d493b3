"""Numbers and nouns in the words of people."""

from __future__ import annotations


def plural(count: int, one: str, many: str = "") -> str:
    """`1 exchange`, `12 exchanges`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
