"""Room for the next call, before every call: trim, prune, and in an emergency more.

Each step measures anew, and each change is written down before the request that it shapes. What
cannot be found again does not leave; when nothing more may leave, that is said in one sentence.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

import msgspec

from mindstone_tui.core.context import budget, measure, messages, policies, trim, watch
from mindstone_tui.core.context.exchanges import (
    RECENT,
    Exchange,
    eligible,
    exchanges,
    protect,
    rank_results,
    read_again,
)
from mindstone_tui.core.context.fold import single, without
from mindstone_tui.core.context.report import Marks
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import Call, ExchangeLines, View, proven
from mindstone_tui.core.entries import Line, Span, conversation, window
from mindstone_tui.core.errors import RecallError
from mindstone_tui.core.values import alike

MARKER_TOKENS: Final = 80
"""Room set aside for the marker before its numbers are known."""
_BACK_THERE: Final = "the program that it was imported from went back before it"
IN_A_SUMMARY: Final = "stands in a summary"
"""How the reason begins for which an exchange left that a summary stands for."""
_GAPS_SAID: Final = 6

TrimTrigger = Literal["trim", "share", "pressure", "manual", "cascade"]


def next_batch(ranked: Iterable[policies.Scored], excess: int) -> list[policies.Scored]:
    """The first candidates whose leaving frees `excess`; never one more than needed."""
    taken: list[policies.Scored] = []
    for scored in ranked:
        if excess <= 0:
            break
        taken.append(scored)
        excess -= scored.candidate.tokens
    return taken


def departure(
    unit: Exchange, scored: policies.Scored | None, receipt: window.Receipt | None, why: str = ""
) -> window.Left:
    """The record of one exchange that leaves."""
    return window.Left(
        turn=unit.turn,
        span=unit.span,
        tokens=unit.freed,
        score=scored.score if scored else 0.0,
        reason=why or (scored.reason if scored else ""),
        parts=scored.parts if scored else {},
        receipt=receipt,
        kept=tuple(sorted(unit.stays)),
    )


def after_leaving(outside: window.Outside, gone: Sequence[window.Left]) -> window.Outside:
    """What is out of the window once these have left."""
    return msgspec.structs.replace(
        outside,
        exchanges=outside.exchanges + len(gone),
        tokens=outside.tokens + sum(each.tokens for each in gone),
        unindexed=outside.unindexed + sum(each.receipt is None for each in gone),
    )


def after_returning(outside: window.Outside, exchanges: int, tokens: int) -> window.Outside:
    """What is out of the window once some came back."""
    remaining = max(outside.exchanges - exchanges, 0)
    return msgspec.structs.replace(
        outside,
        exchanges=remaining,
        tokens=max(outside.tokens - tokens, 0) if remaining else 0,
        unindexed=min(outside.unindexed, remaining),
    )


def gaps(shown: Collection[int], rewound: Iterable[Span] = ()) -> tuple[Span, ...]:
    """Turns that are missing between those that are shown; one that was taken back is not."""
    if not shown:
        return ()
    missing = set(range(min(shown), max(shown))) - set(shown)
    return without(single(missing), rewound)


def _turn_ranges(spans: Iterable[Span]) -> str:
    """Runs as people write them: `2–35, 40`."""
    return ", ".join(
        str(span.first) if span.first == span.last else f"{span.first}–{span.last}"
        for span in spans
    )


def marker_text(
    outside: window.Outside, shown: Collection[int], tools: Collection[str], where: str = "its"
) -> str:
    """One line for the model: how much is out of its window, whose transcript has it, and how."""
    if not outside.exchanges:
        return ""
    one = outside.exchanges == 1
    parts = [
        f"{outside.exchanges:,} earlier exchange{'' if one else 's'} of this conversation "
        f"(about {outside.tokens:,} tokens) {'is' if one else 'are'} kept in {where} transcript "
        "but not shown here, or not whole."
    ]
    if missing := gaps(shown, outside.rewound):
        more = " and others" if len(missing) > _GAPS_SAID else ""
        parts.append(
            f"Missing between what is shown: turns {_turn_ranges(missing[:_GAPS_SAID])}{more}."
        )
    if "recall" in tools:
        parts.append("Search them with the recall tool; read_entry shows one by its id.")
    else:
        parts.append("What matters of them may be recalled below; do not guess the rest.")
    return "[" + " ".join(parts) + "]"


def drop_summaries(live: LiveWindow, call: Call, target: int) -> list[Line]:
    """Let derived texts leave the head until the prompt has `target` tokens or none is left."""
    measured = live.measure(call)
    state = live.fold.state
    excess = measured.total - target
    if excess <= 0 or not live.fold.derived:
        return []
    sizes = [size for piece, size in measured.sized if piece.name == "derived"]
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
    entry = window.HeadShortened(
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
    return [live.record(entry, call.turn)]


class Tempo(msgspec.Struct, frozen=True):
    """How fast the window fills."""

    speed: float
    now: int
    """What this turn added so far."""
    dozen: int
    """What the next requests add if they are like those of the turns that are in the window."""
    spike: window.VelocitySpiked | None


def tempo_of(live: LiveWindow, call: Call) -> Tempo:
    """How fast the window fills, measured once a call."""
    growth = live.growth(call)
    before = watch.completed(growth, call.turn, ended=False)
    now = next((each.tokens for each in growth if each.turn == call.turn), 0)
    return Tempo(
        speed=budget.velocity(before, live.settings.zones.velocity_turns),
        now=now,
        dozen=a_dozen(live, live.marks(call), growth),
        spike=budget.spike(now, before, live.settings.zones.spike),
    )


def a_dozen(live: View, marks: Marks, growth: Sequence[window.Growth]) -> int:
    """What the next requests add if they are like those of the turns that are in the window."""
    lines = live.fold.lines.values()
    answers = Counter(line.turn for line in lines if line.kind == "assistant_message")
    grown = sum(each.tokens for each in growth if each.turn in answers)
    requests = sum(answers[each.turn] for each in growth)
    return budget.next_dozen(marks, grown / max(requests, 1))


_SPIKE_SHARE: Final = 10
"""Percent of the usable room that a turn must add before its growth is announced."""
_SPIKE_LEAST: Final = 1_000


def note_spike(live: LiveWindow, call: Call, tempo: Tempo) -> list[Line]:
    """Announce, once a turn, that it grew far more than turns usually do."""
    found = tempo.spike
    if found is None or live.watch.carried.spiked == call.turn:
        return []
    if found.tokens < max(call.room.usable * _SPIKE_SHARE // 100, _SPIKE_LEAST):
        return []  # far more than usual, and still nothing that anybody would notice
    live.watch.carried = msgspec.structs.replace(live.watch.carried, spiked=call.turn)
    return [live.record(found, call.turn)]


_ROUNDS: Final = 3


class Pruned(msgspec.Struct, frozen=True):
    """What came of a prune."""

    lines: list[Line]
    left: tuple[window.Left, ...]
    unproven: tuple[int, ...]


async def make_room(live: LiveWindow, call: Call) -> list[Line]:
    """Bring the next prompt under its marks; the lines that were written are returned."""
    lines = repair(live, call.turn)
    tempo = tempo_of(live, call)
    marks = budget.deepened(live.marks(call), tempo.dozen)
    lines += note_spike(live, call, tempo)
    pressed = _pressing(live, call) > marks.ceiling
    gave = trim_over_share(live, call, tempo.dozen)
    gave += trim_results(live, call, marks)
    gave += _results_give_way(live, call, marks, tempo)
    if gave and pressed:
        gave += await _follow_down(live, call, marks)
    pruned, held = await _prune_if_due(live, call, marks)
    lines += gave + pruned
    lines += await _emergency(live, call, marks, tempo)
    lines += await trim.cut_oversized(live, call, marks)
    if held and (total := live.measure(call).total) > marks.ceiling:
        lines += _blocked(live, call, "protected", held, total)
    trim.refuse_if_over(live, call)
    return lines


def _pressing(live: LiveWindow, call: Call) -> int:
    return budget.pressing(live.measure(call).total, call.expected, call.room)


def repair(live: LiveWindow, turn: int) -> list[Line]:
    """Leave out what was taken back where it comes from, and what has lost its other half."""
    lines = _leave_out(live, turn, live.taken_back_there, _BACK_THERE)
    pairing = live.fold.pairing
    return lines + _leave_out(live, turn, pairing.unpaired, pairing.why)


def _leave_out(live: LiveWindow, turn: int, seqs: tuple[int, ...], why: str) -> list[Line]:
    if not seqs:
        return []
    entry = window.WindowRepaired(why=why, seqs=seqs, state=live.fold.without_lines(seqs))
    return [live.record(entry, turn)]


def units_of(live: View, call: Call, measured: measure.Measured, marks: Marks) -> list[Exchange]:
    """The window's exchanges with their protection."""
    found = exchanges(measured, live.fold.staying)
    return protect(
        found,
        live.fold,
        call.turn,
        min_recent=live.settings.context.min_recent,
        fixed=measured.total - sum(unit.tokens for unit in found),
        room=marks.floor,
    )


