"""Plan mode and the list of what is to be done: nothing changes before a yes, nothing is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from mindstone_tui.core import events
from mindstone_tui.core.entries.conversation import ToolRefused
from mindstone_tui.core.entries.derived import PlanChanged, TaskStarted, TodoChanged
from mindstone_tui.core.features.plans import BEGIN, PlansFeature
from mindstone_tui.core.features.tasks import TasksFeature
from mindstone_tui.core.library import open_questions
from mindstone_tui.core.library.open_questions import steps_of
from tests.core.session.stage import calls, on_stage, script

PLAN = "I looked around.\n\n1. Read the file\n2. Change **two** lines\n   - a detail\n3. Test it\n"


def workspace(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    return work


async def test_only_reading_tools_run_until_the_plan_is_approved(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    write = ("write", {"path": "a.txt", "content": "two\n"})
    says = script(
        tmp_path,
        calls(("read", {"path": "a.txt"}), write, ("shell", {"command": "echo x > b"})),
        {"text": PLAN},
        calls(write),
        {"text": "done"},
        loop=True,
    )
    async with on_stage(home, cwd=work, model=says, approve="auto-edit") as stage:
        assert (await stage.run("/plan"))[0].ok
        await stage.say("change it")
        assert [each.status for each in stage.all(events.ToolEnded)] == ["ok", "refused", "refused"]
        assert all("plan mode" in each.why for each in stage.entries(ToolRefused))
        assert (work / "a.txt").read_text() == "one\n"
        assert "Plan mode" in stage.requests()[0][0]["content"]
        _, text = await stage.run("/plan edit 2 Change one line")
        assert any("a plan of 3 steps" in each.message for each in stage.all(events.Noticed))
        assert text.splitlines() == ["1. Read the file", "2. Change one line", "3. Test it"]
        await stage.run("/plan edit -1")
        await stage.run("/plan edit + Tell me")
        stage.session.command("/plan approve")
        begun = await stage.until(events.TurnStarted, lambda event: event.turn == 2)
        assert begun.text == BEGIN
        assert (await stage.until(events.TurnEnded, lambda event: event.turn == 2)).ending == "done"
        assert (work / "a.txt").read_text() == "two\n"
        head = stage.requests()[-1][0]["content"]
        assert "Plan mode" not in head
        assert "[ ] Change one line" in head
        state = stage.session.services.features.get(TasksFeature).tasks.state().checkpoint
        assert [one.title for one in state.subtasks] == ["Change one line", "Test it", "Tell me"]
        assert state.goal == "change it"
    assert [each.stage for each in stage.entries(PlanChanged)] == [
        "planning",
        "edited",
        "edited",
        "edited",
        "approved",
    ]


async def test_a_plan_that_was_refused_first_is_named_by_what_was_asked(tmp_path: Path) -> None:
    says = script(tmp_path, {"text": PLAN}, loop=True)
    async with on_stage(tmp_path / "home", cwd=workspace(tmp_path), model=says) as stage:
        await stage.run("/plan")
        await stage.say("Plan the garden pond.")
        stage.session.command("/plan refuse too short")
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)
        stage.session.command("/plan approve")
        await stage.until(events.TurnEnded, lambda event: event.turn == 3)
    assert [one.title for one in stage.entries(TaskStarted)] == ["Plan the garden pond."]


async def test_plan_mode_and_the_list_outlive_the_program(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    says = script(tmp_path, {"text": PLAN}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.run("/plan")
        await stage.run("/todo add feed the cat")
    async with on_stage(home, cwd=work, model=says) as stage:
        assert stage.session.services.features.get(PlansFeature).planning
        await stage.say("plan it")
        _, text = await stage.run("/todo")
        assert "feed the cat" in text
        stage.session.command("/plan refuse too long")
        again = await stage.until(events.TurnStarted, lambda event: event.turn == 2)
        assert "too long" in again.text
        await stage.until(events.TurnEnded, lambda event: event.turn == 2)
        assert stage.session.services.features.get(PlansFeature).planning
        assert (await stage.run("/plan off"))[0].ok
        assert not (await stage.run("/plan approve"))[0].ok


async def test_the_models_list_stands_in_head_report_and_checkpoint(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    items = [
        {"title": "find it", "status": "done"},
        {"title": "fix it", "status": "in_progress"},
        {"content": "tell them", "status": "pending"},
    ]
    says = script(tmp_path, calls(("todo", {"todos": items})), {"text": "ok"}, {"text": "well"})
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.say("do it")
        report = stage.all(events.ContextReported)[-1].report
        assert report.todo == ("[x] find it", "[~] fix it", "[ ] tell them")
        await stage.say("more")
        assert "[~] fix it" in stage.requests()[-1][0]["content"]
        state = stage.session.services.features.get(TasksFeature).tasks.state().checkpoint
        assert [one.status for one in state.subtasks] == ["done", "in_progress", "planned"]
        assert stage.session.services.context.window.open_steps == 2
        await stage.run("/todo done 2")
        assert stage.session.services.context.window.open_steps == 1
        await stage.run("/todo drop 3")
        assert stage.session.services.context.window.open_steps == 0
        state = stage.session.services.features.get(TasksFeature).tasks.state().checkpoint
        assert {one.title: one.status for one in state.subtasks} == {
            "find it": "done",
            "fix it": "done",
        }
        assert not (await stage.run("/todo done 9"))[0].ok
    assert [each.by for each in stage.entries(TodoChanged)] == ["model", "person", "person"]


def test_a_plan_is_its_numbered_lines_else_its_bullets() -> None:
    assert steps_of(PLAN) == ("Read the file", "Change **two** lines", "Test it")
    assert steps_of("- a\n- [ ] b\n") == ("a", "b")
    assert steps_of("No steps here.") == ()


async def test_items_without_a_title_are_refused_and_the_list_stays(tmp_path: Path) -> None:
    items = [{"text": "fix it", "state": "done"}, {"title": "tell them", "status": "planned"}]
    says = script(tmp_path, calls(("todo", {"items": items})), {"text": "ok"})
    async with on_stage(tmp_path / "home", model=says) as stage:
        await stage.run("/todo add feed the cat")
        await stage.say("go on")
        ended = stage.all(events.ToolEnded)[-1]
        assert (ended.status, "item 1 has no title" in ended.text) == ("error", True)
        _, text = await stage.run("/todo")
        assert "feed the cat" in text


@pytest.mark.parametrize("elsewhere", ["web", "tui"])
async def test_a_plan_that_was_edited_elsewhere_begins_only_where_its_steps_were_shown(
    tmp_path: Path, elsewhere: str
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    says = script(tmp_path, {"text": PLAN}, {"text": "done"}, loop=True)
    async with on_stage(home, cwd=work, model=says, channel="tui", follow=True) as app:
        await app.run("/plan")
        await app.say("change it")
        async with on_stage(home, cwd=work, model=says, channel=elsewhere, follow=True) as other:
            assert (await other.run("/plan edit + Delete everything"))[0].ok
        await app.until(events.EntryAppeared, lambda event: event.kind == "plan_changed")
        for word in ("approve", "edit -3"):
            ended, text = await app.run(f"/plan {word}")
            assert (ended.ok, "not shown here" in text) == (False, True)
            assert "`/plan` shows it" in text
        _, shown = await app.run("/plan")
        assert "4. Delete everything" in shown
        app.session.command("/plan approve")
        await app.until(events.TurnEnded, lambda event: event.turn == 2)
    assert [each.stage for each in app.entries(PlanChanged)][-1] == "approved"


async def test_an_approval_means_no_step_that_was_written_while_it_was(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    says = script(tmp_path, {"text": PLAN}, {"text": "done"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.run("/plan")
        await stage.say("change it")
        began = asyncio.get_running_loop().time()
        await stage.run("/plan edit + Delete everything")
        writing = asyncio.get_running_loop().time() - began
        stage.session.command("/plan approve", writing=writing)
        ended = await stage.until(events.CommandEnded, lambda event: "approve" in event.command)
        assert not ended.ok
    assert [each.stage for each in stage.entries(PlanChanged)] == ["planning", "edited"]


async def test_a_shell_approves_a_plan_of_another_surface_only_by_its_mark(tmp_path: Path) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    says = script(tmp_path, {"text": PLAN}, {"text": "done"}, loop=True)
    surface = partial(on_stage, home, cwd=work, model=says)
    async with surface(channel="tui") as app:
        await app.run("/plan")
        await app.say("change it")
    async with surface(channel="run") as shell:
        shell.session.command("/plan approve", seen=-1.0)
        assert not (await shell.until(events.CommandEnded)).ok
        mark = open_questions.mark_of("plan", "\n".join(steps_of(PLAN)))
        shell.session.command(f"/plan approve {mark}", seen=-1.0)
        await shell.until(events.TurnEnded)
    assert [each.stage for each in shell.entries(PlanChanged)] == ["planning", "approved"]


async def test_an_approval_that_waits_for_a_turn_is_not_for_the_plan_that_comes_of_it(
    tmp_path: Path,
) -> None:
    work, home = workspace(tmp_path), tmp_path / "home"
    other = {"text": PLAN.replace("Test it", "Delete everything"), "delay_ms": 200}
    says = script(tmp_path, {"text": PLAN}, other, {"text": "done"}, loop=True)
    async with on_stage(home, cwd=work, model=says) as stage:
        await stage.run("/plan")
        await stage.say("change it")
        stage.session.send("no, in another way")
        await stage.until(events.TextDelta, lambda event: event.turn == 2)
        stage.session.command("/plan approve")
        ended = await stage.until(events.CommandEnded, lambda event: "approve" in event.command)
        assert not ended.ok
        await stage.idle()
    assert [each.stage for each in stage.entries(PlanChanged)] == ["planning"]
