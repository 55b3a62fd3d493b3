"""The window's room: what is usable, who takes which share, how full it is and how fast it fills.

Marks are settings in percent; in here everything is tokens. Six shares are tracked each: one over
its hard mark gives way, but only the whole prompt can be refused.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import (
    BudgetSettings,
    ContextSettings,
    Settings,
    ZoneSettings,
)
from mindstone_tui.core.context.measure import COMPONENTS, ComponentName, Measured
from mindstone_tui.core.context.report import Burn, Marks
from mindstone_tui.core.entries import ZONES, Label, Zone
from mindstone_tui.core.entries.base import ShareLevel
from mindstone_tui.core.entries.window import Component, Growth, VelocitySpiked
from mindstone_tui.core.errors import ConfigError

ASSUMED_WINDOW: Final = 32_768
SMALLEST_RESERVE: Final = 4_096
ASSUMED_POINTS: Final = 5.0
"""How much lower the ceiling is when nobody knows the window."""
SMALLEST_TRIM: Final = 6_144
"""Tokens between the results' share and its hard mark, at least: what a request adds is the same in
a small window, and each trim changes the front of the prompt."""
_PLACEHOLDER: Final = 0.5
"""Percent of the usable room that stands for a result."""
KEPT_TURNS: Final = 20
"""Turns of growth that are carried from plan to plan."""
_SMALL: Final = 32_000
LARGE: Final = 200_000
_LEAST_TOOLS: Final = 1_024
"""Tokens for the tools that nobody can do without, where their share of a small window is less."""


class Room(msgspec.Struct, frozen=True):
    """A window and what of it a prompt may use."""

    window: int
    label: Label
    reserve: int
    most: int = 0
    """A limit in tokens beside the window's own; 0 for none."""

    @property
    def usable(self) -> int:
        """What is left for the prompt."""
        left = self.window - self.reserve
        return min(left, self.most) if self.most > 0 else left

    def tokens(self, percent: float) -> int:
        """A percentage of the usable room."""
        return int(self.usable * percent / 100)


