"""A session at a glance: where turns, requests, prunes and tools stand, and how full it was.

Read once, from the transcript alone; what is kept is a few numbers a mark.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

from mindstone_tui.core import patterns, transcript
from mindstone_tui.core.context.exchanges import names_in
from mindstone_tui.core.context.policies import text_of
from mindstone_tui.core.entries import Line, Part, Zone, conversation, derived, window

Kind = Literal["turn", "call", "tool", "prune", "trim", "recall", "summary", "checkpoint"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SHAPING: Final = frozenset({"prune", "trim", "summary"})
"""Marks that change the window of the request after them."""


class Landmark(msgspec.Struct, frozen=True, kw_only=True):
    """A place worth going to."""

    seq: int
    turn: int
    kind: Kind
    utilization: float = 0.0
    zone: Zone = "green"


class Survey(msgspec.Struct, frozen=True):
    """All marks of a session, in order."""

    marks: tuple[Landmark, ...]
    last: int
    turns: int
    model: str

    @property
    def calls(self) -> tuple[Landmark, ...]:
        """The requests."""
        return tuple(mark for mark in self.marks if mark.kind == "call")

    def after(self, seq: int, kind: Kind) -> Landmark | None:
        """The next mark of a kind behind a line."""
        at = bisect_right(self.marks, seq, key=lambda mark: mark.seq)
        return next((mark for mark in self.marks[at:] if mark.kind == kind), None)

    def before(self, seq: int, kind: Kind) -> Landmark | None:
        """The newest mark of a kind in front of a line."""
        at = bisect_left(self.marks, seq, key=lambda mark: mark.seq)
        return next((mark for mark in reversed(self.marks[:at]) if mark.kind == kind), None)

    def shown_at(self, seq: int) -> Landmark | None:
        """The request whose window stands in front of a line.

        Where the window was changed for a request, that one: what left is seen with what stayed.
        """
        newest = self.before(seq, "call")
        since = newest.seq if newest else -1
        first, end = (bisect_left(self.marks, at, key=lambda mark: mark.seq) for at in (since, seq))
        changed = [mark for mark in self.marks[first:end] if mark.kind in _SHAPING]
        shaped = self.after(seq - 1, "call") if changed else None
        return shaped if shaped and shaped.turn == changed[-1].turn else newest

    def turn(self, number: int) -> Landmark | None:
        """Where a turn begins, or the next one that exists."""
        at = bisect_left(self.marks, number, key=lambda mark: mark.turn)
        return next((mark for mark in self.marks[at:] if mark.kind == "turn"), None)


def survey(history: transcript.History) -> Survey:
    """Go through a session once."""
    marks: list[Landmark] = []
    last = turns = begun = 0
    model = ""
    for item in history.read():
        if not isinstance(item, Line):
            continue
        last, turns = item.seq, max(turns, item.turn)
        if (kind := _kind_of(item)) is None or (kind == "turn" and item.turn == begun):
            continue
        utilization, zone = 0.0, marks[-1].zone if marks else "green"
        if isinstance(item.entry, window.PromptPlanned):
            model = item.entry.model or model
            utilization = item.entry.measure.utilization if item.entry.measure else 0.0
            zone = item.entry.carried.zone if item.entry.carried else zone
        elif kind == "turn":
            begun = item.turn
        marks.append(
            Landmark(seq=item.seq, turn=item.turn, kind=kind, utilization=utilization, zone=zone)
        )
    return Survey(tuple(marks), last, turns, model)


_MARKING: Final[dict[type[object], Kind]] = {
    conversation.UserMessage: "turn",
    conversation.ToolCalled: "tool",
    window.PromptPlanned: "call",
    window.ContextWindowPruned: "prune",
    window.ToolResultsTrimmed: "trim",
    derived.RecallInjected: "recall",
    derived.SummaryDerived: "summary",
    derived.CheckpointSaved: "checkpoint",
    derived.HandoffWritten: "checkpoint",
}


def _kind_of(line: Line) -> Kind | None:
    aside = isinstance(line.entry, window.PromptPlanned) and line.entry.purpose
    return None if aside else _MARKING.get(type(line.entry))


ReferenceKind = Literal["name", "citation", "recalled"]
Place = Literal["window", "recalled", "on request", "nowhere"]
"""Where the source of a reference would have been found."""

_CITED: Final = patterns.pattern_of(r"#(\d{1,9})\b")
_MOST_NAMES: Final = 12
"""Names of one message that are followed."""


class Reference(Part):
    """Something said in one turn that leans on another."""

    kind: ReferenceKind
    turn: int
    source: int
    """The turn it leans on."""
    words: str
    """The name, or what was asked."""


def references_in(lines: Iterable[Line]) -> dict[int, tuple[Reference, ...]]:
    """Every reference, by the turn that makes it."""
    owners: dict[str, int] = {}
    turns: dict[int, int] = {}
    entries: dict[str, int] = {}
    asked = ""
    found: dict[int, dict[tuple[str, int], Reference]] = {}

    def refer(kind: ReferenceKind, turn: int, source: int, words: str) -> None:
        if source and source < turn:
            one = Reference(kind=kind, turn=turn, source=source, words=words)
            found.setdefault(turn, {}).setdefault((words, source), one)

    for line in lines:
        match line.entry:
            case conversation.UserMessage(text=text):
                asked = text
            case conversation.AssistantMessage(text=text):
                for cited in _CITED.findall(text):
                    refer("citation", line.turn, turns.get(int(cited), 0), asked)
            case derived.RecallUsed(used=used):
                for entry in used:
                    refer("recalled", line.turn, entries.get(entry, 0), asked)
        if isinstance(
            line.entry,
            conversation.UserMessage
            | conversation.AssistantMessage
            | conversation.AssistantPartial
            | conversation.ToolReturned,
        ):
            said = text_of(line)
            for name in sorted(names_in(said))[:_MOST_NAMES] if line.role != "tool" else ():
                refer("name", line.turn, owners.get(name, 0), name)
            turns[line.seq] = line.turn
            entries[line.id] = line.turn
            for name in names_in(said):
                owners.setdefault(name, line.turn)
    return {turn: tuple(each.values()) for turn, each in found.items()}
