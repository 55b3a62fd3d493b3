"""A question about a tool travels with history: any surface answers it, and one answer holds."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries import ToolCall, Usage
from mindstone_tui.core.entries.conversation import (
    AnswerUsage,
    AskedPart,
    AssistantMessage,
    MessageQueued,
    MessageWithdrawn,
    ToolAnswered,
    ToolApproved,
    ToolAsked,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import MemoryDecided, MemoryProposed, PlanChanged
from mindstone_tui.core.entries.store import ProjectTrusted
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.events.narrate import describe, describe_line
from mindstone_tui.core.events.question import answer_to, explain
from mindstone_tui.core.library.open_questions import waiting_in
from mindstone_tui.core.paths import Places
from mindstone_tui.core.session.questions import TOO_LATE, SharedQuestions, decisions_of
from mindstone_tui.core.text import as_exact, exact
from mindstone_tui.core.tools.base import digest_of
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in, transcript_in
from tests.core.session.stage import calls, check_history, on_stage, script

WRITES = ("write", {"path": "note.txt", "content": "a stone remembers"})
YES = events.Answer(allowed=True)
NO = events.Answer(allowed=False, why="not now")


def wants_to_write(folder: Path) -> str:
    return script(folder, calls(WRITES), {"text": "Done."}, loop=True)


async def test_another_surface_answers_and_the_turn_goes_on(home: Path, tmp_path: Path) -> None:
    model = wants_to_write(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    async with (
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="tui") as owner,
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="acp") as other,
    ):
        owner.session.send("write it down")
        asked = await owner.until(events.ToolAsked)
        seen = await other.until(events.ToolAsked)
        assert (seen.call, seen.shown, seen.digest) == (asked.call, asked.shown, asked.digest)
        assert (seen.diff, seen.channel) == (asked.diff, "tui")
        assert [one.remember for one in seen.scopes] == [one.remember for one in asked.scopes]
        other.session.answer(seen.call, YES)
        assert (await owner.until(events.TurnEnded)).ending == "done"
        assert (await owner.until(events.ToolAnswered)).channel == "acp"
        assert (await other.until(events.ToolEnded)).status == "ok"
    assert (work / "note.txt").read_text() == "a stone remembers"
    kinds = [line.kind for line in owner.lines() if "tool_a" in line.kind or "called" in line.kind]
    assert kinds == ["tool_called", "tool_asked", "tool_answered", "tool_approved"]
    check_history(owner.places)


async def test_the_first_answer_on_disk_wins_whoever_asked(home: Path, tmp_path: Path) -> None:
    model = wants_to_write(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    async with (
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="tui") as owner,
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="acp") as other,
    ):
        owner.session.send("write it down")
        asked = await owner.until(events.ToolAsked)
        await other.until(events.ToolAsked)
        # Neither has heard the other's answer when it gives its own.
        other.session.answer(asked.call, NO)
        owner.session.answer(asked.call, YES)
        assert (await owner.until(events.TurnEnded)).ending == "done"
        (heard,) = owner.all(events.ToolAnswered)
        assert (heard.allowed, heard.why, heard.channel) == (False, "not now", "acp")
    assert not (work / "note.txt").exists()
    assert not owner.entries(ToolApproved)
    (returned,) = owner.entries(ToolReturned)
    assert returned.status == "refused"
    check_history(owner.places)


async def test_an_answer_that_comes_late_is_told_so_and_written_nowhere(
    home: Path, tmp_path: Path
) -> None:
    model = wants_to_write(tmp_path)
    async with (
        on_stage(home, model=model, cwd=tmp_path, follow=True, asks=True, channel="tui") as owner,
        on_stage(home, model=model, cwd=tmp_path, follow=True, asks=True, channel="acp") as other,
    ):
        owner.session.send("write it down")
        asked = await other.until(events.ToolAsked)
        owner.session.answer(asked.call, NO)
        await other.until(events.ToolAnswered)
        other.session.answer(asked.call, YES)
        told = await other.until(events.Noticed, lambda event: "no longer open" in event.message)
        assert told.level == "info"
        await owner.until(events.TurnEnded)
    assert [entry.allowed for entry in owner.entries(ToolAnswered)] == [False]


@pytest.mark.parametrize("left", [True, False])
async def test_of_two_who_answer_at_once_the_second_is_told_and_its_answer_is_not_written(
    home: Path, tmp_path: Path, left: bool
) -> None:
    """Each looked before the other wrote: what counts is who had the file's lock first."""
    model = wants_to_write(tmp_path)
    stage = partial(on_stage, home, model=model, cwd=tmp_path, asks=True)
    async with stage(channel="tui", follow=True) as app:
        app.session.send("write it down")
        asked = await app.until(events.ToolAsked)
        if left:
            await app.session.close()
        async with stage(channel="web") as page, stage(channel="acp") as editor:
            told: list[events.AnyEvent] = []
            first = SharedQuestions(page.session.services.context, lambda event: None)
            late = SharedQuestions(editor.session.services.context, told.append)
            first.find()
            late.find()
            assert first.write(asked.call, NO) is not None
            assert late.write(asked.call, YES) is None
            assert [one.message for one in told if isinstance(one, events.Noticed)] == [TOO_LATE]
        if not left:
            await app.until(events.TurnEnded)
    (given,) = page.entries(ToolAnswered)
    assert (given.allowed, given.why) == (False, "not now")
    check_history(page.places)


