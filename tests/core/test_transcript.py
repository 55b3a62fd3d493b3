"""The transcript's promises in small: written is read, in order, by number, id and turn."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolReturned, UserMessage
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.transcript import verify
from tests.builders import places_in, say, transcript_in


def test_what_was_appended_is_read_back_in_order(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(3):
        say(transcript, f"question {number}", f"answer {number}")
    lines = [line for line in transcript.history().read() if isinstance(line, Line)]
    assert [line.seq for line in lines] == list(range(13))
    assert [line.entry.text for line in lines if isinstance(line.entry, UserMessage)] == [
        f"question {number}" for number in range(3)
    ]
    assert verify(transcript.places).ok


def test_back_reads_the_same_lines_from_the_end(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(40):
        say(transcript, f"question {number} " + "x" * 9_000, "y" * 700)
    history = transcript.history()
    forwards = [line for line in history.read() if isinstance(line, Line)]
    assert list(history.back()) == forwards[::-1]


def test_a_line_is_found_by_number_by_id_and_by_turn(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(30):
        say(transcript, f"question {number}", f"answer {number}")
    history = transcript.history()
    line = history.line(57)
    assert history.find(line.id) == line
    assert [found.turn for found in history.turn(9)] == [9] * 4
    with pytest.raises(NoSuchEntry):
        history.line(1_000)
    with pytest.raises(NoSuchEntry):
        history.find("01ZZZZZZZZZZZZZZZZZZZZZZZZ")


def test_losing_the_offsets_loses_nothing(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(10):
        say(transcript, f"question {number}", f"answer {number}")
    before = transcript.history().line(20)
    transcript.places.offsets.write_bytes(b"nonsense that is not a table of offsets")
    assert transcript.history().line(20) == before
    transcript.places.offsets.unlink()
    assert transcript.history().line(20) == before


def test_a_long_body_moves_to_a_blob_and_comes_back_whole(home: Path) -> None:
    transcript = transcript_in(home)
    text = "0123456789" * 300_000
    line = transcript.append(ToolReturned(call="c", name="read", text=text))
    assert len(line.raw) < 2_000
    whole = transcript.history().whole(line).entry
    assert isinstance(whole, ToolReturned)
    assert whole.text == text
    assert verify(transcript.places).ok


def test_nuls_and_lone_surrogates_become_visible_and_the_original_is_kept(home: Path) -> None:
    transcript = transcript_in(home)
    line = transcript.append(UserMessage(text="a\x00b\ud800c\u2028d"))
    assert isinstance(line.entry, UserMessage)
    assert line.entry.text == "a\u2400b\ufffdc\u2028d"
    (blob,) = transcript.places.blobs.iterdir()
    assert blob.read_bytes() == "a\x00b\ud800c\u2028d".encode("utf-8", "surrogatepass")
    assert verify(transcript.places).ok


def test_two_writers_of_one_session_make_one_chain(home: Path) -> None:
    first = transcript_in(home)
    second = transcript_in(home)
    for number in range(10):
        (first if number % 3 else second).append(UserMessage(text=str(number)), turn=number + 1)
    verdict = verify(places_in(home))
    assert verdict.ok
    assert verdict.entries == 11


def test_looking_learns_what_another_process_wrote(home: Path) -> None:
    first, second = transcript_in(home), transcript_in(home)
    say(first, "question", "answer")
    assert second.head.seq == 0
    second.look()
    assert second.head == first.head
    assert second.last_turn == 1


def test_an_emptied_and_replaced_file_gets_a_header_before_anything_else(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    path = transcript.places.transcript
    empty = path.with_name("empty")
    empty.touch()
    empty.rename(path)
    transcript.append(UserMessage(text="after"), turn=2)
    kinds = [line.kind for line in transcript.history().read() if isinstance(line, Line)]
    assert kinds == ["session_opened", "file_replaced", "user_message"]
    assert verify(transcript.places).ok


def test_the_head_is_known_although_the_end_is_torn(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "one", "two")
    head = transcript.head
    transcript.append(ToolReturned(call="c", name="shell", text='says "full":"x"', full=""))
    tool = transcript.head
    transcript.close()
    places = places_in(home)
    assert verify(places).ok
    with places.transcript.open("ab") as file:
        file.write(b'{"v":1,"seq":')
    verdict = verify(places)
    assert [problem.kind for problem in verdict.problems] == ["torn"]
    assert verdict.head is not None
    assert (verdict.head.seq, verdict.head.hash) == (tool.seq, tool.hash)
    assert verdict.entries == tool.seq + 1
    assert head.seq == tool.seq - 1


def test_a_tools_line_whose_whole_output_is_gone_is_named(home: Path) -> None:
    transcript = transcript_in(home)
    kept = transcript.keep_blob(b"all of it")
    line = transcript.append(ToolReturned(call="c", name="shell", text="head", full=kept.sha256))
    transcript.close()
    assert verify(places_in(home)).ok
    next(places_in(home).blobs.rglob(f"*{kept.sha256[-8:]}*")).unlink()
    (problem,) = verify(places_in(home)).problems
    assert (problem.kind, problem.line) == ("blob", line.seq)


@pytest.mark.thorough
def test_what_nobody_holds_any_more_keeps_no_file_open(home: Path) -> None:
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        transcript_in(home).history().turn(1)
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
