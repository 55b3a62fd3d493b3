"""A model on this machine streams from its child, cannot make a malformed call, stops at once,
survives its child's death once, and leaves no process behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.errors import ContextTooLong, ProviderRefused, ProviderUnreachable
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import weights
from mindstone_tui.core.providers.base import Finished, Options, TextPart
from mindstone_tui.core.providers.local_evidence import NOTHING_SAYS_SO
from mindstone_tui.core.providers.local_models import (
    LocalModel,
    find,
    path_of,
)
from mindstone_tui.core.providers.local_prompt import (
    AnswerReader,
    RepetitionWatch,
    body_of,
    is_loop,
    reply_schema,
    tool_text,
)
from mindstone_tui.core.providers.local_provider import (
    LocalProvider,
    why_not,
)
from tests.core.providers.requests import Broken, hear, request, tool

QWEN_CODER_15 = find("qwen-coder-1.5b")
SMOLLM2 = find("smollm2")
CHILD = """
import json, os, sys, time
number = 0
def say(**message): print(json.dumps({"id": number, **message}), flush=True)
def chunk(finish=None, **delta): say(chunk={"choices": [{"delta": delta, "finish_reason": finish}]})
%s
for line in sys.stdin:
    asked = json.loads(line)
    if "stop" in asked: continue
    number, asked = asked["id"], asked["body"]
    schema = asked.get("response_format")
    last = asked["messages"][-1]["content"]
    %s
    say(done=True, memory=12345)
