"""A tail torn at any byte, in any way, costs at most the line that was being written."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.line import MAX_LINE
from mindstone_tui.core.errors import DamagedTranscript
from mindstone_tui.core.transcript import Transcript, verify
from tests.builders import places_in, say, transcript_in
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.story import lines_of


def _tails(last: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Everything that could stand where the last line should."""
    for at in range(len(last)):
        front = last[:at]
        yield f"cut at {at}", front
        yield f"NULs from {at}", front + bytes(len(last) - at)
        yield f"NULs and a newline from {at}", front + bytes(len(last) - at - 1) + b"\n"
        yield f"garbage from {at}", front + chance.randbytes(23).replace(b"\n", b"?")
        yield f"the line again from {at}", front + last[: len(last) // 2]


@pytest.mark.thorough
def test_a_tail_torn_at_any_byte_costs_at_most_the_line_being_written(
    home: Path, tell: Tell
) -> None:
    transcript = transcript_in(home)
    say(transcript, "first question", "first answer")
    transcript.append(
        UserMessage(text="the last line, wíth ünïcödé " + "x" * sized(0, 800)), turn=2
    )
    path = transcript.places.transcript
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    sure, last = whole[:start], whole[start:]
    cases = list(_tails(last, random.Random(7)))
    chosen = cases if len(cases) <= sized(400, 10**9) else cases[:: len(cases) // 400]
    for how, tail in chosen:
        path.write_bytes(sure + tail)
        shutil.rmtree(transcript.places.torn, ignore_errors=True)
        again = transcript_in(home)
        line = again.append(UserMessage(text="after the crash"), turn=3)
        after = path.read_bytes()
        assert after.startswith(sure), how
        assert verify(again.places).ok, how
        lines = lines_of(again.history())
        assert lines[-1] == line
        if tail and not after.startswith(sure + last):
            (copy,) = again.places.torn.iterdir()
            assert copy.read_bytes() == tail, how
            assert [entry.kind for entry in lines].count("tail_recovered") == 1, how
        again.close()
    assert len(chosen) >= sized(300, 5_000)
    tell("torn tails", f"{len(chosen):,}", "all reopened, every fragment kept")


def test_a_tail_torn_at_any_byte_of_many_lengths_is_recovered(home: Path, tell: Tell) -> None:
    tried = 0
    for length in (0, 1, 300, 511, 512, 513, 1_000, 4_096)[:: sized(4, 1)]:
        transcript = transcript_in(home, f"agent:default:n{length}")
        transcript.append(UserMessage(text="x" * length), turn=1)
        path = transcript.places.transcript
        whole = path.read_bytes()
        start = whole.rindex(b"\n", 0, -1) + 1
        for at in range(start, len(whole), sized(40, 2)):
            path.write_bytes(whole[:at])
            shutil.rmtree(transcript.places.torn, ignore_errors=True)
            again = transcript_in(home, f"agent:default:n{length}")
            assert verify(again.places).ok
            assert path.read_bytes().startswith(whole[:start])
            again.close()
            tried += 1
    tell("torn tails of many lengths", f"{tried:,}", "all reopened")


def test_a_header_cut_at_any_byte_is_written_again(home: Path) -> None:
    transcript = transcript_in(home)
    path = transcript.places.transcript
    header = path.read_bytes()
    for at in (*range(20), *range(20, len(header), sized(31, 1))):
        for tail in (header[:at], header[:at] + bytes(40), bytes(at)):
            path.write_bytes(tail)
            again = transcript_in(home)
            verdict = verify(again.places)
            assert verdict.ok, (at, verdict)
            again.close()


def test_a_last_line_that_lacks_only_its_newline_is_kept(home: Path) -> None:
    transcript = transcript_in(home)
    transcript.append(UserMessage(text="whole but for its newline"), turn=1)
    path = transcript.places.transcript
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    transcript_in(home).close()
    assert path.read_bytes() == whole


def test_a_last_line_that_rotted_stays_where_it_is_and_is_named(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    whole = path.read_bytes()
    for wrong in (
        whole[:-100] + b"!" + whole[-99:],
        whole.replace(b'"ending":"done"', b'"ending":"don\xff"'),
        whole.replace(b'"ending":"done"', b'"ending""done"'),
    ):
        path.write_bytes(wrong)
        again = transcript_in(home)
        again.append(UserMessage(text="life goes on"), turn=2)
        assert path.read_bytes().startswith(wrong)
        assert [problem.line for problem in verify(again.places).problems] == [4]
        again.close()


def test_a_file_that_is_no_transcript_is_refused_and_left_alone(home: Path) -> None:
    places = places_in(home)
    places.folder.mkdir(parents=True)
    for content in (b"hello\n", b'{"role":"user"}\n', b"x" * 5_000, b"\xff" * 100 + b"\n"):
        places.transcript.write_bytes(content)
        with pytest.raises(DamagedTranscript):
            Transcript(places)
        assert places.transcript.read_bytes() == content


@pytest.mark.thorough
def test_gigabytes_of_nuls_cost_neither_memory_nor_the_session(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    sure = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(sized(64, 2_000) * MAX_LINE)
    with pytest.raises(DamagedTranscript):
        transcript_in(home)
    verdict = verify(transcript.places)
    assert [(problem.line, problem.kind) for problem in verdict.problems] == [(5, "torn")]
    assert [line.seq for line in lines_of(transcript.history())] == list(range(5))
    with path.open("r+b") as file:
        file.truncate(len(sure))
    transcript_in(home).close()


def test_a_session_folder_that_was_copied_is_not_written_to(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    copy = places_in(home, "agent:default:copy")
    shutil.copytree(transcript.places.folder, copy.folder)
    with pytest.raises(DamagedTranscript, match="history of agent:default:main"):
        Transcript(copy)
