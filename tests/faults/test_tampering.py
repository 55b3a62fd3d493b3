"""Whatever is flipped, swapped, deleted or inserted: `verify` finds it and names the line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from mindstone_tui.core.transcript import HeadAnchor, verify
from tests.builders import say, transcript_in, use_tool
from tests.faults import sized
from tests.faults.conftest import Tell

Case = tuple[str, int, bytes]


def _flips(lines: list[bytes], chance: random.Random, count: int) -> Iterator[Case]:
    starts = [sum(map(len, lines[:at])) for at in range(len(lines))]
    whole = b"".join(lines)
    for _ in range(count):
        at, bit = chance.randrange(len(whole)), chance.randrange(8)
        line = max(number for number, start in enumerate(starts) if start <= at)
        flipped = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        yield f"bit {bit} of byte {at}", line, flipped


def _moves(lines: list[bytes]) -> Iterator[Case]:
    last = len(lines) - 1
    for at in range(len(lines)):
        if at < last:
            yield f"delete {at}", at, b"".join(lines[:at] + lines[at + 1 :])
        yield f"repeat {at}", at + 1, b"".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])
        for other in range(at + 1, len(lines)):
            swapped = list(lines)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            yield f"swap {at} and {other}", at, b"".join(swapped)
            moved = [*lines[:at], lines[other], *lines[at:]]
            yield f"copy {other} before {at}", at, b"".join(moved)
            if other < last:
                cut = lines[:at] + lines[other:]
                yield f"delete {at} to {other}", at, b"".join(cut)


def _inserts(lines: list[bytes], chance: random.Random) -> Iterator[Case]:
    for at in range(len(lines) + 1):
        for extra in (b"\n", b"{}\n", bytes(50) + b"\n", chance.randbytes(40) + b"\n", b"null\n"):
            yield f"insert before {at}", at, b"".join([*lines[:at], extra, *lines[at:]])


def test_verify_finds_every_change_and_names_the_right_line(home: Path, tell: Tell) -> None:
    transcript = transcript_in(home)
    for turn in range(sized(2, 6)):
        say(transcript, f"question {turn}", f"answer {turn}")
        use_tool(transcript, f"look {turn}", "found", "well")
    path = transcript.places.transcript
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    chance = random.Random(11)
    tried = 0
    for how, line, changed in (
        *_flips(lines, chance, sized(800, 10_000)),
        *_moves(lines),
        *_inserts(lines, chance),
    ):
        path.write_bytes(changed)
        verdict = verify(transcript.places)
        assert not verdict.ok, how
        assert verdict.problems[0].line == line, (how, verdict.problems[:3])
        tried += 1
    assert tried >= sized(1_000, 10_000)
    tell("flips, swaps, deletions, insertions", f"{tried:,}", "all found, right line named")


def test_one_changed_line_is_named_once_and_its_neighbours_are_not(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"text":"answer"', b'"text":"Answer"'))
    (problem,) = verify(transcript.places).problems
    assert (problem.line, problem.kind) == (3, "changed")
    assert whole[problem.offset :].startswith(b'{"v":1,"seq":3,')


def test_a_cut_on_a_line_boundary_is_found_by_an_anchor(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    head = transcript.head
    path = transcript.places.transcript
    lines = path.read_bytes().splitlines(keepends=True)
    anchor = HeadAnchor(head.seq, head.hash)
    assert verify(transcript.places, anchor).ok
    path.write_bytes(b"".join(lines[:-1]))
    assert verify(transcript.places).ok
    assert [problem.kind for problem in verify(transcript.places, anchor).problems] == ["anchor"]


def test_a_blob_that_changed_or_vanished_is_named_with_its_line(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer " * 300_000)
    (blob,) = transcript.places.blobs.iterdir()
    content = blob.read_bytes()
    blob.write_bytes(content[:-1] + b"?")
    assert [(p.line, p.kind) for p in verify(transcript.places).problems] == [(3, "blob")]
    blob.unlink()
    assert [(p.line, p.kind) for p in verify(transcript.places).problems] == [(3, "blob")]
