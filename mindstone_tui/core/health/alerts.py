"""Alerts: something to do, and why now.

What planning solves by itself is no alert, however full or busy the window is. What was said is not
said again for a while, even when it was over in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from mindstone_tui.core.config.settings import HealthSettings
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.window import AlertLevel, AlertRaised
from mindstone_tui.core.health.metrics import MetricName, Snapshot

BASELINE: Final = 10
"""Earlier turns that say what growth is usual."""
BASELINE_LEAST: Final = 4
RUNAWAY: Final = 0.25
"""Share of the usable room that one turn must add before its growth is worth a word."""
RUNAWAY_LEAST: Final = 4_000
"""Tokens, whatever the room."""
OVER_CEILING: Final = 0.02
"""Beyond the ceiling by this share of the room, planning could not make room."""
CROWDED: Final = 0.85
"""Fullness, at the ceiling at the earliest, from which tool results are in the way of something."""
QUIET: Final = 100
"""Turns for which an alert that was raised is not raised again, unless it is much worse."""
MUCH_WORSE: Final = 1.5
"""Times the value of the last time."""
NO_HEADROOM: Final = 0.70
"""Share of the usable room from which protection is a problem of its own."""
DISK_LOW: Final = 1 << 30
DISK_FULL: Final = 64 << 20
_NAMES: Final = {
    "burn_rate": "Token growth",
    "protected": "The protected share",
    "repeating": "Repetition",
    "disk": "Disk space",
    "loop": "Repeating one call",
    "cut": "Prompts that are cut",
}
"""Metrics whose own name does not read well in a sentence."""


class Alert(Part):
    """Something a person should know."""

    level: AlertLevel
    metric: str
    message: str
    value: float | None = None
    remedy: str = ""

    def entry(self) -> AlertRaised:
        """What the transcript remembers of it."""
        return AlertRaised(
            level=self.level,
            metric=self.metric,
            message=self.message,
            value=self.value,
            remedy=self.remedy,
        )


def active(history: Sequence[Snapshot], settings: HealthSettings) -> tuple[Alert, ...]:
    """What is wrong now, given the newest turns, the last of which just ended."""
    if not history:
        return ()
    return tuple(alert for check in _CHECKS for alert in check(history, settings))


def news(
    before: Sequence[Alert],
    now: Sequence[Alert],
    raised: Mapping[tuple[str, str], Raised],
    turn: int,
) -> tuple[Alert, ...]:
    """What was not said yet or became worse, and was not said lately."""
    said = {(alert.metric, alert.level) for alert in before}
    return tuple(
        alert
        for alert in now
        if (alert.metric, alert.level) not in said
        and _is_new(alert, raised.get((alert.metric, alert.level)), turn)
    )


class Raised(Part):
    """When an alert was raised last, and how bad it was."""

    turn: int
    value: float | None = None


def _is_new(alert: Alert, last: Raised | None, turn: int) -> bool:
    if last is None or turn - last.turn >= QUIET:
        return True
    return (
        alert.value is not None
        and last.value is not None
        and alert.value >= MUCH_WORSE * last.value > 0
    )


def over(before: Sequence[Alert], now: Sequence[Alert]) -> tuple[Alert, ...]:
    """Critical alerts that cleared; nobody waits to hear of the others."""
    still = {alert.metric for alert in now}
    cleared = [one.metric for one in before if one.level == "critical" and one.metric not in still]
    names = {metric: metric.replace("_", " ").capitalize() for metric in cleared} | _NAMES
    return tuple(
        Alert(level="info", metric=metric, message=f"{names[metric]} is back to normal.")
        for metric in cleared
    )


def _lasts(
    history: Sequence[Snapshot],
    metric: MetricName,
    wrong: Callable[[float], bool],
    turns: int,
) -> float | None:
    """The newest value, when the last so many that were measured are all wrong."""
    values = [value for one in history if (value := one.value(metric)) is not None]
    latest = values[-max(turns, 1) :]
    return latest[-1] if len(latest) >= turns and all(map(wrong, latest)) else None


def _utilization(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    turns = settings.sustained_turns
    mark = max(settings.utilization / 100, history[-1].ceiling + OVER_CEILING)
    value = _lasts(history, "utilization", lambda one: one > mark, turns)
    if value is not None:
        yield Alert(
            level="critical",
            metric="utilization",
            message=f"The window has been over {mark:.0%} for {turns} turns: nothing in it may "
            "leave, or what arrives is too large.",
            value=value,
            remedy="/context shows what takes the room; /unpin or /prune makes some.",
        )


def _eviction(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    most, turns = settings.eviction_rate, settings.sustained_turns
    value = _lasts(history, "eviction_rate", lambda one: one > most, turns)
    if value is not None:
        yield Alert(
            level="warning",
            metric="eviction_rate",
            message=f"More than {most:g} exchanges left in each of the last {turns} turns.",
            value=value,
            remedy="The window is too small for this work: use a larger one, or delegate.",
        )


def _compression(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    least, turns = settings.compression_ratio, settings.sustained_turns
    value = _lasts(history, "compression_ratio", lambda one: one < least, turns)
    if value is not None:
        yield Alert(
            level="warning",
            metric="compression_ratio",
            message=f"Shortening has gained less than {least:g}× the last {turns} times.",
            value=value,
            remedy="Let whole exchanges leave instead: /mode sliding_window.",
        )


def _burn(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    ratio = spike_ratio(history)
    if ratio is None or ratio < settings.burn_spike:
        return
    added = history[-1].measured.burn_rate
    share = added / max(history[-1].usable, 1)
    yield Alert(
        level="warning",
        metric="burn_rate",
        message=f"This turn added {added:,.0f} tokens, {share:.0%} of the room and "
        f"{ratio:.0f} times the usual.",
        value=added,
        remedy="/prune results shortens what tools said; Esc interrupts an agent that repeats "
        "itself.",
    )


def spike_ratio(history: Sequence[Snapshot]) -> float | None:
    """The newest turn's growth against the usual one; None while it is no reason to act."""
    if not history:
        return None
    now = history[-1].measured.burn_rate
    earlier = [one.measured.burn_rate for one in history[:-1] if one.measured.burn_rate > 0]
    least = max(RUNAWAY * history[-1].usable, RUNAWAY_LEAST)
    if len(earlier) < BASELINE_LEAST or now < least:
        return None
    return now / max(median(earlier[-BASELINE:]), 1.0)


