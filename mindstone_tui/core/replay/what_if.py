"""What another policy would have done with the same conversation, side by side.

The settings as they are and the settings asked for are rehearsed over one history; nobody is asked
and nothing is written. Where requests were recorded, what really happened stands beside them.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, get_args

import msgspec

from mindstone_tui.core import errors, transcript
from mindstone_tui.core.config.edit import all_keys, nearest
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.window_view import PromptPrices
from mindstone_tui.core.entries import Line, Part, Usage, conversation, derived, window
from mindstone_tui.core.library.cost import sent_in
from mindstone_tui.core.numbers import percent, tokens
from mindstone_tui.core.providers.cache_rules import OPENAI, SentPrompt, expect, rules_of
from mindstone_tui.core.providers.catalogue import PriceBook, cost, look_up
from mindstone_tui.core.recall.passages import epoch
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
    for name, settings, fixed in (("as set", now, {}), ("what if", then, changed)):
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
    """Count decisions and requests on the way through a transcript."""
    counts: Counter[str] = Counter()
    fullness: list[float] = []
    moments: dict[int, Moment] = {}
    money: float | None = 0.0
    for line in lines:
        match line.entry:
            case (
                window.PromptPlanned(
                    purpose="", measure=window.Measure(tokens=size, utilization=full)
                ) as plan
            ):
                stable = min(plan.stable_prefix, size)
                counts.update(requests=1, tokens=size, stable=stable)
                fullness.append(full)
                zone = plan.carried.zone if plan.carried else "green"
                moments[line.turn] = Moment(turn=line.turn, utilization=full, zone=zone)
                price, cached = price_of(plan.model).prompt, price_of(plan.model).cached
                if price is None or money is None:
                    money = None
                    continue
                read = price if cached is None else cached
                money += ((size - stable) * price + stable * read) / 1_000_000
            case window.ContextWindowPruned(left=left, trigger=trigger) if trigger != "import":
                counts.update(prunes=1, left=len(left))
            case window.ToolResultsTrimmed():
                counts["trims"] += 1
            case derived.SummaryDerived():
                counts["summaries"] += 1
    return WhatIfOutcome(
        name=name,
        requests=counts["requests"],
        prunes=counts["prunes"],
        exchanges_left=counts["left"],
        trims=counts["trims"],
        summaries=counts["summaries"],
        tokens_sent=counts["tokens"],
        stable_share=round(counts["stable"] / max(counts["tokens"], 1), 4),
        peak=max(fullness, default=0.0),
        mean=round(sum(fullness) / max(len(fullness), 1), 4),
        cost=round(money, 6) if money is not None and counts["requests"] else None,
        refused=0,
        found={},
        moments=tuple(moments.values()),
    )


_TELLING: Final = 2_000
"""Tokens by which a prompt must have grown before our count is measured against the provider's."""
_MARGIN: Final = 0.05
"""By how much our sizes may be wrong: with it, what a window that leaves nothing out would have
cost encloses what was recorded in 39 of 76 sessions that were not looked at for it."""
_Recorded = Sequence[tuple[SentPrompt, Usage]]


class CostRange(Part, omit_defaults=False):
    """What the same requests would have cost with other prompts."""

    name: str
    prompt: int
    """Tokens of all prompts."""
    low: float
    """The cache reads all that its rules allow, and nobody is asked for summaries."""
    high: float
    """The cache misses as often as it did, and a model writes each summary."""


class CostIf(Part, omit_defaults=False):
    """What a session cost, and would have cost in a window of ours."""

    session: str
    changed: dict[str, object]
    requests: int
    prompt: int
    recorded: float
    """By the list of prices, as the others are."""
    outcomes: tuple[CostRange, ...]
    assumed: tuple[str, ...]


class _Plan(NamedTuple):
    """A prompt of a rehearsal, by our count."""

    tokens: int
    stable: int
    summary: tuple[int, int] = 0, 0
    """What was summed up for it, and what that became."""