def trim_results(
    live: LiveWindow, call: Call, marks: Marks, trigger: TrimTrigger = "trim"
) -> list[Line]:
    """Turn older tool results into placeholders, all of them in one step.

    Each step changes the front of the prompt, so by itself it is only taken where it is deep: it
    frees the share that was set for it. Asked for by hand, any gain is worth it.
    """
    measured = live.measure(call)
    if measured.total <= marks.trim and trigger != "cascade":
        return []
    settings, state = live.settings.context, live.fold.state
    results = trim.trimmable(
        measured, trimmed=state.trimmed, spared={*state.pins, call.turn}, keep=settings.keep_trimmed
    )
    if trigger == "cascade":
        shortest = live.settings.cascade.result_tokens
        results = [(line, size) for line, size in results if size > shortest]
    least = call.room.tokens(settings.trim_step) if trigger == "trim" else 1
    if sum(size for _, size in results) < least:
        return []
    ranked = rank_results(live.fold, results, live.policy, live.similar, live.settings.eviction)
    taken = _placeholders(live, call, measured, ranked, results)
    if trim.freed_by(taken) < least:
        return []
    return record_trimmed(live, call, measured, taken, trigger)


WORTH_IT: Final = 5.0
"""Percent of the usable room that a change must free, unless the request would not fit without."""
RESULTS_FIRST: Final = 10.0
"""Percent of the usable room that results must free to spare the exchanges at the ceiling: where
they give less, the next change would follow soon."""


