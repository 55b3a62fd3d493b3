"""Why an entry is in the window, or since when and why it is not."""

from __future__ import annotations

import msgspec

from mindstone_tui.core.context.budget import marks
from mindstone_tui.core.context.candidates import rank_exchanges
from mindstone_tui.core.context.making_room import units_of
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.units import TASK, eligible
from mindstone_tui.core.context.view import Call, View
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Left,
    Receipt,
    Rewound,
    WindowRepaired,
)


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to an entry, in one sentence and in figures."""

    seq: int
    entry: str
    turn: int
    kind: str
    in_window: bool
    why: str
    protected: bool = False
    score: float | None = None
    parts: dict[str, float] = {}
    by: int | None = None
    """The entry that decided it."""
    policy: str = ""
    receipt: Receipt | None = None


def why(view: View, call: Call, seq: int) -> Reason:
    """The reason for one entry's place."""
    line = view.history.line(seq)
    if seq in view.fold.lines:
        return _inside(view, call, line)
    if said(line) is None:
        return _plain(line, "It is bookkeeping: no prompt shows such entries.")
    return _outside(view, line)


def _inside(view: View, call: Call, line: Line) -> Reason:
    measured = view.measure(call)
    units = units_of(
        view, call, measured, marks(call.room, view.settings.context, view.settings.zones)
    )
    ranked = rank_exchanges(
        view.fold, eligible(units), view.policy, view.similar, view.settings.eviction
    )
    unit = next(unit for unit in units if unit.turn == line.turn)
    scored = next((each for each in ranked if each.candidate.key == line.turn), None)
    state = view.fold.state
    stand_in = state.trimmed.get(line.seq, state.cut.get(line.seq))
    protected = unit.protected or (TASK if line.seq == view.fold.task else "")
    text = f"It is in the window: {protected or 'nothing made it leave yet'}."
    if line.seq in state.trimmed:
        text += " The prompt shows a placeholder for it."
    elif line.seq in state.cut:
        text += " The prompt shows it shortened."
    return Reason(
        seq=line.seq,
        entry=line.id,
        turn=line.turn,
        kind=line.kind,
        in_window=True,
        why=text,
        protected=bool(protected),
        score=scored.score if scored else None,
        parts=scored.parts if scored else {},
        by=stand_in,
        policy=view.policy,
    )


def _outside(view: View, line: Line) -> Reason:
    """Read on from the entry to the decision that let it go: usually about a window's length."""
    found = _plain(line, "It is not in the window.")
    for item in view.history.read(line.seq + 1):
        if not isinstance(item, Line):
            continue
        match item.entry:
            case ContextWindowPruned(left=left, policy=policy, trigger=trigger):
                gone = next((each for each in left if _is(each, line)), None)
                if gone is not None:
                    return _left(line, item, gone, policy, trigger)
            case Rewound(to_turn=to_turn, state=state):
                if line.turn > to_turn and line.seq <= state.through:
                    text = f"The conversation was rewound to turn {to_turn}."
                    return msgspec.structs.replace(found, why=text, by=item.seq)
            case WindowRepaired(seqs=seqs, why=reason) if line.seq in seqs:
                text = f"It was left out because {reason}."
                return msgspec.structs.replace(found, why=text, by=item.seq)
            case _:
                continue
    return found


def _is(left: Left, line: Line) -> bool:
    return left.turn == line.turn or line.seq in left.span


def _left(line: Line, by: Line, gone: Left, policy: str, trigger: str) -> Reason:
    proof = "read back from the index first" if gone.receipt else "not indexed"
    return Reason(
        seq=line.seq,
        entry=line.id,
        turn=line.turn,
        kind=line.kind,
        in_window=False,
        why=f"Its exchange left the window ({trigger}: {gone.reason}), {proof}.",
        score=gone.score,
        parts=gone.parts,
        by=by.seq,
        policy=policy,
        receipt=gone.receipt,
    )


def _plain(line: Line, text: str) -> Reason:
    return Reason(
        seq=line.seq, entry=line.id, turn=line.turn, kind=line.kind, in_window=False, why=text
    )
