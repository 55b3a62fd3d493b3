"""The word lists as they ship: what only shows when a list is first used is looked at here."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from mindstone_tui.core.language import lists
from mindstone_tui.core.language.lists import lists_in, lists_of, verb
from mindstone_tui.core.statements import cues
from mindstone_tui.core.statements.cues import all_cues

DATA = sorted(Path(lists.__file__).with_name("data").glob("*.txt"))
CUES = Path(cues.__file__).with_name("cues.txt")


@pytest.mark.parametrize("path", [*DATA, CUES], ids=lambda path: path.name)
def test_no_line_is_empty_at_its_end_and_no_entry_stands_twice(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    for name, entries in lists_in(path).items():
        assert entries, name
        assert [entry for entry, times in Counter(entries).items() if times > 1] == [], name


@pytest.mark.parametrize("path", [*DATA, CUES], ids=lambda path: path.name)
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
