"""The raw copy of another program's file: whole, byte for byte, through kills and replacements."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindstone_tui.core.errors import InterchangeError
from mindstone_tui.core.library.raw_copy import RawCopy
from mindstone_tui.core.paths import Places, SessionKey

PLENTY = 1 << 30


def copy_in(home: Path) -> RawCopy:
    places = Places.resolve({"MINDSTONE_HOME": str(home)})
    return RawCopy(places.session(SessionKey.parse("agent:default:theirs")))


@given(pieces=st.lists(st.binary(max_size=90_000), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_a_file_that_grew_and_was_deleted_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    theirs = folder / "projects" / "s.jsonl"
    theirs.parent.mkdir()
    for at in range(1, len(pieces) + 1):
        theirs.write_bytes(b"".join(pieces[:at]))
        assert copy_in(folder / "home").take(theirs, PLENTY)
    whole = theirs.read_bytes()
    theirs.unlink()
    if whole:
        assert copy_in(folder / "home").give_back() == theirs
        assert theirs.read_bytes() == whole


def test_a_take_that_was_killed_between_its_two_steps_leaves_one_whole_copy(tmp_path: Path) -> None:
    theirs = tmp_path / "s.jsonl"
    theirs.write_bytes(b"one\n")
    kept = copy_in(tmp_path / "home")
    kept.take(theirs, PLENTY)
    (first,) = (tmp_path / "home").rglob("0-4.z")
    before = first.read_bytes()
    theirs.write_bytes(b"one\ntwo\n")
    kept.take(theirs, PLENTY)
    first.write_bytes(before)  # the longer piece was written, and this one not yet deleted
    theirs.write_bytes(b"one\ntwo\nthree\n")
    kept.take(theirs, PLENTY)
    theirs.unlink()
    assert kept.give_back().read_bytes() == b"one\ntwo\nthree\n"


def test_a_file_in_whose_place_another_stands_is_not_overwritten(tmp_path: Path) -> None:
    theirs = tmp_path / "s.jsonl"
    theirs.write_bytes(b"ours\n")
    kept = copy_in(tmp_path / "home")
    kept.take(theirs, PLENTY)
    theirs.write_bytes(b"somebody else's\n")
    with pytest.raises(InterchangeError, match="not what was kept"):
        kept.give_back()
    assert theirs.read_bytes() == b"somebody else's\n"
    kept.take(theirs, PLENTY)
    theirs.unlink()
    assert kept.give_back().read_bytes() == b"somebody else's\n"


def test_the_copy_stops_at_its_limit_says_so_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    theirs = tmp_path / "s.jsonl"
    theirs.write_bytes(b"first\n")
    kept = copy_in(tmp_path / "home")
    assert kept.take(theirs, 4_000)
    theirs.write_bytes(b"first\n" + os.urandom(100_000))
    assert not kept.take(theirs, 4_000)
    assert kept.source is not None
    assert kept.source.full
    assert kept.size <= 4_000
    raw = next((tmp_path / "home").rglob("source.json")).parent
    modes = {stat.S_IMODE(each.stat().st_mode) for each in (raw, *raw.rglob("*"))}
    assert modes <= {0o600, 0o700}
    theirs.unlink()
    assert kept.give_back().read_bytes() == b"first\n"