async def test_a_surface_that_is_opened_later_finds_the_question(
    home: Path, tmp_path: Path
) -> None:
    model = wants_to_write(tmp_path)
    async with on_stage(
        home, model=model, cwd=tmp_path, follow=True, asks=True, channel="tui"
    ) as owner:
        owner.session.send("write it down")
        await owner.until(events.ToolAsked)
        async with on_stage(
            home, model=model, cwd=tmp_path, follow=True, asks=True, channel="web"
        ) as late:
            asked = await late.until(events.ToolAsked)
            late.session.answer(asked.call, YES)
            await owner.until(events.TurnEnded)
    (written,) = owner.entries(ToolAsked)
    assert written.call == asked.call


async def test_who_cannot_ask_a_person_is_not_asked(home: Path, tmp_path: Path) -> None:
    model = wants_to_write(tmp_path)
    async with (
        on_stage(home, model=model, cwd=tmp_path, follow=True, asks=True, channel="tui") as owner,
        on_stage(home, model=model, cwd=tmp_path, follow=True, channel="pipe") as pipe,
    ):
        owner.session.send("write it down")
        asked = await owner.until(events.ToolAsked)
        await pipe.until(events.EntryAppeared, lambda event: event.kind == "tool_asked")
        owner.session.answer(asked.call, YES)
        await owner.until(events.TurnEnded)
        assert not pipe.all(events.ToolAsked)


async def test_log_and_why_say_where_and_how_a_decision_was_made(
    home: Path, tmp_path: Path
) -> None:
    model = wants_to_write(tmp_path)
    async with (
        on_stage(home, model=model, cwd=tmp_path, follow=True, asks=True, channel="tui") as owner,
        on_stage(home, model=model, cwd=tmp_path, follow=True, asks=True, channel="web") as other,
    ):
        owner.session.send("write it down")
        asked = await other.until(events.ToolAsked)
        no = events.Answer(allowed=False, why="not today", how="click", seen=4.2)
        other.session.answer(asked.call, no)
        heard = await owner.until(events.ToolAnswered)
        assert (heard.channel, heard.how, heard.seen) == ("web", "click", 4.2)
        await owner.until(events.TurnEnded)
        owner.session.command("/why turn 1")
        told = await owner.until(events.CommandPrinted)
    said = "Declined on the page with click, 4.2 s after it came into view (not today)"
    assert f"Decisions in turn 1:\n  write: note.txt · {said}" in told.text
    (line,) = (line for line in owner.lines() if line.kind == "tool_answered")
    assert said in str(describe_line(line))


