"""What another policy would have done with the same conversation, side by side.

The settings as they are and the settings asked for are rehearsed over one history; nobody is asked
and nothing is written. Where requests were recorded, what really happened stands beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, get_args

import msgspec

from mindstone_tui.core import errors, transcript
from mindstone_tui.core.config.edit import all_keys, nearest
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.window_view import PromptPrices
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.derived import SummaryDerived
from mindstone_tui.core.entries.window import ContextWindowPruned, PromptPlanned, ToolResultsTrimmed
from mindstone_tui.core.replay.rehearsal import Rehearsal, RehearsalOptions, Resolved, rehearse
from mindstone_tui.core.replay.survey import Place

PLACES: Final[tuple[Place, ...]] = get_args(Place)
_FAMILIES: Final = ("context", "zones", "budget", "recall", "eviction", "cascade")


PriceOf = Callable[[str], PromptPrices]


def no_prices(_model: str) -> PromptPrices:
    """Nobody knows what anything costs."""
    return PromptPrices()


class Moment(Part, omit_defaults=False):
    """How full the window was at the last request of a turn."""

    turn: int
    utilization: float
    zone: str


class WhatIfOutcome(Part, omit_defaults=False):
    """One way the session went, or would have gone."""

    name: str
    requests: int
    prunes: int
    exchanges_left: int
    trims: int
    summaries: int
    tokens_sent: int
    stable_share: float
    """Tokens that a provider's cache could have read, of all that were sent."""
    peak: float
    mean: float
    cost: float | None
    """Dollars for prompts, as far as prices are known."""
    refused: int
    found: dict[str, int]
    """Later references by where their source would have been."""
    missed: tuple[Resolved, ...] = ()
    moments: tuple[Moment, ...] = ()


class WhatIf(Part, omit_defaults=False):
    """The same history under different settings."""

    session: str
    changed: dict[str, object]
    outcomes: tuple[WhatIfOutcome, ...]


def parse_changes(words: Sequence[str]) -> dict[str, object]:
    """`ceiling=80` as `{"context.ceiling": "80"}`; short names are those of the window's keys."""
    changes: dict[str, object] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not value:
            raise errors.UsageError(f"{word!r} sets nothing.", "Write key=value, as ceiling=80.")
        changes[_key(name.strip())] = value.strip()
    return changes


def _key(name: str) -> str:
    known = all_keys()
    for candidate in (name, *(f"{family}.{name}" for family in _FAMILIES)):
        if candidate in known and candidate.partition(".")[0] in _FAMILIES:
            return candidate
    shorts = [key.partition(".")[2] for key in known if key.partition(".")[0] in _FAMILIES]
    near = nearest(name, shorts)
    raise errors.UsageError(
        f"`{name}` does not affect the window.",
        f"Did you mean {near}?" if near else "Try ceiling, floor, policy, mode, window or trim.",
    )


async def what_if(
    source: transcript.History,
    now: Settings,
    then: Settings,
    changed: Mapping[str, object],
    *,
    options: RehearsalOptions,
    price_of: PriceOf = no_prices,
) -> WhatIf:
    """Rehearse the history under both settings, and put what was recorded beside them."""
    outcomes = [recorded] if (recorded := _recorded(source, price_of)) is not None else []
    for name, settings, fixed in (
        ("as set", now, frozenset[str]()),
        ("what if", then, frozenset(changed)),
    ):
        held = await rehearse(source, settings, msgspec.structs.replace(options, fixed=fixed))
        outcomes.append(outcome_of(name, held, price_of))
        held.recollection.close()
    return WhatIf(session=str(source.places.key), changed=dict(changed), outcomes=tuple(outcomes))


def outcome_of(name: str, held: Rehearsal, price_of: PriceOf = no_prices) -> WhatIfOutcome:
    """A rehearsal in numbers."""
    found = Counter(each.place for each in held.resolved)
    return msgspec.structs.replace(
        _summed(name, held.sketch.lines, price_of),
        refused=len(held.refused),
        found={place: found[place] for place in PLACES},
        missed=tuple(each for each in held.resolved if each.place == "nowhere"),
    )


def _recorded(source: transcript.History, price_of: PriceOf) -> WhatIfOutcome | None:
    """What really happened; None when no request was ever sent."""
    found = _summed("recorded", (one for one in source.read() if isinstance(one, Line)), price_of)
    return found if found.requests else None


def _summed(name: str, lines: Iterable[Line], price_of: PriceOf) -> WhatIfOutcome:
    tally = _Tally(price_of)
    for line in lines:
        tally.take(line)
    return tally.outcome(name)


class _Tally:
    """Counts decisions and requests on the way through a transcript."""

    def __init__(self, price_of: PriceOf) -> None:
        self._price_of = price_of
        self._counts: Counter[str] = Counter()
        self._fullness: list[float] = []
        self._moments: dict[int, Moment] = {}
        self._cost = 0.0
        self._priced = True

    def take(self, line: Line) -> None:
        match line.entry:
            case PromptPlanned(purpose="") as plan if plan.measure is not None:
                self._plan(line.turn, plan)
            case ContextWindowPruned(left=left, trigger=trigger) if trigger != "import":
                self._counts["prunes"] += 1
                self._counts["left"] += len(left)
            case ToolResultsTrimmed():
                self._counts["trims"] += 1
            case SummaryDerived():
                self._counts["summaries"] += 1

    def _plan(self, turn: int, plan: PromptPlanned) -> None:
        assert plan.measure is not None
        tokens = plan.measure.tokens
        stable = min(plan.stable_prefix, tokens)
        self._counts["requests"] += 1
        self._counts["tokens"] += tokens
        self._counts["stable"] += stable
        self._fullness.append(plan.measure.utilization)
        zone = plan.carried.zone if plan.carried else "green"
        self._moments[turn] = Moment(turn=turn, utilization=plan.measure.utilization, zone=zone)
        prices = self._price_of(plan.model)
        if prices.prompt is None:
            self._priced = False
            return
        cached = prices.prompt if prices.cached is None else prices.cached
        self._cost += ((tokens - stable) * prices.prompt + stable * cached) / 1_000_000

    def outcome(self, name: str) -> WhatIfOutcome:
        counts = self._counts
        return WhatIfOutcome(
            name=name,
            requests=counts["requests"],
            prunes=counts["prunes"],
            exchanges_left=counts["left"],
            trims=counts["trims"],
            summaries=counts["summaries"],
            tokens_sent=counts["tokens"],
            stable_share=round(counts["stable"] / max(counts["tokens"], 1), 4),
            peak=max(self._fullness, default=0.0),
            mean=round(sum(self._fullness) / max(len(self._fullness), 1), 4),
            cost=round(self._cost, 6) if self._priced and counts["requests"] else None,
            refused=0,
            found={},
            moments=tuple(self._moments.values()),
        )