class _Fit(NamedTuple):
    """How our counts compare with the provider's."""

    head: int
    """What it was sent in front that the history does not hold."""
    scale: float

    def sized(self, counted: int) -> int:
        return round(self.head + self.scale * counted) if counted else 0


async def cost_if(
    source: transcript.History,
    now: Settings,
    then: Settings,
    changed: Mapping[str, object],
    *,
    options: RehearsalOptions,
    book: PriceBook,
) -> CostIf:
    """Fold the history through a window under both settings, and price what would be sent."""
    sent = [each for each in sent_in(source.places, book) if each[0].prompt]
    recorded = [cost(usage, book.prices(it.model, it.prompt)) for it, usage in sent]
    priced = [money for money in recorded if money is not None]
    if not sent or len(priced) < len(sent):
        raise _untold(source, sent, recorded)
    hits = _hits(sent)
    # What we sent ourselves says which window it was for; of others' models the list knows it.
    listed = look_up(sent[-1][0].model) if _recorded(source, no_prices) is None else None
    known = listed.window or 0 if listed else 0
    outcomes: list[CostRange] = []
    fit: _Fit | None = None
    for name, settings, fixed in (
        ("as set", now, frozenset[str]()),
        ("what if", then, frozenset(changed)),
    ):
        room = msgspec.structs.replace(settings.context, window=settings.context.window or known)
        settings = msgspec.structs.replace(settings, context=room)
        held = await rehearse(source, settings, msgspec.structs.replace(options, fixed={*fixed}))
        plans = _plans(held.sketch.lines, sent)
        held.recollection.close()
        if not plans:
            asked = ", ".join(f"{one}={value}" for one, value in changed.items() if fixed)
            raise errors.UsageError(
                f"With {asked or 'these settings'} no request of {source.places.key} could be sent."
            )
        fit = fit or _fit(sent, plans)
        low = _priced(sent, plans, fit, book) * (1 - _MARGIN)
        high = _priced(sent, plans, fit, book, hits=hits, asks=True) * (1 + _MARGIN)
        prompts = (fit.sized(plan.tokens) for plan in plans.values())
        outcomes.append(CostRange(name=name, prompt=sum(prompts), low=low, high=high))
    assert fit is not None
    return CostIf(
        session=str(source.places.key),
        changed=dict(changed),
        requests=len(sent),
        prompt=sum(it.prompt for it, _ in sent),
        recorded=sum(priced),
        outcomes=tuple(outcomes),
        assumed=(
            "the same requests at the same times, and the same answers"
            + (f", in a window of {tokens(known)} tokens where none is set" if known else ""),
            f"about {tokens(fit.head)} tokens stand in front of each prompt beside the history, "
            f"and the provider counts {fit.scale:.2f} times as many as we do, as in what was sent",
            "thinking leaves our window with its turn, and the prompt is read anew from there",
            "at least: the cache reads all that its rules allow, and no model writes summaries",
            f"at most: it reads {percent(hits)} of that, as it did, and a model writes them",
        ),
    )


def _untold(
    source: transcript.History, sent: _Recorded, recorded: Sequence[float | None]
) -> errors.UsageError:
    """Why nobody can say what other settings would have cost, and what can be done about it."""
    unpriced = [each for each, money in zip(sent, recorded, strict=True) if money is None]
    what = f"What {source.places.key} would have cost cannot be told"
    if not sent:
        return errors.UsageError(f"{what}: no request is recorded.")
    model = unpriced[0][0].model
    if all(usage.cost == 0 for _, usage in unpriced):
        return errors.UsageError(
            f"{model} costs nothing, whatever is sent.",
            "`mindstone replay --what-if` tells what would be sent.",
        )
    return errors.UsageError(
        f"{what}: the price of {model} is not known.",
        f'Write `"{model}" = [3.0, 15.0]` below [models.prices] in config.toml: dollars for a '
        "million tokens of prompt and of answer.",
    )


