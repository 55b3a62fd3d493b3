"""What is known about models without asking anyone: windows, limits and prices.

The facts come from the list that ships inside litellm, read as a file: litellm itself is not
imported. What is not in it is unknown, and stays so.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import bounded_json, entries, lockdown, patterns
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.providers.base import Abilities

_FILE: Final = "model_prices_and_context_window_backup.json"
_DATE: Final = patterns.pattern_of(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest|preview-\d\d-\d\d)\Z")
"""How providers name one day's version of a model."""
_TIER: Final = patterns.pattern_of(r"input_cost_per_token_above_(\d+)k_tokens")


class Prices(entries.Part):
    """Dollars per token; None is unknown."""

    prompt: float | None = None
    completion: float | None = None
    cached: float | None = None
    cache_written: float | None = None
    cache_hour: float | None = None


class Tier(entries.Part):
    """Other prices for the whole request when its prompt is longer than this."""

    above: int
    prices: Prices


class Listing(Abilities):
    """One model in the list."""

    name: str
    provider: str = ""
    window: int | None = None
    prices: Prices = Prices()
    tiers: tuple[Tier, ...] = ()
    mode: str = ""
    """What it is for, in the list's own words: `chat`, `responses`, `embedding` …"""

    def prices_for(self, prompt: int) -> Prices:
        """The prices of a request with so many tokens in its prompt."""
        reached = [tier for tier in self.tiers if prompt > tier.above]
        return max(reached, key=lambda tier: tier.above).prices if reached else self.prices


def cost(usage: entries.Usage, prices: Prices) -> float | None:
    """Dollars for one request; a cached token costs the full price where no other is known."""
    if usage.prompt is None or usage.completion is None:
        return None
    if prices.prompt is None or prices.completion is None:
        return None
    cached = min(usage.cached or 0, usage.prompt)
    written = min(usage.cache_written or 0, usage.prompt - cached)
    plain = usage.prompt - cached - written
    writing = prices.prompt if prices.cache_written is None else prices.cache_written
    for_an_hour = writing if prices.cache_hour is None else prices.cache_hour
    return (
        plain * prices.prompt
        + cached * (prices.prompt if prices.cached is None else prices.cached)
        + written * writing
        + min(usage.cache_hour or 0, written) * (for_an_hour - writing)
        + usage.completion * prices.completion
    )


def look_up(model: str) -> Listing | None:
    """The listing of a litellm name, with or without its provider's prefix."""
    listed = _listed()
    for name in _spellings(model):
        if (told := listed.get(name)) is None:
            continue
        facts = bounded_json.read_object(bytes(told)) or {}
        if _is_of(facts, model):
            return _listing(name, facts)
    return None


class PriceBook:
    """The user's own prices, then the list that ships."""

    def __init__(self, own: ModelSettings | None = None) -> None:
        self._own = own or ModelSettings()
        self._look_up = functools.cache(look_up)

    def prices(self, model: str, prompt: int = 0) -> Prices:
        """What a request with so long a prompt costs, as far as that is known."""
        own, listing = price_of(model, self._own), self._look_up(model)
        return own or (listing.prices_for(prompt) if listing else Prices())

    def missing(self, model: str, usage: entries.Usage) -> float | None:
        """What nobody priced, of many requests, of which none is taken for a long one."""
        return cost(usage, self.prices(model)) if usage.cost is None else None


def list_name() -> str:
    """Whose list it is, and of which release: `litellm-1.105.3`."""
    beside = folder.parent if (folder := lockdown.litellm_folder()) else Path()
    return next((each.stem for each in beside.glob("litellm-*.dist-info")), "litellm")


def knows_provider(name: str) -> bool:
    """Whether the list has a model of this provider."""
    told = f'"litellm_provider": "{name}'.encode()
    return any(key.startswith(f"{name}/") or told in bytes(raw) for key, raw in _listed().items())


def per_million(price: float | None) -> float | None:
    """A price per token as people write it."""
    return None if price is None else price * 1e6


def price_of(model: str, settings: ModelSettings) -> Prices | None:
    """A price the user set, in dollars per token."""
    if (own := settings.prices.get(model)) is None:
        return None
    prompt, completion = own
    return Prices(prompt=prompt / 1e6, completion=completion / 1e6)


def _spellings(model: str) -> list[str]:
    """`openrouter/a/b` → itself, `a/b`, `b`: the list is not consistent about prefixes.

    A model of a date that is not listed is taken for the one without a date.
    """
    undated = _DATE.sub("", model)
    parts = [each.split("/") for each in (model, undated)[: 1 + (undated != model)]]
    return ["/".join(each[at:]) for each in parts for at in range(len(each))]


def _is_of(facts: Mapping[str, Any], model: str) -> bool:
    """Whether a listing found without its prefix is of the provider that was named."""
    provider = str(facts.get("litellm_provider", ""))
    prefix, _, bare = model.partition("/")
    same = {prefix, prefix.removesuffix("_chat")} & {provider, provider.partition("-")[0]}
    return not bare or bool(same)


@functools.cache
def _listed() -> dict[str, msgspec.Raw]:
    """The whole list, each model still as text: of four thousand one is asked for.

    Empty when litellm is not installed or its file cannot be read.
    """
    if (folder := lockdown.litellm_folder()) is None:
        return {}
    try:
        listed = msgspec.json.decode((folder / _FILE).read_bytes(), type=dict[str, msgspec.Raw])
    except (OSError, msgspec.MsgspecError):
        return {}
    listed.pop("sample_spec", None)
    return listed


def _listing(name: str, facts: Mapping[str, Any]) -> Listing:
    return Listing(
        name=name,
        provider=str(facts.get("litellm_provider", "")),
        window=_whole(facts.get("max_input_tokens")) or _whole(facts.get("max_tokens")),
        max_output=_whole(facts.get("max_output_tokens")),
        prices=_prices(facts, ""),
        tiers=tuple(
            Tier(above=int(found[1]) * 1000, prices=_prices(facts, f"_above_{found[1]}k_tokens"))
            for key in facts
            if (found := _TIER.fullmatch(key))
        ),
        tools=facts.get("supports_function_calling") is True,
        images=facts.get("supports_vision") is True,
        sounds=facts.get("supports_audio_input") is True,
        thinks=facts.get("supports_reasoning") is True,
        mode=str(facts.get("mode", "")),
    )


def _prices(facts: Mapping[str, Any], tier: str) -> Prices:
    def price(name: str) -> float | None:
        value = facts.get(name + tier, facts.get(name))
        return float(value) if isinstance(value, int | float) else None

    return Prices(
        prompt=price("input_cost_per_token"),
        completion=price("output_cost_per_token"),
        cached=price("cache_read_input_token_cost"),
        cache_written=price("cache_creation_input_token_cost"),
        cache_hour=price("cache_creation_input_token_cost_above_1hr"),
    )


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None
