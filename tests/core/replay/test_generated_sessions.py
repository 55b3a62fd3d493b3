"""Whatever happened in a session, it can be played and rehearsed, and the laws hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core import events as ev
from mindstone_tui.core.config import Settings
from mindstone_tui.core.replay.playback import Replay
from mindstone_tui.core.replay.rehearsal import rehearse
from mindstone_tui.core.replay.verify_requests import prove
from mindstone_tui.core.replay.what_if import outcome_of
from mindstone_tui.core.transcript import History
from tests.core.context.stage import with_context
from tests.core.replay.recorded import FAST
from tests.core.session.generated import play
from tests.faults import sized

SEEDS = range(sized(2, 60))
STEPS = sized(7, 12)
MODES = ("sliding_window", "auto_compact", "cascade")


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_generated_session_plays_and_is_rehearsed_in_every_mode(
    tmp_path: Path, seed: int
) -> None:
    places, _ = await play(tmp_path / "played", seed, STEPS)
    before = places.transcript.read_bytes()
    with History(places) as history:
        replay = Replay(history, Settings(), speed=0.0, stays=False)
        heard = [event async for event in replay.events()]
        for mode in MODES:
            held = await rehearse(history, with_context(mode=mode, window=6_000), FAST)
            proof = prove(held.sketch.history())
            assert proof.matched == proof.requests, proof.mismatched[:2]
            assert outcome_of(mode, held).peak <= 1.0
    started = [event.turn for event in heard if isinstance(event, ev.TurnStarted)]
    ended = [event.turn for event in heard if isinstance(event, ev.TurnEnded)]
    assert started == ended
    assert len(started) == len(set(started)) > 0
    assert places.transcript.read_bytes() == before
