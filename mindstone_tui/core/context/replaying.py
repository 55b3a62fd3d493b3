"""Requests of the past, from the transcript alone; nothing is opened for writing."""

from __future__ import annotations

from mindstone_tui.core.context.view import fold_at
from mindstone_tui.core.disk import read_blob
from mindstone_tui.core.entries import Line, Request
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.transcript import History


def rebuild(history: History, plan_line: Line) -> Request:
    """The request that a plan announced, byte for byte."""
    plan = plan_line.entry
    if not isinstance(plan, PromptPlanned):
        raise NoSuchEntry(
            f"Line {plan_line.seq} is {plan_line.kind}, not a planned request.",
            "`mindstone replay --turn N --prompt` finds the plans of a turn.",
        )
    blobs = history.places.blobs
    return fold_at(history, plan_line).request(
        plan.model,
        turn=plan_line.turn,
        tail=plan.tail,
        blob=(lambda digest: read_blob(blobs, digest)) if plan.images else None,
    )


def plans_of_turn(history: History, turn: int) -> list[Line]:
    """The plans of a turn's model calls, in order; side calls are not among them."""
    return [
        line
        for line in history.turn(turn)
        if isinstance(line.entry, PromptPlanned) and not line.entry.purpose
    ]
