"""What a client asks of an answer beside its words, and the pictures it shows."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mindstone_tui
from mindstone_tui.core.entries import Line, Request, Sampling
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.providers import (
    anthropic_messages,
    ollama,
    openai_chat,
    openai_responses,
)
from mindstone_tui.core.providers.address import Address
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.catalogue import look_up
from mindstone_tui.core.providers.litellm import call_of
from mindstone_tui.servers import wire_chat, wire_messages, wire_responses
from tests.core.session.stage import check_history
from tests.loopback.server import Loopback, asked, chunk, says, serving, streams
from tests.servers.residence import Residence, residing

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x02\0\0\0"
    b"\x12\x16\xf1\x4d\0\0\0\0IEND\xaeB`\x82"
)
DATA = base64.b64encode(PNG).decode()
SCHEMA = {"type": "object", "properties": {"port": {"type": "integer"}}}
FORM: dict[str, object] = {"type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}
ALL = Sampling(
    max_tokens=50,
    temperature=0.25,
    top_p=0.5,
    top_k=7,
    seed=11,
    presence_penalty=0.1,
    frequency_penalty=0.2,
    stop=("END",),
    effort="low",
    tool_choice="named",
    tool="look",
    parallel_calls=False,
    output_format=FORM,
)
LOOK = {"name": "look", "description": "", "parameters": {"type": "object", "properties": {}}}


def test_every_format_is_read_into_the_same_wishes() -> None:
    user = [{"role": "user", "content": "hi"}]
    chat = {
        "messages": user,
        "max_completion_tokens": 50,
        "temperature": 0.25,
        "top_p": 0.5,
        "top_k": 7,
        "seed": 11,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop": "END",
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "response_format": FORM,
    }
    assert wire_chat.read(chat).sampling == ALL
    messages = wire_messages.read(
        {
            "messages": user,
            "max_tokens": 50,
            "temperature": 0.25,
            "top_p": 0.5,
            "top_k": 7,
            "stop_sequences": ["END"],
            "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": SCHEMA},
            },
        }
    ).sampling
    assert (messages.top_k, messages.stop, messages.tool) == (7, ("END",), "look")
    assert (messages.max_tokens, messages.temperature, messages.top_p) == (50, 0.25, 0.5)
    assert messages.parallel_calls is False
    assert messages.effort == "low"
    responses = wire_responses.read(
        {
            "input": "hi",
            "max_output_tokens": 50,
            "temperature": 0.25,
            "top_p": 0.5,
            "reasoning": {"effort": "low"},
            "tool_choice": "required",
            "text": {"format": {"type": "json_schema", "name": "p", "schema": SCHEMA}},
        }
    ).sampling
    assert responses.tool_choice == "required"
    assert responses.output_format == FORM


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": "hot"}, {"max_tokens": 0}, {"stop": [1]}, {"top_p": True}, {"n": 2}],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        wire_chat.read({"messages": [{"role": "user", "content": "hi"}], **wrong})


def body(module: Any, provider: str) -> dict[str, Any]:
    request = Request(
        model="m",
        messages=({"role": "user", "content": "hi"},),
        tools=tuple(wire_chat.read({"messages": [], "tools": [_function()]}).tools),
    )
    options = Options(max_tokens=50, temperature=0.25, effort=None, sampling=ALL)
    address = Address(model=f"{provider}/m", provider=provider, base_url="http://127.0.0.1:1")
    told: dict[str, Any] = (
        call_of(request, options, address)
        if module is None
        else json.loads(module.call(request, options, address).body)
    )
    return told


def _function() -> dict[str, Any]:
    return {"type": "function", "function": LOOK}


def test_every_provider_is_told_what_it_has_a_name_for() -> None:
    chat = body(openai_chat, "hosted_vllm")
    named = {"type": "function", "function": {"name": "look"}}
    assert (chat["tool_choice"], chat["parallel_tool_calls"]) == (named, False)
    assert (chat["top_p"], chat["top_k"], chat["seed"], chat["stop"]) == (0.5, 7, 11, ["END"])
    assert chat["response_format"] == FORM
    assert "top_k" not in body(openai_chat, "openai")
    assert body(openai_chat, "mistral")["random_seed"] == 11
    responses = body(openai_responses, "openai")
    assert responses["tool_choice"] == {"type": "function", "name": "look"}
    assert responses["text"]["format"] == {"type": "json_schema", "name": "p", "schema": SCHEMA}
    assert "stop" not in responses
    claude = body(anthropic_messages, "anthropic")
    assert claude["tool_choice"] == {
        "type": "tool",
        "name": "look",
        "disable_parallel_tool_use": True,
    }
    assert (claude["top_p"], claude["top_k"], claude["stop_sequences"]) == (0.5, 7, ["END"])
    assert claude["output_config"]["format"]["schema"] == SCHEMA
    local = body(ollama, "ollama")
    assert (local["options"]["seed"], local["options"]["stop"]) == (11, ["END"])
    assert local["format"] == SCHEMA
    assert body(None, "cohere")["top_p"] == 0.5


@pytest.fixture
async def model() -> AsyncIterator[Loopback]:
    async with serving() as server:
        yield server


def at(model: Loopback) -> str:
    """Settings by which every named model is at the loopback server."""
    return f'base_url = "{model.base_url}"\n[recall]\nauto = false\n'


def entries(served: Residence, kind: str) -> list[Any]:
    found = mindstone_tui.log(session="main", kinds=[kind], home=served.home)
    return [line.entry for line in found if isinstance(line, Line)]


ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 50,
        "stop": ["END"],
        "reasoning_effort": "high",
    },
    "/v1/messages": {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 50,
        "stop_sequences": ["END"],
    },
    "/v1/responses": {"input": "hi", "max_output_tokens": 50},
}


async def test_wishes_reach_the_model_and_history_and_the_end_is_told(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    cut = [chunk({"role": "assistant", "content": "The p"}), chunk(finish="length")]
    model.play(streams(cut))
    more = {"model": "openai/gpt-4o", "temperature": 0.25, "top_p": 0.5}
    async with residing(home, tmp_path, settings=at(model)) as served, served.client() as client:
        told = [await client.post(path, json={**ASKED[path], **more}) for path in ASKED]
        assert [answer.status_code for answer in told] == [200] * 3
        chat, messages, responses = (answer.json() for answer in told)
        assert chat["choices"][0]["finish_reason"] == "length"
        assert messages["stop_reason"] == "max_tokens"
        assert (responses["status"], responses["incomplete_details"]) == (
            "incomplete",
            {"reason": "max_output_tokens"},
        )
        for call in model.calls:
            body = call.body
            assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.25, 0.5, 50)
        assert [call.body.get("stop") for call in model.calls] == [["END"], ["END"], None]
        plans: list[PromptPlanned] = entries(served, "prompt_planned")
        wished = Sampling(max_tokens=50, temperature=0.25, top_p=0.5, stop=("END",))
        assert plans[1].sampling == wished
        assert plans[0].sampling == msgspec.structs.replace(wished, effort="high")
        assert "reasoning_effort" not in model.calls[0].body, "it does not think"
        found = look_up("openai/o3")
        assert found is not None
        assert found.thinks
        assert {plan.max_tokens for plan in plans} == {50}
        plain = await client.post(
            "/v1/chat/completions", json={"messages": ASKED["/v1/messages"]["messages"]}
        )
        assert plain.status_code == 200
        assert entries(served, "prompt_planned")[-1].sampling is None, "no wish outlives its turn"
        check_history(served.places())


async def test_a_tool_that_must_be_used_is_asked_for_once(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    model.play(streams(asked(("c1", "look", "{}"))), says("Done."))
    tools = {"tools": [_function()], "tool_choice": "required", "model": "openai/gpt-4o"}
    user = {"role": "user", "content": "hi"}
    async with residing(home, tmp_path, settings=at(model)) as served, served.client() as client:
        first = await client.post("/v1/chat/completions", json={"messages": [user], **tools})
        calls = first.json()["choices"][0]["message"]
        result = [
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
                ],
            }
        ]
        again = {**tools, "messages": [user, calls, *result], "tool_choice": "auto"}
        second = (await client.post("/v1/chat/completions", json=again)).json()
        assert second["choices"][0]["message"]["content"] == "Done."
        assert [call.body.get("tool_choice") for call in model.calls] == ["required", None]
        shown = model.calls[1].body["messages"][-1]
        assert shown["role"] == "user"
        assert DATA in json.dumps(shown), "a result's picture follows"
        check_history(served.places())


def _generated(path: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"url": f"/v1beta/models/openai/gpt-4o:{path}", "json": body}


async def test_googles_format_is_spoken_with_calls_pictures_wishes_and_errors(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    model.play(streams(asked(("c1", "look", '{"at": "sea"}'))), says("Done."))
    user = {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"data": DATA}}]}
    look = {
        "name": "look",
        "parameters": {"type": "OBJECT", "properties": {"at": {"type": "STRING"}}},
    }
    tools = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [look]}],
        "generationConfig": {"temperature": 0.25, "maxOutputTokens": 50, "stopSequences": ["END"]},
    }
    async with residing(home, tmp_path, settings=at(model)) as served, served.client() as client:
        called = {
            "contents": [user],
            **tools,
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        }
        first = await client.post(**_generated("generateContent", called))
        answer = first.json()["candidates"][0]
        assert answer["finishReason"] == "STOP"
        (part,) = answer["content"]["parts"]
        assert part == {"functionCall": {"id": "c1", "name": "look", "args": {"at": "sea"}}}
        sent = model.calls[0].body
        assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.25, 50, ["END"])
        assert (sent["tool_choice"], DATA in json.dumps(sent["messages"])) == ("required", True)
        assert sent["tools"][0]["function"]["parameters"]["type"] == "object"
        assert "Be brief." in json.dumps(sent["messages"][0])
        # The call comes back without its id, as Google's own clients may send it.
        own = {"functionCall": {"name": "look", "args": {"at": "sea"}}}
        seen = {"functionResponse": {"name": "look", "response": {"output": "waves"}}}
        turn = [{"role": "model", "parts": [own]}, {"role": "user", "parts": [seen]}]
        again = _generated("streamGenerateContent?alt=sse", {"contents": [user, *turn], **tools})
        streamed = await client.post(**again)
        pieces = [json.loads(row[6:]) for row in streamed.text.splitlines() if row]
        texts = [piece["candidates"][0]["content"]["parts"][0]["text"] for piece in pieces]
        assert ("".join(texts), pieces[-1]["candidates"][0]["finishReason"]) == ("Done.", "STOP")
        assert pieces[-1]["usageMetadata"]["totalTokenCount"] > 0
        assert [entry.text for entry in entries(served, "user_message")] == ["hi"]
        assert "waves" in json.dumps(model.calls[1].body["messages"])
        counted = await client.post(**_generated("countTokens", {"contents": [user]}))
        assert counted.json()["totalTokens"] > 0
        unknown = await client.post(**_generated("embedContent", {"contents": [user]}))
        assert (unknown.status_code, unknown.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
        named = {"x-goog-api-key": served.token, "authorization": ""}
        other = await client.post(**_generated("countTokens", {}), headers=named)
        assert other.status_code == 200
        check_history(served.places())


PICTURES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
                ],
            }
        ]
    },
    "/v1/messages": {
        "max_tokens": 50,
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": DATA},
                    },
                    {"type": "text", "text": "What is this?"},
                ],
            }
        ],
    },
    "/v1/responses": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
                ],
            }
        ]
    },
}


async def test_a_picture_is_kept_and_shown_to_a_model_that_takes_it(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    async with residing(home, tmp_path, settings=at(model)) as served, served.client() as client:
        for path, asking in PICTURES.items():
            answer = await client.post(path, json={**asking, "model": "openai/gpt-4o"})
            assert answer.status_code == 200, answer.text
            assert DATA in json.dumps(model.calls[-1].body["messages"][-1])
        said: list[UserMessage] = entries(served, "user_message")
        assert [one.text for one in said] == ["What is this?"] * 3
        (name,) = {one.images[0].sha256 for one in said}
        assert name == hashlib.sha256(PNG).hexdigest()
        assert (said[0].images[0].width, said[0].images[0].height) == (2, 3)
        assert PNG in [path.read_bytes() for path in home.rglob(f"*{name[2:10]}*")]  # noqa: ASYNC240
        # Without a word, a picture is told from another by what it shows.
        only = PICTURES["/v1/chat/completions"]["messages"][0]["content"][1:]
        past = [{"role": "user", "content": only}, {"role": "assistant", "content": "A box."}]
        more = {"model": "openai/gpt-4o", "messages": [*past, {"role": "user", "content": "So?"}]}
        adopted = await client.post("/v1/chat/completions", json=more)
        again = await client.post("/v1/chat/completions", json=more)
        assert adopted.status_code == again.status_code == 200
        check_history(served.places())


async def test_a_picture_that_cannot_be_shown_is_refused_and_nothing_is_written(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, served.client() as client:
        for path, asking in PICTURES.items():
            refused = await client.post(path, json={**asking, "model": "local/guide"})
            assert refused.status_code == 400
            assert "does not take pictures" in refused.json()["error"]["message"]
        asking = json.loads(json.dumps(PICTURES["/v1/chat/completions"]))
        part = asking["messages"][0]["content"][1]
        for url, why in (
            ("https://example.org/a.png", "nothing is fetched"),
            ("data:image/png;base64,###", "not base64"),
            ("data:image/png;base64,AAAA", "no picture"),
        ):
            part["image_url"]["url"] = url
            told = (await client.post("/v1/chat/completions", json=asking)).json()
            assert why in told["error"]["message"]
        assert not entries(served, "user_message")
        assert (await client.post("/v1/chat/completions", json=ASKED["/v1/messages"])).is_success
