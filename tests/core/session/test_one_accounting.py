"""One accounting: whatever shows the window shows the same numbers, at every moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.api import Home, context
from mindstone_tui.core import events, numbers
from mindstone_tui.core.entries.derived import JobEnded
from mindstone_tui.core.events import ContextReport
from mindstone_tui.tui import gauges
from tests.core.session.stage import PATIENCE, Stage, calls, on_stage, script

RESTORE = "(restore what left last)"
BACK = "(the first model)"
FIXED = ("system_prompt", "tool_definitions")
STEPS = (
    "hello there",
    "read the notes",
    "/pin turn 1",
    "/unpin turn 1",
    "/prune turn 1",
    "/restore turn 1",
    "/policy lru",
    "/prune 1",
    "and again",
    "/tools off grep",
    "/tools on grep",
    "/mode auto_compact",
    "/compact",
    "go on",
    "/rewind turn 3",
    "/task start Fix the gauge",
    "one more",
    "/task done",
    "/pin",
    "with a pin",
    "/mode cascade",
    "in another mode",
    "/mode sliding_window",
    "/prune 2",
    RESTORE,
    "after it came back",
    "/prune results",
    "/model local/guide",
    "what does prune mean?",
    BACK,
    "and with the first model again",
    "/tools off shell",
    "without a shell",
    "/tools on shell",
    "/policy fifo",
    "/recall off",
    "without recall",
    "/recall on",
    "/checkpoint",
    "/title The gauge",
)


def fields_of(report: ContextReport) -> tuple[str, ...]:
    return report.__struct_fields__


def left(report: ContextReport) -> tuple[int, int]:
    """What left the window; its vectors follow in their own time."""
    return report.outside.exchanges, report.outside.tokens


def parts(report: ContextReport) -> dict[str, int]:
    return {each.name: each.tokens for each in report.components}


async def printed(stage: Stage, line: str) -> tuple[str, dict[str, Any]]:
    here = len(stage.heard)
    await stage.run(line)
    said = [e for e in stage.heard[here:] if isinstance(e, events.CommandPrinted)]
    return "\n".join(each.text for each in said), dict(said[-1].data or {})


async def check_surfaces(stage: Stage, home: Path, *, recorded: bool) -> ContextReport:
    """The newest announced report, after every other surface was asked for the same."""
    await stage.until(events.ContextReported)
    await stage.rest()
    _, status = await printed(stage, "/status")
    report = stage.all(events.ContextReported)[-1].report
    total, shares = report.prompt.tokens, parts(report)
    assert sum(tokens for name, tokens in shares.items() if name != "output_reserve") == total
    now = stage.session.services.context.report()
    behind = [
        name
        for name in fields_of(now)
        if name != "outside" and getattr(now, name) != getattr(report, name)
    ]
    assert left(now) == left(report)
    assert not behind, [(name, getattr(report, name), getattr(now, name)) for name in behind]
    assert status["budget"]["total_used"] == total
    text, budget = await printed(stage, "/budget")
    assert budget["total_used"] == total
    assert {each["name"]: each["used"] for each in budget["components"]} == shares
    assert f"{total:,} of {report.usable:,} tokens" in text
    listed, _ = await printed(stage, "/context list")
    assert f"prompt {total:,} tokens" in listed
    shown = f"{numbers.tokens(total)} of {numbers.tokens(report.usable)} tokens"
    assert shown in gauges.size(report).plain, "the panel"
    line = gauges.status(report, wide=True).plain
    assert f"{numbers.percent(report.utilization)}  {numbers.tokens(total)}/" in line
    if recorded:
        looked = context(home=Home(home, {}))
        assert left(looked) == left(report)
        assert (looked.prompt.tokens, parts(looked)) == (total, shares)
        assert looked.prompt_hash == report.prompt_hash
    return report


async def check_the_past(stage: Stage, home: Path, sent: ContextReport) -> None:
    """What a replay says of the request that was just sent, and health of the turn's end."""
    then = context(home=Home(home, {}), turn=sent.turn, call=sent.call)
    assert (then.prompt.tokens, parts(then)) == (sent.prompt.tokens, parts(sent))
    assert then.prompt_hash == sent.prompt_hash
    async with asyncio.timeout(PATIENCE):  # it is measured when the turn is over
        _, health = await printed(stage, "/health")
        while not health["turns"] or health["turns"][-1]["turn"] != sent.turn:
            _, health = await printed(stage, "/health")
    now = stage.session.services.context.report()
    assert health["turns"][-1]["utilization"] == pytest.approx(now.utilization, abs=0.001)


