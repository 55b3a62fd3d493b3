"""Six metrics after each turn, from numbers that are already there, shown and exported.

Each is one row of `gauges.json`. A value that nobody measured is None; it is absent in what is
exported as Prometheus text or OTLP-shaped JSON, for which no port is opened.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.entries import Line, Part, conversation, derived, window
from mindstone_tui.core.recall.passages import epoch
from mindstone_tui.core.text import one_line
from mindstone_tui.core.values import alike, shipped


class Gauge(Part):
    """A field of `HealthMeasured`: what it says, how others know it, where it is healthy."""

    field: str
    name: str
    """What people call it."""
    exported: str
    """Its name in other programs, after `mindstone_`."""
    shown: str
    """How `/health` writes it; what is empty is only exported."""
    sentence: str
    low: float | None = None
    high: float | None = None
    unit: str = "1"

    def of(self, measured: window.HealthMeasured) -> float | None:
        """Its value after a turn; None where nobody measured it."""
        found: float | None = getattr(measured, self.field)
        return found

    def judged(self, value: float) -> str:
        """Whether a value is healthy, or else what is usual."""
        low, high = self.low, self.high
        if (low is None or value >= low) and (high is None or value <= high):
            return "healthy"
        ends = ["" if e is None else f"{e:.0%}" if e <= 1 else f"{e:g}" for e in (low, high)]
        if all(ends):
            return f"usual is {ends[0]} to {ends[1]}"
        return f"usual is at least {ends[0]}" if ends[0] else f"usual is at most {ends[1]}"


GAUGES: Final = shipped(__file__, "gauges.json", tuple[Gauge, ...])
"""The six metrics, and what is exported beside them; alerts begin further out and must last."""


def table(history: Sequence["Snapshot"]) -> tuple[tuple[str, str, str], ...]:
    """Each metric with its newest value in words and the range that is usual, for `/health`.

    Some are measured only in a turn that makes room: such a value says in which turn it was.
    """
    rows = []
    for gauge in GAUGES:
        known = (one for one in reversed(history) if gauge.of(one.measured) is not None)
        if (found := next(known, None)) is None:
            rows.append((gauge.name, "unmeasured", ""))
        elif gauge.shown:
            value = gauge.of(found.measured) or 0.0
            since = "" if found is history[-1] else f", in turn {found.turn}"
            shown = _shown(gauge, value, found.measured)
            rows.append((gauge.name, shown, f"{gauge.judged(value)}{since}"))
    return tuple(rows)


def _shown(gauge: Gauge, value: float, measured: window.HealthMeasured) -> str:
    """A value in words; growth as `/budget` and the panel say it, where it was kept."""
    if gauge.field == "burn_rate" and measured.growth is not None:
        return f"{measured.growth:+,.0f} a turn"
    if gauge.field == "eviction_rate" and value == 1:
        return "1 exchange"
    return gauge.shown.format(value)


class TurnSample(Part):
    """What a finished turn left behind, as the session counts it."""

    turn: int
    prompt_tokens: int
    usable: int
    added_tokens: int = 0
    evicted: int = 0
    """Exchanges that left in this turn."""
    shortened_before: int = 0
    """Tokens of what was trimmed or summarised in this turn."""
    shortened_after: int = 0
    tool_tokens: int = 0
    protected_tokens: int = 0
    protected_by: str = ""
    window: int = 0
    fidelity: float | None = None
    index_lag: int = 0
    """Exchanges whose words or vectors are not stored yet."""
    recall_failed: bool = False
    vectors: bool = True
    repeating: bool = False
    """The newest answers are nearly one and the same."""
    disk_free: int | None = None
    """Bytes."""
    growth: float | None = None
    """Tokens a turn, averaged as the report does."""
    ceiling: float = 0.0
    """Share of the usable room up to which planning lets the window fill."""
    cut: tuple[int, int] | None = None
    """Tokens that were sent, and how many of them the provider counted, when most are missing."""
    looping: str = ""
    """A call that was made again and again within the turn."""


class Snapshot(Part):
    """A turn's health: the six metrics, and what they come from where that is known."""

    turn: int
    measured: window.HealthMeasured
    sample: TurnSample
    at: str = ""
    """When it was measured."""


def measure(sample: TurnSample, at: str = "") -> Snapshot:
    """The metrics of one turn."""
    usable, prompt = max(sample.usable, 1), max(sample.prompt_tokens, 1)
    shortened = sample.shortened_before > 0
    ratio = sample.shortened_before / max(sample.shortened_after, 1) if shortened else None
    measured = alike(
        window.HealthMeasured,
        sample,
        utilization=round(sample.prompt_tokens / usable, 4),
        eviction_rate=float(sample.evicted),
        compression_ratio=None if ratio is None else round(ratio, 4),
        burn_rate=float(sample.added_tokens),
        tool_bloat=round(sample.tool_tokens / prompt, 4),
        protected=round(sample.protected_tokens / usable, 4),
    )
    return Snapshot(turn=sample.turn, measured=measured, sample=sample, at=at)


def remembered(line: Line, measured: window.HealthMeasured) -> Snapshot:
    """A turn as the transcript remembers it: its metrics alone."""
    sample = TurnSample(turn=line.turn, prompt_tokens=0, usable=0)
    return Snapshot(turn=line.turn, measured=measured, sample=sample, at=line.ts)


