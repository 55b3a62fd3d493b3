"""The contract of a conversation: every event there is, and the verbs it understands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mindstone_tui.core.events.types import (
    CommandEvent,
    MemoryEvent,
    SessionEvent,
    ToolEvent,
    TurnEvent,
    WindowEvent,
)
from mindstone_tui.core.values import Value

AnyEvent = SessionEvent | TurnEvent | ToolEvent | WindowEvent | MemoryEvent | CommandEvent
"""Every event there is; clients match on it exhaustively."""


class Attachment(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A picture, a sound or a text file that goes with a message."""

    path: Path


class Answer(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A person's word on a tool that was asked about."""

    allowed: bool
    remember: str = ""
    """A rule of `ToolAsked.remember`, or empty for this once."""
    keep: Literal["", "session", "config"] = ""
    why: str = ""


class Conversation(Protocol):
    """A session, live or replayed: verbs in, one ordered stream of events out.

    Verbs return at once; what comes of them is announced. There is one stream and one reader.
    """

    def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, in order, until the session is closed."""
        ...

    def send(
        self, text: str, *, attachments: Sequence[Attachment] = (), steer: bool = False
    ) -> None:
        """Say something; while a turn runs it is queued, or steers that turn when told to."""
        ...

    def command(self, line: str) -> None:
        """Run a slash command."""
        ...

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a `ToolAsked`."""
        ...

    def withdraw(self, entry: str) -> None:
        """Take a queued message back."""
        ...

    def interrupt(self) -> None:
        """Stop the running turn; what was streamed so far is kept."""
        ...

    async def close(self) -> None:
        """Finish, and end the stream."""
        ...


def encode(event: AnyEvent) -> bytes:
    """One event as a line of JSON, newline included."""
    return msgspec.json.encode(event) + b"\n"
