"""What a person does to the window: prune, pin, unpin, restore, rewind. Each is an entry.

Each can be undone by another: a pin by an unpin, a prune or a rewind by a restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mindstone_tui.core.context import budget
from mindstone_tui.core.context.candidates import rank_exchanges
from mindstone_tui.core.context.indexing import ExchangeLines, proven
from mindstone_tui.core.context.live import LiveWindow
from mindstone_tui.core.context.making_room import Pruned, prune, trim
from mindstone_tui.core.context.measure import Ledger
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.pruning import after_returning, marker_text
from mindstone_tui.core.context.spans import merged, single
from mindstone_tui.core.context.units import Exchange, eligible, exchanges, protect
from mindstone_tui.core.context.view import Call
from mindstone_tui.core.context.window import Placed
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import (
    Outside,
    Pinned,
    Receipt,
    Restored,
    Rewound,
    Unpinned,
)
from mindstone_tui.core.errors import DoesNotFit, NoSuchEntry, RecallError, WindowError


async def prune_by_hand(
    live: LiveWindow,
    call: Call,
    *,
    count: int | None = None,
    to_percent: float | None = None,
    turns: Sequence[int] | None = None,
) -> Pruned:
    """Let a number of exchanges leave, or as many as a fullness asks for, or those that are named.

    The recent floor does not bind a person; pins, the current exchange and the index do.
    """
    measured = live.measure(call)
    units = _units(live, call)
    if turns is not None:
        chosen = _named(units, turns)
        return await prune(live, call, measured, chosen, -1, "manual")
    ranked = rank_exchanges(
        live.fold, eligible(units), live.policy, live.similar, live.settings.eviction
    )
    target = call.room.tokens(live.settings.context.floor if to_percent is None else to_percent)
    if count is not None:
        ranked, target = ranked[: max(count, 0)], -1
    return await prune(live, call, measured, units, target, "manual", ranked=ranked)


def trim_by_hand(live: LiveWindow, call: Call) -> list[Line]:
    """Turn every older tool result into a placeholder now, whatever the marks say."""
    marks = budget.marks(call.room, live.settings.context, live.settings.zones)
    now = msgspec.structs.replace(marks, trim=-1, trim_to=0)
    return trim(live, call, now, trigger="manual")


def _units(live: LiveWindow, call: Call) -> list[Exchange]:
    return protect(
        exchanges(live.measure(call), live.fold.task),
        current=call.turn,
        pins=live.fold.state.pins,
        min_recent=0,
        fixed=0,
        room=0,
    )


def _named(units: Sequence[Exchange], turns: Sequence[int]) -> list[Exchange]:
    by_turn = {unit.turn: unit for unit in units}
    for turn in turns:
        if turn not in by_turn:
            raise NoSuchEntry(
                f"Turn {turn} is not in the window.", "/context shows the turns that are."
            )
        if by_turn[turn].protected:
            raise WindowError(
                f"Turn {turn} may not leave: {by_turn[turn].protected}.",
                "Unpin it first with /unpin, or choose another.",
            )
    return [by_turn[turn] for turn in dict.fromkeys(turns)]


def pin(live: LiveWindow, call: Call, turn: int, why: str = "") -> list[Line]:
    """Keep an exchange in the window; one that has left is brought back first."""
    if turn in live.fold.state.pins:
        return []
    lines = [] if _whole(live, turn) else restore(live, call, [turn])
    tokens = sum(unit.tokens for unit in _units(live, call) if unit.turn == turn)
    state = live.fold.state
    pins = tuple(sorted({*state.pins, turn}))
    entry = Pinned(
        pinned_turn=turn, state=msgspec.structs.replace(state, pins=pins), tokens=tokens, why=why
    )
    return [*lines, live.append(entry)]


def unpin(live: LiveWindow, turn: int) -> Line:
    """Let an exchange leave again when its time comes."""
    state = live.fold.state
    if turn not in state.pins:
        raise NoSuchEntry(f"Turn {turn} is not pinned.", "/context shows what is.")
    pins = tuple(each for each in state.pins if each != turn)
    return live.append(Unpinned(pinned_turn=turn, state=msgspec.structs.replace(state, pins=pins)))


def restore(live: LiveWindow, call: Call, turns: Sequence[int]) -> list[Line]:
    """Bring exchanges back to their place, if the window has room for them."""
    back = {turn: _lines_of(live, turn) for turn in turns if not _whole(live, turn)}
    if not back:
        return []
    state, measured = live.fold.state, live.measure(call)
    missing = [
        line
        for lines in back.values()
        for line in lines
        if said(line) is not None and line.seq not in live.fold.lines
    ]
    tokens = round(_count(live.ledger(call.model), missing) * measured.factor)
    marks = budget.marks(call.room, live.settings.context, live.settings.zones)
    if measured.total + tokens > marks.ceiling:
        raise DoesNotFit(
            f"Restoring needs {tokens:,} tokens; the window has {measured.total:,} "
            f"of {marks.ceiling:,} before it would prune again.",
            "Prune something else first with /prune, or read it with /recall.",
        )
    outside = after_returning(state.outside, len(back), tokens)
    shown = {line.turn for line in live.fold.lines.values()} | set(back)
    tools = {tool.name for tool in live.fold.tools}
    spans = single(line.seq for lines in back.values() for line in lines)
    entry = Restored(
        turns=tuple(sorted(back)),
        state=msgspec.structs.replace(state, spans=merged((*state.spans, *spans)), outside=outside),
        tokens=tokens,
        marker=marker_text(outside, shown, tools) if live.settings.context.marker else "",
    )
    return [live.append(entry)]


async def rewind(live: LiveWindow, call: Call, to_turn: int) -> Line:
    """Go on from an earlier turn; what came later leaves the window and stays in history."""
    if to_turn < 0 or to_turn >= live.fold.turn:
        raise NoSuchEntry(
            f"The conversation cannot be rewound to turn {to_turn}; it is at {live.fold.turn}.",
            "Name an earlier turn; /context shows those in the window.",
        )
    gone = [unit for unit in exchanges(live.measure(call)) if unit.turn > to_turn]
    try:
        receipts = await live.ensure([ExchangeLines(u.turn, u.lines) for u in gone])
    except RecallError:
        receipts = {}
    return live.append(_rewound(live, to_turn, gone, receipts))


def _rewound(
    live: LiveWindow,
    to_turn: int,
    gone: Sequence[Exchange],
    receipts: Mapping[int, Receipt],
) -> Rewound:
    before = live.fold.state
    task = before.task
    if task in live.fold.lines and live.fold.lines[task].turn > to_turn:
        task = None
    left = live.fold.spans_of_turns(range(to_turn + 1, live.fold.turn + 1))
    seqs = [seq for seq, line in live.fold.lines.items() if line.turn > to_turn]
    state = live.fold.without_lines(seqs)
    unproven = sum(proven(ExchangeLines(unit.turn, unit.lines), receipts) is None for unit in gone)
    return Rewound(
        to_turn=to_turn,
        state=msgspec.structs.replace(
            state,
            task=task,
            pins=tuple(turn for turn in state.pins if turn <= to_turn),
            outside=Outside(
                exchanges=before.outside.exchanges + len(gone),
                tokens=before.outside.tokens + sum(unit.tokens for unit in gone),
                unindexed=before.outside.unindexed + unproven,
            ),
        ),
        spans_left=left,
    )


def _whole(live: LiveWindow, turn: int) -> bool:
    """Whether an exchange is in the window and lacks nothing."""
    held = {line.seq for line in live.fold.lines.values() if line.turn == turn}
    if len(held) > 1:
        return True
    return all(line.seq in held for line in _lines_of(live, turn) if said(line) is not None)


def _lines_of(live: LiveWindow, turn: int) -> list[Line]:
    lines = [live.history.whole(line) for line in live.history.turn(turn)]
    if not any(said(line) is not None for line in lines):
        raise NoSuchEntry(
            f"There is no turn {turn} in this session.", "`mindstone log` shows the turns."
        )
    return lines


def _count(ledger: Ledger, lines: Sequence[Line]) -> int:
    return sum(ledger.message(Placed((line.seq, None, False), line)) for line in lines)
