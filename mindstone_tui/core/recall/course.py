"""The course of a history: how it began, what was done on a day, what changed, what is open.

Such questions name no subject to look for; what was said in order answers them. Each answer is a
line of brief quotations, every one with its line. Everything here is pure.
"""

import re
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Final

from mindstone_tui.core.language.intent import is_small_talk
from mindstone_tui.core.language.sentences import parts_of
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.recall.answer import (
    Remark,
    asks,
    brief,
    is_own,
    means,
    phrase,
    source,
    spoken,
    telling,
    who,
)
from mindstone_tui.core.recall.passages import Passage, parse_time
from mindstone_tui.core.recall.question import MONTHS

_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DATE: Final = pattern_of(
    r"\b(?P<iso>\d{4}-\d\d-\d\d)\b"
    rf"|\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?(?: of)? (?P<month>{_MONTH})[a-z]*\b"
    rf"|\b(?P<month2>{_MONTH})[a-z]*\.? (?:the )?(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b"
    r"|\bthe (?P<day3>\d{1,2})(?:st|nd|rd|th)\b"
    r"|\b(?P<weekday>mon|tues|wednes|thurs|fri|satur|sun)days?\b"
    r"|\b(?P<ago>\d{1,3}) (?P<unit>day|week|month|year)s? ago\b"
    r"|\b(?P<near>yesterday|today|this morning|last week|this week)\b",
    re.IGNORECASE,
)
_WEEKDAYS: Final = ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")
_LATELY: Final = 40
_QUOTED: Final = 6
_BRIEF: Final = 50
"""Characters of one of several quotations."""


def is_of_course(question: str) -> bool:
    """Whether a question is about the course of things, and none of its words a subject."""
    kinds = ("ends", "changed", "open", "day")
    kind = next((each for each in kinds if means(each, question)), "")
    return bool(kind) and (kind != "day" or _DATE.search(question) is not None)


def answer_of_course(question: str, history: Sequence[Passage], today: date) -> str:
    """What the messages of a history, in order, say to such a question; empty for nothing."""
    talk = [
        one
        for one in history
        if one.role in ("user", "assistant") and not one.piece and not is_own(one.text)
    ]
    if means("ends", question):
        return _end(question, talk)
    days = {one.seq: moment.date() for one in talk if (moment := parse_time(one.ts))}
    span = span_of(question, set(days.values()), today)
    if means("changed", question):
        since = [one for one in talk if span and days.get(one.seq, date.min) >= span[0]]
        quoted = _listed(since if span else talk[-_LATELY:], "changes")
        if not span:
            return quoted and f"Lately: {quoted}"
        started = _spoken_day(span[0])
        if not quoted:
            return f"I found nothing that was said to change since {started}."
        return f"Since {started}: {quoted}"
    if means("open", question):
        return _open(talk)
    if span is None:
        return ""
    then = [one for one in talk if span[0] <= days.get(one.seq, date.min) <= span[1]]
    named = " to ".join(dict.fromkeys(map(_spoken_day, span)))
    quoted = _listed(then) or _quoted(then[-_QUOTED:], _BRIEF)
    return f"{named}: {quoted}" if quoted else f"I found nothing that was said on {named}."


def days_named(text: str, today: date) -> tuple[date, date] | None:
    """The first and last of the days that a text is, and says nothing else; of the last year."""
    lately = {today - timedelta(days) for days in range(366)}
    return span_of(text, lately, today) if _DATE.fullmatch(text.strip()) else None


def span_of(question: str, days: Collection[date], today: date) -> tuple[date, date] | None:
    """The first and last day that a question names; without a year, the newest one that fits."""
    found = _DATE.search(question)
    if found is None:
        return None
    if near := (found["near"] or "").lower():
        monday = today - timedelta(today.weekday() + (7 if near == "last week" else 0))
        if near.endswith("week"):
            return monday, monday + timedelta(6)
        day = today - timedelta(near == "yesterday")
        return day, day
    if found["ago"]:
        unit = {"day": 1, "week": 7, "month": 30, "year": 365}[found["unit"].lower()]
        return (day := today - timedelta(int(found["ago"]) * unit)), day
    number = int(found["day"] or found["day2"] or found["day3"] or 0)
    named = (found["month"] or found["month2"] or "").title()
    month = next((at for at, each in enumerate(MONTHS, 1) if named and each.startswith(named)), 0)
    weekday = _WEEKDAYS.index(found["weekday"].lower()) if found["weekday"] else -1

    def fits(day: date) -> bool:
        if weekday >= 0:
            return day.weekday() == weekday
        return day.day == number and month in (0, day.month)

    try:
        if found["iso"]:
            day = date.fromisoformat(found["iso"])
        elif known := [day for day in days if fits(day)]:
            day = max(known)
        else:
            day = date(max(days, default=today).year, month, number)
    except ValueError:  # no such day
        return None
    return day, day


def _end(question: str, talk: Sequence[Passage]) -> str:
    """The first messages of a person, or the last."""
    found = means("ends", question)
    asked = [one for one in talk if one.role == "user"]
    named = [one for one in asked if not set(spoken(one.speaker)).isdisjoint(spoken(question))]
    mine = named or asked
    last = found is not None and re.search(r"\b(?:last|end)\b", found[0], re.IGNORECASE)
    picked = mine[:-3:-1] if last else mine[:2]
    return _quoted(picked, 90)


def _quoted(talk: Sequence[Passage], longest: int) -> str:
    return " · ".join(f"{who(one)}{brief(one.text, longest)} {source(one)}" for one in talk)


def _open(talk: Sequence[Passage]) -> str:
    """What was said when somebody asked that; else what was left for later, and how it ended."""
    for before, one in zip(reversed(talk[:-1]), reversed(talk[1:]), strict=True):
        asked = asks(before.text) and means("open", before.text)
        if asked and not asks(one.text) and not means("steps", one.text):
            return phrase(Remark(one, 0.0), one.text)
    ended = talk[-1] if talk and talk[-1].role == "assistant" else None
    last = f"Last: {brief(ended.text, 80)} {source(ended)}" if ended else ""
    return " · ".join(filter(None, (last, _listed(talk[-_LATELY:], "leaves"))))


def _listed(talk: Sequence[Passage], cue: str = "") -> str:
    """The messages that say most, in brief and in order; those of people first."""
    found: list[tuple[int, int, str]] = []
    for one in talk:
        if asks(one.text) or is_small_talk(one.text):
            continue
        parts = [part for part in parts_of(one.text) if not asks(part) and not means("steps", part)]
        parts = [part for part in parts if means(cue, part)] if cue else parts
        if parts:
            weight = min(len(telling(parts[0])), 6) + (3 if one.role == "user" else 0)
            text = f"{who(one)}{brief(parts[0], _BRIEF)} {source(one, dated=False)}"
            found.append((weight, one.seq, text))
    opening = found[: 0 if cue else 1]
    best = sorted(found[len(opening) :], key=lambda each: (-each[0], -each[1]))
    kept = [*opening, *sorted(best[: _QUOTED - len(opening)], key=lambda each: each[1])]
    return " · ".join(text for _, _, text in kept)


def _spoken_day(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
