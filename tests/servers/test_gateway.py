"""The gateway, asked by the clients of OpenAI and Anthropic: one history behind every format."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mindstone_tui
from mindstone_tui import api, events
from mindstone_tui.core.entries import Line, ToolCall
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.library.open_questions import WaitingRoom
from mindstone_tui.core.transcript import History
from mindstone_tui.servers import wire
from mindstone_tui.servers.match import exchanges
from mindstone_tui.servers.wire import ClientMessage
from tests.core.session.stage import calls, check_history
from tests.servers.residence import PATIENCE, Residence, residing

if TYPE_CHECKING:  # three seconds of import, which only whoever runs these tests should pay
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TURNS = int(os.environ.get("MINDSTONE_CROWD", "24"))
"""How many turns a crowd of clients takes in one session; `make crowd` takes a thousand."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather somewhere.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


def openai(served: Residence, **headers: str) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        base_url=f"{served.url}/v1",
        api_key=served.token,
        max_retries=0,
        timeout=PATIENCE,
        default_headers=headers,
    )


def refused(match: str | None = None) -> Any:
    """The client is told in its own way that it cannot be."""
    from openai import APIStatusError

    return pytest.raises(APIStatusError, match=match)


def anthropic(served: Residence) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        base_url=served.url, api_key=served.token, max_retries=0, timeout=PATIENCE
    )


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


async def complete(client: AsyncOpenAI, *messages: Any, **more: Any) -> Any:
    return await client.chat.completions.create(model="default", messages=list(messages), **more)


