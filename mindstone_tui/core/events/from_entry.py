"""Recorded lines as the events that a live session announced for them, in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec.structs import asdict

from mindstone_tui.core import events
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Entry, Line, Unknown, conversation, derived, store, window
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolReturned,
    TurnEnded,
    UserMessage,
)
from mindstone_tui.core.text import inside
from mindstone_tui.core.transcript import Damaged

ANNOUNCED_AS: Final[Mapping[type[Entry | Unknown], type[events.AnyEvent]]] = {
    window.ContextWindowPruned: events.WindowPruned,
    window.ContextPruneBlocked: events.PruneBlocked,
    window.ToolResultsTrimmed: events.ResultsTrimmed,
    derived.RecallInjected: events.RecallInjected,
    derived.SummaryDerived: events.SummaryDerived,
    derived.StandingInstructionOffered: events.InstructionOffered,
    derived.MemoryProposed: events.MemoryProposed,
    derived.DelegationEnded: events.DelegationEnded,
    derived.CheckpointSaved: events.CheckpointSaved,
    derived.HandoffWritten: events.HandoffWritten,
    window.ZoneChanged: events.ZoneChanged,
    window.ShareCrossed: events.ShareCrossed,
    window.VelocitySpiked: events.VelocitySpiked,
    window.AlertRaised: events.AlertRaised,
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


class Announcer:
    """Turns lines into events; each turn that starts also ends, exactly once."""

    def __init__(self) -> None:
        self.open_turn = 0
        """The turn that was announced as started and not yet as ended."""

    def events_of(self, line: Line | Damaged) -> Iterator[ev.AnyEvent]:
        """Everything a client hears about one line; nothing for bookkeeping."""
        if isinstance(line, Damaged):
            yield ev.Noticed(
                level="error",
                message=f"A line at byte {line.offset} cannot be read ({line.why}).",
            )
            return
        match line.entry:
            case conversation.UserMessage() as message:
                yield from self._said(line, message)
            case conversation.TurnEnded() as entry:
                yield from self._ended(line, entry)
            case _:
                yield from _of_turn(line) or _of_session(line)

    def end_open_turn(self, why: str) -> Iterator[ev.AnyEvent]:
        """Close a turn that history, or the viewer, left open."""
        if self.open_turn:
            yield ev.TurnEnded(turn=self.open_turn, ending="interrupted", why=why)
            self.open_turn = 0

    def _said(self, line: Line, message: conversation.UserMessage) -> Iterator[ev.AnyEvent]:
        if self.open_turn == line.turn:
            yield appeared(line)
            return
        yield from self.end_open_turn("No end of this turn was recorded.")
        self.open_turn = line.turn
        yield ev.TurnStarted(
            turn=line.turn, entry=line.id, text=message.text, queued=message.queued
        )

    def _ended(self, line: Line, entry: conversation.TurnEnded) -> Iterator[ev.AnyEvent]:
        if self.open_turn == line.turn:
            self.open_turn = 0
            yield turn_ended(line, entry)


def _of_turn(line: Line) -> list[ev.AnyEvent]:
    turn = line.turn
    match line.entry:
        case conversation.AssistantMessage() as said:
            thoughts = [
                ev.ThinkingDelta(turn=turn, text=thought.text)
                for thought in said.thinking
                if thought.text
            ]
            return [*thoughts, *_answer(line, said.text, len(said.calls))]
        case conversation.AssistantPartial(text=text):
            return _answer(line, text, 0, partial=True)
        case conversation.ToolCalled(call=call, name=name, shown=shown):
            return [ev.ToolStarted(turn=turn, call=call, name=name, shown=shown)]
        case conversation.ToolReturned() as entry:
            return [tool_ended(line, entry)]
        case window.PromptPlanned(purpose="") as plan:
            tokens = plan.measure.tokens if plan.measure else plan.raw_tokens
            return [
                ev.ModelCalled(
                    turn=turn,
                    call=plan.call,
                    model=plan.model,
                    prompt_hash=plan.prompt_hash,
                    tokens=tokens,
                )
            ]
        case conversation.UsageReported(call=number, model=model, usage=usage):
            return [ev.UsageReported(turn=turn, call=number, model=model, usage=usage)]
    return []


def _answer(line: Line, text: str, calls: int, *, partial: bool = False) -> list[ev.AnyEvent]:
    whole = ev.AnswerRecorded(
        turn=line.turn, entry=line.id, text=text, calls=calls, partial=partial
    )
    return [ev.TextDelta(turn=line.turn, text=text), whole] if text else [whole]


def _of_session(line: Line) -> list[ev.AnyEvent]:
    match line.entry:
        case window.ModelChanged(model=model, why=why):
            return [ev.ModelChanged(model=model, note=why)]
        case conversation.MessageQueued(text=text):
            return [ev.MessageQueued(entry=line.id, text=text)]
        case conversation.MessageWithdrawn(queued=queued):
            return [ev.MessageWithdrawn(entry=queued)]
        case conversation.ModelFailed(why=why):
            return [ev.Noticed(level="warning", message=why)]
        case store.CommandRun(command=command, output=output, ok=ok):
            return [
                ev.CommandPrinted(command=command, text=output, ok=ok),
                ev.CommandEnded(command=command, ok=ok),
            ]
    return announcements(line)
