"""A PostgreSQL server as a store of histories.

Every call is one round trip on one connection, which is made when it is needed and made anew when
it broke. A call never waits for longer than it was told to, also where a server takes a question
and never answers. No message of the server's or the driver's is shown as it is: it may hold parts
of the address.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
import psycopg
from psycopg import waiting
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict

from mindstone_tui.core import errors, values
from mindstone_tui.core.disk import LARGEST_BLOB
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.shared import schema
from mindstone_tui.core.transcript.encode import timestamp
from mindstone_tui.core.transcript.history_store import Grant, StoredSession
from mindstone_tui.core.transcript.reader import Head

_CHECKED_EVERY: Final = 0.1


def _is_here(host: str) -> bool:
    return host.startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up on an answer after `patience` seconds, and is then of no further use."""

    patience: float = 0.0

    @classmethod
    def reach(cls, url: str, timeout: float) -> PatientConnection:
        """Connect within so many seconds; to another machine in clear only if that is said."""
        parts = conninfo_to_dict(url)
        host = parts.get("hostaddr") or parts.get("host") or os.environ.get("PGHOST", "")
        said = "sslmode" in parts or all(map(_is_here, str(host).split(",")))
        connection = cls.connect(
            url,
            sslmode=None if said else os.environ.get("PGSSLMODE", "require"),
            autocommit=True,
            connect_timeout=max(2, round(timeout)),
            application_name="mindstone",
            keepalives=1,
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=round(timeout * 1000),
        )
        connection.patience = timeout
        return connection

    def is_gone(self) -> bool:
        """Whether the server has ended this connection while nobody used it."""
        if self.closed:
            return True
        try:
            # The server's last words can be read before its end is.
            while select.select([self.fileno()], [], [], 0)[0]:
                self.pgconn.consume_input()
        except psycopg.Error:
            return True
        return self.pgconn.status != psycopg.pq.ConnStatus.OK

    def wait(
        self, gen: PQGen[RV], interval: float = _CHECKED_EVERY, timeout: float | None = None
    ) -> RV:
        """Wait as the driver does, but not for longer than there is patience."""
        limit = timeout if timeout is not None else self.patience or None
        try:
            return waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=limit)
        except psycopg.errors._WaitTimeout:
            if timeout is None:
                # The answer may still come, to whoever asks next: there must be no next.
                with contextlib.suppress(Exception):
                    self.pgconn.finish()
                raise psycopg.OperationalError("no answer in time") from None
            raise


class _ServerState(msgspec.Struct, array_like=True, frozen=True):
    """What becomes of an SQLSTATE: which error, and what it says of the server."""

    error: Literal["Overtaken", "LeaseLost", "DamagedTranscript", "PlaceError", "HistoryAway"]
    said: str
    remedy: str = ""


class _Words(msgspec.Struct, frozen=True):
    states: dict[str, _ServerState]
    reasons: dict[str, str]
    """Words of the driver, and what they mean; the whole message may hold parts of the address."""


_WORDS: Final = values.shipped(__file__, "postgres.json", _Words)


def in_our_words(error: psycopg.Error, where: str) -> errors.MindstoneError:
    """What the server or the driver said, without a word of the address."""
    state = error.sqlstate or ""
    if (known := _WORDS.states.get(state)) is not None:
        kind: type[errors.MindstoneError] = getattr(errors, known.error)
        return kind(known.said.replace("{where}", where), known.remedy)
    return errors.HistoryAway(
        f"The history server {where} does not answer: {_reason(error, state)}.",
        "What is kept here can still be read.",
    )


def _reason(error: psycopg.Error, state: str) -> str:
    said = str(error).lower()
    for word, reason in _WORDS.reasons.items():
        if word in said:
            return reason
    return f"{type(error).__name__} {state}".strip()


T = TypeVar("T")

