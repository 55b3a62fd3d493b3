"""Which sessions, and which lines of them, are meant: one set of filters for every surface.

The command line has them as options; a search field has them among the words, `program:codex
project:api since:2026-11-01 port`. What is said of days, models, roles, tools and files must be
true of the same days.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.patterns import pattern_of

if TYPE_CHECKING:
    from mindstone_tui.core.library.profile import DayProfile, ListedSession, SessionProfile

ROLES: Final = ("user", "assistant", "tool")
EXAMPLE: Final = "program:codex project:api since:2026-11-01"
"""How filters are typed into a search field."""
_DAY: Final = len("2026-03-31")
_NAMED: Final = pattern_of(
    r"""(?<!\S)(program|project|since|until|model|role|tool|file):("[^"]*"?|\S*)""", re.IGNORECASE
)


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions and lines are meant; empty means all."""

    program: str = ""
    """Its name, or the first word of it: `claude` is Claude Code and Claude.ai."""
    project: str = ""
    """Part of the folder's path."""
    since: str = ""
    until: str = ""
    model: str = ""
    """Part of a model's name."""
    role: str = ""
    tool: str = ""
    """Name of a tool that was called."""
    file: str = ""
    """Part of a file's path that a call names, or of the text that a line has."""

    @property
    def needs_profile(self) -> bool:
        """Whether a session must be on this machine to tell whether it is meant."""
        return bool(self.program or self.project or self.model)

    @property
    def chooses_lines(self) -> bool:
        """Whether some lines of a session that is meant may not be."""
        return bool(self.since or self.until or self.role or self.tool or self.file)

    def whose(self) -> SessionFilter:
        """The same, without what must be asked of each line."""
        return msgspec.structs.replace(self, role="", tool="", file="")

    def takes(self, session: ListedSession, profile: SessionProfile) -> bool:
        """Whether a session is among them."""
        return (
            self._takes_program(session.program)
            and self.project.casefold() in session.folder.casefold()
            and (not self.since or session.used[:_DAY] >= self.since)
            and (not self.until or session.began[:_DAY] <= self.until)
            and self._takes_days(profile)
        )

    def takes_line(self, *, role: str, tool: str, text: str, ts: str) -> bool:
        """Whether a line of a session that is meant is; `tool` is whose result it is."""
        day = ts[:_DAY]
        return (
            (not self.role or role == self.role)
            and (not self.tool or (role == "tool" and tool.casefold() == self.tool.casefold()))
            and self.file.casefold() in text.casefold()
            and (not self.since or day >= self.since)
            and (not self.until or day <= self.until)
        )

    def _takes_program(self, program: str) -> bool:
        asked = self.program.casefold()
        return not asked or program == asked or program.startswith(f"{asked}-")

    def _takes_days(self, profile: SessionProfile) -> bool:
        """Whether the days that are meant have what is looked for, not all on the same day."""
        if not (self.model or self.role or self.tool or self.file):
            return True
        days = [day for _, day in profile.days_between(self.since, self.until)]
        return (
            _contains(self.model, (name for day in days for name in (*day.models, *day.used)))
            and (not self.role or any(day.said.get(self.role) for day in days))
            and (not self.tool or any(_called(day, self.tool) for day in days))
            and _contains(self.file, (path for day in days for path in day.files))
        )


def _contains(part: str, names: Iterable[str]) -> bool:
    return not part or any(part.casefold() in name.casefold() for name in names)


def _called(day: DayProfile, tool: str) -> bool:
    return any(name.casefold() == tool.casefold() for name in day.tools)


class TypedSearch(msgspec.Struct, frozen=True):
    """What somebody typed into a search field."""

    words: str
    wanted: SessionFilter | None
    """None where no filter was typed."""


def read_typed(text: str) -> TypedSearch:
    """Tell filters from the words between them; a filter without a value is not there yet."""
    given: dict[str, str] = {}
    for found in _NAMED.finditer(text):
        given[found[1].casefold()] = found[2].strip('"').strip()
    words = " ".join(_NAMED.sub(" ", text).split())
    wanted = SessionFilter(**given)
    return TypedSearch(words, checked(wanted) if wanted != SessionFilter() else None)


def checked(wanted: SessionFilter) -> SessionFilter:
    """The same filter; raises a `UsageError` where it can mean nothing."""
    for day in (wanted.since, wanted.until):
        _check_day(day)
    if wanted.role and wanted.role not in ROLES:
        raise UsageError(f"Unknown role {wanted.role}.", "Use user, assistant or tool.")
    return wanted


def _check_day(text: str) -> None:
    try:
        known = not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"{text} is not a date.", "Write it as 2026-03-31.")


def day_after(day: str) -> str:
    """The day on which a day is over."""
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
