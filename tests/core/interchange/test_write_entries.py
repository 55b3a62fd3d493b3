"""Whatever order a file has its records in, what comes out are whole steps."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.interchange.formats.base import NO_RESULT, Gave, Said
from mindstone_tui.core.interchange.steps import Assembler, WriteStep
from mindstone_tui.core.interchange.write_entries import Seen

_CALLS = st.lists(st.sampled_from("abcde"), max_size=3)
_RECORDS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.just([])),
        st.tuples(st.just("assistant"), _CALLS),
        st.tuples(st.just("tool"), st.sampled_from([["a"], ["b"], ["c"], ["d"], ["e"], [""]])),
    ),
    max_size=30,
)


def _assembled(records: list[tuple[str, list[str]]]) -> list[WriteStep]:
    assembler = Assembler()
    steps: list[WriteStep] = []
    for number, (role, names) in enumerate(records):
        if role == "tool":
            steps += assembler.give(Gave(line=number, call=names[0], text=f"result {number}"))
            continue
        calls = tuple(ToolCall(id=name, name="tool", arguments="{}") for name in names)
        steps += assembler.say(
            Said(
                line=number,
                role="user" if role == "user" else "assistant",
                text=f"said {number}",
                calls=calls,
            )
        )
    steps += assembler.close()
    return steps


@given(_RECORDS)
def test_every_call_has_one_result_and_nothing_is_lost(
    records: list[tuple[str, list[str]]],
) -> None:
    steps = _assembled(records)

    for step in steps:
        ids = [each.call.id for each in step.answered]
        assert ids == [call.id for call in step.said.calls]
        assert len(ids) == len(set(ids))
    given_back = Counter(each.result.text for step in steps for each in step.answered)
    del given_back[NO_RESULT]
    wanted = Counter(f"result {n}" for n, (role, _) in enumerate(records) if role == "tool")
    assert given_back == wanted
    said = " ".join(step.said.text for step in steps).split()
    order = [int(word) for word in said if word.isdigit()]
    assert order == [n for n, (role, _) in enumerate(records) if role != "tool"]


@given(_RECORDS)
def test_a_user_message_opens_an_exchange_and_nothing_crosses_it(
    records: list[tuple[str, list[str]]],
) -> None:
    steps = _assembled(records)
    for at, step in enumerate(steps):
        if step.said.role == "user":
            assert step.opens
        elif step.opens:
            assert at == 0


@given(st.integers(1, 300))
def test_equals_are_counted_apart(count: int) -> None:
    first, second = Seen(), Seen()
    keys = [first.take("go on", once=False) for _ in range(count)]
    assert None not in keys
    assert len(set(keys)) == count
    assert [second.take("go on", once=False) for _ in range(count)] == keys
    assert first.take("with an id", once=True) is not None
    assert first.take("with an id", once=True) is None
