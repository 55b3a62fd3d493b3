"""From a model's name to someone who answers, and what is known about them.

local/guide       the built-in guide          local/smollm2   the small language model
scripted/FILE     says what a file says       anything else   through litellm
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Request, Usage
from mindstone_tui.core.errors import UnknownName
from mindstone_tui.core.places import Places
from mindstone_tui.core.providers import remote
from mindstone_tui.core.providers.addresses import address_of
from mindstone_tui.core.providers.catalogue import cost, look_up, price_of
from mindstone_tui.core.providers.guide import GUIDE, GuideProvider
from mindstone_tui.core.providers.protocol import (
    Delta,
    Finished,
    ModelInfo,
    Options,
    Provider,
    Retrying,
    Window,
)
from mindstone_tui.core.providers.scripted import PREFIX, ScriptedProvider
from mindstone_tui.core.providers.smollm2 import SMOLLM2, SmolProvider, why_not

_LOCAL: Final = "local/"
_MILLION: Final = 1e6


def resolve(
    name: str, settings: ModelSettings, places: Places, environ: Mapping[str, str]
) -> Provider:
    """Who answers under this name, seen through the user's settings."""
    return Configured(_provider(name, settings, places, environ), settings)


def _provider(
    name: str, settings: ModelSettings, places: Places, environ: Mapping[str, str]
) -> Provider:
    if name == GUIDE:
        return GuideProvider()
    if name == SMOLLM2:
        return SmolProvider(places)
    if name.startswith(PREFIX) and name != PREFIX:
        return ScriptedProvider(Path(name.removeprefix(PREFIX)))
    if name.startswith((_LOCAL, PREFIX)):
        raise UnknownName(
            f"There is no model {name!r}.", f"Embedded ones are {GUIDE} and {SMOLLM2}."
        )
    return remote.RemoteProvider(address_of(name, settings, places, environ))


def default_model(settings: ModelSettings, places: Places) -> str:
    """What the user configured, else the small model when it can run, else the guide."""
    if settings.default:
        return settings.default
    return GUIDE if why_not(places) else SMOLLM2


def embedded_models(places: Places) -> list[str]:
    """The models that answer without a key and without a network, best first."""
    return [GUIDE] if why_not(places) else [SMOLLM2, GUIDE]


def is_remote(name: str) -> bool:
    """Whether a model is asked through litellm."""
    return not name.startswith((_LOCAL, PREFIX))


def warm_up(name: str) -> None:
    """Begin, in the background, what makes the first request of a model slow."""
    if is_remote(name):
        threading.Thread(target=remote.warm_up, name="litellm", daemon=True).start()


class Configured:
    """A provider as the user's settings show it: own windows, own prices, cost filled in."""

    def __init__(self, provider: Provider, settings: ModelSettings) -> None:
        self._provider = provider
        self._settings = settings

    def info(self, model: str) -> ModelInfo:
        """What is known, with what the user said about it on top."""
        known = self._provider.info(model)
        window, prices = self._settings.windows.get(model), price_of(model, self._settings)
        if window is not None:
            known = msgspec.structs.replace(known, window=Window(tokens=window, label="measured"))
        if prices is not None:
            known = msgspec.structs.replace(
                known,
                prompt_price=_per_million(prices.prompt),
                completion_price=_per_million(prices.completion),
                cached_price=None,
            )
        return known

    async def served_window(self, model: str) -> Window | None:
        """What its server says."""
        return await self._provider.served_window(model)

    async def stream(self, request: Request, options: Options) -> AsyncIterator[Delta | Retrying]:
        """The provider's own stream; the end carries what it cost, where that can be known."""
        async with _closing(self._provider.stream(request, options)) as answer:
            async for delta in answer:
                if isinstance(delta, Finished):
                    usage = self._priced(request.model, delta.usage)
                    yield msgspec.structs.replace(delta, usage=usage)
                else:
                    yield delta

    async def close(self) -> None:
        """Close what is behind."""
        await self._provider.close()

    def _priced(self, model: str, usage: Usage) -> Usage:
        """The user's price first, then what was reported, then the catalogue's."""
        own = price_of(model, self._settings)
        if own is not None:
            return msgspec.structs.replace(usage, cost=cost(usage, own))
        if usage.cost is not None:
            return usage
        if is_remote(model):
            listing = look_up(model)
            return msgspec.structs.replace(usage, cost=listing.cost(usage) if listing else None)
        return msgspec.structs.replace(usage, cost=0.0)


@contextlib.asynccontextmanager
async def _closing(
    answer: AsyncIterator[Delta | Retrying],
) -> AsyncIterator[AsyncIterator[Delta | Retrying]]:
    """Close a stream at once when nobody listens any more, and with it what it holds."""
    try:
        yield answer
    finally:
        if isinstance(answer, AsyncGenerator):
            await answer.aclose()


def _per_million(price: float | None) -> float | None:
    return None if price is None else price * _MILLION
