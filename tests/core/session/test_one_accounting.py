"""One accounting: whatever shows the window shows the same numbers, at every moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindstone_tui.api import Home, context
from mindstone_tui.core import events
from mindstone_tui.core.events import ContextReport
from tests.core.session.stage import Stage, calls, on_stage, script

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
    "/rewind turn 4",
    "/task start Fix the gauge",
    "one more",
)


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
    assert stage.session.services.context.report() == report, "the panel is behind"
    assert status["budget"]["total_used"] == total
    text, budget = await printed(stage, "/budget")
    assert budget["total_used"] == total
    assert {each["name"]: each["used"] for each in budget["components"]} == shares
    assert f"{total:,} of {report.usable:,} tokens" in text
    listed, _ = await printed(stage, "/context list")
    assert f"prompt {total:,} tokens" in listed
    if recorded:
        looked = context(home=Home(home, {}))
        assert looked.outside == report.outside
        assert (looked.prompt.tokens, parts(looked)) == (total, shares)
        assert looked.prompt_hash == report.prompt_hash
    return report


async def test_every_surface_says_the_same_in_every_state(home: Path, tmp_path: Path) -> None:
    (home.parent / "notes.txt").write_text("the gauge is broken\n" * 40)
    model = script(
        tmp_path,
        {"text": "Hello. " * 60},
        calls(("read", {"path": "notes.txt"})),
        {"text": "Done. " * 80},
        loop=True,
    )
    async with on_stage(home, model=model, context_window=32_768, follow=True) as stage:
        before = await check_surfaces(stage, home, recorded=False)
        assert all(parts(before)[name] for name in FIXED), "counted before the first turn"
        recorded = True
        for step in STEPS:
            if step.startswith("/"):
                await stage.run(step)
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
    async with on_stage(home, model=model, context_window=32_768, follow=True) as stage:
        # Tools that were switched off and on again are offered in their first order.
        again = await check_surfaces(stage, home, recorded=False)
        assert again.prompt.tokens == before.prompt.tokens
        assert again.outside == before.outside


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


@pytest.mark.parametrize("left", [1, 3])
async def test_what_left_is_listed_with_its_words_and_what_restoring_costs(
    home: Path, tmp_path: Path, left: int
) -> None:
    model = script(tmp_path, {"text": "Noted. " * 40}, loop=True)
    async with on_stage(home, model=model, context_window=32_768) as stage:
        for number in range(1, 7):
            await stage.say(f"question number {number}, please")
        for _ in range(left):
            await stage.run("/prune 1")
        report = stage.all(events.ContextReported)[-1].report
        assert report.outside.exchanges == len(report.gone) == left
        assert report.gone[-1].words.startswith("question number 1")
        before, cost = report.prompt.tokens, report.gone[-1].tokens
        await stage.run(f"/restore turn {report.gone[-1].turn}")
        after = stage.all(events.ContextReported)[-1].report
        assert len(after.gone) == left - 1
        # The marker line that says what is outside changes with it, by a few tokens.
        assert abs(after.prompt.tokens - before - cost) <= 60
    async with on_stage(home, model=model, context_window=32_768) as stage:
        await stage.until(events.ContextReported)
        again = stage.all(events.ContextReported)[-1].report
        assert again.gone == after.gone, "a session that is opened again lists the same"
