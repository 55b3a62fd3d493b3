"""What a line costs on a history server on loopback, beside a raw INSERT and a line in a file."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in
from tests.postgres import PostgresServer, programs

ROUNDS = 2_000 if os.environ.get("MINDSTONE_BENCH") == "full" else 200
TEXT = "a message of ordinary length, as people type it in the middle of their work. " * 4


def each(act: Callable[[], object]) -> float:
    """Milliseconds that one call takes."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    """Measure all three in turns, so that whatever else the machine does hits them alike."""
    if programs() is None:
        print("shared history: no PostgreSQL here")
        return
    server = PostgresServer()
    server.start()
    folder = Path(tempfile.mkdtemp())
    try:
        url = server.new_database()
        plain = psycopg.connect(url, autocommit=True)
        plain.execute("create table raw (seq bigserial primary key, line bytea)")
        line = TEXT.encode() * 2
        shared = Transcript(places_in(folder / "shared"), upstream=PostgresStore(url, timeout=10))
        files = Transcript(places_in(folder / "files"))
        acts: dict[str, Callable[[], object]] = {
            "raw INSERT": lambda: plain.execute("insert into raw (line) values (%b)", (line,)),
            "server": lambda: shared.append(UserMessage(text=TEXT), turn=1),
            "file": lambda: files.append(UserMessage(text=TEXT), turn=1),
        }
        took: dict[str, list[float]] = {name: [] for name in acts}
        for _ in range(ROUNDS):
            for name, act in acts.items():
                took[name].append(each(act))
        median = {name: statistics.median(times) for name, times in took.items()}
        for name, times in took.items():
            high = statistics.quantiles(times, n=20)[-1]
            print(f"append, {name:<11} {median[name]:7.2f} ms   95 % {high:7.2f} ms")
        print(f"server / raw INSERT  {median['server'] / median['raw INSERT']:.2f}")
        shared.close()
        files.close()
        plain.close()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
