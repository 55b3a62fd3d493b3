"""One look over a text that finds every place where a secret could begin.

Most texts hold none, so this look decides the speed. The text becomes bytes, one for each character
and each in its place, and only what runs at the speed of memory is done to all of them: literals
are found, and stretches of twenty or more letters and digits. Patterns are tried at these places
alone.
"""

from __future__ import annotations

__all__ = ["LEAST_RUN", "Scan"]

LEAST_RUN = 20
"""No format has a shorter unbroken stretch."""

_SMALL, _CAPITAL = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SNAKE, _CAMEL = _SMALL + b"_-+/", _SMALL + _CAPITAL + b"+/"
_MANY_CAPITALS = 6
_RUN_SIGNS = _SNAKE + _CAPITAL + b"0123456789"
_SHADE = bytes(120 if sign in _RUN_SIGNS else 32 for sign in range(256))
_LONG, _GAP = b"x" * LEAST_RUN, b" "


class Scan:
    """A text, and what one look over all of it shows."""

    def __init__(self, text: str) -> None:
        self.text = text
        octets = text.encode("latin-1", "replace")
        self.low = octets.lower().decode("latin-1")
        """The text in lower case, each sign in its place; "?" for those beyond Latin."""
        self.runs = _runs(octets) if len(octets) >= LEAST_RUN else []
        self._places: dict[str, list[int]] = {}

    def places(self, literal: str) -> list[int]:
        """Where a literal, given in lower case, stands in any case."""
        if literal not in self._places:
            self._places[literal] = places = []
            find = self.low.find
            place = find(literal)
            while place >= 0:
                places.append(place)
                place = find(literal, place + 1)
        return self._places[literal]

    @property
    def longest_run(self) -> int:
        """The length of the longest of the runs; 0 where there is none."""
        return max((end - start for start, end in self.runs), default=0)


def _runs(octets: bytes) -> list[tuple[int, int]]:
    """Every longest stretch of letters, digits and "_-+/" that could hold a token.

    Names and paths are left out: without a digit, a token has many capitals and a joint.
    """
    found = []
    find = octets.translate(_SHADE).find
    start = find(_LONG)
    while start >= 0:
        end = find(_GAP, start + LEAST_RUN)
        if end < 0:
            end = len(octets)
        run = octets[start:end]
        telling = run.translate(None, _SNAKE)
        if telling and (
            not telling.isalpha()
            or (len(telling) >= _MANY_CAPITALS and run.translate(None, _CAMEL))
        ):
            found.append((start, end))
        start = find(_LONG, end)
    return found