def room_for(window: int, label: Label, budget: BudgetSettings, most: int = 0) -> Room:
    """Set the output reserve aside: its share, at least 4,096, at most a quarter of the window.

    A window that nobody knows (0) is assumed. `most` bounds the prompt in tokens, however large the
    window is.
    """
    if window <= 0:
        window, label = ASSUMED_WINDOW, "assumed"
    share = shares(budget)[-1]
    reserve = min(max(math.ceil(window * share / 100), SMALLEST_RESERVE), window // 4)
    return Room(window, label, reserve, most)


def shares(budget: BudgetSettings) -> tuple[float, ...]:
    """The six shares in percent, the output reserve last; a profile's are settings by then."""
    chosen: tuple[float, ...] = tuple(
        getattr(budget, name) for name in (*COMPONENTS, "output_reserve")
    )
    if abs(sum(chosen) - 100) > 0.5:
        raise ConfigError(
            f"The budget's shares add up to {sum(chosen):g} %, not to 100 %.",
            "Change [budget] so that the six shares are 100 together.",
        )
    return chosen


def components(measured: Measured, room: Room, budget: BudgetSettings) -> tuple[Component, ...]:
    """Each share with what it uses; the output reserve stands apart, unused by any prompt."""
    found = [
        _component(name, measured.component(name), limit_of(name, room, budget), budget)
        for name in COMPONENTS
    ]
    return (*found, _component("output_reserve", 0, room.reserve, budget))


def limit_of(name: ComponentName, room: Room, budget: BudgetSettings) -> int:
    """The tokens of the usable room that are one component's."""
    chosen = shares(budget)
    share = int(room.usable * chosen[COMPONENTS.index(name)] / sum(chosen[:-1]))
    return max(share, min(_LEAST_TOOLS, room.usable // 5)) if name == "tool_definitions" else share


def longest_placeholder(room: Room, settings: ContextSettings) -> int:
    """Tokens that may stand for a result: what tools said does not press upon what people say."""
    most = settings.placeholder_tokens
    return min(most, max(room.tokens(_PLACEHOLDER), most * 3 // 5))


def hard_mark(name: str, limit: int, budget: BudgetSettings) -> int:
    """The tokens above which a share acts: its limit, and far above it for tool results.

    Offering fewer tools or passages costs nothing; results stand in the middle of the prompt, and
    every trim makes the provider read it anew from there.
    """
    if name != "tool_results":
        return limit
    return max(int(limit * budget.results_hard / 100), limit + SMALLEST_TRIM)


def _component(name: str, tokens: int, limit: int, budget: BudgetSettings) -> Component:
    hard = hard_mark(name, limit, budget)
    soft = int(hard * budget.soft / 100)
    return Component(name=name, tokens=tokens, limit=limit, soft=soft, hard=hard)


def pressing(tokens: int, expected: int, room: Room) -> int:
    """What the marks are held against: the prompt as it is shown.

    What recall may still add has its own share beside it, and counts only where the two would not
    fit together.
    """
    together = tokens + expected
    return tokens if together <= room.usable else together


def ceiling_percent(settings: ContextSettings, label: Label) -> float:
    """Where pruning begins; earlier when the window is only assumed."""
    if label != "assumed":
        return settings.ceiling
    return max(settings.ceiling - ASSUMED_POINTS, settings.floor + 1)


def edges(zones: ZoneSettings, window: int) -> tuple[float, float, float]:
    """Where yellow, orange and red begin: earlier in small windows, later in very large ones."""
    yellow, orange, red = zones.yellow, zones.orange, zones.red
    if zones.scale and window < _SMALL:
        return yellow - 10, orange - 10, red - 5
    if zones.scale and window >= LARGE:
        return yellow + 10, orange + 5, red
    return yellow, orange, red


def marks(room: Room, settings: ContextSettings, zones: ZoneSettings) -> Marks:
    """Every mark in tokens of the usable room.

    Results are trimmed and the task's state is saved before exchanges leave, not after: a low
    ceiling takes the other marks down with it.
    """
    yellow, orange, red = edges(zones, room.window)
    ceiling = room.tokens(ceiling_percent(settings, room.label))
    trim = min(room.tokens(settings.trim), ceiling)
    return Marks(
        trim=trim,
        trim_to=min(room.tokens(settings.trim_to), trim),
        checkpoint=min(room.tokens(settings.checkpoint), ceiling),
        ceiling=ceiling,
        floor=room.tokens(settings.floor),
        emergency=room.tokens(settings.emergency),
        yellow=room.tokens(yellow),
        orange=room.tokens(orange),
        red=room.tokens(red),
    )


_REQUESTS_BETWEEN: Final = 13
"""A step makes room for so many requests like the last ones: a dozen, where one is larger."""
_MOST_FREED: Final = 0.7
"""The largest part of what stands below the ceiling that a step frees for the sake of the next."""


def next_dozen(marks: Marks, request: float) -> int:
    """What the next requests add if they are like the last ones, as far as a step may free it."""
    return int(min(_REQUESTS_BETWEEN * request, marks.ceiling * _MOST_FREED))


def deepened(marks: Marks, dozen: int) -> Marks:
    """Marks at which a step frees what the next requests will fill.

    No more exchanges leave than usually where even that would not keep the changes apart.
    """
    target = marks.ceiling - dozen
    floor = target if dozen < int(marks.ceiling * _MOST_FREED) else marks.floor
    return msgspec.structs.replace(
        marks, trim_to=min(marks.trim_to, target), floor=min(marks.floor, floor)
    )


def scaled(settings: Settings, room: Room) -> str:
    """Why marks or zones are not where the settings say, in a few words; empty if they are."""
    zones, marked = settings.zones, settings.context.ceiling
    said = []
    if edges(zones, room.window) != (zones.yellow, zones.orange, zones.red):
        said.append(f"zones scaled for a {'small' if room.window < _SMALL else 'large'} window")
    limit = limit_of("tool_results", room, settings.budget)
    hard = hard_mark("tool_results", limit, settings.budget)
    if hard == limit + SMALLEST_TRIM and hard < room.usable:
        said.append(f"results shortened from {hard:,} on, at the earliest: the window is small")
    if room.usable < room.window - room.reserve:
        said.append(
            f"at most {room.usable:,} are used (context.max_tokens): a longer prompt costs more "
            "and is read worse"
        )
    if (ceiling := ceiling_percent(settings.context, room.label)) != marked:
        said.append(f"prune at {ceiling:g} instead of {marked:g}: the window is assumed")
    return "; ".join(said)


def zone_after(before: Zone, utilization: float, window: int, zones: ZoneSettings) -> Zone:
    """The zone for a fullness; falling back takes some points more than rising did."""
    percent = utilization * 100
    # A zone is an entry and an alert. Without the slack, a prompt that hovers at an edge would
    # write one of each with every call.
    level = sum(percent >= edge for edge in edges(zones, window))
    kept = sum(percent >= edge - zones.hysteresis for edge in edges(zones, window))
    return ZONES[max(level, min(kept, ZONES.index(before)))]


def share_level(before: ShareLevel, component: Component, hysteresis: float) -> ShareLevel:
    """How full a share is; falling back takes some points more than rising did."""
    slack = component.limit * hysteresis / 100
    for level, mark in (("hard", component.hard), ("soft", component.soft)):
        held = before == level or (before == "hard" and level == "soft")
        if component.tokens > (mark - slack if held else mark):
            return "hard" if level == "hard" else "soft"
    return "free"


def velocity(growth: Sequence[Growth], turns: int) -> float:
    """Tokens per turn, averaged over the last turns."""
    recent = [turn.tokens for turn in growth[-turns:]]
    return round(sum(recent) / len(recent), 1) if recent else 0.0


def velocity_class(speed: float) -> str:
    """`low`, `medium` or `high`."""
    return "low" if speed < 1_000 else "medium" if speed < 5_000 else "high"


def turns_until(mark: int, tokens: int, speed: float) -> float | None:
    """How many turns until a mark is reached at this speed; None when it is not approached."""
    if tokens >= mark:
        return 0.0
    return round((mark - tokens) / speed, 1) if speed > 0 else None


def spike(now: int, before: Sequence[Growth], factor: float) -> VelocitySpiked | None:
    """Compare a turn with the median of those before it; prunes play no part in it.

    A restless session needs more than the factor: three robust deviations above its median.
    """
    usual = [turn.tokens for turn in before if turn.tokens > 0]
    if len(usual) < 3:
        return None
    from statistics import median  # 5 ms, and most turns have nothing to compare with

    middle = median(usual)
    spread = median(abs(tokens - middle) for tokens in usual)
    if now <= max(factor * middle, middle + 3 * 1.4826 * spread):
        return None
    return VelocitySpiked(tokens=now, baseline=round(middle, 1), ratio=round(now / middle, 2))


def work_left(steps: int, usual: float, span: int) -> float:
    """Tokens that open work is to find room for: all of it, where a window that was cleared holds
    that much, else its next step."""
    needed = steps * usual
    return needed if needed <= span else min(usual, span)


def burn(growth: Sequence[Growth], shares_used: Sequence[Component]) -> tuple[Burn, ...]:
    """How fast each share filled in these turns, and in how many more it has to act so."""
    turns = max(len(growth), 1)
    speeds: dict[str, float] = {
        "message_history": sum(turn.messages for turn in growth) / turns,
        "tool_results": sum(turn.results for turn in growth) / turns,
        "memory_injection": sum(turn.recalled for turn in growth) / turns,
    }
    return tuple(
        _burn(component, speeds.get(component.name, 0.0))
        for component in shares_used
        if component.name != "output_reserve"
    )


def _burn(component: Component, speed: float) -> Burn:
    passing = component.name == "memory_injection"
    left = turns_until(component.hard, component.tokens, 0.0 if passing else speed)
    level = "normal" if left is None or left >= 10 else "critical" if left < 3 else "warning"
    return Burn(component=component.name, per_turn=round(speed, 1), turns_left=left, level=level)


class Admission(msgspec.Struct, frozen=True):
    """Whether something may be added to the prompt."""

    allowed: bool
    component: str
    current: int
    limit: int
    excess: int
    """Tokens over the component's limit after adding; 0 when it stays below."""
    utilization_after: float
    warning: str = ""
    reason: str = ""


def check_before_add(
    component: ComponentName, tokens: int, used: Sequence[Component], room: Room
) -> Admission:
    """Look before adding: a full share warns, a full window refuses; an exact fit is a fit."""
    share = next(each for each in used if each.name == component)
    total = sum(each.tokens for each in used) + tokens
    after = share.tokens + tokens
    excess = max(0, after - share.limit)
    if excess:
        warning = f"{component} would be {excess:,} tokens over its share."
    elif after > share.soft:
        warning = f"{component} would be nearly full."
    else:
        warning = ""
    fits = total <= room.usable
    return Admission(
        allowed=fits,
        component=component,
        current=share.tokens,
        limit=share.limit,
        excess=excess,
        utilization_after=round(total / room.usable, 4),
        warning=warning,
        reason="" if fits else f"The prompt would be {total - room.usable:,} tokens too large.",
    )
