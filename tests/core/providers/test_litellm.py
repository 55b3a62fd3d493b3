"""What is sent, and what comes back, when nothing goes wrong: directly and through litellm."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mindstone_tui.core.entries import Request
from mindstone_tui.core.errors import ProviderBusy, ProviderRefused
from mindstone_tui.core.lockdown import import_litellm
from mindstone_tui.core.providers.address import Address, ApiKey
from mindstone_tui.core.providers.base import Finished, Options, TextPart
from mindstone_tui.core.providers.catalogue import PriceBook, cost
from mindstone_tui.core.providers.stream import usage_of
from tests.core.providers.requests import Broken, Heard, hear, request, tool
from tests.core.providers.ways import WAYS, at, provider_for
from tests.loopback.formats import CHAT, MESSAGES
from tests.loopback.server import (
    Loopback,
    asked,
    chunk,
    event,
    fails,
    hangs,
    head,
    says,
    sends,
    serving,
    streams,
)

PLAIN = Options(max_tokens=77, timeout=20, retries=2)


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with serving() as running:
        yield running


class Naps:
    """Remembers how long it was asked to wait, and does not."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def answer(
    way: str,
    server: Loopback,
    asked_for: Request,
    options: Options = PLAIN,
    *,
    provider: str = "openai",
    naps: Naps | None = None,
    secret: str = "sk-test-0123456789",
) -> Heard:
    base_url = server.base_url
    if provider in ("anthropic", "ollama"):
        base_url = base_url.removesuffix("/v1")
    model = asked_for.model.replace("ollama/", "ollama_chat/")
    key = ApiKey(secret=secret, origin="test")
    address = Address(model=model, provider=provider, base_url=base_url, key=key)
    made = provider_for(way, address, naps or Naps())
    try:
        return await hear(made, asked_for, options)
    finally:
        await made.close()


async def test_a_call_with_tools_works(way: str, server: Loopback) -> None:
    server.play(streams(asked(("a", "read", '{"path":"x"}'), ("b", "grep", '{"pattern":"y"}'))))
    tools = (tool("read", "path"), tool("grep", "pattern"))
    heard = await answer(way, server, request("look", model="openai/m", tools=tools))
    assert [(call.id, call.name) for call in heard.calls] == [("a", "read"), ("b", "grep")]
    assert [heard.arguments(0), heard.arguments(1)] == [{"path": "x"}, {"pattern": "y"}]
    assert heard.finished is not None
    assert heard.finished.reason == "tool_calls"
    sent = server.calls[0].body
    assert [each["function"]["name"] for each in sent["tools"]] == ["read", "grep"]


