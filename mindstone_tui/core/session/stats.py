"""Looking back: what all sessions together were, per program, project, day and model.

Everything is added up from the sessions' profiles; no transcript is read that was read before. Days
are those of the messages, in UTC; tokens and costs are counted as far as somebody wrote them down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final

import msgspec

from mindstone_tui.core.entries import Usage
from mindstone_tui.core.entries.base import added
from mindstone_tui.core.paths import CHILD, Places
from mindstone_tui.core.session.profile import (
    DayProfile,
    ListedSession,
    SessionFilter,
    SessionProfile,
    profiles_of,
)

NO_NAME: Final = "unknown"
"""Stands where a session names no project, or an answer no model."""
_DAY: Final = len("2026-03-31")


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
    return add_up(profiles_of(home, wanted), wanted.since, wanted.until)


def add_up(
    sessions: Iterable[tuple[ListedSession, SessionProfile]], since: str = "", until: str = ""
) -> Stats:
    """The sum over sessions, between two days."""
    total = StatsRow(name="all")
    tables: dict[str, dict[str, StatsRow]] = {"program": {}, "project": {}, "day": {}, "model": {}}
    tools: Counter[str] = Counter()
    files: Counter[str] = Counter()
    sub_agents = 0
    for listed, profile in sessions:
        days = _days(profile, since, until)
        if not days:
            continue
        sub_agents += bool(listed.started_by) or CHILD in listed.main
        rows = (
            total,
            _row(tables["program"], listed.program),
            _row(tables["project"], listed.folder),
        )
        for row in rows:
            row.sessions += 1
        for name, day in days:
            on_day = _row(tables["day"], name)
            on_day.sessions += 1
            for row in (*rows, on_day):
                _add(row, day)
            for model, usage in day.used.items():
                _row(tables["model"], model).use(usage)
        for model, answers in profile.models.items():
            row = _row(tables["model"], model)
            row.sessions += 1
            row.messages += answers
        tools.update(profile.tools)
        files.update(profile.files)
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


def _days(profile: SessionProfile, since: str, until: str) -> list[tuple[str, DayProfile]]:
    """The days of a session that count; what has no date counts for the day it was last used."""
    spare = profile.ended[:_DAY] or profile.began[:_DAY] or NO_NAME
    merged: dict[str, DayProfile] = {}
    for name, day in (*profile.days.items(), *profile.described.items()):
        kept = merged.setdefault(name or spare, DayProfile())
        kept.turns += day.turns
        kept.messages += day.messages
        for model, usage in day.used.items():
            kept.used = {**kept.used, model: added(kept.used.get(model, Usage()), usage)}
    return [
        (name, day)
        for name, day in merged.items()
        if (day.turns or day.messages or day.used)
        and (not since or name >= since)
        and (not until or name <= until)
    ]


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


def calendar(days: Iterable[StatsRow], most: int) -> list[StatsRow]:
    """Every day from the first to the last, also those without a session; the newest so many."""
    dated = {row.name: row for row in days if row.name != NO_NAME}
    if not dated or most < 1:
        return []
    last = date.fromisoformat(max(dated))
    first = max(date.fromisoformat(min(dated)), last - timedelta(days=most - 1))
    names = [
        (first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)
    ]
    return [dated.get(name) or StatsRow(name=name) for name in names]
