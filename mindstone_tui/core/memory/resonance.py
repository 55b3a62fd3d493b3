"""How much a memory has to say now: likeness first, then use, kind and age."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from mindstone_tui.core.entries import Part
from mindstone_tui.core.memory.files import Memory

LIKENESS: Final = 0.76
KIND_WEIGHT: Final = {
    "preference": 0.06,
    "lesson": 0.06,
    "decision": 0.05,
    "procedure": 0.05,
    "project": 0.04,
    "fact": 0.03,
    "reference": 0.02,
}
CRITICAL: Final = 0.08
EVERGREEN: Final = 0.03
MOST_USE: Final = 0.06
RECENT: Final = 0.04


class Resonance(Part):
    """A score between 0 and 1, and what it is made of."""

    total: float
    parts: dict[str, float]


def resonance(memory: Memory, likeness: float, now: datetime) -> Resonance:
    """Weigh a memory; a prevented mistake counts three times a mere use."""
    use = 0.02 * math.log1p(memory.hits + 3 * memory.prevented)
    half_life = max(memory.half_life_days, 0.01)
    fading = 1.0 if memory.evergreen else 0.5 ** min(1_000.0, age_days(memory, now) / half_life)
    parts = {
        "likeness": LIKENESS * max(0.0, min(1.0, likeness)),
        "kind": KIND_WEIGHT[memory.kind],
        "critical": CRITICAL * memory.critical,
        "evergreen": EVERGREEN * memory.evergreen,
        "use": min(MOST_USE, use),
        "age": RECENT * fading,
    }
    return Resonance(total=min(1.0, sum(parts.values())), parts=parts)


def age_days(memory: Memory, now: datetime) -> float:
    """Days since it was last applied, or made; 0 when nobody knows."""
    try:
        then = datetime.fromisoformat(memory.last_applied or memory.created)
        return max(0.0, (now - then).total_seconds() / 86_400)
    except (ValueError, TypeError):
        return 0.0