async def test_what_is_sent_is_what_was_asked(way: str, server: Loopback) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    messages: tuple[Any, ...] = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "See:"}, image]},
    )
    options = Options(max_tokens=77, timeout=20, temperature=0.5)
    await answer(way, server, request(*messages, model="openai/m"), options)
    (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == "Bearer sk-test-0123456789"
    assert call.body["messages"] == list(messages)
    assert call.body["model"] == "m"
    assert call.body["max_tokens"] == 77
    assert call.body["temperature"] == 0.5
    assert call.body["stream_options"] == {"include_usage": True}
    assert "tools" not in call.body


async def test_usage_is_what_the_server_reported_and_unknown_when_it_did_not(
    way: str,
    server: Loopback,
) -> None:
    heard = await answer(way, server, request("hi", model="openai/m"))
    assert heard.finished is not None
    usage = heard.finished.usage
    assert (usage.prompt, usage.completion, usage.cached, usage.reasoning) == (100, 5, 64, 2)
    assert heard.finished.model == "served-model"
    server.play(streams([chunk({"content": "Hi"}), chunk(finish="stop")], usage=None))
    silent = await answer(way, server, request("hi", model="openai/m"))
    assert silent.finished is not None
    assert silent.finished.usage.prompt is None


async def test_thinking_is_told_apart_from_the_answer(way: str, server: Loopback) -> None:
    server.play(
        streams(
            [
                chunk({"reasoning_content": "Let me "}),
                chunk({"reasoning_content": "see."}),
                chunk({"content": "Yes."}),
                chunk(finish="stop"),
            ]
        )
    )
    heard = await answer(way, server, request("hi", model="openai/m"))
    assert (heard.thinking, heard.text) == ("Let me see.", "Yes.")


async def test_a_busy_server_is_asked_again_as_late_as_it_wishes(
    way: str, server: Loopback
) -> None:
    busy, naps = fails("429 X", {"error": {"message": "slow"}}, Retry_After="7"), Naps()
    server.play(busy, busy, says("Now."))
    heard = await answer(way, server, request("hi", model="openai/m"), naps=naps)
    assert heard.text == "Now."
    assert naps.taken == [7.0, 7.0]
    assert [each.attempt for each in heard.retries] == [1, 2]
    assert heard.finished is not None
    assert heard.finished.retries == 2


async def test_waiting_grows_and_ends(way: str, server: Loopback) -> None:
    naps = Naps()
    server.play(fails("500 X", {"error": {"message": "boom"}}))
    with pytest.raises(Broken) as broken:
        await answer(way, server, request("hi", model="openai/m"), naps=naps)
    assert isinstance(broken.value.error, ProviderBusy)
    assert naps.taken == [0.5, 1.0]
    assert len(server.calls) == 3


async def test_the_key_never_comes_back_in_an_error(way: str, server: Loopback) -> None:
    server.play(fails("401 X", {"error": {"message": "Bad key hunter2-secret given"}}))
    with pytest.raises(Broken) as broken:
        await answer(way, server, request("hi", model="openai/m"), secret="hunter2-secret")
    assert isinstance(broken.value.error, ProviderRefused)
    assert "hunter2" not in str(broken.value.error)


async def test_an_interrupted_answer_gives_its_connection_back(way: str, server: Loopback) -> None:
    server.play(hangs(head() + event(chunk({"content": "Hel"}))))
    address = Address(model="openai/m", provider="openai", base_url=server.base_url)
    made = provider_for(way, address, Naps())
    heard = asyncio.Event()

    async def listen() -> None:
        async for delta in made.stream(request("hi", model="openai/m"), PLAIN):
            assert isinstance(delta, TextPart)
            heard.set()

    task = asyncio.ensure_future(listen())
    await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.play(says("Back."))
    assert (await hear(made, request("hi", model="openai/m"), PLAIN)).text == "Back."
    await made.close()


def anthropic_stream() -> bytes:
    """What Anthropic's own interface streams: thinking with a signature, text, a tool call."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}
    start = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "claude-x"}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "Hmm, "},
                {"type": "thinking_delta", "thinking": "yes."},
                {"type": "signature_delta", "signature": "c2ln"},
            ],
        ),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Reading."}]),
        (
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
            [
                {"type": "input_json_delta", "partial_json": '{"path"'},
                {"type": "input_json_delta", "partial_json": ':"x"}'},
            ],
        ),
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "usage": {**usage, "output_tokens": 1}}}
    ]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ending, "usage": {"output_tokens": 30}})
    events.append({"type": "message_stop"})
    return b"".join(b"event: " + each["type"].encode() + b"\n" + event(each) for each in events)


async def test_whoever_is_closed_last_leaves_no_connection_open(server: Loopback) -> None:
    """litellm keeps a client beside its cache, which complained when the process ended."""
    import aiohttp

    for _ in range(2):  # the second time, litellm's own cleaning does not find it
        server.play(MESSAGES.says("Well."), CHAT.says("Yes."))
        first, second = (at("litellm", wire, server) for wire in (MESSAGES, CHAT))
        await hear(first, request("hi", model=MESSAGES.model), PLAIN)
        stream = aiter(second.stream(request("hi", model=CHAT.model), PLAIN))
        heard = [await anext(stream)]
        await first.close()  # another session of the same process
        heard += [delta async for delta in stream]
        assert "".join(each.text for each in heard if isinstance(each, TextPart)) == "Yes."
        await second.close()
    sessions = [each for each in gc.get_objects() if isinstance(each, aiohttp.ClientSession)]
    assert [each for each in sessions if not each.closed] == []


async def test_another_vendors_interface_gives_the_same_deltas(way: str, server: Loopback) -> None:
    server.play(sends(head() + anthropic_stream()))
    asked_for = request(
        {"role": "system", "content": "Rules."},
        "first",
        {"role": "assistant", "content": "ok"},
        "read x",
        model="anthropic/claude-sonnet-4-5",
        tools=(tool("read", "path"),),
    )
    options = Options(max_tokens=77, timeout=20, cache_marks=(0, 2))
    heard = await answer(way, server, asked_for, options, provider="anthropic")
    assert heard.thinking == "Hmm, yes."
    assert heard.signatures == ("c2ln",)
    assert heard.text == "Reading."
    assert heard.calls[0].name == "read"
    assert heard.arguments() == {"path": "x"}
    assert isinstance(heard.finished, Finished)
    assert heard.finished.reason == "tool_calls"
    usage = heard.finished.usage
    assert (usage.prompt, usage.completion) == (105, 30)
    assert (usage.cached, usage.cache_written) == (90, 5)

    sent = server.calls[0].body
    assert server.calls[0].headers["x-api-key"] == "sk-test-0123456789"
    assert sent["system"][0]["cache_control"] == {"type": "ephemeral"}
    marked = [each for each in sent["messages"] if "cache_control" in str(each)]
    assert [each["role"] for each in marked] == ["assistant"]


async def test_ollama_is_told_the_window_it_must_load(way: str, server: Loopback) -> None:
    line = b'{"model":"llama3.1","message":{"role":"assistant","content":"Hi."},"done":false}\n'
    last = (
        b'{"model":"llama3.1","message":{"role":"assistant","content":""},"done":true,'
        b'"done_reason":"stop","prompt_eval_count":12,"eval_count":3}\n'
    )
    server.play(sends(head(kind="application/x-ndjson") + line + last))
    options = Options(max_tokens=77, timeout=20, window=16_384)
    heard = await answer(
        way, server, request("hi", model="ollama/llama3.1"), options, provider="ollama"
    )
    assert heard.text == "Hi."
    (call,) = [each for each in server.calls if each.path == "/api/chat"]
    assert call.body["options"]["num_ctx"] == 16_384
    assert heard.finished is not None
    assert heard.finished.usage.prompt == 12


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "claude-sonnet-4-5", "gemini/gemini-2.5-pro", "deepseek/deepseek-chat"],
)
@pytest.mark.parametrize("prompt", [1_000, 250_000])
def test_our_cost_is_litellms_cost(model: str, prompt: int) -> None:
    litellm: Any = import_litellm()
    reported = litellm.Usage(
        prompt_tokens=prompt,
        completion_tokens=500,
        total_tokens=prompt + 500,
        prompt_tokens_details={"cached_tokens": 400},
    )
    response = litellm.ModelResponse(model=model, usage=reported)
    ours = cost(usage_of(reported), PriceBook().prices(model, prompt))
    assert ours == pytest.approx(litellm.completion_cost(response, model=model))


async def test_broken_arguments_in_history_do_not_spoil_the_next_request(
    way: str, server: Loopback
) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"pa'}}
    history: tuple[Any, ...] = (
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call], "thinking_blocks": []},
        {"role": "tool", "tool_call_id": "a", "content": "these arguments are no JSON"},
    )
    await answer(way, server, request(*history, model="openai/m"))
    sent = server.calls[0].body["messages"][1]
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"unreadable_arguments":"{\\"pa"}'
    assert "thinking_blocks" not in sent
