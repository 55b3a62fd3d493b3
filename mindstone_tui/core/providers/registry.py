"""From a model's name to someone who answers, and what is known about them.

local/guide       the built-in guide          local/NAME      a model on this machine
scripted/FILE     says what a file says       anything else   at a server, directly or by litellm
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui.core.config.settings import ModelSettings, Settings
from mindstone_tui.core.entries import Part, Request, Usage
from mindstone_tui.core.entries.window import BY_HAND, ModelChanged
from mindstone_tui.core.errors import MindstoneError, UnknownName
from mindstone_tui.core.paths import Places
from mindstone_tui.core.plugins import PROVIDERS, Admitted, load
from mindstone_tui.core.providers import base
from mindstone_tui.core.providers.address import (
    KNOWN,
    VARIABLES,
    address_of,
    find_key,
    require_key,
    variables_of,
)
from mindstone_tui.core.providers.catalogue import PriceBook, cost, look_up, per_million, price_of
from mindstone_tui.core.providers.guide import GUIDE, GuideProvider
from mindstone_tui.core.providers.local_models import CATALOGUE, free_memory, window_for
from mindstone_tui.core.providers.scripted import PREFIX, SCRIPT_REMEDY, ScriptedProvider

if TYPE_CHECKING:
    from mindstone_tui.core.providers.discovery import FoundServer

_LOCAL: Final = "local/"


def resolve(
    name: str,
    settings: ModelSettings,
    places: Places,
    environ: Mapping[str, str],
    explained: Settings | None = None,
) -> base.Provider:
    """Who answers under this name, seen through the user's settings.

    The guide explains the settings of the session that asks; without them, the defaults. What only
    one kind of model needs is loaded for that kind.
    """
    asking = base.Asking(settings=settings, places=places, environ=environ, explained=explained)
    ours = next((each for each in SHIPPED if name.startswith(each.prefix)), None)
    return Configured((ours or _of_others(name)).open(name, asking), settings)


def _local(name: str, asking: base.Asking) -> base.Provider:
    """The guide, or a model that runs on this machine."""
    if name == GUIDE:
        return GuideProvider(asking.explained)
    for model in CATALOGUE:
        if name == model.full_name:
            # Deferred: 19 ms that nobody else needs.
            from mindstone_tui.core.providers.local_provider import LocalProvider

            return LocalProvider(model, asking.places, asking.settings, explained=asking.explained)
    known = ", ".join((GUIDE, *(model.full_name for model in CATALOGUE)))
    raise UnknownName(f"There is no model {name!r}.", f"On this machine there can be {known}.")


def _scripted(name: str, asking: base.Asking) -> base.Provider:
    if name == PREFIX:
        return _local(name, asking)
    script = Path(name.removeprefix(PREFIX))
    if not script.exists():
        raise UnknownName(f"There is no script {script}.", SCRIPT_REMEDY)
    return ScriptedProvider(script)


def _at_a_server(name: str, asking: base.Asking) -> base.Provider:
    address = address_of(name, asking.settings, asking.places, asking.environ)
    # Deferred: 25 ms, although neither httpx nor litellm itself is loaded yet.
    from mindstone_tui.core.providers import direct, litellm

    return direct.direct_provider(address, asking.settings) or litellm.RemoteProvider(address)


SHIPPED: Final = (
    base.ProviderKind(prefix=_LOCAL, open=_local),
    base.ProviderKind(prefix=PREFIX, open=_scripted),
)
"""Kinds of names that are this program's own; every other one may be a plug-in's."""
_SERVERS: Final = base.ProviderKind(prefix="", open=_at_a_server)


@cache
def door() -> Admitted[base.ProviderKind]:
    """The kinds that plug-ins bring, and what was left out."""
    return load(PROVIDERS, lambda found: found if isinstance(found, base.ProviderKind) else None)


def _of_others(name: str) -> base.ProviderKind:
    """A plug-in's kind for this name, else whoever asks servers."""
    others = door()
    for each in others.left_out:
        if each.plugin.name == name.partition("/")[0]:
            raise UnknownName(each.sentence, "`mindstone plugins` lists them.")
    kinds = others.usable.values()
    return next((each for each in kinds if each.prefix and name.startswith(each.prefix)), _SERVERS)


def default_model(settings: ModelSettings) -> str:
    """What the user configured, else the guide.

    A model that is merely there is offered, never taken: the first answer a person reads should be
    one they can rely on.
    """
    return settings.default or GUIDE


def session_model(changed: ModelChanged | None, settings: ModelSettings, before: str = "") -> str:
    """Who answers in a session: its own model, or the default.

    The guide is a session's own model only where somebody chose it: else it answered for want of
    another. `before` is who answered last in a session that names none.
    """
    named = changed.model if changed is not None else before
    own = named != GUIDE or (changed is not None and changed.why == BY_HAND)
    return named if named and own else default_model(settings)


def embedded_models(places: Places, settings: ModelSettings) -> list[str]:
    """The models that answer without a key and without a network; the guide always does."""
    # Deferred: 19 ms, and only lists of models need it.
    from mindstone_tui.core.providers.local_provider import why_not

    return [GUIDE, *(each.full_name for each in CATALOGUE if not why_not(places, each, settings))]


def warm_up(provider: base.Provider) -> None:
    """Begin, in the background, what makes the first request of a model slow."""
    asked = provider.behind if isinstance(provider, Configured) else provider
    if (begin := getattr(asked, "warm_up", None)) is not None:
        threading.Thread(target=begin, name="warm-up", daemon=True).start()


