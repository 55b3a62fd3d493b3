"""What continuity stands on: the part of a session's desk that it needs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Protocol

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.transcript import Transcript

LOOKED_BACK: Final = 20_000
"""Lines from the end of history in which measures, notes and open proposals are looked for."""


class Ground(Protocol):
    """What continuity stands on; a session's desk is one."""

    transcript: Transcript
    working_set: WorkingSet
    settings: Settings
    redactor: Redactor
    model: str

    def record(self, entry: Entry, turn: int) -> Line:
        """Write an entry and let the working set know."""
        ...

    def report(self) -> ContextReport:
        """The one accounting."""
        ...

    def count(self, text: str) -> int:
        """How large a text is."""
        ...


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """A moment as files and entries write it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
