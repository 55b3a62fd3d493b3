"""How fast the window fills, sampled once a model call."""

from __future__ import annotations

import msgspec

from mindstone_tui.core.context import budget
from mindstone_tui.core.context.live import LiveWindow
from mindstone_tui.core.context.view import Call
from mindstone_tui.core.context.watch import completed
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.pressure import VelocitySpiked


class Tempo(msgspec.Struct, frozen=True):
    """How fast the window fills."""

    speed: float
    now: int
    """What this turn added so far."""
    spike: budget.Spike | None


def tempo_of(live: LiveWindow, call: Call) -> Tempo:
    """How fast the window fills, measured once a call."""
    growth = live.growth(call)
    before = completed(growth, call.turn, ended=False)
    now = next((each.tokens for each in growth if each.turn == call.turn), 0)
    return Tempo(
        speed=budget.velocity(before, live.settings.zones.velocity_turns),
        now=now,
        spike=budget.spike(now, before, live.settings.zones.spike),
    )


def note_spike(live: LiveWindow, call: Call, tempo: Tempo) -> list[Line]:
    """Announce, once a turn, that it grew far more than turns usually do."""
    found = tempo.spike
    if found is None or live.watch.carried.spiked == call.turn:
        return []
    live.watch.carried = msgspec.structs.replace(live.watch.carried, spiked=call.turn)
    entry = VelocitySpiked(tokens=found.tokens, baseline=found.baseline, ratio=found.ratio)
    return [live.append(entry, call.turn)]