class Configured(msgspec.Struct, eq=False):
    """A provider as the user's settings show it: own windows, own prices, cost filled in."""

    behind: base.Provider
    """Who really answers."""
    _settings: ModelSettings

    def info(self, model: str) -> base.ModelInfo:
        """What is known, with what the user said about it on top."""
        known = self.behind.info(model)
        window, prices = self._settings.windows.get(model), price_of(model, self._settings)
        if window is not None:
            known = msgspec.structs.replace(known, window=base.Window(tokens=window, label="set"))
        if prices is not None:
            known = msgspec.structs.replace(
                known,
                prompt_price=per_million(prices.prompt),
                completion_price=per_million(prices.completion),
                cached_price=None,
            )
        return known

    async def served_window(self, model: str) -> base.Window | None:
        """What its server says."""
        return await self.behind.served_window(model)

    async def stream(self, request: Request, options: base.Options) -> base.Streamed:
        """The provider's own stream; the end carries what it cost, where that can be known."""
        async with _closing(self.behind.stream(request, options)) as answer:
            async for delta in answer:
                if isinstance(delta, base.Finished):
                    usage = self._priced(request.model, delta.usage)
                    yield msgspec.structs.replace(delta, usage=usage)
                else:
                    yield delta

    async def close(self) -> None:
        """Close what is behind."""
        await self.behind.close()

    def _priced(self, model: str, usage: Usage) -> Usage:
        """The user's price first, then what was reported, then the catalogue's."""
        is_own = price_of(model, self._settings) is not None
        if usage.cost is not None and not is_own:
            return usage
        prices = PriceBook(self._settings).prices(model, usage.prompt or 0)
        money = cost(usage, prices) if is_own or not model.startswith((_LOCAL, PREFIX)) else 0.0
        return msgspec.structs.replace(usage, cost=money)


@contextlib.asynccontextmanager
async def _closing(answer: base.Streamed) -> AsyncIterator[base.Streamed]:
    """Close a stream at once when nobody listens any more, and with it what it holds."""
    try:
        yield answer
    finally:
        if isinstance(answer, AsyncGenerator):
            await answer.aclose()


EXAMPLES: Final = {name: each.example for name, each in KNOWN.items() if each.example}
"""A model to start with, for the providers people ask for most."""


class Availability(Part):
    """One model, or one provider's models, and whether it can be used now."""

    name: str
    usable: bool
    why: str = ""
    """Where it answers from, or why it cannot and what would help."""
    window: int | None = None
    local: bool = False
    default: bool = False


def available(
    settings: ModelSettings,
    places: Places,
    environ: Mapping[str, str],
    found: Iterable[FoundServer] = (),
) -> list[Availability]:
    """Everything worth listing: embedded models, the configured one, found servers, providers."""
    default = default_model(settings)
    listed = [
        *_embedded(settings, places),
        _guide(),
        *_servers(found),
        *(
            Availability(name=f"{each.prefix}…", usable=True, why=f"from the plug-in {name}")
            for name, each in door().usable.items()
        ),
        *_providers(settings, places, environ),
    ]
    if default not in (each.name for each in listed):
        listed.insert(0, _configured(default, settings, places, environ))
    return [
        msgspec.structs.replace(
            each,
            window=settings.windows.get(each.name, each.window or 0) or None,
            default=each.name == default,
        )
        for each in listed
    ]


def _embedded(settings: ModelSettings, places: Places) -> Iterator[Availability]:
    # Deferred: 19 ms, and only lists of models need it.
    from mindstone_tui.core.providers.local_provider import why_not

    free = free_memory()
    for model in CATALOGUE:
        missing = why_not(places, model, settings)
        yield Availability(
            name=model.full_name,
            usable=not missing,
            why=missing or f"on this machine: {model.skills}",
            window=window_for(model, free, settings) or None,
            local=True,
        )


def _guide() -> Availability:
    known = GuideProvider().info(GUIDE)
    window = known.window.tokens if known.window else None
    return Availability(name=GUIDE, usable=True, why=known.note, window=window, local=True)


def _configured(
    name: str, settings: ModelSettings, places: Places, environ: Mapping[str, str]
) -> Availability:
    """The configured model, checked as far as that goes without asking anyone."""
    if name.startswith(PREFIX):
        return Availability(name=name, usable=True, why="says what its file says", local=True)
    try:
        address = address_of(name, settings, places, environ)
        require_key(address)
    except MindstoneError as error:
        return Availability(name=name, usable=False, why=error.sentence)
    listing = look_up(name)
    return Availability(
        name=name,
        usable=True,
        why=f"configured; asked at {address.base_url or address.provider}",
        window=listing.window if listing else None,
        local=address.local,
    )


def _servers(found: Iterable[FoundServer]) -> Iterator[Availability]:
    for server in found:
        for model in server.models:
            state = "loaded" if model.loaded else "not loaded yet"
            yield Availability(
                name=model.name,
                usable=True,
                why=f"found at {server.base_url}, {state}",
                window=model.window,
                local=True,
            )


def _providers(
    settings: ModelSettings, places: Places, environ: Mapping[str, str]
) -> Iterator[Availability]:
    for provider in VARIABLES:
        if provider == "openai" and settings.base_url:
            yield _configured("openai/…", settings, places, environ)
            continue
        name = EXAMPLES.get(provider, f"{provider}/…")
        listing = look_up(name)
        try:
            key = find_key(provider, environ, places.keys)
        except MindstoneError as error:
            yield Availability(name=name, usable=False, why=error.sentence)
            continue
        yield Availability(
            name=name,
            usable=key is not None,
            why=f"key from {key.origin}" if key else f"no key: set {variables_of(provider)[0]}",
            window=listing.window if listing else None,
        )
