"""The elements of a JSON array too large to decode at once, as bytes, one after another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Final

from mindstone_tui.core.interchange.reading import LONGEST_RECORD, Flaw

_CHUNK: Final = 1 << 18
_TEXT: Final = re.compile(rb'["\\]')
_INSIDE: Final = re.compile(rb'["\[\]{}]')
_BETWEEN: Final = re.compile(rb'["\[\]{},]')


def elements(
    stream: IO[bytes], longest: int = LONGEST_RECORD
) -> Iterator[tuple[int, bytes | Flaw]]:
    """Numbered elements, from 1, of the array that starts at the stream's next `[`.

    What is not closed when the file ends, or is longer than it may be, is a `Flaw`.
    """
    if not _skip_to_array(stream):
        yield 1, Flaw("no JSON array")
        return
    splitter = _Splitter(longest)
    number = 0
    while chunk := stream.read(_CHUNK):
        for found in splitter.feed(chunk):
            number += 1
            yield number, found
        if splitter.is_over:
            return
    yield number + 1, Flaw("the file ends within the array")


def _skip_to_array(stream: IO[bytes]) -> bool:
    """Read up to and with the next `[`; whatever stands before it is not looked at."""
    while byte := stream.read(1):
        if byte == b"[":
            return True
    return False


class _Splitter:
    """Follows brackets and strings, and cuts at the commas between elements."""

    def __init__(self, longest: int) -> None:
        self.is_over = False
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0
        self._depth = 1
        self._in_text = False
        self._escaped = False

    def feed(self, chunk: bytes) -> Iterator[bytes | Flaw]:
        """Take in more bytes; hand over the elements that they complete."""
        start = at = 0
        while at < len(chunk) and not self.is_over:
            if self._in_text:
                at = self._leave_text(chunk, at)
                continue
            found = (_BETWEEN if self._depth == 1 else _INSIDE).search(chunk, at)
            if found is None:
                break
            at = found.end()
            sign = found.group()
            if sign == b'"':
                self._in_text = True
            elif sign in b"[{":
                self._depth += 1
            elif sign in b"]}":
                self._depth -= 1
            if self._depth == 0 or sign == b",":
                self.is_over = self._depth == 0
                self._keep(chunk[start : at - 1])
                start = at
                if (element := self._cut()) != b"":
                    yield element
        if not self.is_over:
            self._keep(chunk[start:])

    def _leave_text(self, chunk: bytes, at: int) -> int:
        """Where the text goes on being text no longer, or the end of the chunk."""
        if self._escaped:
            self._escaped = False
            return at + 1
        found = _TEXT.search(chunk, at)
        if found is None:
            return len(chunk)
        if found.group() == b'"':
            self._in_text = False
        else:
            self._escaped = True
        return found.end()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._longest:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def _cut(self) -> bytes | Flaw:
        size, self._size = self._size, 0
        whole = b"".join(self._pieces).strip()
        self._pieces.clear()
        return whole if size <= self._longest else Flaw(f"longer than {self._longest >> 20} MB")