async def test_an_answer_to_an_earlier_question_of_the_same_name_decides_nothing(
    home: Path, tmp_path: Path
) -> None:
    """Models name calls as they like; a click that comes late was meant for what it stood on."""
    wish = {"id": "call_1", "name": "write", "arguments": WRITES[1]}
    model = script(tmp_path, {"text": "", "tool_calls": [wish]}, {"text": "Done."}, loop=True)
    work = tmp_path / "work"
    work.mkdir()
    async with (
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="tui") as owner,
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="web") as other,
    ):
        owner.session.send("write it down")
        asked = await other.until(events.ToolAsked)
        late = answer_to(asked, "allow-0", how="click")
        owner.session.answer(asked.call, NO)
        await owner.until(events.TurnEnded)
        owner.session.send("write it down")
        again = await other.until(events.ToolAsked, lambda event: event.turn == 2)
        assert (again.call, again.digest) == (asked.call, asked.digest)
        for stage in (other, owner):
            stage.session.answer(asked.call, late)
            await stage.until(events.Noticed, lambda event: "no longer open" in event.message)
        # It may also have been written before whoever gave it heard of the new question.
        entry = ToolAnswered(call=asked.call, **msgspec.structs.asdict(late))
        other.session.services.context.window.record(entry)
        await owner.until(events.EntryAppeared, lambda event: event.kind == "tool_answered")
        (waits,) = waiting_in(Places.resolve({"MINDSTONE_HOME": str(home)}), owner.places)
        assert (waits.call, waits.since) == (again.call, again.since)
        other.session.answer(again.call, answer_to(again, "deny"))
        assert (await owner.until(events.TurnEnded, lambda event: event.turn == 2)).turn == 2
    assert not (work / "note.txt").exists()
    check_history(owner.places)


async def test_a_question_of_a_name_that_was_answered_here_before_is_asked_again(
    home: Path, tmp_path: Path
) -> None:
    """Whoever went on with a turn that another surface left is asked in turns of their own, too."""
    wish = {"id": "call_1", "name": "write", "arguments": WRITES[1]}
    model = script(tmp_path, {"text": "", "tool_calls": [wish]}, {"text": "Done."}, loop=True)
    stage = partial(on_stage, home, model=model, cwd=tmp_path, follow=True, asks=True)
    async with stage(channel="web") as looks_on:
        async with stage(channel="acp") as closes:
            closes.session.send("write it down")
            asked = await looks_on.until(events.ToolAsked)
        looks_on.session.answer(asked.call, NO)
        await looks_on.until(events.TurnEnded)
        looks_on.session.send("write it down")
        again = await looks_on.until(events.ToolAsked, lambda event: event.turn == 2)
        assert (again.call, again.since > asked.since) == (asked.call, True)
        looks_on.session.answer(again.call, answer_to(again, "deny"))
        await looks_on.until(events.TurnEnded, lambda event: event.turn == 2)
    check_history(looks_on.places)


