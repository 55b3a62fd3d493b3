"""The two ways to ask a server, made alike, so that a test can hold both to the same."""

from __future__ import annotations

import asyncio
from typing import Final

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.errors import ProviderError
from mindstone_tui.core.providers.address import Address, ApiKey
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.direct import direct_provider
from mindstone_tui.core.providers.litellm import RemoteProvider
from mindstone_tui.core.providers.model_server import ModelServer, Pause
from tests.core.providers.requests import Broken, Heard, hear, request, tool
from tests.loopback.formats import WireFormat
from tests.loopback.server import Loopback

WAYS: Final = ("direct", "litellm")
SECRET: Final = "sk-loopback-0123456789"


async def no_pause(seconds: float) -> None:
    """Time does not matter here."""
    await asyncio.sleep(0)


def address_at(wire: WireFormat, base_url: str, secret: str = SECRET) -> Address:
    """A server's address as this format wants it."""
    root = base_url if wire.provider == "openai" else base_url.removesuffix("/v1")
    key = ApiKey(secret=secret, origin="test")
    return Address(model=wire.model, provider=wire.provider, base_url=root, key=key)


def provider_for(way: str, address: Address, pause: Pause = no_pause) -> ModelServer:
    """Somebody who asks there, one way or the other."""
    if way == "litellm":
        return RemoteProvider(address, pause=pause, jitter=lambda: 0.0)
    made = direct_provider(address, ModelSettings(), pause=pause, jitter=lambda: 0.0)
    assert made is not None
    return made


def at(way: str, wire: WireFormat, server: Loopback, pause: Pause = no_pause) -> ModelServer:
    """Somebody who asks the loopback server."""
    return provider_for(way, address_at(wire, server.base_url), pause)


async def outcome(
    provider: ModelServer, wire: WireFormat, options: Options
) -> tuple[Heard, ProviderError | None]:
    """What was heard of a plain question, and how it failed if it did."""
    asked = request("hi", model=wire.model, tools=(tool("read", "path"),))
    try:
        return await hear(provider, asked, options), None
    except Broken as broken:
        return broken.heard, broken.error
