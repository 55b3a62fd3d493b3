"""Who is asked directly and where; that both ways send the same; that nothing leaks or lingers."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.errors import (
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
    UnknownName,
)
from mindstone_tui.core.lockdown import import_litellm, litellm_folder
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import (
    anthropic_messages,
    ollama,
    openai_chat,
    openai_responses,
    registry,
)
from mindstone_tui.core.providers.address import Address, ApiKey, address_of, require_key
from mindstone_tui.core.providers.base import Options, TextPart
from mindstone_tui.core.providers.direct import DirectProvider, dialect_of, direct_provider
from mindstone_tui.core.providers.http import HttpCall
from mindstone_tui.core.providers.litellm import RemoteProvider
from mindstone_tui.core.providers.openai_chat import HOSTS
from tests.core.providers.requests import Broken, hear, request, tool
from tests.core.providers.ways import SECRET, address_at, at, no_pause, outcome, provider_for
from tests.loopback.formats import CHAT, FORMATS, MESSAGES, WireFormat
from tests.loopback.server import (
    Call,
    Loopback,
    Write,
    chunked,
    event,
    head,
    says,
    sends,
    serving,
    serving_apart,
)

OPTIONS = Options(max_tokens=64, timeout=20, retries=0)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving_apart() as running:
        running.asides["/api/show"] = head("404 Not Found")
        yield running


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


# -- who is asked how -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("openai/gpt-4o", openai_chat.DIALECT),
        ("openai/gpt-5-codex", openai_responses.DIALECT),
        ("openai/responses/anything", openai_responses.DIALECT),
        ("gpt-4o", openai_chat.DIALECT),
        ("anthropic/claude-sonnet-4-5", anthropic_messages.DIALECT),
        ("claude-sonnet-4-5", anthropic_messages.DIALECT),
        ("ollama/llama3.1", ollama.DIALECT),
        ("ollama_chat/llama3.1", ollama.DIALECT),
        ("groq/openai/gpt-oss-120b", openai_chat.DIALECT),
        ("openrouter/anthropic/claude-sonnet-4.5", openai_chat.DIALECT),
        ("lm_studio/qwen", openai_chat.DIALECT),
        ("hosted_vllm/m", None),
        ("gemini/gemini-2.5-pro", None),
        ("azure/gpt-4o", None),
        ("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", None),
        ("vertex_ai/claude-sonnet-4-5", None),
    ],
)
def test_a_model_is_asked_in_the_format_of_its_provider(
    places: Places, name: str, dialect: object
) -> None:
    assert dialect_of(address_of(name, ModelSettings(), places, {})) is dialect


def test_a_server_of_ones_own_is_asked_directly(places: Places) -> None:
    environ = {"HOSTED_VLLM_API_BASE": "http://127.0.0.1:8000/v1"}
    assert dialect_of(address_of("hosted_vllm/m", ModelSettings(), places, environ)) is not None


def behind(name: str, settings: ModelSettings, places: Places) -> object:
    found = registry.resolve(name, settings, places, {})
    assert isinstance(found, registry.Configured)
    return found.behind


def test_the_setting_overrules_the_choice(places: Places) -> None:
    assert isinstance(behind("openai/gpt-4o", ModelSettings(), places), DirectProvider)
    assert isinstance(behind("gemini/gemini-2.5-pro", ModelSettings(), places), RemoteProvider)
    through = ModelSettings(transport="litellm")
    assert isinstance(behind("openai/gpt-4o", through, places), RemoteProvider)
    with pytest.raises(UnknownName, match="litellm"):
        behind("gemini/gemini-2.5-pro", ModelSettings(transport="direct"), places)


WRITTEN = (Path(str(litellm_folder())) / "main.py").read_text()


@pytest.mark.parametrize("provider", [name for name, host in HOSTS.items() if host.base_url])
def test_the_address_of_a_host_is_the_one_that_litellm_knows(provider: str) -> None:
    litellm: Any = import_litellm()
    _, named, _, base_url = litellm.get_llm_provider(f"{provider}/m")
    assert named == provider
    if base_url is None:  # written where it is used
        (base_url,) = set(re.findall(rf'"(https://(?:api\.)?{provider}\.\w+/[^"]*v1)"', WRITTEN))
    assert base_url == HOSTS[provider].base_url


# -- what is sent ---------------------------------------------------------------------------------

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def called(call_id: str, path: str) -> dict[str, Any]:
    function = {"name": "read", "arguments": json.dumps({"path": path})}
    return {"id": call_id, "type": "function", "function": function}


TALK: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "See:"}, IMAGE]},
    {
        "role": "assistant",
        "content": "Reading.",
        "tool_calls": [called("calla1234", "x"), called("callb1234", "y")],
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
    },
    {"role": "tool", "tool_call_id": "calla1234", "content": "contents of x"},
    {"role": "tool", "tool_call_id": "callb1234", "content": "contents of y"},
    {"role": "assistant", "content": "Both read."},
    {"role": "user", "content": "first"},
    {"role": "user", "content": "second"},
)


async def sent(server: Loopback, way: str, model: str) -> tuple[str, dict[str, Any]]:
    """Where a request went, and its body, whatever the answer is."""
    provider = model.partition("/")[0]
    root = provider in ("anthropic", "ollama_chat")
    base_url = server.base_url.removesuffix("/v1") if root else server.base_url
    key = ApiKey(secret=SECRET, origin="test")
    address = Address(model=model, provider=provider, base_url=base_url, key=key)
    options = Options(
        max_tokens=77,
        timeout=20,
        retries=0,
        temperature=0.5,
        window=8_192,
        cache_marks=(0, 4, 7),
    )
    asked = request(*TALK, model=model, tools=(tool("read", "path"),))
    made = provider_for(way, address)
    server.calls.clear()
    try:
        await hear(made, asked, options)
    except Broken:
        pass
    finally:
        await made.close()
    (call,) = server.calls
    body: dict[str, Any] = call.body
    return call.path, body


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """A body without what one of the ways adds for no effect."""
    body = {name: value for name, value in body.items() if name not in ("store",)}
    for message in body.get("messages", []):
        message.pop("thinking_blocks", None)  # litellm leaves it where nobody reads it
        if message.get("images") == []:
            del message["images"]
        message.pop("tool_name", None)
    for each in body.get("tools") or ():
        each.pop("strict", None)
        if each.get("type") == "custom":
            del each["type"]
    for item in body.get("input") or ():
        if item.get("type") == "function_call_output" and isinstance(item["output"], list):
            item["output"] = "".join(part["text"] for part in item["output"])
    return body


@pytest.mark.parametrize(
    "model",
    [
        *("openai/m", "openai/gpt-4o", "openai/gpt-5", "openai/gpt-5-codex"),
        *("groq/openai/gpt-oss-120b", "deepseek/deepseek-chat", "mistral/mistral-large-latest"),
        *("openrouter/anthropic/claude-sonnet-4.5", "openrouter/x/y", "together_ai/org/model"),
        *("xai/grok-4", "fireworks_ai/some-model", "cerebras/gpt-oss-120b"),
        *("fireworks_ai/accounts/me/models/mine", "lm_studio/m", "hosted_vllm/m", "llamafile/m"),
        *("litellm_proxy/m", "anthropic/claude-sonnet-4-5", "ollama_chat/llama3.1"),
    ],
)
async def test_both_ways_send_the_same(server: Loopback, model: str) -> None:
    ours, theirs = await sent(server, "direct", model), await sent(server, "litellm", model)
    assert ours[0] == theirs[0]
    assert plain(ours[1]) == plain(theirs[1])


async def test_words_that_say_nothing_are_not_replaced_by_an_invention(server: Loopback) -> None:
    server.play(MESSAGES.says("Well."))
    silent = {"role": "assistant", "content": "", "tool_calls": [called("a", "x")]}
    result = {"role": "tool", "tool_call_id": "a", "content": "x"}
    made = at("direct", MESSAGES, server)
    await hear(made, request("hi", silent, result, model=MESSAGES.model), OPTIONS)
    await made.close()
    roles = [each["role"] for each in server.calls[0].body["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert [each["type"] for each in server.calls[0].body["messages"][1]["content"]] == ["tool_use"]


# -- what is heard --------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", FORMATS, ids=str)
@pytest.mark.parametrize("way", ["direct", "litellm"])
async def test_every_format_tells_words_thoughts_calls_and_usage(
    server: Loopback, wire: WireFormat, way: str
) -> None:
    calls = [("call_1", "read", '{"path":"x"}'), ("call_2", "list", '{"path":"y","deep":true}')]
    body = wire.whole(
        wire.thought("Let me "),
        wire.thought("see."),
        wire.word("I will "),
        wire.word("look."),
        *wire.calls(calls),
        finish="tool_calls",
    )
    server.play(sends(wire.head() + body))
    made = at(way, wire, server)
    heard, error = await outcome(made, wire, OPTIONS)
    await made.close()
    assert error is None
    assert (heard.thinking, heard.text) == ("Let me see.", "I will look.")
    assert [call.name for call in heard.calls] == ["read", "list"]
    assert [heard.arguments(0), heard.arguments(1)] == [{"path": "x"}, {"path": "y", "deep": True}]
    assert heard.finished is not None
    assert heard.finished.reason == "tool_calls"
    usage = heard.finished.usage
    assert (usage.prompt, usage.completion) == (100, 5)
    assert usage.cached == (None if wire.name == "ollama" else 64)


# -- where nothing may go -------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_redirect_to_another_server_is_told_and_not_followed(
    server: Loopback, status: str
) -> None:
    async with serving() as other:
        server.play(sends(head(status, Location=f"{other.base_url}/chat/completions")))
        made = at("direct", CHAT, server)
        _, error = await outcome(made, CHAT, OPTIONS)
        await made.close()
        assert isinstance(error, ProviderRefused)
        assert f"127.0.0.1:{other.port}" in error.what
        assert other.calls == []
    assert len(server.calls) == 1


async def test_a_server_may_say_where_on_itself_the_same_request_belongs(server: Loopback) -> None:
    moved = head("307 Temporary Redirect", Location="/v2/chat/completions")
    server.play(sends(moved), says("Here."))
    made = at("direct", CHAT, server)
    heard, _ = await outcome(made, CHAT, OPTIONS)
    await made.close()
    assert heard.text == "Here."
    assert [call.path for call in server.calls] == ["/v1/chat/completions", "/v2/chat/completions"]
    assert server.calls[0].raw == server.calls[1].raw


async def test_a_request_to_this_machine_takes_no_proxy(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    made = at("direct", CHAT, server)
    heard, _ = await outcome(made, CHAT, OPTIONS)
    await made.close()
    assert heard.text == "Hello there."


def test_neither_a_key_nor_a_password_is_shown() -> None:
    key = ApiKey(secret="hunter2", origin="X")
    address = Address(
        model="openai/m",
        provider="openai",
        base_url="http://me:hunter2@127.0.0.1:9/v1?key=hunter2",
        key=key,
    )
    made = direct_provider(address, ModelSettings())
    assert made is not None
    call = openai_chat.call(request("hi"), OPTIONS, address)
    assert "hunter2" in str(call.headers)
    shown = f"{call!r} {call} {made.info('openai/m')} {address.shown} {made._where}"
    assert "hunter2" not in shown
    assert isinstance(call, HttpCall)


@pytest.mark.parametrize("secret", ["sk-a\nX-Evil: 1", "sk-“typographic”", "sk-\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(secret: str) -> None:
    key = ApiKey(secret=secret, origin="OPENAI_API_KEY")
    address = Address(model="openai/m", provider="openai", key=key)
    with pytest.raises(ProviderRefused) as error:
        require_key(address)
    assert "OPENAI_API_KEY" in error.value.what
    assert "sk-" not in error.value.sentence


# -- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", head(), head() + event({"choices": []})])
async def test_whoever_stops_listening_hangs_up_at_once(before: bytes) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def act(call: Call, write: Write) -> None:
        await write(before)
        asked.set()
        await call.hung_up()
        gone.set()

    async with serving() as server:
        server.play(act)
        made = at("direct", CHAT, server)
        task = asyncio.ensure_future(outcome(made, CHAT, OPTIONS))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()
        await made.close()


async def test_a_connection_is_used_again_after_a_whole_answer(server: Loopback) -> None:
    server.keeps = True
    server.play(chunked(CHAT.spoken("Again.")))
    made = at("direct", CHAT, server)
    for _ in range(3):
        heard, _error = await outcome(made, CHAT, OPTIONS)
        assert heard.text == "Again."
    await made.close()
    assert (len(server.calls), server.connections) == (3, 1)


class HandClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def listened(
    clock: HandClock, words: Iterable[str], takes: float, options: Options
) -> tuple[list[str], ProviderError | None]:
    """What was heard from a server that says a word as soon as the one before was taken in.

    The listener takes some seconds over each.
    """
    taken_in = asyncio.Event()

    async def act(call: Call, write: Write) -> None:
        await write(CHAT.head())
        for word in words:
            await write(CHAT.body([CHAT.word(word)]))
            await taken_in.wait()
            taken_in.clear()
        await write(CHAT.body(CHAT.ending("stop")) + CHAT.last)

    said: list[str] = []
    error = None
    async with serving() as server:
        server.play(act)
        address = address_at(CHAT, server.base_url)
        made = direct_provider(address, ModelSettings(), pause=no_pause, now=clock)
        assert made is not None
        try:
            async for delta in made.stream(request("hi", model="openai/m"), options):
                if isinstance(delta, TextPart):
                    said.append(delta.text)
                    clock.seconds += takes
                    taken_in.set()
        except ProviderError as failed:
            error = failed
        await made.close()
    return said, error


async def test_an_answer_without_an_end_is_given_up() -> None:
    said, error = await listened(HandClock(), itertools.repeat("and "), 1_000, OPTIONS)
    assert said == ["and "] * 4
    assert isinstance(error, ProviderUnreachable)
    assert "models.answer_timeout" in error.remedy


async def test_a_listener_may_take_its_time() -> None:
    """The time that somebody takes to draw what was said is not the server's."""
    words = ["One ", "two ", "three."]
    options = Options(max_tokens=9, timeout=5, retries=0)
    assert await listened(HandClock(), words, 6, options) == (words, None)


