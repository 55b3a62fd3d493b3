"""Where a transcript ends, and what a crash left behind its end.

Only what was being written when the power went can be torn: the last line, or the last few where
they were one write. Those lines say so (`batch`), because then any page of them may be missing.
A whole last line with a wrong hash was not torn, it rotted: it stays, and `verify` names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.line import GENESIS, MAX_LINE, hash_matches
from mindstone_tui.core.errors import DamagedTranscript
from mindstone_tui.core.transcript.history import read_line
from mindstone_tui.core.transcript.splitting import Piece, Read, backwards

LONGEST_WRITE: Final = 4 << 20
"""No write is longer, so no crash tears more."""

_CHUNK: Final = 1 << 16
_HEADER_BEGINS: Final = b'{"v":1,"seq":0,'
_LOOKS_WHOLE: Final = re.compile(rb'\{"v":.*,"hash":"([0-9a-f]{64})"\}', re.DOTALL)


class Tail(msgspec.Struct, frozen=True):
    """All that the next line needs to know about the ones before it."""

    size: int = 0
    """Where the next line begins."""
    start: int | None = None
    """Where the newest one does."""
    seq: int = -1
    hash: str = GENESIS
    id: str = ""
    turn: int = 0
    session: str = ""


class End(msgspec.Struct, frozen=True):
    """A transcript's end as it was found."""

    tail: Tail
    torn: bool = False
    """Bytes behind the tail are of no use."""
    newline: bool = True
    """False when the newest line is whole but for its newline."""


class _Batched(msgspec.Struct, frozen=True):
    seq: int
    batch: int | None = None


_decode_batched = msgspec.json.Decoder(_Batched).decode


def find_end(read: Read, size: int, name: object) -> End:
    """Look back from the end to the newest line that counts; raises `DamagedTranscript`."""
    end = size
    rotten: list[Piece] = []
    pieces = backwards(read, size, _CHUNK)
    for piece in pieces:
        begin, stop, raw, whole = piece
        line = _readable(raw, begin)
        if line is not None and hash_matches(raw, line.hash):
            before = _before_torn_batch(line, begin, pieces) if whole and not rotten else None
            if before is not None:
                return End(before, torn=True)
            tail = _after(line, begin, stop + (not whole), rotten)
            return End(tail, torn=tail.size < size, newline=whole)
        if whole and _rotted(raw):
            rotten.append(piece)
            continue
        rotten.clear()
        end = begin
        if size - end > LONGEST_WRITE + MAX_LINE:
            break
    return End(_when_nothing_is_good(read, size, end, rotten, name), torn=end < size)


def _after(line: Line, begin: int, stop: int, rotten: list[Piece]) -> Tail:
    """The tail behind a good line and the rotten ones that follow it and stay."""
    if not rotten:
        return Tail(stop, begin, line.seq, line.hash, line.id, line.turn, line.session)
    start, stop, raw, _ = rotten[0]
    return Tail(
        stop,
        start,
        line.seq + len(rotten),
        _claimed_hash(raw),
        line.id,
        line.turn,
        line.session,
    )


def _before_torn_batch(line: Line, begin: int, pieces: Iterator[Piece]) -> Tail | None:
    """The tail before the write that a good last line was part of, if that write is torn."""
    first = _decode_batched(line.raw).batch
    if first is None or first >= line.seq:
        return None
    torn = False
    for start, stop, raw, _ in pieces:
        found = _readable(raw, start)
        if found is not None and found.seq < first:
            return _after(found, start, stop, []) if torn else None
        torn = torn or b"\x00" in raw
        if begin - start > LONGEST_WRITE + MAX_LINE:
            return None
    return Tail() if torn and first == 0 else None


def _when_nothing_is_good(
    read: Read, size: int, end: int, rotten: list[Piece], name: object
) -> Tail:
    """The tail where no line can be trusted: fine for a header that was never finished."""
    if rotten and rotten[-1][0] == 0:
        start, stop, raw, _ = rotten[0]
        return Tail(stop, start, len(rotten) - 1, _claimed_hash(raw))
    if end == 0 and (size == 0 or _torn_header(read(min(size, _CHUNK), 0), size)):
        return Tail()
    raise DamagedTranscript(
        f"{name} has no readable line at its end.",
        "Run `mindstone verify`, and restore the file from a backup; nothing was written.",
    )


def _torn_header(content: bytes, size: int) -> bool:
    """Whether a file is no more than a header that a crash cut short."""
    came = content.rstrip(b"\x00")
    begun = came.startswith(_HEADER_BEGINS) or _HEADER_BEGINS.startswith(came)
    return size <= MAX_LINE and begun


def _readable(raw: bytes, offset: int) -> Line | None:
    if b"\x00" in raw:
        return None
    item = read_line(raw, offset)
    return item if isinstance(item, Line) else None


def _rotted(raw: bytes) -> bool:
    """Whether a line was written whole and changed later: pages that never came are all NUL."""
    return len(raw) <= MAX_LINE and b"\x00" not in raw and _LOOKS_WHOLE.fullmatch(raw) is not None


def _claimed_hash(raw: bytes) -> str:
    found = _LOOKS_WHOLE.fullmatch(raw)
    return found[1].decode() if found else GENESIS