@pytest.mark.neighbour("openai", "talk")
@pytest.mark.neighbour("anthropic", "talk")
async def test_every_format_streams_or_not_and_goes_into_the_default_session(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served:
        async with openai(served) as client, anthropic(served) as claude:
            raw = await client.chat.completions.with_raw_response.create(
                model="default", messages=[{"role": "user", "content": "chat?"}]
            )
            assert raw.headers["x-mindstone-session"] == "agent:default:main"
            number = raw.headers["x-mindstone-context"]
            assert int(number.split(";")[0]) == raw.parse().usage.prompt_tokens  # type: ignore[union-attr]
            assert "label=estimated" in number
            assert raw.parse().choices[0].message.content == "Port 8443."
            stream = await complete(
                client,
                said("user", "streamed?"),
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == "Port 8443."
            assert chunks[-1].usage.completion_tokens > 0
            first = await client.responses.create(model="default", input="responses?")
            assert first.output_text == "Port 8443."
            async with client.responses.stream(model="default", input="on?") as streamed:
                async for _ in streamed:
                    pass
                assert (await streamed.get_final_response()).output_text == "Port 8443."
            message = await claude.messages.create(
                model="default", max_tokens=100, messages=[{"role": "user", "content": "messages?"}]
            )
            assert message.content[0].text == "Port 8443."  # type: ignore[union-attr]
            async with claude.messages.stream(
                model="default", max_tokens=100, messages=[{"role": "user", "content": "last?"}]
            ) as flowing:
                assert "".join([text async for text in flowing.text_stream]) == "Port 8443."
            names = [model.id async for model in client.models.list()]
            assert names[0] == "default"
        assert len(served.kinds("main", "user_message")) == 6
        check_history(served.places())


async def test_what_is_said_before_and_after_a_tool_stands_apart(
    home: Path, tmp_path: Path
) -> None:
    looks = {"text": "Let me look.", "tool_calls": [{"name": "nothing", "arguments": {}}]}
    async with residing(home, tmp_path, looks, {"text": "It is 8443."}) as served:
        async with openai(served) as client:
            first = (await complete(client, said("user", "port?"))).choices[0].message.content
            assert first == "Let me look.\n\nIt is 8443."
            await complete(
                client, said("user", "port?"), said("assistant", first), said("user", "sure?")
            )
        assert len(served.kinds("main", "user_message")) == 2


ASKS = {"model": "default", "stream": True, "messages": [{"role": "user", "content": "clean up"}]}
REMOVES = calls(("shell", {"command": "rm -rf build"}))


async def test_a_client_is_told_that_its_turn_waits_and_its_answer_goes_on_after_one_elsewhere(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path, REMOVES, {"text": "Clean."}) as served:
        app = await api.connect("main", home=served.home, cwd=tmp_path, asks=True, channel="tui")
        headers = {"x-mindstone-tools": "on", "x-mindstone-folder": str(tmp_path)}
        async with served.client(headers=headers) as client:
            async with client.stream("POST", "/v1/chat/completions", json=ASKS) as reply:
                lines = reply.aiter_lines()
                told = await anext(line async for line in lines if line.startswith(": "))
                assert "rm -rf build" in told
                assert "`mindstone waiting` lists it" in told
                asked = await anext(
                    e async for e in app.events() if isinstance(e, events.ToolAsked)
                )
                app.answer(asked.call, events.Answer(allowed=False, why="not today"))
                rest = [line async for line in lines]
            assert any('"Clean."' in line for line in rest)
            assert rest[-2:] == ["data: [DONE]", ""]
        await app.close()
        (given,) = mindstone_tui.log(session="main", kinds=["tool_answered"], home=served.home)
        assert (given.channel, given.entry.why) == ("tui", "not today")  # type: ignore[union-attr]
        check_history(served.places())


async def test_a_client_that_goes_away_leaves_no_question_behind_without_its_reason(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path, REMOVES, {"text": "Clean."}) as served:
        app = await api.connect("main", home=served.home, cwd=tmp_path, channel="tui")
        async with (
            served.client(headers={"x-mindstone-tools": "on"}) as client,
            client.stream("POST", "/v1/chat/completions", json=ASKS) as reply,
        ):
            await anext(line async for line in reply.aiter_lines() if line.startswith(": "))
        await anext(
            event
            async for event in app.events()
            if isinstance(event, events.EntryAppeared) and event.kind == "turn_ended"
        )
        await app.close()
        (ended,) = mindstone_tui.log(session="main", kinds=["turn_ended"], home=served.home)
        assert ended.entry.why == "The client went away."  # type: ignore[union-attr]
        assert WaitingRoom(served.home.places).look() == []
        assert "tool_approved" not in served.kinds()
        check_history(served.places())


async def test_a_message_that_failed_and_is_sent_again_stands_once_in_the_prompt(
    home: Path, tmp_path: Path
) -> None:
    replies = [{"text": "Hello."}, {"error": "auth"}, {"error": "auth"}, {"text": "It is 8443."}]
    async with residing(home, tmp_path, *replies) as served, openai(served) as client:
        await complete(client, said("user", "hello"))
        for _ in range(2):
            with pytest.raises(Exception, match="key"):
                await complete(client, said("user", "port?"))
        answer = (await complete(client, said("user", "port?"))).choices[0].message.content
        assert answer == "It is 8443."
        found = mindstone_tui.log(session="main", kinds=["client_matched"], home=home)
        actions = [line.entry.action for line in found]  # type: ignore[union-attr]
        assert actions == ["appended", "appended", "retried", "retried"]
        check_history(served.places())


async def test_a_client_that_sends_all_it_knows_continues_and_nothing_is_doubled(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, openai(served) as client:
        past = [said("user", "one")]
        for question in ("two", "three"):
            answer = (await complete(client, *past)).choices[0].message.content
            past += [said("assistant", answer), said("user", question)]
        await complete(client, *past)
        asked = [
            line.entry.text  # type: ignore[union-attr]
            for line in mindstone_tui.log(session="main", kinds=["user_message"], home=home)
        ]
        assert asked == ["one", "two", "three"]
        assert served.home.places.session(served.home.key("main")).transcript.exists()
        assert len(list(served.home.places.sessions())) == 1


async def test_what_nobody_here_heard_before_gets_a_session_of_its_own(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served, openai(served) as client:
        past = [said("user", "Where is the zebra?"), said("assistant", "In the attic.")]
        raw = await client.chat.completions.with_raw_response.create(
            model="default",
            messages=[*past, said("user", "Still?")],  # type: ignore[list-item]
        )
        name = raw.headers["x-mindstone-session"]
        assert name.startswith("agent:default:api-")
        past += [said("user", "Still?"), said("assistant", "Port 8443.")]
        again = await client.chat.completions.with_raw_response.create(
            model="default",
            messages=[*past, said("user", "Sure?")],  # type: ignore[list-item]
        )
        assert again.headers["x-mindstone-session"] == name
        assert len(served.kinds(name, "user_message")) == 3
        found = mindstone_tui.recall("zebra in the attic", session="main", scope="all", home=home)
        assert found.hits[0].session == name
        check_history(served.places(name))


async def test_a_session_is_named_by_header_by_user_or_by_the_response_before(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path) as served:
        async with openai(served, **{"x-mindstone-session": "work"}) as client:
            await complete(client, said("user", "by header"))
        async with openai(served) as client:
            await complete(client, said("user", "by user"), user="ann")
            first = await client.responses.create(
                model="default", input="begin", extra_headers={"x-mindstone-session": "thread"}
            )
            await client.responses.create(
                model="default", input="go on", previous_response_id=first.id
            )
            with refused() as wrong:
                await client.responses.create(
                    model="default", input="go on", previous_response_id="resp_nonsense"
                )
            assert wrong.value.status_code == 400
        turns = {
            each.key.main: len(served.kinds(str(each.key), "user_message"))
            for each in served.home.places.sessions()
        }
        assert turns == {"work": 1, "ann": 1, "thread": 2}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.neighbour("openai", "talk")
@pytest.mark.neighbour("anthropic", "talk")
async def test_tools_of_the_client_run_there_and_are_recorded_whole(
    home: Path, tmp_path: Path, stream: bool
) -> None:
    wanted = (("weather", {"place": "Bern"}), ("weather", {"place": "Ulm"}))
    long = "rain " * 20_000
    async with residing(home, tmp_path, calls(*wanted), {"text": "It rains."}) as served:
        async with openai(served) as client:
            messages: list[Any] = [said("user", "Which weather?")]
            if stream:
                flow = await complete(client, *messages, tools=[WEATHER], stream=True)
                asked = [
                    call
                    async for chunk in flow
                    for choice in chunk.choices
                    for call in choice.delta.tool_calls or ()
                ]
            else:
                reply = await complete(client, *messages, tools=[WEATHER])
                assert reply.choices[0].finish_reason == "tool_calls"
                asked = reply.choices[0].message.tool_calls
            assert [call.function.arguments for call in asked] == [
                '{"place":"Bern"}',
                '{"place":"Ulm"}',
            ]
            messages.append(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {
                                "name": call.function.name,
                                "arguments": call.function.arguments,
                            },
                        }
                        for call in asked
                    ],
                }
            )
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": text}
                for call, text in zip(asked, (long, "sun"), strict=True)
            ]
            reply = await complete(client, *messages, tools=[WEATHER])
            assert reply.choices[0].message.content == "It rains."
            messages += [said("assistant", "It rains."), said("user", "Thanks")]
            await complete(client, *messages, tools=[WEATHER])
        kinds = served.kinds("main", "turn_started", "tool_returned", "turn_ended")
        assert kinds[:4] == ["turn_started", "tool_returned", "tool_returned", "turn_ended"]
        assert served.kinds("main", "user_message") == ["user_message"] * 2
        with History(served.places()) as history:
            texts = [
                history.whole(line).entry.text  # type: ignore[union-attr]
                for line in history.read()
                if isinstance(line, Line) and line.kind == "tool_returned"
            ]
        assert texts == [long, "sun"]
        check_history(served.places())


