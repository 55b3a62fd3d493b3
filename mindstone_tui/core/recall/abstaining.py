"""When recall keeps silent: below a floor that was measured, nothing is brought back unasked.

The floor looks at the evidence of a hit alone, its words, meaning and closeness. What its
neighbours or its kind add helps to order hits, but must not carry a weak one over the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindstone_tui.core.recall.ranking import Hit

FLOOR: Final = 0.65
"""With vectors. It lets pass about one in a hundred questions on unrelated things, one in six that
other people asked about their own lives, and four in five that have an answer."""
WORDS_FLOOR: Final = 0.16
"""On words alone: about half of all that was asked for, weighed by rarity."""
BESIDE_THE_BEST: Final = 0.45
"""Once something is good enough, hits with this share of the best score may come along."""


def evidence(hit: Hit) -> float:
    """What speaks for a hit in its own text."""
    return sum(hit.parts.get(name, 0.0) for name in ("words", "meaning", "closeness"))


def good_enough(hits: Sequence[Hit], *, vectors: bool) -> bool:
    """Whether anything found is worth injecting without being asked for."""
    floor = FLOOR if vectors else WORDS_FLOOR
    return any(evidence(hit) >= floor for hit in hits[:5])


def worth_injecting(hits: Sequence[Hit], *, vectors: bool) -> list[Hit]:
    """None below the floor; else the hits that come near the best of them."""
    if not good_enough(hits, vectors=vectors):
        return []
    best = max(hit.score for hit in hits)
    return [hit for hit in hits if hit.score >= BESIDE_THE_BEST * best]
