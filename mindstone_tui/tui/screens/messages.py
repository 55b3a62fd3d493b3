"""What the chat asks of the app around it."""

from __future__ import annotations

from textual.message import Message

from mindstone_tui.core import events as ev
from mindstone_tui.core.context.report import ContextReport


class ScreenWanted(Message):
    """A screen, or something else only the app can do, by the name slash commands use."""

    def __init__(self, screen: str, argument: str = "") -> None:
        super().__init__()
        self.screen = screen
        self.argument = argument


class MemoryWaits(Message):
    """A proposed memory waits for a decision."""

    def __init__(self, proposal: ev.MemoryProposed) -> None:
        super().__init__()
        self.proposal = proposal


class TurnFinished(Message):
    """A turn is over, after so many seconds."""

    def __init__(self, ended: ev.TurnEnded, elapsed: float) -> None:
        super().__init__()
        self.ended = ended
        self.elapsed = elapsed


class WindowMeasured(Message):
    """There is a new report."""

    def __init__(self, report: ContextReport) -> None:
        super().__init__()
        self.report = report
