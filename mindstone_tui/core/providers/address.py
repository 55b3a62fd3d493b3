"""A model's name taken apart: who is asked, under which name, at which address, with which key."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mindstone_tui.core import entries, errors, paths, text, values
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.providers.catalogue import knows_provider, look_up
from mindstone_tui.core.providers.discovery import is_loopback, ollama_address
from mindstone_tui.core.providers.key_store import stored_key

_ALIKE: Final = 0.75
"""How much a provider's name must be like another to be a slip of the pen."""


class KnownProvider(entries.Part):
    """What is known of a provider beforehand; others follow the usual pattern."""

    name: str
    variables: tuple[str, ...] = ()
    """Which environment variables hold its key."""
    example: str = ""
    """A model to start with, for those people ask for most."""
    keyless: bool = False
    """It needs no key, or signs in with the system's own credentials."""
    own_address: bool = False
    """It is asked at `[models] base_url` when that is set."""
    address: str = ""
    """Where it usually listens."""
    chats: bool = False
    """It speaks chat completions plainly enough to be asked without a library's help."""
    base_url: str = ""
    """Its well-known address; empty where everybody has their own."""
    tells_usage: bool = False
    """It reports usage unasked, and may refuse to be asked."""
    nine_letter_ids: bool = False
    """An id of a tool call must have nine letters or digits."""
    takes_top_k: bool = False
    extra: dict[str, Any] = {}
    """What else a request to it has."""


KNOWN: Final = {
    each.name: each
    for each in values.shipped(__file__, "known_providers.json", list[KnownProvider])
}
VARIABLES: Final = {name: each.variables for name, each in KNOWN.items() if each.variables}
_UNKNOWN: Final = KnownProvider(name="")


