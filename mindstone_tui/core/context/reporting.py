"""Build the one report from the one list of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context import budget
from mindstone_tui.core.context.candidates import rank_exchanges
from mindstone_tui.core.context.clipping import head
from mindstone_tui.core.context.eviction import Scored, text_of
from mindstone_tui.core.context.making_room import units_of
from mindstone_tui.core.context.measure import Measured, Piece
from mindstone_tui.core.context.messages import Key
from mindstone_tui.core.context.report import (
    Block,
    ContextReport,
    Marks,
    OutsideWindow,
    Prompt,
    PruneCost,
    SectionSize,
    Tokens,
)
from mindstone_tui.core.context.units import PINNED, TASK, Exchange, eligible
from mindstone_tui.core.context.view import Call, View, keys_of
from mindstone_tui.core.context.watch import completed
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.entries.window import Component

_LEFT_SHOWN: Final = 50

_PREVIEW: Final = 80
_STANDING: Final = {
    "tools": "tool schemas",
    "marker": "what is out of the window",
    "derived": "derived: loses against its originals",
    "recall": "recalled for this turn",
}
"""What the parts of a prompt are called that are nobody's message."""


class Prices(msgspec.Struct, frozen=True):
    """Dollars per million prompt tokens; None where nobody knows."""

    prompt: float | None = None
    cached: float | None = None


def build(
    view: View, call: Call, *, prices: Prices | None = None, number: int = 0
) -> ContextReport:
    """Everything there is to know about the next prompt; reading it changes nothing."""
    measured = view.measure(call)
    marks = budget.marks(call.room, view.settings.context, view.settings.zones)
    units = units_of(view, call, measured, marks)
    growth = view.growth(call)
    final = completed(growth, call.turn, ended=view.turn_ended)
    speed = budget.velocity(final, view.settings.zones.velocity_turns)
    shares = budget.components(measured, call.room, view.settings.budget)
    utilization = measured.total / call.room.usable
    outside = view.fold.state.outside
    pins = sum(unit.tokens for unit in units if unit.protected == PINNED)
    anchor = view.watch.anchor
    return ContextReport(
        session=str(view.history.places.key),
        model=call.model,
        window=Tokens(tokens=call.room.window, label=call.room.label),
        reserve=call.room.reserve,
        usable=call.room.usable,
        prompt=Prompt(
            tokens=measured.total, label=measured.label, error_percent=view.watch.error_percent
        ),
        utilization=round(utilization, 4),
        raw_utilization=round(measured.total / call.room.window, 4),
        zone=budget.zone_after(
            view.watch.carried.zone, utilization, call.room.window, view.settings.zones
        ),
        velocity=speed,
        velocity_class=budget.velocity_class(speed),
        turns_until_red=budget.turns_until(marks.red, measured.total, speed),
        marks=marks,
        components=shares,
        blocks=blocks(view, call, measured, units),
        outside=OutsideWindow(
            exchanges=outside.exchanges,
            tokens=outside.tokens,
            indexed=outside.unindexed == 0,
            unindexed=outside.unindexed,
        ),
        prompt_hash=view.fold.request(
            call.model,
            turn=call.turn,
            tail=call.tail,
            blob=view.blob() if call.images else None,
        ).hash,
        stable_prefix_tokens=stable_prefix(
            view, measured, keys_of(view.fold, call.model, call.turn)
        ),
        mode=view.mode,
        policy=view.policy,
        turn=call.turn,
        call=number,
        sections=_sections(view, measured),
        tools=_tools(view, call, measured),
        burn=budget.burn(final, shares),
        pins=view.fold.state.pins,
        pin_tokens=pins,
        pin_budget=call.room.tokens(view.settings.context.pin_budget),
        protected_tokens=_protected(measured, units),
        recall_tokens=measured.component("memory_injection"),
        recalled=sum(
            len(getattr(view.fold.recalls[seq].entry, "passages", ()))
            for seq in call.tail
            if seq in view.fold.recalls
        ),
        cached_tokens=anchor.cached if anchor else None,
        cost=_cost(view),
        cost_unknown=view.watch.carried.cost_unknown,
        prune=_prune_cost(measured, marks, prices or Prices()),
        warnings=tuple(_warnings(view, call, measured, units, shares, marks)),
        velocities=tuple(each.tokens for each in growth),
        left=view.fold.last_left[-_LEFT_SHOWN:][::-1],
    )


def _cost(view: View) -> float | None:
    """Dollars as far as they are known; None when nothing is."""
    spent = view.watch.carried.spent
    return None if view.watch.carried.cost_unknown and not spent else round(spent, 6)


def stable_prefix(view: View, measured: Measured, now: Sequence[Key]) -> int:
    """Tokens at the front that are the same as in the request before."""
    before = view.sent_before()
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += 1
    if same < 2:
        return 0
    kept = set(now[2:same])
    return sum(
        size
        for piece, size in zip(measured.pieces, measured.sizes, strict=True)
        if piece.component != "memory_injection" and (piece.line is None or piece.key in kept)
    )


def blocks(
    view: View, call: Call, measured: Measured, units: Sequence[Exchange]
) -> tuple[Block, ...]:
    """One block for each part of the prompt; their tokens add up to it."""
    by_turn = {unit.turn: unit for unit in units}
    scores = {
        scored.candidate.key: scored
        for scored in rank_exchanges(view.fold, eligible(units), view.policy, view.similar)
    }
    return tuple(
        _block(view, call, piece, size, by_turn, scores)
        for piece, size in zip(measured.pieces, measured.sizes, strict=True)
    )