FIDELITY_TIMES: Final = 3
"""A few probes may miss by chance; three times in a row they do not."""


def _fidelity(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    value = _lasts(history, "fidelity", lambda one: one < settings.fidelity, FIDELITY_TIMES)
    if value is not None:
        yield Alert(
            level="warning",
            metric="fidelity",
            message=f"Recall brings back only {value:.0%} of what was probed.",
            value=value,
            remedy="mindstone reindex rebuilds the index; /pin keeps what must not leave.",
        )


def _bloat(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    most, turns = settings.tool_bloat / 100, settings.sustained_turns
    value = _lasts(history, "tool_bloat", lambda one: one > most, turns)
    mark = max(CROWDED, history[-1].ceiling)  # below the ceiling, planning makes room by itself
    crowded = all(one.measured.utilization >= mark for one in history[-turns:])
    if value is not None and crowded:
        yield Alert(
            level="warning",
            metric="tool_bloat",
            message=f"Tool results have filled over {most:.0%} of a window that is nearly full "
            f"for {turns} turns.",
            value=value,
            remedy="/prune results trims them; narrower commands say less.",
        )


def _protected(history: Sequence[Snapshot], _settings: HealthSettings) -> Iterator[Alert]:
    share = history[-1].measured.protected
    if share >= NO_HEADROOM:
        yield Alert(
            level="critical" if share >= 0.9 else "warning",
            metric="protected",
            message=f"{share:.0%} of the window may not leave it.",
            value=share,
            remedy="/unpin what is no longer needed, and keep standing files thin.",
        )


def _repeating(history: Sequence[Snapshot], _settings: HealthSettings) -> Iterator[Alert]:
    if history[-1].repeating:
        yield Alert(
            level="warning",
            metric="repeating",
            message="The model has said nearly the same in its newest answers.",
            remedy="Ask differently, /rewind to before it began, or switch with /model.",
        )


def _recall(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    newest, recent = history[-1], history[-settings.sustained_turns :]
    lags = [one.measured.index_lag for one in recent]
    lagging = len(lags) >= settings.sustained_turns and all(
        earlier < later for earlier, later in pairwise((0, *lags))
    )
    if newest.recall_failed:
        yield Alert(
            level="warning",
            metric="recall",
            message="The index could not be searched in this turn.",
            remedy="mindstone doctor says why; mindstone reindex rebuilds it.",
        )
    elif not newest.vectors:
        yield Alert(
            level="info",
            metric="recall",
            message="Recall works on words alone: vectors are not available.",
            remedy="mindstone doctor says why.",
        )
    if lagging:
        lag = newest.measured.index_lag
        yield Alert(
            level="warning",
            metric="index_lag",
            message=f"{lag} exchanges are not indexed yet and cannot leave the window.",
            value=float(lag),
            remedy="mindstone reindex finishes the work.",
        )


def _loop(history: Sequence[Snapshot], _settings: HealthSettings) -> Iterator[Alert]:
    if said := history[-1].looping:
        yield Alert(
            level="warning",
            metric="loop",
            message=f"The same call was made again and again: {said}.",
            remedy="Say what to do instead, /rewind to before it, or switch with /model.",
        )


def _cut(history: Sequence[Snapshot], _settings: HealthSettings) -> Iterator[Alert]:
    if (found := history[-1].cut) is not None:
        sent, counted = found
        yield Alert(
            level="critical",
            metric="cut",
            message=f"{sent:,} tokens were sent and the provider counted {counted:,}: it cuts "
            "prompts without saying so.",
            value=float(counted),
            remedy=f"Set context.window to what it serves (about {counted:,}), or raise the "
            "server's own limit.",
        )


def _disk(history: Sequence[Snapshot], _settings: HealthSettings) -> Iterator[Alert]:
    free = history[-1].disk_free
    if free is not None and free < DISK_LOW:
        yield Alert(
            level="critical" if free < DISK_FULL else "warning",
            metric="disk",
            message=f"{free // (1 << 20)} MiB are free where history is written.",
            value=float(free),
            remedy="Free some space: MindStone does not go on while it cannot save.",
        )


_CHECKS: Final = (
    _utilization,
    _eviction,
    _compression,
    _burn,
    _fidelity,
    _bloat,
    _protected,
    _repeating,
    _loop,
    _cut,
    _recall,
    _disk,
)
