"""What a person does to the window: prune, pin, unpin, restore, rewind. Each is an entry.

Each can be undone by another: a pin by an unpin, a prune or a rewind by a restore.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.context import exchanges, plan
from mindstone_tui.core.context.fold import Placed, holds, merged, single, without
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.prune import (
    IN_A_SUMMARY,
    Pruned,
    after_returning,
    marker_text,
    prune_ranked,
    trim_results,
    units_of,
)
from mindstone_tui.core.context.report import EntryStanding
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import Call, ExchangeLines, View, fold_at
from mindstone_tui.core.entries import Line, Span, derived, window
from mindstone_tui.core.entries.standings import superseded_in
from mindstone_tui.core.errors import DoesNotFit, NoSuchEntry, RecallError, WindowError
from mindstone_tui.core.transcript.reader import rewinds_of


async def prune(
    live: LiveWindow,
    *,
    count: int | None = None,
    to_percent: float | None = None,
    turns: Sequence[int] | None = None,
) -> Pruned:
    """Let a number of exchanges leave, or as many as a fullness asks for, or those that are named.

    The recent floor does not bind a person; pins, the current exchange and the index do.
    """
    call = live.now()
    await live.ledger(call.model).counter.ready()
    live.note_growth(call)
    units = _units(live, call)
    if turns is not None:
        return await prune_ranked(live, call, _named(units, turns), -1, "manual")
    ranked = live.rank(exchanges.eligible(units))
    target = call.room.tokens(live.settings.context.floor if to_percent is None else to_percent)
    if count is not None:
        ranked, target = ranked[: max(count, 0)], -1
    return await prune_ranked(live, call, units, target, "manual", ranked=ranked)


async def trim(live: LiveWindow) -> list[Line]:
    """Turn every older tool result into a placeholder now, whatever the marks say."""
    call = live.now()
    await live.ledger(call.model).counter.ready()
    now = msgspec.structs.replace(live.marks(call), trim=-1, trim_to=0)
    return trim_results(live, call, now, "manual")


def _units(live: LiveWindow, call: Call) -> list[exchanges.Exchange]:
    found = exchanges.exchanges(live.measure(call), live.fold.staying)
    return exchanges.protect(found, live.fold, call.turn)


def _named(units: Sequence[exchanges.Exchange], turns: Sequence[int]) -> list[exchanges.Exchange]:
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


def pin(live: LiveWindow, turn: int, why: str = "") -> list[Line]:
    """Keep an exchange in the window; one that has left is brought back first."""
    call = live.now()
    if turn in live.fold.state.pins:
        return []
    lines = [] if _whole(live, turn) else _restore(live, call, [turn])
    tokens = sum(unit.tokens for unit in _units(live, call) if unit.turn == turn)
    state = live.fold.state
    pins = tuple(sorted({*state.pins, turn}))
    entry = window.Pinned(
        pinned_turn=turn, state=msgspec.structs.replace(state, pins=pins), tokens=tokens, why=why
    )
    return [*lines, live.record(entry, live.fold.turn)]


def unpin(live: LiveWindow, turn: int) -> Line:
    """Let an exchange leave again when its time comes."""
    state = live.fold.state
    if turn not in state.pins:
        raise NoSuchEntry(f"Turn {turn} is not pinned.", "/context shows what is.")
    pins = tuple(each for each in state.pins if each != turn)
    return live.record(
        window.Unpinned(pinned_turn=turn, state=msgspec.structs.replace(state, pins=pins)),
        live.fold.turn,
    )


def restore(live: LiveWindow, turns: Sequence[int]) -> list[Line]:
    """Bring exchanges back to their place; raises `DoesNotFit` when there is no room."""
    return _restore(live, live.now(), turns)


def _restore(live: LiveWindow, call: Call, turns: Sequence[int]) -> list[Line]:
    every, corrected = _with_corrections(live, turns)
    back = {turn: _lines_of(live, turn) for turn in every if not _whole(live, turn)}
    if not back:
        return []
    state, measured = live.fold.state, live.measure(call)
    before = state.outside
    sizes = {turn: _size(live, call, lines) for turn, lines in back.items()}
    tokens = sum(sizes.values())
    ceiling = live.marks(call).ceiling
    if measured.total + tokens > ceiling:
        raise DoesNotFit(
            f"Restoring needs {tokens:,} tokens; the window has {measured.total:,} "
            f"of {ceiling:,} before it would prune again.",
            "Prune something else first with /prune, or read it with /recall.",
        )
    counted = [size for turn, size in sizes.items() if not holds(before.rewound, turn)]
    outside = msgspec.structs.replace(
        after_returning(before, len(counted), sum(counted)),
        rewound=without(before.rewound, single(back)),
    )
    shown = {line.turn for line in live.fold.lines.values()} | set(back)
    tools = {tool.name for tool in live.fold.tools}
    spans = merged((*state.spans, *_spans_of(back)))
    entry = window.Restored(
        turns=tuple(sorted(back)),
        state=msgspec.structs.replace(
            state, spans=spans, outside=outside, corrected=(*state.corrected, *corrected)
        ),
        tokens=tokens,
        marker=marker_text(outside, shown, tools) if live.settings.context.marker else "",
    )
    return [live.record(entry, live.fold.turn)]


def _with_corrections(
    live: LiveWindow, turns: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Turns and those that correct them, with the lines of both: what was corrected is not shown
    without its correction."""
    every, pairs, rewinds = list(turns), [], rewinds_of(live.history)
    kinds = ("statement_superseded", "recall_injected")
    verdicts = map(superseded_in, live.history.newest(kinds, live.history.head.seq + 1))
    judged = {pair for found in verdicts for pair in found.items()}
    placed = {by: live.history.line(by).turn for _, by in judged}
    judged = {
        (old, by)
        for old, by in judged
        if rewinds.of_turn(placed[by]) is None or placed[by] in turns
    }
    for turn in every:  # it grows: a correction may be corrected, too
        seqs = {line.seq for line in live.history.turn(turn) if said(line) is not None}
        found = [(old, by) for old, by in judged if old in seqs]
        pairs += found
        every += {placed[by] for _, by in found}.difference(every)
    return every, pairs


