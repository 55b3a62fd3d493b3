"""The sums over all sessions as one page, in the frame of an exported session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mindstone_tui.core import numbers
from mindstone_tui.core.entries import Line
from mindstone_tui.core.interchange.export.html import (
    PAGE_TOOLS,
    escaped,
    page_end,
    page_start,
)
from mindstone_tui.core.session.profile import profile_from, whose_and_where
from mindstone_tui.core.session.stats import NamedCount, Stats, StatsRow, add_up, calendar
from mindstone_tui.core.text import one_line, plural

_WIDTH: Final = 1_000
_HEIGHT: Final = 100
_MOST_DAYS: Final = 366
_MOST_ROWS: Final = 100
_LONGEST_NAME: Final = 120


def stats_page(stats: Stats) -> str:
    """The whole page."""
    figures = _days(stats.days)
    body = (
        _table("Programs", stats.programs),
        _table("Projects", stats.projects),
        _table("Models", stats.models, messages="Answers"),
        _counts("Tools", stats.tools, "calls"),
        _counts("Files", stats.files, "calls that name it"),
        _table("Days", tuple(reversed(stats.days))),
    )
    start = page_start(
        "Looking back", escaped(headline(stats)), PAGE_TOOLS, figures, more_style="stats.css"
    )
    return start + "".join(body) + page_end()


def session_numbers(lines: Iterable[Line]) -> str:
    """One session in numbers, as a folded part of its own page; empty for an empty one."""
    profile = profile_from(lines)
    stats = add_up([("", profile)])
    if not stats.total.messages:
        return ""
    body = (
        _table("Models", stats.models, messages="Answers", fold="part"),
        _counts("Tools", stats.tools, "calls", fold="part"),
        _counts("Files", stats.files, "calls that name it", fold="part"),
        _table("Days", stats.days, fold="part"),
    )
    place = whose_and_where(profile.program, profile.folder)
    facts = " · ".join((place, *_facts(stats)))
    return (
        '<details class="numbers" id="numbers"><summary>Numbers '
        f'<span class="gist">{escaped(one_line(facts, 400))}</span></summary>\n'
        f"{''.join(body)}</details>\n"
    )


def headline(stats: Stats) -> str:
    """Everything in one line."""
    total = stats.total
    if not total.sessions:
        return "No session was found."
    sessions = plural(total.sessions, "session")
    if stats.sub_agents:
        sessions += f" ({stats.sub_agents:,} of sub-agents)"
    return " · ".join((sessions, *_facts(stats)))


def _facts(stats: Stats) -> list[str]:
    total = stats.total
    facts = [plural(total.turns, "turn")]
    if total.tokens:
        facts.append(f"{numbers.tokens(total.tokens)} tokens")
    if total.cost is not None:
        facts.append(numbers.dollars(total.cost))
    dates = stats.began if stats.began == stats.ended else f"{stats.began} – {stats.ended}"
    return [*facts, dates] if dates else facts


def _days(days: Sequence[StatsRow]) -> str:
    """A bar a day: as high as its turns, each with its numbers when pointed at."""
    found = calendar(days, _MOST_DAYS)
    shown = found.rows
    if not shown:
        return ""
    most = max(row.turns for row in shown) or 1
    width = _WIDTH / len(shown)
    bars = "".join(_bar(at * width, width, row, most) for at, row in enumerate(shown))
    words = f"Turns {found.span}, {shown[0].name} to {found.last}; at most {most:,}"
    return (
        f'<figure class="timeline"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'preserveAspectRatio="none" aria-label="{escaped(words)}">{bars}</svg>'
        f"<figcaption>{escaped(words)}</figcaption></figure>"
    )


def _bar(x: float, width: float, row: StatsRow, most: int) -> str:
    height = row.turns / most * _HEIGHT
    title = f"{row.name}: {plural(row.turns, 'turn')}, {numbers.tokens(row.tokens)} tokens"
    return (
        f'<rect class="green" x="{x:.2f}" y="{_HEIGHT - height:.1f}" '
        f'width="{max(width - 0.4, 0.6):.2f}" height="{height:.1f}">'
        f"<title>{escaped(title)}</title></rect>"
    )


def _table(
    title: str, rows: Sequence[StatsRow], messages: str = "Messages", fold: str = "turn"
) -> str:
    most = max((row.tokens or row.messages for row in rows), default=0) or 1
    heads = ("", "", "Sessions", "Turns", messages, "Tokens read", "Tokens written", "Cost")
    less = (2, 4, 6)
    lines = (
        (
            _name(row.name),
            _share((row.tokens or row.messages) / most),
            f"{row.sessions:,}",
            f"{row.turns:,}" if row.turns else "",
            f"{row.messages:,}" if row.messages else "",
            numbers.tokens(row.prompt) if row.prompt else "",
            numbers.tokens(row.completion) if row.completion else "",
            numbers.dollars(row.cost) if row.cost is not None else "",
        )
        for row in rows[:_MOST_ROWS]
    )
    return _section(title, heads, lines, len(rows), less, fold)


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
        f"<th{mark}>{escaped(each)}</th>" for mark, each in zip(marks, heads, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{mark}>{cell}</td>" for mark, cell in zip(marks, line, strict=True))
        + "</tr>\n"
        for line in lines
    )
    more = f"<p>and {count - _MOST_ROWS:,} more</p>" if count > _MOST_ROWS else ""
    return (
        f'<details class="{fold}" open><summary>{escaped(title)}</summary>'
        f'<table class="stats"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>'
        f"{more}</details>\n"
    )


def _name(name: str) -> str:
    return escaped(one_line(name, _LONGEST_NAME))


def _share(share: float) -> str:
    """A bar as long as a share of the largest."""
    length = max(min(share, 1.0) * 100, 1)
    return (
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="green" width="{length:.1f}" height="10"/></svg>'
    )