def _block(
    view: View,
    call: Call,
    piece: Piece,
    size: int,
    units: dict[int, Exchange],
    scores: dict[int, Scored],
) -> Block:
    line = piece.line
    if line is None:
        return _standing_block(view, call, piece, size)
    state, unit = view.fold.state, units[line.turn]
    scored = scores.get(line.turn)
    is_task = line.seq == view.fold.task
    why = unit.protected or (TASK if is_task else f"may leave: {view.policy}")
    return Block(
        entry=line.id,
        seq=line.seq,
        kind=line.kind,
        turn=line.turn,
        tokens=size,
        protected=bool(unit.protected) or is_task,
        why=why,
        role=line.role,
        preview=head(" ".join(_shown(line)[: _PREVIEW * 4].split()), _PREVIEW),
        score=scored.score if scored and not is_task else None,
        parts=scored.parts if scored and not is_task else {},
        trimmed=line.seq in state.trimmed,
        pinned=line.turn in state.pins,
        age=max(call.turn - line.turn, 0),
    )


def _shown(line: Line) -> str:
    """What a message is recognised by; a tool result by its tool and what it found."""
    entry = line.entry
    if isinstance(entry, ToolReturned) and entry.finding:
        return f"{entry.name}: {entry.finding}"
    return text_of(line)


def _standing_block(view: View, call: Call, piece: Piece, size: int) -> Block:
    """A part of the head or the tail, with the entry that holds its words."""
    fold, state = view.fold, view.fold.state
    passing = piece.component == "memory_injection"
    derived = piece.name == "derived"
    seq = {
        "tools": state.tools,
        "marker": state.pruned,
        "derived": fold.derived_at[piece.key[-1]] if derived else None,
        "recall": call.tail[-1] if call.tail else None,
    }.get(piece.name, state.instructions)
    source = fold.reference(seq) or fold.recalls.get(-1 if seq is None else seq)
    return Block(
        entry=source.id if source else "",
        seq=-1 if seq is None else seq,
        kind=source.kind if derived and source else piece.name,
        turn=call.turn if passing else 0,
        tokens=size,
        protected=True,
        why="passes with this turn" if passing else "standing part of the prompt",
        role="user" if passing else "system",
        preview=_STANDING.get(piece.name, piece.name.replace("_", " ")),
    )


def _sections(view: View, measured: Measured) -> tuple[SectionSize, ...]:
    sizes = [
        size
        for piece, size in zip(measured.pieces, measured.sizes, strict=True)
        if piece.component == "system_prompt" and piece.name != "marker"
    ]
    shown = [section for section in view.fold.sections if section.text]
    return tuple(
        SectionSize(
            name=section.name,
            tokens=size,
            source=section.source,
            raw_size=section.raw_size or len(section.text),
            injected_size=len(section.text),
        )
        for section, size in zip(shown, sizes, strict=True)
    )


def _tools(view: View, call: Call, measured: Measured) -> tuple[SectionSize, ...]:
    """Tool schemas, the largest first."""
    counter = view.ledger(call.model).counter
    found = [
        SectionSize(
            name=tool.name,
            tokens=round(counter.text(msgspec.json.encode(tool).decode()) * measured.factor),
            injected_size=len(msgspec.json.encode(tool)),
        )
        for tool in view.fold.tools
    ]
    return tuple(sorted(found, key=lambda size: -size.tokens))


def _protected(measured: Measured, units: Sequence[Exchange]) -> int:
    """What cannot leave: the standing parts, the tail, and protected exchanges."""
    return measured.total - sum(unit.freed for unit in units if not unit.protected)


def _prune_cost(measured: Measured, marks: Marks, prices: Prices) -> PruneCost:
    """A prune makes the rest be read anew once; then every call is smaller."""
    if prices.prompt is None:
        return PruneCost()
    cached = prices.prompt if prices.cached is None else prices.cached
    left = max(measured.total - marks.floor, 0)
    kept = measured.total - left
    return PruneCost(
        once=round(kept * (prices.prompt - cached) / 1_000_000, 6),
        saves_per_turn=round(left * cached / 1_000_000, 6),
    )


def _warnings(
    view: View,
    call: Call,
    measured: Measured,
    units: Sequence[Exchange],
    shares: Sequence[Component],
    marks: Marks,
) -> list[str]:
    found = []
    if call.room.label == "assumed":
        found.append(f"Nobody knows this model's window; {call.room.window:,} is assumed.")
    for share in shares:
        if share.tokens > share.hard:
            over = share.tokens - share.hard
            found.append(f"{share.name} is {over:,} tokens over its share.")
    pins = sum(unit.tokens for unit in units if unit.protected == PINNED)
    pin_budget = call.room.tokens(view.settings.context.pin_budget)
    if pins > pin_budget:
        found.append(f"Pins take {pins:,} tokens; {pin_budget:,} are meant for them.")
    protected = _protected(measured, units)
    if protected > marks.floor:
        found.append(f"{protected:,} tokens cannot leave; a prune cannot reach the floor.")
    if view.fold.state.cut:
        found.append(f"{len(view.fold.state.cut)} messages are shortened in the prompt.")
    if view.fold.state.outside.unindexed:
        found.append(f"{view.fold.state.outside.unindexed} exchanges left without an index entry.")
    if view.ledger(call.model).counter.method == "characters":
        found.append("Tokens are estimated from characters; the estimate errs high.")
    return found
