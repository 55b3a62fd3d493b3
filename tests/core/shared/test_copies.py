"""A copy and its server: cut connections, lost leases, refusing disks, servers that are away."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from mindstone_tui.core.config.settings import HistorySettings
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Draft
from mindstone_tui.core.entries.conversation import ToolReturned, UserMessage
from mindstone_tui.core.errors import EntryNotSaved, HistoryAway, LeaseLost, UsageError
from mindstone_tui.core.library.lease import SharedLease
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.shared.copies import Feed, catch_up, fetch
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import Transcript, verify
from mindstone_tui.core.transcript.history_store import FileStore, HistoryStore
from tests.core.interchange.full_disk import FullDisk
from tests.core.shared.proxy import CuttingProxy
from tests.postgres import PostgresServer

KEY = SessionKey("default", "main")


def home_at(folder: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(folder)})


def at(folder: Path) -> SessionPlaces:
    return home_at(folder).session(KEY)


@pytest.fixture
def stores(url: str) -> Iterator[list[PostgresStore]]:
    """Three machines' connections to one server."""
    found = [PostgresStore(url, timeout=10) for _ in range(3)]
    yield found
    for each in found:
        each.close()


def texts(store: HistoryStore) -> list[str]:
    """What was said, as the server has it."""
    import msgspec

    lines = [msgspec.json.decode(raw) for raw in store.read(KEY)]
    return [line["text"] for line in lines if line["kind"] == "user_message"]


def test_two_machines_write_one_history(stores: list[PostgresStore], tmp_path: Path) -> None:
    one = Transcript(at(tmp_path / "one"), upstream=stores[0])
    other = Transcript(at(tmp_path / "other"), upstream=stores[1])
    for number in range(5):
        one.append(UserMessage(text=f"one {number}"), turn=1)
        other.append(UserMessage(text=f"other {number}"), turn=1)
    fetch(at(tmp_path / "one"), stores[0])
    assert at(tmp_path / "one").transcript.read_bytes() == (
        at(tmp_path / "other").transcript.read_bytes()
    )
    assert verify(at(tmp_path / "one")).ok
    one.close()
    other.close()


def test_blobs_travel_with_the_lines_that_name_them(
    stores: list[PostgresStore], tmp_path: Path
) -> None:
    one = Transcript(at(tmp_path / "one"), upstream=stores[0])
    one.append(UserMessage(text="long " * 400_000), turn=1)
    full = one.keep_blob(b"the whole output").sha256
    one.append(ToolReturned(call="c", name="shell", text="cut", full=full), turn=1)
    fetch(at(tmp_path / "other"), stores[1])
    assert verify(at(tmp_path / "other")).ok
    one.close()