def turn_before(live: LiveWindow, turn: int) -> int:
    """The newest turn before this one that counts; 0 where there is none."""
    rewinds = rewinds_of(live.history)
    return next((one for one in range(turn - 1, 0, -1) if rewinds.of_turn(one) is None), 0)


def check_rewind(live: LiveWindow, to_turn: int) -> None:
    """Raise where the conversation cannot go on from there."""
    if to_turn < 0 or to_turn >= live.fold.turn:
        raise NoSuchEntry(
            f"The conversation cannot be rewound to turn {to_turn}; it has {live.fold.turn}.",
            "Name an earlier turn; /context shows those in the window.",
        )
    if (by := rewinds_of(live.history).of_turn(to_turn)) is not None:
        raise NoSuchEntry(
            f"Turn {to_turn} was itself rewound, by #{by}.",
            f"Name a turn that counts, or bring that one back with /restore turn {to_turn}.",
        )


async def rewind(live: LiveWindow, to_turn: int, how: str = "", seen: float = 0.0) -> Line:
    """Go on from an earlier turn; what came later leaves the window and stays in history."""
    check_rewind(live, to_turn)
    call = live.now()
    gone = [unit for unit in exchanges.exchanges(live.measure(call)) if unit.turn > to_turn]
    # Nothing depends on it: who asks for what was rewound finds it as soon as it is indexed.
    with contextlib.suppress(RecallError):
        await live.ensure([ExchangeLines(unit.turn, unit.lines) for unit in gone])
    rewound = msgspec.structs.replace(_rewound(live, call, to_turn), how=how, seen=seen)
    return live.record(rewound, live.fold.turn)


def take_back(live: LiveWindow, turn: int) -> Line:
    """Let the newest turn count no more: its message was not to be sent."""
    return live.record(_rewound(live, live.now(), turn_before(live, turn)), turn)


def _rewound(live: LiveWindow, call: Call, to_turn: int) -> window.Rewound:
    """The entry of a rewind: where it takes a summary back, what that stood for comes again."""
    then, before = _state_after(live, to_turn), live.fold.state
    summaries, alone = _told_without(live, to_turn, then)
    back = _returning(live, call, to_turn, summaries, alone)
    seqs = [seq for seq, line in live.fold.lines.items() if line.turn > to_turn]
    state = live.fold.without_lines(seqs)
    outside = _outside_after(live, call, to_turn, back.values())
    changed = outside.exchanges != before.outside.exchanges
    shown = {line.turn for line in live.fold.lines.values() if line.turn <= to_turn} | set(back)
    tools = {tool.name for tool in live.fold.tools}
    told = changed and live.settings.context.marker
    return window.Rewound(
        to_turn=to_turn,
        state=msgspec.structs.replace(
            state,
            spans=merged((*state.spans, *_spans_of(back))),
            task=then.task,
            handoff=then.handoff,
            summaries=summaries,
            pins=tuple(turn for turn in state.pins if turn <= to_turn),
            pruned=None if changed else state.pruned,
            outside=outside,
        ),
        spans_left=live.fold.spans_of_turns(range(to_turn + 1, live.fold.turn + 1)),
        marker=marker_text(outside, shown, tools) if told else "",
        returned=tuple(sorted(back)),
    )