class ApiKey(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """A secret, and where it came from; only the origin may be shown."""

    secret: str
    origin: str

    def __repr__(self) -> str:
        return f"ApiKey(origin={self.origin!r})"


def variables_of(provider: str) -> tuple[str, ...]:
    """The environment variables in which a provider's key may stand."""
    return VARIABLES.get(provider, (f"{provider.upper()}_API_KEY",))


def find_key(provider: str, environ: Mapping[str, str], path: Path) -> ApiKey | None:
    """The stored key, else the one in the environment; storing one is the more deliberate act.

    Raises `ProviderRefused` where the only one is in a keyring that does not give it.
    """
    if (stored := stored_key(path, provider)) is not None and stored.secret:
        return ApiKey(secret=stored.secret, origin=stored.origin)
    for name in variables_of(provider):
        if secret := environ.get(name, "").strip():
            return ApiKey(secret=secret, origin=name)
    if stored is not None:
        raise errors.ProviderRefused(
            f"The key for {provider} is in the system's keyring, which does not give it: "
            f"{stored.problem}.",
            f"Unlock the keyring, set {variables_of(provider)[0]}, or store the key again.",
        )
    return None


def has_key(provider: str, environ: Mapping[str, str], path: Path) -> bool:
    """Whether there is a key, be it in a keyring that is locked."""
    try:
        return find_key(provider, environ, path) is not None
    except errors.ProviderRefused:
        return True


def whole_address(typed: str) -> str:
    """A server's address as people type it: without a scheme http is meant, without a path /v1."""
    scheme, named, rest = typed.strip().rstrip("/").rpartition("://")
    path = "" if "/" in rest else "/v1"
    return f"{scheme if named else 'http'}://{rest}{path}"


def server_name(base_url: str) -> str:
    """Under which name the key of one server is kept, so that no other one is ever sent it."""
    return "server_" + re.sub(r"[^a-z0-9]+", "_", urlsplit(base_url).netloc.lower())[:56]


class Address(entries.Part):
    """Everything a request needs besides its content."""

    model: str
    """The name litellm is given."""
    provider: str
    base_url: str = ""
    """Empty for the provider's own address."""
    key: ApiKey | None = None

    @property
    def local(self) -> bool:
        """Whether the request stays on this machine."""
        return is_loopback(self.base_url)

    @property
    def shown(self) -> str:
        """Who is asked, for a person to read: an address never shows a password or a key."""
        if not self.base_url:
            return self.provider
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def address_of(
    name: str, settings: ModelSettings, places: paths.Places, environ: Mapping[str, str]
) -> Address:
    """Where a remote model is asked; raises when nobody could know."""
    provider, called = _provider_of(name, settings)
    known = KNOWN.get(provider, _UNKNOWN)
    base_url = settings.base_url if known.own_address else ""
    base_url = base_url or _named_in(environ, provider) or known.address
    check_address(base_url)
    key = _key(provider, base_url, settings, places, environ)
    if not (key or base_url or known.keyless):
        _require_known(provider)
    return Address(model=called, provider=provider, base_url=base_url, key=key)


def _require_known(provider: str) -> None:
    """Refuse a provider that nobody has heard of: no key would ever help."""
    if provider in VARIABLES or knows_provider(provider):
        return
    alike = difflib.get_close_matches(provider, VARIABLES, 1, _ALIKE)
    raise errors.UnknownName(
        f"There is no provider called {text.one_line(provider, 40)}.",
        f"{f'Did you mean {alike[0]}/…? ' if alike else ''}`mindstone models` lists those there "
        f"are; one of your own needs models.base_url or "
        f"{text.one_line(variables_of(provider)[0], 60)}. "
        "`mindstone --model local/guide` opens with the guide.",
    )


def check_address(base_url: str) -> None:
    """Refuse what nobody could be asked at; none at all is the provider's own."""
    if base_url and not _is_address(base_url):
        raise errors.UnknownName(
            f"{base_url!r} is not an address of a server.", "Write http://host:port/v1."
        )


def _is_address(url: str) -> bool:
    """Whether somebody could be asked there."""
    try:
        parts = urlsplit(url)
        whole = parts.port != 0 and bool(parts.hostname)
    except ValueError:
        return False
    return whole and parts.scheme in ("http", "https") and url.isprintable() and " " not in url


def _named_in(environ: Mapping[str, str], provider: str) -> str:
    """An address in the user's environment, taken over openly: litellm would follow it unseen."""
    ours = "ollama" if provider == "ollama_chat" else provider
    names = (f"{ours.upper()}_BASE_URL", f"{ours.upper()}_API_BASE")
    told = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
    return told or (ollama_address(environ.get("OLLAMA_HOST", "")) if ours == "ollama" else "")


def _provider_of(name: str, settings: ModelSettings) -> tuple[str, str]:
    """Split `provider/model`; a bare name is looked up, or asked at the user's own address."""
    provider, slash, bare = name.partition("/")
    if slash and provider and bare:
        return provider, f"ollama_chat/{bare}" if provider == "ollama" else name
    if not slash and (listing := look_up(name)) is not None and listing.provider:
        return listing.provider, f"{listing.provider}/{name}"
    if not slash and name and settings.base_url:
        return "openai", f"openai/{name}"
    raise errors.UnknownName(
        f"There is no known model called {name!r}.",
        "Write provider/model, for example anthropic/claude-sonnet-4-5; "
        "`mindstone models` lists what is usable.",
    )


def _key(
    provider: str,
    base_url: str,
    settings: ModelSettings,
    places: paths.Places,
    environ: Mapping[str, str],
) -> ApiKey | None:
    """The key for this address; a key for one place is never sent to another."""
    custom = bool(settings.base_url) and base_url == settings.base_url
    if custom and settings.api_key_env:
        if secret := environ.get(settings.api_key_env, "").strip():
            return ApiKey(secret=secret, origin=settings.api_key_env)
        raise errors.ProviderRefused(
            f"The environment variable {settings.api_key_env} is not set.",
            f"It should hold the key for {base_url}; set it, or clear models.api_key_env.",
        )
    if custom:
        stored = stored_key(places.keys, server_name(base_url))
        return ApiKey(secret=stored.secret, origin=stored.origin) if stored else None
    return find_key(provider, environ, places.keys)


def require_key(address: Address) -> None:
    """Refuse before anything is sent when a key is needed and there is none that could be sent."""
    if address.key and not (address.key.secret.isascii() and address.key.secret.isprintable()):
        raise errors.ProviderRefused(
            f"The key for {address.provider} ({address.key.origin}) is not one line of plain text.",
            "Copy it again.",
        )
    if address.key or address.base_url or KNOWN.get(address.provider, _UNKNOWN).keyless:
        return
    variable = variables_of(address.provider)[0]
    raise errors.ProviderRefused(
        f"There is no key for {address.provider}.",
        f"Set {variable}, or store one with `mindstone models key {address.provider}`.",
    )