"""
READY = "print(json.dumps({'ready': True, 'window': 4321}), flush=True)"
NORMAL = 'chunk(content=f"{os.getpid()} "); chunk(content="ok"); chunk("stop")'
BLOCK = (
    '<data-0123456789abcdef origin="recall">\n[main #2 · turn 1]\nThe boat is Nereid.\n\n'
    "[main #9 · turn 4]\nIt rained.\n</data-0123456789abcdef>"
)
READ = tool("read", "path")
LONG = " ".join(f"word {number} of Calypso" for number in range(40))

Make = Callable[..., LocalProvider]


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


@pytest.fixture
async def make(tmp_path: Path, places: Places) -> AsyncIterator[Make]:
    made: list[LocalProvider] = []

    def one(answer: str = NORMAL, start: str = READY, model: LocalModel = SMOLLM2) -> LocalProvider:
        script = tmp_path / "child.py"
        script.write_text(CHILD % (start, answer))
        command = (sys.executable, "-S", "-E", str(script))
        environ = {"PATH": os.defpath, "OPENAI_API_KEY": "sk-secret"}
        provider = LocalProvider(
            model, places, ModelSettings(), environ, command=command, missing=lambda *_: ""
        )
        made.append(provider)
        return provider

    yield one
    for provider in made:
        await provider.close()


def ask(text: str = "hi", **fields: Any) -> Any:
    return request(text, model="local/x", **fields)


async def test_it_answers_from_one_child_again_and_again(make: Make) -> None:
    provider = make()
    first, second = await hear(provider, ask()), await hear(provider, ask())
    assert first.text.endswith("ok")
    assert first.text == second.text
    assert first.finished is not None
    assert first.finished.reason == "stop"
    assert provider.process.memory == 12345


async def test_the_window_is_the_one_its_process_runs_with(make: Make) -> None:
    provider = make()
    await hear(provider, ask())
    window = provider.info("local/x").window
    assert window is not None
    assert (window.tokens, window.label) == (4321, "measured")


async def test_the_smallest_is_never_given_tools_and_always_a_system_prompt(make: Make) -> None:
    echo = 'chunk(content=json.dumps([schema, asked])); chunk("stop")'
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    asked = request(
        "go",
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "the file"},
        tools=(READ,),
    )
    schema, body = json.loads((await hear(make(echo), asked)).text)
    assert schema is None
    assert "tools" not in body
    assert body["messages"][0]["role"] == "system"
    assert body["max_tokens"] == SMOLLM2.max_output


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("The boat is Nereid.", "The boat is Nereid."),
        ("The boat is Calypso.", "I don't know, nothing I have says so."),
        (LONG, LONG),
    ],
    ids=["said", "invented", "too long to be looked up"],
)
async def test_an_answer_that_the_notes_do_not_bear_out_is_not_shown(
    make: Make, said: str, shown: str
) -> None:
    provider = make(
        f'for word in {said!r}.split(" "): chunk(content=word + " ")\n    chunk("stop")'
    )
    asked = request("What is the boat called?", {"role": "user", "content": BLOCK}, model="local/x")
    assert (await hear(provider, asked)).text.strip() == shown.strip()


@pytest.mark.parametrize(("speaks", "shown"), [("yes", True), ("no", False)])
async def test_what_no_note_names_is_asked_about_before_an_answer_is_shown(
    make: Make, speaks: str, shown: bool
) -> None:
    """Notes may call a thing otherwise: the model itself is asked whether they do."""
    reply = {"tool": "answer", "text": "It is called Nereid."}
    answer = f"""
    if "Do the notes speak of the ship?" in last: chunk(content='{{"they_do":"{speaks}"}}')
    else: chunk(content={json.dumps(reply)!r})
    chunk("stop")"""
    provider = make(answer.strip(), model=QWEN_CODER_15)
    asked = request("What is the ship called?", BLOCK, tools=(READ,))
    said = (await hear(provider, asked)).text
    assert said == ("It is called Nereid." if shown else NOTHING_SAYS_SO)


async def test_what_the_window_says_counts_as_much_as_the_notes(make: Make) -> None:
    """Recall brings what it found, and the answer may stand in the conversation."""
    provider = make('chunk(content="It is called Calypso."); chunk("stop")')
    asked = request(
        "My dinghy is called Calypso.",
        {"role": "assistant", "content": "A fine name."},
        {"role": "user", "content": "What is the dinghy called?"},
        {"role": "user", "content": BLOCK},
        model="local/x",
    )
    assert (await hear(provider, asked)).text == "It is called Calypso."


async def test_recalled_notes_stand_before_the_question(make: Make) -> None:
    """As many as a model can make use of."""
    echo = 'chunk(content=last); chunk("stop")'
    asked = request("What is the boat called?", BLOCK)
    said = (await hear(make(echo), asked)).text
    assert said.endswith("- The boat is Nereid.\n\nQuestion: What is the boat called?")
    echo = 'chunk(content=json.dumps({"tool": "answer", "text": last})); chunk("stop")'
    both = request("What is the boat called?", BLOCK, tools=(READ,))
    said = (await hear(make(echo, model=QWEN_CODER_15), both)).text
    assert "- The boat is Nereid.\n- It rained.\n\nQuestion: What" in said


async def test_an_answer_under_the_schema_is_streamed_as_plain_text(make: Make) -> None:
    pieces = [
        '{"tool":"ans',
        'wer","text":"Say \\',
        '"hi\\" \\u00',
        "e9\\nwith \\ud83d",
        '\\ude00."}',
    ]
    answer = "".join(f"chunk(content={piece!r}); " for piece in pieces) + 'chunk("stop")'
    heard = await hear(make(answer, model=QWEN_CODER_15), ask(tools=(READ,)))
    assert heard.text == 'Say "hi" é\nwith 😀.'
    assert len(heard.pieces) > 2
    assert heard.calls == ()


async def test_a_call_under_the_schema_is_a_call_and_comes_back_in_the_same_form(
    make: Make,
) -> None:
    written = '{"tool":"read","path":"a.txt"}'
    answer = (
        f"chunk(content={written!r} if 'Result' not in last else json.dumps({{'tool': 'answer', "
        "'text': json.dumps(asked['messages'])})); chunk('stop')"
    )
    provider = make(answer, model=QWEN_CODER_15)
    heard = await hear(provider, ask("show a.txt", tools=(READ,)))
    assert heard.text == ""
    assert heard.finished is not None
    assert heard.finished.reason == "tool_calls"
    (call,) = heard.calls
    assert (call.name, json.loads(call.arguments)) == ("read", {"path": "a.txt"})
    function = {"name": call.name, "arguments": call.arguments}
    again = request(
        "show a.txt",
        {"role": "assistant", "content": "", "tool_calls": [{"id": call.id, "function": function}]},
        {"role": "tool", "tool_call_id": call.id, "content": "the file"},
        tools=(READ,),
    )
    messages = json.loads((await hear(provider, again)).text)
    assert messages[-2] == {"role": "assistant", "content": written}
    assert messages[-1]["content"] == f"Result of {written}: the file"


def test_the_schema_allows_an_answer_or_exactly_one_call() -> None:
    tools = [READ, tool("shell", "command", seconds={"type": "number"})]
    choices = reply_schema(tools)["anyOf"]
    assert [list(each["properties"]) for each in choices] == [
        ["tool", "path"],
        ["tool", "command"],
        ["tool", "text"],
    ]
    assert [each["properties"]["tool"]["const"] for each in choices] == ["read", "shell", "answer"]
    assert all(each["additionalProperties"] is False for each in choices)
    assert all(each["required"] == list(each["properties"]) for each in choices)
    assert '-> {"tool":"shell","command":"git diff"}' in tool_text(tools)


TOOLS = (READ, tool("shell", "command"))
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "function": {"name": "read", "arguments": '{"path": "a"}'}}],
}
CAME = {"role": "tool", "tool_call_id": "a", "content": "port = 80"}


@pytest.mark.parametrize(
    ("messages", "offered"),
    [
        (("Show me a.txt",), ["read", "shell", "answer"]),
        (("What is the boat called?", BLOCK), ["answer"]),
        (("Show me the file about the boat", BLOCK), ["read", "shell", "answer"]),
        (("What is the port in a?", CALLED, CAME), ["shell", "answer"]),
        (("Read a and b", CALLED, CAME), ["read", "shell", "answer"]),
        (("Read a and b", CALLED, CAME, CALLED, CAME), ["shell", "answer"]),
        (("My boat is called Nereid.",), ["answer"]),
        (("I want to see the boat.",), ["read", "shell", "answer"]),
        (("My boat stands in boats.txt.",), ["read", "shell", "answer"]),
    ],
    ids=[
        "a request",
        "a question with notes",
        "a file",
        "a result",
        "one of two results",
        "the same twice",
        "something told",
        "a wish",
        "something told of a file",
    ],
)
def test_a_small_model_may_choose_only_what_makes_sense(
    messages: tuple[Any, ...], offered: list[str]
) -> None:
    """While its prompt stays the same, so that what was read of it stays cached."""
    body = body_of(request(*messages, tools=TOOLS), Options(max_tokens=9), QWEN_CODER_15)
    choices = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [each["properties"]["tool"]["const"] for each in choices] == offered
    assert body["messages"][0]["content"].endswith(tool_text(TOOLS))


async def test_a_side_call_gets_plain_words_without_tools(make: Make) -> None:
    echo = 'chunk(content=json.dumps([schema, asked["messages"][0]])); chunk("stop")'
    heard = await hear(
        make(echo, model=QWEN_CODER_15),
        ask(tools=(READ,)),
        Options(max_tokens=9, purpose="summary"),
    )
    schema, head = json.loads(heard.text)
    assert schema is None
    assert "JSON" not in head["content"]


async def test_repetition_is_stopped_and_said(make: Make) -> None:
    """And the child that was stopped answers the next request."""
    endless = (
        "[chunk(content='It is Adios. ') for _ in range(400)] if last == 'loop' else "
        "chunk(content='fine'); chunk('stop')"
    )
    provider = make(endless)
    heard = await hear(provider, ask("loop"))
    assert heard.finished is not None
    assert heard.finished.reason == "repetition"
    assert len(heard.text) < 300
    assert (await hear(provider, ask())).text == "fine"


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("yes " * 40, True),
        ("First. " + "The name is Ada, and so on.\n" * 4, True),
        ("First. " + "a long refrain that says nothing new at all, " * 2, False),
        ("| --- | --- |\n" + "-" * 200, False),
        ("=" * 700, True),
        ("for i in range(10):\n    print(i)\n" * 2, False),
        ("one two three four five six seven eight nine ten eleven twelve thirteen", False),
        ("", False),
    ],
    ids=range(8),
)
def test_a_circle_is_told_from_a_list(text: str, loops: bool) -> None:
    assert is_loop(text) is loops
    watch = RepetitionWatch()
    assert (True in [watch.feed(sign) for sign in text]) is loops


def test_an_answer_may_arrive_in_any_pieces() -> None:
    whole = json.dumps(
        {"tool": "answer", "text": 'tab\there "quoted" \\ ünï 😀 \x07'}, ensure_ascii=True
    )
    for size in (1, 2, 3, 7, 100):
        reader = AnswerReader()
        said = "".join(reader.feed(whole[at : at + size]) for at in range(0, len(whole), size))
        assert said == 'tab\there "quoted" \\ ünï 😀 \x07'


async def test_keys_stay_out_of_its_environment(make: Make) -> None:
    heard = await hear(make('chunk(content=repr(dict(os.environ))); chunk("stop")'), ask())
    assert "sk-secret" not in heard.text


WAITS = f"{NORMAL}\n    if last == 'wait': assert 'stop' in sys.stdin.readline()"


async def test_an_interruption_stops_the_answer_and_keeps_the_child(make: Make) -> None:
    provider = make(WAITS)
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
    assert (await hear(provider, ask())).pieces[0] == heard[0], "the same process answers"


async def test_a_listener_who_leaves_stops_the_answer(make: Make) -> None:
    provider = make(WAITS)
    stream = provider.stream(ask("wait"), Options(max_tokens=9))
    first = await anext(stream)
    assert isinstance(first, TextPart)
    assert isinstance(stream, AsyncGenerator)
    await stream.aclose()
    assert (await hear(provider, ask())).pieces[0] == first.text


DIES = """
flag = sys.argv[1] + ".died"
first = not os.path.exists(flag)
open(flag, "a").close()
"""


async def test_a_child_that_dies_is_started_again_and_asked_once_more(
    make: Make, places: Places
) -> None:
    places.models.mkdir(parents=True)
    provider = make(f"first and os._exit(3); {NORMAL}", DIES + READY)
    heard = await hear(provider, ask())
    assert heard.text.endswith("ok")
    assert [each.attempt for each in heard.retries] == [1]


async def test_an_answer_that_broke_off_goes_on_where_it_was(make: Make, places: Places) -> None:
    """The new child is shown what was said, and nothing appears twice."""
    places.models.mkdir(parents=True)
    answer = (
        "first and (chunk(content=BEGUN), os._exit(3)); "
        "chunk(content='is Nereid.\"}' if last == BEGUN else '?'); "
        "chunk('stop')"
    )
    begun = '{"tool":"answer","text":"The boat '
    provider = make(answer, f"BEGUN = {begun!r}\n{DIES}{READY}", model=QWEN_CODER_15)
    heard = await hear(provider, ask(tools=(READ,)))
    assert heard.text == "The boat is Nereid."
    assert len(heard.retries) == 0, "nobody needs to know"


@pytest.mark.parametrize(
    ("answer", "start", "kind"),
    [
        ("os._exit(3)", READY, ProviderUnreachable),
        ("print('garbage', flush=True)", READY, ProviderUnreachable),
        ("print('x' * (2 << 20), flush=True)", READY, ProviderUnreachable),
        (NORMAL, "print(json.dumps({'error': 'no such file'}), flush=True)", ProviderUnreachable),
        (NORMAL, "sys.exit(1)", ProviderUnreachable),
        (
            "say(error='request (9 tokens) exceeds the available context size (8 tokens)')",
            READY,
            ContextTooLong,
        ),
    ],
)
async def test_whatever_goes_wrong_is_one_error(
    make: Make, answer: str, start: str, kind: type[Exception]
) -> None:
    with pytest.raises(Broken) as broken:
        await hear(make(answer, start), ask())
    assert isinstance(broken.value.error, kind)
    assert broken.value.error.remedy


async def test_silence_is_an_error(make: Make) -> None:
    with pytest.raises(Broken) as broken:
        await hear(make("time.sleep(600)"), ask(), Options(max_tokens=9, timeout=0.05))
    assert isinstance(broken.value.error, ProviderUnreachable)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_closing_leaves_no_pipe_open_even_if_somebody_below_holds_its_end(make: Make) -> None:
    before = open_files()
    provider = make(start=f"import subprocess; subprocess.Popen(['sleep', '30'])\n{READY}")
    await hear(provider, ask())
    async with asyncio.timeout(15):
        await provider.close()
    assert open_files() <= before


async def test_without_its_file_it_says_how_to_get_it(places: Places) -> None:
    assert "models add smollm2" in why_not(places, SMOLLM2, ModelSettings())
    with pytest.raises(Broken) as broken:
        await hear(LocalProvider(SMOLLM2, places, ModelSettings()), ask())
    assert isinstance(broken.value.error, ProviderRefused)


async def test_what_the_child_prints_goes_to_its_log(make: Make, places: Places) -> None:
    await hear(make(start=f"print('loading', file=sys.stderr, flush=True); {READY}"), ask())
    log = places.state / "smollm2.log"
    assert "loading" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("question", "by_guide"),
    [
        ("What is MindStone?", True),
        ("what does /prune do?", True),
        ("How do I sort my notes in Python?", False),
        ("What is the capital of France?", False),
        ("what is in /etc/hosts?", False),
        ("hello", False),
    ],
)
async def test_the_guide_answers_about_mindstone_and_hands_over_the_rest(
    make: Make, question: str, by_guide: bool
) -> None:
    heard = await hear(make(), ask(question))
    assert heard.finished is not None
    assert (heard.finished.model == "local/guide") is by_guide


@pytest.fixture
async def real(places: Places) -> AsyncIterator[LocalProvider]:
    """The smallest real model, where its file can be had."""
    if found := os.environ.get("MINDSTONE_WEIGHTS"):
        places.models.mkdir(parents=True)
        path_of(places, SMOLLM2).symlink_to(found)
    elif os.environ.get("MINDSTONE_FAULTS"):
        await weights.fetch(places, os.environ, SMOLLM2)
    if missing := why_not(places, SMOLLM2, ModelSettings()):
        pytest.skip(f"the small model is not here ({missing}); MINDSTONE_WEIGHTS may name its file")
    provider = LocalProvider(SMOLLM2, places, ModelSettings())
    yield provider
    await provider.close()


async def test_the_real_model_streams_a_conversation_and_keeps_its_prompt(
    real: LocalProvider,
) -> None:
    options = Options(max_tokens=48, timeout=120, temperature=0.0)
    first = await hear(real, ask("What is the capital of France?"), options)
    assert "Paris" in first.text
    assert len(first.pieces) > 3
    assert isinstance(first.finished, Finished)
    assert first.finished.usage.prompt is not None
    answered = {"role": "assistant", "content": first.text}
    again = request("What is the capital of France?", answered, "And of Italy?")
    second = await hear(real, again, options)
    assert second.text
    assert second.finished is not None
    assert (second.finished.usage.cached or 0) > 20, "what was read before is not read again"
    with pytest.raises(Broken) as broken:
        await hear(real, ask("word " * 9_000), options)
    assert isinstance(broken.value.error, ContextTooLong)


async def test_the_real_model_is_held_to_the_schema(real: LocalProvider) -> None:
    """Even the smallest cannot write a call wrongly, and its process takes no blanks."""
    shape = {"name": "reply", "schema": reply_schema([READ])}
    body = {
        "response_format": {"type": "json_schema", "json_schema": shape},
        "messages": [{"role": "user", "content": "Read the file notes/plan.txt with the tool."}],
        "stream": True,
        "max_tokens": 40,
        "temperature": 0.0,
    }
    reader = AnswerReader()
    async for chunk in real.process.ask(real._start(), body, 120.0):
        for choice in chunk.get("choices", ()):
            reader.feed(choice["delta"].get("content") or "")
    assert reader.is_answer or reader.call()
    assert reader.raw.startswith(('{"tool":"answer","text":"', '{"tool":"read","path":"'))
