"""A pattern that is compiled late is the pattern, and none of ours is one that cannot be."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from mindstone_tui import core
from mindstone_tui.core.patterns import _Uncompiled, pattern_of


def test_it_answers_as_the_compiled_pattern_does() -> None:
    source = r"(?P<word>\w+) ?"
    late, compiled = pattern_of(source, re.ASCII), re.compile(source, re.ASCII)
    text = "one two é"
    assert late.pattern == compiled.pattern
    assert late.findall(text) == compiled.findall(text)
    assert [each.span() for each in late.finditer(text)] == [
        each.span() for each in compiled.finditer(text)
    ]
    assert late.sub(r"<\g<word>>", text) == compiled.sub(r"<\g<word>>", text)
    assert late.split(text) == compiled.split(text)
    assert (late.flags, late.groups, late.groupindex) == (
        compiled.flags,
        compiled.groups,
        compiled.groupindex,
    )
    assert pattern_of(rb"\d").search(b"x1")


def test_it_is_compiled_when_it_is_first_used_and_not_before() -> None:
    broken = pattern_of("(")
    with pytest.raises(re.error):
        broken.search("")


def patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, _Uncompiled):
        yield value  # type: ignore[misc]
    elif isinstance(value, dict):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from patterns_in(each)


def test_every_pattern_of_the_core_can_be_compiled() -> None:
    seen = 0
    for each in pkgutil.walk_packages(core.__path__, f"{core.__name__}."):
        if each.name.endswith("__main__"):
            continue
        for found in patterns_in(list(vars(importlib.import_module(each.name)).values())):
            assert re.compile(found.pattern, found.flags).groups >= 0, each.name
            seen += 1
    assert seen > 300
