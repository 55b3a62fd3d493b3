"""Looking back: what all sessions together were, per program, project, day and model.

Everything is added up from the sessions' profiles; no transcript is read that was read before. Days
are those of the messages, where the reader is; tokens and costs are counted as far as somebody
wrote them down. What tokens cost by the list of prices, where nobody wrote down any money, is
counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import entries, numbers, paths, text
from mindstone_tui.core.entries.standings import turns_in_words
from mindstone_tui.core.interchange.export import html
from mindstone_tui.core.library import profile as profiles
from mindstone_tui.core.library.profile import SessionFilter
from mindstone_tui.core.providers.catalogue import PriceBook


class StatsRow(msgspec.Struct, kw_only=True):
    """What falls to one program, project, day or model."""

    name: str
    sessions: int = 0
    turns: int = 0
    rewound: int = 0
    """Those of the turns that were taken back."""
    messages: int = 0
    """What people and models said; of a model, its answers."""
    prompt: int = 0
    """Tokens that models read."""
    completion: int = 0
    cached: int = 0
    cost: float | None = None
    listed: float | None = None
    """Dollars for what nobody priced, by the list of prices."""
    cut_off: int = 0
    """Requests that came to no end; in none of the sums."""

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.prompt + self.completion

    def add(self, other: StatsRow) -> None:
        """Add another row; a session that is in both counts twice."""
        for name in ("sessions", "turns", "rewound", "messages", "cut_off"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.use(other, other.listed)

    def use(self, usage: entries.Usage | StatsRow, listed: float | None = None) -> None:
        """Add what one model took on one day."""
        self.prompt += usage.prompt or 0
        self.completion += usage.completion or 0
        self.cached += usage.cached or 0
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost
        if listed is not None:
            self.listed = (self.listed or 0.0) + listed


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


def stats_of(
    home: paths.Places,
    wanted: SessionFilter | None = None,
    book: PriceBook | None = None,
    only: paths.SessionKey | None = None,
) -> Stats:
    """The sessions that are wanted but the sample, or `only` one; of each, the wanted days."""
    wanted = wanted or SessionFilter()
    found = (
        (listed.main, profile)
        for listed, profile in profiles.profiles_of(home, wanted)
        if (listed.session == str(only) if only else listed.agent != paths.SAMPLE_AGENT)
    )
    return add_up(found, wanted.since, wanted.until, book)


def add_up(
    sessions: Iterable[tuple[str, profiles.SessionProfile]],
    since: str = "",
    until: str = "",
    book: PriceBook | None = None,
) -> Stats:
    """The sum over sessions, each with its name, between two days; priced by a list, if given."""
    book = book or PriceBook()
    total = StatsRow(name="all")
    tables: dict[str, dict[str, StatsRow]] = {"program": {}, "project": {}, "day": {}, "model": {}}
    tools: Counter[str] = Counter()
    files: Counter[str] = Counter()
    sub_agents = 0
    for main, profile in sessions:
        days = profile.days_between(since, until)
        began = since <= numbers.local(profile.began) <= f"{until}~"
        if not days and (profile.days_between() or not began):
            continue  # one in which nothing was said counts on the day on which it began
        sub_agents += bool(profile.started_by) or paths.CHILD in main
        rows = (total, _row(tables["project"], profile.project))
        for row in rows:
            row.sessions += 1
        for program in {profile.program, profiles.OWN}:
            done = profile.days_between(since, until, program)
            if done or (not days and program == profile.program):
                row = _row(tables["program"], program)
                row.sessions += 1
                for _, day in done:
                    _add(row, day)
                    for model, usage in day.used.items():
                        row.use(usage, book.missing(model, usage))
        answering: set[str] = set()
        for name, day in days:
            on_day = _row(tables["day"], name)
            on_day.sessions += 1
            for row in (*rows, on_day):
                _add(row, day)
            for model, usage in day.used.items():
                for row in (*rows, on_day, _row(tables["model"], model)):
                    row.use(usage, book.missing(model, usage))
            for model, answers in day.models.items():
                _row(tables["model"], model).messages += answers
            answering.update((*day.models, *day.used))
            tools.update(day.tools)
            files.update(day.files)
        for model in answering:
            _row(tables["model"], model).sessions += 1
    days_seen = sorted(name for name in tables["day"] if name != profiles.NO_NAME)
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


def _add(row: StatsRow, day: profiles.DayProfile) -> None:
    row.turns += day.turns
    row.rewound += len(day.rewound)
    row.messages += day.messages
    row.cut_off += day.cut_off


def _row(table: dict[str, StatsRow], name: str) -> StatsRow:
    name = name or profiles.NO_NAME
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
    dated = {date.fromisoformat(row.name): row for row in days if row.name != profiles.NO_NAME}
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


_WIDTH: Final = 1_000
_HEIGHT: Final = 100
_MOST_DAYS: Final = 366
_MOST_ROWS: Final = 100
_LONGEST_NAME: Final = 120


def stats_page(stats: Stats) -> str:
    """The whole page."""
    body = (
        _table("Programs", stats.programs),
        _table("Projects", stats.projects),
        _table("Models", stats.models, messages="Answers"),
        _counts("Tools", stats.tools, "calls"),
        _counts("Files", stats.files, "calls that name it"),
        _table("Days", tuple(reversed(stats.days))),
    )
    start = html.page_start(
        "Looking back", html.escaped(headline(stats)), _days(stats.days), more_style="stats.css"
    )
    return start + "".join(body) + html.page_end()


def session_numbers(lines: Iterable[entries.Line]) -> str:
    """One session in numbers, as a folded part of its own page; empty for an empty one."""
    profile = profiles.profile_from(lines)
    stats = add_up([("", profile)])
    if not stats.total.messages:
        return ""
    body = (
        _table("Models", stats.models, messages="Answers", fold="part"),
        _counts("Tools", stats.tools, "calls", fold="part"),
        _counts("Files", stats.files, "calls that name it", fold="part"),
        _table("Days", stats.days, fold="part"),
    )
    whose = filter(None, (profile.program, Path(profile.folder).name))
    facts = " · ".join((*whose, *_facts(stats)))
    return (
        '<details class="numbers" id="numbers"><summary>Numbers '
        f'<span class="gist">{html.escaped(text.one_line(facts, 400))}</span></summary>\n'
        f"{''.join(body)}</details>\n"
    )


def headline(stats: Stats) -> str:
    """Everything in one line."""
    total = stats.total
    if not total.sessions:
        return "No session was found."
    sessions = text.plural(total.sessions, "session")
    if stats.sub_agents:
        sessions += f" ({stats.sub_agents:,} of sub-agents)"
    return " · ".join((sessions, *_facts(stats)))


def _facts(stats: Stats) -> list[str]:
    total = stats.total
    facts = [turns_in_words(total.turns, total.rewound)]
    if total.tokens:
        facts.append(f"{numbers.tokens(total.tokens)} tokens")
    if money := numbers.spent(total.cost, total.listed):
        facts.append(money)
    if total.cut_off:
        facts.append(f"{text.plural(total.cut_off, 'request')} cut off at unknown cost")
    dates = stats.began if stats.began == stats.ended else f"{stats.began} – {stats.ended}"
    return [*facts, dates] if dates else facts


def _days(days: Sequence[StatsRow]) -> str:
    """A bar a day: as high as its turns, each with its numbers when pointed at."""
    found = calendar(days, _MOST_DAYS)
    if not (shown := found.rows):
        return ""
    most = max(row.turns for row in shown) or 1
    width = _WIDTH / len(shown)
    bars = "".join(_bar(at * width, width, row, most) for at, row in enumerate(shown))
    words = f"Turns {found.span}, {shown[0].name} to {found.last}; at most {most:,}"
    return (
        f'<figure class="timeline"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'preserveAspectRatio="none" aria-label="{html.escaped(words)}">{bars}</svg>'
        f"<figcaption>{html.escaped(words)}</figcaption></figure>"
    )


def _bar(x: float, width: float, row: StatsRow, most: int) -> str:
    height = row.turns / most * _HEIGHT
    title = f"{row.name}: {text.plural(row.turns, 'turn')}, {numbers.tokens(row.tokens)} tokens"
    return (
        f'<rect class="green" x="{x:.2f}" y="{_HEIGHT - height:.1f}" '
        f'width="{max(width - 0.4, 0.6):.2f}" height="{height:.1f}">'
        f"<title>{html.escaped(title)}</title></rect>"
    )


def _table(
    title: str, rows: Sequence[StatsRow], messages: str = "Messages", fold: str = "turn"
) -> str:
    most = max((row.tokens or row.messages for row in rows), default=0) or 1
    heads = ("", "", "Sessions", "Turns", messages, "Tokens read", "Tokens written", "Cost")
    lines = (
        (
            _name(row.name),
            _share((row.tokens or row.messages) / most),
            f"{row.sessions:,}",
            f"{row.turns:,}" if row.turns else "",
            f"{row.messages:,}" if row.messages else "",
            numbers.tokens(row.prompt) if row.prompt else "",
            numbers.tokens(row.completion) if row.completion else "",
            numbers.spent(row.cost, row.listed),
        )
        for row in rows[:_MOST_ROWS]
    )
    return _section(title, heads, lines, len(rows), (2, 4, 6), fold)


def _counts(title: str, counts: Sequence[NamedCount], what: str, fold: str = "turn") -> str:
    most = counts[0].count if counts else 1
    lines = (
        (_name(each.name), _share(each.count / most), f"{each.count:,}")
        for each in counts[:_MOST_ROWS]
    )
    return _section(title, ("", "", what.capitalize()), lines, len(counts), fold=fold)


def _section(
    title: str,
    heads: Sequence[str],
    lines: Iterable[Sequence[str]],
    count: int,
    less: Sequence[int] = (),
    fold: str = "turn",
) -> str:
    """A table that can be folded; the columns in `less` are left out where there is no room.

    `fold` is the class of what is folded: as a turn, the page's search looks into it.
    """
    if not count:
        return ""
    marks = [' class="less"' if at in less else "" for at in range(len(heads))]
    head = "".join(
        f"<th{mark}>{html.escaped(each)}</th>" for mark, each in zip(marks, heads, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{mark}>{cell}</td>" for mark, cell in zip(marks, line, strict=True))
        + "</tr>\n"
        for line in lines
    )
    more = f"<p>and {count - _MOST_ROWS:,} more</p>" if count > _MOST_ROWS else ""
    return (
        f'<details class="{fold}" open><summary>{html.escaped(title)}</summary>'
        f'<table class="stats"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>'
        f"{more}</details>\n"
    )


def _name(name: str) -> str:
    return html.escaped(text.one_line(name, _LONGEST_NAME))


def _share(share: float) -> str:
    """A bar as long as a share of the largest."""
    length = max(min(share, 1.0) * 100, 1)
    return (
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="green" width="{length:.1f}" height="10"/></svg>'
    )
