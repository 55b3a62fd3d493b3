"""What can answer now, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.places import Places
from mindstone_tui.core.providers.addresses import address_of, require_key
from mindstone_tui.core.providers.catalogue import look_up
from mindstone_tui.core.providers.discovery import FoundServer
from mindstone_tui.core.providers.guide import GUIDE, GuideProvider
from mindstone_tui.core.providers.keys import VARIABLES, find_key, variables_of
from mindstone_tui.core.providers.scripted import PREFIX
from mindstone_tui.core.providers.smollm2 import SMOLLM2, WINDOW, why_not

EXAMPLES: Final = {
    "openai": "openai/gpt-4o",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-pro",
    "mistral": "mistral/mistral-large-latest",
    "groq": "groq/openai/gpt-oss-120b",
    "deepseek": "deepseek/deepseek-chat",
    "xai": "xai/grok-4.5",
    "cerebras": "cerebras/gpt-oss-120b",
}
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
    missing = why_not(places)
    default = settings.default or (GUIDE if missing else SMOLLM2)
    listed = [
        Availability(
            name=SMOLLM2,
            usable=not missing,
            why=missing or "a tiny language model on this machine; uses no tools",
            window=WINDOW,
            local=True,
        ),
        _guide(),
        *_servers(found),
        *_providers(settings, places, environ),
    ]
    if default not in (each.name for each in listed):
        listed.insert(0, _configured(default, settings, places, environ))
    return [
        Availability(
            name=each.name,
            usable=each.usable,
            why=each.why,
            window=settings.windows.get(each.name, each.window or 0) or None,
            local=each.local,
            default=each.name == default,
        )
        for each in listed
    ]


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