async def test_memories_plans_and_trust_are_decided_on_record_as_tools_are(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    model = script(tmp_path, {"text": "1. Look around.\n2. Tidy up."}, loop=True)
    async with on_stage(
        home, model=model, cwd=tmp_path, follow=True, asks=True, channel="tui"
    ) as stage:
        await stage.say("Remember that the tide turns at noon.")
        (proposed,) = stage.entries(MemoryProposed)
        line = f"/memory approve {proposed.proposal}"
        stage.session.command(line, how="a", seen=2.5)
        for typed in ("/trust", "/trust yes", "/plan"):
            stage.session.command(typed)
        await stage.say("tidy up")
        stage.session.command("/plan refuse too short")
        await stage.until(events.TurnEnded, lambda event: event.turn == 3)
        stage.session.command("/plan approve")
        await stage.until(events.TurnEnded, lambda event: event.turn == 4)
        told = [(await stage.run(f"/why turn {turn}"))[1] for turn in (1, 2, 3)]
    memory = (
        f"Memory {proposed.proposal} approved, in the app with a, 2.5 s after it came into view"
    )
    assert f"Decisions in turn 1:\n  {memory}" in told[0]
    assert f"Folder trusted: {tmp_path}, in the app by typing /trust yes" in told[0]
    assert "  Plan refused, in the app by typing /plan refuse, " in told[1]
    assert "after it came into view (too short)" in told[1]
    assert "  Plan approved · 2 steps, in the app by typing /plan approve, " in told[2]
    assert stage.entries(PlanChanged)[1].seen > 0


@pytest.mark.parametrize("closed", [False, True])
async def test_a_turn_that_waits_is_stopped_from_another_surface(
    home: Path, tmp_path: Path, closed: bool
) -> None:
    stage = partial(
        on_stage, home, model=wants_to_write(tmp_path), cwd=tmp_path, follow=True, asks=True
    )
    async with stage(channel="web") as page, stage(channel="tui") as app:
        app.session.send("write it down")
        await page.until(events.ToolAsked)
        if closed:
            await app.session.close()
        page.session.stop()
        ended = await (page if closed else app).until(
            events.TurnEnded, lambda event: "stopped" in event.why
        )
        assert (ended.ending, ended.why) == ("interrupted", "The person stopped it.")
    (answered,) = app.entries(ToolAnswered)
    assert (answered.allowed, answered.stops, answered.how) == (False, True, "stop")
    assert [each.how for each in app.entries(TurnEnded)] == ["stop"]
    assert [each.status for each in app.entries(ToolReturned)] == ["interrupted"]
    assert not (tmp_path / "note.txt").exists()
    check_history(app.places)


async def test_a_memory_that_a_call_asked_for_names_the_answer_that_let_it(
    home: Path, tmp_path: Path
) -> None:
    wish = {"kind": "fact", "title": "Tide", "text": "It turns at noon.", "source": "#1"}
    model = script(tmp_path, calls(("remember", wish)), {"text": "Done."})
    stage = partial(on_stage, home, model=model, cwd=tmp_path, follow=True, asks=True)
    async with stage(channel="web") as page, stage(channel="tui") as app:
        app.session.send("note the tide")
        asked = await page.until(events.ToolAsked)
        page.session.answer(asked.call, answer_to(asked, "allow-0", how="click", seen=3.0))
        await app.until(events.TurnEnded)
        told = (await app.run("/why turn 1"))[1]
    (decided,) = app.entries(MemoryDecided)
    assert (decided.how, decided.seen) == (f"the answer to {asked.call}", 3.0)
    assert "Allowed on the page with click, 3.0 s after it came into view" in told
    approved = f"Memory {decided.proposal} approved, with that answer, 3.0 s after"
    assert approved in told


async def test_a_turn_that_was_left_goes_on_with_its_own_model(home: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "default").mkdir()
    own = wants_to_write(tmp_path / "own")
    default = script(tmp_path / "default", {"text": "I am another."}, loop=True)
    home.mkdir()  # noqa: ASYNC240
    (home / "config.toml").write_text(f'[models]\ndefault = "{default}"\n')
    work = tmp_path / "work"
    work.mkdir()
    async with on_stage(home, model=own, cwd=work, asks=True) as first:
        first.session.send("write it down")
        await first.until(events.ToolAsked)
    async with on_stage(home, cwd=work, follow=True, asks=True) as other:
        asked = await other.until(events.ToolAsked)
        other.session.answer(asked.call, YES)
        assert (await other.until(events.TurnEnded)).ending == "done"
    assert {one.model for one in other.entries(PromptPlanned)} == {own}
    assert (work / "note.txt").exists()


async def test_until_you_leave_said_elsewhere_holds_for_the_turn_and_says_so(
    home: Path, tmp_path: Path
) -> None:
    again = ("write", {"path": "note.txt", "content": "another"})
    model = script(tmp_path, calls(WRITES), calls(again), {"text": "Done."}, loop=True)
    work = tmp_path / "work"
    work.mkdir()
    async with (
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="web") as owner,
        on_stage(home, model=model, cwd=work, follow=True, asks=True, channel="tui") as other,
    ):
        owner.session.send("write both")
        here = await owner.until(events.ToolAsked)
        asked = await other.until(events.ToolAsked)
        number = next(n for n, one in enumerate(asked.scopes) if one.keep == "session")
        assert here.scopes[number].label.endswith(", until you leave")
        assert asked.scopes[number].label.endswith(", for this turn")
        other.session.answer(asked.call, answer_to(asked, f"allow-{number}", how="s"))
        assert (await owner.until(events.TurnEnded)).ending == "done"
        assert (work / "note.txt").read_text() == "another"
        assert len(owner.entries(ToolAsked)) == 1
        told = decisions_of(owner.session.services.context.transcript, 1)
        wide = asked.scopes[number].label.removeprefix("Allow ")
        assert told[0] == f"write: note.txt · Allowed in the app with s: {wide}"
        assert told[1].startswith("write: note.txt · Approved by rule: write note.txt (for this")
        assert told[1].endswith(" by s)")
        owner.session.send("and once more")  # whoever said yes may have left
        await owner.until(events.ToolAsked, lambda one: one.turn == 2)
        owner.session.stop(how="Esc")
        await owner.until(events.TurnEnded, lambda one: one.turn == 2)