ASKED = """
import asyncio, json, sys
from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Request
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import registry
from mindstone_tui.core.providers.base import Options, TextPart

async def main():
    places = Places.resolve({"MINDSTONE_HOME": sys.argv[1]})
    name, environ = sys.argv[2], json.loads(sys.argv[3])
    provider = registry.resolve(name, ModelSettings(), places, environ)
    registry.warm_up(provider)
    asked = Request(model=name, messages=({"role": "user", "content": "hello"},))
    said = []
    async for delta in provider.stream(asked, Options(max_tokens=16)):
        if isinstance(delta, TextPart):
            said.append(delta.text)
    await provider.close()
    heavy = {"litellm", "openai", "aiohttp", "pydantic", "textual", "rich", "click", "pygments"}
    print(json.dumps({"said": "".join(said), "loaded": sorted(heavy & set(sys.modules))}))

asyncio.run(main())
"""


@pytest.mark.parametrize("wire", FORMATS, ids=str)
async def test_nothing_heavy_is_loaded_for_a_common_format(
    server: Loopback, wire: WireFormat, tmp_path: Path
) -> None:
    server.play(wire.says("Light."))
    root = server.base_url.removesuffix("/v1")
    environ = {
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "sk-x",
        "ANTHROPIC_BASE_URL": root,
        "ANTHROPIC_API_KEY": "sk-x",
        "OLLAMA_HOST": root.removeprefix("http://"),
    }
    command = [sys.executable, "-c", ASKED, str(tmp_path), wire.model, json.dumps(environ)]
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"said": "Light.", "loaded": []}
