"""Making room in steps: the cheapest first, measured again after each, never twice in one go.

Two modes plan here; the sliding window needs neither. What a step does is the session's business:
it is given as a function and its effect is measured, not believed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from mindstone_tui.core.config.settings import CascadeSettings
from mindstone_tui.core.context.exchanges import RECENT, Exchange
from mindstone_tui.core.context.summaries import AGES, level_of
from mindstone_tui.core.entries import Line, Part, window
from mindstone_tui.core.values import shared

StepName = Literal[
    "tool_results", "evict", "progressive", "compaction", "delegate", "checkpoint", "handoff",
    "handoff_replay", "backfill",
]  # fmt: skip

REARM: Final = 0.01
"""Growth since the last cascade before another may start: what cannot help is not tried again."""


class CascadeStage(Part):
    """A step of the cascade, and the fullness from which it may be tried."""

    step: StepName
    why: str
    mark: float = 0.0
    needs_model: bool = False
    """Cannot be done by choosing sentences of the originals."""
    free: bool = False
    """Asks nobody and writes nothing new: goes on down to the target once a cascade has begun."""


CASCADE: Final = (
    CascadeStage(
        step="tool_results", why="older tool results gave way to their findings", free=True
    ),
    CascadeStage(step="evict", why="whole exchanges left by policy", free=True),
    CascadeStage(step="progressive", why="older exchanges are condensed"),
    CascadeStage(step="compaction", why="a summary stands for what leaves"),
    CascadeStage(step="delegate", why="the rest goes to a fresh window", needs_model=True),
)
"""By cost per token freed. If it can leave, it is not compressed; if it can be compressed, it is
not delegated."""

AUTO_COMPACT: Final[tuple[StepName, ...]] = (
    *("checkpoint", "handoff", "compaction", "handoff_replay", "backfill"),
)
"""A chain: a later link is only tried when the ones before it held."""
HANDOFF_SHARE: Final = 10
"""Percent of the usable room that a handoff may take."""


class CascadePlan(Part):
    """The steps in their order and where they stop, as fractions of the usable room.

    The window's own `Marks` are in tokens and say when a mode acts at all.
    """

    stages: tuple[CascadeStage, ...]
    target: float
    """Down to here, once a cascade has begun."""
    emergency: float
    """Below here a request can be sent."""


def cascade_plan(settings: CascadeSettings, emergency: float) -> CascadePlan:
    """The steps with the marks that were set for them; all settings are in percent."""
    stages = (
        msgspec.structs.replace(stage, mark=getattr(settings, stage.step) / 100)
        for stage in CASCADE
    )
    return CascadePlan(
        stages=tuple(stages), target=settings.target / 100, emergency=emergency / 100
    )


class Effect(window.StepEffect):
    """What a step came to, and what follows from it."""

    lines: tuple[Line, ...] = ()
    """What the step wrote, when the window did not write it itself."""
    idle: bool = False
    """Nothing was worth trying, so nobody was asked."""
    adds: int = 0
    """Tokens that a later link of the chain will put into the prompt because of it."""


class Taken(Part):
    """One step that was tried, and what it changed."""

    step: StepName
    before: float
    after: float
    effect: Effect

    def entry(self, mode: str, usable: int) -> window.RoomStepTaken:
        """What the transcript remembers of it."""
        return window.RoomStepTaken(
            mode=mode,
            step=self.step,
            tokens_before=round(self.before * usable),
            tokens_after=round(self.after * usable),
            **shared(window.StepEffect, self.effect),
        )


class StepOutcome(Part):
    """A cascade or a chain, from its first measure to its last."""

    mode: Literal["cascade", "auto_compact"]
    taken: tuple[Taken, ...]
    started: float
    ended: float
    fits: bool
    """Below the emergency mark: the request can be sent."""
    why: str = ""


Apply = Callable[[int], Awaitable[Effect]]
"""Applies a step, recorded before the request it shapes; gets the tokens still to be freed."""
Measure = Callable[[], float]
"""The window's fullness now, against the usable room."""


