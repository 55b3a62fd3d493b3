"""Ten thousand people, a hundred sessions each, one server: `make scale`.

The roles and the heads of all sessions are really there. Connections then append to sessions at
random, each under its own owner, as fast as they can; what is printed is what one server of this
machine's size does, what it takes on disk, what a connection takes of memory, and how long search
in the database takes over made-up passages.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import re
import time
from multiprocessing.queues import Queue
from pathlib import Path

import psycopg

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.line import encode_body, seal
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.recall.embedding import EmbeddedModel
from mindstone_tui.core.shared.passage_store import PassageStore, SearchBounds
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


def weigh_connections(url: str, count: int) -> None:
    """The memory that an open app's connection takes of the server."""
    stores = [PostgresStore(url, timeout=60) for _ in range(count)]
    for store in stores:
        store.sessions()
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where application_name = 'mindstone'"
        ).fetchall()
    try:
        told = [Path(f"/proc/{pid}/smaps_rollup").read_text() for (pid,) in rows]
    except OSError:
        print("connections: their memory cannot be read here")
    else:
        own = [int(re.findall(r"Private_Dirty:\s+(\d+)", each)[0]) / 1e3 for each in told]
        print(f"a connection: {sum(own) / len(own):.1f} MB of its own ({len(own)} of them)")
    for store in stores:
        store.close()


_PASSAGES = """
insert into mindstone.passage
    (session, place, owner, seq, at, kind, sitting, wanted, length, words, body)
select (select min(id) from mindstone.session), n, current_user, n, n, 'user_message', n / 50, true,
    60, array_to_tsvector(array(select 'w' || floor(20000 * power(random(), 3))
        from generate_series(1, 60) where n = n)),
    convert_to(repeat(md5(n::text), 18), 'UTF8')
from generate_series(1, {count}) n
"""
_MEANING = """
insert into mindstone.meaning (session, place, owner, model, numbers, tokens, spread)
select session, place, owner, '{model}', (select array_agg(random() - 0.5)::real[]
    from generate_series(1, 384) where place = place)::vector::halfvec,
    convert_to(repeat(md5(place::text), 40), 'UTF8'), sha256(place::text::bytea)
from mindstone.passage
"""


def search(url: str, count: int) -> None:
    """How long the database takes to find candidates among so many passages of one owner."""
    with contextlib.closing(PostgresStore(url, timeout=600)) as store:
        shared = PassageStore(store)
        tables = ["passage", *(["meaning"] if shared.has_meaning else [])]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "insert into mindstone.searched (session, owner, chunking, passages) "
                f"select min(id), current_user, 1, {count} from mindstone.session"
            )
            connection.execute(_PASSAGES.format(count=count))
            if shared.has_meaning:
                connection.execute(_MEANING.format(model=EmbeddedModel.name))
            for table in tables:
                connection.execute(f"analyze mindstone.{table}")
                row = connection.execute(
                    f"select pg_total_relation_size('mindstone.{table}')"
                ).fetchone()
                print(f"{table}: {(int(row[0]) if row else 0) / count:,.0f} bytes each")
        words: list[float] = []
        meaning: list[float] = []
        for at in range(40):
            stems = {f"w{(at * 97 + each * 313) % 20_000}": 1.0 for each in range(6)}
            began = time.perf_counter()
            shared.counts(list(stems), 20_000)
            shared.by_words(stems, SearchBounds(), 100)
            words.append(time.perf_counter() - began)
            if shared.has_meaning:
                began = time.perf_counter()
                near = [random.random() - 0.5 for _ in range(384)]
                shared.by_meaning(EmbeddedModel.name, near, SearchBounds(), 100)
                meaning.append(time.perf_counter() - began)
    for name, took in (("words", words), ("meaning", meaning)):
        if took:
            print(f"{count:,} passages by {name}: {sorted(took)[len(took) // 2] * 1e3:.0f} ms")


def main(people: int, sessions: int, seconds: float, passages: int) -> None:
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
        weigh_connections(url, 40)
        search(url, passages)
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--passages", type=int, default=20_000)
    given = parser.parse_args()
    main(given.people, given.sessions, given.seconds, given.passages)