async def test_a_failing_model_is_told_with_a_status_and_recorded(
    home: Path, tmp_path: Path
) -> None:
    async with residing(home, tmp_path, {"error": "the server is on fire"}) as served:
        async with openai(served) as client:
            for stream in (False, True):
                with refused("on fire") as failed:
                    await complete(client, said("user", "hello"), stream=stream)
                assert failed.value.status_code == 502
            with refused() as wrong:
                await client.chat.completions.create(model="default", messages=[])
            assert wrong.value.status_code == 400
        check_history(served.places())


@pytest.mark.thorough
async def test_clients_and_the_app_share_one_session_one_turn_at_a_time(
    home: Path, tmp_path: Path
) -> None:
    clients, rounds = 8, TURNS // 8
    async with residing(home, tmp_path, {"text": "Noted."}) as served:

        async def talk(number: int) -> None:
            async with openai(served) as client:
                past: list[Any] = []
                for turn in range(rounds):
                    past.append(said("user", f"client {number} says {turn}"))
                    reply = await complete(client, *past, stream=bool(number % 2))
                    if number % 2:
                        text = "".join(
                            [c.choices[0].delta.content or "" async for c in reply if c.choices]
                        )
                    else:
                        text = reply.choices[0].message.content
                    assert text == "Noted."
                    past.append(said("assistant", text))

        async def watch() -> None:
            async with mindstone_tui.open(session="main", home=home) as app:
                for turn in range(rounds):
                    async for event in app.ask(f"the app says {turn}"):
                        if isinstance(event, events.TurnEnded):
                            assert event.ending == "done"

        async with asyncio.timeout(max(PATIENCE, TURNS * 3)):
            await asyncio.gather(*(talk(number) for number in range(clients)), watch())
        asked = [
            line.entry.text  # type: ignore[union-attr]
            for line in mindstone_tui.log(session="main", kinds=["user_message"], home=home)
        ]
        expected = {f"client {n} says {t}" for n in range(clients) for t in range(rounds)}
        assert sorted(asked) == sorted({*expected, *(f"the app says {t}" for t in range(rounds))})
        assert [each.key.main for each in served.home.places.sessions()] == ["main"]
        check_history(served.places())


