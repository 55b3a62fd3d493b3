"""The monitor a session keeps: one sample per turn in, metrics and fresh alerts out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, Literal

import msgspec

from mindstone_tui.core.config.settings import HealthSettings
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.derived import TaskDone
from mindstone_tui.core.entries.window import HealthMeasured
from mindstone_tui.core.health.alerts import Alert, Raised, active, news, over
from mindstone_tui.core.health.metrics import (
    RANGES,
    MetricName,
    Range,
    Snapshot,
    TurnSample,
    measure,
)

KEPT: Final = 1_000
"""Turns that the monitor remembers."""
TREND: Final = 10
TREND_LEAST: Final = 5
STEADY: Final = 0.05
"""Change, against the earlier half, that counts as none."""

Direction = Literal["rising", "falling", "stable"]


class Checked(Part):
    """What came of one turn."""

    snapshot: Snapshot
    raised: tuple[Alert, ...]
    """What was not said before."""
    over: tuple[Alert, ...]
    """What is no longer wrong and was bad enough for somebody to wait for it."""
    active: tuple[Alert, ...]
    cleared: tuple[str, ...] = ()
    """The metrics of all that is no longer wrong."""


class Trend(Part, omit_defaults=False):
    """Where things are going, over the last turns."""

    turns: int
    utilization_delta: float
    burn_rate_delta: float
    average_fidelity: float | None
    utilization: Direction
    burn_rate: Direction

    def sentence(self) -> str:
        """The trend in words."""
        fidelity = (
            "fidelity is unmeasured"
            if self.average_fidelity is None
            else f"fidelity is {self.average_fidelity:.0%}"
        )
        return (
            f"Over {self.turns} turns utilization is {self.utilization} "
            f"({self.utilization_delta:+.1%}), burn rate is {self.burn_rate} "
            f"({self.burn_rate_delta:+,.0f} tokens), {fidelity}."
        )


class Monitor:
    """Health over the newest turns; starts from what the transcript remembers."""

    def __init__(self, settings: HealthSettings, earlier: Iterable[Line] = ()) -> None:
        self.settings = settings
        self._history: deque[Snapshot] = deque(maxlen=KEPT)
        for line in earlier:
            if isinstance(line.entry, HealthMeasured):
                self._history.append(Snapshot(turn=line.turn, measured=line.entry, at=line.ts))
            elif isinstance(line.entry, TaskDone):
                self._history.clear()
        self._active = active(self.history, settings)
        self._raised: dict[tuple[str, str], Raised] = {}

    @property
    def history(self) -> tuple[Snapshot, ...]:
        """The turns that are remembered, oldest first."""
        return tuple(self._history)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """What is wrong now."""
        return self._active

    def record(self, sample: TurnSample, at: str = "") -> Checked:
        """Take a finished turn in."""
        snapshot = msgspec.structs.replace(measure(sample), at=at)
        self._history.append(snapshot)
        before, self._active = self._active, active(self.history, self.settings)
        raised = news(before, self._active, self._raised, snapshot.turn)
        self._raised |= {
            (one.metric, one.level): Raised(turn=snapshot.turn, value=one.value) for one in raised
        }
        return Checked(
            snapshot=snapshot,
            raised=raised,
            over=over(before, self._active),
            active=self._active,
            cleared=tuple(
                sorted({one.metric for one in before} - {one.metric for one in self._active})
            ),
        )

    def trend(self) -> Trend | None:
        """Where things are going; None before there are five turns."""
        return trend(self.history)

    def reset(self) -> None:
        """Forget the turns of a finished task."""
        self._history.clear()
        self._active = ()


def trend(history: Sequence[Snapshot]) -> Trend | None:
    """The last ten turns, the newest against the oldest of them."""
    recent = [one.measured for one in history[-TREND:]]
    if len(recent) < TREND_LEAST:
        return None
    utilization = [one.utilization for one in recent]
    burn = [one.burn_rate for one in recent]
    fidelity = [one.fidelity for one in recent if one.fidelity is not None]
    return Trend(
        turns=len(recent),
        utilization_delta=utilization[-1] - utilization[0],
        burn_rate_delta=burn[-1] - burn[0],
        average_fidelity=fmean(fidelity) if fidelity else None,
        utilization=direction(utilization),
        burn_rate=direction(burn),
    )


def direction(values: Sequence[float]) -> Direction:
    """The newer half's mean against the older half's, where the last value agrees with it."""
    half = len(values) // 2
    older, newer = fmean(values[:half]), fmean(values[-half:])
    change = newer - older
    agrees = change * (values[-1] - values[0]) >= 0
    if not agrees or abs(change) <= STEADY * max(abs(older), 1e-9):
        return "stable"
    return "rising" if change > 0 else "falling"


def table(snapshot: Snapshot) -> tuple[tuple[MetricName, str, str], ...]:
    """Each metric with its value in words and the range that is usual, for `/health`."""
    rows: list[tuple[MetricName, str, str]] = []
    for name, healthy in RANGES.items():
        value = snapshot.value(name)
        if value is None:
            rows.append((name, "unmeasured", "unmeasured"))
            continue
        shown = {
            "utilization": f"{value:.1%}",
            "tool_bloat": f"{value:.1%}",
            "fidelity": f"{value:.1%}",
            "compression_ratio": f"{value:.1f}×",
            "eviction_rate": f"{value:g} exchange{'' if value == 1 else 's'}",
            "burn_rate": _growth(snapshot),
        }[name]
        rows.append((name, shown, "healthy" if healthy.holds(value) else _usual(healthy)))
    return tuple(rows)


def _growth(snapshot: Snapshot) -> str:
    """Tokens a turn, as `/budget` and the panel say them; older turns know only their own."""
    measured = snapshot.measured
    if measured.growth is None:
        return f"{measured.burn_rate:,.0f} tokens"
    return f"{measured.growth:+,.0f} a turn"


def _usual(healthy: Range) -> str:
    low, high = (
        ""
        if end is None
        else (f"{end:.0%}" if healthy.unit == "ratio" and end <= 1 else f"{end:g}")
        for end in (healthy.low, healthy.high)
    )
    if low and high:
        return f"usual is {low} to {high}"
    return f"usual is at least {low}" if low else f"usual is at most {high}"


def health_text(monitor: Monitor, now: float | None = None) -> str:
    """What `/health` says; `now` is how full the window is at this moment."""
    if not monitor.history:
        return "Nothing has been measured yet: health is taken after each turn."
    newest = monitor.history[-1]
    rows = [f"{name:<18} {value:<16} {word}" for name, value, word in table(newest)]
    extra = [
        f"{'protected':<18} {newest.measured.protected:.1%}",
        f"{'index lag':<18} {newest.measured.index_lag} exchanges",
    ]
    alerts = [f"{alert.level}: {alert.message} {alert.remedy}".rstrip() for alert in monitor.alerts]
    found = monitor.trend()
    tail = [found.sentence() if found else "A trend needs five turns."]
    since = f"; now the window is {now:.1%} full" if now is not None else ""
    return "\n".join(
        [
            f"At the end of turn {newest.turn}{since}",
            *rows,
            *extra,
            *(alerts or ["No alerts."]),
            *tail,
        ]
    )


def health_data(monitor: Monitor) -> dict[str, object]:
    """The same for programs: every remembered turn, the alerts and the trend."""
    return {
        "turns": [
            {"turn": one.turn, **msgspec.structs.asdict(one.measured)} for one in monitor.history
        ],
        "alerts": [msgspec.to_builtins(alert) for alert in monitor.alerts],
        "trend": msgspec.to_builtins(monitor.trend()),
    }
