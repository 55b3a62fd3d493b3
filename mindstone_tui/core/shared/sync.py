"""Two places that keep sessions, brought to hold the same: nothing is overwritten on either side.

What one side lacks is appended there, every line checked against the one before it. A session that
grew on both sides stays as it is on each, and what the other side wrote stands beside it as a fork,
named by the hash of the first line that differs. A fork is made from its lines alone, so that it is
the same bytes wherever it is made, and goes on when it is made again.

The sessions of another machine are asked for over one line such as ssh's: a question, an answer.
What can be asked is what a store of lines can do, and nothing else. The machine that is asked
checks as it always does: whoever asks can append what must follow, and overwrite nothing.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, Final, Literal, Protocol, cast, get_type_hints

import msgspec

from mindstone_tui.core.bounded_json import read_as, read_object
from mindstone_tui.core.errors import DamagedTranscript, HistoryAway, MindstoneError
from mindstone_tui.core.paths import OF_OTHERS, SessionKey
from mindstone_tui.core.transcript import history_store as stores
from mindstone_tui.core.transcript.history_store import (
    NOTHING,
    LineStore,
    hash_of,
    head_at,
    in_batches,
)
from mindstone_tui.core.transcript.reader import Head

_FORKS_OWN: Final = ("statement_superseded", "imported")
"""What names lines by their numbers, which are the same in the fork."""
_SHOWN_OF_HASH: Final = 12


class SyncedStore(LineStore, Protocol):
    """One whose lines others can reach beside it, so that they are proven before they are used."""

    def require_sound(self, key: SessionKey) -> None:
        """Raise `DamagedTranscript` where a session is not what was written."""


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one session."""

    session: str
    state: Literal["same", "brought", "taken", "forked", "failed"]
    """`brought` here, `taken` there; `forked` when both sides had gone on."""
    lines: int = 0
    """Lines that were copied, both ways together."""
    here: str = ""
    """The fork here that holds what the other side wrote."""
    there: str = ""
    why: str = ""