def _results_give_way(
    live: LiveWindow, call: Call, marks: Marks, tempo: Tempo, share: float = RESULTS_FIRST
) -> list[Line]:
    """Before anything that people said leaves, shorten what tools said, if that frees a share.

    At the ceiling, and below it ahead of what may come next: results of earlier turns, those that
    were read again first, then the largest. At the ceiling, where these do not make room for half
    a dozen requests, those of the running turn that the model has answered to, the oldest first.
    """
    measured = live.measure(call)
    total = _pressing(live, call)
    if total <= marks.ceiling:
        share = _worth_it_ahead(live, call, tempo, live.marks(call), total)
        if not share:
            return []
    pins = live.fold.state.pins
    results = trim.trimmable(measured, trimmed=live.fold.state.trimmed, spared=pins, keep=0)
    least = max(call.room.tokens(share), 1)
    taken: list[window.Trimmed] = []
    for running in (False, True) if total > marks.ceiling else (False,):
        left = total - trim.freed_by(taken)
        some = [(line, size) for line, size in results if (line.turn == call.turn) is running]
        enough = trim.freed_by(taken) >= least and left <= marks.ceiling - tempo.dozen // 2
        if enough or not some:
            continue
        order = rank_results(live.fold, some, "fifo", live.similar, live.settings.eviction)
        if not running:
            again = read_again(live.fold.lines.values())
            order.sort(key=lambda one: (one.candidate.key not in again, -one.candidate.tokens))
        target = marks.floor if running else marks.trim_to
        taken += _placeholders(live, call, measured, order, some, left - target)
    if trim.freed_by(taken) < least:
        return []
    return record_trimmed(live, call, measured, taken, "pressure")


