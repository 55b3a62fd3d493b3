"""A model's server fails in every way, and each client hears of it as it knows it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import mindstone_tui
from mindstone_tui.core.entries import Line
from tests.core.session.stage import check_history
from tests.faults import FULL
from tests.loopback.server import (
    Act,
    Loopback,
    asked,
    chunk,
    error,
    event,
    fails,
    hangs,
    head,
    says,
    sends,
    serving,
    streams,
)
from tests.servers.residence import Residence, residing
from tests.servers.test_gateway import WEATHER, anthropic, openai, said

if TYPE_CHECKING:  # three seconds of import, which only whoever runs these tests should pay
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LONG = "This model's maximum context length is 8192 tokens. Your messages resulted in 9000 tokens."


class Met(msgspec.Struct, frozen=True):
    """A fault, and what clients must make of it."""

    act: Act | None
    """None for a server that is not there."""
    status: int
    raised: str
    """The class that both libraries raise."""
    code: str | None
    kind: str
    """What Anthropic calls it."""
    headers: dict[str, str] = {}


def refused(line: str, status: int, raised: str, code: str | None, kind: str) -> Met:
    return Met(fails(line, error("the server says no")), status, raised, code, kind)


FAULTS = {
    "401": refused("401 X", 401, "AuthenticationError", "invalid_api_key", "authentication_error"),
    "402": refused("402 X", 402, "APIStatusError", None, "billing_error"),
    "403": refused("403 X", 403, "PermissionDeniedError", None, "permission_error"),
    "404": refused("404 X", 404, "NotFoundError", "model_not_found", "not_found_error"),
    "408": refused("408 X", 408, "APIStatusError", None, "timeout_error"),
    "413": refused("413 X", 413, "APIStatusError", "context_length_exceeded", "request_too_large"),
    "422": refused("422 X", 422, "UnprocessableEntityError", None, "invalid_request_error"),
    "500": refused("500 X", 500, "InternalServerError", None, "api_error"),
    "503": refused("503 X", 503, "InternalServerError", None, "overloaded_error"),
    "529": refused("529 X", 529, "InternalServerError", None, "overloaded_error"),
    "limited": Met(
        fails("429 X", error("slow down"), Retry_After="37"),
        429,
        "RateLimitError",
        "rate_limit_exceeded",
        "rate_limit_error",
        {"retry-after": "37"},
    ),
    "no quota": Met(
        fails("429 X", error("You exceeded your current quota", "insufficient_quota")),
        429,
        "RateLimitError",
        "insufficient_quota",
        "rate_limit_error",
        {"x-should-retry": "false"},
    ),
    "overflow": Met(
        fails("400 X", error(LONG)),
        400,
        "BadRequestError",
        "context_length_exceeded",
        "invalid_request_error",
    ),
    "content": Met(
        fails("400 X", error("flagged by our content policy", "content_filter")),
        400,
        "BadRequestError",
        "content_filter",
        "invalid_request_error",
    ),
    "nobody there": Met(None, 502, "InternalServerError", None, "api_error"),
    "silence": Met(hangs(), 504, "InternalServerError", None, "timeout_error"),
}
SPOKE = head() + event(chunk({"role": "assistant", "content": "The port is"}))


def at(address: str, timeout: float = 1.0) -> str:
    return (
        f'base_url = "{address}"\nretries = 0\ntimeout = {timeout}\n[models.windows]\n'
        '"openai/mine" = 32000\n[recall]\nauto = false\n'
    )


@pytest.fixture
async def model() -> AsyncIterator[Loopback]:
    async with serving() as server:
        yield server


def entries(served: Residence, *kinds: str) -> list[Any]:
    found = mindstone_tui.log(session="main", kinds=list(kinds), home=served.home)
    return [line.entry for line in found if isinstance(line, Line)]


USUAL = ("401", "404", "503", "limited", "overflow", "content")
"""What clients meet most; the long run tries all."""


@pytest.mark.neighbour("openai", "faults")
@pytest.mark.neighbour("anthropic", "faults")
@pytest.mark.parametrize("name", [name for name in FAULTS if FULL or name in USUAL])
async def test_each_library_raises_its_own_error_for_what_the_models_server_said(
    home: Path, tmp_path: Path, model: Loopback, name: str, record_property: Any
) -> None:
    met = FAULTS[name]
    if met.act is None:
        await model.stop()
    else:
        model.play(met.act)
    asking: dict[str, Any] = {"model": "openai/mine", "messages": [said("user", "Which port?")]}
    async with residing(home, tmp_path, settings=at(model.base_url)) as served:
        async with openai(served) as client, anthropic(served) as claude:
            for stream in (False, True):
                with pytest.raises(Exception, match=r".+") as caught:
                    await client.chat.completions.create(**asking, stream=stream)
                told: Any = caught.value
                assert (told.status_code, told.code) == (met.status, met.code), told
                assert type(told).__mro__[0].__name__ == met.raised
                assert met.headers.items() <= dict(told.response.headers).items()
            record_property(f"openai, {name}", f"{met.raised}: {told}")
            with pytest.raises(Exception, match=r".+") as caught:
                await client.responses.create(model="openai/mine", input="Which port?")
            assert caught.value.status_code == met.status  # type: ignore[attr-defined]
            with pytest.raises(Exception, match=r".+") as caught:
                await claude.messages.create(**asking, max_tokens=50)
            told = caught.value
            assert (told.status_code, told.body["error"]["type"]) == (met.status, met.kind)
            assert told.body["type"] == "error"
            record_property(f"anthropic, {name}", f"{type(told).__name__}: {told}")
            if name == "overflow":
                assert "prompt is too long" in told.message.lower()
        found = entries(served, "user_message", "model_failed", "turn_ended")
        assert [entry.text for entry in found if hasattr(entry, "text")] == ["Which port?"]
        assert len([entry for entry in found if hasattr(entry, "call")]) >= 4, "each attempt"
    check_history(served.places())
    assert [entry.ending for entry in entries(served, "turn_ended")] == ["failed"]


async def test_a_message_that_failed_ten_times_is_in_history_once_with_its_attempts(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    busy = fails("503 X", error("later"))
    model.play(says("Hello."), *[busy] * 10, says("It is 8443."))
    async with (
        residing(home, tmp_path, settings=at(model.base_url)) as served,
        served.client() as client,
    ):

        async def ask(words: str) -> int:
            body = {"model": "openai/mine", "messages": [said("user", words)]}
            return (await client.post("/v1/chat/completions", json=body)).status_code

        assert await ask("hello") == 200
        assert [await ask("Which port?") for _ in range(11)] == [503] * 10 + [200]
        assert [entry.text for entry in entries(served, "user_message")] == ["hello", "Which port?"]
        assert len(entries(served, "model_failed")) == 10
        matched = [entry.action for entry in entries(served, "client_matched")]
        assert matched == ["appended", "appended", *["retried"] * 10]
        sent = [call.body["messages"] for call in model.calls]
        assert sent[1] == sent[-1], "every attempt asks for the same"
        assert await ask("and now?") == 200
        check_history(served.places())
    assert [entry.ending for entry in entries(served, "turn_ended")] == ["done"] * 3


async def test_what_failed_and_is_not_asked_for_again_is_in_history_as_failed(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    model.play(fails("401 X", error("no such key")), says("Aye."))
    async with (
        residing(home, tmp_path, settings=at(model.base_url)) as served,
        openai(served) as client,
    ):
        for words in ("Which port?", "Something else."):
            fails_first = pytest.raises(Exception, match="no such key")
            with fails_first if words == "Which port?" else contextlib.nullcontext():
                await client.chat.completions.create(
                    model="openai/mine", messages=[{"role": "user", "content": words}]
                )
        ended = entries(served, "turn_ended")
        assert [entry.ending for entry in ended] == ["failed", "done"]
        assert "no such key" in ended[0].why
        check_history(served.places())


async def chat_into(client: AsyncOpenAI, heard: list[str]) -> None:
    messages: Any = [said("user", "Which port?")]
    async for part in await client.chat.completions.create(
        model="openai/mine", messages=messages, stream=True
    ):
        heard.append(part.choices[0].delta.content or "")


async def message_into(claude: AsyncAnthropic, heard: list[str]) -> None:
    messages: Any = [said("user", "Which port?")]
    async with claude.messages.stream(
        model="openai/mine", max_tokens=50, messages=messages
    ) as flowing:
        async for text in flowing.text_stream:
            heard.append(text)


@pytest.mark.neighbour("openai", "faults")
@pytest.mark.neighbour("anthropic", "faults")
@pytest.mark.parametrize("how", [sends(SPOKE), hangs(SPOKE)], ids=["cut", "falls silent"])
async def test_an_answer_that_breaks_off_is_kept_told_and_asked_for_anew(
    home: Path, tmp_path: Path, model: Loopback, how: Act
) -> None:
    model.play(how, how, how, says("The port is 8443."))
    async with residing(home, tmp_path, settings=at(model.base_url)) as served:
        async with openai(served) as client, anthropic(served) as claude:
            heard: list[str] = []
            with pytest.raises(Exception, match=r"broke off|in time"):
                await chat_into(client, heard)
            assert "".join(heard) == "The port is"
            partial = entries(served, "assistant_partial")
            assert [entry.text for entry in partial] == ["The port is"]
            with pytest.raises(Exception, match=r"broke off|in time"):
                await message_into(claude, heard)
            assert "".join(heard) == "The port is" * 2
            async with client.responses.stream(model="openai/mine", input="Which port?") as flow:
                kinds = [part.type async for part in flow]
            assert kinds[-1] == "response.failed"
            answer = await client.responses.create(model="openai/mine", input="Which port?")
            assert answer.output_text == "The port is 8443."
        sent = [call.body["messages"] for call in model.calls]
        assert sent[0] == sent[-1], "nobody is made to go on in half an answer"
        assert len(entries(served, "user_message")) == 1
        assert len(entries(served, "assistant_partial")) == 3
        check_history(served.places())


@pytest.mark.parametrize("then", ["asks again", "says something else", "stays away"])
async def test_a_client_that_hangs_up_and_asks_again_is_in_history_once(
    home: Path, tmp_path: Path, model: Loopback, then: str
) -> None:
    model.play(hangs(SPOKE), says("The port is 8443."))
    asked = {"model": "openai/mine", "messages": [said("user", "Which port?")]}
    path, whole = "/v1/chat/completions", {**asked, "stream": True}
    async with (
        residing(home, tmp_path, settings=at(model.base_url, 60.0)) as served,
        served.client() as client,
    ):
        async with client.stream("POST", path, json=whole) as reply:
            await anext(line async for line in reply.aiter_lines() if "port" in line)
        if then == "asks again":
            answer = (await client.post(path, json=asked)).json()
            assert answer["choices"][0]["message"]["content"] == "The port is 8443."
        elif then == "says something else":
            other = {**asked, "messages": [said("user", "Which host?")]}
            assert (await client.post(path, json=other)).status_code == 200
        while not entries(served, "assistant_partial"):  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0)
    partial, ended = entries(served, "assistant_partial"), entries(served, "turn_ended")
    assert [entry.text for entry in partial] == ["The port is"]
    asked_for = [entry.text for entry in entries(served, "user_message")]
    assert asked_for == ["Which port?", "Which host?"][: 2 if then == "says something else" else 1]
    endings = [(entry.ending, entry.why) for entry in ended]
    gone = ("interrupted", "The client went away.")
    kinds = {"asks again": [("done", "")], "stays away": [gone]}
    assert endings == kinds.get(then, [gone, ("done", "")])
    check_history(served.places())


async def test_a_failure_after_a_tool_of_the_client_is_tried_again_with_its_result(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    call = ("call_7", "weather", '{"place": "Oslo"}')
    busy = fails("529 X", error("overloaded"))
    model.play(streams(asked(call)), busy, busy, says("It rains."))
    past: list[Any] = [said("user", "How is it in Oslo?")]
    async with (
        residing(home, tmp_path, settings=at(model.base_url)) as served,
        openai(served) as client,
    ):

        async def ask() -> Any:
            made: Any = client.chat.completions.create
            answer = await made(model="openai/mine", messages=past, tools=[WEATHER])
            return answer.choices[0].message

        past.append((await ask()).model_dump(exclude_none=True))
        past.append({"role": "tool", "tool_call_id": "call_7", "content": "Rain."})
        for _ in range(2):
            with pytest.raises(Exception, match="overloaded"):
                await ask()
        assert (await ask()).content == "It rains."
        assert [entry.text for entry in entries(served, "user_message")] == ["How is it in Oslo?"]
        assert [entry.text for entry in entries(served, "tool_returned")] == ["Rain."]
        sent = [call.body["messages"] for call in model.calls]
        assert sent[1] == sent[-1]
        check_history(served.places())


async def test_default_and_every_model_say_the_window_they_have(
    home: Path, tmp_path: Path, model: Loopback
) -> None:
    async with (
        residing(home, tmp_path, settings="\n[context]\nwindow = 12345\n") as served,
        served.client() as client,
    ):
        listed = (await client.get("/v1/models")).json()["data"][0]
        alone = (await client.get("/v1/models/default")).json()
        for told in (listed, alone):
            assert told["id"] == "default"
            assert (told["context_window"], told["max_input_tokens"]) == (12345, 12345)
    async with residing(home, tmp_path) as served, served.client() as client:
        unknown = (await client.get("/v1/models/openai/never-heard-of")).json()
        assert "context_window" not in unknown
