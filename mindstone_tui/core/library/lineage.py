"""What a fork came from: the sessions before it, each up to the place where it was left.

A fork copies a window. What had left that window is not in the fork's own transcript, and must
still be found from there.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from mindstone_tui.core import errors, paths
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ForkPoint, SessionOpened
from mindstone_tui.core.entries.derived import Replacement, StatementSuperseded
from mindstone_tui.core.entries.marks import Standing
from mindstone_tui.core.entries.standings import CHANGES, Standings
from mindstone_tui.core.entries.window import Forked
from mindstone_tui.core.library.profile import Origins
from mindstone_tui.core.recall import ranking
from mindstone_tui.core.recall.catch_up import catch_up, reading
from mindstone_tui.core.recall.index import Inquiry, RecallIndex, SearchResult, best_of
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.reader import copies_in, rewinds_of, standings_of
from mindstone_tui.core.values import picked, shared

H = TypeVar("H", bound=Replacement)

_DEEPEST: Final = 16
"""Forks of forks that are followed back."""


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """A session that this one was forked from."""

    places: paths.SessionPlaces
    until: float
    """When it was left; what was said there later is no part of this one's past."""
    at: int
    """The line at which it was left: what was rewound there later is still this one's past."""
    copied: frozenset[int]
    """Lines of it that were taken along."""


def ancestors(
    home: paths.Places, places: paths.SessionPlaces, excluded: Collection[str] = ()
) -> list[Ancestor]:
    """The sessions this one comes from, the nearest first; one that is gone ends the list."""
    found: list[Ancestor] = []
    until = float("inf")
    child = places
    try:
        while len(found) < _DEEPEST:
            point, copies = _origin(child)
            if point is None:
                break
            parent = _places(home, point.session)
            if str(parent.key) in excluded or not parent.transcript.exists():
                break
            with History(parent) as history:
                left = history.line(point.seq)
                if left.hash != point.hash:  # another history of that name
                    break
                until = min(until, datetime.fromisoformat(left.ts).timestamp())
                copied = frozenset(_seqs(history, copies))
            found.append(Ancestor(places=parent, until=until, at=point.seq, copied=copied))
            child = parent
    except errors.MindstoneError:
        return found
    return found


def _origin(places: paths.SessionPlaces) -> tuple[ForkPoint | None, list[str]]:
    """Where a session was forked, and the ids of the lines that it began with."""
    with History(places) as history:
        opened = history.header.entry
        point = opened.forked_from if isinstance(opened, SessionOpened) else None
        return point, [line.parent for line in copies_in(history) if line.parent]


def standing_in(home: paths.Places, session: str, seq: int, turn: int, by: int) -> list[str]:
    """The forks in which a line of a turn still stands, as they were made before another line
    took it back."""
    found = []
    with suppress(errors.MindstoneError), History(_places(home, session)) as history:
        for line in history.newest(("forked",), history.head.seq):
            if isinstance(entry := line.entry, Forked) and line.seq < by and seq <= entry.at:
                with suppress(errors.MindstoneError), History(_places(home, entry.child)) as fork:
                    found += [entry.child] if rewinds_of(fork).of_turn(turn) is None else []
    return found[::-1]


def with_forks(home: paths.Places, line: Line, stands: Sequence[Standing]) -> Iterator[Standing]:
    """The same, with the forks in which a line that was rewound still stands."""
    for one in stands:
        if one.what == "rewound" and one.by is not None:
            forks = standing_in(home, line.session, line.seq, line.turn, one.by)
            one = msgspec.structs.replace(one, part=tuple(forks))
        yield one


