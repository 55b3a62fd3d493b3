"""A session at a glance: where turns, requests, prunes and tools stand, and how full it was.

Read once, from the transcript alone; what is kept is a few numbers a mark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, Literal, get_args

import msgspec

from mindstone_tui.core.entries import Line, Zone, conversation, memory, window
from mindstone_tui.core.transcript import History

Kind = Literal["turn", "call", "tool", "prune", "trim", "recall", "summary", "checkpoint"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A place worth going to."""

    seq: int
    turn: int
    kind: Kind
    ts: str = ""
    utilization: float = 0.0
    zone: Zone = "green"


class Survey(msgspec.Struct, frozen=True):
    """All marks of a session, in order."""

    marks: tuple[Mark, ...]
    last: int
    turns: int
    model: str

    @property
    def calls(self) -> tuple[Mark, ...]:
        """The requests."""
        return tuple(mark for mark in self.marks if mark.kind == "call")

    def after(self, seq: int, kind: Kind) -> Mark | None:
        """The next mark of a kind behind a line."""
        at = bisect_right(self.marks, seq, key=lambda mark: mark.seq)
        return next((mark for mark in self.marks[at:] if mark.kind == kind), None)

    def before(self, seq: int, kind: Kind) -> Mark | None:
        """The newest mark of a kind in front of a line."""
        at = bisect_left(self.marks, seq, key=lambda mark: mark.seq)
        return next((mark for mark in reversed(self.marks[:at]) if mark.kind == kind), None)

    def turn(self, number: int) -> Mark | None:
        """Where a turn begins, or the next one that exists."""
        at = bisect_left(self.marks, number, key=lambda mark: mark.turn)
        return next((mark for mark in self.marks[at:] if mark.kind == "turn"), None)


def survey(history: History) -> Survey:
    """Go through a session once."""
    marks: list[Mark] = []
    last = turns = begun = 0
    model = ""
    for item in history.read():
        if not isinstance(item, Line):
            continue
        last, turns = item.seq, max(turns, item.turn)
        kind = _kind_of(item)
        if kind is None or (kind == "turn" and item.turn == begun):
            continue
        utilization, zone = 0.0, marks[-1].zone if marks else "green"
        if isinstance(item.entry, window.PromptPlanned):
            model = item.entry.model or model
            utilization = item.entry.measure.utilization if item.entry.measure else 0.0
            zone = item.entry.carried.zone if item.entry.carried else zone
        elif kind == "turn":
            begun = item.turn
        marks.append(
            Mark(
                seq=item.seq,
                turn=item.turn,
                kind=kind,
                ts=item.ts,
                utilization=utilization,
                zone=zone,
            )
        )
    return Survey(tuple(marks), last, turns, model)


def _kind_of(line: Line) -> Kind | None:
    match line.entry:
        case conversation.UserMessage():
            return "turn"
        case window.PromptPlanned(purpose=""):
            return "call"
        case conversation.ToolCalled():
            return "tool"
        case window.ContextWindowPruned():
            return "prune"
        case window.ToolResultsTrimmed():
            return "trim"
        case memory.RecallInjected():
            return "recall"
        case memory.SummaryDerived():
            return "summary"
        case memory.CheckpointSaved() | memory.HandoffWritten():
            return "checkpoint"
    return None
