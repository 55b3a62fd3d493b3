"""A turn as it happens: what was asked, what is answered, what it took."""

from __future__ import annotations

from mindstone_tui.core.entries.base import Usage
from mindstone_tui.core.entries.conversation import TurnEnding
from mindstone_tui.core.events.base import Event


class TurnStarted(Event):
    """A turn began."""

    turn: int
    entry: str
    text: str
    """What was asked, as it was recorded."""
    queued: str = ""
    """Id of the entry it waited in; empty if it never had to wait."""


class TextDelta(Event):
    """More of the answer."""

    turn: int
    text: str


class ThinkingDelta(Event):
    """More of the reasoning."""

    turn: int
    text: str


class AnswerRecorded(Event):
    """One model call's answer is on disk; `text` is all of it."""

    turn: int
    entry: str
    text: str
    calls: int
    partial: bool = False


class ModelCalled(Event):
    """A request is about to be sent, planned and recorded."""

    turn: int
    call: int
    model: str
    prompt_hash: str
    tokens: int


class ModelRetried(Event):
    """A request failed and is tried again."""

    turn: int
    attempt: int
    wait: float
    why: str


class UsageReported(Event):
    """What the provider counted."""

    turn: int
    call: int
    model: str
    usage: Usage


class MessageQueued(Event):
    """A message waits for its own turn."""

    entry: str
    text: str


class MessageWithdrawn(Event):
    """A queued message was taken back."""

    entry: str


class MessageSteered(Event):
    """A queued message went into the running turn, before its next model call."""

    turn: int
    entry: str
    queued: str
    """Id of the entry it waited in."""
    text: str


class TurnEnded(Event):
    """The turn is over; exactly one for each that started."""

    turn: int
    ending: TurnEnding
    why: str = ""
    remedy: str = ""
    calls: int = 0
    tools: int = 0
    usage: Usage = Usage()
    elapsed: float = 0.0


TurnEvent = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | AnswerRecorded
    | ModelCalled
    | ModelRetried
    | UsageReported
    | MessageQueued
    | MessageWithdrawn
    | MessageSteered
    | TurnEnded
)
