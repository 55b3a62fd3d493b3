"""How fast a recording goes: what deserves a moment, and answers piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mindstone_tui.core import events as ev

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 0.0)
"""What faster and slower go through; 0 does not wait at all."""
_PIECE: Final = 24
"""Characters of an answer that come at once."""
_PAUSES: Final[dict[type[ev.AnyEvent], float]] = {
    ev.TurnStarted: 0.9,
    ev.TextDelta: 0.05,
    ev.ToolStarted: 0.4,
    ev.ToolEnded: 0.3,
    ev.RecallInjected: 0.6,
    ev.WindowPruned: 1.0,
    ev.ResultsTrimmed: 0.8,
    ev.SummaryDerived: 0.8,
    ev.TurnEnded: 0.5,
}
"""Seconds after an event, at normal speed."""


def pause_after(event: ev.AnyEvent, speed: float) -> float:
    """Seconds to wait; none where nothing is waited for at all."""
    return _PAUSES.get(type(event), 0.0) / speed if speed else 0.0


def pieces(event: ev.AnyEvent) -> Iterator[ev.AnyEvent]:
    """An answer in pieces, as it was once streamed; every other event as it is."""
    if not isinstance(event, ev.TextDelta):
        yield event
        return
    for at in range(0, len(event.text), _PIECE):
        yield ev.TextDelta(turn=event.turn, text=event.text[at : at + _PIECE])
