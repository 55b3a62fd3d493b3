"""A transcript that is gone is said to be gone; no empty history takes its place unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.errors import HistoryMissing
from mindstone_tui.core.transcript import History, Transcript
from tests.builders import places_in, say, transcript_in
from tests.cli.program import mindstone_here


def with_traces(home: Path) -> dict[str, bytes]:
    """A session that had an index, a checkpoint and a handoff; what they hold."""
    transcript = transcript_in(home)
    say(transcript, "question", "answer")
    transcript.close()
    places = transcript.places
    places.indexed.write_bytes(b"words")
    places.checkpoint.write_bytes(b"{}")
    places.handoffs.mkdir()
    (places.handoffs / "1.md").write_bytes(b"go on")
    return traces(home)


def traces(home: Path, folder: Path | None = None) -> dict[str, bytes]:
    """Every file of the session but its transcript and the cache of offsets."""
    folder = folder or places_in(home).folder
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("transcript")
    }


@pytest.mark.parametrize("rest", [None, b"", b'{"v":1,"seq":0,'])
def test_a_missing_or_emptied_transcript_is_not_begun_anew(home: Path, rest: bytes | None) -> None:
    before = with_traces(home)
    places = places_in(home)
    places.transcript.unlink()
    if rest is not None:
        places.transcript.write_bytes(rest)
    for _ in range(2):
        with pytest.raises(
            HistoryMissing, match=r"index\.mark, its checkpoint\.json, its handoffs"
        ):
            Transcript(places)
    assert traces(home) == before
    assert (places.transcript.read_bytes() if rest is not None else None) == rest
    if rest is None:
        assert not places.transcript.exists()
        with pytest.raises(HistoryMissing):
            History(places)


def test_only_consent_begins_anew_and_everything_is_kept(home: Path) -> None:
    before = with_traces(home)
    places = places_in(home)
    places.transcript.unlink()
    done = mindstone_here("run", "hello", "--model", "scripted/none.jsonl")
    assert (done.returncode, "is missing" in done.stderr) == (1, True)
    assert "--start-over" in done.stderr
    done = mindstone_here("sessions", "--start-over", str(places.key))
    assert done.returncode == 0, done.stderr
    (aside,) = places.lost.iterdir()
    assert traces(home, aside) == before
    transcript = Transcript(places)
    assert say(transcript, "hello", "again") == 1
    transcript.close()
    done = mindstone_here("sessions", "--start-over", str(places.key))
    assert done.returncode == 1, "there is nothing left over"


def test_a_transcript_that_holds_anything_is_never_set_aside(home: Path) -> None:
    with_traces(home)
    places = places_in(home)
    before = places.transcript.read_bytes()
    done = mindstone_here("sessions", "--start-over", str(places.key))
    assert (done.returncode, "never set aside" in done.stderr) == (2, True)
    assert places.transcript.read_bytes() == before