def as_they_stand(home: paths.Places, hits: Sequence[H]) -> list[H]:
    """The same, with what the library does not keep of them: where imported words come from, what
    ended the task that they began, and that nothing is replaced by what was taken back there."""
    origin = Origins(home)

    @cache
    def known(session: str) -> Standings:
        with suppress(errors.MindstoneError, OSError), History(_places(home, session)) as history:
            return standings_of(history)
        return Standings()

    found = []
    for hit in hits:
        place: Any = getattr(hit, "passage", hit)
        if place.kind in ("task_started", "task_done") and not getattr(hit, "inherited", False):
            over = known(place.session).stored(place.seq, place.turn, place.kind)
            hit = msgspec.structs.replace(
                hit, superseded_by=over.superseded_by, done_by=over.done_by
            )
        if hit.imported is not None:
            hit = msgspec.structs.replace(hit, imported=origin(place.session, place.seq))
            gone = known(place.session).rewinds.there if hit.superseded_by or hit.corrected else ()
            by = None if hit.superseded_by in gone else hit.superseded_by
            corrected = {seq: part for seq, part in hit.corrected.items() if seq not in gone}
            hit = msgspec.structs.replace(hit, superseded_by=by, corrected=corrected)
        found.append(hit)
    return found


def told_whole(home: paths.Places, answers: Sequence[SearchResult]) -> list[SearchResult]:
    """The same answers, each hit as it stands."""
    return [
        msgspec.structs.replace(each, hits=tuple(as_they_stand(home, each.hits)))
        for each in answers
    ]


def _places(home: paths.Places, session: str) -> paths.SessionPlaces:
    return home.session(paths.SessionKey.parse(session))


def _seqs(history: History, ids: Sequence[str]) -> list[int]:
    found: list[int] = []
    for each in ids:
        try:
            found.append(history.find(each).seq)
        except errors.NoSuchEntry:  # a copy of a copy
            continue
    return found


def ask_ancestors(
    lineage: Sequence[Ancestor], inquiry: Inquiry, own: SearchResult
) -> SearchResult | None:
    """What this session's past elsewhere says; None when it has none. Blocks.

    What was found in this session itself may correct it.
    """
    answers: list[SearchResult] = []
    allowed = inquiry.allowed
    for each in lineage:
        opened = closing(RecallIndex.of(each.places, inquiry.asked.embedder))
        with opened as index, History(each.places) as history:
            catch_up(index, reading(history))
            before = each.until if allowed.until is None else min(allowed.until, each.until)
            past = msgspec.structs.replace(
                allowed, until=before, exclude=each.copied, as_of=each.at
            )
            told = msgspec.structs.replace(inquiry, allowed=past).of(index)
            answers.append(_as_it_was(told, history, each.at) if told.hits else told)
    if not answers:
        return None
    found = best_of(*answers, k=inquiry.k)
    marked = ranking.mark_corrected(found.hits, [hit.passage for hit in own.hits])
    return msgspec.structs.replace(found, hits=tuple(marked))


def _as_it_was(found: SearchResult, history: History, at: int) -> SearchResult:
    """The same as it stood when the session was left: later verdicts and restores are not ours."""

    def ours(line: Line) -> bool:
        """A verdict goes with the correction that it follows from, whenever it was written."""
        verdict = line.entry if isinstance(line.entry, StatementSuperseded) else None
        return (verdict.by if verdict else line.seq) <= at

    changes = filter(ours, history.newest(CHANGES, history.head.seq + 1))
    standings = Standings(reversed([*changes]))
    hits = []
    for hit in found.hits:
        if standings.took_back(hit.passage.turn):
            continue
        place = hit.passage
        stands = standings.stored(place.seq, place.turn, place.kind)
        judged = hit.superseded_by if (hit.superseded_by or at + 1) <= at else None
        by = max(filter(None, (judged, stands.superseded_by)), default=None)
        known = shared(Replacement, stands) | picked(hit, "supersedes superseded_here imported")
        known |= {"superseded_by": by, "corrected": {}}
        hits.append(msgspec.structs.replace(hit, **known, inherited=True))
    return msgspec.structs.replace(found, hits=tuple(hits))
