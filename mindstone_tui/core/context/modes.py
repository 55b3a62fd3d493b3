"""How room is made in each mode, on a live window.

In every mode the task is written down at the checkpoint mark, before anything can leave. The
ladder of the sliding window stays behind the other two as the last resort.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from mindstone_tui.core.context.cascade import (
    AUTO_COMPACT,
    Apply,
    Effect,
    Outcome,
    StepName,
    cascade_due,
    run_auto_compact,
    run_cascade,
)
from mindstone_tui.core.context.compression import Scribe
from mindstone_tui.core.context.live import LiveWindow
from mindstone_tui.core.context.making_room import make_room, repair
from mindstone_tui.core.context.shortening import Shortening
from mindstone_tui.core.context.view import Call
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.memory import CheckpointSaved
from mindstone_tui.core.transcript import History
from mindstone_tui.core.values import Value

_WRITTEN_DOWN: Final[tuple[StepName, ...]] = ("checkpoint", "handoff")
_REARMING: Final = frozenset({"context_window_pruned", "tool_results_trimmed", "summary_derived"})
_LOOKED_BACK: Final = 10_000
"""Lines among which a checkpoint of this pressure is looked for."""


class Means(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What a mode needs from outside the window."""

    scribe: Scribe
    """Its counter is replaced by the call's own."""
    steps: Mapping[StepName, Apply] = {}
    """`checkpoint`, `handoff`, `handoff_replay`, `backfill` and `delegate`, as far as there are."""
    ended: Callable[[Outcome], Awaitable[None]] | None = None
    """Told how a cascade or a chain went."""


class Modes:
    """Makes room as the session's mode says, and has a checkpoint saved at its mark."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self.last: Outcome | None = None
        """The newest cascade: what cannot help is not tried again at once."""
        self.last_chain: Outcome | None = None
        """How the newest compaction by hand went, link by link."""

    async def make_room(self, live: LiveWindow, call: Call) -> list[Line]:
        """Bring the next prompt under its marks; the lines that were written are returned."""
        room = Shortening(live, call, self.means.scribe)
        if live.mode == "cascade":
            await self._cascade(room)
        elif live.mode == "auto_compact":
            await self._auto_compact(room)
        else:
            await self._checkpoint(room)
            room.lines += await make_room(live, call)
        if live.mode != "sliding_window" and room.fullness() >= room.marks.emergency:
            room.lines += await make_room(live, call)
        return room.lines

    async def compact(self, live: LiveWindow, call: Call) -> list[Line]:
        """Compact now, whatever the mode and the marks say: the same chain, asked for by hand."""
        room = Shortening(live, call, self.means.scribe)
        room.lines += repair(live, call.turn)
        absent = dict.fromkeys(AUTO_COMPACT, _nothing)
        self.last_chain = await run_auto_compact(
            {**absent, **self._outside(room), **room.steps()},
            room.fullness,
            room.usable,
            room.marks,
        )
        return room.lines

    async def _checkpoint(self, room: Shortening) -> None:
        """Have the task's state written down, once, before anything can leave."""
        if room.fullness() < room.marks.checkpoint or not _armed(room.live.history):
            return
        for step in _WRITTEN_DOWN:
            if apply := self.means.steps.get(step):
                room.lines += (await apply(0)).lines

    async def _cascade(self, room: Shortening) -> None:
        await self._checkpoint(room)
        room.lines += repair(room.live, room.call.turn)
        if not cascade_due(room.fullness(), self.last, room.marks):
            return
        self.last = await run_cascade(
            {**room.steps(), **self._outside(room)},
            room.fullness,
            room.usable,
            room.marks,
            model_allowed=self.means.scribe.ask is not None,
        )
        await self._tell(self.last)

    async def _auto_compact(self, room: Shortening) -> None:
        room.lines += repair(room.live, room.call.turn)
        if room.fullness() < room.marks.compact:
            await self._checkpoint(room)
            return
        absent = dict.fromkeys(AUTO_COMPACT, _nothing)
        outcome = await run_auto_compact(
            {**absent, **self._outside(room), **room.steps()},
            room.fullness,
            room.usable,
            room.marks,
        )
        await self._tell(outcome)

    def _outside(self, room: Shortening) -> dict[StepName, Apply]:
        """The steps from outside the window, with what they write collected."""

        def collecting(apply: Apply) -> Apply:
            async def applied(excess: int) -> Effect:
                effect = await apply(excess)
                room.lines += effect.lines
                return effect

            return applied

        return {name: collecting(apply) for name, apply in self.means.steps.items()}

    async def _tell(self, outcome: Outcome) -> None:
        if self.means.ended is not None:
            await self.means.ended(outcome)


def _armed(history: History) -> bool:
    """The checkpoint mark fires once, whoever asks, until something left or was shortened."""
    for line in history.newest(_REARMING | {"checkpoint_saved"}, _LOOKED_BACK):
        if not isinstance(line.entry, CheckpointSaved):
            return True
        if line.entry.trigger == "window":
            return False
    return True


async def _nothing(_excess: int) -> Effect:
    return Effect()
