"""Nothing a model sends makes a session unusable, and what is refused is recorded as refused."""

from __future__ import annotations

from pathlib import Path

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolRefused,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.handoff.environment import files_touched
from tests.builders import say, transcript_in
from tests.core.session.stage import Stage, calls, check_history, on_stage, script

DEEP = '{"path":' + "[" * 960 + "]" * 960 + "}"


async def use_in_every_way(stage: Stage) -> None:
    """Everything that folds the window: a turn, a report, a prune, a way back."""
    assert (await stage.say("and now?")).ending == "done"
    for line in ("/context", "/prune", "/checkpoint", "/rewind 1"):
        ended, said = await stage.run(line)
        assert ended.ok, (line, said)
    assert (await stage.say("still here?")).ending == "done"


async def test_arguments_nested_too_deeply_are_refused_and_the_session_goes_on(
    home: Path, tmp_path: Path
) -> None:
    replies = [calls(("read", DEEP)), *({"text": f"Answer {n}."} for n in range(6))]
    async with on_stage(home, model=script(tmp_path, *replies)) as stage:
        assert (await stage.say("read it")).ending == "done"
        (refused,) = stage.entries(ToolRefused)
        (returned,) = stage.entries(ToolReturned)
        assert "nested" in refused.why
        assert (returned.status, returned.call) == ("refused", refused.call)
        (asked,) = (message for message in stage.entries(AssistantMessage) if message.calls)
        assert asked.calls[0].arguments == DEEP
        assert files_touched(stage.lines()) == ()
        await use_in_every_way(stage)
    assert check_history(stage.places) == 4


async def test_a_session_that_such_arguments_made_unusable_opens_again(
    home: Path, tmp_path: Path
) -> None:
    transcript = transcript_in(home)
    say(transcript, "first", "yes")
    turn = transcript.last_turn + 1
    for entry in (
        TurnStarted(),
        UserMessage(text="read it"),
        AssistantMessage(
            text="", model="test", calls=(ToolCall(id="c", name="read", arguments=DEEP),)
        ),
        ToolReturned(call="c", name="read", text="Wrong.", status="error", finding="wrong"),
        TurnEnded(ending="failed", why="Something went wrong that should not: RecursionError."),
    ):
        transcript.append(entry, turn=turn)
    transcript.close()
    model = script(tmp_path, *({"text": f"Answer {n}."} for n in range(6)))
    async with on_stage(home, model=model) as stage:
        await use_in_every_way(stage)
    check_history(stage.places)
