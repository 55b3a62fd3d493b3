"""Protocol buffers without a schema: the fields of a message, by their numbers."""

from collections.abc import Iterator
from typing import Final

_WHOLE, _BYTES = 0, 2
_SIZES: Final = {1: 8, 5: 4}
"""Bytes of the kinds of numbers that have a fixed size."""


def fields_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields that hold bytes or a number of fixed size, as far as the message can be read."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _WHOLE:
            _, at = _varint(data, at)
            continue
        if kind != _BYTES and kind not in _SIZES:
            return
        size, at = _varint(data, at) if kind == _BYTES else (_SIZES[kind], at)
        if at + size > len(data):
            return
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in as many bytes as it needs, and where the next thing begins."""
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7
    return 0, len(data)
