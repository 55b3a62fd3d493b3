"""`mindstone stats`: what all sessions together were; `cost`: what one took, turn by turn."""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import typer

from mindstone_tui.cli import options
from mindstone_tui.cli.options import given, switch
from mindstone_tui.cli.output import (
    STEPS,
    Progress,
    hint,
    say,
    say_exactly,
    say_json,
    styled,
    table,
)
from mindstone_tui.core import disk, errors, numbers, paths, text, transcript
from mindstone_tui.core.library import stats as all_stats
from mindstone_tui.core.library.cost import TurnCost, cost_of, list_name
from mindstone_tui.core.library.profile import NO_NAME, SessionFilter

_ROWS: Final = 10
_BAR: Final = 20
_NUMBERS: Final = 36
"""Columns that the numbers of a table take."""
_SHORTEST_NAME: Final = 16
_SHADES: Final = "·░▒▓█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def stats(
    context: typer.Context,
    session: str = options.SESSION,
    program: str = options.PROGRAM,
    project: str = options.PROJECT,
    since: str = options.SINCE,
    until: str = options.UNTIL,
    model: str = options.MODEL_FILTER,
    tool: str = options.TOOL_FILTER,
    file: str = options.FILE_FILTER,
    rows: int = given(_ROWS, "N", "Rows per table; 0 for all.", "--rows", "-n", min=0),
    output: Path | None = given(None, "FILE", "Write an HTML page instead.", "--output", "-o"),
    card: bool = switch("--card", "The last year on one card; with -o as an SVG picture."),
    json: bool = options.JSON,
) -> None:
    """Show totals over all sessions.

    Per program, project, day and model. Imported sessions count with the other program's own
    dates, tokens and costs, as far as it wrote them down; `~` marks money by the list of prices.
    """
    options.fetch_news()
    wanted = options.session_filter(context)
    if card:
        _show_card(wanted or SessionFilter(), output, json=json)
        return
    only = options.session_key(session) if session else None
    found = all_stats.stats_of(options.places(), wanted, options.price_book(), only)
    if output is not None:
        disk.replace_file(output.absolute(), all_stats.stats_page(found).encode())
        hint(f"Written to {output}.")
    if json:
        say_json(found)
    if json or output is not None:
        return
    say(all_stats.headline(found), "bold")
    if found.total.sessions:
        _print_tables(found, rows)


def _show_card(wanted: SessionFilter, output: Path | None, *, json: bool) -> None:
    from mindstone_tui.core.library.card import card_of, card_svg  # 20 ms, and only for this

    found = card_of(options.places(), wanted, date.today())
    if output is not None:
        disk.replace_file(output.absolute(), card_svg(found).encode())
        hint(f"Written to {output}.")
    elif json:
        say_json(found)
    else:
        say(f"A year with agents, {found.since} to {found.until}", "bold")
        _print_calendar([all_stats.StatsRow(name=day, turns=n) for day, n in found.days.items()])
        for fact in found.facts:
            say(fact)