def sample_of(report: ContextReport, lines: Iterable[Line]) -> TurnSample:
    """What the one accounting and the lines that a turn wrote say of it."""
    evicted = before = after = 0
    lines = list(lines)
    for line in lines:
        match line.entry:
            case window.ContextWindowPruned(left=left):
                evicted += len(left)
            case window.ToolResultsTrimmed(results=results):
                before += sum(one.tokens_before for one in results)
                after += sum(one.tokens_after for one in results)
            case derived.SummaryDerived(strategy=strategy) as summary:
                if strategy != "tool_result_summary":  # counted where it stands in for its result
                    before += summary.tokens_before
                    after += summary.tokens_after
    sizes = {component.name: component.tokens for component in report.components}
    return TurnSample(
        turn=report.turn,
        prompt_tokens=report.prompt.tokens,
        usable=report.usable,
        added_tokens=report.velocities[-1] if report.velocities else 0,
        evicted=evicted,
        shortened_before=before,
        shortened_after=after,
        tool_tokens=sizes.get("tool_results", 0),
        protected_tokens=report.protected_tokens,
        protected_by=report.protected_by,
        window=report.windows,
        growth=report.velocity,
        cut=cut_by_provider(lines),
        looping=looping_in(lines),
    )


CUT_SHARE: Final = 0.6
"""A provider that counts less than this of a prompt has not read all of it."""
CUT_LEAST: Final = 2_000
"""Tokens of a prompt below which counts differ for other reasons."""
LOOPED: Final = 5
"""The same call so often within one turn is a loop."""


def cut_by_provider(lines: Iterable[Line]) -> tuple[int, int] | None:
    """What was sent and what the provider counted of it, when it cannot have read all of it."""
    sent: dict[int, int] = {}
    for line in lines:
        match line.entry:
            case window.PromptPlanned(call=call, purpose="", measure=window.Measure(tokens=tokens)):
                sent[call] = tokens
            case entry:
                report = conversation.usage_in(entry)
                if report is None or report.purpose or report.by != "provider":
                    continue
                planned, counted = sent.get(report.call, 0), report.usage.prompt or 0
                if counted and planned >= CUT_LEAST and counted < CUT_SHARE * planned:
                    return planned, counted
    return None


def looping_in(lines: Iterable[Line]) -> str:
    """A call that was made again and again with the same arguments in these lines."""
    made = Counter(
        (line.entry.digest, f"{line.entry.name} {line.entry.shown}")
        for line in lines
        if isinstance(line.entry, conversation.ToolCalled)
    )
    often = [shown for (_, shown), times in made.items() if times >= LOOPED]
    return one_line(often[0], 80) if often else ""


ANSWERS: Final = 3
ANSWER_LENGTH: Final = 120
"""Shorter answers may well be the same."""
LIKENESS: Final = 0.97
_COMPARED: Final = 2_000


def saying_the_same(answers: Sequence[str], times: int = ANSWERS) -> bool:
    """Whether the newest answers, over as many turns, are nearly one and the same."""
    newest = list(answers[-times:])
    if len(newest) < times or any(len(text) < ANSWER_LENGTH for text in newest):
        return False
    last = newest[-1][:_COMPARED]
    return all(_alike(text[:_COMPARED], last) for text in newest[:-1])


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return (
        matcher.real_quick_ratio() >= LIKENESS
        and matcher.quick_ratio() >= LIKENESS
        and matcher.ratio() >= LIKENESS
    )


# For other programs

_ALERT: Final = "mindstone_alert_active"


def prometheus(
    snapshots: Sequence[tuple[str, Snapshot]], alerts: Iterable[tuple[str, window.AlertRaised]] = ()
) -> str:
    """The newest snapshot of each session as Prometheus text; what is unmeasured is absent.

    Each alert that is active now is a sample of value 1, so that a rule can fire on it.
    """
    lines: list[str] = []
    for gauge in GAUGES:
        lines += _samples(
            f"mindstone_{gauge.exported}",
            gauge.sentence,
            [
                f'session="{_label(session)}"}} {_number(float(value))}'
                for session, snapshot in snapshots
                if (value := gauge.of(snapshot.measured)) is not None
            ],
        )
    lines += _samples(
        _ALERT,
        "Alerts that are active now.",
        [
            f'session="{_label(session)}",metric="{_label(alert.metric)}",level="{alert.level}"}} 1'
            for session, alert in alerts
        ],
    )
    return "\n".join([*lines, ""]) if lines else ""


def _samples(name: str, meaning: str, rows: Sequence[str]) -> list[str]:
    head = [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"] if rows else []
    return [*head, *(f"{name}{{{row}" for row in rows)]


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() else repr(round(value, 6))


def otlp(session: str, snapshots: Sequence[Snapshot], *, version: str) -> dict[str, Any]:
    """Snapshots as an OTLP/JSON metrics request."""
    metrics = []
    for gauge in GAUGES:
        points = [
            {"timeUnixNano": str(_nanoseconds(snapshot)), "asDouble": float(value)}
            for snapshot in snapshots
            if (value := gauge.of(snapshot.measured)) is not None
        ]
        name = f"mindstone_{gauge.exported}"
        about = {"name": name, "unit": gauge.unit, "description": gauge.sentence}
        if points:
            metrics.append({**about, "gauge": {"dataPoints": points}})
    named = {"service.name": "mindstone", "service.version": version, "session.id": session}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in named.items()]
    scope = {"scope": {"name": "mindstone_tui.core.health"}, "metrics": metrics}
    return {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [scope]}]}


def _nanoseconds(snapshot: Snapshot) -> int:
    """When a snapshot was taken, in Unix nanoseconds; 0 when nobody wrote it down."""
    return int(epoch(snapshot.at) * 1_000) * 1_000_000
