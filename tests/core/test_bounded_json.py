"""Arguments a model wrote: their depth is counted, so every stack reads them the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.bounded_json import is_too_deep, read_arguments

DEEPEST = 100


def nested(depth: int) -> str:
    """An object that holds lists, so many levels in all."""
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def far_down(frames: int, do: Callable[[], Any]) -> Any:
    """Do something with so many calls on the stack already."""
    return far_down(frames - 1, do) if frames else do()


def test_the_depth_of_the_stack_changes_nothing() -> None:
    for depth in (DEEPEST, DEEPEST + 1, 850, 960, 100_000):
        here = read_arguments(nested(depth))
        there = far_down(600, partial(read_arguments, nested(depth)))
        assert here == there
        assert (here is None) == (depth > DEEPEST)


def depth_of(value: object) -> int:
    """The depth of a value, counted in the value itself."""
    match value:
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case _:
            return 0


VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(alphabet='[]{}"\\ ab\n'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=VALUES, limit=st.integers(0, 5))
def test_brackets_count_outside_of_strings_only(value: object, limit: int) -> None:
    assert is_too_deep(json.dumps(value), limit) == (depth_of(value) > limit)


@pytest.mark.parametrize("written", ["", "[]", "nonsense", '{"a":"\ud800"}', '{"a":1e999999}'])
def test_what_is_no_object_is_no_arguments(written: str) -> None:
    assert read_arguments(written) is None


def test_a_text_that_never_closes_its_string_is_read_once() -> None:
    assert not is_too_deep('"' + '\\"[' * 200_000, DEEPEST)
