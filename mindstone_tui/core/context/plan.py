"""The plan of a request, on disk with its hash before anybody can send it."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import bounded_json, disk, errors, transcript
from mindstone_tui.core.context import budget, build_report, measure, messages, prune, trim
from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.context.window import LiveWindow, RoomMaker
from mindstone_tui.core.context.window_view import SESSIONS_OWN, Call, Target, fold_at, keys_of
from mindstone_tui.core.entries import Line, Request, Sampling, base, window

AS_ALWAYS: Final = Sampling()
"""Nothing in particular is asked of an answer."""
CARRY_AFTER: Final = 4_096
"""Lines after which the state is written down again, so that opening stays cheap."""


class Prepared(msgspec.Struct, frozen=True):
    """A request that may be sent now: its plan is on disk."""

    request: Request
    plan: Line
    lines: tuple[Line, ...]
    """Everything that planning wrote, the plan last."""
    max_tokens: int
    tokens: int
    prompt_hash: str
    sampling: Sampling = AS_ALWAYS


async def make_room(
    live: LiveWindow, target: Target = SESSIONS_OWN, *, tail: Sequence[int] = (), expected: int = 0
) -> list[Line]:
    """Trim and prune as the marks say, with `expected` tokens of recall still to come."""
    live.catch_up()
    return await _make_room(live, live.call(target, tail, expected))


async def _make_room(live: LiveWindow, call: Call) -> list[Line]:
    await live.ledger(call.model).counter.ready()
    live.note_growth(call)
    trim.refuse_if_hopeless(live, call)
    return await (live.room_maker or prune.make_room)(live, call)


async def make_room_by(live: LiveWindow, maker: RoomMaker) -> list[Line]:
    """Make room now in a way of its own: a compaction that was asked for."""
    call = live.now()
    await live.ledger(call.model).counter.ready()
    return await maker(live, call)


async def prepare(
    live: LiveWindow,
    target: Target = SESSIONS_OWN,
    *,
    call: int,
    tail: Sequence[int] = (),
    sampling: Sampling = AS_ALWAYS,
) -> Prepared:
    """Make room, write the plan down, and only then hand the request out."""
    live.catch_up()
    planned = live.call(target, tail)
    lines = await _make_room(live, planned)
    lines += [*_carry(live, planned.turn), *prune.repair(live, planned.turn)]
    request = _request(live, planned)
    measured = live.measure(planned)
    lines += [*_note_zone(live, planned, measured), *_note_shares(live, planned, measured)]
    most = filter(None, (target.max_output, sampling.max_tokens))
    max_tokens = min([planned.room.reserve, *most])
    prompt_hash = request.hash
    plan = _plan(live, planned, measured, prompt_hash, call, max_tokens, sampling)
    live.ledger(planned.model).keep(piece.key for piece in measured.pieces)
    return Prepared(
        request, plan, (*lines, plan), max_tokens, measured.total, prompt_hash, sampling
    )


def _carry(live: LiveWindow, turn: int) -> list[Line]:
    if live.fold.head - live.fold.at < CARRY_AFTER:
        return []
    return [live.record(window.WindowCarried(state=live.fold.state), turn)]


def _request(live: LiveWindow, call: Call) -> Request:
    request = live.fold.request(
        call.model,
        turn=call.turn,
        tail=call.tail,
        blob=live.blob() if call.images or call.sounds else None,
        images=call.images,
        sounds=call.sounds,
    )
    if wrong := messages.first_unpaired(request.messages):
        raise errors.UnpairedRequest(
            f"The request cannot be sent: {wrong}.", "Rewind the last turn with /rewind."
        )
    if not any(message["role"] == "user" for message in request.messages):
        raise errors.WindowError("There is nothing to answer yet.", "Say something first.")
    return request


def _note_zone(live: LiveWindow, call: Call, measured: measure.Measured) -> list[Line]:
    before = live.watch.carried.zone
    utilization = measured.total / call.room.usable
    after = budget.zone_after(before, utilization, call.room.window, live.settings.zones)
    if after == before:
        return []
    entry = window.ZoneChanged(
        before=before,
        after=after,
        utilization=round(utilization, 4),
        tokens=measured.total,
        usable=call.room.usable,
    )
    live.watch.carried = msgspec.structs.replace(live.watch.carried, zone=after)
    return [live.record(entry, call.turn)]


def _note_shares(live: LiveWindow, call: Call, measured: measure.Measured) -> list[Line]:
    """Announce shares that crossed a mark; recall fills its own on purpose and passes."""
    known: dict[str, base.ShareLevel] = dict(live.watch.carried.shares)
    lines: list[Line] = []
    for share in budget.components(measured, call.room, live.settings.budget):
        before = known.get(share.name, "free")
        after = budget.share_level(before, share, live.settings.zones.hysteresis)
        if after == before or share.name == "memory_injection":
            continue
        entry = window.ShareCrossed(
            component=share.name, before=before, after=after, tokens=share.tokens, limit=share.limit
        )
        lines.append(live.record(entry, call.turn))
        known[share.name] = after
    over = {name: level for name, level in known.items() if level != "free"}
    live.watch.carried = msgspec.structs.replace(live.watch.carried, shares=over)
    return lines


def _plan(
    live: LiveWindow,
    call: Call,
    measured: measure.Measured,
    prompt_hash: str,
    number: int,
    max_tokens: int,
    sampling: Sampling,
) -> Line:
    fold = live.fold
    sent = keys_of(fold, call.model, call.turn)
    shares = budget.components(measured, call.room, live.settings.budget)
    entry = window.PromptPlanned(
        call=number,
        model=call.model,
        at=fold.at,
        through=fold.head,
        spans=fold.state.spans,
        tail=call.tail,
        window=call.room.window,
        window_label=call.room.label,
        reserve=call.room.reserve,
        measure=window.Measure(
            tokens=measured.total,
            label=measured.label,
            utilization=round(measured.total / call.room.usable, 4),
            components=shares,
            used=tuple(share.tokens for share in shares),
        ),
        raw_tokens=measured.raw,
        correction=live.watch.factor(call.model),
        stable_prefix=build_report.stable_prefix(live, measured, sent),
        prompt_hash=prompt_hash,
        max_tokens=max_tokens,
        images=call.images,
        sounds=call.sounds,
        sampling=_recorded(sampling, live.transcript.clean) if sampling != AS_ALWAYS else None,
        carried=live.watch.to_carry(live.growth(call), call.turn),
    )
    line = live.record(live.watch.in_short(entry), call.turn)
    live.sent = sent
    return line


def _recorded(sampling: Sampling, clean: Callable[[str], str]) -> Sampling:
    """What may be written down of it: a plan is not searched for secrets, so its texts are here."""
    form = clean(msgspec.json.encode(sampling.output_format).decode())
    return msgspec.structs.replace(
        sampling,
        stop=tuple(clean(text) for text in sampling.stop),
        output_format=bounded_json.read_object(form) or {},
    )


def rebuild(history: transcript.History, plan_line: Line, fold: Fold | None = None) -> Request:
    """The request that a plan announced, byte for byte; a fold that stands there spares one."""
    plan = plan_line.entry
    if not isinstance(plan, window.PromptPlanned):
        raise errors.NoSuchEntry(
            f"Line {plan_line.seq} is {plan_line.kind}, not a planned request.",
            "`mindstone replay --turn N --prompt` finds the plans of a turn.",
        )
    blobs = history.places.blobs
    own = fold if fold and fold.head == plan.through else fold_at(history, plan_line)
    return own.request(
        plan.model,
        turn=plan_line.turn,
        tail=plan.tail,
        blob=(lambda digest: disk.read_blob(blobs, digest)) if plan.images or plan.sounds else None,
        images=plan.images,
        sounds=plan.sounds,
    )


def plans_of_turn(history: transcript.History, turn: int) -> list[Line]:
    """The plans of a turn's model calls, in order; side calls are not among them."""
    return [
        line
        for line in history.turn(turn)
        if isinstance(line.entry, window.PromptPlanned) and not line.entry.purpose
    ]
