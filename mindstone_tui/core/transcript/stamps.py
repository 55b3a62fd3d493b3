"""When and which: timestamps and ids that only ever ascend within a session."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES: Final = {character: value for value, character in enumerate(_ALPHABET)}
_LENGTH: Final = 26


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, as lines carry it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def next_id(moment: datetime, last: str, entropy: Entropy = os.urandom) -> str:
    """A ULID for this moment that sorts after `last`, even if the clock was set back."""
    fresh = (int(moment.timestamp() * 1000) << 80) | int.from_bytes(entropy(10))
    return encode_ulid(max(fresh, decode_ulid(last) + 1) if last else fresh)


def encode_ulid(value: int) -> str:
    """A 128-bit number as 26 characters of Crockford's base 32."""
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))


def decode_ulid(text: str) -> int:
    """The number behind a ULID; 0 for anything that is none."""
    if len(text) != _LENGTH or any(character not in _VALUES for character in text):
        return 0
    value = 0
    for character in text:
        value = value << 5 | _VALUES[character]
    return value


def written_at(id: str) -> str:  # noqa: A002 (the field's own name)
    """When a line with this id was written; empty for anything that is no ULID."""
    value = decode_ulid(id)
    if not value:
        return ""
    return timestamp(datetime.fromtimestamp((value >> 80) / 1000, UTC))