def test_what_a_client_brings_is_bounded_by_its_kind() -> None:
    wordy = {"type": "function", "function": {"name": "a", "description": "d" * 3_000_000}}
    with pytest.raises(UsageError, match="bytes"):
        wire.few_enough([wordy])
    with pytest.raises(UsageError, match="tools"):
        wire.few_enough([{}] * 1_001)
    for stop in (["x"] * 65, ["x" * 20_000]):
        with pytest.raises(UsageError, match="`stop` may hold"):
            wire.stops({"stop": stop}, "stop")
    assert wire.stops({"stop": ["\n", "END"]}, "stop") == ("\n", "END")
    with pytest.raises(UsageError, match="Instructions may have 10 "):
        wire.bounded("x" * 11, "Instructions", 10)


def test_unknown_messages_become_exchanges_in_which_every_call_has_a_result() -> None:
    call = ToolCall(id="c1", name="look", arguments="{}")
    (first, second) = exchanges(
        [
            ClientMessage(role="user", text="one"),
            ClientMessage(role="assistant", text="", calls=(call,)),
            ClientMessage(role="user", text="two"),
            ClientMessage(role="assistant", text="done"),
        ]
    )
    assert [entry.kind for entry in first.answers] == ["assistant_message", "tool_returned"]
    assert [entry.kind for entry in second.answers] == ["assistant_message"]


async def test_a_client_that_names_its_folder_goes_on_in_the_last_session_of_its_project(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINDSTONE_SESSION__DEFAULT")
    inside = tmp_path / "Ice API" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "Ice API" / ".git").mkdir()
    async with residing(home, tmp_path) as served, served.client() as client:

        async def session_in(folder: str) -> str:
            reply = await client.post(
                "/v1/chat/completions",
                json={"model": "default", "messages": [said("user", "port?")]},
                headers={"x-mindstone-folder": folder},
            )
            assert reply.status_code == 200, reply.text
            return str(reply.headers["x-mindstone-session"])

        assert await session_in(str(inside)) == "agent:default:ice-api"
        other = await api.connect("other", home=home, cwd=inside.parent, model="local/guide")
        assert [each async for each in other.ask("hi")]
        await other.close()
        assert await session_in(str(inside)) == "agent:default:other"
        assert await session_in("") == "agent:default:main"
        nowhere = await client.post(
            "/v1/chat/completions",
            json={"model": "default", "messages": [said("user", "port?")]},
            headers={"x-mindstone-folder": "not/absolute"},
        )
        assert nowhere.status_code == 400
        assert "not/absolute" in nowhere.text
