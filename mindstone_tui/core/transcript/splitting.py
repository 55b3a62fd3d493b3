"""Bytes into lines, forwards and backwards, whatever the file holds.

Only a newline ends a line. A line that is longer than one may be is handed over cut off, so that
gigabytes of garbage cost neither memory nor time beyond one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mindstone_tui.core.entries.line import MAX_LINE

Read = Callable[[int, int], bytes]
"""Up to so many bytes from an offset."""
Piece = tuple[int, int, bytes, bool]
"""Where it begins, where it ends with its newline, its bytes, and whether the newline is there."""

CUT: Final = MAX_LINE + 1
"""Over-long lines are cut to this length, which still tells that they are too long."""


def forwards(read: Read, start: int, stop: int, chunk: int) -> Iterator[Piece]:
    """Every line from `start` on, in order; last, if there is one, a fragment without newline."""
    begin = position = start
    rest = b""
    while position < stop:
        data = read(min(chunk, stop - position), position)
        if not data:
            break
        first = position
        position += len(data)
        head, *others = data.split(b"\n")
        rest = _joined(rest, head)
        if not others:
            continue
        end = first + len(head) + 1
        yield begin, end, rest, True
        begin = end
        for raw in others[:-1]:
            end = begin + len(raw) + 1
            yield begin, end, raw[:CUT], True
            begin = end
        rest = others[-1][:CUT]
    if begin < position:
        yield begin, position, rest, False


def backwards(read: Read, size: int, chunk: int) -> Iterator[Piece]:
    """Every line from the end to the start; first, if there is one, a fragment without newline."""
    end = position = size
    rest = b""
    whole = False
    while position > 0:
        start = max(0, position - chunk)
        data = read(position - start, start)
        cut = len(data)
        while (newline := data.rfind(b"\n", 0, cut)) >= 0:
            begin = start + newline + 1
            raw = _joined(data[newline + 1 : cut], rest)
            if whole or raw:
                yield begin, end, raw, whole
            rest, end, whole, cut = b"", begin, True, newline
        rest = _joined(data[:cut], rest)
        position = start
    if whole or rest:
        yield 0, end, rest, whole


def _joined(front: bytes, back: bytes) -> bytes:
    if len(front) >= CUT:
        return front[:CUT]
    return (front + back)[:CUT]