SCHEMES: Final = ("postgresql://", "postgres://")
INSTALL: Final = "pip install 'mindstone-tui[shared]'"
_PAGE: Final = 200
"""Lines that are asked for at once; each may have a megabyte."""
_LARGEST: Final = 256 << 20
"""Bytes of the rows of one answer, but for the last."""
_GATHERS: Final = 0.1
"""Seconds in which news are gathered before listeners are told."""
_SESSION: Final = """\
select key, head_seq, head_hash, bytes, updated,
    case when mindstone.lease_runs(lease_from, lease_until) then holder end
from mindstone.session where owner = %s"""
_Row = tuple[str, int, str, int, datetime, str | None]


def place_of(url: str) -> str:
    """Where a server is, without anything that could be a secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the history server"
    return f"{host or 'local socket'}{port}/{unquote(parts.path.lstrip('/')) or 'postgres'}"


def available() -> bool:
    """Whether the driver is installed."""
    return importlib.util.find_spec("psycopg") is not None


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a connection to it shows it."""

    version: str
    encrypted: bool
    local: bool
    """Reached without leaving this machine."""


class PostgresStore:
    """The sessions of one owner on one server."""

    def __init__(self, url: str, *, team: str = "", timeout: float) -> None:
        if not url.startswith(SCHEMES):
            raise errors.UsageError(
                "history.url is not the address of a PostgreSQL server.",
                "Write postgresql://user@host/database.",
            )
        if not available():
            raise errors.UsageError(
                "history.url needs the PostgreSQL driver, and that is not installed.",
                f"Install it: {INSTALL}.",
            )
        self._url = url
        self._team = team
        self.timeout = timeout
        self._connection: PatientConnection | None = None
        self._owner = ""
        self._ids: dict[SessionKey, int] = {}
        self._heard: set[int] = set()
        """Sessions whose changes this connection is told of."""
        self._news: dict[int, int] = {}
        """Newest lines that listeners were not told of yet, by session."""
        self._announces = False
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """Host and database."""
        return place_of(self._url)

    @property
    def owner(self) -> str:
        """The role whose sessions these are: one's own, or the team's."""
        with self.talk():
            return self._owner

    def sessions(self) -> list[StoredSession]:
        """Every session of this owner that has a line."""
        return self._owned(f"{_SESSION} and head_seq >= 0 order by key")

    def find(self, key: SessionKey) -> StoredSession | None:
        """One of them; one without a line counts as none."""
        found = self._owned(f"{_SESSION} and head_seq >= 0 and key = %s", str(key))
        return found[0] if found else None

    def _owned(self, statement: str, *parameters: object) -> list[StoredSession]:
        with self.talk():  # which knows the owner once it has a connection
            rows = self.ask(list[_Row], statement, self._owner, *parameters)
        return [
            StoredSession(
                key=SessionKey.parse(key),
                head=Head(seq, hash_),
                size=size,
                updated=timestamp(updated),
                holder=holder or "",
            )
            for key, seq, hash_, size, updated, holder in rows
        ]

    def append(
        self, key: SessionKey, lines: Sequence[bytes], after: Head, grant: Grant | None = None
    ) -> None:
        """One call and one commit; the function on the server decides."""
        hash_ = after.hash or GENESIS
        lease = (grant.epoch, grant.holder, grant.seconds) if grant else (None, None, 0.0)
        with self.talk() as connection:
            number = self.number(connection, key)
            connection.execute(
                "select mindstone.append(%s, %s, %s, %b, %s, %s, %s)",
                (number, after.seq, hash_, list(lines), *lease),
            )
            self._announce_soon(number, after.seq + len(lines))

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        """Page by page, so that no long history is held in memory."""
        while last is None or first <= last:
            rows = self.ask(
                list[tuple[bytes]],
                f"select substring(line from 1 for {MAX_LINE + 1}) from mindstone.entry "
                "where session = %s and seq >= %s and seq <= %s order by seq limit %s",
                *(first, 2**62 if last is None else last, _PAGE),
                of=key,
                make=False,
            )
            yield from (row[0] for row in rows)
            if len(rows) < _PAGE:
                return
            first += len(rows)

    def wait(self, key: SessionKey, after: int, seconds: float) -> bool:
        """Listen for the server's word; what came before that is looked up."""
        with self.talk(patience=seconds + self.timeout) as connection:
            if (number := self.number(connection, key)) not in self._heard:
                connection.execute(f"listen mindstone_{number}")
                self._heard.add(number)
            row = connection.execute(
                "select head_seq from mindstone.session where id = %s", (number,)
            ).fetchone()
            if row is not None and row[0] > after:
                return True
            with contextlib.closing(connection.notifies(timeout=seconds)) as told:
                for notice in told:
                    # Our own lines, and those of other sessions, are announced here, too.
                    if notice.channel == f"mindstone_{number}" and int(notice.payload) > after:
                        return True
        return False

    def take(self, key: SessionKey, holder: str, seconds: float) -> Grant | None:
        """Raise the epoch if nobody has a lease that still runs."""
        taken = "select mindstone.take_lease(%s, %s, %s)"
        ((epoch,),) = self.ask(tuple[tuple[int | None]], taken, holder, seconds, of=key)
        return None if epoch is None else Grant(holder=holder, epoch=epoch, seconds=seconds)

    def renew(self, key: SessionKey, grant: Grant) -> bool:
        """Move its end on."""
        held = (grant.holder, grant.epoch, grant.seconds)
        renewed = "select mindstone.renew_lease(%s, %s, %s, %s)"
        return self.ask(tuple[tuple[bool]], renewed, *held, of=key)[0][0]

    def give_back(self, key: SessionKey, grant: Grant) -> None:
        """End it."""
        returned = "select mindstone.return_lease(%s, %s, %s)"
        self.ask(Any, returned, grant.holder, grant.epoch, of=key)

    def missing_blobs(self, key: SessionKey, digests: Collection[str]) -> set[str]:
        """Those that are not among the session's."""
        kept = self.ask(
            list[tuple[bytes]],
            "select sha256 from mindstone.blob where session = %s and sha256 = any(%b)",
            [bytes.fromhex(each) for each in digests],
            of=key,
        )
        return set(digests) - {digest.hex() for (digest,) in kept}

    def keep_blob(self, key: SessionKey, data: bytes) -> str:
        """Send it; the server makes the hash itself."""
        self.ask(Any, "select mindstone.keep_blob(%s, %b)", data, of=key)
        return hashlib.sha256(data).hexdigest()

    def blob(self, key: SessionKey, digest: str) -> bytes:
        """Fetch it, and look whether it is what was kept."""
        rows = self.ask(
            list[tuple[bytes]],
            "select data from mindstone.blob where session = %s and sha256 = %b "
            f"and octet_length(data) <= {LARGEST_BLOB}",
            bytes.fromhex(digest),
            of=key,
        )
        data = rows[0][0] if rows else b""
        if hashlib.sha256(data).hexdigest() != digest:
            raise errors.PlaceError(
                f"The blob {digest[:12]}… is not on the history server.",
                "Push the session from a machine that has it.",
            )
        return data

    def about(self) -> ServerFacts:
        """What the server says of itself."""
        with self.talk() as connection:
            row = connection.execute("select current_setting('server_version')").fetchone()
            used = connection.pgconn.ssl_in_use
            host = connection.info.host
        version = str(row[0]).split(" ")[0] if row else "?"
        return ServerFacts(version=version, encrypted=used, local=_is_here(host))

    def another(self) -> PostgresStore:
        """A connection of its own to the same sessions."""
        return PostgresStore(self._url, team=self._team, timeout=self.timeout)

    def break_off(self) -> None:
        """End what another thread waits for: its call fails as if the server were away."""
        if (connection := self._connection) is not None:
            with (
                contextlib.suppress(Exception),
                socket.socket(fileno=os.dup(connection.fileno())) as line,
            ):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; what was not announced yet is announced first."""
        with contextlib.suppress(errors.MindstoneError):
            self._announce()
        self._drop()

    def _announce_soon(self, number: int, seq: int) -> None:
        """Have listeners told of a line, together with those that follow it shortly."""
        self._news[number] = seq
        if not self._announces:
            self._announces = True
            threading.Thread(target=self._announce_later, name="announce", daemon=True).start()

    def _announce_later(self) -> None:
        threading.Event().wait(_GATHERS)
        with contextlib.suppress(errors.MindstoneError):
            self._announce()

    def _announce(self) -> None:
        with self._lock:
            news, self._news, self._announces = self._news, {}, False
            if news and self._connection is not None:
                with self.talk() as connection:
                    for number, seq in news.items():
                        connection.execute("select mindstone.announce(%s, %s)", (number, seq))

    def _drop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            self._ids.clear()
            self._heard.clear()
            if connection is not None:
                with contextlib.suppress(Exception):
                    connection.close()

    def number(
        self, connection: psycopg.Connection[Any], key: SessionKey, *, make: bool = True
    ) -> int:
        """The server's number for a session; one that nobody began is begun, or has none."""
        if key not in self._ids:
            row = connection.execute(
                "select mindstone.open_session(%s, %s)"
                if make
                else "select id from mindstone.session where owner = %s and key = %s",
                (self._owner, str(key)),
            ).fetchone()
            if row is None:
                return -1
            self._ids[key] = row[0]
        return self._ids[key]

    def ask(
        self,
        kind: type[T],
        statement: str,
        *parameters: object,
        of: SessionKey | None = None,
        make: bool = True,
    ) -> T:
        """The rows of one statement; its first parameter is the number of the session, if named.

        Rows that never end are as good as none.
        """
        with self.talk() as connection:
            number = () if of is None else (self.number(connection, of, make=make),)
            until, room = time.monotonic() + self.timeout, _LARGEST
            rows: list[Any] = []
            for row in connection.cursor(binary=True).stream(statement, (*number, *parameters)):
                if room < 0 or time.monotonic() > until:
                    connection.pgconn.finish()  # or it would be waited for its last row
                    raise psycopg.OperationalError("no answer in time")
                room -= sum(map(sys.getsizeof, row))
                rows.append(row)
            return msgspec.convert(rows, kind)

    @contextlib.contextmanager
    def talk(self, patience: float = 0.0) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """The connection, for one question at a time; what goes wrong becomes an error of ours."""
        with self._lock:
            try:
                if self._connection is not None and self._connection.is_gone():
                    # A server that was started anew is no reason to fail.
                    self._drop()
                if self._connection is None:
                    fresh = PatientConnection.reach(self._url, self.timeout)
                    try:
                        self._owner = self._settle(fresh)
                    except BaseException:
                        fresh.close()
                        raise
                    self._connection = fresh
                self._connection.patience = patience or self.timeout
                yield self._connection
            except psycopg.Error as error:
                ours = in_our_words(error, place_of(self._url))
                if isinstance(ours, errors.HistoryAway):
                    self._drop()
                raise ours from None
            except errors.MindstoneError:
                raise
            except (ValueError, TypeError, LookupError):
                self._drop()
                raise errors.HistoryAway(
                    f"The history server {self.name} answers with something that is no answer.",
                    "What is kept here can still be read.",
                ) from None
            except BaseException:
                # Whatever was under way is not finished: nobody may go on with this connection.
                self._drop()
                raise

    def _settle(self, connection: psycopg.Connection[Any]) -> str:
        """Have the tables, and know whose sessions these are."""
        schema.ensure(connection)
        row = connection.execute("select mindstone.me()").fetchone()
        me = str(row[0]) if row else ""
        return self._team or me
