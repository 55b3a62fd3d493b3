"""Continuity as a session uses it: the task, handoffs, health, and how room is made.

Everything is written through the session's own `record`, so that each step is an entry before it
has an effect. What fails here is said and costs the turn nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from shutil import disk_usage
from typing import Final

import msgspec

from mindstone_tui.core.agent.memories import LOOKED_BACK, Ground, Memories, now, stamp
from mindstone_tui.core.agent.open_work import (
    BEFORE,
    begun_as_task,
    running_task,
    summary_text,
    task_section,
    where_it_stands,
)
from mindstone_tui.core.agent.room_steps import room_steps
from mindstone_tui.core.agent.vitals import judge_summary, probe_spans
from mindstone_tui.core.context.extract import passages_of
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.context.summaries import Material, Scribe, Summary, strategy
from mindstone_tui.core.context.summary_call import Ask
from mindstone_tui.core.context.window_view import reader
from mindstone_tui.core.entries import Entry, Line, Span
from mindstone_tui.core.entries.conversation import AssistantMessage
from mindstone_tui.core.entries.derived import (
    BackfillChecked,
    Consolidated,
    MemoryDecided,
    MemoryProposed,
    NoteTaken,
    TaskDone,
    TaskStarted,
)
from mindstone_tui.core.entries.window import ContextWindowPruned, HealthMeasured, Section
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.handoff import checkpoint_store, handoff, handoff_store, resume
from mindstone_tui.core.handoff.environment import Environment, files_touched, observe
from mindstone_tui.core.handoff.resume import Resumption, bootstrap
from mindstone_tui.core.health import fidelity
from mindstone_tui.core.health.judge import Judged
from mindstone_tui.core.health.metrics import sample_of, saying_the_same
from mindstone_tui.core.health.monitor import Monitor
from mindstone_tui.core.memory import journal, notes
from mindstone_tui.core.paths import AgentPlaces, Places, SessionPlaces
from mindstone_tui.core.providers.guide import GUIDE
from mindstone_tui.core.text import plural
from mindstone_tui.core.transcript import History

_KEPT: Final = (HealthMeasured, NoteTaken, MemoryProposed, MemoryDecided, TaskStarted, TaskDone)
"""Kinds of lines that measures, notes, proposals and the task are made from."""
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
        self._home = home
        self.modes = Modes(self._means())
        desk.working_set.room_maker = self.modes.make_room

    @cached_property
    def monitor(self) -> Monitor:
        """The health of this session's newest turns."""
        return Monitor(self.desk.settings.health, reversed(self._earlier))

    @cached_property
    def memories(self) -> Memories:
        """What this session notes and proposes to remember."""
        return Memories(
            self.desk, self._home, self.places, self._earlier, ask=self.ask, clock=self._clock
        )

    @cached_property
    def task(self) -> Section | None:
        """The task under way, for the head of every prompt; None when none was started."""
        return running_task(self._earlier, self.desk.working_set.fold.sections)

    @cached_property
    def _earlier(self) -> list[Line]:
        """The end of history, newest first; read when it is first needed, not when opening."""
        with self._history() as history:
            kinds = [str(kind.__struct_config__.tag) for kind in _KEPT]
            return list(history.newest(kinds, LOOKED_BACK))

    def look_again(self, lines: Iterable[Line]) -> None:
        """Another surface wrote these: what is known from history is read anew if need be."""
        if any(isinstance(line.entry, _KEPT) for line in lines):
            for name in ("_earlier", "monitor", "memories", "task"):
                self.__dict__.pop(name, None)

    def answer_with(self, ask: Ask | None) -> None:
        """Let another model write summaries and prose, or none; `desk.model` is its name."""
        self.ask = ask
        if "memories" in self.__dict__:
            self.memories.ask = ask
        self.modes.means = self._means()

    # The task

    def standing(self) -> checkpoint_store.Standing:
        """The task as it is now."""
        state = self.desk.working_set.fold.state
        first = state.spans[0].first if state.spans else 0
        since = min(first, first if state.task is None else state.task) - BEFORE
        with self._history() as history:
            return checkpoint_store.standing(self.places, history, since=max(since, 0))

    def save_checkpoint(self, trigger: str) -> Line:
        """Write the task's state down, for machines, for people and into the log."""
        state = self.standing()
        windows = max(state.checkpoint.window, self.desk.report().windows)
        saved = checkpoint_store.save(
            self.places,
            msgspec.structs.replace(state.checkpoint, window=windows),
            environment=self._environment(self._window_lines()),
            saved_at=stamp(self._clock()),
            trigger=trigger,
            newest=state.newest,
        )
        line = self._write(saved.entry)
        checkpoint = saved.checkpoint
        section = journal.LogSection(
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
        journal.write_log(self.agent, section, self._clock())
        self.memories.cited.clear()
        self.memories.prevented.clear()
        return line

    def milestone(self) -> Line | None:
        """Save a checkpoint when a subtask was done, a decision made or a blocker met meanwhile.

        Only for a task that was begun as one; else every chat would be one.
        """
        with self._history() as history:
            if not begun_as_task(reader(history), self.desk.working_set.fold.state.task):
                return None
        standing = self.standing()
        try:
            with self._history() as history:
                before = checkpoint_store.load_proven(self.places, history)
        except ContinuityError:
            before = None
        reached = resume.milestones(before, standing.checkpoint)
        return self.save_checkpoint(f"milestone: {reached}") if reached else None

    def start_task(self, argument: str) -> Line:
        """Begin a task: `title | when: criterion | rule: constraint`."""
        line = self._write(resume.parse_start(argument))
        if isinstance(line.entry, TaskStarted):
            self.task = task_section(line.entry)
        return line

    def finish_task(self) -> Line:
        """End the task: a last checkpoint, archived, a summary, and health that starts anew."""
        self.save_checkpoint("task done")
        checkpoint = self.standing().checkpoint
        trend = self.monitor.trend()
        entry = resume.done(
            checkpoint,
            archived=str(checkpoint_store.archive(self.places).relative_to(self.places.folder)),
            trend=trend.sentence() if trend else "",
        )
        line = self._write(entry)
        self.task = None
        self.monitor.reset()
        self.memories.notes = ()
        return line

    def resume(self, budget: int = 2_000) -> Resumption:
        """The five steps of going on; refused with its reason when the checkpoint is no good."""
        with self._history() as history:
            return bootstrap(
                lambda: checkpoint_store.load_proven(self.places, history),
                lambda files: observe(self.cwd, files, tools=self._tool_names()),
                self.desk.count,
                budget,
                lambda seq: summary_text(reader(history), seq),
            )

    def where_it_stands(self) -> list[str]:
        """What a person is told who opens a session with open work: where, and what changed."""
        if not self.places.checkpoint.exists():
            return []
        try:
            return where_it_stands(self.resume())
        except ContinuityError as error:
            return [error.what]

    async def gather_notes(self) -> list[Line]:
        """Make notes of what the window says, by a model that is audited, else by choosing."""
        with self._history() as history:
            read = reader(history)
            spans = self.desk.working_set.spans
            lines = [line for span in spans for line in read(span.first, span.last)]
        outcome = await strategy("notes")(Material(passages=passages_of(lines)), self.scribe)
        if not isinstance(outcome, Summary):
            raise ContinuityError(f"No notes were made: {outcome.why}.", "Say more first.")
        derived = self._write(outcome.entry())
        return [derived, *map(self.memories.keep_note, notes.derived(outcome.text, outcome.model))]

    # Handoffs

    async def write_handoff(self, trigger: str, *, prose: bool = False) -> Line:
        """Write a handoff of the window as it is; prose is a model's, and marked."""
        lines = self._window_lines()
        checkpoint = self.standing().checkpoint
        environment = self._environment(lines)
        budget = self.desk.report().usable * HANDOFF_SHARE // 100

        def compose(text: str = "") -> handoff.Letter:
            return handoff.compose(
                checkpoint,
                lines,
                environment,
                written=stamp(self._clock()),
                trigger=trigger,
                count=self.desk.count,
                budget=min(handoff.BUDGET, budget),
                prose=text,
                model=self.desk.model,
            )

        written = compose()
        if prose and self.ask is not None and (text := await handoff.prose(self.ask, written)):
            written = compose(text)
        return self._write(handoff_store.write(self.places, written))

    def use_handoff(self) -> Line:
        """Take the newest handoff over into the head of the prompt, once."""
        with self._history() as history:
            taken = handoff_store.take_over_newest(self.places, history, self.desk.count)
        return self._write(taken.entry(self.desk.working_set.fold.state))

    def newest_handoff(self) -> str:
        """The handoff that was written last, as it stands in its file."""
        return handoff_store.newest_file(self.places).read_text(encoding="utf-8")

    # Looking back

    def reviewed_through(self) -> int:
        """How far history was reviewed already; -1 when it never was."""
        with self._history() as history:
            for line in history.newest(["consolidated"], history.head.seq + 1):
                if isinstance(line.entry, Consolidated):
                    return line.entry.through
        return -1

    async def after_review(self) -> tuple[list[Line], list[str]]:
        """End a review: superfluous memories, index and recall checked, a journal, a handoff.

        What could be merged is proposed; what was checked is told in sentences.
        """
        lines = self.memories.propose_merges()
        told = [f"{plural(len(lines), 'memory file')} could be merged."] if lines else []
        lag = await self._lag()
        behind = f"{plural(lag, 'exchange')} could not be indexed."
        told.append(behind if lag else "The index is complete.")
        told.append((await self._recall_health()).sentence())
        waiting = [f"{one.entry.proposal}: {one.entry.path}" for one in self.memories.waiting]
        journal.write_journal(
            self.agent,
            str(self.places.key),
            self._clock(),
            [("Proposed", waiting), ("Checked", told)],
        )
        return [*lines, await self.write_handoff("consolidation")], told

    async def _recall_health(self) -> fidelity.Fidelity:
        """Probe recall with what stands outside the window now."""
        gone = self.desk.working_set.fold.last_left
        return await self._probe([left.span for left in gone])

    # Health

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
        sample = sample_of(
            self.desk.report(),
            lines,
            fidelity=measured,
            index_lag=lag,
            recall_failed=recall_failed,
            vectors=vectors,
            repeating=self._repeats_itself(),
            disk_free=disk_usage(self.places.folder).free,
        )
        checked = self.monitor.record(sample, stamp(self._clock()))
        return [
            self._write(checked.snapshot.measured),
            *(self._write(alert.entry()) for alert in (*checked.raised, *checked.over)),
        ]

    def _repeats_itself(self) -> bool:
        """Whether the newest turns ended with the same answer; the guide's are set, and may."""
        if self.desk.model == GUIDE:
            return False
        said = {
            line.turn: line.entry.text
            for line in self.desk.working_set.fold.lines.values()
            if isinstance(line.entry, AssistantMessage)
        }
        return saying_the_same(list(said.values()))

    async def probe(self, pruned: ContextWindowPruned) -> fidelity.Fidelity:
        """Ask recall for what just left the window."""
        return await self._probe([one.span for one in pruned.left])

    async def _probe(self, spans: Sequence[Span]) -> fidelity.Fidelity:
        with self._history() as history:
            return await probe_spans(reader(history), spans, self._recall, self.desk.count)

    async def judge(self) -> Judged:
        """Have a model judge the newest summary of the window against its originals."""
        with self._history() as history:
            summaries = self.desk.working_set.fold.state.summaries
            return await judge_summary(reader(history), summaries, self.ask)

    # Making room

    @property
    def scribe(self) -> Scribe:
        """Who writes summaries now."""
        return self.modes.means.scribe

    def _means(self) -> Means:
        steps = room_steps(
            lambda: self.save_checkpoint("window"),
            lambda: self.write_handoff("window"),
            self.use_handoff,
            self._check_backfill,
        )
        scribe = Scribe(count=self.desk.count, ask=self.ask, model=self.desk.model)
        return Means(scribe=scribe, steps=steps)

    async def _check_backfill(self) -> Line:
        """Record whether what a compaction left behind can be found again."""
        return self._write(BackfillChecked(unindexed=await self._lag()))

    async def _lag(self) -> int:
        """Exchanges that could not be indexed even now."""
        return await self._unindexed() if self._unindexed else 0

    def _window_lines(self) -> list[Line]:
        with self._history() as history:
            read = reader(history)
            spans = self.desk.working_set.spans
            lines = [line for span in spans for line in read(span.first, span.last)]
            last = lines[-1].seq if lines else -1
            return [*lines, *read(last + 1, history.head.seq)]

    def _environment(self, lines: Sequence[Line]) -> Environment:
        files = [file.path for file in files_touched(lines)]
        return observe(self.cwd, files, tools=self._tool_names())

    def _tool_names(self) -> list[str]:
        return [tool.name for tool in self.desk.working_set.fold.tools]

    def _history(self) -> History:
        return self.desk.transcript.history()

    def _write(self, entry: Entry) -> Line:
        return self.desk.record(entry, self.desk.transcript.last_turn)
