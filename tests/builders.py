"""Entries and sessions with sensible defaults, so that a test names only what it is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mindstone_tui.core.disk import REAL, Disk
from mindstone_tui.core.entries import Entry, Line, ToolCall
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.transcript import Transcript


class Ticking:
    """A clock that moves one second each time somebody looks."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._moments = (start + timedelta(seconds=n) for n in itertools.count())

    def __call__(self) -> datetime:
        return next(self._moments)


class Counting:
    """Entropy that counts, so that ids and salts are the same in every run."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = itertools.count(1)

    def __call__(self, size: int) -> bytes:
        return next(self._numbers).to_bytes(size)


def line_of(entry: Entry, seq: int = 1, *, turn: int = 1) -> Line:
    """An entry as a line that stands in no file."""
    return Line(
        seq=seq,
        id=f"id{seq}",
        session="agent:default:main",
        ts="2023-05-08T13:56:00Z",
        turn=turn,
        role=entry.role,
        channel="test",
        entry=entry,
        parent=None,
        prev="",
        hash="",
        blobs={},
        raw=b"",
    )


def places_in(home: Path, key: str = "agent:default:main") -> SessionPlaces:
    """The places of a session under a throw-away home."""
    return Places.resolve({"MINDSTONE_HOME": str(home)}).session(SessionKey.parse(key))


def transcript_in(home: Path, key: str = "agent:default:main", *, disk: Disk = REAL) -> Transcript:
    """A transcript whose bytes are the same in every run."""
    return Transcript(
        places_in(home, key), disk=disk, clock=Ticking(), entropy=Counting(), channel="test"
    )


def say(transcript: Transcript, question: str, answer: str) -> int:
    """One plain exchange; its turn is returned."""
    turn = transcript.last_turn + 1
    transcript.append(TurnStarted(), turn=turn)
    transcript.append(UserMessage(text=question), turn=turn)
    transcript.append(AssistantMessage(text=answer, model="test"), turn=turn)
    transcript.append(TurnEnded(ending="done"), turn=turn)
    return turn


def use_tool(transcript: Transcript, question: str, result: str, answer: str) -> int:
    """One exchange in which the model reads a file before it answers."""
    turn = transcript.last_turn + 1
    call = f"call_{turn}"
    arguments = '{"path":"notes.txt"}'
    transcript.append(TurnStarted(), turn=turn)
    transcript.append(UserMessage(text=question), turn=turn)
    transcript.append(
        AssistantMessage(
            text="", model="test", calls=(ToolCall(id=call, name="read", arguments=arguments),)
        ),
        turn=turn,
    )
    transcript.append(
        ToolCalled(call=call, name="read", shown="read notes.txt", digest="0" * 64), turn=turn
    )
    transcript.append(
        ToolReturned(call=call, name="read", text=result, finding="notes.txt, read"), turn=turn
    )
    transcript.append(AssistantMessage(text=answer, model="test"), turn=turn)
    transcript.append(TurnEnded(ending="done"), turn=turn)
    return turn
