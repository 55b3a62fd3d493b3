"""The monitor a session keeps: one sample per turn in, metrics and fresh alerts out.

An alert is something to do, and why now. What planning solves by itself is none, however full or
busy the window is. What was said is not said again for a while, even when it was over in between.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core.config.settings import HealthSettings
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.derived import SummaryJudged, TaskDone
from mindstone_tui.core.entries.window import AlertLevel, AlertRaised, HealthMeasured
from mindstone_tui.core.health.metrics import Snapshot, TurnSample, measure, remembered, table
from mindstone_tui.core.language.lists import lists_in
from mindstone_tui.core.text import plural

KEPT: Final = 1_000
"""Turns that the monitor remembers."""
TREND: Final = 10
TREND_LEAST: Final = 5
STEADY: Final = 0.05
"""Change, against the earlier half, that counts as none."""
BASELINE: Final = 10
"""Earlier turns that say what growth is usual."""
BASELINE_LEAST: Final = 4
RUNAWAY: Final = 0.25
"""Share of the usable room that one turn must add before its growth is worth a word."""
RUNAWAY_LEAST: Final = 4_000
"""Tokens, whatever the room."""
OVER_CEILING: Final = 0.02
"""Beyond the ceiling by this share of the room, planning could not make room."""
CROWDED: Final = 0.5
"""Fullness from which tool results are in the way of something."""
QUIET: Final = 100
"""Turns for which an alert that was raised is not raised again, unless it is much worse."""
MUCH_WORSE: Final = 1.5
"""Times the value of the last time."""
NO_HEADROOM: Final = 0.70
"""Share of the usable room from which protection is a problem of its own."""
DISK_LOW: Final = 1 << 30
DISK_FULL: Final = 64 << 20
FIDELITY_TIMES: Final = 3
"""A few probes may miss by chance; three times in a row they do not."""
_ONCE: Final = frozenset({"tool_bloat"})
"""Metrics that stay where they are in some kinds of work: said again only when much worse."""
_NAMES: Final = {
    "burn_rate": "Token growth",
    "protected": "The protected share",
    "repeating": "Repetition",
    "disk": "Disk space",
    "loop": "Repeating one call",
    "cut": "Prompts that are cut",
}
"""Metrics whose own name does not read well in a sentence."""

_LISTED: Final = "listed by /context"
"""What is told of what may not leave where only the figures of a turn are known."""
_FILE: Final = Path(__file__).with_name("alerts.txt")

Turns = Sequence[Snapshot]
Alerts = Iterator[AlertRaised]


def active(
    history: Turns, settings: HealthSettings, judged: SummaryJudged | None = None
) -> tuple[AlertRaised, ...]:
    """What is wrong now, given the newest turns and what a model said of the newest summary."""
    found = [alert for check in _CHECKS for alert in check(history, settings)] if history else []
    if judged is not None and judged.score is not None and not judged.passes:
        found.append(_alert("fidelity", value=judged.score, said="judged", gate=judged.gate))
    return tuple(found)


@cache
def _said() -> dict[str, list[str]]:
    """What each alert says, and what to do about it."""
    return lists_in(_FILE)


def _alert(
    metric: str,
    level: AlertLevel = "warning",
    value: float | None = None,
    *,
    said: str = "",
    **facts: object,
) -> AlertRaised:
    message, remedy = (text.format(value=value, **facts) for text in _said()[said or metric])
    return AlertRaised(level=level, metric=metric, message=message, value=value, remedy=remedy)


def _lasts(history: Turns, metric: str, wrong: Callable[[float], bool], turns: int) -> float | None:
    """The newest value, when the last so many that were measured are all wrong."""
    found = (getattr(one.measured, metric) for one in history)
    values: list[float] = [value for value in found if value is not None]
    latest = values[-max(turns, 1) :]
    return latest[-1] if len(latest) >= turns and all(map(wrong, latest)) else None


def _lasting(history: Turns, settings: HealthSettings) -> Alerts:
    """Metrics that are out of bounds for as many turns as settings say."""
    turns, ceiling = settings.sustained_turns, history[-1].sample.ceiling
    mark = max(settings.utilization / 100, ceiling + OVER_CEILING)
    value = _lasts(history, "utilization", lambda one: one > mark, turns)
    if value is not None:
        held, fixed = history[-1].sample.protected_by or _LISTED, history[-1].measured.protected
        yield _alert("utilization", "critical", value, mark=mark, turns=turns, by=held, fixed=fixed)
    most = settings.eviction_rate
    value = _lasts(history, "eviction_rate", lambda one: one > most, turns)
    if value is not None:
        yield _alert("eviction_rate", value=value, most=most, turns=turns)
    least = settings.compression_ratio
    if (value := _lasts(history, "compression_ratio", lambda one: one < least, turns)) is not None:
        yield _alert("compression_ratio", value=value, least=least, turns=turns)


def _burn(history: Turns, settings: HealthSettings) -> Alerts:
    """The newest turn's growth against the usual one, where it takes much of the room."""
    now, usable = history[-1].measured.burn_rate, history[-1].sample.usable
    earlier = [one.measured.burn_rate for one in history[:-1] if one.measured.burn_rate > 0]
    few = not usable or len(earlier) < BASELINE_LEAST
    if few or now < max(RUNAWAY * usable, RUNAWAY_LEAST):
        return
    from statistics import median  # 5 ms, and hardly a turn comes this far

    if (ratio := now / max(median(earlier[-BASELINE:]), 1.0)) >= settings.burn_spike:
        yield _alert("burn_rate", value=now, share=now / max(usable, 1), ratio=ratio)


