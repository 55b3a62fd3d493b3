"""The next prompt part by part: each message, each standing section, each tool schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context.candidates import rank_exchanges
from mindstone_tui.core.context.clipping import head
from mindstone_tui.core.context.eviction import Scored, text_of
from mindstone_tui.core.context.measure import Measured, Piece
from mindstone_tui.core.context.report import Block, SectionSize
from mindstone_tui.core.context.units import TASK, Exchange, eligible
from mindstone_tui.core.context.view import Call, View
from mindstone_tui.core.context.window import Fold
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolReturned

_PREVIEW: Final = 80
_STANDING: Final = {
    "tools": "tool schemas",
    "marker": "what is out of the window",
    "derived": "derived: loses against its originals",
    "recall": "recalled for this turn",
}
"""What the parts of a prompt are called that are nobody's message."""


def blocks(
    view: View, call: Call, measured: Measured, units: Sequence[Exchange]
) -> tuple[Block, ...]:
    """One block for each part of the prompt; their tokens add up to it."""
    by_turn = {unit.turn: unit for unit in units}
    scores = {
        scored.candidate.key: scored
        for scored in rank_exchanges(
            view.fold, eligible(units), view.policy, view.similar, view.settings.eviction
        )
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
        return _standing_block(view.fold, call, piece, size)
    state, unit = view.fold.state, units[line.turn]
    is_task = line.seq == view.fold.task
    scored = None if is_task else scores.get(line.turn)
    return Block(
        entry=line.id,
        seq=line.seq,
        kind=line.kind,
        turn=line.turn,
        tokens=size,
        protected=bool(unit.protected) or is_task,
        why=unit.protected or (TASK if is_task else f"may leave: {view.policy}"),
        role=line.role,
        preview=head(" ".join(_words_of(line)[: _PREVIEW * 4].split()), _PREVIEW),
        score=scored.score if scored else None,
        parts=scored.parts if scored else {},
        trimmed=line.seq in state.trimmed,
        pinned=line.turn in state.pins,
        age=max(call.turn - line.turn, 0),
    )


def _words_of(line: Line) -> str:
    """What tells an entry apart at a glance; a tool result by its finding."""
    entry = line.entry
    if isinstance(entry, ToolReturned) and entry.finding:
        return f"{entry.name}: {entry.finding}"
    return text_of(line)


def _standing_block(fold: Fold, call: Call, piece: Piece, size: int) -> Block:
    """A part of the prompt that is no message: it stands for all turns, or passes with this one."""
    passing = piece.component == "memory_injection"
    match piece.name:
        case "tools":
            seq = fold.state.tools
        case "recall":
            seq = call.tail[-1] if call.tail else None
        case "marker":
            seq = fold.state.pruned
        case "derived":
            seq = fold.derived_at[piece.key[-1]]
        case _:
            seq = fold.state.instructions
    source = fold.reference(seq) or fold.recalls.get(-1 if seq is None else seq)
    return Block(
        entry=source.id if source else "",
        seq=-1 if seq is None else seq,
        kind=source.kind if source and piece.name == "derived" else piece.name,
        turn=call.turn if passing else 0,
        tokens=size,
        protected=True,
        why="passes with this turn" if passing else "standing part of the prompt",
        role="user" if passing else "system",
        preview=_STANDING.get(piece.name, piece.name.replace("_", " ")),
    )


def sections(view: View, measured: Measured) -> tuple[SectionSize, ...]:
    """The parts of the system prompt, in its order."""
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


def tools(view: View, call: Call, measured: Measured) -> tuple[SectionSize, ...]:
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
