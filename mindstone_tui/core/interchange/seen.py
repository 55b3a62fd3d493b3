"""Remembering millions of messages by eight bytes each.

A message is the same as another when its kind, its id in the other program and its text are the
same. Where a program gives no ids, its time and how often the same was said before stand in, so
that saying "go on" twice stays twice, and importing the file again adds nothing.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from typing import Final

from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage

Message = UserMessage | AssistantMessage | ToolReturned
"""What an import brings; everything else around it is bookkeeping."""

_SMALLEST: Final = 1 << 10


class Hashes:
    """A set of 64-bit numbers in one flat array: sixteen bytes a member, or less."""

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _SMALLEST))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        return self._slots[self._slot(key)] == key

    def add(self, key: int) -> None:
        """Take a number in; 0 is not one."""
        slot = self._slot(key)
        if self._slots[slot] == key:
            return
        self._slots[slot] = key
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()

    def _slot(self, key: int) -> int:
        """Where the number is, or where it would go."""
        mask = len(self._slots) - 1
        slot = key & mask
        while (there := self._slots[slot]) and there != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        members = self._slots
        self._slots = array("Q", bytes(2 * len(members) * members.itemsize))
        for key in members:
            if key:
                self._slots[self._slot(key)] = key


class Seen:
    """Which messages were there, each told apart from its equals."""

    def __init__(self) -> None:
        self._hashes = Hashes()

    def __contains__(self, key: int) -> bool:
        return key in self._hashes

    def take(self, name: str, *, once: bool) -> int | None:
        """Count one more message of this name and return its key.

        With `once` there can be no second: None is returned for it.
        """
        key = _hash(name, 0)
        if key in self._hashes:
            if once:
                return None
            key = self._next(name)
        self._hashes.add(key)
        return key

    def _next(self, name: str) -> int:
        """The first number of its kind that is free; they are taken without gaps."""
        low, high = 0, 1
        while _hash(name, high) in self._hashes:
            low, high = high, 2 * high
        while low + 1 < high:
            middle = (low + high) // 2
            if _hash(name, middle) in self._hashes:
                low = middle
            else:
                high = middle
        return _hash(name, high)


def name_of(entry: Message, ts: str, shown: Callable[[str], str] = str) -> str:
    """What a message is known by; `shown` is what becomes of a text on its way to disk."""
    call = entry.call if isinstance(entry, ToolReturned) else ""
    parts = (entry.source_id, "" if entry.source_id else ts, call, entry.text)
    return "\x00".join((entry.kind, *map(shown, parts)))


def visible(text: str) -> str:
    """The text as a line of the transcript shows it: NULs and lone surrogates replaced."""
    text = text.replace("\x00", "\u2400")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _hash(name: str, occurrence: int) -> int:
    said = f"{occurrence}\x00{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest()) or 1
