"""Chunks of any shape become deltas, without any library."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.errors import ProviderError, ProviderNonsense
from mindstone_tui.core.providers.base import CallDelta, Delta, TextPart, ThinkingPart
from mindstone_tui.core.providers.stream import Joined, Translator, usage_of
from tests.faults import sized


def delta(**fields: object) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": None}]}


def call(index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, **fields}])


def told(*chunks: object) -> list[Delta]:
    translator = Translator()
    deltas = [each for chunk in chunks for each in translator.take(chunk)]
    return [*deltas, *translator.end()]


def calls_in(*chunks: object) -> dict[int, tuple[str, str, str]]:
    gathered: dict[int, tuple[str, str, str]] = {}
    for each in told(*chunks):
        assert isinstance(each, CallDelta)
        before = gathered.get(each.index, ("", "", ""))
        gathered[each.index] = (
            before[0] or each.id,
            before[1] or each.name,
            before[2] + each.arguments,
        )
    return gathered


def test_objects_and_mappings_are_read_alike() -> None:
    inner = SimpleNamespace(content="Hi", tool_calls=None, reasoning_content=None)
    chunk = SimpleNamespace(choices=[SimpleNamespace(delta=inner, finish_reason="stop")])
    assert told(chunk) == told(delta(content="Hi")) == [TextPart(text="Hi")]


def test_a_signature_closes_the_thought_without_repeating_it() -> None:
    deltas = told(
        delta(thinking_blocks=[{"type": "thinking", "thinking": "a "}], reasoning_content="a "),
        delta(thinking_blocks=[{"type": "thinking", "thinking": "b"}], reasoning_content="b"),
        delta(thinking_blocks=[{"type": "thinking", "thinking": "a b", "signature": "s"}]),
        delta(thinking_blocks=[{"type": "redacted_thinking", "data": "xyz"}]),
    )
    assert deltas == [
        ThinkingPart(text="a "),
        ThinkingPart(text="b"),
        ThinkingPart(signature="s"),
        ThinkingPart(redacted="xyz"),
    ]


def test_fragments_find_their_call() -> None:
    head = {"name": "read", "arguments": ""}
    assert calls_in(
        call(0, id="a", function=head),
        call(1, id="b", function=head),
        call(0, function={"arguments": "{1"}),
        call(1, function={"arguments": "{2"}),
        call(0, function={"arguments": "}"}),
    ) == {0: ("a", "read", "{1}"), 1: ("b", "read", "{2")}


def test_calls_that_all_have_the_number_0_are_told_apart_by_their_ids() -> None:
    function = {"name": "read", "arguments": "{}"}
    assert calls_in(call(0, id="a", function=function), call(0, id="b", function=function)) == {
        0: ("a", "read", "{}"),
        1: ("b", "read", "{}"),
    }


def test_calls_without_a_number_are_told_apart_by_their_headers() -> None:
    assert calls_in(
        call(None, function={"name": "read", "arguments": "{1"}),
        call(None, function={"arguments": "}"}),
        call(None, function={"name": "list", "arguments": "{2}"}),
    ) == {0: ("", "read", "{1}"), 1: ("", "list", "{2}")}


def test_a_repeated_header_changes_nothing() -> None:
    header = call(0, id="a", function={"name": "read", "arguments": ""})
    more = call(0, function={"arguments": "{}"})
    assert calls_in(header, header, more) == {0: ("a", "read", "{}")}


@pytest.mark.parametrize(
    "chunk",
    [None, 3, "text", [], {}, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": 7}]}],
)
def test_what_is_no_chunk_says_nothing(chunk: object) -> None:
    assert told(chunk) == []


NAMES = (
    *("choices", "delta", "content", "tool_calls", "function", "name", "arguments", "id", "index"),
    *("usage", "model", "finish_reason", "thinking_blocks", "thinking", "signature"),
)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES) | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=sized(100, 10_000))
@given(st.lists(json_like, max_size=6))
def test_no_chunk_can_break_the_translator(chunks: list[object]) -> None:
    try:
        deltas = told(*chunks)
    except ProviderError:
        return
    for each in deltas:
        text = each.text if isinstance(each, TextPart | ThinkingPart) else ""
        assert text.encode("utf-8", "replace").decode() == text, "half a character"


@given(st.text(), st.data())
def test_text_cut_anywhere_even_in_a_character_is_the_text(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units) // 2), max_size=5)))
    edges = [0, *(cut * 2 for cut in cuts), len(units)]
    pieces = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in itertools.pairwise(edges)]
    joined = Joined()
    assert "".join([*(joined.add(piece) for piece in pieces), joined.end()]) == text


def test_an_answer_without_end_is_stopped() -> None:
    translator = Translator(longest=10)
    assert list(translator.take(delta(content="x" * 10)))
    with pytest.raises(ProviderNonsense):
        list(translator.take(delta(content="x")))


@pytest.mark.parametrize(
    ("report", "usage"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(prompt=3, completion=4)),
        ({"input_tokens": 3, "cache_read_input_tokens": 2}, Usage(prompt=3, cached=2)),
        ({"prompt_tokens": -1, "completion_tokens": "4"}, Usage()),
        ({"prompt_tokens": True, "cost": -1.0}, Usage()),
        ({"cost": 0.25}, Usage(cost=0.25)),
        ({"cost": float("nan")}, Usage()),
        (None, Usage()),
    ],
)
def test_only_sensible_figures_are_believed(report: object, usage: Usage) -> None:
    assert usage_of(report) == usage
