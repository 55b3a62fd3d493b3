"""Six metrics after each turn, from numbers that are already there.

utilization        prompt against usable room at the end of the turn
eviction rate      exchanges that left in the turn
compression ratio  tokens before ÷ after of what was shortened in the turn; None for nothing
burn rate          tokens that the turn added to history's side of the window
fidelity           share of probes that recall brings back; None when nobody probed
tool-result bloat  share of tool results in the prompt
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Final, Literal

from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.conversation import ToolCalled, usage_in
from mindstone_tui.core.entries.derived import SummaryDerived
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    HealthMeasured,
    Measure,
    PromptPlanned,
    ToolResultsTrimmed,
)
from mindstone_tui.core.text import one_line

MetricName = Literal[
    "utilization",
    "eviction_rate",
    "compression_ratio",
    "burn_rate",
    "fidelity",
    "tool_bloat",
]


class Range(Part):
    """Where a metric is healthy, and what it means when it is not."""

    low: float | None = None
    high: float | None = None
    unit: str = ""
    meaning: str = ""

    def holds(self, value: float) -> bool:
        """Whether a value is inside."""
        above = self.low is None or value >= self.low
        return above and (self.high is None or value <= self.high)


RANGES: Final[Mapping[MetricName, Range]] = MappingProxyType(
    {
        "utilization": Range(high=0.60, unit="ratio", meaning="prompt against usable room"),
        "eviction_rate": Range(high=2.0, unit="exchanges", meaning="exchanges leaving per turn"),
        "compression_ratio": Range(
            low=3.0, high=15.0, unit="ratio", meaning="tokens before and after shortening"
        ),
        "burn_rate": Range(unit="tokens", meaning="tokens added per turn"),
        "fidelity": Range(low=0.85, unit="ratio", meaning="what left that recall brings back"),
        "tool_bloat": Range(high=0.15, unit="ratio", meaning="tool results in the prompt"),
    }
)
"""Healthy values; alerts begin further out and only when they last."""


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
    """A turn's health: the six metrics and what else was noticed."""

    turn: int
    measured: HealthMeasured
    recall_failed: bool = False
    vectors: bool = True
    repeating: bool = False
    disk_free: int | None = None
    usable: int = 0
    ceiling: float = 0.0
    cut: tuple[int, int] | None = None
    looping: str = ""
    at: str = ""
    """When it was measured."""

    def value(self, metric: MetricName) -> float | None:
        """One of the six."""
        found: float | None = getattr(self.measured, metric)
        return found


def measure(sample: TurnSample) -> Snapshot:
    """The metrics of one turn."""
    usable, prompt = max(sample.usable, 1), max(sample.prompt_tokens, 1)
    shortened = sample.shortened_before > 0
    ratio = sample.shortened_before / max(sample.shortened_after, 1) if shortened else None
    return Snapshot(
        turn=sample.turn,
        measured=HealthMeasured(
            utilization=round(sample.prompt_tokens / usable, 4),
            eviction_rate=float(sample.evicted),
            compression_ratio=None if ratio is None else round(ratio, 4),
            burn_rate=float(sample.added_tokens),
            fidelity=sample.fidelity,
            tool_bloat=round(sample.tool_tokens / prompt, 4),
            index_lag=sample.index_lag,
            protected=round(sample.protected_tokens / usable, 4),
            window=sample.window,
            growth=sample.growth,
        ),
        usable=sample.usable,
        ceiling=sample.ceiling,
        cut=sample.cut,
        looping=sample.looping,
        recall_failed=sample.recall_failed,
        vectors=sample.vectors,
        repeating=sample.repeating,
        disk_free=sample.disk_free,
    )


def sample_of(
    report: ContextReport,
    lines: Iterable[Line],
    *,
    fidelity: float | None = None,
    index_lag: int = 0,
    recall_failed: bool = False,
    vectors: bool = True,
    repeating: bool = False,
    disk_free: int | None = None,
    ceiling: float = 0.0,
) -> TurnSample:
    """A turn's numbers from the one accounting and from the lines that the turn wrote."""
    evicted = before = after = 0
    lines = list(lines)
    for line in lines:
        match line.entry:
            case ContextWindowPruned(left=left):
                evicted += len(left)
            case ToolResultsTrimmed(results=results):
                before += sum(one.tokens_before for one in results)
                after += sum(one.tokens_after for one in results)
            case SummaryDerived(strategy=strategy) as summary:
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
        window=report.windows,
        fidelity=fidelity,
        index_lag=index_lag,
        recall_failed=recall_failed,
        vectors=vectors,
        repeating=repeating,
        disk_free=disk_free,
        growth=report.velocity,
        ceiling=ceiling,
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
            case PromptPlanned(call=call, purpose="", measure=Measure(tokens=tokens)):
                sent[call] = tokens
            case entry:
                report = usage_in(entry)
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
        if isinstance(line.entry, ToolCalled)
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
