"""The table of offsets is a cache: right, or rebuilt, and never believed when it is wrong."""

from __future__ import annotations

import os
from pathlib import Path

from mindstone_tui.core.entries import Draft
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.transcript import History, Transcript
from mindstone_tui.core.transcript.reader import Offsets
from tests.builders import say, transcript_in


def _table(transcript: Transcript) -> list[int]:
    fd = os.open(transcript.places.transcript, os.O_RDONLY)
    try:
        offsets = Offsets(fd, transcript.places.offsets, store=False)
        return [offsets.start(number) for number in range(len(offsets))]
    finally:
        os.close(fd)


def _truth(transcript: Transcript) -> list[int]:
    content = transcript.places.transcript.read_bytes()
    return [0, *(at + 1 for at, sign in enumerate(content[:-1]) if sign == 10)]


def test_appends_one_by_one_and_in_batches_keep_the_table_complete(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(5):
        say(transcript, f"question {number}", "answer")
        transcript.append_all(
            [Draft(entry=UserMessage(text=str(n)), turn=9, channel="t") for n in range(number)]
        )
    stored = transcript.places.offsets.read_bytes()[16:]
    assert len(stored) // 8 == len(_truth(transcript))
    assert _table(transcript) == _truth(transcript)


def test_a_table_that_is_short_long_shifted_or_foreign_is_not_believed(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(12):
        say(transcript, f"question {number}", "answer " * number)
    path = transcript.places.offsets
    good = path.read_bytes()
    shifted = good[:16] + b"".join(
        (int.from_bytes(good[at : at + 8], "little") + 1).to_bytes(8, "little")
        for at in range(16, len(good), 8)
    )
    for table in (b"", good[:20], good[:100], good + b"\xff" * 8, good + b"x", shifted, b"?" * 400):
        path.write_bytes(table)
        assert _table(transcript) == _truth(transcript)
        with History(transcript.places, may_store_offsets=True) as history:
            assert history.line(30).seq == 30
        say(transcript, "one more", "answer")
        assert _table(transcript) == _truth(transcript)


def test_a_reader_stores_a_lost_table_for_the_next_one(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(12):
        say(transcript, f"question {number}", "answer")
    before = transcript.places.offsets.read_bytes()
    transcript.places.offsets.unlink()
    with History(transcript.places) as history:
        history.line(7)
    assert not transcript.places.offsets.exists()
    transcript.history().line(7)
    assert transcript.places.offsets.read_bytes() == before
    assert transcript.places.offsets.stat().st_mode & 0o777 == 0o600


def test_a_table_that_cannot_be_stored_leaves_nothing_behind(home: Path) -> None:
    transcript = transcript_in(home)
    for number in range(12):
        say(transcript, f"question {number}", "answer")
    places = transcript.places
    places.offsets.unlink()
    places.offsets.mkdir()
    with History(places, may_store_offsets=True) as history:
        assert history.line(7).seq == 7
    places.offsets.rmdir()
    assert not [each for each in places.transcript.parent.iterdir() if ".offsets." in each.name]
