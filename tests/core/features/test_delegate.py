"""A sub-agent end to end: its own window and transcript, its limits, its end, its cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import ToolAnswered, ToolReturned
from mindstone_tui.core.entries.derived import Delegated, DelegationEnded
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.events.question import explain
from mindstone_tui.core.features import delegation
from mindstone_tui.core.library.open_questions import waiting_in
from mindstone_tui.core.lockdown import import_litellm
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.recall.passages import passages_of
from tests.core.features.test_hooks import hooks, prints
from tests.core.session.stage import Stage, calls, check_history, on_stage, read, script
from tests.loopback.server import Act, Call, Loopback, Write, asked, says, serving, streams

TASK = {"task": "Find the port in settings.ini and report it.", "context": "It is an INI file."}


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    import_litellm()  # up front: a cold start on a busy machine takes longer than a test waits
    async with serving() as running:
        yield running


def settle(home: Path, server: Loopback) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        f'[models]\nbase_url = "{server.base_url}"\nretries = 0\n[recall]\nauto = false\n'
        "[context]\nwindow = 32768\n"
    )


def child_of(home: Path, stage: Stage) -> SessionPlaces:
    (handed,) = stage.entries(Delegated)
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    return places.session(SessionKey.parse(handed.child))


def delegate() -> Act:
    body = msgspec.json.encode(TASK).decode()
    return streams(asked(("call_1", "delegate", body)))


async def test_a_sub_agent_works_in_its_own_window_and_brings_a_report_back(
    home: Path, tmp_path: Path, server: Loopback
) -> None:
    settle(home, server)
    (tmp_path / "settings.ini").write_text("[net]\nport = 8137\n")
    rest = "".join(f"\n{n}. src/module_{n}.py leaks {n} handles a call" for n in range(400))
    report = f"The port is 8137, from settings.ini.{rest}"
    server.play(
        delegate(),
        streams(asked(("call_2", "read", '{"path": "settings.ini"}'))),
        says(report),
        says("It listens on 8137."),
    )
    environ = {"OPENAI_API_KEY": "sk-loopback"}
    async with on_stage(home, model="openai/served-model", environ=environ) as stage:
        ended = await stage.say("Which port does it use? Delegate it.")
        assert ended.ending == "done", ended.why
        (told,) = stage.all(events.DelegationEnded)
        assert (told.ending, told.tokens) == ("done", 210)
        (result,) = stage.entries(ToolReturned)
        assert "The port is 8137" in result.text
        assert "of 401 lines are not shown" in result.text
        (whole,) = stage.entries(DelegationEnded)
        assert whole.text == report
        labels = {plan.window_label for plan in stage.entries(PromptPlanned)}
        assert labels == {"set"}, "the settings name the window"
        assert "2 calls" in result.finding
        child = child_of(home, stage)
        found = await stage.session.services.recall.search(
            "port settings.ini", 5, "agent", memories=True
        )
        assert any(hit.passage.session == str(child.key) for hit in found.hits)
    assert len(server.calls) == 4
    first = server.calls[1].body["messages"]
    assert "Which port does it use?" not in str(first)
    assert "Find the port in settings.ini" in str(first[-1])
    names = {tool["function"]["name"] for tool in server.calls[1].body["tools"]}
    assert names == {"read", "list", "glob", "grep", "recall", "read_entry"}
    assert check_history(child) == 2
    assert [line.kind for line in read(child)].count("turn_ended") == 1


@pytest.mark.parametrize("when", ["opening", "asking"])
async def test_interrupting_the_turn_ends_the_sub_agent_too(
    home: Path, tmp_path: Path, server: Loopback, when: str
) -> None:
    settle(home, server)
    environ = {"OPENAI_API_KEY": "sk-loopback"}
    async with on_stage(home, model="openai/served-model", environ=environ) as stage:

        async def hang(call: Call, write: Write) -> None:
            stage.session.interrupt()
            await asyncio.Event().wait()

        def stop(event: events.AnyEvent) -> None:
            if isinstance(event, events.ToolStarted) and when == "opening":
                stage.session.interrupt()

        server.play(delegate(), hang)
        stage.on_event = stop
        ended = await stage.say("Delegate it.")
        assert ended.ending == "interrupted"
        (over,) = stage.entries(DelegationEnded)
        assert over.ending.startswith("interrupted")
        child = child_of(home, stage)
    kinds = [line.kind for line in read(child)]
    assert kinds.count("turn_ended") == kinds.count("turn_started") == (when == "asking")
    check_history(child)


async def test_what_a_sub_agent_cost_is_part_of_what_the_session_cost_once(
    home: Path, tmp_path: Path
) -> None:
    def priced(reply: dict[str, object], cost: float) -> dict[str, object]:
        return {**reply, "usage": {"prompt": 100, "completion": 10, "cost": cost}}

    # Each session takes the script from its top; the child is not offered `delegate` and goes on.
    model = script(
        tmp_path,
        priced(calls(("delegate", TASK)), 0.25),
        priced({"text": "The port is 8137."}, 0.5),
        priced({"text": "Thanks."}, 1.0),
    )
    async with on_stage(home, model=model) as stage:
        await stage.say("Delegate it.")
        (over,) = stage.entries(DelegationEnded)
        assert over.cost == 0.75
        _, text = await stage.run("/cost")
        assert "$1.5000, $0.7500 of it delegated" in text
        await stage.say("And now?")
        report = stage.session.services.context.report()
        assert (report.cost, report.cost_delegated) == (2.5, 0.75)
    async with on_stage(home, model=model) as stage:
        report = stage.session.services.context.report()
        assert (report.cost, report.cost_delegated) == (2.5, 0.75)


async def test_a_sub_agent_that_uses_up_its_limit_is_stopped_and_says_so(
    home: Path, tmp_path: Path
) -> None:
    costly = calls(("list", {"path": "."}), usage={"prompt": 70_000, "completion": 10})
    model = script(tmp_path, calls(("delegate", TASK)), costly, costly, {"text": "never"})
    async with on_stage(home, model=model) as stage:
        await stage.say("Delegate it.")
        (over,) = stage.entries(DelegationEnded)
        assert over.ending.startswith("stopped: it used")
        assert over.tokens >= delegation.DelegationLimits().tokens
        child = child_of(home, stage)
    check_history(child)
    kinds = [line.kind for line in read(child)]
    assert kinds.count("turn_started") == kinds.count("turn_ended") == 1
    said = {one.speaker for one in passages_of(read(child)) if one.role == "user"}
    assert said == {"delegating agent"}, "no person said that"


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_a_sub_agent_may_not_do_unasked_is_asked_where_its_parent_is_used(
    allowed: bool, home: Path, tmp_path: Path, server: Loopback
) -> None:
    settle(home, server)
    (tmp_path / "settings.ini").write_text("[net]\nport = 8137\n")
    wish = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    hooks(home, PreToolUse=("read", prints(tmp_path, "ask", {"hookSpecificOutput": wish})))
    server.play(
        delegate(),
        streams(asked(("call_2", "read", '{"path": "settings.ini"}'))),
        says("The port is known."),
        says("Done."),
    )
    more: dict[str, Any] = {"model": "openai/served-model", "cwd": tmp_path, "asks": True}
    environ = {"OPENAI_API_KEY": "sk-loopback"}
    async with on_stage(home, environ=environ, **more) as stage:
        stage.session.send("Which port does it use? Delegate it.")
        question = await stage.until(events.ToolAsked)
        assert "asked by the helper 'Find the port in settings.ini" in explain(question).heading
        (waits,) = waiting_in(Places.resolve({"MINDSTONE_HOME": str(home)}), stage.places)
        assert "The helper 'Find the port" in waits.sentence(datetime.now(UTC))
        stage.session.answer(question.call, events.Answer(allowed=allowed, why="not this file"))
        assert (await stage.until(events.TurnEnded)).ending == "done"
        child = child_of(home, stage)
    gave = [line.entry.text for line in read(child) if isinstance(line.entry, ToolReturned)]
    assert ["8137" in text for text in gave] == [allowed]
    assert ["not this file" in text for text in gave] == [not allowed]
    assert "tool_asked" not in [line.kind for line in read(child)], "it is asked in one place"
    check_history(stage.places)


async def test_a_sub_agent_whose_parent_is_stopped_takes_its_question_back(
    home: Path, tmp_path: Path, server: Loopback
) -> None:
    settle(home, server)
    wish = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    hooks(home, PreToolUse=("list", prints(tmp_path, "ask", {"hookSpecificOutput": wish})))
    server.play(delegate(), streams(asked(("call_2", "list", "{}"))))
    more: dict[str, Any] = {"model": "openai/served-model", "cwd": tmp_path, "asks": True}
    async with on_stage(home, environ={"OPENAI_API_KEY": "sk-loopback"}, **more) as stage:
        stage.session.send("Look around. Delegate it.")
        await stage.until(events.ToolAsked)
        stage.session.interrupt()
        assert (await stage.until(events.TurnEnded)).ending == "interrupted"
    assert waiting_in(Places.resolve({"MINDSTONE_HOME": str(home)}), stage.places) == []
    (taken_back,) = stage.entries(ToolAnswered)
    assert (taken_back.allowed, taken_back.why) == (False, "The sub-agent was stopped.")
