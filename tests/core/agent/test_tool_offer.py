"""Tools over their share come on demand; what is needed always stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import choose
from mindstone_tui.core.entries import ToolSchema
from mindstone_tui.core.entries.base import MORE_TOOLS
from mindstone_tui.core.entries.conversation import ToolReturned
from tests.core.session.stage import calls, on_stage, script

ALWAYS = frozenset({"edit", "grep", "list", "read", "read_entry", "recall", "shell", "write"})

EXTRA = ("delegate", "glob", "note", "remember")


def schema(name: str) -> ToolSchema:
    return ToolSchema(name=name, description=f"What {name} is for.", parameters={})


def size(tools: Sequence[ToolSchema]) -> int:
    """100 for each tool, and 10 for each that is only named."""
    return sum(100 + 10 * tool.description.count(":") * (tool.name == MORE_TOOLS) for tool in tools)


TOOLS = [schema(name) for name in (*sorted(ALWAYS), *EXTRA)]


def names(tools: Sequence[ToolSchema]) -> list[str]:
    return [tool.name for tool in tools]


def test_what_fits_is_offered_as_it_is() -> None:
    assert choose(TOOLS, size, 1_200, EXTRA) == tuple(TOOLS)


def test_the_least_wanted_are_named_instead() -> None:
    offered = choose(TOOLS, size, 1_150, ("remember", "glob", "delegate", "note"))
    assert names(offered) == [*sorted(ALWAYS), "glob", "remember", MORE_TOOLS]
    assert "note: What note is for." in offered[-1].description
    assert "delegate: What delegate is for." in offered[-1].description
    assert size(offered) <= 1_150


def test_what_is_needed_always_stays_however_small_the_share_is() -> None:
    offered = choose(TOOLS, size, 10, EXTRA)
    assert names(offered) == [*sorted(ALWAYS), MORE_TOOLS]
    only = [schema(name) for name in sorted(ALWAYS)]
    assert choose(only, size, 10, ()) == tuple(only)


def test_nothing_is_left_out_where_that_gains_nothing() -> None:
    tools = [schema("read"), schema("note")]
    assert choose(tools, size, 150, ()) == tuple(tools)


def test_thousands_of_tools_are_not_counted_again_for_each_of_them() -> None:
    many = [*TOOLS, *(schema(f"tool{number}") for number in range(2_000))]
    counted: list[int] = []

    def counting(tools: Sequence[ToolSchema]) -> int:
        counted.append(len(tools))
        return size(tools)

    offered = choose(many, counting, 50_000, [tool.name for tool in many])
    assert 49_800 < size(offered) <= 50_000
    assert sum(counted) < 20 * len(many)


async def test_a_tool_that_is_asked_for_is_in_the_next_request(home: Path, tmp_path: Path) -> None:
    model = script(
        tmp_path,
        {"text": "Hello."},
        calls(("more_tools", {"tool": "note"})),
        calls(("note", {"section": "misc", "text": "The port is 8790."})),
        {"text": "Noted."},
        {"text": "Good."},
    )
    async with on_stage(home, model=model, context_window=8_192) as stage:
        await stage.say("hello")
        report = stage.all(events.ContextReported)[-1].report
        offered = {tool.name for tool in stage.session.services.context.window.fold.tools}
        assert MORE_TOOLS in offered
        assert "note" not in offered
        assert offered >= ALWAYS
        assert {each.name for each in report.tools} == offered
        await stage.say("note the port")
        assert [each.status for each in stage.entries(ToolReturned)] == ["ok", "ok"]
        assert "note" in {tool.name for tool in stage.session.services.context.window.fold.tools}
    async with on_stage(home, model=model, context_window=8_192) as stage:
        await stage.say("go on")
        again = {tool.name for tool in stage.session.services.context.window.fold.tools}
        assert "note" in again, "what was asked for stays offered"