def _worth_it_ahead(live: LiveWindow, call: Call, tempo: Tempo, marks: Marks, total: int) -> float:
    """Which share of the room must be gained for what may come next; 0 where nothing is done.

    For the list of what is to be done a step is enough: its steps should not be disturbed in
    their middle. For a turn, where they are fast or this one is far larger than usual, a change
    that the next dozen requests would fill again is left to the ceiling.
    """
    step = live.settings.context.spike_step
    if (steps := _steps_taken(live, call)) is not None:
        usual = max(tempo.speed, tempo.now / steps) if steps else tempo.speed
        work = budget.work_left(live.open_steps, usual, marks.ceiling - marks.trim_to)
        if work and total + work > marks.ceiling:
            return step
    fast = budget.velocity_class(tempo.speed) == "high"
    turn = max(tempo.speed, tempo.now) if tempo.spike else tempo.speed if fast else 0
    if not turn or total + turn <= marks.ceiling:
        return 0.0
    return max(step, 100 * tempo.dozen / call.room.usable)


def _steps_taken(live: LiveWindow, call: Call) -> int | None:
    """How often this turn went back to the list; None in the middle of a step."""
    ran = [
        line.entry.name
        for line in live.fold.lines.values()
        if line.turn == call.turn and isinstance(line.entry, conversation.ToolReturned)
    ]
    return ran.count("todo") if not ran or ran[-1] == "todo" else None


def trim_over_share(live: LiveWindow, call: Call, dozen: int = 0) -> list[Line]:
    """Results are over the hard mark of their share: the oldest become placeholders at once.

    So many that the results are within their share again, which makes the way back up to the mark
    a long one. The newest result stays, as do pinned ones and those of the running turn; nothing
    is done for less than a share, nor for less than the next dozen requests would fill again.
    """
    measured, state = live.measure(call), live.fold.state
    share = budget.limit_of("tool_results", call.room, live.settings.budget)
    used = measured.component("tool_results")
    if used <= budget.hard_mark("tool_results", share, live.settings.budget):
        return []
    spared = {*state.pins, call.turn}
    keep = min(live.settings.context.keep_trimmed, 1)
    results = trim.trimmable(measured, trimmed=state.trimmed, spared=spared, keep=keep)
    ranked = rank_results(live.fold, results, "fifo", live.similar, live.settings.eviction)
    taken = _placeholders(live, call, measured, ranked, results, used - share)
    if trim.freed_by(taken) < max(share, dozen):
        return []
    return record_trimmed(live, call, measured, taken, "share")


_LEAST_SAVED: Final = 32
"""Tokens that one placeholder must save."""