def _fidelity(history: Turns, settings: HealthSettings) -> Alerts:
    value = _lasts(history, "fidelity", lambda one: one < settings.fidelity, FIDELITY_TIMES)
    if value is not None:
        yield _alert("fidelity", value=value)


def _bloat(history: Turns, settings: HealthSettings) -> Alerts:
    most, turns = settings.tool_bloat / 100, settings.sustained_turns
    value = _lasts(history, "tool_bloat", lambda one: one > most, turns)
    if value is not None and all(one.measured.utilization >= CROWDED for one in history[-turns:]):
        yield _alert("tool_bloat", value=value, most=most, turns=turns)


def _newest(history: Turns, _settings: HealthSettings) -> Alerts:
    """What is wrong as soon as one turn shows it."""
    sample, share = history[-1].sample, history[-1].measured.protected
    if share >= NO_HEADROOM:
        level: AlertLevel = "critical" if share >= 0.9 else "warning"
        yield _alert("protected", level, share, by=sample.protected_by or _LISTED)
    if sample.repeating:
        yield _alert("repeating")
    if sample.looping:
        yield _alert("loop", call=sample.looping)
    if sample.cut is not None:
        sent, counted = sample.cut
        yield _alert("cut", "critical", float(counted), sent=sent)


def _recall(history: Turns, settings: HealthSettings) -> Alerts:
    newest, turns = history[-1], settings.sustained_turns
    if newest.sample.recall_failed:
        yield _alert("recall")
    elif not newest.sample.vectors:
        yield _alert("recall", "info", said="vectors")
    lags = [one.measured.index_lag for one in history[-turns:]]
    if len(lags) >= turns and all(earlier < later for earlier, later in pairwise((0, *lags))):
        yield _alert("index_lag", value=float(lags[-1]))


