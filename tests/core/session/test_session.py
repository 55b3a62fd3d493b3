"""The stream of a session: verbs in, one ordered stream out, each turn with exactly one end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries import conversation as said
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import PlanChanged
from mindstone_tui.core.entries.store import CommandRun
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events.narrate import describe
from mindstone_tui.core.events.narrate_entry import of_entry
from mindstone_tui.core.providers.guide import GUIDE
from mindstone_tui.core.session.features import known_commands
from mindstone_tui.core.tools.base import ToolResult
from tests.core.session.stage import Stage, calls, check_history, on_stage, script

SLOW = {"text": "and so on " * 60, "delay_ms": 60_000}


def offer(
    stage: Stage,
    name: str,
    run: Callable[[Any, Any], Awaitable[ToolResult]],
    like: str = "list",
) -> None:
    """Give the model one more tool, which only looks unless it is like one that does more."""
    services = stage.session.services
    model = services.tools.all[like]
    services.context.tools[name] = msgspec.structs.replace(model, name=name, run=run)


async def streaming(stage: Stage) -> None:
    """Wait until words of an answer have been heard."""
    await stage.until(events.TextDelta)


async def test_the_events_of_a_turn_come_in_order_and_it_ends_once(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("the answer is 42")
    model = script(tmp_path, calls(("read", {"path": "a.txt"}), text="Looking."), {"text": "42."})
    async with on_stage(home, model=model, context_window=200_000) as stage:
        ended = await stage.say("what does a.txt say?")
    names = [name for event in stage.heard if (name := event.tag) != "context_reported"]
    assert names == [
        "session_ready",
        "turn_started",
        "model_called",
        "text_delta",
        "answer_recorded",
        "usage_reported",
        "tool_started",
        "tool_ended",
        "model_called",
        "text_delta",
        "answer_recorded",
        "usage_reported",
        "turn_ended",
        "session_closed",
    ]
    assert (ended.ending, ended.calls, ended.tools) == ("done", 2, 1)
    result = stage.requests()[-1][-1]
    assert result["role"] == "tool"
    assert "the answer is 42" in result["content"]


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ("read", [("assistant_message", ""), ("tool_called", "read-only tool")]),
        ("write", [("tool_called", ""), ("tool_approved", "")]),
    ],
)
async def test_intent_and_approval_are_on_disk_before_a_tool_runs(
    home: Path, tmp_path: Path, like: str, expected: list[tuple[str, str]]
) -> None:
    seen: list[list[tuple[str, str]]] = []

    async def spy(arguments: object, context: object) -> ToolResult:
        lines = stage.lines()[-2:]
        seen.append([(line.kind, getattr(line.entry, "approved", "")) for line in lines])
        return ToolResult(text="done", finding="done")

    given = {"path": "a.txt", "content": "a"} if like == "write" else {"path": "a.txt"}
    model = script(tmp_path, calls(("spy", given)), {"text": "ok"})
    async with on_stage(home, model=model, approve="auto-edit") as stage:
        offer(stage, "spy", spy, like=like)
        await stage.say("look")
    assert seen == [expected]


async def test_a_message_during_a_turn_is_queued_on_disk_and_has_its_own_turn(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "a b c", "delay_ms": 300}, {"text": "second"})
    async with on_stage(home, model=model) as stage:
        stage.session.send("first question")
        await streaming(stage)
        stage.session.send("second question")
        queued = await stage.until(events.MessageQueued)
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)
    messages = [line for line in stage.lines() if isinstance(line.entry, UserMessage)]
    assert [getattr(line.entry, "text", "") for line in messages] == [
        "first question",
        "second question",
    ]
    assert getattr(messages[1].entry, "queued", "") == queued.entry
    assert [entry.origin for entry in stage.entries(said.TurnStarted)] == ["message", "queued"]
    assert [event.queued for event in stage.all(events.TurnStarted)] == ["", queued.entry]


async def test_a_withdrawn_message_never_has_a_turn(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "a b c", "delay_ms": 300}, {"text": "never"})
    async with on_stage(home, model=model) as stage:
        stage.session.send("keep")
        await streaming(stage)
        stage.session.send("take me back")
        queued = await stage.until(events.MessageQueued)
        stage.session.withdraw(queued.entry)
        await stage.until(events.MessageWithdrawn)
        await stage.until(events.TurnEnded)
        stage.session.withdraw(queued.entry)
        notice = await stage.until(events.Noticed)
        assert "sent already" in notice.message
    assert len(stage.entries(UserMessage)) == 1
    assert len(stage.entries(said.MessageWithdrawn)) == 1


async def test_a_message_can_steer_the_running_turn(home: Path, tmp_path: Path) -> None:
    waits = calls(("shell", {"command": "sleep 30"}), text="Let me wait.")
    model = script(tmp_path, waits, {"text": "Steered."})
    async with on_stage(home, model=model, asks=True) as stage:
        stage.session.send("wait a while")
        asked = await stage.until(events.ToolAsked)
        stage.session.send("no, do not wait", steer=True)
        queued = await stage.until(events.MessageQueued)
        stage.session.answer(asked.call, events.Answer(allowed=False))
        steered = await stage.until(events.MessageSteered)
        ended = await stage.until(events.TurnEnded)
    assert (steered.queued, steered.turn) == (queued.entry, 1)
    assert ended.calls == 2
    assert [message["role"] for message in stage.requests()[-1]][-3:] == [
        "assistant",
        "tool",
        "user",
    ]
    assert stage.requests()[-1][-1]["content"] == "no, do not wait"


async def test_steering_that_came_too_late_has_a_turn_of_its_own(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "a b c", "delay_ms": 300}, {"text": "own turn"})
    async with on_stage(home, model=model) as stage:
        stage.session.send("first")
        await streaming(stage)
        stage.session.send("too late", steer=True)
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)
    assert [entry.text for entry in stage.entries(UserMessage)] == ["first", "too late"]


async def test_interrupting_a_stream_keeps_what_was_said(home: Path, tmp_path: Path) -> None:
    model = script(tmp_path, {"text": "one two three four", "delay_ms": 1_200}, {"text": "next"})
    async with on_stage(home, model=model) as stage:
        stage.session.send("count")
        await streaming(stage)
        stage.session.interrupt()
        stage.session.interrupt()
        ended = await stage.until(events.TurnEnded)
        assert ended.ending == "interrupted"
        partial = stage.all(events.AnswerRecorded)[0]
        assert partial.partial
        assert partial.text
        assert partial.text == stage.streamed
        assert (await stage.say("go on")).ending == "done"
    assert stage.requests()[-1][-2] == {"role": "assistant", "content": partial.text}
    assert stage.all(events.AnswerRecorded)[-1].text == "next"


async def test_interrupting_a_running_tool_gives_every_call_a_result(
    home: Path, tmp_path: Path
) -> None:
    wanted = calls(("shell", {"command": "sleep 60"}), ("shell", {"command": "echo never"}))
    model = script(tmp_path, wanted, {"text": "fine"})
    async with on_stage(home, model=model, asks=True) as stage:
        stage.session.send("sleep")
        asked = await stage.until(events.ToolAsked)
        stage.session.answer(asked.call, events.Answer(allowed=True))
        await stage.until(events.ToolStarted)
        stage.session.interrupt()
        ended = await stage.until(events.TurnEnded)
        assert ended.ending == "interrupted"
        assert [e.status for e in stage.all(events.ToolEnded)] == ["interrupted", "interrupted"]
        assert (await stage.say("and now?")).ending == "done"
    assert [m["role"] for m in stage.requests()[-1]][1:] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]


async def test_an_interrupted_command_leaves_what_it_printed_in_history(
    home: Path, tmp_path: Path
) -> None:
    wanted = calls(("shell", {"command": "echo found seven herons; sleep 60"}))
    model = script(tmp_path, wanted, {"text": "fine"})
    async with on_stage(home, model=model, asks=True) as stage:
        stage.session.send("look")
        asked = await stage.until(events.ToolAsked)
        stage.session.answer(asked.call, events.Answer(allowed=True))
        await stage.until(events.ToolOutput, lambda event: "seven herons" in event.text)
        stage.session.interrupt()
        assert (await stage.until(events.TurnEnded)).ending == "interrupted"
        (result,) = stage.entries(said.ToolReturned)
        assert result.status == "interrupted"
        assert "found seven herons\n[stopped: interrupted]" in result.text
        (ended,) = stage.all(events.ToolEnded)
        assert ended.text == "found seven herons\n[stopped: interrupted]"
        assert (await stage.say("and now?")).ending == "done"


async def test_interrupting_while_a_question_waits_runs_nothing(home: Path, tmp_path: Path) -> None:
    wanted = calls(("write", {"path": "no.txt", "text": "x"}))
    model = script(tmp_path, wanted, {"text": "fine"})
    async with on_stage(home, model=model, asks=True) as stage:
        stage.session.send("write")
        asked = await stage.until(events.ToolAsked)
        stage.session.interrupt()
        await stage.until(events.TurnEnded)
        stage.session.answer(asked.call, events.Answer(allowed=True))
        notice = await stage.until(events.Noticed)
        assert "no longer open" in notice.message
    assert not (tmp_path / "no.txt").exists()
    assert not stage.entries(said.ToolApproved)


async def test_who_stops_a_turn_gets_back_what_they_queued_behind_it(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, SLOW, {"text": "never"})
    async with on_stage(home, model=model) as stage:
        stage.session.send("first")
        await streaming(stage)
        stage.session.send("second")
        stage.session.send("third", steer=True)
        stage.session.stop(how="Esc")
        ended = await stage.until(events.TurnEnded)
        await stage.session.settled()
        assert (ended.ending, ended.how) == ("interrupted", "Esc")
        returned = [event.text for event in stage.all(events.MessageWithdrawn)]
        assert sorted(returned) == ["second", "third"]
    assert [entry.text for entry in stage.entries(UserMessage)] == ["first"]
    assert [entry.how for entry in stage.entries(said.TurnEnded)] == ["Esc"]


async def test_stopping_at_a_question_records_the_key_and_how_long_it_was_seen(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, calls(("shell", {"command": "touch made"})), {"text": "never"})
    async with on_stage(home, model=model, cwd=tmp_path, asks=True) as stage:
        stage.session.send("make it")
        asked = await stage.until(events.ToolAsked)
        stage.session.stop(how="Ctrl+C")
        assert (await stage.until(events.TurnEnded)).ending == "interrupted"
    (given,) = stage.entries(said.ToolAnswered)
    assert (given.call, given.allowed, given.how) == (asked.call, False, "Ctrl+C")
    assert given.stops
    assert given.seen > 0
    assert not (tmp_path / "made").exists()


async def test_an_interruption_before_the_first_step_ends_the_turn_too(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "x"}, loop=True)) as stage:
        for steps in range(12):
            here = len(stage.heard)
            stage.session.send("hello")
            for _ in range(steps):
                await asyncio.sleep(0)
            stage.session.interrupt()
            await stage.until(events.TurnEnded, after=here)
            await asyncio.sleep(0)
            assert len([e for e in stage.heard[here:] if isinstance(e, events.TurnEnded)]) == 1
        await stage.until(events.TurnEnded)
        stage.session.interrupt()
        assert (await stage.say("still here?")).ending == "done"


async def test_an_interruption_after_the_end_changes_nothing(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "x"}, loop=True)) as stage:

        def stop(event: events.AnyEvent) -> None:
            if isinstance(event, events.TurnEnded):
                stage.session.interrupt()

        stage.on_event = stop
        for _ in range(3):
            assert (await stage.say("hello")).ending == "done"
        assert [e.ending for e in stage.all(events.TurnEnded)] == ["done"] * 3


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 50])
async def test_closing_at_any_moment_loses_nothing_that_was_said(
    home: Path, tmp_path: Path, steps: int
) -> None:
    async with on_stage(home, model=script(tmp_path, SLOW)) as stage:
        for text in ("first", "second", "third"):
            stage.session.send(text)
        for _ in range(steps):
            await asyncio.sleep(0)
    history = stage.places.transcript.read_text()
    for text in ("first", "second", "third"):
        assert f'"{text}"' in history
    assert isinstance(stage.heard[-1], events.SessionClosed)


async def test_what_was_queued_at_the_close_is_handed_back_at_the_next_opening(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, SLOW)
    async with on_stage(home, model=model) as stage:
        stage.session.send("first")
        await streaming(stage)
        stage.session.send("wait for me")
        await stage.until(events.MessageQueued)
    async with on_stage(home, model=model, follow=True) as stage:
        back = await stage.until(events.MessageWithdrawn)
        assert back.text == "wait for me"
        assert "never sent" in describe(back).text


async def test_a_closed_session_says_that_it_is(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "x"})) as stage:
        await stage.session.close()
        with pytest.raises(UsageError, match="closed"):
            stage.session.send("anyone?")


async def test_a_tool_that_fails_without_a_word_is_a_failed_call_not_a_failed_turn(
    home: Path, tmp_path: Path
) -> None:
    async def run(arguments: object, context: object) -> ToolResult:
        raise RuntimeError("a bug")

    model = script(tmp_path, calls(("broken", {})), {"text": "I see."})
    async with on_stage(home, model=model) as stage:
        offer(stage, "broken", run)
        ended = await stage.say("use it")
    assert ended.ending == "done"
    assert stage.all(events.ToolEnded)[0].status == "error"
    assert "a bug" in stage.session.services.home.log.read_text()


async def test_a_commands_output_is_in_history_and_in_no_prompt(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "fine"}, loop=True)) as stage:
        await stage.say("remember the number 17")
        ended, printed = await stage.run("/pin")
        assert ended.ok
        assert "pinned" in printed
        await stage.run("/status")
        await stage.say("and now?")
    assert [entry.command for entry in stage.entries(CommandRun)] == ["/pin"]
    for request in stage.requests():
        assert not any("/pin" in str(message.get("content")) for message in request)
        assert not any("is pinned" in str(message.get("content")) for message in request)


async def test_an_unknown_command_suggests_what_it_is_called_here_and_no_mere_likeness(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "x"})) as stage:
        for asked, meant in (("name", "/title"), ("resume", "/sessions"), ("login", "/key")):
            assert f"Did you mean {meant}?" in (await stage.run(f"/{asked}"))[1]
        assert "/help lists every command." in (await stage.run("/init"))[1]


async def test_an_unknown_command_suggests_the_nearest(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "x"})) as stage:
        ended, printed = await stage.run("/contxt")
    assert (ended.ok, ended.exit_code) == (False, 2)
    assert "Did you mean /context?" in printed


async def test_a_command_can_be_interrupted_at_any_moment(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "x"})) as stage:
        for line in ("/shell sleep 60", "/pin"):
            for steps in (0, 1, 2, 3, 20):
                here = len(stage.heard)
                stage.session.command(line)
                for _ in range(steps):
                    await asyncio.sleep(0)
                stage.session.interrupt()
                ended = await stage.until(events.CommandEnded, after=here)
                assert not ended.ok
                assert line == "/pin" or ended.exit_code == 130


async def test_every_command_ends_once_however_it_is_used(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "fine"}, loop=True)) as stage:
        await stage.say("hello there")
        for name in known_commands():
            for argument in ("", "???", "turn 1", "-1", "99999999999"):
                if name in ("shell", "model", "fork"):
                    continue
                here = len(stage.heard)
                ended, _ = await stage.run(f"/{name} {argument}".strip())
                assert ended.exit_code in (0, 1, 2), name
                later = [e for e in stage.heard[here:] if isinstance(e, events.CommandEnded)]
                assert len(later) == 1
        assert not stage.session.services.home.log.exists(), (
            stage.session.services.home.log.read_text()
        )
        assert (await stage.say("still well?")).ending == "done"
    check_history(stage.places)


async def test_a_model_that_goes_round_in_circles_is_stopped(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("same")
    model = script(tmp_path, calls(("read", {"path": "a.txt"})), loop=True)
    async with on_stage(home, model=model, max_rounds=6) as stage:
        ended = await stage.say("go")
    assert ended.ending == "failed"
    assert "6 model calls" in ended.why
    assert [e.status for e in stage.all(events.ToolEnded)] == ["ok"] * 3 + ["refused"] * 3


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("x = " + "[" * 900, "too intricate"),
        ('[models]\ndefault = "evil/model"\n', "may not set models.default"),
        ("[context]\nceiling = 81\n", ""),
    ],
)
async def test_what_a_projects_settings_do_not_get_is_said_when_a_session_opens(
    home: Path, tmp_path: Path, written: str, why: str
) -> None:
    file = tmp_path / ".mindstone" / "config.toml"
    file.parent.mkdir()
    file.write_text(written)
    async with on_stage(home, model=script(tmp_path, {"text": "yes"})) as stage:
        await stage.say("hello")
    said = [e.message for e in stage.all(events.Noticed) if str(file) in e.message]
    assert len(said) == bool(why)
    assert not why or why in said[0]


async def test_a_handoff_is_shown_at_once_while_a_turn_runs(home: Path, tmp_path: Path) -> None:
    slow = {"text": "one two three", "delay_ms": 60_000}
    async with on_stage(home, model=script(tmp_path, {"text": "yes"}, slow)) as stage:
        await stage.say("hello")
        await stage.run("/handoff write")
        stage.session.send("go on")
        await stage.until(events.TurnStarted, lambda event: event.turn == 2)
        ended, printed = await stage.run("/handoff show")
        assert ended.ok
        assert "hello" in printed
        stage.session.interrupt()
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)


async def test_opening_a_session_sweeps_what_a_killed_program_left(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "yes"}, loop=True)
    async with on_stage(home, model=model) as stage:
        await stage.say("hello")
    left, fresh = (stage.places.folder / f".checkpoint.json.{n * 12}" for n in "ab")
    for path in (left, fresh):
        path.write_text("half of it")
    os.utime(left, (0, 0))
    async with on_stage(home, model=model):
        assert not left.exists()
        assert fresh.exists(), "this one may belong to a program that is still at it"
    fresh.unlink()


async def test_the_default_answers_where_only_the_guide_did_and_nobody_had_chosen_it(
    home: Path, tmp_path: Path
) -> None:
    chosen = script(tmp_path, {"text": "hello"}, loop=True)
    async with on_stage(home) as stage:
        await stage.say("hello")
    (home / "config.toml").write_text(f'[models]\ndefault = "{chosen}"\n')
    async with on_stage(home) as stage:
        assert stage.session.services.context.model == chosen
        await stage.run(f"/model {GUIDE}")
        await stage.say("hello")
    async with on_stage(home) as stage:
        assert stage.session.services.context.model == GUIDE


async def test_a_command_that_waits_for_a_turn_says_so_and_goes_with_a_stop(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, {"text": "a b c d", "delay_ms": 200}, {"text": "Yes."})
    async with on_stage(home, model=model) as stage:
        stage.session.send("first")
        await stage.until(events.TextDelta)
        stage.session.command("/plan")
        told = await stage.until(events.Noticed)
        assert "/plan waits for its end" in told.message
        stage.session.stop(how="escape")
        ended = await stage.until(events.CommandEnded)
        assert (ended.command, ended.ok) == ("/plan", False)
        await stage.idle()
        assert stage.entries(PlanChanged) == []


async def test_whoever_loosens_approvals_is_on_record(home: Path, tmp_path: Path) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Yes."})) as stage:
        await stage.run("/approve")
        await stage.run("/approve auto-edit")
        assert [one.command for one in stage.entries(CommandRun)] == ["/approve auto-edit"]


async def test_who_leaves_plan_mode_without_a_plan_has_refused_nothing(
    home: Path, tmp_path: Path
) -> None:
    async with on_stage(home, model=script(tmp_path, {"text": "Yes."})) as stage:
        await stage.run("/plan")
        await stage.run("/plan off")
        told = [of_entry(one, "app") for one in stage.entries(PlanChanged)]
        assert told[-1] is not None
        assert "Plan mode left" in told[-1].text
        _, refused = await stage.run("/plan refuse too long")
        assert "Plan mode left" in refused, "who comes too late is told what became of it"