async def test_until_you_leave_said_to_a_turn_that_was_left_is_said_to_who_goes_on(
    home: Path, tmp_path: Path
) -> None:
    again = ("write", {"path": "note.txt", "content": "another"})
    model = script(tmp_path, calls(WRITES), calls(again), {"text": "Done."}, loop=True)
    work = tmp_path / "work"
    work.mkdir()
    async with on_stage(home, model=model, cwd=work, asks=True, channel="web") as owner:
        owner.session.send("write both")
        await owner.until(events.ToolAsked)
    async with on_stage(home, model=model, cwd=work, follow=True, asks=True) as other:
        asked = await other.until(events.ToolAsked)
        number = next(n for n, one in enumerate(asked.scopes) if one.keep == "session")
        assert asked.scopes[number].label.endswith(", until you leave")
        other.session.answer(asked.call, answer_to(asked, f"allow-{number}", how="s"))
        await other.until(events.TurnEnded)
        assert "until you leave" in other.session.services.context.permissions.describe()


async def test_who_looks_on_goes_on_with_a_turn_that_was_left_and_got_its_yes_elsewhere(
    home: Path, tmp_path: Path
) -> None:
    model = wants_to_write(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    async with on_stage(home, model=model, cwd=work, follow=True, asks=True) as onlooker:
        async with on_stage(home, model=model, cwd=work, asks=True, channel="web") as owner:
            owner.session.send("write it down")
            asked = await onlooker.until(events.ToolAsked)
        async with on_stage(home, model=model, cwd=tmp_path, channel="run") as shell:
            shell.session.answer(asked.call, YES)
            assert (await onlooker.until(events.TurnEnded)).ending == "done"
    assert (work / "note.txt").read_text() == "a stone remembers"
    check_history(onlooker.places)


async def test_who_waits_for_the_answer_to_a_question_that_was_left_waits_for_no_program(
    home: Path, tmp_path: Path
) -> None:
    model = wants_to_write(tmp_path)
    async with on_stage(home, model=model, cwd=tmp_path, asks=True) as owner:
        owner.session.send("write it down")
        await owner.until(events.ToolAsked)
    async with on_stage(home, model=model, cwd=tmp_path, channel="run") as shell:
        shell.session.send("The tiger sleeps at noon.")
        told = await shell.until(events.Noticed, lambda one: bool(one.waits_for))
        shell.session.interrupt()
        ended = await shell.until(events.TurnEnded)
    waits = [one.message for one in shell.all(events.Noticed) if one.message.startswith("Waiting")]
    assert waits == ["Waiting: a turn was left at a question in agent:default:main."]
    assert "nobody looks at it there any more" in told.message
    assert (ended.turn, str(describe(ended))) == (0, "■ Interrupted (no turn had begun)")
    (queued,) = shell.entries(MessageQueued)
    assert queued.text == "The tiger sleeps at noon.", "what is told to wait is on disk"
    assert len(shell.entries(MessageWithdrawn)) == 1


def test_what_was_decided_before_scopes_were_written_down_is_told_without_them(home: Path) -> None:
    transcript = transcript_in(home)
    kept = {"rule": "shell pytest *", "remember": "session"}
    for entry in (
        ToolAsked(call="c", name="shell", risk="run", shown="run pytest", digest="d"),
        ToolAnswered(call="c", allowed=True, remember="shell pytest *", keep="session", how="s"),
        ToolApproved(call="c", digest="d", by="person", **kept),
    ):
        transcript.append(entry, turn=1)
    (told,) = decisions_of(transcript, 1)
    assert "pytest · Allowed" in told
    assert told.endswith(": shell pytest * (session)")


async def test_a_command_looks_the_same_in_its_question_its_parts_and_what_is_told_of_it(
    home: Path, tmp_path: Path
) -> None:
    command = "printf '\x1b[2Kdone' && rm -rf x\u200b"
    model = script(tmp_path, calls(("shell", {"command": command})), {"text": "Well."})
    async with on_stage(home, model=model, cwd=tmp_path, asks=True) as stage:
        stage.session.send("clean up")
        asked = await stage.until(events.ToolAsked)
        told = explain(asked)
        (waits,) = waiting_in(stage.session.services.home, stage.places)
        stage.session.answer(asked.call, NO)
        await stage.until(events.TurnEnded)
        (why,) = decisions_of(stage.session.services.context.transcript, 1)
    assert told.exact == exact(command) == as_exact(waits.what)
    assert "rm -rf x⟦U+200B⟧" in told.rows[-1]
    assert why.startswith(f"shell: {exact(command)} · Declined")


async def test_what_became_of_a_turn_since_is_told_with_its_decisions(
    home: Path, tmp_path: Path
) -> None:
    model = script(tmp_path, calls(WRITES), {"text": "One."}, {"text": "Two."}, loop=True)
    async with on_stage(home, model=model, cwd=tmp_path, approve="auto-edit") as stage:
        await stage.say("write it down")
        await stage.run("/undo")
        await stage.say("and now")
        await stage.run("/redo")
        _, files = await stage.run("/why turn 1")
        await stage.run("/rewind turn 1")
        await stage.run("/restore turn 2")
        _, back = await stage.run("/why turn 2")
    taken, again = files.partition("Decisions in turn 1:")[2].strip().splitlines()[-2:]
    assert "Changes of turn 1 taken back" in taken
    assert "Changes of turn 1 done again" in again
    assert again.endswith("(in turn 2)")
    rewound, restored = back.partition("Decisions in turn 2:")[2].strip().splitlines()[-2:]
    assert "Rewound to turn 1" in rewound
    assert "Turn 2 restored" in restored


async def test_a_wider_yes_is_told_wherever_it_is_on_record(home: Path, tmp_path: Path) -> None:
    again = ("write", {"path": "note.txt", "content": "another"})
    model = script(tmp_path, calls(WRITES), {"text": "One."}, calls(again), {"text": "Two."})
    async with on_stage(home, model=model, cwd=tmp_path, asks=True, channel="web") as stage:
        stage.session.send("write it down")
        asked = await stage.until(events.ToolAsked)
        number = next(n for n, one in enumerate(asked.scopes) if one.scope == "edits")
        stage.session.answer(asked.call, answer_to(asked, f"allow-{number}", how="click", seen=2.0))
        heard = await stage.until(events.ToolAnswered)
        await stage.until(events.TurnEnded)
        await stage.say("once more")
        told = [str(describe_line(line)) for line in stage.lines()]
        decided = decisions_of(stage.session.services.context.transcript, 2)
    words = (
        "Allowed on the page with click, 2.0 s after it came into view: every edit in this folder"
    )
    assert str(describe(heard)) == f"· {words}, until you leave"
    assert f"· {words}, until you leave" in told
    assert [one for one in told if "Approved by rule: edits *" in one]
    (ran,) = decided
    assert ran.startswith("write: note.txt · Approved by rule: edits * (until you leave; given ")


async def test_until_you_leave_ends_when_nobody_looks_any_more_and_not_with_a_page_loaded_anew(
    home: Path, tmp_path: Path
) -> None:
    again = ("write", {"path": "note.txt", "content": "another"})
    model = script(tmp_path, calls(WRITES), {"text": "One."}, calls(again), {"text": "Two."})
    async with on_stage(home, model=model, cwd=tmp_path, asks=True, channel="web") as stage:
        permissions = stage.session.services.context.permissions
        permissions.away = 0.0
        stage.session.attend(True)
        stage.session.send("write it down")
        asked = await stage.until(events.ToolAsked)
        number = next(n for n, one in enumerate(asked.scopes) if one.scope == "edits")
        stage.session.answer(asked.call, answer_to(asked, f"allow-{number}"))
        await stage.until(events.TurnEnded)
        stage.session.attend(False)
        stage.session.attend(True)
        for _ in range(5):
            await asyncio.sleep(0)
        assert "edits" in permissions.describe()
        stage.session.attend(False)
        for _ in range(5):
            await asyncio.sleep(0)
        stage.session.attend(True)
        assert "edits" not in permissions.describe()
        stage.session.send("once more")
        second = await stage.until(events.ToolAsked, lambda one: one.turn == 2)
        stage.session.answer(second.call, NO)
        await stage.until(events.TurnEnded, lambda one: one.turn == 2)


async def test_a_yes_to_a_helper_whose_program_has_ended_is_refused_and_says_so(
    home: Path, tmp_path: Path
) -> None:
    wish = ToolCall(id="c", name="delegate", arguments="{}")
    async with on_stage(home, cwd=tmp_path, follow=True, asks=True, channel="web") as page:
        killed = transcript_in(home)
        for entry in (
            TurnStarted(origin="message"),
            UserMessage(text="look around"),
            AssistantMessage(text="", calls=(wish,)),
            ToolCalled(call="c", name="delegate", shown="delegate a task", digest="d"),
            ToolApproved(call="c", digest="d", by="mode"),
            ToolAsked(
                call="h", name="read", risk="read", shown="read x", digest="e", helper="Find it"
            ),
        ):
            killed.append(entry, turn=1)
        page.session.answer("h", YES)
        told = await page.until(events.Noticed, lambda event: "has ended" in event.message)
        assert "The helper 'Find it'" in told.message
        await page.until(events.Noticed, lambda event: "no longer open" in event.message)
    assert page.entries(ToolAnswered) == []
    assert [one.ending for one in page.entries(TurnEnded)] == ["interrupted"]


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_a_command_of_an_ended_program_asked_gets_one_answer(
    home: Path, tmp_path: Path, allowed: bool
) -> None:
    async with on_stage(home, cwd=tmp_path, follow=True, asks=True, channel="web") as page:
        await page.say("hello")
        killed = transcript_in(home)
        killed.append(
            ToolAsked(call="u", name="undo", risk="write", shown="overwrite a file", digest=""),
            turn=1,
        )
        killed.close()
        await page.until(events.ToolAsked)
        page.session.answer("u", events.Answer(allowed=allowed, why="keep my lines", how="n"))
        if allowed:
            await page.until(events.Noticed, lambda event: "no longer open" in event.message)
        else:
            await page.until(events.ToolAnswered)
        _, why = await page.run("/why turn 1")
    (given,) = page.entries(ToolAnswered)
    assert (given.allowed, given.how) == (False, "nobody" if allowed else "n")
    assert ("keep my lines" in why) is not allowed


async def test_a_no_to_a_folder_says_that_it_and_its_reason_were_kept(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    async with on_stage(home, cwd=tmp_path, asks=True) as stage:
        await stage.run("/trust")
        ended, text = await stage.run("/trust no it is not mine")
    (decided,) = stage.entries(ProjectTrusted)
    assert (ended.ok, decided.refused, decided.why) == (True, True, "it is not mine")
    assert text.startswith("Declined: ")
    assert "your reason is on record" in text
    assert "Use tabs." not in text


def brought(home: Path, folder: Path, **shown: Any) -> None:
    """History that came from elsewhere: it ends with a question, as such a question is shown."""
    arguments = msgspec.json.encode(WRITES[1])
    call = ToolCall(id="c1", name="write", arguments=arguments.decode())
    transcript = Transcript(places_in(home), channel="tui")
    transcript.append(TurnStarted(), turn=1)
    transcript.append(UserMessage(text="tidy up"), turn=1)
    usage = AnswerUsage(call=1, usage=Usage(prompt=1, completion=1))
    said = AssistantMessage(text="", calls=(call,), finish="tool_calls", reported=usage)
    transcript.append(said, turn=1)
    ends = "\\ No newline at end of file"
    diff = f"--- /dev/null\n+++ b/note.txt\n@@ -0,0 +1 @@\n+a stone remembers\n{ends}"
    part = AskedPart(text="write note.txt", verdict="writes", reason="creates a file")
    asked = ToolAsked(
        call="c1",
        name="write",
        risk="write",
        digest=digest_of(arguments),
        folder=str(folder),
        **{"shown": f"write note.txt\n{diff}", "diff": diff} | shown,
        parts=(part,),
    )
    transcript.append(asked, turn=1)
    transcript.close()


@pytest.mark.parametrize("keep", ["", "config"])
async def test_a_yes_that_came_with_history_from_elsewhere_lets_nothing_run(
    home: Path, tmp_path: Path, keep: Literal["", "config"]
) -> None:
    (work := tmp_path / "work").mkdir()
    brought(home, work)
    transcript = Transcript(places_in(home), channel="tui")
    yes = ToolAnswered(call="c1", allowed=True, remember="write" if keep else "", keep=keep)
    transcript.append(yes, turn=1)
    transcript.close()
    model = script(tmp_path, {"text": "Done."}, loop=True)
    async with on_stage(home, model=model, cwd=work, follow=True, asks=True) as here:
        assert (await here.until(events.TurnEnded)).ending == "done"
        assert "no rules" in here.session.services.context.permissions.describe()
    assert not (work / "note.txt").exists()
    (returned,) = here.entries(ToolReturned)
    assert "on another machine" in returned.text
    check_history(here.places)


@pytest.mark.parametrize("shown", [{}, {"diff": "+ harmless"}, {"shown": "read it"}])
async def test_a_question_from_elsewhere_is_put_only_if_it_shows_what_would_run(
    home: Path, tmp_path: Path, shown: dict[str, str]
) -> None:
    (work := tmp_path / "work").mkdir()
    brought(home, work, **shown)
    model = script(tmp_path, {"text": "Done."}, loop=True)
    async with on_stage(home, model=model, cwd=work, follow=True, asks=True) as here:
        if not shown:
            here.session.answer((await here.until(events.ToolAsked)).call, YES)
        await here.until(events.TurnEnded)
    assert (work / "note.txt").exists() is not bool(shown)
