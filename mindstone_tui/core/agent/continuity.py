"""Continuity as a session uses it: the task, handoffs, health, and how room is made.

Everything is written through the session's own `record`, so that each step is an entry before it
has an effect. What fails here is said and costs the turn nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from mindstone_tui.core.agent.ground import LOOKED_BACK, Ground, now, stamp
from mindstone_tui.core.agent.memories import Memories
from mindstone_tui.core.context.asking import Ask
from mindstone_tui.core.context.cascade import Apply, Effect, StepName
from mindstone_tui.core.context.compression import Scribe
from mindstone_tui.core.context.material import passages_of
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.context.view import reader
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.entries.memory import Consolidated
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.errors import ContinuityError, NotSaved
from mindstone_tui.core.handoff import keeping, letter, taking_over, tasks
from mindstone_tui.core.handoff.environment import Environment, files_touched, observe
from mindstone_tui.core.handoff.resuming import Resumption, bootstrap
from mindstone_tui.core.health import fidelity
from mindstone_tui.core.health.metrics import sample_of
from mindstone_tui.core.health.monitor import Monitor
from mindstone_tui.core.memory import ledger
from mindstone_tui.core.places import AgentPlaces, Places, SessionPlaces
from mindstone_tui.core.transcript import History

_BEFORE: Final = 64
"""Lines before a task's first message among which its start is looked for."""
HANDOFF_SHARE: Final = 10
"""Percent of the usable room that a handoff may take."""


