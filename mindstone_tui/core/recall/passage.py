"""The unit of recall: one message, or one piece of a long one, with the way back to its source.

A passage is a value with a stable id, so that indexing the same history twice adds nothing. What
is indexed is not only its text but who said it and when: people ask for both.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

Form = Literal["prose", "code"]

LONGEST_PIECE: Final = 900
"""Characters of one piece: the embedding model reads about 256 tokens and no more."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be found again."""

    id: str
    """Entry id and piece number: `01HX…#0`."""
    session: str
    seq: int
    entry: str
    turn: int
    """The exchange it belongs to."""
    ts: str
    role: str
    speaker: str
    kind: str
    text: str
    """The words themselves, exactly as they stand in history."""
    source_id: str = ""
    piece: int = 0
    pieces: int = 1
    form: Form = "prose"
    about: str = ""
    """What the piece belongs to, when its own text does not say: the call of a tool result."""
    meaning: bool = True
    """Whether a vector is made; the far end of a long tool output is found by words alone."""

    @property
    def pointer(self) -> str:
        """Where to look: `#42 of turn 7`, or the file."""
        return f"#{self.seq} of turn {self.turn}" if self.seq >= 0 else self.entry

    @property
    def heading(self) -> str:
        """Who, when and about what, as it is indexed before the text."""
        when = spoken_date(self.ts)
        head = ", ".join(part for part in (self.speaker, when) if part)
        return f"{head} · {self.about}" if self.about else head

    @property
    def indexed_text(self) -> str:
        """Heading and text: what words and vectors are made from."""
        heading = self.heading
        return f"{heading}: {self.text}" if heading else self.text

    @property
    def content_hash(self) -> bytes:
        """Names the indexed text; a receipt is this hash, read back."""
        return hashlib.sha256(self.indexed_text.encode("utf-8", "replace")).digest()[:16]


def parse_time(ts: str) -> datetime | None:
    """An ISO 8601 time in UTC, or None when it is not one."""
    try:
        moment = datetime.fromisoformat(ts)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def epoch(ts: str) -> float:
    """Seconds since 1970; 0 when the time is unknown."""
    moment = parse_time(ts)
    return moment.timestamp() if moment else 0.0


_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def spoken_date(ts: str) -> str:
    """`8 May 2023`: a date in the words that people use for it, whatever the locale."""
    moment = parse_time(ts)
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}" if moment else ""
