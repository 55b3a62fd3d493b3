"""A transcript behind the `Browse` protocol: a page at a time, off the event loop."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Final

import msgspec

from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.text import unfenced
from mindstone_tui.core.transcript.reader import Damaged, History, read_line


def _text_of(line: Line) -> str:
    if isinstance(line.entry, Unknown):
        return ""
    text = getattr(line.entry, "text", "")
    return text if isinstance(text, str) else ""


def whole(line: Line | Damaged) -> str:
    """The full content of a line: its text, or its fields as JSON."""
    if isinstance(line, Damaged):
        return line.raw.decode("utf-8", "replace")
    if text := _text_of(line):
        # A person's message stands as it was sent; the marks around data are the program's own.
        return text if line.role == "user" else unfenced(text)
    fields = line.entry.fields if isinstance(line.entry, Unknown) else line.entry
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def contains(line: Line | Damaged, text: str) -> bool:
    """Whether the line contains the text, ignoring case."""
    wanted = text.casefold()
    return wanted in describe_line(line).text.casefold() or wanted in whole(line).casefold()


_STRIDE: Final = 2_000
"""Lines that a search looks through before it goes further back."""


class HistoryBrowse:
    """Reads an open `History`; one question at a time."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = asyncio.Lock()

    async def length(self) -> int:
        async with self._lock:
            return await asyncio.to_thread(lambda: len(self._history.offsets))

    async def lines(self, first: int, count: int) -> Sequence[Line | Damaged]:
        async with self._lock:
            return await asyncio.to_thread(self._lines, first, count)

    def _lines(self, first: int, count: int) -> list[Line | Damaged]:
        offsets = self._history.offsets
        if first >= len(offsets) or count <= 0:
            return []
        start = offsets.start(first)
        found = list(itertools.islice(self._history.read_from(start), count))
        return [self._history.whole(line) if isinstance(line, Line) else line for line in found]

    async def search(self, text: str, before: int) -> int | None:
        end = before
        while end > 0:
            first = max(0, end - _STRIDE)
            async with self._lock:
                found = await asyncio.to_thread(self._search, text, first, end)
            if found is not None:
                return found
            end = first
        return None

    def _search(self, text: str, first: int, end: int) -> int | None:
        """The last of these lines that contains the text; most are ruled out without decoding."""
        offsets = self._history.offsets
        if first >= len(offsets):
            return None
        wanted = json.dumps(text, ensure_ascii=False)[1:-1].casefold()
        found = None
        raws = itertools.islice(self._history.raw_from(offsets.start(first)), end - first)
        for number, (offset, raw) in enumerate(raws, first):
            if wanted in raw.decode("utf-8", "replace").casefold() and contains(
                read_line(raw, offset), text
            ):
                found = number
        return found

    async def place_of(self, entry: str) -> int | None:
        async with self._lock:
            try:
                return (await asyncio.to_thread(self._history.find, entry)).seq
            except NoSuchEntry:
                return None

    async def first_of(self, turn: int) -> int | None:
        async with self._lock:
            lines = await asyncio.to_thread(self._history.turn, turn)
        return lines[0].seq if lines else None
