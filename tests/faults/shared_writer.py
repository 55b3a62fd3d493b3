"""A machine that writes to a shared history until it is told to stop, and notes what was said.

Run as `python -m tests.faults.shared_writer URL HOME NOTES STOP`. A line of the notes is
`number hash` of a line that was acknowledged (one to twenty go at once), or `lost …` for lines
that were refused for good. Notes are written with one call each, so a kill leaves whole lines.
"""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Draft
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.errors import EntryNotSaved, HistoryAway, LeaseLost
from mindstone_tui.core.library.lease import SharedLease
from mindstone_tui.core.shared.postgres import PostgresStore
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in


class _Quick(Disk):
    """The copy's own syncs are left out: what is acknowledged is what the server committed."""

    def sync(self, fd: int) -> None:
        pass


def _jumping_clock() -> datetime:
    """A clock that is wrong by up to a day, and by another amount each time."""
    return datetime.now(UTC) + timedelta(seconds=random.uniform(-86_400, 86_400))


def main(url: str, home: Path, notes: int, stop: Path) -> None:
    """Write one line after the other, some of them under a lease."""
    places = places_in(home)
    while True:
        try:
            store = PostgresStore(url, timeout=3)
            transcript = Transcript(
                places, upstream=store, disk=_Quick(), clock=_jumping_clock, channel="test"
            )
            break
        except HistoryAway:
            time.sleep(0.05)
    lease = SharedLease(places, transcript, store, 1.0)
    number = 0
    me = f"{os.getpid()}-{time.monotonic_ns()}"
    while not stop.exists():
        number += 1
        try:
            if random.random() < 0.1:
                lease.give_back() if lease.held else lease.try_take()
            drafts = [
                Draft(entry=UserMessage(text=f"{me} {number} {at}"), turn=1, channel="test")
                for at in range(random.choice((1, 1, 1, 3, 20)))
            ]
            lines = transcript.append_all(drafts)
            os.write(notes, "".join(f"{line.seq} {line.hash}\n" for line in lines).encode())
        except LeaseLost:
            os.write(notes, b"lost lease\n")
            lease.give_back()
        except EntryNotSaved:
            # It is kept, and written first; `save` says under which numbers.
            while True:
                time.sleep(0.02)
                try:
                    for line in transcript.save():
                        os.write(notes, f"{line.seq} {line.hash}\n".encode())
                    break
                except LeaseLost:
                    os.write(notes, b"lost lease\n")
                    lease.give_back()
                    break
                except EntryNotSaved:
                    continue
    lease.give_back()
    transcript.close()


if __name__ == "__main__":
    _fd = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    main(sys.argv[1], Path(sys.argv[2]), _fd, Path(sys.argv[4]))
