"""Many programs, one session: one chain, nothing lost, and no lock survives its holder."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.transcript import Follower, verify
from tests.builders import places_in, transcript_in
from tests.faults import sized
from tests.faults.conftest import Tell
from tests.faults.story import lines_of

ROOT = Path(__file__).parents[2]


def _start(home: Path, number: int, count: int, longest: int) -> subprocess.Popen[bytes]:
    arguments = [str(home), str(number), str(count), str(longest)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.appender", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )


def test_eight_writers_make_one_chain_in_which_each_keeps_its_order(home: Path, tell: Tell) -> None:
    writers, count, longest = 8, sized(25, 1_000), 200_000
    began = time.perf_counter()
    running = [_start(home, number, count, longest) for number in range(writers)]
    for process in running:
        _, complaint = process.communicate(timeout=600)
        assert process.returncode == 0, complaint.decode()
    elapsed = time.perf_counter() - began
    places = places_in(home)
    verdict = verify(places)
    assert verdict.ok, verdict.problems[:3]
    assert verdict.entries == writers * count + 1
    order = defaultdict(list)
    with transcript_in(home).history() as history:
        for line in lines_of(history):
            if isinstance(line.entry, UserMessage):
                writer, at, _ = line.entry.text.split(":", 2)
                order[writer].append(int(at))
    assert all(order[str(number)] == list(range(count)) for number in range(writers))
    rate = writers * count / elapsed
    tell(f"{writers} writers × {count:,} lines of 10 B to 200 KB", f"{rate:,.0f}/s", "one chain")


def test_writers_that_are_killed_leave_no_lock_and_no_gap(home: Path, tell: Tell) -> None:
    chance = random.Random(3)
    kills = sized(12, 200)
    running = [_start(home, number, 0, 20_000) for number in range(4)]
    places = places_in(home)
    _wait_until(lambda: places.transcript.exists() and places.transcript.stat().st_size > 5_000)
    for number in range(4, 4 + kills):
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        victim.communicate()
        running.append(_start(home, number, 0, 20_000))
        _wait_until_it_grows(places.transcript)
    for process in running:
        process.kill()
        process.communicate()
    transcript = transcript_in(home)
    transcript.append(UserMessage(text="still here"), turn=1)
    verdict = verify(places)
    assert verdict.ok, verdict.problems[:3]
    tell("random kills among 4 writers", f"{kills:,}", f"0 deadlocks, {verdict.entries:,} lines")


def test_a_follower_sees_each_line_of_another_program_once_and_in_order(home: Path) -> None:
    transcript_in(home).close()
    follower = Follower(places_in(home))
    process = _start(home, 1, 60, 20_000)
    seen: list[int] = []
    while process.poll() is None:
        seen += [line.seq for line in follower.poll() if hasattr(line, "seq")]
    seen += [line.seq for line in follower.poll() if hasattr(line, "seq")]
    process.communicate()
    assert seen == list(range(1, 61))


def _wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened: a deadlock"
        time.sleep(0.001)


def _wait_until_it_grows(path: Path) -> None:
    size = path.stat().st_size
    _wait_until(lambda: path.stat().st_size > size)
