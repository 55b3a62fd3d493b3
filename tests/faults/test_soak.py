"""Many turns in one session, through litellm and a real server: nothing grows but history."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.core.session.stage import Stage, on_stage
from tests.faults import FULL, sized
from tests.faults.conftest import Tell
from tests.loopback.server import Loopback, asked, says, serving, streams

TURNS = sized(24, 1_000)
WARM = sized(8, 100)
MEGABYTE = 1 << 20


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with serving() as running:
        yield running


class Footprint:
    """What a process holds."""

    def __init__(self) -> None:
        gc.collect()
        process = psutil.Process()
        self.rss = process.memory_info().rss
        self.files = process.num_fds()
        self.threads = process.num_threads()


async def test_a_long_session_holds_no_more_than_a_short_one(
    home: Path, tmp_path: Path, server: Loopback, tell: Tell
) -> None:
    _configure(home, server)
    (tmp_path / "a.txt").write_text("one line\n" * 50)
    async with on_stage(home, model="openai/m", context_window=16_000) as stage:
        first = await _talk(stage, server, WARM)
        before = Footprint()
        rest = await _talk(stage, server, TURNS - WARM)
        after = Footprint()
    grown = (after.rss - before.rss) / MEGABYTE
    tell(f"RSS after {WARM} and {TURNS} turns", f"{before.rss / MEGABYTE:.0f} MB", f"{grown:+.0f}")
    tell("open files", f"{before.files}", f"{after.files}")
    tell("threads", f"{before.threads}", f"{after.threads}")
    tell("milliseconds a turn", f"{first * 1000:.0f}", f"{rest * 1000:.0f} at the end")
    assert after.files <= before.files + 4
    assert after.threads <= before.threads + 4
    assert grown < (150 if FULL else 80)


def _configure(home: Path, server: Loopback) -> None:
    home.mkdir()
    (home / "config.toml").write_text(f'[models]\nbase_url = "{server.base_url}"\n')


async def _talk(stage: Stage, server: Loopback, turns: int) -> float:
    """Every third turn uses a tool; the seconds that each of the last ten took."""
    began = time.monotonic()
    for number in range(turns):
        if number == turns - 10:
            began = time.monotonic()
        read = streams(asked((f"call_{number}", "read", '{"path":"a.txt"}')))
        server.play(*([read] if number % 3 == 0 else []), says(f"Answer {number}. " * 20))
        ended = await stage.say(f"question {number} about the matter at hand")
        assert ended.ending == "done", ended.why
        stage.heard.clear()
    return (time.monotonic() - began) / min(turns, 10)
