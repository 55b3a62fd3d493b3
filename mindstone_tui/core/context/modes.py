"""The modes that shorten: `cascade` and `auto_compact`, carried out on a live window.

The ladder of the sliding window stays behind both as the last resort.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from mindstone_tui.core.context.cascade import (
    Apply,
    Effect,
    Outcome,
    StepName,
    auto_compact_action,
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
from mindstone_tui.core.values import Value


class Means(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What a mode needs from outside the window."""

    scribe: Scribe
    """Its counter is replaced by the call's own."""
    steps: Mapping[StepName, Apply] = {}
    """`checkpoint`, `handoff`, `handoff_replay`, `backfill` and `delegate`, as far as there are."""
    armed: Callable[[], bool] = bool
    """Whether the checkpoint mark may fire: once until a trim, a prune or a compaction."""
    ended: Callable[[Outcome], Awaitable[None]] | None = None
    """Told how a cascade or a chain went."""


class Modes:
    """Makes room as the session's mode says; the sliding window needs nothing of this."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self.last: Outcome | None = None
        """The newest cascade: what cannot help is not tried again at once."""

    async def make_room(self, live: LiveWindow, call: Call) -> list[Line]:
        """Bring the next prompt under its marks; the lines that were written are returned."""
        mode = live.mode
        if mode not in ("cascade", "auto_compact"):
            return await make_room(live, call)
        room = Shortening(live, call, self.means.scribe)
        room.lines += repair(live, call.turn)
        if mode == "cascade" and cascade_due(room.fullness(), self.last):
            await self._cascade(room)
        elif mode == "auto_compact":
            await self._auto_compact(room)
        if room.fullness() >= room.marks.emergency:
            room.lines += await make_room(live, call)
        return room.lines

    async def _cascade(self, room: Shortening) -> None:
        outcome = await run_cascade(
            {**self.means.steps, **room.steps()},
            room.fullness,
            room.usable,
            room.marks,
            model_allowed=self.means.scribe.ask is not None,
        )
        self.last = outcome
        if self.means.ended is not None:
            await self.means.ended(outcome)

    async def _auto_compact(self, room: Shortening) -> None:
        action = auto_compact_action(room.fullness(), room.marks, armed=self.means.armed())
        if action == "checkpoint":
            for step in ("checkpoint", "handoff"):
                if apply := self.means.steps.get(step):
                    await apply(0)
        if action != "compact":
            return
        absent: dict[StepName, Apply] = {
            "checkpoint": _nothing,
            "handoff": _nothing,
            "handoff_replay": _nothing,
            "backfill": _nothing,
        }
        outcome = await run_auto_compact(
            {**absent, **self.means.steps, **room.steps()},
            room.fullness,
            room.usable,
            room.marks,
        )
        if self.means.ended is not None:
            await self.means.ended(outcome)


async def _nothing(_excess: int) -> Effect:
    return Effect()
