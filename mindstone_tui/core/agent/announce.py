"""Lines on disk as the events that announce them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict

from mindstone_tui.core import events
from mindstone_tui.core.entries import Entry, Line, Unknown, memory, pressure, window
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolReturned,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.foreign import inside

ANNOUNCED_AS: Final[Mapping[type[Entry | Unknown], type[events.AnyEvent]]] = {
    window.ContextWindowPruned: events.WindowPruned,
    window.ContextPruneBlocked: events.PruneBlocked,
    window.ToolResultsTrimmed: events.ResultsTrimmed,
    memory.RecallInjected: events.RecallInjected,
    memory.SummaryDerived: events.SummaryDerived,
    memory.StandingInstructionOffered: events.InstructionOffered,
    memory.MemoryProposed: events.MemoryProposed,
    memory.DelegationEnded: events.DelegationEnded,
    memory.CheckpointSaved: events.CheckpointSaved,
    memory.HandoffWritten: events.HandoffWritten,
    pressure.ZoneChanged: events.ZoneChanged,
    pressure.ShareCrossed: events.ShareCrossed,
    pressure.VelocitySpiked: events.VelocitySpiked,
    pressure.AlertRaised: events.AlertRaised,
}
"""Entries whose event says a part of what they say, field by field under the same names.

`turn` and `entry` of an event are the line's own: its turn and its id.
"""


def announcements(*lines: Line) -> list[events.AnyEvent]:
    """The events for decisions about the window, recall and pressure; other lines have none."""
    return [event for line in lines if (event := _announced(line)) is not None]


def tool_ended(line: Line, entry: ToolReturned) -> events.ToolEnded:
    """A result that is on disk, as clients hear of it."""
    return events.ToolEnded(
        turn=line.turn,
        call=entry.call,
        name=entry.name,
        entry=line.id,
        status=entry.status,
        text=inside(entry.text),
        finding=entry.finding,
        diff=entry.diff,
        elapsed=entry.elapsed,
    )


def appeared(line: Line) -> events.EntryAppeared:
    """A line that is there without a turn of ours around it; only what was said has words."""
    match line.entry:
        case UserMessage(text=text) | AssistantMessage(text=text):
            said = text
        case _:
            said = ""
    return events.EntryAppeared(
        entry=line.id,
        seq=line.seq,
        kind=line.kind,
        role=line.role,
        channel=line.channel,
        turn=line.turn,
        text=said,
    )


def turn_ended(line: Line, entry: TurnEnded) -> events.TurnEnded:
    """The end of a turn that is on disk, as clients hear of it."""
    return events.TurnEnded(
        turn=line.turn,
        ending=entry.ending,
        why=entry.why,
        remedy=entry.remedy,
        calls=entry.calls,
        tools=entry.tools,
        usage=entry.usage,
    )


def _announced(line: Line) -> events.AnyEvent | None:
    event = ANNOUNCED_AS.get(type(line.entry))
    if event is None:
        return _window_change(line)
    said: dict[str, Any] = {**asdict(line.entry), "turn": line.turn, "entry": line.id}
    return event(**{name: said[name] for name in event.__struct_fields__})


def _window_change(line: Line) -> events.WindowChanged | None:
    match line.entry:
        case window.Pinned(pinned_turn=turn):
            detail = f"turn {turn} is pinned"
        case window.Unpinned(pinned_turn=turn):
            detail = f"turn {turn} may leave again"
        case window.Restored(turns=turns):
            detail = f"back in the window: turns {', '.join(map(str, turns))}"
        case window.Rewound(to_turn=turn):
            detail = f"the conversation goes on after turn {turn}"
        case window.WindowRepaired(why=why):
            detail = why
        case window.HeadShortened(summaries=summaries, handoff=handoff):
            gone = [f"{len(summaries)} summaries"] if summaries else []
            gone += ["the handoff"] if handoff is not None else []
            detail = f"{' and '.join(gone)} left the prompt for want of room; history has them"
        case window.ModeChanged(mode=mode):
            detail = f"mode {mode}"
        case window.PolicyChanged(policy=policy):
            detail = f"policy {policy}"
        case _:
            return None
    return events.WindowChanged(turn=line.turn, entry=line.id, kind=line.kind, detail=detail)
