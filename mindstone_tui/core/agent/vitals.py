"""How a session measures what left its window: by asking recall, or by asking a model to judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from mindstone_tui.core.context.extract import as_text, passages_of
from mindstone_tui.core.context.fold import ReadLines
from mindstone_tui.core.context.summary_call import Ask, Count
from mindstone_tui.core.entries import Span
from mindstone_tui.core.entries.derived import SummaryDerived
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.health import fidelity
from mindstone_tui.core.health.judge import Judged, judge

PROBING: Final = 3.0
"""Seconds that probing recall may take after a turn."""
PROBES: Final = 10
"""Questions about what just left."""


async def probe_spans(
    read: ReadLines,
    spans: Sequence[Span],
    recall: fidelity.Recall | None,
    count: Count,
    *,
    within: float = PROBING,
) -> fidelity.Fidelity:
    """Ask recall for facts of these lines; unmeasured when there is none or it takes too long."""
    if recall is None:
        return fidelity.Fidelity(score=None, asked=0, found=0, why="there is no recall")
    lines = [line for span in spans for line in read(span.first, span.last)]
    probes = fidelity.draw(passages_of(lines), PROBES)
    try:
        async with asyncio.timeout(within):
            return await fidelity.measure(probes, recall, count)
    except TimeoutError:
        return fidelity.Fidelity(score=None, asked=0, found=0, why="recall took too long")


async def judge_summary(read: ReadLines, summaries: Sequence[int], ask: Ask | None) -> Judged:
    """Have a model judge the newest of these summaries against its whole originals."""
    if ask is None:
        raise ContinuityError("No model may be asked here.", "/model chooses one that can.")
    newest = next(iter(read(summaries[-1], summaries[-1])), None) if summaries else None
    if newest is None or not isinstance(newest.entry, SummaryDerived):
        raise ContinuityError(
            "There is no summary in the window to be judged.", "/compact makes one."
        )
    summary = newest.entry
    lines = [line for span in summary.sources for line in read(span.first, span.last)]
    return await judge(ask, as_text(passages_of(lines)), summary.text)
