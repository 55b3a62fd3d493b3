"""Files and PostgreSQL do the same: both are held against one model, step by step."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.line import encode_body, seal
from mindstone_tui.core.errors import (
    DamagedTranscript,
    HistoryAway,
    LeaseLost,
    MindstoneError,
    Overtaken,
    PlaceError,
    UsageError,
)
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import verify
from mindstone_tui.core.transcript.encode import encode_ulid
from mindstone_tui.core.transcript.history_store import (
    NOTHING,
    FileStore,
    Grant,
    HistoryStore,
    copy_session,
    head_at,
)
from mindstone_tui.core.transcript.reader import Head

_ODD = {
    "hash": "null::text",
    "seq": "'first'::text",
    "key": "null::text",
    "bytes": "'{1,2}'::int[]",
    "updated": "'yesterday'::text",
}
"""What a server may have for a column, and what is no such thing."""
_NUMBER = itertools.count(1)
_KEYS = ["main", 'odd "name" \\ \x01 ü', "a~b"]
_HOLDERS = ["ann", "bob"]
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)


def line_behind(head: Head, key: SessionKey, text: str) -> tuple[bytes, Head]:
    """A line that may follow a head, and the head it makes."""
    raw, digest = seal(
        encode_body(UserMessage(text=text)),
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


class Model:
    """What a store must look like from outside."""

    def __init__(self) -> None:
        self.lines: dict[str, list[bytes]] = {name: [] for name in _KEYS}
        self.heads: dict[str, Head] = dict.fromkeys(_KEYS, NOTHING)
        self.holder: dict[str, str] = dict.fromkeys(_KEYS, "")
        self.blobs: dict[str, set[bytes]] = {name: set() for name in _KEYS}


class Machine(RuleBasedStateMachine):
    """Steps that are taken in both stores, with the model saying what must come out."""

    url = ""
    compared: ClassVar[list[int]] = []
    """How many answers were compared, machine by machine."""

    def __init__(self) -> None:
        super().__init__()
        self.compared.append(0)
        self.model = Model()
        self.folder = Path(tempfile.mkdtemp())
        self.agent = f"agent{next(_NUMBER)}"
        self.home = Places.resolve({"MINDSTONE_HOME": str(self.folder)})
        self.stores: list[HistoryStore] = [FileStore(self.home), self.server()]
        self.grants: dict[tuple[int, str, str], Grant] = {}

    def server(self) -> PostgresStore:
        return PostgresStore(self.url, timeout=10)

    def teardown(self) -> None:
        for name in _KEYS:
            if self.model.lines[name]:
                assert [verify(self.home.session(self.key(name))).ok] == [False]  # no header here
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)

    def key(self, name: str) -> SessionKey:
        return SessionKey(self.agent, name)

    def both(self, act: Callable[[int, HistoryStore], Any]) -> list[Any]:
        """What each store answers; an error as its class."""
        answers: list[Any] = []
        for at, store in enumerate(self.stores):
            try:
                answers.append(act(at, store))
            except MindstoneError as error:
                answers.append(type(error))
        self.compared[-1] += 1
        return answers

    @rule(name=st.sampled_from(_KEYS), texts=st.lists(_TEXTS, min_size=1, max_size=4))
    def append(self, name: str, texts: list[str]) -> None:
        key, head = self.key(name), self.model.heads[name]
        lines = []
        for text in texts:
            raw, head = line_behind(head, key, text)
            lines.append(raw)
        after = self.model.heads[name]
        assert self.both(lambda at, store: store.append(key, lines, after)) == [None, None]
        self.model.lines[name] += lines
        self.model.heads[name] = head

    @rule(name=st.sampled_from(_KEYS), back=st.integers(1, 3))
    def append_behind_an_old_head(self, name: str, back: int) -> None:
        key, now = self.key(name), self.model.heads[name]
        if now.seq < 0:
            return
        seq = max(now.seq - back, -1)
        after = head_at(self.stores[0], key, seq)
        raw, _ = line_behind(after, key, "late")
        answers = self.both(lambda at, store: store.append(key, [raw], after))
        assert answers == [Overtaken, Overtaken]

    @rule(name=st.sampled_from(_KEYS), how=st.sampled_from(["byte", "prev", "session", "seq"]))
    def append_what_does_not_follow(self, name: str, how: str) -> None:
        key, after = self.key(name), self.model.heads[name]
        wrong = {
            "byte": (after, key),
            "prev": (Head(after.seq, "f" * 64), key),
            "session": (after, SessionKey(self.agent, "another")),
            "seq": (Head(after.seq + 1, after.hash), key),
        }[how]
        raw, _ = line_behind(wrong[0], wrong[1], "text")
        if how == "byte":
            raw = raw.replace(b"text", b"test")
        answers = self.both(lambda at, store: store.append(key, [raw], after))
        assert answers == [DamagedTranscript, DamagedTranscript]

    @rule(name=st.sampled_from(_KEYS), who=st.sampled_from(_HOLDERS))
    def take(self, name: str, who: str) -> None:
        key = self.key(name)

        def act(at: int, store: HistoryStore) -> bool:
            grant = store.take(key, who, 60.0)
            if grant is not None:
                self.grants[at, name, who] = grant
            return grant is not None

        free = self.model.holder[name] in ("", who)
        assert self.both(act) == [free, free]
        if free:
            self.model.holder[name] = who

    @rule(name=st.sampled_from(_KEYS), who=st.sampled_from(_HOLDERS))
    def append_under_a_lease(self, name: str, who: str) -> None:
        if (0, name, who) not in self.grants:
            return
        key, after = self.key(name), self.model.heads[name]
        raw, head = line_behind(after, key, "under a lease")
        good = self.model.holder[name] == who
        answers = self.both(
            lambda at, store: store.append(key, [raw], after, self.grants[at, name, who])
        )
        assert answers == ([None, None] if good else [LeaseLost, LeaseLost])
        if good:
            self.model.lines[name].append(raw)
            self.model.heads[name] = head

    @rule(name=st.sampled_from(_KEYS), who=st.sampled_from(_HOLDERS))
    def renew(self, name: str, who: str) -> None:
        if (0, name, who) in self.grants:
            good = self.model.holder[name] == who
            grants, key = self.grants, self.key(name)
            assert self.both(lambda at, store: store.renew(key, grants[at, name, who])) == [
                good,
                good,
            ]

    @rule(name=st.sampled_from(_KEYS))
    def the_holder_dies_and_the_other_one_takes_over(self, name: str) -> None:
        dead = self.model.holder[name]
        if not dead:
            return
        other = next(who for who in _HOLDERS if who != dead)
        key = self.key(name)
        self.stores[0].give_back(key, self.grants[0, name, dead])  # the kernel does this
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "update mindstone.session set lease_until = clock_timestamp() - interval '1 ms' "
                "where key = %s",
                (str(key),),
            )
        self.model.holder[name] = ""
        self.take(name, other)

    @rule(name=st.sampled_from(_KEYS), first=st.integers(0, 8), count=st.integers(-1, 8))
    def read(self, name: str, first: int, count: int) -> None:
        last = None if count < 0 else first + count
        expected = self.model.lines[name][first : None if last is None else last + 1]
        if self.model.lines[name]:
            assert self.both(lambda at, store: list(store.read(self.key(name), first, last))) == [
                expected,
                expected,
            ]

    @rule(name=st.sampled_from(_KEYS), data=st.binary(max_size=40))
    def keep_blob(self, name: str, data: bytes) -> None:
        key, digest = self.key(name), hashlib.sha256(data).hexdigest()
        assert self.both(lambda at, store: store.keep_blob(key, data)) == [digest, digest]
        self.model.blobs[name].add(data)
        assert self.both(lambda at, store: store.blob(key, digest)) == [data, data]

    @rule(name=st.sampled_from(_KEYS))
    def ask_for_blobs(self, name: str) -> None:
        key = self.key(name)
        named = {hashlib.sha256(data).hexdigest() for data in self.model.blobs[name]}
        none = "0" * 64
        assert self.both(lambda at, store: store.missing_blobs(key, {*named, none})) == [
            {none},
            {none},
        ]
        assert self.both(lambda at, store: store.blob(key, none)) == [PlaceError, PlaceError]

    @rule()
    def list_sessions(self) -> None:
        expected = sorted(
            (name, self.model.heads[name]) for name in _KEYS if self.model.lines[name]
        )

        def act(at: int, store: HistoryStore) -> list[tuple[str, Head]]:
            return sorted(
                (each.key.main, each.head)
                for each in store.sessions()
                if each.key.agent == self.agent
            )

        assert self.both(act) == [expected, expected]
        sizes = self.both(
            lambda at, store: {
                each.key: each.size for each in store.sessions() if each.key.agent == self.agent
            }
        )
        assert sizes[0] == sizes[1]

    @rule(name=st.sampled_from(_KEYS))
    def look_whether_there_is_more(self, name: str) -> None:
        key, head = self.key(name), self.model.heads[name]
        assert self.both(lambda at, store: store.wait(key, head.seq, 0.0)) == [False, False]
        if head.seq >= 0:
            assert self.both(lambda at, store: store.wait(key, head.seq - 1, 5.0)) == [True, True]

    @rule()
    def lose_the_connection(self) -> None:
        self.stores[1].close()


def test_files_and_postgresql_are_the_same_store(url: str) -> None:
    class OnThisServer(Machine):
        pass

    OnThisServer.url = url
    run_state_machine_as_test(
        OnThisServer, settings=settings(max_examples=settings().max_examples // 6)
    )
    assert sum(map(bool, OnThisServer.compared)) >= 3, "the stores were hardly asked anything"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    found = PostgresStore(url, timeout=10)
    yield found
    found.close()


def filled(store: HistoryStore, key: SessionKey, lines: int) -> Head:
    """A session with some lines."""
    head = NOTHING
    for number in range(lines):
        raw, after = line_behind(head, key, f"line {number}")
        store.append(key, [raw], head)
        head = after
    return head


@pytest.mark.parametrize(
    "statement",
    [
        "update mindstone.entry set line = line",
        "delete from mindstone.entry",
        "truncate mindstone.entry",
        "truncate mindstone.session cascade",
        "delete from mindstone.session",
        "update mindstone.session set head_seq = 0",
        "update mindstone.session set head_hash = repeat('a', 64)",
        "update mindstone.session set epoch = epoch - 1",
        "update mindstone.session set owner = 'another'",
        "delete from mindstone.blob",
        "truncate mindstone.blob",
    ],
)
def test_not_even_the_superuser_changes_what_was_written(
    store: PostgresStore, url: str, statement: str
) -> None:
    key = SessionKey("default", "main")
    filled(store, key, 3)
    store.keep_blob(key, b"kept")
    with (
        psycopg.connect(url, autocommit=True) as connection,
        pytest.raises(psycopg.DatabaseError, match="append-only"),
    ):
        connection.execute(statement)


def test_the_database_makes_the_hash_itself(store: PostgresStore, url: str) -> None:
    key = SessionKey("default", "main")
    head = filled(store, key, 3)
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute("select hash from mindstone.entry order by seq").fetchall()
        assert rows[-1][0].hex() == head.hash
        with pytest.raises(psycopg.DatabaseError, match="hash"):
            connection.execute(
                "insert into mindstone.entry (session, seq, line, hash) values (1, 9, 'x', 'y')"
            )


def test_a_role_sees_and_writes_only_its_own_and_its_teams_sessions(
    store: PostgresStore, url: str
) -> None:
    assert store.owner == "postgres"  # and the tables are made
    agent = f"roles{next(_NUMBER)}"
    ann, bob, team = (f"{name}_{agent}" for name in ("ann", "bob", "team"))
    with psycopg.connect(url, autocommit=True) as connection:
        for role in (ann, bob):
            connection.execute(f"create role {role} login")
        connection.execute(f"create role {team}; grant {team} to {ann}")
        for role in (ann, bob, team):
            connection.execute(
                f"grant usage on schema mindstone to {role}; "
                f"grant select on all tables in schema mindstone to {role}; "
                f"grant execute on all functions in schema mindstone to {role}"
            )
    key = SessionKey("default", "main")
    of_ann = PostgresStore(url.replace("postgres@", f"{ann}@"), timeout=10)
    of_bob = PostgresStore(url.replace("postgres@", f"{bob}@"), timeout=10)
    of_team = PostgresStore(url.replace("postgres@", f"{ann}@"), team=team, timeout=10)
    bob_in_team = PostgresStore(url.replace("postgres@", f"{bob}@"), team=team, timeout=10)
    mine, theirs = filled(of_ann, key, 2), filled(of_team, key, 3)
    assert [each.head for each in of_ann.sessions()] == [mine]
    assert [each.head for each in of_team.sessions()] == [theirs]
    assert of_bob.sessions() == []
    assert bob_in_team.sessions() == []
    with pytest.raises(PlaceError):
        filled(bob_in_team, key, 1)
    with psycopg.connect(url.replace("postgres@", f"{bob}@"), autocommit=True) as connection:
        for table in ("session", "entry", "blob"):
            found = connection.execute(f"select count(*) from mindstone.{table}").fetchone()
            assert found == (0,)
        raw, _ = line_behind(mine, key, "not bob's")
        with pytest.raises(psycopg.DatabaseError, match="no such session"):
            connection.execute(
                "select mindstone.append(1, %s, %s, %b)", (mine.seq, mine.hash, [raw])
            )
        for statement in (
            "insert into mindstone.session (owner, key) values (current_user, 'x')",
            "insert into mindstone.entry (session, seq, line) values (1, 7, 'x')",
            "update mindstone.session set holder = 'me'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    for each in (of_ann, of_bob, of_team, bob_in_team):
        each.close()


def test_the_role_that_made_the_tables_sees_no_more_than_others(url: str) -> None:
    number = next(_NUMBER)
    first, second = f"first{number}", f"second{number}"
    database = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create role {first} login; create role {second} login")
        connection.execute(f"grant create on database {database} to {first}")
    key = SessionKey("default", "main")
    of_first = PostgresStore(url.replace("postgres@", f"{first}@"), timeout=10)
    head = filled(of_first, key, 2)
    of_first.keep_blob(key, b"kept")
    with psycopg.connect(url.replace("postgres@", f"{first}@"), autocommit=True) as connection:
        for statement in (
            f"grant usage on schema mindstone to {second}",
            f"grant select on all tables in schema mindstone to {second}",
            f"grant execute on all functions in schema mindstone to {second}",
        ):
            connection.execute(statement)
        of_second = PostgresStore(url.replace("postgres@", f"{second}@"), timeout=10)
        filled(of_second, key, 5)
        assert of_second.take(key, "me", 60.0) is not None
        for table, count in (("session", 1), ("entry", 2), ("blob", 1)):
            found = connection.execute(f"select count(*) from mindstone.{table}").fetchone()
            assert found == (count,)
    assert [each.head for each in of_first.sessions()] == [head]
    of_first.close()
    of_second.close()


def test_a_role_that_may_not_make_tables_is_told_the_command(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        role = f"small{next(_NUMBER)}"
        connection.execute(f"create role {role} login")
    store = PostgresStore(url.replace("postgres@", f"{role}@"), timeout=10)
    with pytest.raises(PlaceError, match="has no tables") as told:
        store.sessions()
    assert "mindstone history schema" in told.value.remedy
    with contextlib.closing(PostgresStore(url, timeout=10)) as of_owner:
        assert of_owner.sessions() == []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"grant usage on schema mindstone to {role}")
        connection.execute(f"grant select on all tables in schema mindstone to {role}")
        connection.execute("delete from mindstone.schema_step where step > 1")
    with pytest.raises(PlaceError, match="older than this program"):
        store.sessions()
    store.close()


def test_tables_of_a_newer_program_are_left_alone(store: PostgresStore, url: str) -> None:
    assert store.sessions() == []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into mindstone.schema_step (step, name) values (999, 'later')")
    with pytest.raises(UsageError, match="newer MindStone"):
        PostgresStore(url, timeout=10).sessions()


def test_a_copy_that_was_broken_off_goes_on_where_it_stopped(
    store: PostgresStore, tmp_path: Path
) -> None:
    key = SessionKey("default", "main")
    files = FileStore(Places.resolve({"MINDSTONE_HOME": str(tmp_path / "there")}))
    head = filled(store, key, 1_200)

    class Breaks(Exception):
        pass

    def stop(done: int, all_: int) -> None:
        raise Breaks

    with pytest.raises(Breaks):
        copy_session(key, store, files, stop)
    part = files.find(key)
    assert part is not None
    assert 0 < part.head.seq < head.seq
    assert copy_session(key, store, files) == head
    assert list(files.read(key)) == list(store.read(key))


def test_two_histories_of_one_name_are_never_mixed(store: PostgresStore, tmp_path: Path) -> None:
    key = SessionKey("default", "main")
    files = FileStore(Places.resolve({"MINDSTONE_HOME": str(tmp_path / "there")}))
    filled(store, key, 3)
    raw, _ = line_behind(NOTHING, key, "another beginning")
    files.append(key, [raw], NOTHING)
    before = list(files.read(key)), list(store.read(key))
    for one, other in ((store, files), (files, store)):
        with pytest.raises(UsageError, match="different histories"):
            copy_session(key, one, other)
    assert (list(files.read(key)), list(store.read(key))) == before


@pytest.mark.parametrize("odd", _ODD)
def test_a_server_with_odd_answers_is_one_that_does_not_answer(url: str, odd: str) -> None:
    with contextlib.closing(PostgresStore(url, timeout=5)) as store:
        assert store.sessions() == []
        usual = {"hash": "''", "seq": "0", "key": "'agent:default:main'", "bytes": "1"}
        usual |= {"updated": "clock_timestamp()", "holder": "null::text", odd: _ODD[odd]}
        named = {"seq": "head_seq", "hash": "head_hash"}
        columns = ", ".join(f"{usual[each]} as {named.get(each, each)}" for each in usual)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop table mindstone.session cascade")
            connection.execute(
                f"create view mindstone.session as select mindstone.me() as owner, 1 as id, "
                f"null::timestamptz as lease_from, clock_timestamp() as lease_until, {columns}"
            )
        with pytest.raises(HistoryAway):
            store.sessions()


def test_lines_that_are_no_bytes_are_no_answer(url: str) -> None:
    key = SessionKey("default", "main")
    with contextlib.closing(PostgresStore(url, timeout=5)) as store:
        raw, _ = line_behind(NOTHING, key, "hello")
        store.append(key, [raw], NOTHING)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("alter table mindstone.entry rename to kept")
            connection.execute(
                "create view mindstone.entry as select session, seq, null::bytea as line "
                "from mindstone.kept"
            )
        with pytest.raises(HistoryAway, match="no answer"):
            list(store.read(key))
