"""When recall keeps silent: below a floor that was measured, nothing is brought back unasked."""

from __future__ import annotations

from collections.abc import Sequence

from mindstone_tui.core.recall.ranking import Hit


def good_enough(hits: Sequence[Hit], *, vectors: bool) -> bool:
    """Whether the best hit stands out enough to be injected without being asked for."""
    return bool(hits) and hits[0].score >= (0.5 if vectors else 0.2)
