"""Against a real server, directly and through the real litellm, each fault ends alike."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from mindstone_tui.core.errors import ProviderError, ProviderUnreachable
from mindstone_tui.core.providers.base import Options
from tests.core.providers.requests import Heard
from tests.core.providers.ways import WAYS, address_at, at, outcome, provider_for
from tests.faults import sampled
from tests.loopback.faults import Fault, every_fault
from tests.loopback.formats import CHAT, FORMATS, WireFormat
from tests.loopback.server import Loopback, chunked, head, sends, serving_apart

EVERY = [(wire, fault) for wire in FORMATS for fault in every_fault(wire)]


def _each_once() -> list[tuple[WireFormat, Fault]]:
    """Every kind of fault in one wire format, the formats in turn; `make faults` meets all."""
    kinds: dict[str, list[tuple[WireFormat, Fault]]] = {}
    for wire, fault in EVERY:
        kinds.setdefault(fault.name, []).append((wire, fault))
    return [among[at % len(among)] for at, among in enumerate(kinds.values())]


FAULTS = EVERY if os.environ.get("MINDSTONE_FAULTS") == "1" else _each_once()
OPTIONS = Options(max_tokens=64, timeout=20, retries=1)
ANSWER = "Streams break, words stay whole: “é”."
CALLS = (("a", "read", '{"path":"x"}'), ("b", "read", '{"path":"yy"}'))


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving_apart() as running:
        # litellm asks Ollama about a model in between, and stops the loop meanwhile.
        running.asides["/api/show"] = head("404 Not Found")
        yield running


def test_there_are_enough_faults() -> None:
    names = [(wire.name, fault.name) for wire, fault in EVERY]
    assert len(names) >= 200
    assert len(set(names)) == len(names)
    assert {fault.name for _, fault in FAULTS} == {name for _, name in names}
    assert {wire.name for wire, _ in FAULTS} == {wire.name for wire in FORMATS}


@pytest.mark.parametrize(
    ("wire", "fault"), sampled(FAULTS, 4), ids=[f"{wire}-{fault.name}" for wire, fault in FAULTS]
)
async def test_a_fault_ends_once_alike_on_both_ways_and_the_next_request_works(
    server: Loopback, wire: WireFormat, fault: Fault
) -> None:
    told = {
        way: await _met(server, wire, fault, way)
        for way in WAYS
        if way == "direct" or not fault.beyond_litellm
    }
    if not fault.own_words:
        assert len(set(told.values())) == 1, told


async def _met(server: Loopback, wire: WireFormat, fault: Fault, way: str) -> str:
    """What a person is told of a fault that is met on one of the ways."""
    server.play(*fault.acts)
    options = Options(max_tokens=64, timeout=fault.patience, retries=1)
    provider = at(way, wire, server)
    try:
        heard, error = await outcome(provider, wire, options)
        _check(fault, heard, error)
        if fault.calls:
            assert len(server.calls) in ((1, 2) if fault.calls < 0 else (fault.calls,))
        server.play(wire.says("All is well."))
        assert (await outcome(provider, wire, OPTIONS))[0].text == "All is well."
        return error.sentence if error else ""
    finally:
        await provider.close()


def _check(fault: Fault, heard: Heard, error: ProviderError | None) -> None:
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
    assert len(heard.retries) <= OPTIONS.retries


@pytest.mark.parametrize("way", WAYS)
async def test_nobody_listens(way: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    address = address_at(CHAT, f"http://127.0.0.1:{port}/v1")
    heard, error = await outcome(provider_for(way, address), CHAT, OPTIONS)
    assert isinstance(error, ProviderUnreachable)
    assert "No server answers" in error.what
    assert len(heard.retries) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_name_that_cannot_be_resolved(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    address = address_at(CHAT, "http://models.invalid/v1")
    _, error = await outcome(provider_for(way, address), CHAT, OPTIONS)
    assert isinstance(error, ProviderUnreachable)
    assert "cannot be resolved" in error.what


@pytest.mark.parametrize("way", WAYS)
async def test_a_secure_address_with_a_plain_server(server: Loopback, way: str) -> None:
    address = address_at(CHAT, server.base_url.replace("http:", "https:"))
    _, error = await outcome(provider_for(way, address), CHAT, OPTIONS)
    assert isinstance(error, ProviderUnreachable)
    assert "secure" in error.what


def recorded(wire: WireFormat) -> bytes:
    """A stream with text and two tool calls, as bytes."""
    words = [wire.word(ANSWER[at : at + 6]) for at in range(0, len(ANSWER), 6)]
    return wire.whole(*words, *wire.calls(CALLS), finish="tool_calls")


@pytest.mark.parametrize("framing", ["until the end", "in chunks"])
@pytest.mark.parametrize(
    ("wire", "way"), [*((wire, "direct") for wire in FORMATS), (CHAT, "litellm")]
)
async def test_a_cut_at_any_byte_gives_a_prefix_and_never_a_word_twice(
    server: Loopback, wire: WireFormat, way: str, framing: str
) -> None:
    body = recorded(wire)
    stride = 1 if os.environ.get("MINDSTONE_FAULTS") else 53 if way == "direct" else 211
    complete = 0
    provider = at(way, wire, server)
    for cut in [*range(0, len(body), stride), len(body)]:
        whole = sends(wire.head() + body[:cut])
        server.play(whole if framing == "until the end" else chunked(body, cut=cut, kind=wire.kind))
        heard, error = await outcome(provider, wire, OPTIONS)
        assert ANSWER.startswith(heard.text), (cut, heard.text)
        assert len(server.calls) == (2 if heard.retries else 1)
        if error is None:
            complete += 1
            assert heard.text == ANSWER
            assert [heard.arguments(at) for at in (0, 1)] == [{"path": "x"}, {"path": "yy"}]
        else:
            assert bool(heard.retries) == (not heard.text), cut
    await provider.close()
    assert complete >= 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_cut_before_the_first_word_is_healed_by_a_second_try(
    server: Loopback, way: str
) -> None:
    body = recorded(CHAT)
    first_word = body.index(b'"content": "S')
    provider = at(way, CHAT, server)
    for cut in range(0, first_word, 31):
        server.play(sends(CHAT.head() + body[:cut]), sends(CHAT.head() + body))
        heard, error = await outcome(provider, CHAT, OPTIONS)
        assert error is None
        assert heard.text == ANSWER
        assert heard.finished is not None
        assert heard.finished.retries == 1
    await provider.close()
