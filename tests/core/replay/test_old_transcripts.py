"""Transcripts that an earlier version wrote open, verify and replay, hash for hash.

The files are never made anew. Each was written by the version its folder names; the heads and the
numbers of requests below are what that version itself said of them.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.replay.verify_requests import prove
from mindstone_tui.core.transcript import History, verify
from tests.builders import places_in

CORPUS = Path(__file__).parents[2] / "fixtures" / "transcripts"

WRITTEN = {
    "0.1.0/queues-and-crashes": (
        "70c20db0655a9d8eb0457e605ea597a210ce5edeb0a32e52da063b66bc058ccd",
        30,
    ),
    "0.1.0/cascade-and-handoffs": (
        "a8d307b6313c2371c2d48d03741964c9fd23b3bf4e80f428319cded4e4a97898",
        24,
    ),
    "0.1.0/trims-and-prunes": (
        "0a1dc5bb5aa9c312bd5fdcc3ed71475d68d0c385d15e8250ffa5769e118f0799",
        20,
    ),
    "0.1.0/pins-and-models": (
        "2f7e49f298c6652867aed101eb27077d2dec3132aaef9585bfba0bffef1935c3",
        11,
    ),
    "0.1.0/summaries": (
        "11b708f473c778367a709714edbac1e8a1cebc7c52d014951f5788eba386ba64",
        22,
    ),
    "0.1.0/shortened-heads": (
        "0ce070501c64054c98d85e16dd4aad8eda45f57294730f94838094a4cc817ed1",
        18,
    ),
}


@pytest.fixture(params=sorted(WRITTEN))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, SessionPlaces]:
    """One old transcript, in a home of its own."""
    places = places_in(tmp_path / "home")
    places.folder.mkdir(parents=True)
    places.transcript.write_bytes(
        lzma.decompress((CORPUS / f"{request.param}.jsonl.xz").read_bytes())
    )
    return request.param, places


def test_an_old_transcript_verifies_up_to_its_head(written: tuple[str, SessionPlaces]) -> None:
    name, places = written
    verdict = verify(places)
    assert verdict.ok, verdict.problems[:3]
    assert verdict.head is not None
    assert verdict.head.hash == WRITTEN[name][0]


def test_every_request_of_an_old_transcript_is_rebuilt(written: tuple[str, SessionPlaces]) -> None:
    name, places = written
    with History(places) as history:
        proof = prove(history)
    assert (proof.requests, proof.matched) == (WRITTEN[name][1], WRITTEN[name][1])
    assert proof.mismatched == ()


def test_no_line_of_an_old_transcript_is_unknown(written: tuple[str, SessionPlaces]) -> None:
    _, places = written
    with History(places) as history:
        lines = list(history.read())
    assert all(isinstance(line, Line) and not isinstance(line.entry, Unknown) for line in lines)