@pytest.mark.thorough
async def test_every_surface_says_the_same_in_every_state(home: Path, tmp_path: Path) -> None:
    (home.parent / "notes.txt").write_text("the gauge is broken\n" * 40)
    model = script(
        tmp_path,
        {"text": "Hello. " * 60},
        calls(("read", {"path": "notes.txt"})),
        {"text": "Done. " * 80},
        loop=True,
    )
    assert len(STEPS) >= 40
    async with on_stage(home, model=model, context_window=32_768, follow=True) as stage:
        before = await check_surfaces(stage, home, recorded=False)
        assert all(parts(before)[name] for name in FIXED), "counted before the first turn"
        recorded = True
        for written in STEPS:
            sent = None
            step = {BACK: f"/model {model}"}.get(written, written)
            if written == RESTORE:
                step = f"/restore turn {before.gone[0].turn}"
            if step.startswith("/"):
                ended, told = await stage.run(step)
                assert ended.ok, f"{step}: {told}"
            else:
                calls_before = len(stage.all(events.ModelCalled))
                here = len(stage.heard)
                await stage.say(step)
                assert len(stage.all(events.ModelCalled)) > calls_before
                sent = next(
                    e.report
                    for e in stage.heard[here:]
                    if isinstance(e, events.ContextReported) and e.report.call
                )
                for name in FIXED:
                    assert parts(sent)[name] == parts(before)[name], f"{name} before {step}"
            # What a turn will record first is known to the live session alone until then.
            recorded = not step.startswith(("/tools", "/task")) and (recorded or step[0] != "/")
            before = await check_surfaces(stage, home, recorded=recorded)
            if sent is not None:
                await check_the_past(stage, home, sent)
    async with on_stage(home, model=model, context_window=32_768, follow=True) as stage:
        # Tools that were switched off and on again are offered in their first order.
        again = await check_surfaces(stage, home, recorded=False)
        assert again.prompt.tokens == before.prompt.tokens
        assert left(again) == left(before)


async def test_after_a_switch_the_next_models_prompt_is_counted(home: Path) -> None:
    """The small model takes no tools; from the moment it is chosen none are counted."""
    async with on_stage(home, model="") as stage:
        await stage.say("hello")
        with_tools = stage.all(events.ContextReported)[-1].report
        assert parts(with_tools)["tool_definitions"]
        stage.session.services.context.tools.clear()
        await stage.run("/model local/guide")
        report = await check_surfaces(stage, home, recorded=False)
        assert not parts(report)["tool_definitions"]


async def test_a_window_that_was_measured_says_nothing_about_the_next_model(
    home: Path, tmp_path: Path
) -> None:
    unknown = script(tmp_path, {"text": "Yes."}, loop=True)
    async with on_stage(home, model="local/guide") as stage:
        await stage.say("hello there")
        assert stage.session.services.context.report().window.label == "measured"
        await stage.run(f"/model {unknown}")
        assert stage.session.services.context.report().window.label == "assumed"


@pytest.mark.parametrize("gone", [1, 3])
async def test_what_left_is_listed_with_its_words_and_what_restoring_costs(
    home: Path, tmp_path: Path, gone: int
) -> None:
    model = script(tmp_path, {"text": "Noted. " * 40}, loop=True)
    async with on_stage(home, model=model, context_window=32_768) as stage:
        for number in range(1, 7):
            await stage.say(f"question number {number}, please")
        for _ in range(gone):
            await stage.run("/prune 1")
        report = stage.all(events.ContextReported)[-1].report
        assert report.outside.exchanges == len(report.gone) == gone
        assert report.gone[-1].words.startswith("question number 1")
        before, cost = report.prompt.tokens, report.gone[-1].tokens
        await stage.run(f"/restore turn {report.gone[-1].turn}")
        after = stage.all(events.ContextReported)[-1].report
        assert len(after.gone) == gone - 1
        # The marker line that says what is outside changes with it, by a few tokens.
        assert abs(after.prompt.tokens - before - cost) <= 60
    async with on_stage(home, model=model, context_window=32_768) as stage:
        await stage.until(events.ContextReported)
        again = stage.all(events.ContextReported)[-1].report
        assert again.gone == after.gone, "a session that is opened again lists the same"


async def test_a_request_is_reported_as_it_was_planned_whatever_is_written_right_after(
    home: Path, tmp_path: Path
) -> None:
    ended = JobEnded(job=1, command="make", ending="exited")
    model = script(tmp_path, {"text": "One."}, {"text": "Two."})

    async def note_after_plans() -> None:
        while True:
            window = stage.session.services.context.window
            if window.fold.plan is not None and window.fold.head == window.fold.plan.seq:
                window.record(ended)
            await asyncio.sleep(0)

    async with on_stage(home, model=model) as stage:
        noting = asyncio.create_task(note_after_plans())
        await stage.say("first")
        await stage.say("second")  # what is reported of both is compared when the stage closes
        noting.cancel()
        kinds = [line.kind for line in stage.lines()]
        follows = [kinds[at + 1] for at, kind in enumerate(kinds) if kind == "prompt_planned"]
        assert follows == ["job_ended"] * 2