class Continuity:
    """One session's continuity."""

    def __init__(
        self,
        desk: Ground,
        home: Places,
        places: SessionPlaces,
        cwd: Path,
        *,
        ask: Ask | None = None,
        recall: fidelity.Recall | None = None,
        unindexed: Callable[[], Awaitable[int]] | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.desk = desk
        self.places = places
        self.agent: AgentPlaces = home.agent(places.key.agent)
        self.cwd = cwd
        self.ask = ask
        self._recall = recall
        self._unindexed = unindexed
        self._clock = clock
        with self._history() as history:
            earlier = [one for one in islice(history.back(), LOOKED_BACK) if isinstance(one, Line)]
        self.monitor = Monitor(desk.settings.health, reversed(earlier))
        self.memories = Memories(desk, home, places, earlier, ask=ask, clock=clock)
        self.modes = Modes(self._means())
        desk.working_set.room_maker = self.modes.make_room

    def answer_with(self, ask: Ask | None) -> None:
        """Let another model write summaries and prose, or none; `desk.model` is its name."""
        self.ask = self.memories.ask = ask
        self.modes.means = self._means()

    # The task

    def standing(self) -> keeping.Standing:
        """The task as it is now."""
        state = self.desk.working_set.fold.state
        first = state.spans[0].first if state.spans else 0
        since = min(first, first if state.task is None else state.task) - _BEFORE
        with self._history() as history:
            return keeping.standing(self.places, history, since=max(since, 0))

    def save_checkpoint(self, trigger: str) -> Line:
        """Write the task's state down, for machines, for people and into the log."""
        state = self.standing()
        saved = keeping.save(
            self.places,
            state.checkpoint,
            environment=self._environment(self._window_lines()),
            saved_at=stamp(self._clock()),
            trigger=trigger,
            newest=state.newest,
        )
        line = self._write(saved.entry)
        checkpoint = saved.checkpoint
        section = ledger.LogSection(
            session=str(self.places.key),
            version=checkpoint.version,
            happened=(
                checkpoint.goal.splitlines()[0][:200],
                *(f"done: {one.title}" for one in checkpoint.of("done")[-10:]),
            ),
            decisions=tuple(one.text for one in checkpoint.decisions[-5:]),
            cited=tuple(sorted(self.memories.cited)),
            prevented=tuple(sorted(self.memories.prevented)),
            proposed=tuple(one.entry.path for one in self.memories.waiting),
        )
        ledger.write_log(self.agent, section, self._clock())
        self.memories.cited.clear()
        self.memories.prevented.clear()
        return line

    def start_task(self, argument: str) -> Line:
        """Begin a task: `title | when: criterion | rule: constraint`."""
        return self._write(tasks.parse_start(argument))

    def finish_task(self) -> Line:
        """End the task: a last checkpoint, archived, a summary, and health that starts anew."""
        self.save_checkpoint("task done")
        checkpoint = self.standing().checkpoint
        trend = self.monitor.trend()
        entry = tasks.done(
            checkpoint,
            archived=str(keeping.archive(self.places).relative_to(self.places.folder)),
            trend=trend.sentence() if trend else "",
        )
        line = self._write(entry)
        self.monitor.reset()
        self.memories.notes = ()
        return line

    def resume(self, budget: int = 2_000) -> Resumption:
        """The five steps of going on; refused with its reason when the checkpoint is no good."""
        with self._history() as history:
            return bootstrap(
                lambda: keeping.load_proven(self.places, history),
                lambda files: observe(self.cwd, files),
                self.desk.count,
                budget,
            )

    # Handoffs

    async def write_handoff(self, trigger: str, *, prose: bool = False) -> Line:
        """Write a handoff of the window as it is; prose is a model's, and marked."""
        lines = self._window_lines()
        checkpoint = self.standing().checkpoint
        environment = self._environment(lines)
        budget = self.desk.report().usable * HANDOFF_SHARE // 100

        def compose(text: str = "") -> letter.Letter:
            return letter.compose(
                checkpoint,
                lines,
                environment,
                written=stamp(self._clock()),
                trigger=trigger,
                count=self.desk.count,
                budget=min(letter.BUDGET, budget),
                prose=text,
                model=self.desk.model,
            )

        written = compose()
        if prose and self.ask is not None and (text := await letter.prose(self.ask, written)):
            written = compose(text)
        return self._write(taking_over.write(self.places, written))

    def use_handoff(self) -> Line:
        """Take the newest handoff over into the head of the prompt, once."""
        with self._history() as history:
            taken = taking_over.take_over_newest(self.places, history, self.desk.count)
        return self._write(taken.entry(self.desk.working_set.fold.state))

    def newest_handoff(self) -> str:
        """The handoff that was written last, as it stands in its file."""
        return taking_over.newest_file(self.places).read_text(encoding="utf-8")

    # Looking back

    def reviewed_through(self) -> int:
        """How far history was reviewed already; -1 when it never was."""
        with self._history() as history:
            for one in islice(history.back(), LOOKED_BACK):
                if isinstance(one, Line) and isinstance(one.entry, Consolidated):
                    return one.entry.through
        return -1

    async def after_review(self) -> Line:
        """End a review: what it proposed goes into today's journal, and a handoff is written."""
        waiting = [f"{one.entry.proposal}: {one.entry.path}" for one in self.memories.waiting]
        ledger.write_journal(
            self.agent, str(self.places.key), self._clock(), [("Proposed", waiting)]
        )
        return await self.write_handoff("consolidation")

    # Health

    def after_turn(
        self, lines: Iterable[Line], *, measured: float | None = None, lag: int = 0
    ) -> list[Line]:
        """Measure a finished turn; what is newly wrong is raised, once."""
        checked = self.monitor.record(
            sample_of(self.desk.report(), lines, fidelity=measured, index_lag=lag)
        )
        return [
            self._write(checked.snapshot.measured),
            *(self._write(alert.entry()) for alert in checked.raised),
        ]

    async def probe(self, pruned: ContextWindowPruned) -> fidelity.Fidelity:
        """Ask recall for what just left the window."""
        if self._recall is None:
            return fidelity.Fidelity(score=None, asked=0, found=0, why="there is no recall")
        with self._history() as history:
            read = reader(history)
            lines = [line for one in pruned.left for line in read(one.span.first, one.span.last)]
        return await fidelity.measure(
            fidelity.draw(passages_of(lines)), self._recall, self.desk.count
        )

    # Making room

    def _means(self) -> Means:
        async def checkpoint(_excess: int) -> Effect:
            return _tried(lambda: self.save_checkpoint("window"))

        async def handoff(_excess: int) -> Effect:
            try:
                return Effect(lines=(await self.write_handoff("window"),))
            except (ContinuityError, NotSaved) as error:
                return Effect(held=False, why=error.what)

        async def replay(_excess: int) -> Effect:
            return _tried(self.use_handoff)

        async def backfill(_excess: int) -> Effect:
            waiting = await self._unindexed() if self._unindexed else 0
            return Effect(why=f"{waiting} exchanges wait to be indexed" if waiting else "")

        steps: dict[StepName, Apply] = {
            "checkpoint": checkpoint,
            "handoff": handoff,
            "handoff_replay": replay,
            "backfill": backfill,
        }
        scribe = Scribe(count=self.desk.count, ask=self.ask, model=self.desk.model)
        return Means(scribe=scribe, steps=steps)

    def _window_lines(self) -> list[Line]:
        with self._history() as history:
            read = reader(history)
            spans = self.desk.working_set.spans
            lines = [line for span in spans for line in read(span.first, span.last)]
            last = lines[-1].seq if lines else -1
            return [*lines, *read(last + 1, history.head.seq)]

    def _environment(self, lines: Sequence[Line]) -> Environment:
        return observe(self.cwd, [file.path for file in files_touched(lines)])

    def _history(self) -> History:
        return self.desk.transcript.history()

    def _write(self, entry: Entry) -> Line:
        return self.desk.record(entry, self.desk.transcript.last_turn)


def _tried(act: Callable[[], Line]) -> Effect:
    """What a step came to; a refusal is no accident of the turn."""
    try:
        return Effect(lines=(act(),))
    except (ContinuityError, NotSaved) as error:
        return Effect(held=False, why=error.what)
