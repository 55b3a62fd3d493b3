"""Many machines, one history, and everything that can go wrong: `make shared`.

Machines (processes) write to one session of a real server as fast as they can. Meanwhile machines
are killed and come back, are stopped for longer than their lease, have clocks that jump, and reach
the server through a proxy that cuts connections at random; the server's own clock is set forwards
and back where faketime is installed; it is killed as by a power cut, and its disk is filled where a
small one can be mounted. In the end every line that was ever
acknowledged must stand in the history, once, with its number and hash, and every copy must be the
same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from mindstone_tui.core.shared.copies import fetch
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import verify
from mindstone_tui.core.transcript.history_store import hash_of
from tests.builders import places_in
from tests.core.shared.proxy import CuttingProxy
from tests.postgres import PostgresServer

_HARMS = {
    "killed": 6,
    "stopped": 3,
    "cut": 12,
    "clock set": 6,
    "server killed": 1,
    "disk full": 1,
}
"""What can happen, and how often."""


class Trial:
    """One run: its server, its machines, and what was done to them."""

    def __init__(self, machines: int, folder: Path, server: PostgresServer) -> None:
        self.folder = folder
        self.server = server
        self.url = server.new_database()
        self.proxy = CuttingProxy(server.port)
        self.stop = folder / "stop"
        self.done = dict.fromkeys(_HARMS, 0)
        self.machines: dict[int, subprocess.Popen[bytes]] = {}
        PostgresStore(self.url, timeout=10).sessions()
        for number in range(machines):
            self.start(number)

    def start(self, number: int) -> None:
        """Switch a machine on; odd ones reach the server through the proxy."""
        url = self.url
        if number % 2:
            url = url.replace(f":{self.server.port}/", f":{self.proxy.port}/")
        self.machines[number] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.faults.shared_writer", url),
                *(self.folder / f"home{number}", self.folder / f"notes{number}", self.stop),
            ],
        )

    def head(self) -> int:
        """The number of the newest line; the last one known while the server is away."""
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.url) as connection:
            row = connection.execute("select max(head_seq) from mindstone.session").fetchone()
            return int(row[0]) if row and row[0] is not None else -1
        return -1

    def harm(self, room: Path | None) -> None:
        """Do one thing that can happen."""
        what = random.choices(tuple(_HARMS), tuple(_HARMS.values()))[0]
        number = random.choice(list(self.machines))
        process = self.machines[number]
        if what == "killed":
            process.kill()
            process.wait()
            self.start(number)
        elif what == "stopped":
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            process.send_signal(signal.SIGCONT)
        elif what == "cut":
            self.proxy.cut_after(random.choice(("up", "down")), random.randrange(3_000))
        elif what == "server killed":
            self.server.kill()
            self.server.start()
        elif what == "clock set":
            if not self.server.jumps:
                return
            self.server.set_clock(random.choice((-1, 1)) * random.choice((2, 3_600, 86_400)))
        elif room is not None:
            self.fill(room)
        else:
            return
        self.done[what] += 1

    def fill(self, room: Path) -> None:
        """Leave the server no byte, for a moment; it may stop, and is then started again."""
        filler = room / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\0" * 65_536)
                file.flush()
        time.sleep(1.0)
        filler.unlink()
        if self.server.stopped():
            self.server.start()

    def end(self) -> None:
        """Let every machine finish what it does."""
        self.stop.touch()
        for process in self.machines.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def judge(self) -> dict[str, int]:
        """Hold what was acknowledged against what is there."""
        store = PostgresStore(self.url, timeout=60)
        key = places_in(self.folder).key
        hashes = [hash_of(raw) for raw in store.read(key)]
        found = {"lines": len(hashes), "acknowledged": 0, "lost": 0, "fenced": 0, "doubled": 0}
        for notes in self.folder.glob("notes*"):
            for line in notes.read_text().splitlines():
                if line.startswith("lost"):
                    found["fenced"] += 1
                    continue
                seq, digest = line.split()
                found["acknowledged"] += 1
                found["lost"] += hashes[int(seq)] != digest
        with psycopg.connect(self.url) as connection:
            row = connection.execute(
                "select count(*) - count(distinct convert_from(line, 'UTF8')::json ->> 'text') "
                "from mindstone.entry where seq > 0"
            ).fetchone()
            found["doubled"] = int(row[0]) if row else -1
        copies = set()
        found["breaks"] = 0
        for home in self.folder.glob("home*"):
            fetch(places_in(home), store)
            found["breaks"] += len(verify(places_in(home)).problems)
            copies.add(places_in(home).transcript.read_bytes())
        found["different copies"] = len(copies) - 1
        store.close()
        self.proxy.__exit__(None, None, None)
        return found


def small_disk(folder: Path) -> Path | None:
    """A disk of its own for the server, so that it can be filled; None where that is forbidden."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=900m,mode=755", "tmpfs", folder], capture_output=True
    )
    return folder if mounted.returncode == 0 else None


def run(lines: int, machines: int, pause: float, seconds: float) -> bool:
    """One trial until so many lines are there; whether nothing was lost, doubled or broken."""
    folder = Path(tempfile.mkdtemp(prefix="mindstone-shared-"))
    disk = Path(tempfile.mkdtemp(prefix="mindstone-pg-"))
    room = small_disk(disk)
    server = PostgresServer(disk, jumping=True)
    server.start()
    began = time.monotonic()
    trial = Trial(machines, folder, server)
    try:
        while (head := trial.head()) < lines and time.monotonic() - began < seconds:
            time.sleep(random.uniform(0.2, 1.8) * pause)
            trial.harm(room)
            print(f"\r{head:,} lines, {trial.done}", end="", file=sys.stderr, flush=True)
        trial.end()
        took = time.monotonic() - began
        found = trial.judge()
    finally:
        trial.end()
        server.stop()
        if room is not None:
            subprocess.run(["umount", room], check=False)
        shutil.rmtree(disk, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(file=sys.stderr)
    print(f"{machines} machines, {took:.0f} s, {found['lines'] / took:.0f} lines/s: {trial.done}")
    print(found)
    return not any(found[each] for each in ("lost", "doubled", "breaks", "different copies"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds between two harms")
    parser.add_argument("--seconds", type=float, default=3_600, help="end by then in any case")
    given = parser.parse_args()
    os.chdir(Path(__file__).parents[2])
    sys.exit(0 if run(given.lines, given.machines, given.pause, given.seconds) else 1)
