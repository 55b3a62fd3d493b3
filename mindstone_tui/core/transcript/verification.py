"""Whether a transcript is what was written: every line's hash, every link, every number.

Edits, deletions, insertions and swaps inside the file are found, and the line is named. A cut at
the end on a line boundary and a rewrite of everything are not visible from inside: compare the
head with an anchor kept elsewhere (handoffs and checkpoints carry one).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mindstone_tui.core.disk import read_blob
from mindstone_tui.core.entries import Blob
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE
from mindstone_tui.core.errors import PlaceError
from mindstone_tui.core.places import SessionPlaces

_CHUNK: Final = 1 << 21
_SEAL: Final = len(b',"hash":""}') + 64


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where: lines are counted from 0, the header."""

    line: int
    offset: int
    kind: str
    """torn, nul, splice, unreadable, too_long, changed, gap, duplicate, order, chain, header,
    foreign, blob, anchor or missing."""
    detail: str


class Anchor(msgspec.Struct, frozen=True):
    """A head that was noted elsewhere: the transcript must still contain it."""

    seq: int
    hash: str


class Verdict(msgspec.Struct, frozen=True):
    """The outcome for one session."""

    session: str
    ok: bool
    entries: int
    head: Anchor | None
    problems: tuple[Problem, ...]


class _Link(msgspec.Struct, frozen=True):
    seq: int
    session: str
    kind: str
    prev: str
    hash: str
    blobs: dict[str, Blob] = {}
    altered: dict[str, Blob] = {}


_Report = Callable[[str, str], None]
_decode_link = msgspec.json.Decoder(_Link).decode


def verify(places: SessionPlaces, anchor: Anchor | None = None) -> Verdict:
    """Read the whole transcript once and list everything that is wrong with it."""
    try:
        fd = os.open(places.transcript, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        problem = Problem(0, 0, "missing", f"the transcript cannot be read: {error.strerror}")
        return Verdict(str(places.key), False, 0, None, (problem,))
    try:
        walk = _Walk(places, anchor)
        for number, offset, raw, whole in _lines(fd, _settled_size(fd)):
            walk.take(number, offset, raw, whole)
        return walk.verdict()
    finally:
        os.close(fd)


def _settled_size(fd: int) -> int:
    """The length at a moment when nobody is in the middle of a write."""
    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        return os.fstat(fd).st_size
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _lines(fd: int, size: int) -> Iterator[tuple[int, int, bytes, bool]]:
    """Number, offset, bytes, and whether the newline is there."""
    number = offset = 0
    rest = b""
    position = 0
    while position < size:
        chunk = os.pread(fd, min(_CHUNK, size - position), position)
        if not chunk:
            break
        position += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        for raw in whole:
            yield number, offset, raw, True
            number += 1
            offset += len(raw) + 1
    if rest:
        yield number, offset, rest, False


class _Walk:
    """The chain so far, and what was wrong with it."""

    def __init__(self, places: SessionPlaces, anchor: Anchor | None) -> None:
        self._places = places
        self._session = str(places.key)
        self._anchor = anchor
        self._anchored = anchor is None
        self._problems: list[Problem] = []
        self._entries = 0
        self._head: Anchor | None = None
        self._next_seq = 0
        self._prev: frozenset[str] | None = frozenset((GENESIS,))
        """Hashes the next line may name; None after a line that cannot be read."""

    def take(self, number: int, offset: int, raw: bytes, whole: bool) -> None:
        """Check one line against those before it."""

        def wrong(kind: str, detail: str) -> None:
            self._problems.append(Problem(number, offset, kind, detail))

        link = None
        if not whole:
            wrong("torn", f"the last {len(raw)} bytes are not a whole line")
        elif len(raw) > MAX_LINE:
            wrong("too_long", f"{len(raw):,} bytes; a line has at most {MAX_LINE:,}")
        else:
            try:
                link = _decode_link(raw)
            except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
                wrong(_damage(raw), str(error))
        if link is None:
            self._next_seq += 1
            self._prev = None
            return
        self._entries += 1
        computed = hashlib.sha256(raw[:-_SEAL]).hexdigest()
        if computed != link.hash or not raw[-_SEAL:].startswith(b',"hash":"'):
            wrong("changed", "the line's bytes do not have the hash that it carries")
            self._next_seq += 1
            self._prev = frozenset((computed, link.hash))
            return
        self._check_place(number, link, wrong)
        self._check_blobs(link, wrong)
        if self._anchor is not None and link.seq == self._anchor.seq:
            self._anchored = link.hash == self._anchor.hash
        self._next_seq = link.seq + 1
        self._prev = frozenset((link.hash,))
        self._head = Anchor(link.seq, link.hash)

    def _check_place(self, number: int, link: _Link, wrong: _Report) -> None:
        if number == 0 and link.kind != "session_opened":
            wrong("header", f"the first line is a {link.kind}, not the header")
        if link.session != self._session:
            wrong("foreign", f"the line belongs to {link.session}")
        elif link.seq > self._next_seq:
            wrong("gap", f"line {self._next_seq} is expected here, {link.seq} was found")
        elif link.seq < self._next_seq:
            same = self._head is not None and self._head.seq == link.seq
            wrong(
                "duplicate" if same else "order",
                f"line {self._next_seq} is expected here, {link.seq} was found",
            )
        elif self._prev is not None and link.prev not in self._prev:
            wrong("chain", "the line before is not the one that this line was written after")

    def _check_blobs(self, link: _Link, wrong: _Report) -> None:
        for path, blob in {**link.blobs, **link.altered}.items():
            try:
                read_blob(self._places.blobs, blob.sha256)
            except PlaceError as error:
                wrong("blob", f"{path}: {error.what}")

    def verdict(self) -> Verdict:
        """What was found, as a value."""
        if self._head is None and not self._problems:
            self._problems.append(Problem(0, 0, "header", "the file is empty"))
        if not self._anchored and self._anchor is not None:
            detail = f"line {self._anchor.seq} with the noted hash is not in the file"
            self._problems.append(Problem(self._anchor.seq, 0, "anchor", detail))
        return Verdict(
            self._session,
            not self._problems,
            self._entries,
            self._head,
            tuple(self._problems),
        )


def _damage(raw: bytes) -> str:
    """What kind of damage made these bytes unreadable."""
    if b"\x00" in raw:
        return "nul"
    if raw.find(b'{"v":', 1) > 0:
        return "splice"
    return "unreadable"
