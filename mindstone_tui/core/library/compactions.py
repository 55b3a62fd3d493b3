"""Compactions of attached programs: what each one lost, certified and given back, and the trend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import CompactionCertified, HandoffWritten
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.handoff.certificate import certify, given_back, precious_in
from mindstone_tui.core.handoff.checkpoint import Sourced
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.library.lease import appending
from mindstone_tui.core.paths import Places, SessionPlaces
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
        self,
        own: SessionPlaces,
        folder: Path,
        carrier: tuple[str, Path | None],
        tokens: int,
        *,
        starts: bool,
    ) -> str:
        """What a compaction lost, word for word and once; the certificate is written later.

        Where the summary is not in the program's file yet, a person's next prompt can wait for it.
        A program that goes on by itself (`starts`) and not by hand, or whose file tells nothing,
        is given everything.
        """
        known, (program, file) = self._of(own), carrier
        goes_on = formats()[program].goes_on if file and program in formats() else None
        when, text = goes_on(file) if goes_on and file and known.ts else ("", "")
        is_there = bool(known.ts) and when >= known.ts
        waits = not starts or known.given or (goes_on and known.by_hand)
        if not known.ts or (not is_there and waits):
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
        if own not in self._known:
            self._known[own] = _announced_in(own)
        return self._known[own]

    def _precious(self, own: SessionPlaces, folder: Path, until: int) -> list[Sourced]:
        with contextlib.suppress(MindstoneError, OSError), History(own) as history:
            read = history.read(max(until - _LISTED, 0), until)
            lines = [history.whole(line) for line in read if isinstance(line, Line)]
            rules = RuleBook(self._home).binding(folder)
            set_here = [Sourced(text=one.words, seq=-one.number, kind="rule") for one in rules]
            return precious_in(lines, set_here)
        return []

    def _write(self, own: SessionPlaces, entry: CompactionCertified) -> None:
        with appending(own, self._clean) as transcript:
            if transcript is not None:
                transcript.append(entry, turn=transcript.last_turn)


def _announced_in(own: SessionPlaces) -> _Announced:
    certified = False
    with contextlib.suppress(MindstoneError, OSError), History(own) as history:
        for line in history.newest({"handoff_written", "compaction_certified"}, _LOOKED_BACK):
            certified = certified or isinstance(line.entry, CompactionCertified)
            if isinstance(line.entry, HandoffWritten) and line.entry.trigger == BEFORE:
                return _Announced(line.seq, "" if certified else line.ts)
    return _Announced()


def lines_of(home: Places, kinds: Collection[str]) -> Iterator[tuple[SessionPlaces, list[Line]]]:
    """The sessions of a home that have lines of some kinds, with these lines, oldest first."""
    for own in home.sessions():
        with contextlib.suppress(MindstoneError, OSError), History(own) as history:
            if found := list(history.newest(kinds, history.head.seq + 1)):
                yield own, found[::-1]


def compactions(home: Places) -> tuple[str, list[dict[str, Any]]]:
    """How much of what must not be lost each program's compactions kept, in words and as data."""
    lines = [line for _, some in lines_of(home, {"compaction_certified"}) for line in some]
    programs: dict[str, list[CompactionCertified]] = {}
    said = "No compaction was certified yet."
    for line in sorted(lines, key=lambda one: one.ts):
        if isinstance(line.entry, CompactionCertified):
            programs.setdefault(line.entry.program, []).append(line.entry)
            said = f"{line.entry.program}: compaction at {line.ts[11:16]}: {line.entry.sentence}."
    data = []
    rows = ["program         compactions    kept   given back   left to recall   newest, kept"]
    for program, own in sorted(programs.items()):
        kept, lost, left = (
            sum(len(getattr(one, name)) for one in own) for name in ("kept", "lost", "recoverable")
        )
        trend = [round(len(one.kept) / max(one.total, 1), 4) for one in own[-_NEWEST:]]
        row = {"program": program, "compactions": len(own), "kept": kept, "lost": lost}
        data.append({**row, "recoverable": left, "trend": trend})
        newest = " ".join(f"{each:.0%}" for each in trend)
        rows.append(f"{program:16}{len(own):>11}{kept:>8}{lost:>13}{left:>17}   {newest}")
    return "\n".join([*(rows if data else []), said]), data
