"""Servers on this machine are found when asked for, and nothing else is ever tried."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from mindstone_tui.core.providers.discovery import (
    discover,
    is_loopback,
    loaded_window,
    ollama_address,
    usual_places,
)
from tests.loopback.faults import repeats
from tests.loopback.server import (
    Act,
    Call,
    Loopback,
    Write,
    hangs,
    head,
    sends,
    serving,
    serving_apart,
)


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with serving() as running:
        yield running


def answers(pages: dict[str, object]) -> Act:
    async def act(call: Call, write: Write) -> None:
        if call.path in pages:
            await write(head(kind="application/json") + json.dumps(pages[call.path]).encode())
        else:
            await write(head("404 Not Found"))

    return act


OLLAMA = answers(
    {
        "/api/tags": {"models": [{"name": "llama3.1:latest"}, {"name": "phi4:14b"}, {"odd": 1}]},
        "/api/ps": {"models": [{"name": "llama3.1:latest", "context_length": 4096}]},
    }
)


async def test_ollama_is_found_with_the_window_it_really_loaded(server: Loopback) -> None:
    server.play(OLLAMA)
    url = f"http://localhost:{server.port}"
    (found,) = await discover([("ollama", url)], patience=20)
    loaded, idle = found.models
    assert (loaded.name, loaded.window, loaded.loaded) == ("ollama/llama3.1:latest", 4096, True)
    assert (idle.name, idle.window, idle.loaded) == ("ollama/phi4:14b", None, False)
    assert await loaded_window("ollama/llama3.1", url, patience=20) == 4096
    assert await loaded_window("ollama/phi4:14b", url, patience=20) is None


async def test_lm_studio_and_llama_cpp_tell_their_windows(server: Loopback) -> None:
    server.play(
        answers(
            {
                "/v1/models": {"data": [{"id": "qwen"}]},
                "/api/v0/models": {
                    "data": [{"id": "qwen", "state": "loaded", "loaded_context_length": 8192}]
                },
                "/props": {"default_generation_settings": {"n_ctx": 2048}},
            }
        )
    )
    url = f"http://127.0.0.1:{server.port}"
    studio, plain = await discover([("lm_studio", url), ("openai", url)], patience=20)
    assert [(m.name, m.window) for m in studio.models] == [("lm_studio/qwen", 8192)]
    assert [(m.name, m.window) for m in plain.models] == [("openai/qwen", 2048)]
    assert studio.base_url == f"{url}/v1"


@pytest.mark.parametrize(
    "act",
    [
        sends(head("500 X")),
        sends(head(kind="application/json") + b"[1, 2]"),
        sends(b"nonsense"),
        sends(b""),
        hangs(),
    ],
)
async def test_whoever_does_not_speak_the_language_is_not_found(server: Loopback, act: Act) -> None:
    server.play(act)
    assert await discover([("ollama", f"http://127.0.0.1:{server.port}")], patience=0.3) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://192.168.1.5:11434",
        "http://example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://0.0.0.0:1",
        "not an address",
    ],
)
async def test_only_this_machine_is_asked(url: str) -> None:
    assert not is_loopback(url)
    assert await discover([("ollama", url)]) == []
    assert await loaded_window("ollama/x", url) is None


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("", ""),
        ("  ", ""),
        ("127.0.0.1:11500", "http://127.0.0.1:11500"),
        ("box", "http://box:11434"),
        (":9000", "http://127.0.0.1:9000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://box", "http://box:80"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ('"http://box:1"', "http://box:1"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("[::]", "http://[::1]:11434"),
        ("box:99999999", "http://box:11434"),
    ],
)
def test_ollamas_own_variable_is_read_as_ollama_reads_it(told: str, address: str) -> None:
    assert ollama_address(told) == address
    expected = address or "http://127.0.0.1:11434"
    assert usual_places({"OLLAMA_HOST": told})[0] == ("ollama", expected)


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX: ", head(kind="application/json")])
async def test_a_server_that_drips_is_not_waited_for(start: bytes) -> None:
    with serving_apart() as server:
        server.play(repeats(start, b" ", 0.05))
        url = f"http://127.0.0.1:{server.port}"
        assert await discover([("ollama", url)], patience=0.2) == []


async def test_nesting_without_end_is_no_list_of_models(server: Loopback) -> None:
    deep = b'{"models":' + b"[" * 100_000
    server.play(sends(head(kind="application/json") + deep))
    assert await discover([("ollama", f"http://127.0.0.1:{server.port}")], patience=20) == []
