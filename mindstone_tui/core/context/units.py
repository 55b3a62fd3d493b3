"""Exchanges, what they weigh, and which of them may not leave.

An exchange is one user message and all that belongs to its turn. Protection follows from structure
alone: no model and no text decides it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context.measure import Measured
from mindstone_tui.core.entries import Line, Span

CURRENT: Final = "current exchange"
PINNED: Final = "pinned"
RECENT: Final = "recent"
TASK: Final = "original task"


class Exchange(msgspec.Struct, frozen=True):
    """One turn's messages in the window."""

    turn: int
    lines: tuple[Line, ...]
    sizes: tuple[int, ...]
    protected: str = ""
    """Why it may not leave; empty when it may."""
    task: int | None = None
    """The message in it that states the original task and stays when the rest leaves."""

    @property
    def tokens(self) -> int:
        """Its whole weight."""
        return sum(self.sizes)

    @property
    def freed(self) -> int:
        """What the window gains when it leaves."""
        return sum(
            size for line, size in zip(self.lines, self.sizes, strict=True) if line.seq != self.task
        )

    @property
    def span(self) -> Span:
        """From its first message to its last."""
        return Span(min(line.seq for line in self.lines), max(line.seq for line in self.lines))

    @property
    def messages(self) -> int:
        """User, assistant and tool messages in it."""
        return len(self.lines)


def exchanges(measured: Measured, task: int | None = None) -> list[Exchange]:
    """The window's exchanges, oldest first."""
    grouped: dict[int, list[tuple[Line, int]]] = {}
    for piece, size in zip(measured.pieces, measured.sizes, strict=True):
        if piece.line is not None:
            grouped.setdefault(piece.line.turn, []).append((piece.line, size))
    return [
        Exchange(
            turn,
            tuple(line for line, _ in members),
            tuple(size for _, size in members),
            task=task if any(line.seq == task for line, _ in members) else None,
        )
        for turn, members in sorted(grouped.items())
    ]


def protect(
    units: Sequence[Exchange],
    *,
    current: int,
    pins: Container[int],
    min_recent: int,
    fixed: int,
    room: int,
) -> list[Exchange]:
    """Mark what may not leave: the current exchange, pins, and the recent floor.

    The recent floor is `min_recent` messages rounded out to whole exchanges, or as many exchanges
    as fit into `room` beside everything that cannot leave (`fixed`): a small window would otherwise
    prune on every turn.
    """
    reasons: dict[int, str] = {}
    held = fixed
    for unit in units:
        if unit.turn == current:
            reasons[unit.turn] = CURRENT
        elif unit.turn in pins:
            reasons[unit.turn] = PINNED
        elif unit.task is not None and unit.messages == 1:
            reasons[unit.turn] = TASK
        elif unit.task is not None:
            held += unit.tokens - unit.freed
        if unit.turn in reasons:
            held += unit.tokens
    messages = sum(unit.messages for unit in units if unit.turn == current)
    for unit in reversed(units):
        if messages >= min_recent:
            break
        if unit.turn in reasons:
            continue
        held += unit.freed
        if held > room:
            break
        messages += unit.messages
        reasons[unit.turn] = RECENT
    return [msgspec.structs.replace(unit, protected=reasons.get(unit.turn, "")) for unit in units]


def eligible(units: Iterable[Exchange]) -> list[Exchange]:
    """Those that may leave."""
    return [unit for unit in units if not unit.protected]
