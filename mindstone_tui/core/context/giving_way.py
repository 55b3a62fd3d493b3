"""What gives way last before a prompt is refused: derived texts in its head.

A summary or a handoff is never the record. When neither results nor exchanges can leave any more,
these do, the oldest summary first and the handoff last; history still has what they stand for.
"""

from __future__ import annotations

import msgspec

from mindstone_tui.core.context.live import LiveWindow
from mindstone_tui.core.context.view import Call
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import HeadShortened


def shorten_head(live: LiveWindow, call: Call, target: int) -> list[Line]:
    """Let derived texts leave the head until the prompt has `target` tokens or none is left."""
    measured = live.measure(call)
    state = live.fold.state
    excess = measured.total - target
    if excess <= 0 or not live.fold.derived:
        return []
    sizes = [
        size
        for piece, size in zip(measured.pieces, measured.sizes, strict=True)
        if piece.name == "derived"
    ]
    handoff = sizes.pop(0) if state.handoff is not None else 0
    gone: list[int] = []
    freed = 0
    for seq, size in zip(state.summaries, sizes, strict=True):
        if freed >= excess:
            break
        gone.append(seq)
        freed += size
    without = state.handoff if freed < excess else None
    freed += handoff if without is not None else 0
    entry = HeadShortened(
        state=msgspec.structs.replace(
            state,
            summaries=tuple(seq for seq in state.summaries if seq not in gone),
            handoff=None if without is not None else state.handoff,
        ),
        summaries=tuple(gone),
        handoff=without,
        tokens_before=measured.total,
        tokens_after=measured.total - freed,
    )
    return [live.append(entry, call.turn)]