def sync(
    here: SyncedStore,
    there: SyncedStore,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[Synced]:
    """Bring both sides to hold what either does; one that cannot be copied stops no other."""
    mine = {each.key: each.head for each in here.sessions()}
    theirs = {each.key: each.head for each in there.sessions()}
    keys = sorted(mine.keys() | theirs.keys())
    for done, key in enumerate(keys):
        progress(done, len(keys))
        try:
            yield _one(key, mine.get(key, NOTHING), theirs.get(key, NOTHING), here, there)
        except HistoryAway:
            raise
        except (MindstoneError, OSError) as error:
            why = error.sentence if isinstance(error, MindstoneError) else str(error)
            yield Synced(session=str(key), state="failed", why=why)


def _one(key: SessionKey, own: Head, other: Head, here: SyncedStore, there: SyncedStore) -> Synced:
    name = str(key)
    known = other == NOTHING and _is_known(key, own, here, there)
    if own == other or known or (own == NOTHING and _is_known(key, other, there, here)):
        return Synced(session=name, state="same")
    for store, head in ((here, own), (there, other)):
        if head.seq >= 0:
            store.require_sound(key)
    if own.seq > other.seq and head_at(here, key, other.seq) == other:
        stores.copy_session(key, here, there)
        return Synced(session=name, state="taken", lines=own.seq - other.seq)
    if own.seq < other.seq and head_at(there, key, own.seq) == own:
        stores.copy_session(key, there, here)
        return Synced(session=name, state="brought", lines=other.seq - own.seq)
    common = _last_common(key, min(own.seq, other.seq), here, there)
    brought, lines = _fork(key, common, there, here)
    taken, more = _fork(key, common, here, there)
    state: Literal["forked", "same"] = "forked" if lines + more else "same"
    return Synced(session=name, state=state, lines=lines + more, here=brought, there=taken)


def _is_known(key: SessionKey, head: Head, holder: LineStore, other: LineStore) -> bool:
    """Whether all of a session is a fork of what the other side has under the session's name."""
    base = SessionKey(key.agent, key.main.rpartition(OF_OTHERS)[0])
    if not base.main or other.find(base) is None:
        return False
    newest, original = (
        read_object(next(store.read(each, head.seq, head.seq), b"")) or {}
        for store, each in ((holder, key), (other, base))
    )
    return bool(original) and newest.get("id") == original.get("id")


def _last_common(key: SessionKey, last: int, here: LineStore, there: LineStore) -> Head:
    """The last line that both have; `NOTHING` for two histories that began apart."""
    low, high = -1, last
    while low < high:
        middle = (low + high + 1) // 2
        same = head_at(here, key, middle) == head_at(there, key, middle)
        low, high = (middle, high) if same else (low, middle - 1)
    return head_at(here, key, low)


def _fork(key: SessionKey, common: Head, source: LineStore, target: LineStore) -> tuple[str, int]:
    """Have what `source` wrote after a line as a session of its own; how much of it is new."""
    if (first := next(source.read(key, common.seq + 1, common.seq + 1), None)) is None:
        raise DamagedTranscript(
            f"Line {common.seq + 1} of {key} cannot be read in {source.name}.",
            "Nothing was changed; `mindstone verify` says more.",
        )
    # Read as a person's: nobody could open one whose name is too long.
    fork = SessionKey.parse(f"{key}{OF_OTHERS}{hash_of(first)[:_SHOWN_OF_HASH]}")
    known, kept = source.find(key), target.find(fork)
    standing, head = (target.read(fork), kept.head) if kept else (iter(()), NOTHING)
    header = read_object(next(target.read(fork, 0, 0), b"")) if kept else None
    earlier = header is not None and bool(header.get("parent"))
    # No further than it said that it goes: a peer may send lines without end.
    every = source.read(key, 0, known.head.seq if known else 0)
    lines = _as_fork(every, key, fork, common, earlier=earlier)
    last = NOTHING
    for stands, (raw, copied) in zip(standing, lines, strict=False):
        if stands != copied:  # somebody went on in the fork, which is theirs now
            return _fork(key, last, source, target)
        last = Head(last.seq + 1, hash_of(raw))
    fresh = 0
    for batch in stores.in_batches(copied for _, copied in lines):
        stores.copy_blobs(key, batch, source, target, into=fork)
        target.append(fork, batch, head)
        head = Head(head.seq + len(batch), hash_of(batch[-1]))
        fresh += len(batch)
    return str(fork), fresh


def _as_fork(
    lines: Iterator[bytes], key: SessionKey, fork: SessionKey, common: Head, *, earlier: bool
) -> Iterator[tuple[bytes, bytes]]:
    """A session's lines, each as it is and under another name: chained anew.

    What both sides have names the line that it is a copy of. What follows was said in the fork, as
    far as anybody can tell who has both: it counts there, and nowhere else. A fork that an earlier
    version began, which told of neither, goes on as it did.
    """
    before, head = "", NOTHING
    for raw in lines:
        head = stores.follows(raw, head, key)
        line: dict[str, Any] = msgspec.json.decode(raw)
        line |= {"session": str(fork), "prev": before or line["prev"]}
        is_copy = 0 < line["seq"] <= common.seq and line["kind"] not in _FORKS_OWN
        if earlier or is_copy:
            line["parent"] = line["id"]
        if not before:
            point = {"session": str(key), "seq": common.seq, "hash": common.hash}
            line |= {"main": fork.main, "forked_from": point if common != NOTHING else None}
        del line["hash"]
        said = msgspec.json.encode(line)[:-1]
        before = hashlib.sha256(said).hexdigest()
        yield raw, said + b',"hash":"' + before.encode() + b'"}'


_HELLO: Final = b"mindstone sync 1\n"
"""Comes first: what a login prints before it is passed over."""
_GREETINGS: Final = 1_000
_GREETING: Final = 1 << 16
_LONGEST: Final = 1 << 29
"""Bytes of one question or answer: some lines of history, or the body of one."""
_KINDS: Final = {
    name: get_type_hints(method)
    for name, method in (vars(LineStore) | vars(SyncedStore)).items()
    if name[0] != "_" and callable(method)
}
"""What can be asked for, and what it takes and gives."""


def answer(store: SyncedStore, asked: IO[bytes], told: IO[bytes]) -> None:
    """Answer questions about a store until nobody asks any more."""
    told.write(_HELLO)
    told.flush()
    while line := asked.readline(_LONGEST):
        try:
            does, given = read_as(line, tuple[str, dict[str, Any]])
            kinds = _KINDS[does]
            value = getattr(store, does)(
                **{name: msgspec.convert(each, kinds[name]) for name, each in given.items()}
            )
            reply = {"value": next(in_batches(value), []) if does == "read" else value}
        except (MindstoneError, OSError, ValueError, LookupError, TypeError) as error:
            reply = {"error": str(error) or type(error).__name__}
        told.write(msgspec.json.encode(reply) + b"\n")
        told.flush()


def remote_store(name: str, told: IO[bytes], asked: IO[bytes]) -> SyncedStore:
    """The store that answers at the other end."""
    for _ in range(_GREETINGS):
        if (line := asked.readline(_GREETING)) in (b"", _HELLO):
            break
    if line != _HELLO:
        raise _away(name)
    return cast(SyncedStore, _Remote(name, told, asked))


def _away(name: str) -> HistoryAway:
    return HistoryAway(
        f"{name} does not answer, or not to the end.",
        f"Try `ssh {name} mindstone --version`. What was copied stays; sync goes on from there.",
    )


class _Remote:
    """Passes every question of a `SyncedStore` on."""

    def __init__(self, name: str, told: IO[bytes], asked: IO[bytes]) -> None:
        self.name, self._told, self._asked = name, told, asked

    def __getattr__(self, does: str) -> Callable[..., Any]:
        if does not in _KINDS:
            raise AttributeError(does)
        return self._read if does == "read" else partial(self._ask, does)

    def _read(self, key: Any, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        while (last is None or first <= last) and (got := self._ask("read", key, first, last)):
            yield from got if last is None else got[: last - first + 1]
            first += len(got)

    def _ask(self, does: str, *given: Any, **named: Any) -> Any:
        kinds = _KINDS[does]
        question = (does, {**dict(zip(kinds, given, strict=False)), **named})
        try:
            self._told.write(msgspec.json.encode(question) + b"\n")
            self._told.flush()
            line = self._asked.readline(_LONGEST)
        except (OSError, ValueError) as error:
            raise _away(self.name) from error
        if not line.endswith(b"\n"):
            raise _away(self.name)
        try:
            said = read_as(line, dict[str, Any])
            if "error" not in said:
                kind = list[bytes] if does == "read" else kinds["return"]
                return msgspec.convert(said["value"], kind)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            what = f"{self.name} answers with something that cannot be read."
            raise DamagedTranscript(what, "Both sides need the same version.") from error
        raise MindstoneError(f"{self.name}: {said['error']}")
