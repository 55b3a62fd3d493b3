"""How history's cost grows from a thousand entries to a million.

Run by `make bench`, or as `python tests/bench/bench_history.py`. Times are ratios within one run,
and of processor time where only our own work counts, so that a busy machine measures the same.
MINDSTONE_BENCH=full measures a million entries and a gigabyte; without it, a hundredth of that.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from mindstone_tui.core.entries import Draft  # noqa: E402
from mindstone_tui.core.entries.conversation import UserMessage  # noqa: E402
from mindstone_tui.core.paths import Places, SessionKey  # noqa: E402
from mindstone_tui.core.transcript import Transcript, list_sessions, verify  # noqa: E402

FULL = os.environ.get("MINDSTONE_BENCH") == "full"
LARGE = 1_000_000 if FULL else 20_000
SESSIONS = 5_000 if FULL else 500
LINE = 600
"""Bytes of text in an entry: a million of them make a gigabyte."""


def main() -> None:
    """Measure everything and print it, as a table and as JSON."""
    home = Path(tempfile.mkdtemp(prefix="mindstone-bench-", dir=os.environ.get("BENCH_DIR")))
    try:
        places = Places.resolve({"MINDSTONE_HOME": str(home)})
        rows = [_version(), *_sizes(places), _listing(places)]
    finally:
        shutil.rmtree(home)
    for row in rows:
        sound = {True: "ok", False: "OVER", None: ""}[row["within"]]
        print(f"{row['what']:<52} {row['found']:>14} {row['bar']:>16}  {sound}")
    print(json.dumps({"bench": "history", "entries": LARGE, "rows": rows}))


def _row(what: str, found: str, bar: str = "", within: bool | None = None) -> dict[str, Any]:
    return {"what": what, "found": found, "bar": bar, "within": within}


def _version() -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    nothing = _time_command([sys.executable, "-c", "pass"], environment)
    version = _time_command([sys.executable, "-m", "mindstone_tui", "--version"], environment)
    ratio = version / nothing
    return _row("mindstone --version ÷ python -c pass", f"{ratio:.2f} ×", "≤ 3 ×", ratio <= 3)


def _time_command(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of a command at its best."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(25))


def _sizes(places: Places) -> list[dict[str, Any]]:
    small, large = SessionKey("bench", "small"), SessionKey("bench", "large")
    _fill(places, small, 1_000)
    rate = _fill(places, large, LARGE)
    size = places.session(large).transcript.stat().st_size
    rows = [_row(f"{LARGE:,} entries, {size / 1e6:,.0f} MB: appended in batches", f"{rate:,.0f}/s")]
    for what, action in ACTIONS.items():
        before, after = _in_a_child(places, small, what), _in_a_child(places, large, what)
        ratio = after["seconds"] / before["seconds"]
        bar = f"≤ {action[1]:g} ×" if action[1] else ""
        rows.append(
            _row(
                f"{what}, 1,000 → {LARGE:,} entries",
                f"{ratio:.2f} ×",
                bar,
                ratio <= action[1] if action[1] else None,
            )
        )
        rows.append(_row("  the large one takes", f"{after['seconds'] * 1e3:.2f} ms"))
        if what == "open":
            extra = (after["rss"] - before["rss"]) / 1e6
            rows.append(
                _row("  memory above the small one", f"{extra:.1f} MB", "≤ 150 MB", extra <= 150)
            )
    began = time.process_time()
    verdict = verify(places.session(large))
    spent = time.process_time() - began
    assert verdict.ok
    ratio = _hashed_and_parsed(places.session(large).transcript) / spent
    rows.append(_row("verify, by processor time", f"{size / 1e6 / spent:,.0f} MB/s"))
    rows.append(
        _row("  of the speed of hashing and parsing", f"{ratio:.2f} ×", "≥ 0.8 ×", ratio >= 0.8)
    )
    return rows


def _hashed_and_parsed(path: Path) -> float:
    """Processor seconds of one loop that hashes and parses the same lines."""
    began = time.process_time()
    with path.open("rb") as file:
        for line in file:
            hashlib.sha256(line).hexdigest()
            msgspec.json.decode(line)
    return time.process_time() - began


def _fill(places: Places, key: SessionKey, count: int) -> float:
    transcript = Transcript(places.session(key), channel="bench")
    began = time.perf_counter()
    for first in range(1, count, 1_000):
        transcript.append_all(
            [
                Draft(
                    entry=UserMessage(text=f"entry {number} ".ljust(LINE, "x")),
                    turn=1 + number // 10,
                    channel="bench",
                )
                for number in range(first, min(first + 1_000, count))
            ]
        )
    transcript.close()
    return count / (time.perf_counter() - began)


def _open(places: Places, key: SessionKey) -> Callable[[], None]:
    def action() -> None:
        transcript = Transcript(places.session(key), create=False)
        with transcript.history() as history:
            newest = history.back()
            for _ in range(200):
                next(newest)
        transcript.close()

    return action


def _append(places: Places, key: SessionKey) -> Callable[[], None]:
    transcript = Transcript(places.session(key), create=False)

    def action() -> None:
        transcript.append(UserMessage(text="x" * LINE))

    return action


def _look_up(places: Places, key: SessionKey) -> Callable[[], None]:
    history = Transcript(places.session(key), create=False).history()
    count = len(history.offsets)
    numbers = iter(range(count // 3, count))

    def action() -> None:
        history.line(next(numbers))

    return action


ACTIONS: dict[str, tuple[Callable[[Places, SessionKey], Callable[[], None]], float]] = {
    "open": (_open, 2.0),
    "append": (_append, 1.5),
    "look up by number": (_look_up, 1.5),
}


def _in_a_child(places: Places, key: SessionKey, what: str) -> dict[str, float]:
    """The median time of an action and the memory it took, measured in a fresh process."""
    command = [sys.executable, __file__, "--child", str(places.data), str(key), what]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _child(data: str, key: str, what: str) -> None:
    places = Places.resolve({"MINDSTONE_HOME": data})
    action = ACTIONS[what][0](places, SessionKey.parse(key))
    times = []
    for _ in range(41):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": statistics.median(times), "rss": rss}))


def _listing(places: Places) -> dict[str, Any]:
    source = places.session(SessionKey("bench", "small")).transcript.read_bytes()
    for number in range(SESSIONS):
        folder = places.session(SessionKey("many", f"s{number}")).folder
        folder.mkdir(parents=True)
        (folder / "transcript.jsonl").write_bytes(source[: 40_000 + number % 7])
    began = time.perf_counter()
    found = len(list_sessions(places))
    elapsed = time.perf_counter() - began
    assert found >= SESSIONS
    per = elapsed / found * 5_000
    return _row("5,000 sessions listed", f"{per:.2f} s", "about 1 s", per <= 1.5)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:5])
    else:
        main()
