"""What every place that keeps histories can do, and how a history is copied between two of them.

A store knows lines as bytes. Whoever reads them checks the chain, so it does not matter who kept
them: the same bytes have the same head everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from mindstone_tui.core.disk import Disk, keep_blob
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE, hash_matches
from mindstone_tui.core.errors import DamagedTranscript, UsageError
from mindstone_tui.core.paths import SessionKey, SessionPlaces
from mindstone_tui.core.transcript.reader import Head
from mindstone_tui.core.transcript.verify import blobs_of

NOTHING: Final = Head(-1, GENESIS)
"""The head of a history in which nothing stands yet."""
LINES_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 2 << 20
"""A batch that is copied is at most this large, or one line."""


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a store knows it."""

    key: SessionKey
    head: Head
    size: int
    """Bytes of all lines, newlines included."""
    updated: str = ""
    """When its newest line was stored, UTC, ISO 8601."""
    holder: str = ""
    """Who has the right to a turn now; empty for nobody."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The right to take turns in one session, until it runs out or somebody takes over."""

    holder: str
    epoch: int
    """Rises with every take-over; a line that comes with an older one is refused."""
    seconds: float


class HistoryStore(Protocol):
    """A place that keeps histories: append under a lease, read a range, follow, list, blobs."""

    @property
    def name(self) -> str:
        """Where this is, in words that hold no secret."""

    def sessions(self) -> list[StoredSession]:
        """Every session that can be seen, in the order of their keys."""

    def find(self, key: SessionKey) -> StoredSession | None:
        """One of them; None when there is none."""

    def append(
        self, key: SessionKey, lines: Sequence[bytes], after: Head, grant: Grant | None = None
    ) -> None:
        """Keep lines (without newlines) behind `after`, all or none; durable when this returns.

        Raises `Overtaken` when the head is another, `LeaseLost` when the grant is no longer good,
        and `HistoryAway` when nobody can say whether they were kept.
        """

    def read(self, key: SessionKey, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        """Lines `first` to `last`, both included, in order."""

    def wait(self, key: SessionKey, after: int, seconds: float) -> bool:
        """Whether there is a line behind number `after`; waits for one, but not for longer."""

    def take(self, key: SessionKey, holder: str, seconds: float) -> Grant | None:
        """The right to take turns, unless another holder has it; None then."""

    def renew(self, key: SessionKey, grant: Grant) -> bool:
        """Have it for longer; False when somebody took over."""

    def give_back(self, key: SessionKey, grant: Grant) -> None:
        """Let others have it; nothing happens if they have it already."""

    def missing_blobs(self, key: SessionKey, digests: Collection[str]) -> set[str]:
        """Those of these blobs that are not kept here."""

    def keep_blob(self, key: SessionKey, data: bytes) -> str:
        """Keep bytes beside a session under their own hash, durably."""

    def blob(self, key: SessionKey, digest: str) -> bytes:
        """The bytes that were kept under a hash, checked against it."""

    def another(self) -> HistoryStore:
        """The same place once more, for another thread."""

    def break_off(self) -> None:
        """End what another thread waits for in this store."""

    def close(self) -> None:
        """Give back what is open."""


class _Envelope(msgspec.Struct, frozen=True):
    seq: int
    session: str
    prev: str
    hash: str


_decode = msgspec.json.Decoder(_Envelope).decode


def follows(raw: bytes, before: Head, key: SessionKey) -> Head:
    """The head that a line makes behind another; raises `DamagedTranscript` if it is not next."""
    try:
        line = _decode(raw)
    except (ValueError, RecursionError) as error:
        raise _broken(key, before, "it cannot be read") from error
    if len(raw) > MAX_LINE or b"\n" in raw:
        raise _broken(key, before, "it is too long, or more than one")
    if line.session != str(key):
        raise _broken(key, before, f"it belongs to {line.session}")
    if line.seq != before.seq + 1 or line.prev != before.hash:
        raise _broken(key, before, "it was written after another line")
    if not hash_matches(raw, line.hash):
        raise _broken(key, before, "its bytes do not have the hash that it carries")
    return Head(line.seq, line.hash)


def _broken(key: SessionKey, before: Head, why: str) -> DamagedTranscript:
    return DamagedTranscript(
        f"The line that should be line {before.seq + 1} of {key} is not: {why}.",
        "Nothing of it was kept; `mindstone verify` says how the copy here is.",
    )


def in_batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The same lines in pieces that can be sent and kept at once."""
    batch: list[bytes] = []
    room = BYTES_AT_ONCE
    for raw in lines:
        if batch and (room < len(raw) or len(batch) >= LINES_AT_ONCE):
            yield batch
            batch, room = [], BYTES_AT_ONCE
        batch.append(raw)
        room -= len(raw)
    if batch:
        yield batch


def copy_blobs(
    key: SessionKey, lines: Sequence[bytes], source: HistoryStore, target: HistoryStore
) -> None:
    """Keep every blob that these lines name, before any of them is kept."""
    named = {digest for raw in lines for digest in blobs_of(raw)}
    for digest in sorted(target.missing_blobs(key, named)) if named else ():
        target.keep_blob(key, source.blob(key, digest))


def fetch_blobs(
    key: SessionKey, lines: Sequence[bytes], source: HistoryStore, places: SessionPlaces, disk: Disk
) -> None:
    """The same for the files of one session."""
    named = {digest for raw in lines for digest in blobs_of(raw)}
    for digest in sorted(named):
        if not (places.blobs / digest).exists():
            keep_blob(places.blobs, source.blob(key, digest), disk)


def hash_of(raw: bytes) -> str:
    """The hash that a line carries."""
    return _decode(raw).hash


def head_at(store: HistoryStore, key: SessionKey, seq: int) -> Head:
    """The head that a store's history had at a line; `NOTHING` where there is no such line."""
    if seq < 0:
        return NOTHING
    for raw in store.read(key, seq, seq):
        return Head(seq, hash_of(raw))
    return NOTHING


def copy_session(
    key: SessionKey,
    source: HistoryStore,
    target: HistoryStore,
    progress: Callable[[int, int], None] = lambda done, all_: None,
) -> Head:
    """Bring a session that `target` has in part, or not at all, up to where `source` has it.

    Goes on where an earlier copy was broken off. Every line is checked before it is kept; what
    comes out is the common head. Raises `UsageError` when the two hold different histories.
    """
    there, here = source.find(key), target.find(key)
    if there is None:
        raise UsageError(f"{source.name} has no session {key}.", "`mindstone history` lists them.")
    head = here.head if here is not None else NOTHING
    if head.seq > there.head.seq:
        if head_at(target, key, there.head.seq) == there.head:
            return head
        raise differ(key, source.name, target.name)
    if head.seq >= 0 and head_at(source, key, head.seq) != head:
        raise differ(key, source.name, target.name)
    for batch in in_batches(source.read(key, head.seq + 1, there.head.seq)):
        after = head
        for raw in batch:
            head = follows(raw, head, key)
        copy_blobs(key, batch, source, target)
        target.append(key, batch, after)
        progress(head.seq + 1, there.head.seq + 1)
    return head


def differ(key: SessionKey, one: str, other: str) -> UsageError:
    """Two stores hold different histories under one name."""
    return UsageError(
        f"{one} and {other} hold different histories of {key}; neither was changed.",
        f"`mindstone history pull {key} --again` sets the one here aside, to be imported or "
        "compared, and takes the server's.",
    )