def _told_without(
    live: LiveWindow, to_turn: int, then: window.WindowState
) -> tuple[tuple[int, ...], set[int]]:
    """The summaries that stand after a rewind, and the turns for which none does any more.

    One that tells of what is taken back goes; those that it had replaced since stand again.
    """
    now = live.fold.state.summaries
    turns = {seq: _turns_in(live, seq) for seq in (*now, *then.summaries)}
    stay = [seq for seq in now if max(turns[seq], default=0) <= to_turn]
    gone = set(now).difference(stay)
    told = [turns[seq] for seq in now]
    stay += [seq for seq in then.summaries if gone and turns[seq] not in told]
    rewound = live.fold.state.outside.rewound
    alone = {turn for seq in gone for turn in turns[seq] if turn <= to_turn}
    alone -= {turn for seq in stay for turn in turns[seq]}
    return tuple(sorted(stay)), {turn for turn in alone if not holds(rewound, turn)}


def _returning(
    live: LiveWindow, call: Call, to_turn: int, summaries: Collection[int], turns: Iterable[int]
) -> dict[int, list[Line]]:
    """Of some exchanges those that fit once later turns have left, the newest first."""
    measured, now = live.measure(call), set(live.fold.state.summaries)
    room = live.marks(call).ceiling - measured.total
    room += sum(size for piece, size in measured.sized if piece.line and piece.line.turn > to_turn)
    room += sum(_summary(live, seq).tokens_after for seq in now.difference(summaries))
    room -= sum(_summary(live, seq).tokens_after for seq in set(summaries) - now)
    back: dict[int, list[Line]] = {}
    for turn in sorted(turns, reverse=True):
        lines = [live.history.whole(line) for line in live.history.turn(turn)]
        if 0 < (size := _size(live, call, lines)) <= room:
            back[turn] = lines
            room -= size
    return back


def _spans_of(back: Mapping[int, Iterable[Line]]) -> tuple[Span, ...]:
    return single(line.seq for lines in back.values() for line in lines)


def _outside_after(
    live: LiveWindow, call: Call, to_turn: int, back: Iterable[list[Line]]
) -> window.Outside:
    """What is out of the window once a rewind took back what was said after a turn.

    What had left before the rewind is taken back as well, and no longer counted as left.
    """
    before = live.fold.state.outside
    here = {line.turn for line in live.fold.lines.values() if line.role != "user"}
    taken = Span(to_turn + 1, live.fold.turn)
    turns = (
        live.history.turn(turn)
        for turn in range(taken.first, taken.last + 1)
        if turn not in here and not holds(before.rewound, turn)
    )
    lines = live.fold.lines
    had_left = (
        each
        for each in turns
        if any(said(line) is not None and line.seq not in lines for line in each)
    )
    sizes = [_size(live, call, lines) for lines in (*had_left, *back)]
    outside = after_returning(before, len(sizes), sum(sizes))
    return msgspec.structs.replace(outside, rewound=merged((*before.rewound, taken)))


def _size(live: LiveWindow, call: Call, lines: Iterable[Line]) -> int:
    """What messages of an exchange that are out of the window would take up in it."""
    ledger = live.ledger(call.model)
    out = (
        live.history.whole(line)
        for line in lines
        if said(line) is not None and line.seq not in live.fold.lines
    )
    raw = sum(ledger.message(Placed((line.seq, None, False), line)) for line in out)
    return round(raw * live.measure(call).factor)


def _state_after(live: LiveWindow, turn: int) -> window.WindowState:
    """The window as it was right after a turn, as far as requests were planned by then."""
    plans = plan.plans_of_turn(live.history, turn) if turn else []
    if not plans:
        return window.WindowState(through=-1)
    fold = fold_at(live.history, plans[-1])
    for line in live.history.turn(turn):
        fold.add(live.history.whole(line))
    return fold.state


def _summary(live: View, seq: int) -> derived.SummaryDerived:
    entry = live.history.line(seq).entry
    assert isinstance(entry, derived.SummaryDerived)
    return entry


def _turns_in(live: LiveWindow, summary: int) -> frozenset[int]:
    """The turns that a summary stands for."""
    line = live.history.line
    sources = _summary(live, summary).sources
    ends = [(line(span.first).turn, line(span.last).turn) for span in sources]
    return frozenset(turn for first, last in ends for turn in range(first, last + 1))


def _whole(live: View, turn: int) -> bool:
    """Whether an exchange is in the window and lacks nothing."""
    held = {line.seq for line in live.fold.lines.values() if line.turn == turn}
    if len(held) > 1:
        return True
    return all(line.seq in held for line in _lines_of(live, turn) if said(line) is not None)


def _lines_of(live: View, turn: int) -> list[Line]:
    lines = [live.history.whole(line) for line in live.history.turn(turn)]
    if not any(said(line) is not None for line in lines):
        raise NoSuchEntry(
            f"There is no turn {turn} in this session.", "`mindstone log` shows the turns."
        )
    return lines