def _placeholders(
    live: LiveWindow,
    call: Call,
    measured: measure.Measured,
    ranked: Sequence[policies.Scored],
    results: Sequence[tuple[Line, int]],
    excess: float = math.inf,
) -> list[window.Trimmed]:
    """Take results in order, each that a placeholder is shorter than, until `excess` is freed."""
    count = live.ledger(call.model).counter.text
    longest = budget.longest_placeholder(call.room, live.settings.context)
    lines = {line.seq: line for line, _ in results}
    taken: list[window.Trimmed] = []
    for scored in ranked:
        if trim.freed_by(taken) >= excess:
            break
        result, before = scored.candidate.key, scored.candidate.tokens
        text, tokens = live.placeholders.of(lines[result], call.model, count, longest)
        after = round((tokens + 4) * measured.factor)
        if before - after >= _LEAST_SAVED:
            made = {"placeholder": text, "tokens_before": before, "tokens_after": after}
            taken.append(alike(window.Trimmed, scored, result=result, **made))
    return taken


def record_trimmed(
    live: LiveWindow,
    call: Call,
    measured: measure.Measured,
    taken: Sequence[window.Trimmed],
    trigger: TrimTrigger,
) -> list[Line]:
    """Write down which results gave way, and what that freed."""
    entry = window.ToolResultsTrimmed(
        results=tuple(taken),
        state=live.fold.state,
        tokens_before=measured.total,
        tokens_after=measured.total - trim.freed_by(taken),
        policy=live.policy,
        trigger=trigger,
    )
    return [live.record(entry, call.turn)]


