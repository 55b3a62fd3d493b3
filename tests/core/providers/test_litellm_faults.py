"""Through the real litellm, against a real server: each fault ends once, no word comes twice."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest

from mindstone_tui.core.errors import ProviderError, ProviderUnreachable
from mindstone_tui.core.providers.address import Address, ApiKey
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.litellm import RemoteProvider
from tests.core.providers.requests import Broken, Heard, hear, request, tool
from tests.loopback.faults import Fault, every_fault
from tests.loopback.server import (
    Loopback,
    asked,
    chunk,
    chunked,
    head,
    says,
    sends,
    serving,
    stream_of,
)

FAULTS = tuple(every_fault())
OPTIONS = Options(max_tokens=64, timeout=20, retries=1)
ASKED = request("hi", model="openai/m", tools=(tool("read", "path"),))
ANSWER = "Streams break, words stay whole: “é”."


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with serving() as running:
        yield running


@pytest.fixture
async def provider(server: Loopback) -> AsyncIterator[RemoteProvider]:
    made = at(server.base_url)
    yield made
    await made.close()


def at(base_url: str) -> RemoteProvider:
    async def no_pause(seconds: float) -> None:
        await asyncio.sleep(0)

    key = ApiKey(secret="sk-loopback-0123456789", origin="test")
    address = Address(model="openai/m", provider="openai", base_url=base_url, key=key)
    return RemoteProvider(address, pause=no_pause, jitter=lambda: 0.0)


async def outcome(
    provider: RemoteProvider, options: Options = OPTIONS
) -> tuple[Heard, ProviderError | None]:
    try:
        return await hear(provider, ASKED, options), None
    except Broken as broken:
        return broken.heard, broken.error


def test_there_are_enough_faults() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_fault_ends_once_and_the_next_request_works(
    server: Loopback, provider: RemoteProvider, fault: Fault
) -> None:
    server.play(*fault.acts)
    heard, error = await outcome(
        provider, Options(max_tokens=64, timeout=fault.patience, retries=1)
    )
    if fault.ends is None:
        assert error is None
        assert heard.finished is not None
    else:
        assert isinstance(error, fault.ends), error
        assert error.what
        assert error.remedy
        assert "sk-loopback" not in error.what
        assert "\n" not in error.what
        assert len(error.what) < 500
    assert heard.text == fault.text
    assert len(heard.calls) == fault.tools
    if fault.calls:
        assert len(server.calls) in ((1, 2) if fault.calls < 0 else (fault.calls,))
    assert len(heard.retries) <= OPTIONS.retries

    server.play(says("All is well."))
    assert (await hear(provider, ASKED, OPTIONS)).text == "All is well."


async def test_nobody_listens(provider: RemoteProvider) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    heard, error = await outcome(at(f"http://127.0.0.1:{port}/v1"))
    assert isinstance(error, ProviderUnreachable)
    assert "Nobody answers" in error.what
    assert len(heard.retries) == 1


async def test_a_name_that_cannot_be_resolved(
    provider: RemoteProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    _, error = await outcome(at("http://models.invalid/v1"))
    assert isinstance(error, ProviderUnreachable)
    assert "cannot be resolved" in error.what


async def test_a_secure_address_with_a_plain_server(
    server: Loopback, provider: RemoteProvider
) -> None:
    _, error = await outcome(at(server.base_url.replace("http:", "https:")))
    assert isinstance(error, ProviderUnreachable)
    assert "secure" in error.what


def recorded() -> bytes:
    """A stream with text and two tool calls, as bytes."""
    words = [chunk({"role": "assistant", "content": ""})]
    words += [chunk({"content": ANSWER[at : at + 6]}) for at in range(0, len(ANSWER), 6)]
    calls = asked(("a", "read", '{"path":"x"}'), ("b", "read", '{"path":"yy"}'))[1:]
    return stream_of([*words, *calls])


@pytest.mark.parametrize("framing", ["until the end", "in chunks"])
async def test_a_cut_at_any_byte_gives_a_prefix_and_never_a_word_twice(
    server: Loopback, provider: RemoteProvider, framing: str
) -> None:
    body = recorded()
    stride = 1 if os.environ.get("MINDSTONE_FAULTS") else 53
    complete = 0
    for cut in [*range(0, len(body), stride), len(body)]:
        whole = sends(head() + body[:cut])
        server.play(whole if framing == "until the end" else chunked(body, cut=cut))
        heard, error = await outcome(provider)
        assert ANSWER.startswith(heard.text), (cut, heard.text)
        assert len(server.calls) == (2 if heard.retries else 1)
        if error is None:
            complete += 1
            assert heard.text == ANSWER
            assert [call.arguments for call in heard.calls] == ['{"path":"x"}', '{"path":"yy"}']
        else:
            assert isinstance(error, ProviderError), cut
            assert bool(heard.retries) == (not heard.text), cut
    assert complete >= 1


async def test_a_cut_before_the_first_word_is_healed_by_a_second_try(
    server: Loopback, provider: RemoteProvider
) -> None:
    body = recorded()
    first_word = body.index(b'"content": "S')
    for cut in range(0, first_word, 31):
        server.play(sends(head() + body[:cut]), sends(head() + body))
        heard, error = await outcome(provider)
        assert error is None
        assert heard.text == ANSWER
        assert heard.finished is not None
        assert heard.finished.retries == 1