def cascade_due(utilization: float, last: StepOutcome | None, plan: CascadePlan) -> bool:
    """Whether to start: over the first mark, and not right after a cascade that could not help."""
    if utilization < plan.stages[0].mark:
        return False
    return last is None or utilization < last.ended or utilization - last.ended >= REARM


async def run_cascade(
    steps: Mapping[StepName, Apply],
    measure: Measure,
    usable: int,
    plan: CascadePlan,
    *,
    model_allowed: bool = True,
) -> StepOutcome:
    """Take due steps until the window fits or none is left; each is tried once at most."""
    started = now = measure()
    taken: list[Taken] = []
    tried = {stage.step for stage in plan.stages if stage.step not in steps}
    while now > plan.target:
        # A free step is due if it was when the cascade began, the others by the fullness now.
        due = (
            stage
            for stage in plan.stages
            if stage.step not in tried
            and (started if stage.free else now) >= stage.mark
            and (model_allowed or not stage.needs_model)
        )
        if (stage := next(due, None)) is None:
            break
        tried.add(stage.step)
        effect = await steps[stage.step](excess(now, plan.target, usable))
        before, now = now, measure()
        # What changed nothing is no step; that asking somebody failed is worth telling.
        changed = round(now * usable) != round(before * usable)
        if changed or not (effect.held or stage.free or effect.idle):
            told = msgspec.structs.replace(effect, why=effect.why or stage.why)
            taken.append(Taken(step=stage.step, before=before, after=now, effect=told))
    return StepOutcome(
        mode="cascade",
        taken=tuple(taken),
        started=started,
        ended=now,
        fits=now < plan.emergency,
        why="" if now < plan.emergency else "every step was taken and the window is still full",
    )


async def run_auto_compact(
    steps: Mapping[StepName, Apply], measure: Measure, usable: int, plan: CascadePlan
) -> StepOutcome:
    """Checkpoint, handoff, compaction, handoff replay, backfill check: each after the one before.

    A link that fails ends the chain there: nothing is compacted that was not written down first.
    One that the session has no step for holds.
    """
    started = now = measure()
    taken: list[Taken] = []
    for step in AUTO_COMPACT:
        apply = steps.get(step)
        effect = await apply(excess(now, plan.target, usable)) if apply else Effect()
        before, now = now, measure()
        taken.append(Taken(step=step, before=before, after=now, effect=effect))
        if not effect.held:
            break
    broken = next((link for link in taken if not link.effect.held), None)
    return StepOutcome(
        mode="auto_compact",
        taken=tuple(taken),
        started=started,
        ended=now,
        fits=now < plan.emergency,
        why=f"{broken.step} failed: {broken.effect.why}" if broken else "",
    )


def kept_recent(keep_recent_tokens: int, usable: int, below_floor: int, times: int = 1) -> int:
    """What `auto_compact` keeps verbatim: the setting, but at most 30 % of the usable room.

    Both so many `times`. Nor more than fits under the floor beside all that stays: else a small
    window would compact on every turn.
    """
    return max(min(keep_recent_tokens * times, usable * 30 * times // 100, below_floor), 0)


def to_compact(exchanges: Sequence[Exchange], keep: int) -> tuple[int, ...]:
    """Turns that a summary may stand for: all but the newest `keep` tokens and the protected ones.

    The newest exchange always stays. That one is recent protects it only within `keep`.
    """
    room = keep
    turns: list[int] = []
    closed = False
    for number, exchange in enumerate(reversed(exchanges)):
        room -= exchange.tokens
        closed = closed or (room < 0 and number > 0)
        if closed and exchange.protected in ("", RECENT):
            turns.append(exchange.turn)
    return tuple(reversed(turns))


def by_level(
    turns: Sequence[int], current: int, ages: tuple[int, int] = AGES
) -> dict[int, list[int]]:
    """Older turns grouped by how much of them `progressive` leaves; the current one is not."""
    groups: dict[int, list[int]] = {}
    for turn in turns:
        groups.setdefault(level_of(current - turn, ages), []).append(turn)
    groups.pop(0, None)
    return groups


def excess(utilization: float, target: float, usable: int) -> int:
    """Tokens to free to come from one fullness to another."""
    return max(0, round((utilization - target) * usable))
