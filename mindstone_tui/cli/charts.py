"""Small pictures made of characters, for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

STEPS: Final = "▁▂▃▄▅▆▇█"
_FULL, _EMPTY = "█", "·"


def line(shares: Sequence[float], width: int = 60) -> str:
    """Shares of one over time; where several fall together, the highest is shown."""
    if not shares:
        return ""
    columns = min(width, len(shares))
    edges = [at * len(shares) // columns for at in range(columns + 1)]
    tops = [max(shares[edges[at] : edges[at + 1]]) for at in range(columns)]
    last = len(STEPS) - 1
    return "".join(STEPS[round(min(max(top, 0.0), 1.0) * last)] for top in tops)


def bar(hits: int, asked: int, inside: int, width: int = 20) -> str:
    """So many of so many: full for what is at hand, lighter for what has to be brought back."""
    if not asked:
        return _EMPTY * width
    cells = round(hits / asked * width)
    at_hand = round(inside / asked * width)
    return _FULL * at_hand + "▒" * (cells - at_hand) + _EMPTY * (width - cells)
