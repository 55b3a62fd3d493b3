"""Whatever a model's server does, through litellm and the whole session: the turn ends once.

After each fault the transcript verifies, every request is rebuilt by its hash, the next request is
valid and answered, and no text came twice.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.context.messages import first_unpaired
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ModelFailed,
    ToolReturned,
)
from mindstone_tui.core.features.working_set import BROKE_OFF
from tests.core.session.stage import Stage, check_history, check_stream, on_stage
from tests.faults import FULL, sampled
from tests.loopback.faults import Fault, every_fault
from tests.loopback.server import (
    Call,
    Loopback,
    Write,
    asked,
    head,
    says,
    sends,
    serving,
    spoken,
    stream_of,
    streams,
)

OF_EACH_KIND = {
    (fault.ends, fault.text, fault.calls, fault.name if fault.tools else ""): fault
    for fault in every_fault()
}
FAULTS = tuple(every_fault()) if FULL else tuple(OF_EACH_KIND.values())
"""All that ask for tools, and of others that mean the same to a session one; else every one."""
RETRIES = 1


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with serving() as running:
        yield running


def settings(home: Path, server: Loopback, patience: float) -> None:
    """Point the session at the loopback server."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        f'[models]\nbase_url = "{server.base_url}"\nretries = {RETRIES}\ntimeout = {patience}\n'
        "[recall]\nauto = false\n"
    )


def without_waiting(stage: Stage) -> None:
    """Retries come at once."""

    async def no_pause(seconds: float) -> None:
        return

    provider = stage.session.services.context.provider
    provider.behind._pause = no_pause  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", sampled(FAULTS, 3), ids=lambda fault: fault.name)
async def test_a_fault_ends_the_turn_once_and_the_next_request_is_valid(
    home: Path, server: Loopback, fault: Fault
) -> None:
    settings(home, server, fault.patience)
    room = 1_000_000 if "huge" in fault.name else 20_000
    async with on_stage(home, model="openai/m", context_window=room, max_rounds=3) as stage:
        without_waiting(stage)
        await _meet(stage, server, fault)
        requests = check_history(stage.places)
        server.play(says("All is well."))
        ended = await stage.say("are you well?")
        assert (ended.ending, stage.all(events.AnswerRecorded)[-1].text) == ("done", "All is well.")
        assert len(server.calls) == 1
        body = server.calls[0].body
        assert first_unpaired(body["messages"]) is None
        broken = any(isinstance(line.entry, AssistantPartial) for line in stage.lines())
        asked = f"{BROKE_OFF}\n\nare you well?" if broken else "are you well?"
        assert body["messages"][-1] == {"role": "user", "content": asked}
        assert "sk-" not in stage.places.transcript.read_text()
    assert check_history(stage.places) == requests + 1


async def _meet(stage: Stage, server: Loopback, fault: Fault) -> None:
    """One turn that meets the fault, and what must be true after it."""
    server.play(*fault.acts, *([says("Thank you.")] if fault.tools and fault.ends is None else []))
    ended = await stage.say("hello")
    check_stream(stage.heard)
    sent = [call.body for call in server.calls if call.raw]
    assert all(first_unpaired(body["messages"]) is None for body in sent)
    calls = stage.all(events.ModelCalled)
    retried = stage.all(events.ModelRetried)
    assert len(server.calls) <= (len(calls) + len(retried)) * 2 or not fault.calls
    assert len(retried) <= RETRIES * len(calls)
    said = "".join(entry.text for entry in stage.entries(AssistantMessage))
    broken = "".join(entry.text for entry in stage.entries(AssistantPartial))
    if fault.ends is None:
        assert ended.ending == "done", ended.why
        assert stage.streamed == fault.text + ("Thank you." if fault.tools else "")
        assert said == stage.streamed.replace("\x00", "␀")
        results = stage.entries(ToolReturned)
        assert len(results) == fault.tools
        assert len({result.call for result in results}) == fault.tools
    else:
        assert ended.ending == "failed"
        assert ended.why
        assert ended.remedy
        assert stage.streamed == fault.text == broken
        assert not said
        assert stage.entries(ModelFailed)


