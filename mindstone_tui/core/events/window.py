"""The window: what came back, what left, and how full it is."""

from __future__ import annotations

from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.entries.base import ShareLevel, Zone
from mindstone_tui.core.entries.memory import RecalledPassage
from mindstone_tui.core.entries.pressure import AlertLevel
from mindstone_tui.core.entries.window import Left, Trimmed
from mindstone_tui.core.events.base import Event


class RecallInjected(Event):
    """Passages came back for this turn."""

    turn: int
    entry: str
    query: str
    passages: tuple[RecalledPassage, ...]
    tokens: int


class WindowPruned(Event):
    """Whole exchanges left the window."""

    turn: int
    entry: str
    left: tuple[Left, ...]
    tokens_before: int
    tokens_after: int
    policy: str
    trigger: str


class PruneBlocked(Event):
    """The window is over its mark and not enough may leave."""

    turn: int
    entry: str
    why: str
    detail: str


class ResultsTrimmed(Event):
    """Older tool results became placeholders."""

    turn: int
    entry: str
    results: tuple[Trimmed, ...]
    tokens_before: int
    tokens_after: int


class WindowChanged(Event):
    """A pin, unpin, restore, rewind, repair or another change a person or the program made."""

    turn: int
    entry: str
    kind: str
    detail: str


class SummaryDerived(Event):
    """A labelled summary stands in for originals in the prompt."""

    turn: int
    entry: str
    strategy: str
    tokens_before: int
    tokens_after: int
    model: str
    fallback: bool


class ZoneChanged(Event):
    """The window crossed an edge between two zones."""

    turn: int
    before: Zone
    after: Zone
    utilization: float


class ShareCrossed(Event):
    """A share of the window crossed its soft or its hard mark, upwards or back."""

    turn: int
    component: str
    before: ShareLevel
    after: ShareLevel
    tokens: int
    limit: int


class VelocitySpiked(Event):
    """The prompt grew far faster than it usually does."""

    turn: int
    tokens: int
    baseline: float


class AlertRaised(Event):
    """Something planning could not solve by itself."""

    turn: int
    level: AlertLevel
    metric: str
    message: str
    remedy: str = ""


class ContextReported(Event):
    """The one accounting, after anything that changed it."""

    report: ContextReport


WindowEvent = (
    RecallInjected
    | WindowPruned
    | PruneBlocked
    | ResultsTrimmed
    | WindowChanged
    | SummaryDerived
    | ZoneChanged
    | ShareCrossed
    | VelocitySpiked
    | AlertRaised
    | ContextReported
)
