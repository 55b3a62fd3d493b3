"""The small model streams from its child, never acts, and leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.errors import ContextTooLong, ProviderRefused, ProviderUnreachable
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import local_models, weights
from mindstone_tui.core.providers.base import Finished, Options, TextPart
from mindstone_tui.core.providers.smollm2 import SMOLLM2, SmolProvider, why_not
from tests.core.providers.requests import Broken, hear, request, tool

CHILD = """
import json, os, sys, time
def say(**message): print(json.dumps(message), flush=True)
def chunk(finish=None, **delta): say(chunk={"choices": [{"delta": delta, "finish_reason": finish}]})
%s
for line in sys.stdin:
    asked = json.loads(line)
    last = asked["messages"][-1]["content"]
    %s
    say(done=True)
"""
NORMAL = 'chunk(content=f"{os.getpid()} "); chunk(content="ok"); chunk("stop")'

Make = Callable[..., SmolProvider]


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


@pytest.fixture
async def make(tmp_path: Path, places: Places) -> AsyncIterator[Make]:
    made: list[SmolProvider] = []

    def one(answer: str = NORMAL, start: str = "say(ready=True)") -> SmolProvider:
        script = tmp_path / "child.py"
        script.write_text(CHILD % (start, answer))
        command = (sys.executable, str(script))
        environ = {"PATH": os.defpath, "OPENAI_API_KEY": "sk-secret"}
        provider = SmolProvider(places, environ, command=command, missing=lambda _: "")
        made.append(provider)
        return provider

    yield one
    for provider in made:
        await provider.close()


def ask(text: str = "hi", **fields: Any) -> Any:
    return request(text, model=SMOLLM2, **fields)


async def test_it_answers_from_one_child_again_and_again(make: Make) -> None:
    provider = make()
    first, second = await hear(provider, ask()), await hear(provider, ask())
    assert first.text.endswith("ok")
    assert first.text == second.text
    assert first.finished is not None
    assert first.finished.reason == "stop"


async def test_it_is_never_given_tools_and_always_a_system_prompt(make: Make) -> None:
    echo = 'chunk(content=json.dumps(asked)); chunk("stop")'
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    asked = request(
        "go",
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "the file"},
        model=SMOLLM2,
        tools=(tool("read", "path"),),
    )
    said = (await hear(make(echo), asked)).text
    assert '"tools"' not in said
    assert "tool_call" not in said
    assert '"role": "system"' in said
    assert "A tool answered:\\nthe file" in said


async def test_one_recalled_note_stands_before_the_question(make: Make) -> None:
    block = (
        '<data-0123456789abcdef origin="recall">\n[main #2 · turn 1]\nThe boat is Nereid.\n\n'
        "[main #9 · turn 4]\nIt rained.\n</data-0123456789abcdef>"
    )
    asked = request("What is the boat called?", block, model=SMOLLM2)
    said = (await hear(make('chunk(content=last); chunk("stop")'), asked)).text
    assert said == "Note: The boat is Nereid.\n\nWhat is the boat called?"


async def test_a_tool_call_it_makes_up_is_not_passed_on(make: Make) -> None:
    calls = 'chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "x"}}]); chunk("stop")'
    assert (await hear(make(calls), ask())).calls == ()


async def test_keys_stay_out_of_its_environment(make: Make) -> None:
    heard = await hear(make('chunk(content=repr(dict(os.environ))); chunk("stop")'), ask())
    assert "sk-secret" not in heard.text


async def test_an_interruption_ends_the_child_and_the_next_request_starts_another(
    make: Make,
) -> None:
    provider = make(f'{NORMAL}; last == "wait" and time.sleep(600)')
    heard: list[str] = []
    spoke = asyncio.Event()

    async def listen() -> None:
        async for delta in provider.stream(ask("wait"), Options(max_tokens=9)):
            if isinstance(delta, TextPart):
                heard.append(delta.text)
                spoke.set()

    task = asyncio.ensure_future(listen())
    await spoke.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(heard[0]), 0)
    assert (await hear(provider, ask())).pieces[0] != heard[0]


async def test_a_listener_who_leaves_ends_the_child(make: Make) -> None:
    provider = make()
    stream = provider.stream(ask(), Options(max_tokens=9))
    first = await anext(stream)
    assert isinstance(first, TextPart)
    assert isinstance(stream, AsyncGenerator)
    await stream.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(int(first.text), 0)


@pytest.mark.parametrize(
    ("answer", "start", "kind"),
    [
        ("sys.exit(3)", "say(ready=True)", ProviderUnreachable),
        ("print('garbage', flush=True)", "say(ready=True)", ProviderUnreachable),
        ("print('x' * (2 << 20), flush=True)", "say(ready=True)", ProviderUnreachable),
        (NORMAL, "say(error='no such file')", ProviderUnreachable),
        (NORMAL, "sys.exit(1)", ProviderUnreachable),
        (
            "say(error='request (9 tokens) exceeds the available context size (8 tokens)')",
            "say(ready=True)",
            ContextTooLong,
        ),
    ],
)
async def test_whatever_goes_wrong_is_one_error(
    make: Make, answer: str, start: str, kind: type[Exception]
) -> None:
    with pytest.raises(Broken) as broken:
        await hear(make(answer, start), ask())
    assert type(broken.value.error) is kind
    assert broken.value.error.remedy


async def test_silence_is_an_error(make: Make) -> None:
    with pytest.raises(Broken) as broken:
        await hear(make("time.sleep(600)"), ask(), Options(max_tokens=9, timeout=0.3))
    assert isinstance(broken.value.error, ProviderUnreachable)


async def test_without_its_weights_it_says_how_to_get_them(places: Places) -> None:
    assert "models add smollm2" in why_not(places)
    with pytest.raises(Broken) as broken:
        await hear(SmolProvider(places), ask())
    assert isinstance(broken.value.error, ProviderRefused)


async def test_what_the_child_prints_goes_to_its_log(make: Make, places: Places) -> None:
    await hear(make(start="print('loading', file=sys.stderr, flush=True); say(ready=True)"), ask())
    log = places.state / "smollm2.log"
    assert "loading" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.fixture
async def real(places: Places) -> AsyncIterator[SmolProvider]:
    """The real model, where its file can be had."""
    if found := os.environ.get("MINDSTONE_WEIGHTS"):
        places.models.mkdir(parents=True)
        local_models.path_of(places, local_models.SMOLLM2).symlink_to(found)
    elif os.environ.get("MINDSTONE_FAULTS"):
        await weights.fetch(places, os.environ, local_models.SMOLLM2)
    if missing := why_not(places):
        pytest.skip(f"the small model is not here ({missing}); MINDSTONE_WEIGHTS may name its file")
    provider = SmolProvider(places)
    yield provider
    await provider.close()


async def test_the_real_model_streams_a_conversation(real: SmolProvider) -> None:
    options = Options(max_tokens=48, timeout=120, temperature=0.0)
    first = await hear(real, ask("What is the capital of France?"), options)
    assert "Paris" in first.text
    assert len(first.pieces) > 3
    assert isinstance(first.finished, Finished)
    assert first.finished.usage.prompt is not None
    answered = {"role": "assistant", "content": first.text}
    again = request("What is the capital of France?", answered, "And of Italy?", model=SMOLLM2)
    second = await hear(real, again, options)
    assert second.text
    with pytest.raises(Broken) as broken:
        await hear(real, ask("word " * 9_000), options)
    assert isinstance(broken.value.error, ContextTooLong)
