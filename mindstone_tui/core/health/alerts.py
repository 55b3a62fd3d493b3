"""Alerts: about what lasts and what planning could not solve, said once until it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Final

from mindstone_tui.core.config.settings import HealthSettings
from mindstone_tui.core.entries import Part
from mindstone_tui.core.entries.window import AlertLevel, AlertRaised
from mindstone_tui.core.health.metrics import MetricName, Snapshot

BASELINE: Final = 10
"""Earlier turns that say what growth is usual."""
BASELINE_LEAST: Final = 4
SPIKE_LEAST: Final = 500
"""Tokens below which no growth is worth a word."""
NO_HEADROOM: Final = 0.70
"""Share of the usable room from which protection is a problem of its own."""
DISK_LOW: Final = 1 << 30
DISK_FULL: Final = 64 << 20
_NAMES: Final = {
    "burn_rate": "Token growth",
    "protected": "The protected share",
    "repeating": "Repetition",
    "disk": "Disk space",
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


def news(before: Sequence[Alert], now: Sequence[Alert]) -> tuple[Alert, ...]:
    """What was not said yet, or became worse."""
    said = {(alert.metric, alert.level) for alert in before}
    return tuple(alert for alert in now if (alert.metric, alert.level) not in said)


def over(before: Sequence[Alert], now: Sequence[Alert]) -> tuple[Alert, ...]:
    """Alerts that cleared."""
    still = {alert.metric for alert in now}
    cleared = [one.metric for one in before if one.level != "info" and one.metric not in still]
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
    mark, turns = settings.utilization / 100, settings.sustained_turns
    value = _lasts(history, "utilization", lambda one: one > mark, turns)
    if value is not None:
        yield Alert(
            level="critical",
            metric="utilization",
            message=f"The window has been over {mark:.0%} for {turns} turns.",
            value=value,
            remedy="/prune makes room; /context shows what takes it.",
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
    turns = settings.sustained_turns
    ratios = [spike_ratio(history[: len(history) - back]) for back in range(turns)]
    if ratios[0] is None or ratios[0] < settings.burn_spike:
        return
    lasting = all(ratio is not None and ratio >= settings.burn_spike for ratio in ratios)
    yield Alert(
        level="critical" if lasting else "warning",
        metric="burn_rate",
        message=f"This turn added {ratios[0]:.1f}× the usual tokens"
        + (f", as the {turns - 1} before it did." if lasting else "."),
        value=history[-1].measured.burn_rate,
        remedy="If the agent repeats itself, interrupt it (Esc).",
    )


def spike_ratio(history: Sequence[Snapshot]) -> float | None:
    """The newest turn's growth against the usual one; None when that is not known yet."""
    if not history:
        return None
    now = history[-1].measured.burn_rate
    earlier = [one.measured.burn_rate for one in history[:-1] if one.measured.burn_rate > 0]
    if len(earlier) < BASELINE_LEAST or now < SPIKE_LEAST:
        return None
    return now / max(median(earlier[-BASELINE:]), 1.0)


def _fidelity(history: Sequence[Snapshot], settings: HealthSettings) -> Iterator[Alert]:
    value = _lasts(history, "fidelity", lambda one: one < settings.fidelity, 1)
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
    if value is not None:
        yield Alert(
            level="warning",
            metric="tool_bloat",
            message=f"Tool results have filled over {most:.0%} of the prompt for {turns} turns.",
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
    lagging = len(recent) >= settings.sustained_turns and all(
        one.measured.index_lag > 0 for one in recent
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
    _recall,
    _disk,
)
