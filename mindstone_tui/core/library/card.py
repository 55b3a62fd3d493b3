"""A year of agents' work on one card: for the terminal, and as a picture for a profile."""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final

import msgspec

from mindstone_tui.core import paths, text
from mindstone_tui.core.entries.derived import CompactionCertified, RecallUsed
from mindstone_tui.core.interchange.export.html import escaped
from mindstone_tui.core.library import profile as profiles
from mindstone_tui.core.library.compactions import lines_of
from mindstone_tui.core.library.stats import NamedCount, add_up

YEAR: Final = timedelta(days=365)
_NAMED: Final = 3
_SQUARE: Final = 13
_SHADES: Final = ("#e8e5dd", "#c3d9bd", "#93bd8b", "#5e9a56", "#356b2e")
_LONGEST: Final = 40


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a year came to; turns that were taken back do not count."""

    since: str
    until: str
    days: dict[str, int]
    """Turns of each day that saw any."""
    sessions: int
    turns: int
    programs: tuple[NamedCount, ...]
    projects: tuple[NamedCount, ...]
    longest: NamedCount | None
    """The session with most turns in its whole life."""
    recalls: int
    """Answers that leaned on what was brought back."""
    compactions: int
    """Those after which somebody looked what was left of what must not be lost."""

    @property
    def facts(self) -> list[str]:
        """The card in a few lines."""
        turns = f"{text.plural(self.turns, 'turn')} in {text.plural(self.sessions, 'session')}"
        told = [f"{turns} on {text.plural(len(self.days), 'day')}"]
        for name, group in (("Programs", self.programs), ("Projects", self.projects)):
            told += [f"{name}: {', '.join(f'{one.name} {one.count:,}' for one in group)}"]
        if self.longest is not None:
            title = text.one_line(self.longest.name, _LONGEST)
            told.append(f"Longest session: {title}, {text.plural(self.longest.count, 'turn')}")
        recalls = text.plural(self.recalls, "answer")
        return [
            *(one for one in told if not one.endswith(": ")),
            f"{recalls} from what was recalled; "
            f"{text.plural(self.compactions, 'compaction')} survived",
        ]


def card_of(home: paths.Places, wanted: profiles.SessionFilter, today: date) -> Card:
    """The year up to today, or as far as the filter goes."""
    until = wanted.until or today.isoformat()
    since = wanted.since or (date.fromisoformat(until) - YEAR).isoformat()
    year = msgspec.structs.replace(wanted, since=since, until=until)
    every = profiles.profiles_of(home, year)
    found = [each for each in every if each[0].agent != paths.SAMPLE_AGENT]
    stats = add_up(((listed.main, profile) for listed, profile in found), since, until)
    days = {row.name: row.turns - row.rewound for row in stats.days if row.name != profiles.NO_NAME}
    lives = [NamedCount(one.title or one.main, one.turns - one.rewound) for one, _ in found]
    recalls = compactions = 0
    for _, lines in lines_of(home, {"recall_used", "compaction_certified"}):
        for line in lines:
            if since <= line.ts[:10] <= until:
                recalls += isinstance(line.entry, RecallUsed) and bool(line.entry.used)
                compactions += isinstance(line.entry, CompactionCertified)
    return Card(
        since=since,
        until=until,
        days={day: turns for day, turns in sorted(days.items()) if turns},
        sessions=stats.total.sessions,
        turns=stats.total.turns - stats.total.rewound,
        programs=_most((row.name, row.turns - row.rewound) for row in stats.programs),
        projects=_most(
            (row.name.rstrip("/").rpartition("/")[2], row.turns - row.rewound)
            for row in stats.projects
            if row.name != profiles.NO_NAME
        ),
        longest=max(lives, key=lambda one: one.count, default=None),
        recalls=recalls,
        compactions=compactions,
    )


def _most(counts: Iterable[tuple[str, int]]) -> tuple[NamedCount, ...]:
    named = [NamedCount(name, count) for name, count in counts if name and count]
    return tuple(sorted(named, key=lambda one: -one.count)[:_NAMED])


def card_svg(card: Card) -> str:
    """The card as a picture that needs nothing beside it."""
    last = date.fromisoformat(card.until)
    monday = last - timedelta(days=last.weekday() + 7 * 52)
    most = max(card.days.values(), default=1)
    squares = []
    for number in range((last - monday).days + 1):
        day = monday + timedelta(days=number)
        turns = card.days.get(day.isoformat(), 0)
        shade = _SHADES[-(-turns * (len(_SHADES) - 1) // most)]
        x, y = 20 + number // 7 * _SQUARE, 52 + number % 7 * _SQUARE
        said = f"<title>{day}: {text.plural(turns, 'turn')}</title>"
        squares.append(
            f'<rect x="{x}" y="{y}" width="11" height="11" rx="2" fill="{shade}">{said}</rect>'
        )
    rows = [
        f'<text x="20" y="{172 + 20 * at}">{escaped(fact)}</text>'
        for at, fact in enumerate(card.facts)
    ]
    height = 172 + 20 * len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 730 {height}" role="img" '
        f'aria-label="A year with agents" font-family="system-ui,sans-serif" font-size="14" '
        f'fill="#262b33"><rect width="730" height="{height}" rx="10" fill="#faf9f6"/>'
        f'<text x="20" y="34" font-size="18" font-weight="600">A year with agents, '
        f"{card.since} to {card.until}</text>{''.join(squares)}{''.join(rows)}</svg>\n"
    )
