"""A small part of every room, so that none of them decays until somebody runs `make red`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.red import Tried
from tests.red.__main__ import ROOMS, room_named
from tests.red.fuzz import failure, found


@pytest.mark.thorough
@pytest.mark.parametrize("name", ROOMS)
def test_a_small_part_of_each_room_holds(name: str, tmp_path: Path) -> None:
    cases = list(room_named(name)(Tried(base=tmp_path, small=True)))
    assert cases
    assert [f"{case.name}: {case.problem}" for case in cases if case.problem] == []


@pytest.mark.parametrize(("target", "path"), found(), ids=lambda each: getattr(each, "name", ""))
def test_what_was_found_once_is_not_found_again(target: object, path: Path) -> None:
    assert failure(target, path.read_bytes()) == ""  # type: ignore[arg-type]