def _hits(sent: _Recorded) -> float:
    """What was read of what the rules say that the cache should have read; 0 if none was."""
    told = missed = 0
    last: dict[str, SentPrompt] = {}
    hour = any(usage.cache_hour for _, usage in sent)
    for it, usage in sent:
        if rules := rules_of(it.model, hour=hour):
            allowed = expect(rules, last.get(it.model), it)[0]
            told, missed = told + allowed, missed + max(allowed - (usage.cached or 0), 0)
        last[it.model] = it
    return 1 - missed / told if told else 0.0


def _plans(lines: Iterable[Line], sent: _Recorded) -> dict[int, _Plan]:
    """The prompt that each request would have had, by the request's place.

    A program may write one answer down in several lines: the first of them is the request.
    """
    began = [it.began for it, _ in sent]
    found: dict[int, _Plan] = {}
    plan, stable, summed = window.PromptPlanned(call=0, at=0, through=0, spans=()), 1 << 40, (0, 0)
    for line in lines:
        match line.entry:
            case derived.SummaryDerived(tokens_before=before, tokens_after=after):
                summed = summed[0] + before, summed[1] + after
            case window.PromptPlanned(purpose="") as plan if plan.measure is not None:
                stable = min(stable, plan.stable_prefix)
            case conversation.AssistantMessage() | conversation.AssistantPartial() if (
                plan.measure is not None
            ):
                at = bisect_right(began, epoch(line.ts)) - 1
                if at >= 0 and at not in found:
                    found[at] = _Plan(plan.measure.tokens, stable, summed)
                    stable, summed = 1 << 40, (0, 0)
    return found


def _fit(sent: _Recorded, plans: Mapping[int, _Plan]) -> _Fit:
    """From the first prompts, as long as both only grew."""
    places = sorted(plans)
    first, last = places[0], places[0]
    for at in places[1:]:
        grows = sent[at][0].prompt >= sent[last][0].prompt
        if not grows or plans[at].tokens < plans[last].tokens or plans[at].summary[0]:
            break
        last = at
    counted = plans[last].tokens - plans[first].tokens
    grown = sent[last][0].prompt - sent[first][0].prompt
    scale = min(max(grown / counted, 0.5), 2.0) if counted >= _TELLING else 1.0
    return _Fit(max(sent[first][0].prompt - round(scale * plans[first].tokens), 0), scale)


def _priced(
    sent: _Recorded,
    plans: Mapping[int, _Plan],
    fit: _Fit,
    book: PriceBook,
    *,
    hits: float = 1.0,
    asks: bool = False,
) -> float:
    """Dollars for all requests; `hits` is the share that the cache reads of what it could.

    Requests that the history does not hold, as those of sub-agents, stay as they were.
    """
    total = 0.0
    last: dict[str, SentPrompt] = {}
    hour, shared = any(usage.cache_hour for _, usage in sent), sent[0][1].cached or 0
    for at, (it, usage) in enumerate(sent):
        if plan := plans.get(at):
            before, rules = last.get(it.model), rules_of(it.model, hour=hour)
            now = last[it.model] = msgspec.structs.replace(it, prompt=fit.sized(plan.tokens))
            stable = min(fit.sized(plan.stable), now.prompt, before.prompt if before else 0)
            told, verdict = expect(rules, before, now, shared) if rules else (stable, "shrank")
            read = round(hits * (stable if verdict == "shrank" else min(told, stable or told)))
            written = now.prompt - read if rules and rules is not OPENAI else 0
            usage = Usage(
                prompt=now.prompt,
                completion=usage.completion,
                cached=read,
                cache_written=written,
                cache_hour=written if hour else None,
            )
            prices = book.prices(it.model)
            for count, price in zip(plan.summary, (prices.prompt, prices.completion), strict=True):
                total += fit.scale * count * (price or 0.0) if asks else 0.0
        total += cost(usage, book.prices(it.model, usage.prompt or 0)) or 0.0
    return total
