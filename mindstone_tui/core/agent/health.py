"""The health of a session: turns measured, what left the window probed for, summaries judged."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from shutil import disk_usage
from typing import Final

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.memories import RecentHistory, now, stamp
from mindstone_tui.core.context import budget, extract, window_view
from mindstone_tui.core.context.summary_call import Ask
from mindstone_tui.core.entries import Line, Span, conversation, derived
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.health import fidelity, metrics
from mindstone_tui.core.health.fidelity import Judged, judge
from mindstone_tui.core.health.monitor import Monitor
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.providers.guide import GUIDE
from mindstone_tui.core.transcript import History, standings_of
from mindstone_tui.core.values import shared

PROBING: Final = 3.0
"""Seconds that probing recall may take after a turn."""
PROBES: Final = 10
"""Questions about what just left."""


async def judge_summary(history: History, summaries: Sequence[int], ask: Ask | None) -> Judged:
    """Have a model judge the newest of these summaries against its whole originals."""
    if ask is None:
        raise ContinuityError("No model may be asked here.", "/model chooses one that can.")
    read = window_view.reader(history)
    newest = next(iter(read(summaries[-1], summaries[-1])), None) if summaries else None
    if newest is None or not isinstance(newest.entry, derived.SummaryDerived):
        raise ContinuityError("There is no summary in the window to judge.", "/compact makes one.")
    summary = newest.entry
    lines = [line for span in summary.sources for line in read(span.first, span.last)]
    said = extract.passages_of(lines, standings_of(history))
    return await judge(ask, extract.as_text(said), summary.text)


class Health(msgspec.Struct, dict=True, eq=False):
    """The health of one session."""

    _context: TurnContext
    _places: SessionPlaces
    _past: RecentHistory
    _recall: fidelity.Recall | None = None
    clock: Callable[[], datetime] = now
    cleared: tuple[str, ...] = ()
    """What was wrong before the newest turn ended and is not any more, by metric."""

    @cached_property
    def monitor(self) -> Monitor:
        """The measures of this session's newest turns."""
        return Monitor(
            self._context.settings.health,
            reversed(self._past.lines),
            lambda summary: self._context.window.fold.state.summaries[-1:] == (summary,),
        )

    def forget(self) -> None:
        """Another surface wrote: what is known from history is read anew when it is needed."""
        self.__dict__.pop("monitor", None)

    def after_turn(
        self,
        lines: Iterable[Line],
        *,
        measured: float | None = None,
        lag: int = 0,
        recall_failed: bool = False,
        vectors: bool = True,
    ) -> list[Line]:
        """Measure a finished turn; what is newly wrong is raised, once."""
        settings = self._context.settings
        sample = msgspec.structs.replace(
            metrics.sample_of(self._context.report(), lines),
            fidelity=measured,
            index_lag=lag,
            recall_failed=recall_failed,
            vectors=vectors,
            repeating=self._repeats_itself(),
            disk_free=disk_usage(self._places.folder).free,
            ceiling=budget.ceiling_percent(settings.context, self._context.target.label) / 100,
        )
        checked = self.monitor.record(sample, stamp(self.clock()))
        self.cleared = checked.cleared
        turn = self._context.transcript.last_turn
        written = (checked.snapshot.measured, *checked.raised, *checked.over)
        return [self._context.window.record(entry, turn) for entry in written]

    def _repeats_itself(self) -> bool:
        """Whether the newest turns ended with the same answer; the guide's are set, and may."""
        if self._context.model == GUIDE:
            return False
        said = {
            line.turn: line.entry.text
            for line in self._context.window.fold.lines.values()
            if isinstance(line.entry, conversation.AssistantMessage)
        }
        return metrics.saying_the_same(list(said.values()))

    async def probe(self, spans: Sequence[Span]) -> fidelity.Fidelity:
        """Ask recall for facts of what left; unmeasured when there is none or it takes too long."""
        if self._recall is None:
            return fidelity.Fidelity(score=None, asked=0, found=0, why="there is no recall")
        with self._context.transcript.history() as history:
            read = window_view.reader(history)
            lines = [line for span in spans for line in read(span.first, span.last)]
            said = extract.passages_of(lines, standings_of(history))
        probes = fidelity.draw(said, PROBES)
        try:
            async with asyncio.timeout(PROBING):
                return await fidelity.measure(probes, self._recall, self._context.count)
        except TimeoutError:
            return fidelity.Fidelity(score=None, asked=0, found=0, why="recall took too long")

    async def judge(self, ask: Ask | None) -> tuple[Judged, list[Line]]:
        """Have a model judge the newest summary of the window; its verdict, and alerts, written."""
        with self._context.transcript.history() as history:
            summaries = self._context.window.fold.state.summaries
            judged = await judge_summary(history, summaries, ask)
        verdict = derived.SummaryJudged(
            **shared(derived.SummaryScore, judged),
            summary=summaries[-1],
            gate=fidelity.GATE,
            passes=judged.score is not None and judged.score >= fidelity.GATE,
            model=self._context.model,
        )
        turn = self._context.transcript.last_turn
        alerts = self.monitor.hear(verdict, turn)
        return judged, self._context.window.record_all([verdict, *alerts], turn)
