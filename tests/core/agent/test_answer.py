"""Pieces of a stream gathered into one answer, and calls that go round in circles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.agent.answer import Gathering
from mindstone_tui.core.agent.run_tools import CYCLES, REPEATS, LoopWatch
from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.providers.base import CallDelta, TextPart, ThinkingPart

LONGEST_ARGUMENTS = 4_194_304


def call(arguments: str = "{}", name: str = "read") -> ToolCall:
    return ToolCall(id="a", name=name, arguments=arguments)


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=5), st.text(max_size=5))))
def test_however_the_pieces_come_every_call_has_an_id_of_its_own(
    pieces: list[tuple[int, str, str]],
) -> None:
    gathering = Gathering(1, 1, {"x"})
    for index, call_id, arguments in pieces:
        gathering.take(CallDelta(index=index, id=call_id, name="read", arguments=arguments))
    found = gathering.calls
    ids = [each.id for each in found]
    assert len(set(ids)) == len(ids) == len({index for index, _, _ in pieces})
    assert all(ids)
    assert "x" not in ids
    for index, each in zip(sorted({index for index, _, _ in pieces}), found, strict=True):
        joined = "".join(part for at, _, part in pieces if at == index)
        assert each.arguments == (joined or "{}")


def test_a_call_without_a_name_is_no_call() -> None:
    gathering = Gathering(1, 1)
    gathering.take(CallDelta(index=0, arguments="{}"))
    assert gathering.calls == ()


def test_arguments_without_end_are_cut() -> None:
    gathering = Gathering(1, 1)
    for _ in range(5):
        gathering.take(CallDelta(index=0, name="write", arguments="x" * (1 << 20)))
    assert len(gathering.calls[0].arguments) == LONGEST_ARGUMENTS


def test_a_signature_closes_its_thought() -> None:
    gathering = Gathering(1, 1)
    for delta in (
        ThinkingPart(text="first "),
        ThinkingPart(text="thought", signature="s1"),
        ThinkingPart(text="open"),
        TextPart(text="said"),
    ):
        gathering.take(delta)
    assert gathering.thinking == (
        Thinking(text="first thought", signature="s1"),
        Thinking(text="open"),
    )
    assert gathering.text == "said"


def test_the_same_call_with_the_same_result_is_not_run_for_ever() -> None:
    watch = LoopWatch()
    for _ in range(REPEATS):
        assert watch.why_not(call()) is None
        watch.note(call(), "same")
    assert "same result" in str(watch.why_not(call()))
    assert watch.why_not(call('{"path":"other"}')) is None


def test_a_call_whose_result_changes_may_go_on() -> None:
    watch = LoopWatch()
    for number in range(20):
        assert watch.why_not(call()) is None
        watch.note(call(), f"result {number}")


def test_a_circle_of_calls_is_noticed() -> None:
    watch = LoopWatch()
    first, second = call("1"), call("2")
    for _ in range(CYCLES):
        for each in (first, second):
            assert watch.why_not(each) is None
            watch.note(each, "same")
    assert watch.why_not(first) is not None
