"""From the bytes of an answer to its events: server-sent events, and one JSON value a line.

Pure and bounded: bytes go in as they arrive, whole payloads come out, and neither a line nor an
event without an end can grow beyond its limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

LONGEST_EVENT: Final = 16 << 20
"""Bytes of one event; the last one of an answer may repeat all that was said."""
LONGEST_ANSWER: Final = 128 << 20
"""Bytes of a whole answer; a token takes a few hundred of them on the wire."""
LONGEST_STRAY: Final = 64 << 10
_FIELDS: Final = (b"", b"data", b"event", b"id", b"retry")
"""What a line of an event may begin with; one that begins with a colon is a comment."""
_BOM: Final = b"\xef\xbb\xbf"


class Oversized(ValueError):
    """More bytes than an answer can have."""


class Reader(Protocol):
    """Makes payloads of bytes."""

    stray: bytes
    """The beginning of what is no event: some servers say there what is wrong."""

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that are whole now."""
        ...

    def end(self) -> list[bytes]:
        """What a last line without its end still gives."""
        ...


class Lines:
    """Lines, whatever ends them; a byte order mark before the first is no part of it."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        if b"\n" not in data and b"\r" not in data:
            self._keep(data)
            return []
        whole = b"".join((*self._pieces, data))
        self._pieces, self._size = [], 0
        # A carriage return at the very end may be half of a line end: it waits for the rest.
        cut = len(whole) - 1 if whole.endswith(b"\r") else len(whole)
        *lines, rest = whole[:cut].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._keep(rest + whole[cut:])
        return self._without_mark(lines)

    def end(self) -> list[bytes]:
        """The last line, if the stream ended within it."""
        rest = b"".join(self._pieces).rstrip(b"\r")
        self._pieces, self._size = [], 0
        return self._without_mark([rest]) if rest else []

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._longest:
            raise Oversized(f"a line longer than {self._longest >> 20} MiB")
        if data:
            self._pieces.append(data)

    def _without_mark(self, lines: list[bytes]) -> list[bytes]:
        if lines and not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        return lines


class EventStream:
    """Server-sent events: the data of each; comments, names and ids are passed over."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self.stray = b""
        self._longest = longest
        self._lines = Lines(longest)
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is whole now."""
        return [
            event
            for line in self._lines.feed(data)
            # A flood of empty lines is passed over quickly.
            if (line or self._data) and (event := self._take(line)) is not None
        ]

    def end(self) -> list[bytes]:
        """An event whose lines are whole, though the empty line after them is missing."""
        data, self._data = self._data, []
        for line in self._lines.end():
            self._stray(line)
        return [b"\n".join(data)] if data else []

    def _take(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data, self._size = self._data, [], 0
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._size += len(value)
            if self._size > self._longest:
                raise Oversized(f"an event larger than {self._longest >> 20} MiB")
            self._data.append(value.removeprefix(b" "))
        elif name not in _FIELDS:
            self._stray(line)
        return None

    def _stray(self, line: bytes) -> None:
        if len(self.stray) < LONGEST_STRAY:
            self.stray += line[:LONGEST_STRAY]


class JsonLines:
    """One JSON value a line."""

    stray = b""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._lines = Lines(longest)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        return [line for line in self._lines.feed(data) if line.strip()]

    def end(self) -> list[bytes]:
        """The last line, which may lack its end."""
        return [line for line in self._lines.end() if line.strip()]


class Unpacked:
    """Bytes as they were before they were packed, a bounded piece at a time."""

    _WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 47}
    _PIECE: Final = 64 << 10
    _RATIO: Final = 64
    """A packed answer that grows more than this was made to do harm; real ones grow twentyfold."""
    _HARMLESS: Final = 1 << 20

    def __init__(self, encoding: str = "", longest: int = LONGEST_ANSWER) -> None:
        self._longest = longest
        self._taken = 0
        self._given = 0
        self._inflate = None
        if encoding not in ("", "identity"):
            if encoding not in self._WINDOWS:
                raise ValueError(f"an answer packed as {encoding[:40]!r}, which was not asked for")
            self._inflate = zlib.decompressobj(self._WINDOWS[encoding])

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bytes in pieces; raises `Oversized` before there are too many of them."""
        self._taken += len(data)
        while data:
            if self._inflate is None:
                piece, data = data, b""
            else:
                piece = self._inflate.decompress(data, self._PIECE)
                data = self._inflate.unconsumed_tail
            self._given += len(piece)
            packed = self._inflate is not None
            harmful = packed and self._given > max(self._RATIO * self._taken, self._HARMLESS)
            if harmful or self._given > self._longest:
                raise Oversized("an answer that is far too large")
            yield piece
