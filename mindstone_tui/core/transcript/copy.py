"""A session's file as the copy of a history that is kept elsewhere: in step with it, or behind.

A line is kept there first and written here afterwards, so nothing stands here that is not there.
What others wrote there is fetched, and every line is checked against the one before it as it
arrives. If the connection breaks while a line is on its way, nobody knows whether it was kept.
Then the history is asked again, and the line counts if it stands where it was to stand; else it
is written anew, behind whatever came in between. Both cannot happen: a place in the chain is
given once.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from mindstone_tui.core import entries, paths
from mindstone_tui.core.disk import Disk, replace_file
from mindstone_tui.core.errors import HistoryAway, NoSuchEntry, Overtaken, UsageError
from mindstone_tui.core.transcript import file, history_store, reader

HERE: Final = "This machine"


class CopiedFile(file.TranscriptFile):
    """One session's file, for appending to the history that it is a copy of."""

    def __init__(
        self, places: paths.SessionPlaces, disk: Disk, store: history_store.HistoryStore
    ) -> None:
        super().__init__(places, disk, create=True, copy=True)
        self.store = store
        self.grant: history_store.Grant | None = None
        """The right to a turn, while this process has it; lines of a turn come with it."""
        self._key = places.key
        self._doubt: reader.Head | None = None
        """The last of the lines that may or may not have been kept."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[entries.Entry]]:
        """Hold the lock. What happened to a copy is no part of the history: there is no news."""
        with super().locked():
            yield []

    def put(self, data: bytes, tails: list[file.Tail]) -> None:
        """Have lines kept, then write them here; `Overtaken` when the end has moved meanwhile."""
        after = tails[-1]
        try:
            self.store.append(
                self._key, data.split(b"\n")[:-1], history_store.known(tails[0]), self.grant
            )
        except HistoryAway:
            self._doubt = reader.Head(after.seq, after.hash)
            self.catch_up()
            if not self._stands(self._doubt):
                self._doubt = None
                raise Overtaken(f"The connection to the history of {self._key} broke.") from None
            self._doubt = None
            return
        # They are kept. If this disk refuses them, they are fetched again before the next ones.
        with contextlib.suppress(OSError):
            super().put(data, tails)

    def catch_up(self) -> None:
        """Fetch what is there and not here; the lock is held."""
        have = history_store.known(self.tail)
        lines = self.store.read(self._key, max(have.seq, 0))
        if have.seq >= 0:
            if (newest := next(lines, None)) is None:
                raise self._not_there()
            if history_store.hash_of(newest) != have.hash:
                raise history_store.differ(self._key, HERE, self.store.name)
        for batch in history_store.in_batches(
            history_store.bounded(lines, self._key, self.store.name)
        ):
            tails = history_store.tails_behind(self.tail, self._key, batch)  # proved first
            history_store.fetch_blobs(self._key, batch, self.store, self._places, self._disk)
            super().put(b"".join(raw + b"\n" for raw in batch), tails)
        if not self._places.server.exists():
            replace_file(self._places.server, self.store.name.encode())

    def kept(self) -> bool:
        """Whether the lines in doubt turn out to have been kept; False if there are none."""
        if (doubt := self._doubt) is None:
            return False
        self.catch_up()
        self._doubt = None
        return self._stands(doubt)

    def keep_blob(self, data: bytes) -> None:
        """Have bytes kept beside the history."""
        self.store.keep_blob(self._key, data)

    def _stands(self, head: reader.Head) -> bool:
        try:
            with reader.History(self._places) as history:
                return history.line(head.seq).hash == head.hash
        except NoSuchEntry:
            return False

    def _not_there(self) -> UsageError:
        found = self.store.find(self._key)
        where = f"only to line {found.head.seq}" if found else "not at all"
        return UsageError(
            f"This machine has {self._key} to line {self.tail.seq}, {self.store.name} {where}.",
            f"`mindstone history push {self._key}` puts it there.",
        )