def test_wherever_a_connection_is_cut_the_line_is_there_once(
    server: PostgresServer, url: str, stores: list[PostgresStore], tmp_path: Path
) -> None:
    """At every byte with MINDSTONE_FAULTS=1, else at some."""
    with CuttingProxy(server.port) as proxy:
        through = url.replace(f":{server.port}/", f":{proxy.port}/")
        transcript = Transcript(
            at(tmp_path / "one"), upstream=PostgresStore(through, timeout=10), disk=Quick()
        )
        proxy.cut_after("up", 1 << 30)
        transcript.append(UserMessage(text="before"), turn=1)
        told = ["before"]
        for direction, size in dict(proxy.seen).items():
            step = 1 if os.environ.get("MINDSTONE_FAULTS") == "1" else max(1, size // 12)
            for count in range(0, size + 1, step):
                text = f"{direction} {count}"
                proxy.cut_after(direction, count)
                transcript.append(UserMessage(text=text), turn=1)
                told.append(text)
        assert proxy.cuts > 10
        transcript.close()
    assert texts(stores[0]) == told
    assert verify(at(tmp_path / "one")).ok


def test_wherever_a_connection_is_cut_an_append_in_several_pieces_is_there_once(
    server: PostgresServer, url: str, stores: list[PostgresStore], tmp_path: Path
) -> None:
    told = []
    with CuttingProxy(server.port) as proxy:
        through = url.replace(f":{server.port}/", f":{proxy.port}/")
        transcript = Transcript(
            at(tmp_path / "one"),
            upstream=PostgresStore(through, timeout=10),
            disk=Quick(),
        )
        transcript.longest_write = 3 << 10

        def append(text: str) -> None:
            said = [f"{text}, {number}" for number in range(7)]
            told.extend(said)
            drafts = [Draft(entry=UserMessage(text=each), turn=1, channel="test") for each in said]
            assert len(transcript.append_all(drafts)) == len(drafts)

        proxy.cut_after("up", 1 << 30)
        append("before")
        for direction, size in dict(proxy.seen).items():
            for count in range(0, size + 1, max(1, size // 12)):
                proxy.cut_after(direction, count)
                append(f"{direction} {count}")
        assert proxy.cuts > 10
        transcript.close()
    assert texts(stores[0]) == told
    assert verify(at(tmp_path / "one")).ok


def test_a_copy_that_a_full_disk_broke_off_is_fetched_on_from_there(
    stores: list[PostgresStore], tmp_path: Path
) -> None:
    drafts = [
        Draft(entry=UserMessage(text=f"{number}"), turn=1, channel="test") for number in range(1200)
    ]
    with contextlib.closing(Transcript(at(tmp_path / "one"), upstream=stores[0])) as one:
        one.append_all(drafts)
        with pytest.raises(EntryNotSaved):  # two of the three pieces that it is fetched in
            Transcript(at(tmp_path / "other"), upstream=stores[1], disk=FullDisk(writes=2))
        part = at(tmp_path / "other").transcript.stat().st_size
        assert 0 < part < at(tmp_path / "one").transcript.stat().st_size
        Transcript(at(tmp_path / "other"), upstream=stores[2]).close()
        assert at(tmp_path / "other").transcript.read_bytes() == (
            at(tmp_path / "one").transcript.read_bytes()
        )


class Quick(Disk):
    """A disk that does not sync: the copy's own durability is not what is looked at."""

    def sync(self, fd: int) -> None:
        pass


def test_a_turn_that_another_machine_took_over_can_write_nothing_more(
    stores: list[PostgresStore], url: str, tmp_path: Path
) -> None:
    stopped = Transcript(at(tmp_path / "one"), upstream=stores[0])
    lease = SharedLease(at(tmp_path / "one"), stopped, stores[0], 3600.0)
    assert lease.try_take()
    stopped.append(UserMessage(text="begun"), turn=1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update mindstone.session set lease_until = clock_timestamp()")
    other = Transcript(at(tmp_path / "other"), upstream=stores[1])
    taken = SharedLease(at(tmp_path / "other"), other, stores[1], 3600.0)
    assert taken.try_take()
    other.append(UserMessage(text="taken over"), turn=2)
    with pytest.raises(LeaseLost, match="NOT SAVED"):
        stopped.append(UserMessage(text="too late"), turn=1)
    lease.give_back()
    stopped.append(UserMessage(text="later"), turn=3)
    assert texts(stores[2]) == ["begun", "taken over", "later"]
    rescued = stopped.rescue(tmp_path / "rescued")
    assert rescued is not None
    assert "too late" in rescued.read_text()
    taken.give_back()
    stopped.close()
    other.close()


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_jump_of_the_servers_clock_gives_way_to_others_and_never_to_two(
    stores: list[PostgresStore], url: str, tmp_path: Path, hours: int
) -> None:
    first = Transcript(at(tmp_path / "one"), upstream=stores[0])
    lease = SharedLease(at(tmp_path / "one"), first, stores[0], 3600.0)
    assert lease.try_take()
    first.append(UserMessage(text="begun"), turn=1)
    with psycopg.connect(url, autocommit=True) as connection:
        # That the clock jumps one way is the same as that all its times jump the other way.
        connection.execute(
            "update mindstone.session set lease_from = lease_from + %(jump)s, "
            "lease_until = lease_until + %(jump)s",
            {"jump": timedelta(hours=-hours)},
        )
    other = Transcript(at(tmp_path / "other"), upstream=stores[1])
    taken = SharedLease(at(tmp_path / "other"), other, stores[1], 3600.0)
    assert taken.try_take()
    other.append(UserMessage(text="taken over"), turn=2)
    with pytest.raises(LeaseLost, match="NOT SAVED"):
        first.append(UserMessage(text="too late"), turn=1)
    assert texts(stores[2]) == ["begun", "taken over"]
    for each in (lease, taken):
        each.give_back()
    for transcript in (first, other):
        transcript.close()


def test_a_lease_is_kept_while_it_is_renewed(stores: list[PostgresStore], tmp_path: Path) -> None:
    transcript = Transcript(at(tmp_path / "one"), upstream=stores[0])
    lease = SharedLease(at(tmp_path / "one"), transcript, stores[0], 3.0)
    assert lease.try_take()
    first = stores[1].find(KEY)
    assert first is not None
    assert first.holder
    while stores[1].take(KEY, "other", 60.0) is None and lease.held:
        with psycopg.connect(stores[1]._url, autocommit=True) as connection:
            row = connection.execute(
                "select lease_until > created + interval '4 s' from mindstone.session"
            ).fetchone()
        if row is not None and row[0]:
            break
    assert lease.held
    lease.give_back()
    assert stores[1].take(KEY, "other", 60.0) is not None
    transcript.close()


def test_a_server_that_is_away_is_said_at_once_and_nothing_is_lost(
    server: PostgresServer, url: str, stores: list[PostgresStore], tmp_path: Path
) -> None:
    proxy = CuttingProxy(server.port)
    with proxy:
        through = url.replace(f":{server.port}/", f":{proxy.port}/")
        transcript = Transcript(at(tmp_path / "one"), upstream=PostgresStore(through, timeout=2))
        transcript.append(UserMessage(text="before"), turn=1)
        target, proxy._target = proxy._target, 1  # nobody listens there
        proxy.cut_all()
        with pytest.raises(EntryNotSaved, match="NOT SAVED"):
            transcript.append(UserMessage(text="while away"), turn=1)
        assert len(transcript.unsaved) == 1
        assert texts(stores[0]) == ["before"]
        assert b"while away" not in at(tmp_path / "one").transcript.read_bytes()
        proxy._target = target
        transcript.append(UserMessage(text="after"), turn=1)
        assert texts(stores[0]) == ["before", "while away", "after"]
        transcript.close()


def test_a_connection_that_ended_while_nobody_used_it_is_made_anew(
    url: str, stores: list[PostgresStore], tmp_path: Path
) -> None:
    transcript = Transcript(at(tmp_path / "one"), upstream=stores[0])
    for act in (
        lambda: stores[0].take(KEY, "me", 60.0),
        stores[0].sessions,
        lambda: transcript.append(UserMessage(text="goes on"), turn=1),
    ):
        with psycopg.connect(url, autocommit=True) as connection:
            ended = connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                "where application_name = 'mindstone' and datname = current_database()"
            ).fetchall()
        assert ended
        assert act()
    transcript.close()


def test_a_local_disk_that_refuses_costs_no_line(
    stores: list[PostgresStore], tmp_path: Path
) -> None:
    class Full(Disk):
        full = False

        def write(self, fd: int, data: bytes) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(fd, data)

    disk = Full()
    transcript = Transcript(at(tmp_path / "one"), upstream=stores[0], disk=disk)
    disk.full = True
    transcript.append(UserMessage(text="kept on the server"), turn=1)
    with pytest.raises(EntryNotSaved):
        transcript.append(UserMessage(text="waits"), turn=1)
    disk.full = False
    transcript.append(UserMessage(text="goes on"), turn=1)
    assert texts(stores[1]) == ["kept on the server", "waits", "goes on"]
    assert verify(at(tmp_path / "one")).ok
    transcript.close()


def test_a_session_that_is_only_here_is_not_mixed_with_one_on_the_server(
    stores: list[PostgresStore], tmp_path: Path
) -> None:
    alone = Transcript(at(tmp_path / "one"))
    alone.append(UserMessage(text="here"), turn=1)
    alone.close()
    before = at(tmp_path / "one").transcript.read_bytes()
    with pytest.raises(UsageError, match="not at all"):
        Transcript(at(tmp_path / "one"), upstream=stores[0])
    other = Transcript(at(tmp_path / "other"), upstream=stores[1])
    other.append(UserMessage(text="there"), turn=1)
    with pytest.raises(UsageError, match="different histories"):
        Transcript(at(tmp_path / "one"), upstream=stores[2])
    assert at(tmp_path / "one").transcript.read_bytes() == before
    other.close()


def test_what_is_read_is_caught_up_first_and_an_absent_server_is_reported(
    url: str, stores: list[PostgresStore], tmp_path: Path
) -> None:
    other = Transcript(at(tmp_path / "other"), upstream=stores[1])
    other.append(UserMessage(text="there"), turn=1)
    home = home_at(tmp_path / "one")
    assert catch_up(home, HistorySettings(url=url), [KEY]) == []
    assert home.session(KEY).transcript.read_bytes() == (
        at(tmp_path / "other").transcript.read_bytes()
    )
    gone = HistorySettings(url="postgresql://me:hunter2secret@127.0.0.1:1/none", timeout=1)
    (told,) = catch_up(home, gone, [KEY])
    assert "127.0.0.1:1/none" in told
    assert "hunter2" not in told
    other.close()


def test_what_another_machine_writes_appears_here_as_it_is_written(
    stores: list[PostgresStore], tmp_path: Path
) -> None:
    other = Transcript(at(tmp_path / "other"), upstream=stores[1])
    here = at(tmp_path / "one")
    fetch(here, stores[0])
    feed = Feed(here, stores[0])
    feed.start()
    try:
        line = other.append(UserMessage(text="live"), turn=1)
        assert FileStore(home_at(tmp_path / "one")).wait(KEY, line.seq - 1, 30.0)
        assert b'"live"' in here.transcript.read_bytes()
    finally:
        feed.stop()
    other.close()


def test_no_error_shows_the_password(url: str) -> None:
    secret = "correct-horse-battery"
    for address in (
        f"postgresql://nobody:{secret}@127.0.0.1:1/db",
        url.replace("postgres@", f"nobody_here:{secret}@"),
        f"postgresql://u:{secret}@127.0.0.1:notaport/db",
        f"postgresql://u:{secret}@[::1/db",
        f"postgresql://u@127.0.0.1:1/db?password={secret}",
    ):
        with pytest.raises((HistoryAway, UsageError)) as told:
            PostgresStore(address, timeout=2).sessions()
        import traceback

        assert secret not in "".join(traceback.format_exception(told.value))
