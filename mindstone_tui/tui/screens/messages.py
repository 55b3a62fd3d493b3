"""Messages from the chat to the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from mindstone_tui.core import events as ev


class ScreenWanted(Message):
    """A request to open a screen or run an app action, by its slash command's name."""

    def __init__(self, screen: str, argument: str = "") -> None:
        super().__init__()
        self.screen = screen
        self.argument = argument


class TurnFinished(Message):
    """A turn is over, after so many seconds."""

    def __init__(self, ended: ev.TurnEnded, elapsed: float) -> None:
        super().__init__()
        self.ended = ended
        self.elapsed = elapsed


class ApprovalWaits(Message):
    """A turn stands still until somebody answers."""
