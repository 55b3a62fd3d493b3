"""Whatever is damaged, a reader finds what can be read: as somebody would who reads every line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolReturned, UserMessage
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.errors import DamagedTranscript, MindstoneError, NoSuchEntry
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.transcript import Damaged, History
from mindstone_tui.core.transcript.reader import Head, named_kind, note, read_line, readable
from tests.builders import places_in, say, transcript_in, use_tool


def _sample() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        transcript = transcript_in(Path(folder))
        for number in range(4):
            say(transcript, f"question {number}", f"answer {number}")
            use_tool(transcript, f"look {number}", "found", f"seen {number}")
        transcript.close()
        return transcript.places.transcript.read_bytes().splitlines(keepends=True)


LINES = _sample()


def _written(folder: str, pieces: Iterable[bytes]) -> SessionPlaces:
    places = places_in(Path(folder))
    places.transcript.parent.mkdir(parents=True, exist_ok=True)
    places.transcript.write_bytes(b"".join(pieces))
    return places


def _plain(pieces: list[bytes]) -> list[Line | Damaged]:
    """Every whole line, one after the other."""
    starts = [sum(map(len, pieces[:at])) for at in range(len(pieces))]
    return [
        read_line(raw.removesuffix(b"\n"), start)
        for start, raw in zip(starts, pieces, strict=True)
        if raw.endswith(b"\n")
    ]


def _found(look_up: Callable[[Any], Line], what: object) -> list[Line]:
    try:
        return [look_up(what)]
    except NoSuchEntry:
        return []


damage = st.dictionaries(
    st.integers(0, len(LINES) - 1), st.sampled_from([b"\n", b"torn", b"x\n", b"{}\n", b""])
)


@given(damage, st.integers(-1, len(LINES) + 1), st.integers(-1, len(LINES) + 1))
@example({}, -1, 0)
@example({3: b"x\n"}, 4, 4)
@example({7: b"x\n", 8: b"x\n"}, 9, 12)
@example({len(LINES) - 1: b"torn"}, 0, 99)
@example({0: b"x\n", 5: b""}, 6, 7)
def test_every_way_of_reading_agrees_with_reading_all(
    damaged: dict[int, bytes], first: int, last: int
) -> None:
    pieces = [damaged.get(at, raw) for at, raw in enumerate(LINES)]
    pieces = b"".join(pieces).splitlines(keepends=True)
    items = _plain(pieces)
    lines = [item for item in items if isinstance(item, Line)]
    with tempfile.TemporaryDirectory() as folder, History(_written(folder, pieces)) as history:
        assert list(history.read()) == items
        assert list(history.back()) == items[::-1]
        ends = [end for _, end in history.read_with_ends(0)]
        assert ends == [sum(map(len, pieces[: at + 1])) for at in range(len(items))]
        assert [raw + b"\n" for _, raw in history.raw_from(0)] == pieces[: len(items)]
        newest = lines[-1] if lines else None
        assert history.head == (Head(newest.seq, newest.hash) if newest else Head(-1, ""))
        assert len(history.offsets) == len(items)
        for wanted in (first, last):
            some = [line for line in lines if line.seq == wanted]
            assert _found(history.line, wanted) == some[:1]
            later = history.read_from(history.offset_after(wanted))
            assert [one for one in later if isinstance(one, Line)] == [
                line for line in lines if line.seq > wanted
            ]
            assert history.turn(wanted) == [line for line in lines if line.turn == wanted]
        part = [one for one in history.read(max(first, 0), last) if isinstance(one, Line)]
        assert part == [line for line in lines if first <= line.seq <= last]
        for line in lines[:: max(1, len(lines) // 6)]:
            assert history.find(line.id) == line
            assert _found(history.find, f"{line.id}0") == []
        kinds, within = {"user_message", "turn_ended"}, max(first, 0)
        assert list(history.newest(kinds, within)) == [
            one
            for one in items[::-1][: max(within - (len(items) < len(pieces)), 0)]
            if isinstance(one, Line) and one.kind in kinds
        ]


def test_a_part_ends_before_the_next_line_and_the_damaged_ones_in_it_are_told(home: Path) -> None:
    pieces = [*LINES[:2], b"w\n", *LINES[3:5], b"x\n", *LINES[6:9], b"y\n", *LINES[10:]]
    with History(_written(str(home), pieces)) as history:
        read = list(history.read(4, 7))
    assert [one.seq if isinstance(one, Line) else one.raw for one in read] == [4, b"x", 6, 7]


def test_a_beginning_of_an_id_is_enough(home: Path) -> None:
    with History(_written(str(home), LINES)) as history:
        line = history.line(9)
        assert history.find(line.id[:-1]).id.startswith(line.id[:-1])
        for missing in (f"{line.id}Z", "zzz", "!"):
            with pytest.raises(NoSuchEntry, match="no entry"):
                history.find(missing)
        with pytest.raises(NoSuchEntry, match="no line -1"):
            history.line(-1)


@pytest.mark.parametrize("first", [b"", b"x\n", b"torn", LINES[1]])
def test_a_file_that_begins_with_anything_but_its_header_is_named(home: Path, first: bytes) -> None:
    with History(_written(str(home), [first])) as history:
        with pytest.raises(DamagedTranscript, match="does not begin with the header"):
            _ = history.header
        assert first == LINES[1] or history.head == Head(-1, "")
        history.close()
        history.close()
    with History(_written(str(home), LINES)) as history:
        assert history.header.kind == "session_opened"


def test_a_reader_keeps_its_file_until_it_is_told_to_look_again(home: Path, tmp_path: Path) -> None:
    places = _written(str(home), LINES)
    with History(places) as history:
        assert history.line(9).seq == 9
        size = history.size
        new = places.transcript.with_name("new")
        new.write_bytes(b"".join(LINES[:5]))
        new.rename(places.transcript)
        assert (history.size, history.line(9).seq) == (size, 9)
        history.keep_copy(tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == b"".join(LINES)
        history.reopen()
        assert history.size == len(b"".join(LINES[:5]))
        assert os.fstat(history.fileno()).st_ino == places.transcript.stat().st_ino
        assert _found(history.line, 9) == []
        assert history.head.seq == 4


def test_what_is_not_there_or_no_file_is_told_in_a_sentence(home: Path) -> None:
    with pytest.raises(MindstoneError, match="no session"):
        History(places_in(home))
    places = _written(str(home), LINES)
    places.transcript.rename(places.transcript.with_name("elsewhere"))
    places.transcript.symlink_to(places.transcript.with_name("elsewhere"))
    with pytest.raises(MindstoneError):
        History(places)


def test_lines_that_are_longer_than_a_read_are_found_all_the_same(home: Path) -> None:
    """A table of offsets is made in reads of four megabytes, and a foreign line may have ten."""
    long = b"x" * (10 << 20) + b"\n"
    pieces = [*LINES[:4], long, *LINES[5:], b"y" * (5 << 20)]
    with History(_written(str(home), pieces)) as history:
        assert [history.offsets.start(at) for at in range(3, 7)] == [
            len(b"".join(pieces[:at])) for at in range(3, 7)
        ]
        assert history.offsets.total == len(b"".join(pieces[:-1]))
        assert len(history.offsets) == len(LINES)
        for line in _plain(LINES)[5::8]:
            assert isinstance(line, Line)
            assert history.line(line.seq) == line
            assert history.find(line.id) == line
        assert _found(history.line, 4) == []


def test_what_is_appended_while_a_reader_looks_is_found(home: Path) -> None:
    places = _written(str(home), LINES[:7])
    with History(places) as history:
        assert history.line(6).seq == 6
        with places.transcript.open("ab") as file:
            file.write(LINES[7] + LINES[8] + LINES[9][:10])
        assert history.line(8).seq == 8
        assert len(history.offsets) == 9
        with places.transcript.open("ab") as file:
            file.write(LINES[9][10:])
        assert history.line(9) == read_line(LINES[9][:-1], 0)


def _table(places: SessionPlaces) -> list[int]:
    raw = places.offsets.read_bytes()
    return [int.from_bytes(raw[at : at + 8], "little") for at in range(16, len(raw), 8)]


STARTS = [len(b"".join(LINES[:at])) for at in range(len(LINES))]


@pytest.mark.parametrize("known", [2, 9, len(LINES) - 1])
def test_a_reader_adds_to_a_table_what_it_lacks(home: Path, known: int) -> None:
    """In place, where the table is right so far: the file is the same one afterwards."""
    places = _written(str(home), LINES[:known])
    with History(places, may_store_offsets=True) as history:
        assert history.line(known - 1).seq == known - 1
        assert _table(places) == STARTS[:known]
        inode = places.offsets.stat().st_ino
        with places.transcript.open("ab") as file:
            file.write(b"".join(LINES[known:]))
        assert history.line(len(LINES) - 1).seq == len(LINES) - 1
    if len(LINES) - known > 1:
        assert _table(places) == STARTS
        assert places.offsets.stat().st_ino == inode
    else:
        assert _table(places) == STARTS[:known], "one line is soon found again"


def test_a_table_that_somebody_shortened_meanwhile_is_written_anew(home: Path) -> None:
    places = _written(str(home), LINES[:9])
    with History(places, may_store_offsets=True) as history:
        history.line(8)
        places.offsets.write_bytes(places.offsets.read_bytes()[:40])
        with places.transcript.open("ab") as file:
            file.write(b"".join(LINES[9:]))
        history.line(12)
    assert _table(places) == STARTS


def test_a_table_is_believed_only_if_it_points_behind_newlines_of_this_file(home: Path) -> None:
    """A wrong number anywhere that is looked at, another file, or an end past the end."""
    places = _written(str(home), LINES)
    inode = places.transcript.stat().st_ino

    def believed(numbers: list[int], inode: int = inode) -> bool:
        table = b"MSOFFS1\n" + b"".join(each.to_bytes(8, "little") for each in (inode, *numbers))
        places.offsets.write_bytes(table)
        with History(places) as history:
            return [history.offsets.start(at) for at in range(len(history.offsets))] != STARTS

    wrong = [*STARTS]
    wrong[6] += 1  # between the samples: nobody looks there, which is what tells that it was read
    assert believed(wrong)
    assert not believed(wrong, inode + 1)
    assert not believed([1, *wrong[1:]])
    assert not believed([*wrong, len(b"".join(LINES))])
    for part in range(1, 8):
        at = len(wrong) * part // 8
        assert not believed([*wrong[:at], wrong[at] + 1, *wrong[at + 1 :]])
    assert not believed([*wrong[:-1], wrong[-1] + 1])


@pytest.mark.parametrize(
    ("before", "previous", "after"),
    [
        ([], None, [7, 8]),
        ([], 3, []),
        ([0, 3], 3, [0, 3, 7, 8]),
        ([0, 4], 3, [0, 4]),
        ([0, 3], None, [0, 3]),
    ],
)
def test_a_writer_notes_where_lines_start_if_the_table_is_complete_until_then(
    tmp_path: Path, before: list[int], previous: int | None, after: list[int]
) -> None:
    path = tmp_path / "offsets"
    if before:
        note(path, 42, before, None)
    note(path, 42, [7, 8], previous)
    assert path.read_bytes() == (
        b"" if not after else b"MSOFFS1\n" + b"".join(n.to_bytes(8, "little") for n in (42, *after))
    )
    if before:  # a number that was written in half is written over
        path.write_bytes(path.read_bytes() + b"abc")
        note(path, 42, [9], after[-1])
        assert path.read_bytes()[-8:] == (9).to_bytes(8, "little")
        assert len(path.read_bytes()) == 16 + 8 * (len(after) + 1)


def test_a_plan_that_leans_on_another_is_read_whole_or_as_it_stands(home: Path) -> None:
    transcript = transcript_in(home)
    plan = PromptPlanned(call=1, at=-1, through=1, spans=(), model="m", window=9_000, reserve=7)
    full = transcript.append(plan)
    other = transcript.append(msgspec.structs.replace(plan, model="other"))
    lean = transcript.append(msgspec.structs.replace(plan, call=2, like=full.seq))
    leans_on_lean = transcript.append(msgspec.structs.replace(plan, call=3, like=lean.seq))
    on_no_plan = transcript.append(msgspec.structs.replace(plan, call=4, like=0))
    on_other = transcript.append(msgspec.structs.replace(plan, call=5, like=other.seq))
    transcript.close()
    assert b'"model"' not in lean.raw

    def models(history: History) -> list[str]:
        return [
            one.entry.model
            for one in history.read(lean.seq)
            if isinstance(one, Line) and isinstance(one.entry, PromptPlanned)
        ]

    with History(transcript.places) as history:
        assert models(history) == ["m", "", "", "other"]
        found = history.line(lean.seq).entry
        assert isinstance(found, PromptPlanned)
        assert (found.window, found.reserve, found.call) == (9_000, 7, 2)
        assert history.line(leans_on_lean.seq).seq < on_no_plan.seq < on_other.seq


def test_only_what_can_be_read_whole_is_quoted(home: Path) -> None:
    transcript = transcript_in(home)
    short = transcript.append(UserMessage(text="short"))
    long = transcript.append(ToolReturned(call="c", name="read", text="0123456789" * 300_000))
    history = transcript.history()
    found = readable(history, long.seq)
    assert found is not None
    assert found == history.whole(long)
    assert len(found.entry.text) == 3_000_000  # type: ignore[union-attr]
    assert readable(history, short.seq) == short == history.whole(short)
    assert readable(history, 0) == history.header
    assert readable(history, -1) is None
    assert readable(history, 99) is None
    (digest,) = [blob.sha256 for blob in long.blobs.values()]
    assert history.blob(digest).decode() == found.entry.text  # type: ignore[union-attr]
    for blob in transcript.places.blobs.rglob("*"):
        if blob.is_file():
            blob.unlink()
    assert readable(history, long.seq) is None


def test_a_kind_is_told_without_decoding() -> None:
    for raw in LINES:
        line = read_line(raw[:-1], 0)
        assert isinstance(line, Line)
        assert named_kind(raw).decode() == line.kind
