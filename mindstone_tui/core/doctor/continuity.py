"""What continuity rests on, for `mindstone doctor`: memories, checkpoint, handoff, last alerts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from mindstone_tui.core.doctor.base import Check, CheckEnvironment, passed, warned
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import HealthMeasured
from mindstone_tui.core.errors import ContinuityError, MindstoneError
from mindstone_tui.core.handoff.checkpoint_store import load_proven
from mindstone_tui.core.health.metrics import table
from mindstone_tui.core.health.monitor import Monitor
from mindstone_tui.core.memory.files import invariants, read_shelf
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.tokens import counter_for
from mindstone_tui.core.transcript import History

_LOOKED_BACK: Final = 2_000
"""Lines at the end of history in which measures are looked for."""


def checks(around: CheckEnvironment) -> Iterator[Check]:
    """Everything this room can say about an installation."""
    yield from _memory(around)
    places = around.places.session(around.session)
    if places.transcript.exists():
        with History(places) as history:
            yield _checkpoint(places, history)
            yield from _health(around, history)


def _memory(around: CheckEnvironment) -> Iterator[Check]:
    places = around.places.agent(around.session.agent)
    shelf = read_shelf(places)
    yield passed("memory", f"{len(shelf.live)} memories in force.")
    for one in shelf.unreadable:
        yield warned(
            "memory.file",
            f"{one.file}: {one.why}",
            f"Correct it, or move it out of {places.memory}.",
        )
    room = around.settings.memory.invariant_tokens
    if warning := invariants(shelf, room, counter_for("").text).warning:
        yield warned(
            "memory.invariants", f"{warning}.", "Shorten them, or raise memory.invariant_tokens."
        )


def _checkpoint(places: SessionPlaces, history: History) -> Check:
    if not places.checkpoint.exists():
        return passed("checkpoint", "None was saved yet.")
    try:
        found = load_proven(places, history)
    except ContinuityError as error:
        return warned("checkpoint", error.what, error.remedy)
    return passed("checkpoint", f"Version {found.version} of {found.saved_at} can be resumed from.")


def _health(around: CheckEnvironment, history: History) -> Iterator[Check]:
    try:
        newest = [one for one in islice(history.back(), _LOOKED_BACK) if isinstance(one, Line)]
    except MindstoneError as error:
        yield warned("health", error.what, error.remedy)
        return
    measured = [line for line in reversed(newest) if isinstance(line.entry, HealthMeasured)]
    monitor = Monitor(around.settings.health, measured)
    for alert in monitor.alerts:
        yield Check(
            f"health.{alert.metric}",
            "fail" if alert.level == "critical" else "warn",
            alert.message,
            alert.remedy,
        )
    turns = len(monitor.history)
    if not turns:
        yield passed("health", "Nothing has been measured yet.")
        return
    shown = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value, _ in table(monitor.history[-1].measured)
    )
    told = "" if monitor.alerts else f"No alert in the last {turns} turns; "
    yield passed("health", f"{told}the newest: {shown}.")
