"""Running tools: circles are noticed, questions are answered once, a bug is the tool's own."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.run_tools import LoopWatch, use_tools
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.tools.base import ToolContext, ToolResult
from tests.core.agent.stage import Replies, context_of, kinds, tool, window_in


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=f"c-{name}", name=name, arguments=arguments)


def test_another_result_breaks_the_circle() -> None:
    watch = LoopWatch()
    for result in ("a", "a", "b", "b"):
        assert watch.why_not(call("look")) is None
        watch.note(call("look"), result)
    assert watch.why_not(call("look")) is None
    watch.note(call("look"), "b")
    assert "same result 3 times" in str(watch.why_not(call("look")))
    assert watch.why_not(call("look", '{"at":2}')) is None


def test_results_that_take_turns_are_a_circle_too() -> None:
    watch = LoopWatch()
    for _ in range(3):
        assert watch.why_not(call("look")) is None
        watch.note(call("look"), "open")
        watch.note(call("look"), "closed")
    assert "the same 2 calls" in str(watch.why_not(call("look")))


async def test_a_question_is_open_before_it_is_asked_and_the_answer_decides(home: Path) -> None:
    context = context_of(window_in(home), Replies(), tool("write", "write"))
    ended: list[str] = []
    answers = iter((False, True))

    def tell(*told: events.AnyEvent) -> None:
        for event in told:
            if isinstance(event, events.ToolAsked):
                answer = events.Answer(allowed=next(answers))
                assert context.questions.answer(event.call, answer)
            if isinstance(event, events.ToolEnded):
                ended.append(event.status)

    for _ in range(2):
        await use_tools(context, 1, (call("write"),), LoopWatch(), tell)
    assert ended == ["refused", "ok"]
    assert not context.questions.answer("c-write", events.Answer(allowed=True))
    found = kinds(context)
    assert (found.count("tool_called"), found.count("tool_refused")) == (2, 1)
    assert found.count("tool_returned") == 2


async def test_a_bug_in_a_tool_is_a_result_and_is_reported(home: Path) -> None:
    async def fail(arguments: object, context: ToolContext) -> ToolResult:
        raise KeyError("stone")

    bugs: list[BaseException] = []
    broken = msgspec.structs.replace(tool(), run=fail)
    context = context_of(window_in(home), Replies(), broken, bugs=bugs)
    told: list[events.AnyEvent] = []
    watch = LoopWatch()
    await use_tools(context, 1, (call("look"),), watch, lambda *some: told.extend(some))
    assert isinstance(told[-1], events.ToolEnded)
    assert told[-1].status == "error"
    assert "stone" not in told[-1].text  # nobody fenced what an error quotes
    assert [type(bug) for bug in bugs] == [KeyError]