class Reason(EntryStanding, kw_only=True):
    """What happened to an entry, in one sentence and in figures."""

    in_window: bool
    by: int | None = None
    """The entry that decided it."""
    policy: str = ""
    receipt: window.Receipt | None = None


def why(view: LiveWindow, seq: int) -> Reason:
    """Why an entry is in the window, or since when and why it is not."""
    call = view.now()
    line = view.history.line(seq)
    if seq in view.fold.lines:
        return _inside(view, call, line)
    if said(line) is None:
        return _plain(line, "It is bookkeeping: no prompt shows such entries.")
    return _outside(view, line)


_KEPT_BY: Final = {
    exchanges.PINNED: "because it is pinned",
    exchanges.RECENT: "because it is among the newest messages",
    exchanges.TASK: "because it states the task",
    exchanges.CORRECTS: "because it corrects what is shown",
    exchanges.CURRENT: "because it is the newest exchange",
}
_LEFT_BY: Final = {
    "ceiling": "the window was full and this was next ({reason})",
    "velocity": "the window was about to be full and this was next ({reason})",
    "spike": "a turn grew so fast that the window would not have held it",
    "emergency": "the window did not hold the running turn otherwise",
    "manual": "you pruned it",
    "import": "it was imported, and the window held only what came later",
}
"""What made exchanges leave, in words; where nothing else is said, it was the lack of room."""
_LETTING_GO: Final = ("context_window_pruned", "rewound", "window_repaired")


def _inside(view: View, call: Call, line: Line) -> Reason:
    units = units_of(view, call, view.measure(call), view.marks(call))
    ranked = view.rank(exchanges.eligible(units))
    unit = next(unit for unit in units if unit.turn == line.turn)
    scored = next((each for each in ranked if each.candidate.key == line.turn), None)
    state = view.fold.state
    stand_in = state.trimmed.get(line.seq, state.cut.get(line.seq))
    protected = unit.protected or exchanges.why_staying(line.seq, view.fold)
    text = f"In the window {_KEPT_BY.get(protected, 'because nothing made it leave yet')}."
    if line.seq in state.trimmed:
        text += " Its place is taken by one line; the full text stays in the transcript."
    elif line.seq in state.cut:
        text += " It is shown shortened; the full text stays in the transcript."
    if not _whole(view, line.turn):
        text += " The rest of its exchange has left."
    return msgspec.structs.replace(
        _plain(line, text),
        in_window=True,
        protected=bool(protected),
        score=scored.score if scored else None,
        parts=scored.parts if scored else {},
        by=stand_in,
        policy=view.policy,
    )


def _outside(view: View, line: Line) -> Reason:
    """Look back for the newest decision that let an entry go: what came before it is undone."""
    found = _plain(line, "It is not in the window.")
    by = rewinds_of(view.history).of(line)
    for item in view.history.newest(_LETTING_GO, view.history.head.seq + 1):
        match item.entry:
            case window.Rewound(to_turn=to_turn) if item.seq == by:
                text = f"The conversation was rewound to turn {to_turn}."
                return msgspec.structs.replace(found, why=text, by=item.seq)
            case window.ContextWindowPruned(left=left) if by is None:
                same = (each for each in left if each.turn == line.turn or line.seq in each.span)
                if (gone := next(same, None)) is not None:
                    return _left(view, line, item, gone)
            case window.WindowRepaired(seqs=seqs, why=reason) if by is None and line.seq in seqs:
                text = f"It was left out because {reason}."
                return msgspec.structs.replace(found, why=text, by=item.seq)
            case _:
                continue
    return found


def _left(view: View, line: Line, by: Line, gone: window.Left) -> Reason:
    assert isinstance(by.entry, window.ContextWindowPruned)
    proof = ". It was found again in the index first" if gone.receipt else "; it is not indexed"
    cause = _LEFT_BY.get(by.entry.trigger, _LEFT_BY["ceiling"]).replace("{reason}", gone.reason)
    if gone.reason.startswith(IN_A_SUMMARY):
        stand = (_summary(view, seq).sources for seq in view.fold.state.summaries)
        stays = any(holds(sources, line.seq) for sources in stand)
        cause = f"a summary took its place ({by.entry.trigger.replace('_', ' ')})"
        cause += "" if stays else ", which is in the prompt no longer"
    return msgspec.structs.replace(
        _plain(line, f"Outside the window since line {by.seq}: {cause}{proof}."),
        score=gone.score,
        parts=gone.parts,
        by=by.seq,
        policy=by.entry.policy,
        receipt=gone.receipt,
    )


def _plain(line: Line, text: str) -> Reason:
    return Reason(
        seq=line.seq, entry=line.id, turn=line.turn, kind=line.kind, in_window=False, why=text
    )