def cost(
    context: typer.Context,
    session: str = typer.Argument(
        "", metavar="[SESSION]", help="Else the last here; see `sessions`."
    ),
    named: str = options.SESSION,
    since: str = given("", "DATE", "Only turns of this day and later."),
    changes: list[str] | None = given(
        None, "KEY=VALUE,…", "What our window would have cost.", "--what-if"
    ),
    json: bool = options.JSON,
) -> None:
    """Show what a session cost, turn by turn, and why.

    One row a turn, by the tokens that were recorded; `~` marks money by the list of prices, `$?`
    what nobody knows. WHY names causes where the record proves them, with the part of the money
    that each explains: a cache that expired or was broken, a large result that was carried along,
    a retry, recall, thinking, a sub-agent, a compaction.

    --what-if mode=cascade,window=60000 folds the same history through our own window with these
    settings, and prints a range, with what it takes for granted.
    """
    options.session_filter(context)  # says so if the day is none
    where = options.places().session(options.session_to_read(session or named))
    if changes:
        if since:
            raise errors.UsageError("--what-if takes a whole session; leave --since out.")
        _cost_if(where, [each for word in changes for each in word.split(",")], json=json)
        return
    found = cost_of(where, options.price_book(), since)
    if not found.total.usage.prompt and found.total.usage.cost is None:
        raise errors.UsageError(f"Nothing is recorded of what {found.session} took.")
    if json:
        say_json(found)
        return
    rows = [(str(row.turn or numbers.local(row.ts)[:10]), *_cells(row)) for row in found.turns]
    heads = ("TURN", "REQUESTS", "PROMPT", "CACHED", "ANSWERS", "COST", "WHY")
    table(heads, [*rows, ("all", *_cells(found.total))], right=range(6), styles={6: "dim"})
    if found.days_only:
        hint("The file of the other program is gone: only days are known, no turns and causes.")
    if found.cut_off:
        were = text.plural(found.cut_off, "request was", "requests were")
        hint(f"{were} cut off; what that cost is unknown, and in none of the sums.")
    if found.total.listed:
        hint(f"~ is by the list of prices of {list_name()}; models.prices sets your own.")


def _cost_if(where: paths.SessionPlaces, words: list[str], *, json: bool) -> None:
    """Say what other settings would have cost, and what that takes for granted."""
    from mindstone_tui.cli import replay  # 0.2 s, and only this question needs it
    from mindstone_tui.core.replay.what_if import cost_if, parse_changes

    changed = parse_changes(words)
    now, then = replay.settings_for(sample=False), replay.settings_for(sample=False, flags=changed)
    with transcript.History(where) as history, Progress("lines", 0, quiet=json) as bar:
        how, book = replay.rehearsal_options(now, bar, vectors=False), options.price_book()
        found = asyncio.run(cost_if(history, now, then, changed, options=how, book=book))
    if json:
        say_json(found)
        return
    say(f"{found.session}: what if {', '.join(words)}?", "bold")
    rows = [("recorded", numbers.tokens(found.prompt), f"~{numbers.dollars(found.recorded)}")]
    for one in found.outcomes:
        money = f"{numbers.dollars(one.low)} to {numbers.dollars(one.high)}"
        rows.append((one.name, numbers.tokens(one.prompt), money))
    table(("", "PROMPTS", "COST"), rows, right=(1, 2))
    for each in (*found.assumed, f"the prices of {list_name()}, or your own"):
        hint(f"Assumed: {each}.")


def _cells(row: TurnCost) -> tuple[str, ...]:
    """A turn's numbers and causes for a table."""
    usage, about = row.usage, "~" if row.listed else ""
    money = numbers.dollars(usage.cost, unknown=row.unknown)
    why = [f"{it.why} ({numbers.dollars(it.cost)})" if it.cost else it.why for it in row.causes]
    return (
        *(str(row.requests or ""), numbers.tokens(usage.prompt or 0)),
        numbers.percent((usage.cached or 0) / usage.prompt) if usage.prompt else "",
        *(numbers.tokens(usage.completion or 0), f"{about}{money}", "; ".join(why)),
    )


def _print_tables(found: all_stats.Stats, rows: int) -> None:
    _print_days(found.days)
    heads = ("SESSIONS", "TURNS", "TOKENS", "COST")
    used = {"program": found.programs, "project": found.projects, "model": found.models}
    tables = {
        name: (heads, [(each.name, each.tokens or each.messages, _figures(each)) for each in every])
        for name, every in used.items()
    } | {
        name: (("CALLS",), [(each.name, each.count, (f"{each.count:,}",)) for each in every])
        for name, every in {"tool": found.tools, "file": found.files}.items()
    }
    hidden: list[str] = []
    for name, (columns, every) in tables.items():
        _print_bars(name.upper(), columns, every[: rows or None])
        if rows and len(every) > rows:
            hidden.append(text.plural(len(every) - rows, f"more {name}"))
    if hidden:
        hint(f"{', '.join(hidden)}: -n 0 shows all, -o FILE makes a page.")


