"""Steps of making room that write something down: each an entry before anything can leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mindstone_tui.core.context.cascade import Apply, Effect, StepName
from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import ContinuityError, NotSaved


def room_steps(
    checkpoint: Callable[[], Line],
    handoff: Callable[[], Awaitable[Line]],
    replay: Callable[[], Line],
    backfilled: Callable[[], Awaitable[Line]],
) -> dict[StepName, Apply]:
    """The steps from outside the window; a refusal is no accident of the turn."""

    async def save(_excess: int) -> Effect:
        return _tried(checkpoint)

    async def hand_over(_excess: int) -> Effect:
        try:
            return Effect(lines=(await handoff(),))
        except (ContinuityError, NotSaved) as error:
            return Effect(held=False, why=error.what)

    async def take_over(_excess: int) -> Effect:
        return _tried(replay)

    async def backfill(_excess: int) -> Effect:
        try:
            return Effect(lines=(await backfilled(),))
        except NotSaved as error:
            return Effect(why=error.what)

    return {
        "checkpoint": save,
        "handoff": hand_over,
        "handoff_replay": take_over,
        "backfill": backfill,
    }


def _tried(act: Callable[[], Line]) -> Effect:
    try:
        return Effect(lines=(act(),))
    except (ContinuityError, NotSaved) as error:
        return Effect(held=False, why=error.what)
