"""Whether a transcript is what was written: every line's hash, every link, every number.

Edits, deletions, insertions and swaps inside the file are found, and the line is named. A cut at
the end on a line boundary and a rewrite of everything are not visible from inside: compare the
head with an anchor kept elsewhere (handoffs and checkpoints carry one).
"""

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec

from mindstone_tui.core import disk, errors, paths
from mindstone_tui.core.entries import Blob
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE
from mindstone_tui.core.transcript.reader import Read, batches

_CHUNK: Final = 1 << 16
_NAMES_A_BLOB: Final = b'"sha256":"'
"""In every line with `blobs`, `altered` or `images`; a text that contains it is merely parsed."""
_TOOL: Final = b'"role":"tool"'
"""In every line that may have `full`."""
_NEAR: Final = 180
"""Bytes before a line's role, apart from the name of its session."""
_SEAL: Final = len(b',"hash":""}') + 64
_ID: Final = 26
_FULL: Final = b'"full":"'


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where: lines are counted from 0, the header."""

    line: int
    offset: int
    kind: str
    """torn, nul, splice, unreadable, too_long, changed, gap, duplicate, order, chain, header,
    foreign, blob, anchor or missing."""
    detail: str


class HeadAnchor(msgspec.Struct, frozen=True):
    """A head that was noted elsewhere: the transcript must still contain it."""

    seq: int
    hash: str


class Verdict(msgspec.Struct, frozen=True):
    """The outcome for one session."""

    session: str
    ok: bool
    entries: int
    head: HeadAnchor | None
    problems: tuple[Problem, ...]


class _Link(msgspec.Struct, frozen=True):
    seq: int
    session: str
    kind: str
    prev: str
    hash: str
    blobs: dict[str, Blob] = {}
    altered: dict[str, Blob] = {}
    full: Any = None
    """`tool_returned`: the blob with the whole output."""
    images: Any = None
    """Messages: pictures, each a blob."""

    def named_blobs(self) -> Iterator[tuple[str, str]]:
        """Every blob that the line names: which field, which hash."""
        for path, blob in (*self.blobs.items(), *self.altered.items()):
            yield path, blob.sha256
        if self.full and self.kind == "tool_returned":
            yield "full", str(self.full)
        if self.images and self.kind in ("user_message", "message_queued", "tool_returned"):
            yield from (("images", str(image.get("sha256"))) for image in self.images)


_Report = Callable[[str, str], None]
_decode_link = msgspec.json.Decoder(_Link).decode


def blobs_of(raw: bytes) -> set[str]:
    """The hashes of every blob that a line names."""
    if _NAMES_A_BLOB not in raw and _TOOL not in raw:
        return set()
    return {digest for _, digest in _decode_link(raw).named_blobs()}


def verify(places: paths.SessionPlaces, anchor: HeadAnchor | None = None) -> Verdict:
    """Read the whole transcript once and list everything that is wrong with it."""
    try:
        fd = disk.open_regular(places.transcript, follow=False)
    except OSError as error:
        problem = Problem(0, 0, "missing", f"the transcript cannot be read: {error.strerror}")
        return Verdict(str(places.key), False, 0, None, (problem,))
    try:
        walk = _Walk(places, anchor)
        with disk.settled(fd):
            size = os.fstat(fd).st_size
        walk.over(size, lambda count, offset: os.pread(fd, count, offset))
        return walk.verdict()
    finally:
        os.close(fd)


class _Walk:
    """The chain so far, and what was wrong with it."""

    def __init__(self, places: paths.SessionPlaces, anchor: HeadAnchor | None) -> None:
        self._places = places
        self._session = str(places.key)
        self._session_part = b'","session":%b,"ts":"' % msgspec.json.encode(self._session)
        self._anchor = anchor
        self._anchored_at = -1 if anchor is None else anchor.seq
        self._anchored = anchor is None
        self._problems: list[Problem] = []
        self._entries = 0
        self._last: tuple[int, str] | None = None
        """Number and hash of the newest line in its place."""
        self._next_seq: int | None = 0
        """The number the next line must have; None after a line that cannot be read."""
        self._sound_blobs: set[str] = set()
        self._prev: tuple[str, ...] | None = (GENESIS,)
        """Hashes the next line may name; None after a line that cannot be read."""

    def over(self, size: int, read: Read) -> None:
        """Check all lines, in order.

        A line that is just what must follow is not parsed, and nearly all are: its hash proves that
        it is what was written, so only number, session and link are looked at. Whatever differs in
        any way, or names a blob, is parsed, and then named for what it is.
        """
        quiet = False
        """Nothing in the newest chunk can name a blob."""

        def watched(count: int, offset: int) -> bytes:
            nonlocal quiet
            data = read(count, offset)
            quiet = _TOOL not in data and _NAMES_A_BLOB not in data
            return data

        session, anchored = self._session_part, self._anchored_at
        near = _NEAR + len(session)
        seq, before, first, number = -1, "", -1, 0
        for offset, end, raws, whole in batches(watched, 0, size, _CHUNK):
            plain, known = False, 0  # of the first line, other chunks hold a part
            for at, raw in enumerate(raws):
                front = b'{"v":1,"seq":%d,"id":"' % seq
                if (
                    raw.startswith(front)
                    and raw.startswith(session, len(front) + _ID)
                    and (digest := sha256(raw[:-_SEAL]).hexdigest())
                    and raw.endswith(f',"prev":"{before}","hash":"{digest}"}}'.encode())
                    and before
                    and seq != anchored
                    and (
                        plain
                        or (
                            whole
                            and _NAMES_A_BLOB not in raw
                            and len(raw) <= MAX_LINE
                            and not (raw.find(_TOOL, len(front), near) > 0 and _has_full(raw))
                        )
                    )
                ):
                    before = digest
                    seq += 1
                else:
                    if seq > first:
                        self._passed(seq - first, seq, before)
                    if at > known:
                        offset = end if known == 0 else offset
                        offset += sum(map(len, raws[known or 1 : at])) + at - (known or 1)
                        known = at
                    length = len(raw) + 1 if at else end - offset
                    self.take(number + at, offset, raw, whole, length)
                    first = seq = -1 if self._next_seq is None else self._next_seq
                    links = self._prev or ()
                    before = links[0] if len(links) == 1 else ""
                plain = quiet
            number += len(raws)
        if seq > first:
            self._passed(seq - first, seq, before)

    def _passed(self, count: int, seq: int, digest: str) -> None:
        """So many lines were sound; the one with this hash is followed by number `seq`."""
        self._entries += count
        self._last = (seq - 1, digest)
        self._prev = (digest,)
        self._next_seq = seq

    def take(self, number: int, offset: int, raw: bytes, whole: bool, length: int) -> None:
        """Check one line against those before it."""

        def wrong(kind: str, detail: str) -> None:
            self._problems.append(Problem(number, offset, kind, detail))

        link = None
        if not whole:
            wrong("torn", f"the last {length:,} bytes are not a whole line")
        elif len(raw) > MAX_LINE:
            wrong("too_long", f"{length:,} bytes; a line has at most {MAX_LINE:,}")
        else:
            try:
                link = _decode_link(raw)
            except (ValueError, RecursionError) as error:
                wrong(_damage(raw), str(error))
        if link is None:
            self._next_seq = self._prev = None
            return
        self._entries += 1
        computed = sha256(raw[:-_SEAL]).hexdigest()
        if computed != link.hash or not raw[-_SEAL:].startswith(b',"hash":"'):
            wrong("changed", "the line's bytes do not have the hash that it carries")
            self._next_seq = None if self._next_seq is None else self._next_seq + 1
            self._prev = (computed, link.hash)
            return
        self._check_blobs(link, wrong)
        if not self._in_place(number, link, wrong):
            return
        if self._anchor is not None and link.seq == self._anchor.seq:
            self._anchored = link.hash == self._anchor.hash
        self._next_seq = link.seq + 1
        self._prev = (link.hash,)
        self._last = (link.seq, link.hash)

    def _in_place(self, number: int, link: _Link, wrong: _Report) -> bool:
        """Whether the line belongs here; one that does not is passed over."""
        last = -1 if self._last is None else self._last[0]
        expected = self._next_seq
        if number == 0 and link.kind != "session_opened":
            wrong("header", f"the first line is a {link.kind}, not the header")
        if link.session != self._session:
            wrong("foreign", f"the line belongs to {link.session}")
            return False
        if link.seq <= last or (expected is not None and link.seq < expected):
            kind = "duplicate" if link.seq == last else "order"
            wrong(kind, f"line {last + 1} is expected here, {link.seq} was found")
            return False
        if expected is not None and link.seq > expected:
            wrong("gap", f"line {expected} is expected here, {link.seq} was found")
        elif self._prev is not None and link.prev not in self._prev:
            wrong("chain", "the line before is not the one that this line was written after")
        return True

    def _check_blobs(self, link: _Link, wrong: _Report) -> None:
        for path, digest in link.named_blobs():
            if digest in self._sound_blobs:
                continue
            try:
                disk.read_blob(self._places.blobs, digest)
                self._sound_blobs.add(digest)
            except errors.PlaceError as error:
                wrong("blob", f"{path}: {error.what}")

    def verdict(self) -> Verdict:
        """What was found, as a value."""
        if self._last is None and not self._problems:
            self._problems.append(Problem(0, 0, "header", "the file is empty"))
        if not self._anchored and self._anchor is not None:
            detail = f"line {self._anchor.seq} with the noted hash is not in the file"
            self._problems.append(Problem(self._anchor.seq, 0, "anchor", detail))
        return Verdict(
            self._session,
            not self._problems,
            self._entries,
            HeadAnchor(*self._last) if self._last else None,
            tuple(self._problems),
        )


def _has_full(raw: bytes) -> bool:
    """Whether a tool's line names the blob with its whole output; inside a text quotes differ."""
    at = raw.find(_FULL)
    return at >= 0 and not raw.startswith(b'"', at + len(_FULL))


def _damage(raw: bytes) -> str:
    """What kind of damage made these bytes unreadable."""
    if b"\x00" in raw:
        return "nul"
    if raw.find(b'{"v":', 1) > 0:
        return "splice"
    return "unreadable"