async def test_a_call_larger_than_the_window_ends_the_turn_and_not_the_session(
    home: Path, server: Loopback
) -> None:
    settings(home, server, 20.0)
    huge = next(fault for fault in every_fault() if "huge arguments" in fault.name)
    async with on_stage(home, model="openai/m", context_window=20_000) as stage:
        server.play(*huge.acts)
        ended = await stage.say("write a novel")
        assert ended.ending == "failed"
        assert "leaves 15,904" in ended.why
        server.play(says("A short one."))
        assert (await stage.say("something shorter, then")).ending == "done"


@pytest.mark.thorough
async def test_a_prompt_that_is_too_long_is_made_smaller_until_it_is_not(
    home: Path, server: Loopback
) -> None:
    settings(home, server, 20.0)
    too_long = next(fault for fault in every_fault() if fault.name == "too long, says OpenAI")
    async with on_stage(home, model="openai/m", context_window=200_000) as stage:
        server.play(says("Noted."))
        for number in range(14):
            await stage.say(f"fact {number}: " + "words that take room " * 60)
        whole = len(server.calls[-1].body["messages"])
        server.play(too_long.acts[0], says("Now it fits."))
        ended = await stage.say("what was fact 3?")
        assert ended.ending == "done", ended.why
        assert len(server.calls) == 2
        assert len(server.calls[1].body["messages"]) < len(server.calls[0].body["messages"])
        assert len(server.calls[0].body["messages"]) > whole
        server.play(says("Still fits."))
        await stage.say("and fact 4?")
        assert len(server.calls) == 1, "what was learned about the window is used again"
        assert stage.all(events.WindowPruned)


async def test_a_model_that_numbers_its_calls_anew_in_each_answer_is_understood(
    home: Path, tmp_path: Path, server: Loopback
) -> None:
    settings(home, server, 20.0)
    (tmp_path / "a.txt").write_text("first")
    again = streams(asked(("call_0", "read", '{"path":"a.txt"}')))
    server.play(again, again, says("Done."))
    async with on_stage(home, model="openai/m", context_window=32_768) as stage:
        ended = await stage.say("read it twice")
        assert ended.ending == "done", ended.why
        messages = server.calls[-1].body["messages"]
    ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(ids) == len(set(ids)) == 2
    assert not [line for line in stage.lines() if line.kind == "window_repaired"]


async def test_a_stream_cut_anywhere_is_kept_as_far_as_it_was_heard(
    home: Path, server: Loopback
) -> None:
    settings(home, server, 20.0)
    body = stream_of(spoken("Streams break, words stay whole."))
    async with on_stage(home, model="openai/m", context_window=32_768, max_rounds=2) as stage:
        without_waiting(stage)
        for cut in range(40, len(body), 173):
            server.play(sends(head() + body[:cut]), sends(head() + body[:cut]))
            here = len(stage.heard)
            await stage.say("go on")
            heard = "".join(
                event.text for event in stage.heard[here:] if isinstance(event, events.TextDelta)
            )
            kept = [e for e in stage.heard[here:] if isinstance(e, events.AnswerRecorded)]
            assert heard == "".join(event.text for event in kept)
            assert "Streams break, words stay whole.".startswith(heard)
        server.play(says("Whole."))
        assert (await stage.say("and now?")).ending == "done"


async def test_the_window_that_a_server_runs_with_is_the_one_that_is_planned_for(
    home: Path, server: Loopback
) -> None:
    async def act(call: Call, write: Write) -> None:
        pages = {
            "/v1/models": {"data": [{"id": "own-model"}]},
            "/props": {"default_generation_settings": {"n_ctx": 12_288}},
        }
        if call.path in pages:
            await write(head(kind="application/json") + json.dumps(pages[call.path]).encode())
        else:
            await says("Good.")(call, write)

    server.play(act)
    settings(home, server, 20)
    async with on_stage(home, model="openai/own-model") as stage:
        assert (await stage.say("hello")).ending == "done"
        report = stage.all(events.ContextReported)[-1].report
        assert (report.window.tokens, report.window.label) == (12_288, "measured")
        assert (await stage.say("again")).ending == "done"
    assert [call.path for call in server.calls].count("/props") == 1
