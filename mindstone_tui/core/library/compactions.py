"""Compactions of attached programs: what each one lost, certified and given back, and the trend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import CompactionCertified, HandoffWritten, RuleFired
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.handoff.certificate import certify, given_back, precious_in
from mindstone_tui.core.handoff.checkpoint import Sourced
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.library.lease import appending
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.rules.book import RuleBook
from mindstone_tui.core.transcript import History
from mindstone_tui.core.transcript.encode import Clean

BEFORE: Final = "pre_compact"
"""What a handoff is written for when a program says that it is about to compact."""
_LOOKED_BACK: Final = 20_000
_LISTED: Final = 4_000
"""Lines in which what must not be lost is looked for."""
_NEWEST: Final = 8
"""Compactions of a program whose share is shown as its trend."""


class _Announced(msgspec.Struct):
    """The newest compaction of a session, as far as it is known."""

    since: int = 0
    """The line where it was announced; 0 if there never was one."""
    ts: str = ""
    """When that was; empty once it is certified."""
    by_hand: bool = False
    precious: list[Sourced] = []
    given: list[Sourced] = []


class Compactions:
    """Certifies what programs write when they compact, and says what to give back."""

    def __init__(self, home: Places, clean: Clean, later: Callable[..., object]) -> None:
        self._home = home
        self._clean = clean
        self._later = later
        self._known: dict[SessionPlaces, _Announced] = {}

    def announce(self, own: SessionPlaces, folder: Path, *, by_hand: bool) -> None:
        """List what must not be lost, while the program still compacts."""
        known = self._known[own] = _announced_in(own)
        known.by_hand = by_hand
        known.precious = self._precious(own, folder, known.since)

    def in_window(self, own: SessionPlaces) -> list[int]:
        """The lines of a session that stand in its program's window; none if it never compacted."""
        if not (known := self._of(own)).since:
            return []
        with History(own) as history:
            return [*(one.seq for one in known.given), *range(known.since, history.head.seq + 1)]

    def lost(
        self, own: SessionPlaces, folder: Path, file: Path | None, tokens: int, *, starts: bool
    ) -> str:
        """What a compaction lost, word for word and once; the certificate is written later.

        Where the summary is not in the program's file yet, a person's next prompt can wait for it.
        A program that goes on by itself (`starts`) and not by hand, or whose file tells nothing,
        is given everything.
        """
        known, when, text = self._of(own), "", ""
        program = next((one for one in formats() if own.key.main.startswith(f"{one}-")), "")
        if file and program and known.ts and (goes_on := formats()[program].goes_on):
            with contextlib.suppress(MindstoneError, OSError):
                when, text = goes_on(file)
            waits = known.by_hand
        else:
            waits = not known.ts
        is_there = bool(known.ts) and when >= known.ts
        if not is_there and (waits or known.given or not starts):
            known.ts = known.ts if starts else ""
            return ""
        precious = known.precious or self._precious(own, folder, known.since)
        entry, lost = certify(program, precious, text if is_there else "", tokens)
        new = [one for one in lost if one not in known.given]
        known.given = [*known.given, *new]
        if is_there:
            known.ts = ""
            self._later(self._write, own, entry)
        return given_back(new, entry.recoverable, str(own.key))

    def _of(self, own: SessionPlaces) -> _Announced:
        return self._known.get(own) or self._known.setdefault(own, _announced_in(own))

    def _precious(self, own: SessionPlaces, folder: Path, until: int) -> list[Sourced]:
        rules = RuleBook(self._home).binding(folder)
        with contextlib.suppress(MindstoneError, OSError), History(own) as history:
            read = history.read(max(until - _LISTED, 0), until)
            lines = [history.whole(line) for line in read if isinstance(line, Line)]
            return precious_in(lines, {one.number: one.words for one in rules})
        return []

    def _write(self, own: SessionPlaces, entry: CompactionCertified) -> None:
        with appending(own, self._clean) as transcript:
            if transcript is not None:
                transcript.append(entry, turn=transcript.last_turn)


def _announced_in(own: SessionPlaces) -> _Announced:
    ts = ""
    with contextlib.suppress(MindstoneError, OSError), History(own) as history:
        for line in history.newest({"handoff_written", "compaction_certified"}, _LOOKED_BACK):
            if isinstance(line.entry, HandoffWritten) and line.entry.trigger == BEFORE:
                return _Announced(line.seq, "" if ts else line.ts)
            ts = ts or (line.ts if isinstance(line.entry, CompactionCertified) else "")
    return _Announced()


def lines_of(home: Places, kinds: Collection[str]) -> Iterator[tuple[SessionPlaces, list[Line]]]:
    """The sessions of a home that have lines of some kinds, with these lines, oldest first."""
    for own in home.sessions():
        with contextlib.suppress(MindstoneError, OSError), History(own) as history:
            if found := list(history.newest(kinds, history.head.seq + 1)):
                yield own, found[::-1]


def firings(home: Places) -> Iterator[tuple[SessionKey, RuleFired, int]]:
    """Every time a rule spoke in any session, and how many compactions had been there before."""
    for own, lines in lines_of(home, {"rule_fired", "handoff_written"}):
        after = 0
        for line in lines:
            match line.entry:
                case HandoffWritten(trigger=trigger):
                    after += trigger in (BEFORE, "window")
                case RuleFired():
                    yield own.key, line.entry, after


def compactions(home: Places) -> tuple[str, list[dict[str, Any]]]:
    """How much of what must not be lost each program's compactions kept, in words and as data."""
    lines = [line for _, some in lines_of(home, {"compaction_certified"}) for line in some]
    programs: dict[str, dict[str, Any]] = {}
    said = "No compaction was certified yet."
    for line in sorted(lines, key=lambda one: one.ts):
        if isinstance(one := line.entry, CompactionCertified):
            row = programs.setdefault(one.program, {"program": one.program, "trend": []})
            found = {"kept": one.kept, "lost": one.lost, "recoverable": one.recoverable}
            row |= {name: row.get(name, 0) + len(each) for name, each in found.items()}
            row["trend"].append(round(len(one.kept) / max(sum(map(len, found.values())), 1), 4))
            row["compactions"] = len(row["trend"])
            said = f"{one.program}: compaction at {line.ts[11:16]}: {one.sentence}."
    head = "program         compactions   kept   given back   left to recall   kept of the newest"
    rows = [
        f"{name:16}{row['compactions']:>11}{row['kept']:>7}{row['lost']:>13}"
        f"{row['recoverable']:>17}   " + " ".join(f"{each:.0%}" for each in row["trend"][-_NEWEST:])
        for name, row in sorted(programs.items())
    ]
    return "\n".join([*([head, *rows] if rows else []), said]), list(programs.values())