def _disk(history: Turns, _settings: HealthSettings) -> Alerts:
    if (free := history[-1].sample.disk_free) is not None and free < DISK_LOW:
        level: AlertLevel = "critical" if free < DISK_FULL else "warning"
        yield _alert("disk", level, float(free), free=free // (1 << 20))


_OF_TURN: Final = (_newest, _recall, _disk)
"""What only the turn itself shows: its figures do not tell it again later."""
_CHECKS: Final = (_lasting, _burn, _fidelity, _bloat, *_OF_TURN)


def news(
    before: Sequence[AlertRaised],
    now: Sequence[AlertRaised],
    raised: Mapping[tuple[str, str], tuple[int, float | None]],
    turn: int,
) -> tuple[AlertRaised, ...]:
    """What was not said yet or became worse, and was not said lately; `raised` says when it was."""
    said = {(alert.metric, alert.level) for alert in before}
    return tuple(
        alert
        for alert in now
        if (key := (alert.metric, alert.level)) not in said
        and (key not in raised or _is_new(alert, *raised[key], turn))
    )


def _is_new(alert: AlertRaised, said: int, value: float | None, turn: int) -> bool:
    """Whether what was said in a turn, with that value, is worth saying again."""
    if turn - said >= QUIET and alert.metric not in _ONCE:
        return True
    return alert.value is not None and value is not None and alert.value >= MUCH_WORSE * value > 0


def over(before: Sequence[AlertRaised], now: Sequence[AlertRaised]) -> tuple[AlertRaised, ...]:
    """Critical alerts that cleared; nobody waits to hear of the others."""
    still = {alert.metric for alert in now}
    cleared = [one.metric for one in before if one.level == "critical" and one.metric not in still]
    names = {metric: metric.replace("_", " ").capitalize() for metric in cleared} | _NAMES
    return tuple(
        AlertRaised(level="info", metric=metric, message=f"{names[metric]} is back to normal.")
        for metric in cleared
    )


# The newest turns

Direction = Literal["rising", "falling", "stable"]


class Checked(Part):
    """What came of one turn."""

    snapshot: Snapshot
    raised: tuple[AlertRaised, ...]
    """What was not said before."""
    over: tuple[AlertRaised, ...]
    """What is no longer wrong and was bad enough for somebody to wait for it."""
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
        average = self.average_fidelity
        fidelity = "" if average is None else f", fidelity is {average:.0%} where it was measured"
        return (
            f"Over {self.turns} turns fullness is {self.utilization} "
            f"({self.utilization_delta:+.1%}), growth is {self.burn_rate} "
            f"({self.burn_rate_delta:+,.0f} tokens){fidelity}."
        )


class Monitor:
    """Health over the newest turns; starts from what the transcript remembers."""

    def __init__(
        self,
        settings: HealthSettings,
        earlier: Iterable[Line] = (),
        stands: Callable[[int], bool] = lambda summary: True,
    ) -> None:
        self.settings = settings
        self._history: deque[Snapshot] = deque(maxlen=KEPT)
        self._since = "yet"
        """Since when nothing was measured, where nothing is remembered."""
        self._judged: SummaryJudged | None = None
        self._stands = stands
        """Whether a summary is the newest in the window."""
        self._raised: dict[tuple[str, str], tuple[int, float | None]] = {}
        self._on_record: dict[str, tuple[int, AlertRaised]] = {}
        """What was said last, and in which turn: measures do not tell all of it again."""
        for line in earlier:
            if isinstance(line.entry, HealthMeasured):
                self._history.append(remembered(line, line.entry))
            elif isinstance(line.entry, AlertRaised):
                self._raised[line.entry.metric, line.entry.level] = (line.turn, line.entry.value)
                self._on_record[line.entry.metric] = (line.turn, line.entry)
                if line.entry.level == "info" and not line.entry.remedy:  # it is over
                    del self._on_record[line.entry.metric]
            elif isinstance(line.entry, TaskDone):
                self._forget_turns()
            elif isinstance(line.entry, SummaryJudged) and line.entry.score is not None:
                self._judged = line.entry
        self._known = self.alerts
        """What was wrong when it was looked at last."""

    @property
    def history(self) -> tuple[Snapshot, ...]:
        """The turns that are remembered, oldest first."""
        return tuple(self._history)

    @property
    def alerts(self) -> tuple[AlertRaised, ...]:
        """What is wrong now."""
        found = active(self.history, self.settings, self.judged)
        known = {alert.metric for alert in found}
        newest = self._history[-1] if self._history else None
        told = (
            alert
            for turn, alert in self._on_record.values()
            if newest and (turn == newest.turn or alert.metric in newest.measured.wrong)
        )
        return (*found, *(alert for alert in told if alert.metric not in known))

    def said_in(self, alert: AlertRaised) -> str:
        """In which earlier turn something that is wrong was said, as a remark."""
        turn = self._raised.get((alert.metric, alert.level), (0, None))[0]
        return f" (said in turn {turn})" if 0 < turn < self._history[-1].turn else ""

    @property
    def judged(self) -> SummaryJudged | None:
        """What a model last said of a summary, while none is newer in the window."""
        judged = self._judged
        return judged if judged is not None and self._stands(judged.summary) else None

    def record(self, sample: TurnSample, at: str = "") -> Checked:
        """Take a finished turn in."""
        snapshot = measure(sample, at)
        wrong = {one.metric for check in _OF_TURN for one in check([snapshot], self.settings)}
        measured = msgspec.structs.replace(snapshot.measured, wrong=tuple(sorted(wrong)))
        snapshot = msgspec.structs.replace(snapshot, measured=measured)
        self._history.append(snapshot)
        before, alerts, raised = self._look(snapshot.turn)
        return Checked(
            snapshot=snapshot,
            raised=raised,
            over=over(before, alerts),
            cleared=tuple(sorted({one.metric for one in before} - {one.metric for one in alerts})),
        )

    def hear(self, verdict: SummaryJudged, turn: int) -> tuple[AlertRaised, ...]:
        """Take in what a model said of a summary; what is newly wrong."""
        if verdict.score is not None:
            self._judged = verdict
        return self._look(turn)[2]

    def _look(self, turn: int) -> tuple[tuple[AlertRaised, ...], ...]:
        """See what is wrong now: what was before, what is, and what was not said yet."""
        before, self._known = self._known, self.alerts
        raised = news(before, self._known, self._raised, turn)
        self._raised |= {(one.metric, one.level): (turn, one.value) for one in raised}
        return before, self._known, raised

    def trend(self) -> Trend | None:
        """Where things are going; None before there are five turns."""
        return trend(self.history)

    def reset(self) -> None:
        """Forget the turns of a finished task."""
        self._forget_turns()
        self._known = ()

    def _forget_turns(self) -> None:
        self._history.clear()
        self._since = "since the last task ended"

    @property
    def nothing(self) -> str:
        """What is to be said where no turn is remembered."""
        return f"Nothing has been measured {self._since}"


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
        average_fidelity=sum(fidelity) / len(fidelity) if fidelity else None,
        utilization=direction(utilization),
        burn_rate=direction(burn),
    )


