"""The word lists as they ship: what only shows when a list is first used is looked at here."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from mindstone_tui import core
from mindstone_tui.core.language.lists import (
    expression,
    lists_in,
    lists_of,
    pattern_beside,
    verb,
)
from mindstone_tui.core.providers.guide.provider import wishes
from mindstone_tui.core.statements.cues import all_cues

CORE = Path(core.__file__).parent
FILES = sorted(CORE.rglob("*.txt"))
EXPRESSIONS = ("errors", "topics", "local_evidence", "local_prompt")
"""Files whose lists are regular expressions, each over as many lines as it needs."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_line_is_empty_at_its_end_and_no_entry_stands_twice(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    for name, entries in lists_in(path).items():
        assert entries, name
        assert [entry for entry, times in Counter(entries).items() if times > 1] == [], name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_two_lists_of_a_file_have_one_name(path: Path) -> None:
    heads = re.findall(r"(?m)^\[(.+)\]$", path.read_text(encoding="utf-8"))
    assert len(heads) == len(set(heads)) == len(lists_in(path))


def test_every_expression_of_the_lists_is_one() -> None:
    re.compile(verb())
    for name, phrases in lists_of("phrases").items():
        assert re.compile("|".join(phrases)), name
    for cue in all_cues():
        patterns = [each for each in (cue.start, cue.clause, cue.within) if each is not None]
        assert patterns, cue.example
        for pattern in patterns:
            assert not re.search(r"<[a-z ]+>", pattern.pattern), cue.example
            re.compile(pattern.pattern)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_over_several_lines_is_one_and_finds_no_empty_text(name: str) -> None:
    (path,) = CORE.glob(f"providers/**/{name}.txt")
    for each in lists_in(path):
        assert expression(path, each).fullmatch("") is None, each


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_expression_beside_a_module_is_one(path: Path) -> None:
    module = path.with_suffix(".py")
    source = module.read_text(encoding="utf-8") if module.is_file() else ""
    for name in re.findall(r'pattern_beside\(__file__, "([a-z ]+)"', source):
        found = pattern_beside(str(module), name)
        assert "(?&" not in found.pattern, name
        found.search("")


def test_every_way_to_wish_for_a_tool_can_be_read() -> None:
    assert wishes("nothing of the kind") == []
    assert [wish.tool for wish in wishes("please read notes.txt.")] == ["read"]
