"""A model's name taken apart: who is asked, under which name, at which address, with which key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from mindstone_tui.core.config.keys import nearest
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import ProviderRefused, UnknownName
from mindstone_tui.core.places import Places
from mindstone_tui.core.providers.catalogue import look_up
from mindstone_tui.core.providers.discovery import is_loopback
from mindstone_tui.core.providers.keys import KEYLESS, VARIABLES, Key, find_key, variables_of

COMPATIBLE: Final = frozenset(
    {"openai", "ollama", "ollama_chat", "lm_studio", "hosted_vllm", "llamafile", "litellm_proxy"}
)
"""Providers that are asked at `[models] base_url` when it is set."""
_DEFAULT_ADDRESS: Final = {
    "ollama": "http://127.0.0.1:11434",
    "ollama_chat": "http://127.0.0.1:11434",
    "lm_studio": "http://127.0.0.1:1234/v1",
    "llamafile": "http://127.0.0.1:8080/v1",
}


class Address(Part):
    """Everything a request needs besides its content."""

    model: str
    """The name litellm is given."""
    provider: str
    base_url: str = ""
    """Empty for the provider's own address."""
    key: Key | None = None

    @property
    def local(self) -> bool:
        """Whether the request stays on this machine."""
        return is_loopback(self.base_url)


def address_of(
    name: str, settings: ModelSettings, places: Places, environ: Mapping[str, str]
) -> Address:
    """Where a remote model is asked; raises when nobody could know."""
    provider, called = _provider_of(name, settings)
    base_url = settings.base_url if provider in COMPATIBLE else ""
    base_url = base_url or _named_in(environ, provider) or _DEFAULT_ADDRESS.get(provider, "")
    if base_url and urlsplit(base_url).scheme not in ("http", "https"):
        raise UnknownName(
            f"{base_url!r} is not an address of a server.", "Write http://host:port/v1."
        )
    key = _key(provider, base_url, settings, places, environ)
    return Address(model=called, provider=provider, base_url=base_url, key=key)


def _named_in(environ: Mapping[str, str], provider: str) -> str:
    """An address in the user's environment, taken over openly: litellm would follow it unseen."""
    names = (f"{provider.upper()}_BASE_URL", f"{provider.upper()}_API_BASE")
    return next((environ[name] for name in names if environ.get(name)), "")


def _provider_of(name: str, settings: ModelSettings) -> tuple[str, str]:
    """Split `provider/model`; a bare name is looked up, or asked at the user's own address."""
    provider, slash, bare = name.partition("/")
    if slash and provider and bare:
        if provider == "ollama":
            return provider, f"ollama_chat/{bare}"
        return provider, name
    if not slash and (listing := look_up(name)) is not None and listing.provider:
        return listing.provider, f"{listing.provider}/{name}"
    if not slash and name and settings.base_url:
        return "openai", f"openai/{name}"
    raise UnknownName(
        f"Nobody knows a model called {name!r}.",
        "Write provider/model, for example anthropic/claude-sonnet-4-5; "
        "`mindstone models` lists what is usable.",
    )


def _key(
    provider: str,
    base_url: str,
    settings: ModelSettings,
    places: Places,
    environ: Mapping[str, str],
) -> Key | None:
    """The key for this address; a key for one place is never sent to another."""
    custom = bool(settings.base_url) and base_url == settings.base_url
    if custom and settings.api_key_env:
        if secret := environ.get(settings.api_key_env, "").strip():
            return Key(secret=secret, origin=settings.api_key_env)
        raise ProviderRefused(
            f"The environment variable {settings.api_key_env} is not set.",
            f"It should hold the key for {base_url}; set it, or clear models.api_key_env.",
        )
    if custom:
        return None
    return find_key(provider, environ, places.keys)


def require_key(address: Address) -> None:
    """Refuse before anything is sent when a key is needed and there is none."""
    if address.key or address.base_url or address.provider in KEYLESS:
        return
    variable = variables_of(address.provider)[0]
    near = nearest(address.provider, VARIABLES) if address.provider not in VARIABLES else ""
    raise ProviderRefused(
        f"There is no key for {address.provider}.",
        f"{f'Did you mean {near}/…? Else set' if near else 'Set'} {variable}, "
        f"or store one with `mindstone models key {address.provider}`.",
    )