def direction(values: Sequence[float]) -> Direction:
    """The newer half's mean against the older half's, where the last value agrees with it."""
    half = len(values) // 2
    older, newer = sum(values[:half]) / half, sum(values[-half:]) / half
    change = newer - older
    agrees = change * (values[-1] - values[0]) >= 0
    if not agrees or abs(change) <= STEADY * max(abs(older), 1e-9):
        return "stable"
    return "rising" if change > 0 else "falling"


def health_text(
    monitor: Monitor, now: float | None = None, usable: int = 0, outside: str = ""
) -> str:
    """What `/health` says; `now` is how full a window with so many tokens is at this moment.

    `outside` is how many exchanges are out of it, in words.
    """
    if not monitor.history:
        return f"{monitor.nothing}: health is taken after each turn."
    newest = monitor.history[-1]
    rows = [
        f"{name:<18} {value:<16} {word}".rstrip() for name, value, word in table(monitor.history)
    ]
    extra = [
        f"{'may not leave':<18} {newest.measured.protected:.1%}",
        f"{'not indexed':<18} {plural(newest.measured.index_lag, 'exchange')}",
    ]
    if (judged := monitor.judged) is not None:
        gate = f"{'passes' if judged.passes else 'does not pass'} its gate of {judged.gate:.0%}"
        extra.append(f"{'summary':<18} {judged.score:<16.1%} judged (#{judged.summary}): {gate}")
    alerts = [
        f"{alert.level}: {alert.message} {alert.remedy}".rstrip() + monitor.said_in(alert)
        for alert in monitor.alerts
    ] or ["No alerts."]
    found = monitor.trend()
    tail = found.sentence() if found else "A trend needs five turns."
    since = f"; now {now:.1%} of {usable:,} usable tokens are full" if now is not None else ""
    since += f", out of the window: {outside}" if outside else ""
    head = f"At the end of turn {newest.turn}{since}"
    return "\n".join([head, *map(str.rstrip, rows), *extra, *alerts, tail])


def health_data(monitor: Monitor) -> dict[str, object]:
    """The same for programs: every remembered turn, the alerts and the trend."""
    return {
        "turns": [
            {"turn": one.turn, **msgspec.structs.asdict(one.measured)} for one in monitor.history
        ],
        "alerts": [_without_kind(msgspec.to_builtins(alert)) for alert in monitor.alerts],
        "trend": msgspec.to_builtins(monitor.trend()),
        "judged": msgspec.to_builtins(monitor.judged),
    }


def _without_kind(entry: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name != "kind"}
