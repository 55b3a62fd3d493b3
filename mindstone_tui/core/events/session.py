"""The session itself: ready, closed, what another surface wrote, what the disk refused."""

from __future__ import annotations

from typing import Literal

from mindstone_tui.core.events.base import Event


class SessionReady(Event):
    """The session is open: who answers, and where history stands."""

    session: str
    model: str
    note: str
    """One honest sentence about who answers."""
    turns: int
    entries: int


class ModelChanged(Event):
    """Another model answers from here on."""

    model: str
    note: str


class EntryAppeared(Event):
    """Another surface wrote to this session."""

    entry: str
    seq: int
    kind: str
    role: str
    channel: str
    turn: int
    text: str


class NotSaved(Event):
    """The disk refused; nothing after this is on disk, and no tool runs."""

    what: str
    remedy: str
    unsaved: int


class SavedAgain(Event):
    """Everything that was unsaved is on disk now."""

    entries: int


class Noticed(Event):
    """Something a person should know, in one line."""

    message: str
    level: Literal["info", "warning", "error"] = "info"


class SessionClosed(Event):
    """The stream ends here."""

    session: str
    seq: int
    hash: str


SessionEvent = (
    SessionReady | ModelChanged | EntryAppeared | NotSaved | SavedAgain | Noticed | SessionClosed
)
