"""Ten thousand people, a hundred sessions each, one server: `python -m tests.bench.shared_scale`.

The roles and the heads of all sessions are really there. Connections then append to sessions at
random, each under its own owner, as fast as they can; what is printed is what one server of this
machine's size does, and what it takes on disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import time
from multiprocessing.queues import Queue

import psycopg

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.line import encode_body, seal
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript.encode import encode_ulid
from mindstone_tui.core.transcript.history_store import NOTHING
from mindstone_tui.core.transcript.reader import Head
from tests.postgres import PostgresServer

TEXT = "What a person or a program says in a line of ordinary length, give or take. " * 8


def _line(head: Head, key: SessionKey) -> tuple[bytes, Head]:
    raw, digest = seal(
        encode_body(UserMessage(text=TEXT)),
        seq=head.seq + 1,
        id=encode_ulid(head.seq + 2),
        session=str(key),
        ts="2026-01-01T00:00:00.000Z",
        turn=1,
        role="user",
        channel="test",
        prev=head.hash,
    )
    return raw[:-1], Head(head.seq + 1, digest)


def prepare(url: str, people: int, sessions: int) -> None:
    """Every role, and the head of every session."""
    store = PostgresStore(url, timeout=600)
    store.sessions()
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"do $$ begin for n in 1..{people} loop execute format('create role p%s', n); "
            "end loop; end $$"
        )
        connection.execute(
            "insert into mindstone.session (owner, key) select 'p' || p, 'agent:default:s' || s "
            f"from generate_series(1, {people}) p, generate_series(1, {sessions}) s"
        )
        connection.execute("analyze mindstone.session")


def write(
    url: str, people: int, sessions: int, seconds: float, told: Queue[tuple[int, list[float]]]
) -> None:
    """Append to sessions at random for a while; how many times, and how long each took."""
    heads: dict[tuple[int, int], tuple[int, Head]] = {}
    took: list[float] = []
    with psycopg.connect(url, autocommit=True) as connection:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            person, number = random.randint(1, people), random.randint(1, sessions)
            key = SessionKey("default", f"s{number}")
            if (person, number) not in heads:
                row = connection.execute(
                    "select id, head_seq, head_hash from mindstone.session where owner = %s and "
                    "key = %s",
                    (f"p{person}", str(key)),
                ).fetchone()
                assert row is not None
                heads[person, number] = (row[0], Head(row[1], row[2]) if row[1] >= 0 else NOTHING)
            id_, head = heads[person, number]
            raw, after = _line(head, key)
            began = time.perf_counter()
            try:
                connection.execute(
                    "select mindstone.append(%s, %s, %s, %b)", (id_, head.seq, head.hash, [raw])
                )
            except psycopg.DatabaseError:
                del heads[person, number]  # another connection was here first
                continue
            took.append(time.perf_counter() - began)
            heads[person, number] = (id_, after)
    told.put((len(took), took))


def main(people: int, sessions: int, seconds: float) -> None:
    """Prepare, then write with more and more connections."""
    server = PostgresServer()
    server.start()
    try:
        url = server.new_database()
        began = time.monotonic()
        prepare(url, people, sessions)
        print(f"{people:,} roles, {people * sessions:,} sessions: {time.monotonic() - began:.0f} s")
        lines = 0
        for connections in (1, 4, 16):
            told: Queue[tuple[int, list[float]]] = multiprocessing.Queue()
            workers = [
                multiprocessing.Process(target=write, args=(url, people, sessions, seconds, told))
                for _ in range(connections)
            ]
            for worker in workers:
                worker.start()
            found = [told.get() for _ in workers]
            for worker in workers:
                worker.join()
            count = sum(number for number, _ in found)
            every = sorted(each for _, times in found for each in times)
            lines += count
            print(
                f"{connections:3} connections: {count / seconds:7.0f} appends/s, "
                f"median {every[len(every) // 2] * 1e3:.1f} ms, "
                f"99 % {every[int(len(every) * 0.99)] * 1e3:.1f} ms"
            )
        with psycopg.connect(url, autocommit=True) as connection:
            for table, rows in (("session", people * sessions), ("entry", lines)):
                row = connection.execute(
                    f"select pg_total_relation_size('mindstone.{table}')"
                ).fetchone()
                size = int(row[0]) if row else 0
                print(f"{table}: {size / 1e6:,.0f} MB, {size / max(rows, 1):,.0f} bytes a row")
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    main(given.people, given.sessions, given.seconds)