def _figures(row: all_stats.StatsRow) -> tuple[str, ...]:
    """A row's numbers for a table."""
    turns, size = (f"{row.turns:,}" if row.turns else ""), numbers.tokens(row.tokens)
    spent = numbers.spent(row.cost, row.listed)
    return f"{row.sessions:,}", turns, size if row.tokens else "", spent


def _print_days(days: Sequence[all_stats.StatsRow]) -> None:
    """A column a day, or a few weeks, as high as its turns; the newest at the right."""
    if sys.stdout.isatty():
        _print_calendar(days)
        return
    found = all_stats.calendar(days, max(shutil.get_terminal_size().columns - 2, 20))
    if not (shown := found.rows):
        return
    most = max(row.turns for row in shown) or 1
    last = len(STEPS) - 1
    line = "".join(STEPS[-(-row.turns * last // most)] if row.turns else " " for row in shown)
    say()
    say(line, "green")
    say(f"turns {found.span}, {shown[0].name} to {found.last}, at most {most:,}", "dim")


def _print_calendar(days: Sequence[all_stats.StatsRow]) -> None:
    """A square a day, a column a week, darker the more turns it saw; the newest at the right."""
    turns = {date.fromisoformat(row.name): row.turns for row in days if row.name != NO_NAME}
    if not turns:
        return
    last, most = max(turns), max(turns.values()) or 1
    weeks = min((last - min(turns)).days // 7 + 2, (shutil.get_terminal_size().columns - 5) // 2)
    monday = last - timedelta(days=last.weekday() + 7 * (weeks - 1))
    starts = [monday + timedelta(days=7 * week) for week in range(weeks)]
    months = "".join(
        f"{day:%b} " if day.day <= 7 and at < weeks - 1 else "  "
        for at, day in enumerate(starts)
        if not (at and starts[at - 1].day <= 7)  # a month's name takes two columns
    )
    say(f"\n     {months}", "dim")
    for weekday, name in enumerate(("Mon", "", "Wed", "", "Fri", "", "Sun")):
        say_exactly(styled(f"{name:<5}", "dim"))
        row = [turns.get(day + timedelta(days=weekday), 0) for day in starts]
        shades = (_SHADES[-(-count * (len(_SHADES) - 1) // most)] for count in row)
        say(" ".join(shades).rstrip(), "green")
    say(f"     {_SHADES[0]} no turn … {_SHADES[-1]} {text.plural(most, 'turn')} a day", "dim")


def _print_bars(
    title: str, heads: Sequence[str], rows: Sequence[tuple[str, int, tuple[str, ...]]]
) -> None:
    """A table with a bar beside each name, as long as the number that follows it."""
    if not rows:
        return
    most = max(weight for _, weight, _ in rows) or 1
    say()
    table(
        (title, "", *heads),
        [(_clipped(name), _bar(weight / most), *cells) for name, weight, cells in rows],
        right=range(2, 2 + len(heads)),
        gives_way=(0, 1),
        styles={1: "green"},
    )


def _clipped(name: str) -> str:
    """A name as it fits beside the numbers; of a path, its end."""
    room = max(shutil.get_terminal_size().columns - _BAR - _NUMBERS, _SHORTEST_NAME)
    shown = text.one_line(name, 4 * room)
    if len(shown) <= room:
        return shown
    return f"…{shown[-room + 1 :]}" if "/" in shown else f"{shown[: room - 1]}…"


def _bar(share: float) -> str:
    """A bar as long as a share of the largest, in eighths of a sign."""
    whole, rest = divmod(max(round(min(share, 1.0) * _BAR * 8), 1), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)