async def _follow_down(live: LiveWindow, call: Call, marks: Marks) -> list[Line]:
    """Results gave way at the ceiling, and much is still there: exchanges leave with them.

    Between two changes lies what the first one freed, and the prompt is read anew once for both.
    Nobody's words leave while results of this turn could still give a share.
    """
    measured, state = live.measure(call), live.fold.state
    more = trim.trimmable(measured, trimmed=state.trimmed, spared=state.pins, keep=0)
    target = min(marks.trim_to, marks.floor - call.room.tokens(WORTH_IT))
    giving = eligible(units_of(live, call, measured, marks))
    if (
        measured.total <= max(marks.floor, live.marks(call).trim_to * 5 // 6)
        or sum(size for _, size in more) > call.room.tokens(RESULTS_FIRST)
        or sum(unit.freed for unit in giving) < call.room.tokens(WORTH_IT)
    ):
        return []
    return (await prune_ranked(live, call, giving, target, "ceiling")).lines


async def _prune_if_due(live: LiveWindow, call: Call, marks: Marks) -> tuple[list[Line], list[int]]:
    """At the ceiling let exchanges leave, down to the floor; once more if the new measure asks.

    After a prune nothing is anchored any more, so the estimate may be higher than it was. With the
    lines come the turns whose protection kept the window above its ceiling; other steps may yet
    bring it down.
    """
    lines: list[Line] = []
    for _ in range(_ROUNDS):
        measured = live.measure(call)
        total = _pressing(live, call)
        if total <= marks.ceiling:
            break
        if cut := await trim.cut_task(live, call):
            lines += cut
            continue
        units = units_of(live, call, measured, marks)
        giving = eligible(units)
        least = call.room.tokens(WORTH_IT) if total <= marks.emergency else 1
        if sum(unit.freed for unit in giving) < least:
            return lines, [unit.turn for unit in units if unit.protected]
        pruned = await prune_ranked(live, call, giving, marks.floor, "ceiling")
        lines += pruned.lines
        if not pruned.left:
            break
    return lines, []


async def prune_ranked(
    live: LiveWindow,
    call: Call,
    units: Sequence[Exchange],
    target: int,
    trigger: str,
    *,
    ranked: Sequence[policies.Scored] | None = None,
) -> Pruned:
    """Let exchanges leave in the policy's order until `target` is reached, each with its receipt.

    One that cannot be indexed stays; the next in order is tried instead.
    """
    before, by_turn = live.measure(call).total, {unit.turn: unit for unit in units}
    queue = list(live.rank(units) if ranked is None else ranked)
    marker_room = 0 if live.fold.marker or not live.settings.context.marker else MARKER_TOKENS
    remaining = before + marker_room
    chosen: list[window.Left] = []
    unproven: list[int] = []
    why, detail = "unindexed", ""
    while queue and remaining > target:
        batch = next_batch(queue, remaining - target)
        queue = queue[len(batch) :]
        asked = [ExchangeLines(s.candidate.key, by_turn[s.candidate.key].lines) for s in batch]
        try:
            receipts = await live.ensure(asked)
        except RecallError as error:
            why, detail = "index unavailable", error.what
            unproven += [each.turn for each in asked]
            break
        for scored, exchange in zip(batch, asked, strict=True):
            if (receipt := proven(exchange, receipts)) is None:
                unproven.append(exchange.turn)
            elif exchange.turn not in live.fold.state.pins:
                chosen.append(departure(by_turn[exchange.turn], scored, receipt))
                remaining -= by_turn[exchange.turn].freed
    lines: list[Line] = []
    if unproven:
        lines += _blocked(live, call, why, unproven, before, detail)
    if chosen:
        lines.append(leave(live, call, tuple(chosen), before, trigger))
    return Pruned(lines, tuple(chosen), tuple(unproven))


def leave(
    live: LiveWindow, call: Call, gone: tuple[window.Left, ...], before: int, trigger: str
) -> Line:
    """Record that exchanges left, with the line that tells the model."""
    turns = {each.turn for each in gone}
    counted = [each for each in gone if not _remainder(live, each.turn)]
    outside = after_leaving(live.fold.state.outside, counted)
    stays = live.fold.staying
    shown = {
        line.turn
        for line in live.fold.lines.values()
        if line.turn not in turns or line.seq in stays
    }
    tools = {tool.name for tool in live.fold.tools}
    marker = marker_text(outside, shown, tools) if live.settings.context.marker else ""
    count = live.ledger(call.model).text
    grown = count(marker) - count(live.fold.marker) if marker else 0
    entry = window.ContextWindowPruned(
        left=tuple(sorted(gone, key=lambda each: each.turn)),
        state=msgspec.structs.replace(live.fold.without_turns(turns), outside=outside),
        tokens_before=before,
        tokens_after=before - sum(each.tokens for each in gone) + grown,
        policy=live.policy,
        trigger=trigger,
        marker=marker,
    )
    return live.record(entry, call.turn)


def _remainder(live: LiveWindow, turn: int) -> bool:
    """Whether only a message that stayed is left of an exchange that was counted before."""
    held = [seq for seq, line in live.fold.lines.items() if line.turn == turn]
    if len(held) != 1:
        return False
    return sum(messages.said(line) is not None for line in live.history.turn(turn)) > 1


def _blocked(
    live: LiveWindow, call: Call, why: str, turns: Collection[int], tokens: int, detail: str = ""
) -> list[Line]:
    """Say once a turn that something could not leave, and why."""
    if (call.turn, why) in live.blocked:
        return []
    live.blocked = {seen for seen in live.blocked if seen[0] == call.turn} | {(call.turn, why)}
    target = call.room.tokens(live.settings.context.floor)
    entry = window.ContextPruneBlocked(
        why=why, turns=tuple(sorted(turns)), tokens=tokens, target=target, detail=detail
    )
    return [live.record(entry, call.turn)]


async def _emergency(live: LiveWindow, call: Call, marks: Marks, tempo: Tempo) -> list[Line]:
    """Still too full: any result gives way, then the recent floor and the head's derived texts."""
    if live.measure(call).total <= marks.emergency:
        return []
    lines = _results_give_way(live, call, marks, tempo, share=0.0)
    measured = live.measure(call)
    if measured.total > marks.emergency:
        units = units_of(live, call, measured, marks)
        giving = [unit for unit in units if unit.protected == RECENT]
        ranked, most = live.rank(giving, "fifo"), marks.emergency
        pruned = await prune_ranked(live, call, giving, most, "emergency", ranked=ranked)
        lines += pruned.lines
    return lines + drop_summaries(live, call, marks.emergency)
