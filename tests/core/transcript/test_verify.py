"""What `verify` says of each kind of damage; its quick reading says what a careful one does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindstone_tui.core.entries import Image
from mindstone_tui.core.entries.conversation import ToolReturned, UserMessage
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.transcript import HeadAnchor, verify
from mindstone_tui.core.transcript.verify import Verdict, _Walk, blobs_of
from tests.builders import places_in, say, transcript_in, use_tool

MAX_LINE = 1_048_576

SESSION = "agent:default:main"


def _sample(folder: Path) -> list[bytes]:
    """A transcript of several chunks, with short lines, long ones, and some that name blobs."""
    transcript = transcript_in(folder)
    kept = transcript.keep_blob(b"all of it").sha256
    for number in range(12):
        say(transcript, f"question {number}", "words " * (number * 900 % 5_000))
        use_tool(transcript, f"look {number}", 'says "full":"x"', "seen")
        if number % 4 == 1:
            full = kept if number % 8 == 1 else ""
            transcript.append(ToolReturned(call="c", name="shell", text="head", full=full))
            picture = Image(sha256=kept, media_type="image/png", width=2, height=3)
            transcript.append(UserMessage(text="this", images=(picture,)))
    say(transcript, "x" * 60_000, "")
    transcript.append(UserMessage(text="moved " * 300_000))
    say(transcript, "so the last lines", "name nothing")
    transcript.close()
    return transcript.places.transcript.read_bytes().splitlines(keepends=True)


with tempfile.TemporaryDirectory() as _folder:
    LINES = _sample(Path(_folder))
    BLOBS = {path.name: path.read_bytes() for path in places_in(Path(_folder)).blobs.iterdir()}
HASHES = [raw[-67:-3].decode() for raw in LINES]
assert len(b"".join(LINES)) > 3 << 16, "several chunks"


def _written(folder: str, pieces: list[bytes]) -> SessionPlaces:
    places = places_in(Path(folder))
    places.blobs.mkdir(parents=True, exist_ok=True)
    for name, content in BLOBS.items():
        (places.blobs / name).write_bytes(content)
    places.transcript.write_bytes(b"".join(pieces))
    return places


def _carefully(
    places: SessionPlaces, pieces: list[bytes], anchor: HeadAnchor | None = None
) -> Verdict:
    """The same verdict, made by parsing every line."""
    walk, offset = _Walk(places, anchor), 0
    for number, piece in enumerate(b"".join(pieces).splitlines(keepends=True)):
        whole = piece.endswith(b"\n")
        walk.take(number, offset, piece.removesuffix(b"\n"), whole, len(piece))
        offset += len(piece)
    return walk.verdict()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "edited": lambda raw: raw.replace(b'"turn":', b'"turn":1', 1),
    "resealed": lambda raw: raw.replace(b'"hash":"', b'"hash":"0', 1),
    "gone": lambda raw: b"",
    "twice": lambda raw: raw + raw,
    "nothing": lambda raw: b"\n",
    "zeros": lambda raw: bytes(99) + b"\n",
    "torn": lambda raw: raw[:-1],
    "other session": lambda raw: raw.replace(b":main", b":mine"),
    "the header": lambda raw: LINES[0],
    "a later line": lambda raw: LINES[-9],
    "other blob": lambda raw: raw.replace(b'"sha256":"', b'"sha256":"0'),
    "too long": lambda raw: b"x" * (MAX_LINE + 5) + b"\n",
}


@given(
    st.dictionaries(st.integers(0, len(LINES) - 1), st.sampled_from(sorted(DAMAGE)), max_size=4),
    st.one_of(st.none(), st.tuples(st.integers(0, len(LINES)), st.booleans())),
)
@example({}, None)
@example({0: "gone"}, (0, True))
@example({3: "edited", 90: "edited", 91: "gone"}, (95, True))
@example({60: "nothing", 61: "zeros", 62: "torn"}, None)
@example({len(LINES) - 1: "torn"}, (len(LINES) - 1, True))
@example({10: "too long", 11: "too long", 70: "edited"}, None)
@example({23: "other blob", 24: "other blob"}, None)
def test_reading_quickly_says_what_parsing_every_line_says(
    damaged: dict[int, str], noted: tuple[int, bool] | None
) -> None:
    pieces = [
        DAMAGE[damaged[number]](raw) if number in damaged else raw
        for number, raw in enumerate(LINES)
    ]
    anchor = None
    if noted is not None:
        right = noted[1] and noted[0] < len(HASHES)
        anchor = HeadAnchor(noted[0], HASHES[noted[0]] if right else "0" * 64)
    with tempfile.TemporaryDirectory() as folder:
        places = _written(folder, pieces)
        verdict = verify(places, anchor)
        assert verdict == _carefully(places, pieces, anchor)
        sound = not damaged and (noted is None or noted == (noted[0], True))
        if sound and (noted is None or noted[0] < len(LINES)):
            assert verdict.ok
            assert verdict.entries == len(LINES)
            assert verdict.head == HeadAnchor(len(LINES) - 1, HASHES[-1])


def _told(home: Path, pieces: list[bytes]) -> list[tuple[int, int, str, str]]:
    found = verify(_written(str(home), pieces)).problems
    return [(one.line, one.offset, one.kind, one.detail) for one in found]


def _start(number: int) -> int:
    return len(b"".join(LINES[:number]))


def test_each_kind_of_damage_is_named_with_its_line_and_its_place(home: Path) -> None:
    lines, eighth = LINES, _start(8)
    edited = DAMAGE["edited"](lines[8])
    assert _told(home, [*lines[:8], edited, *lines[9:]]) == [
        (8, eighth, "changed", "the line's bytes do not have the hash that it carries")
    ]
    assert _told(home, [*lines[:8], *lines[10:]]) == [
        (8, eighth, "gap", "line 8 is expected here, 10 was found")
    ]
    assert _told(home, [*lines[:9], lines[8], *lines[9:]]) == [
        (9, _start(9), "duplicate", "line 9 is expected here, 8 was found")
    ]
    assert _told(home, [*lines[:9], lines[3], *lines[9:]]) == [
        (9, _start(9), "order", "line 9 is expected here, 3 was found")
    ]
    foreign = _other_session(home)
    assert _told(home, [*lines[:8], foreign[8], *lines[9:]])[0] == (
        *(8, eighth, "foreign"),
        "the line belongs to agent:default:other",
    )
    assert _told(home, [*lines[:8], lines[8][:-1]]) == [
        (8, eighth, "torn", f"the last {len(lines[8]) - 1:,} bytes are not a whole line")
    ]
    long = b"x" * (MAX_LINE + 1) + b"\n"
    assert _told(home, [*lines[:8], long, *lines[9:]]) == [
        (8, eighth, "too_long", f"{MAX_LINE + 2:,} bytes; a line has at most {MAX_LINE:,}")
    ]
    assert _told(home, [*lines[1:]])[0] == (
        *(0, 0, "header"),
        "the first line is a turn_started, not the header",
    )
    assert _told(home, []) == [(0, 0, "header", "the file is empty")]
    for damage, kind in (
        (b"x" * MAX_LINE + b"\n", "unreadable"),
        (b"{}\n", "unreadable"),
        (b'{"v":1}\n', "unreadable"),
        (b"\0{}\n", "nul"),
        (lines[8][:40] + lines[9], "splice"),
    ):
        assert [one[:3] for one in _told(home, [*lines[:8], damage, *lines[9:]])] == [
            (8, eighth, kind)
        ]


def _other_session(home: Path) -> list[bytes]:
    other = transcript_in(home, "agent:default:other")
    say(other, "a", "b")
    say(other, "c", "d")
    other.close()
    return other.places.transcript.read_bytes().splitlines(keepends=True)


def test_a_line_that_was_written_after_another_one_breaks_the_chain(home: Path) -> None:
    """Somebody replaced a line and its hash: the one that follows was written after the old one."""
    fork = transcript_in(home / "fork")
    say(fork, "question 0 differs", "")
    say(fork, "and so", "on")
    fork.close()
    others = fork.places.transcript.read_bytes().splitlines(keepends=True)
    assert _told(home, [*LINES[:5], others[5], *LINES[6:]]) == [
        (5, _start(5), "chain", "the line before is not the one that this line was written after"),
        (6, _start(5) + len(others[5]), "chain", _CHAIN),
    ]


_CHAIN = "the line before is not the one that this line was written after"


def test_after_what_cannot_be_read_the_next_line_is_believed_but_not_the_one_before_it(
    home: Path,
) -> None:
    pieces = [*LINES[:8], b"x\n", *LINES[12:]]
    assert [one[:3] for one in _told(home, pieces)] == [(8, _start(8), "unreadable")]
    pieces = [*LINES[:8], b"x\n", LINES[3], *LINES[8:]]
    assert [(one[0], one[2]) for one in _told(home, pieces)] == [(8, "unreadable"), (9, "order")]
    verdict = verify(_written(str(home), [*LINES[:8], b"x\n"]))
    assert (verdict.entries, verdict.head) == (8, HeadAnchor(7, HASHES[7]))
    assert verdict.session == SESSION


@pytest.mark.parametrize("seq", [0, 7, len(LINES) - 1])
def test_an_anchor_holds_only_with_its_own_hash(home: Path, seq: int) -> None:
    places = _written(str(home), LINES)
    assert verify(places, HeadAnchor(seq, HASHES[seq])).ok
    for wrong in (HeadAnchor(seq, HASHES[seq - 1]), HeadAnchor(len(LINES), HASHES[seq])):
        (problem,) = verify(places, wrong).problems
        assert (problem.kind, problem.line, problem.offset) == ("anchor", wrong.seq, 0)
        assert problem.detail == f"line {wrong.seq} with the noted hash is not in the file"


def test_every_line_that_names_a_blob_is_named_when_it_is_gone(home: Path) -> None:
    places = _written(str(home), LINES)
    naming = {number: blobs_of(raw[:-1]) for number, raw in enumerate(LINES)}
    assert {digest for digests in naming.values() for digest in digests} == {
        name.partition(".")[0] for name in BLOBS
    }
    for path in places.blobs.iterdir():
        path.unlink()
    found = {problem.line: problem for problem in verify(places).problems}
    assert set(found) == {number for number, digests in naming.items() if digests}
    assert {problem.kind for problem in found.values()} == {"blob"}
    fields = {problem.detail.partition(":")[0] for problem in found.values()}
    assert fields == {"full", "images", "text"}


def test_the_whole_output_of_a_tool_is_missed_where_nothing_else_names_a_blob(home: Path) -> None:
    transcript = transcript_in(home)
    kept = transcript.keep_blob(b"all of it")
    say(transcript, "look", "looked")
    line = transcript.append(ToolReturned(call="c", name="x", text="head", full=kept.sha256))
    say(transcript, "so?", "so")
    transcript.close()
    assert verify(transcript.places).ok
    for path in transcript.places.blobs.iterdir():
        path.unlink()
    found = [(one.line, one.kind) for one in verify(transcript.places).problems]
    assert found == [(line.seq, "blob")]


def test_a_link_in_the_place_of_the_file_is_not_followed(home: Path) -> None:
    places = _written(str(home), LINES[:9])
    places.transcript.rename(places.transcript.with_name("elsewhere"))
    places.transcript.symlink_to("elsewhere")
    (problem,) = verify(places).problems
    assert (problem.kind, problem.line, problem.offset) == ("missing", 0, 0)


def test_no_file_stays_open_behind_a_verdict(home: Path) -> None:
    places = _written(str(home), LINES[:9])
    before = os.listdir("/dev/fd")  # noqa: PTH208
    assert verify(places).ok
    assert os.listdir("/dev/fd") == before  # noqa: PTH208


def test_no_file_is_a_problem_and_no_error(home: Path) -> None:
    verdict = verify(places_in(home))
    assert (verdict.ok, verdict.entries, verdict.head) == (False, 0, None)
    assert [problem.kind for problem in verdict.problems] == ["missing"]
