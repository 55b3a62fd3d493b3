"""The task's state while a session is rehearsed: checkpoints and handoffs without a file."""

from __future__ import annotations

import msgspec

from mindstone_tui.core.agent.continuity import HANDOFF_SHARE
from mindstone_tui.core.context.asking import Count
from mindstone_tui.core.context.cascade import Apply, Effect, StepName
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.memory import CheckpointSaved, HandoffReplayed, HandoffWritten
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.handoff import checkpoint, keeping, letter, taking_over
from mindstone_tui.core.handoff.environment import Environment
from mindstone_tui.core.replay.sketch import Sketch


class Continuing:
    """Saves checkpoints and hands over, as entries alone."""

    def __init__(self, sketch: Sketch, working_set: WorkingSet, count: Count) -> None:
        self._sketch = sketch
        self._working_set = working_set
        self._count = count
        self._state = checkpoint.fresh(str(sketch.places.key))
        self._letter: letter.Letter | None = None

    @property
    def steps(self) -> dict[StepName, Apply]:
        """The steps of the modes that write something down."""
        return {
            "checkpoint": self._save,
            "handoff": self._write,
            "handoff_replay": self._take_over,
        }

    async def _save(self, _excess: int) -> Effect:
        self._advance()
        saved = msgspec.structs.replace(self._state, version=self._state.version + 1)
        self._state = saved
        entry = CheckpointSaved(
            version=saved.version,
            path="checkpoint.json",
            sha256=keeping.digest(saved),
            trigger="window",
        )
        return Effect(lines=(self._put(entry),))

    async def _write(self, _excess: int) -> Effect:
        self._advance()
        usable = self._working_set.report().usable
        try:
            self._letter = letter.compose(
                self._state,
                self._window(),
                Environment(),
                written=self._sketch.lines[-1].ts,
                trigger="window",
                count=self._count,
                budget=min(letter.BUDGET, usable * HANDOFF_SHARE // 100),
            )
        except ContinuityError as error:
            return Effect(held=False, why=error.what)
        entry = HandoffWritten(
            path=f"handoffs/{self._letter.covers.last:08d}-{self._letter.sha256[:12]}.md",
            sha256=self._letter.sha256,
            covers=self._letter.covers,
            trigger="window",
        )
        return Effect(lines=(self._put(entry),))

    async def _take_over(self, _excess: int) -> Effect:
        if self._letter is None:
            return Effect(held=False, why="no handoff was written")
        since = self._sketch.lines[self._letter.covers.last + 1 :]
        used = {one.entry.sha256 for one in since if isinstance(one.entry, HandoffReplayed)}
        try:
            taken = taking_over.take_over(
                self._letter,
                since,
                self._count,
                replayed=used,
                nonce=self._letter.sha256[:16],
            )
        except ContinuityError as error:
            return Effect(held=False, why=error.what)
        return Effect(lines=(self._put(taken.entry(self._working_set.fold.state)),))

    def _advance(self) -> None:
        self._state = checkpoint.advance(
            self._state, self._sketch.lines[self._state.head.seq + 1 :]
        )

    def _window(self) -> list[Line]:
        spans = self._working_set.spans
        lines = self._sketch.lines
        held = [line for span in spans for line in lines[span.first : span.last + 1]]
        return [*held, *lines[(held[-1].seq if held else -1) + 1 :]]

    def _put(self, entry: CheckpointSaved | HandoffWritten | HandoffReplayed) -> Line:
        line = self._sketch.append(entry)
        self._working_set.take(line)
        return line
