"""Looking back: what all sessions together were, per program, project, day and model.

Everything is added up from the sessions' profiles; no transcript is read that was read before. Days
are those of the messages, in UTC; tokens and costs are counted as far as somebody wrote them down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta

import msgspec

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.paths import CHILD, Places
from mindstone_tui.core.session.filters import SessionFilter
from mindstone_tui.core.session.profile import (
    NO_NAME,
    DayProfile,
    SessionProfile,
    profiles_of,
)


class StatsRow(msgspec.Struct, kw_only=True):
    """What falls to one program, project, day or model."""

    name: str
    sessions: int = 0
    turns: int = 0
    messages: int = 0
    """What people and models said; of a model, its answers."""
    prompt: int = 0
    """Tokens that models read."""
    completion: int = 0
    cached: int = 0
    cost: float | None = None

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.prompt + self.completion

    def add(self, other: StatsRow) -> None:
        """Add another row; a session that is in both counts twice."""
        self.sessions += other.sessions
        self.turns += other.turns
        self.messages += other.messages
        self.prompt += other.prompt
        self.completion += other.completion
        self.cached += other.cached
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost

    def use(self, usage: Usage) -> None:
        """Add what one model took on one day."""
        self.prompt += usage.prompt or 0
        self.completion += usage.completion or 0
        self.cached += usage.cached or 0
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost


class NamedCount(msgspec.Struct, frozen=True):
    """How often a tool was called, or a file named in a call."""

    name: str
    count: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; rows with most tokens first, days in their order."""

    total: StatsRow
    sub_agents: int
    """How many of the sessions another one started."""
    began: str
    ended: str
    programs: tuple[StatsRow, ...]
    projects: tuple[StatsRow, ...]
    days: tuple[StatsRow, ...]
    models: tuple[StatsRow, ...]
    tools: tuple[NamedCount, ...]
    files: tuple[NamedCount, ...]


def stats_of(home: Places, wanted: SessionFilter | None = None) -> Stats:
    """The sessions that are wanted, added up; of each, only the days that are wanted."""
    wanted = wanted or SessionFilter()
    found = ((listed.main, profile) for listed, profile in profiles_of(home, wanted))
    return add_up(found, wanted.since, wanted.until)


def add_up(
    sessions: Iterable[tuple[str, SessionProfile]], since: str = "", until: str = ""
) -> Stats:
    """The sum over sessions, each with its name, between two days."""
    total = StatsRow(name="all")
    tables: dict[str, dict[str, StatsRow]] = {"program": {}, "project": {}, "day": {}, "model": {}}
    tools: Counter[str] = Counter()
    files: Counter[str] = Counter()
    sub_agents = 0
    for main, profile in sessions:
        days = profile.days_between(since, until)
        if not days:
            continue
        sub_agents += bool(profile.started_by) or CHILD in main
        rows = (
            total,
            _row(tables["program"], profile.program),
            _row(tables["project"], profile.folder),
        )
        for row in rows:
            row.sessions += 1
        answering: set[str] = set()
        for name, day in days:
            on_day = _row(tables["day"], name)
            on_day.sessions += 1
            for row in (*rows, on_day):
                _add(row, day)
            for model, usage in day.used.items():
                _row(tables["model"], model).use(usage)
            for model, answers in day.models.items():
                _row(tables["model"], model).messages += answers
            answering.update((*day.models, *day.used))
            tools.update(day.tools)
            files.update(day.files)
        for model in answering:
            _row(tables["model"], model).sessions += 1
    days_seen = sorted(name for name in tables["day"] if name != NO_NAME)
    return Stats(
        total=total,
        sub_agents=sub_agents,
        began=days_seen[0] if days_seen else "",
        ended=days_seen[-1] if days_seen else "",
        programs=_ordered(tables["program"]),
        projects=_ordered(tables["project"]),
        days=tuple(tables["day"][name] for name in sorted(tables["day"])),
        models=_ordered(tables["model"]),
        tools=_counted(tools),
        files=_counted(files),
    )


def _add(row: StatsRow, day: DayProfile) -> None:
    row.turns += day.turns
    row.messages += day.messages
    for usage in day.used.values():
        row.use(usage)


def _row(table: dict[str, StatsRow], name: str) -> StatsRow:
    name = name or NO_NAME
    return table.setdefault(name, StatsRow(name=name))


def _ordered(table: dict[str, StatsRow]) -> tuple[StatsRow, ...]:
    return tuple(
        sorted(table.values(), key=lambda row: (-row.tokens, -row.turns, -row.messages, row.name))
    )


def _counted(counts: Counter[str]) -> tuple[NamedCount, ...]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(NamedCount(name, count) for name, count in ordered)


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in equal stretches of time, one after the other."""

    rows: tuple[StatsRow, ...] = ()
    span: str = "a day"
    """How long each is."""
    last: str = ""
    """The last day of the last one."""


def calendar(days: Iterable[StatsRow], most: int) -> Calendar:
    """Every day from the first to the last, also those without a session.

    Where there are more than can be shown, weeks or several weeks are added up, the last of which
    ends with the last day; each is named after its first day.
    """
    dated = {date.fromisoformat(row.name): row for row in days if row.name != NO_NAME}
    if not dated or most < 1:
        return Calendar()
    first, last = min(dated), max(dated)
    count = (last - first).days + 1
    weeks = 0 if count <= most else -(-count // (7 * most))
    length = 7 * weeks or 1
    start = last - timedelta(days=-(-count // length) * length - 1)
    rows = [
        StatsRow(name=(start + timedelta(days=number)).isoformat())
        for number in range(0, (last - start).days + 1, length)
    ]
    for day, row in dated.items():
        rows[(day - start).days // length].add(row)
    span = "a day" if not weeks else "a week" if weeks == 1 else f"in {weeks} weeks"
    return Calendar(rows=tuple(rows), span=span, last=last.isoformat())
