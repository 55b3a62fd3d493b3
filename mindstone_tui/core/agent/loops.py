"""Noticing that a model goes round in circles within a turn."""

from __future__ import annotations

import hashlib
from typing import Final

from mindstone_tui.core.entries import ToolCall

REPEATS: Final = 3
"""How often the same call may give the same result before it is not run again."""
CYCLES: Final = 3
"""How often the same sequence of calls and results may come round."""
LONGEST_CYCLE: Final = 4


class LoopWatch:
    """The calls of one turn and what each gave, as fingerprints."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, str]] = []

    def why_not(self, call: ToolCall) -> str | None:
        """Why a call should not run again, or None."""
        asked = _fingerprint(call.name, call.arguments)
        given = [result for name, result in self._seen if name == asked][-REPEATS:]
        if len(given) == REPEATS and len(set(given)) == 1:
            return f"{call.name} gave the same result {REPEATS} times in a row"
        for length in range(2, LONGEST_CYCLE + 1):
            recent = self._seen[-length * CYCLES :]
            period = recent[:length]
            if period and recent == period * CYCLES and period[0][0] == asked:
                return f"the same {length} calls came round {CYCLES} times"
        return None

    def note(self, call: ToolCall, result: str) -> None:
        """Remember what a call gave; another result breaks the circle."""
        self._seen.append((_fingerprint(call.name, call.arguments), _fingerprint(result)))


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
