"""The one table from recorded lines to events: live sessions, replay and history use it.

`announcements` covers what a live session announces the moment it is written: decisions about the
window, recall and pressure. `events_of` covers every line. `Announcer` plays lines in order, so
that each turn that starts also ends.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import asdict, replace

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Entry, Line, Unknown, conversation, derived, store, window
from mindstone_tui.core.entries.marks import replaced
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.events import narrate_entry
from mindstone_tui.core.numbers import megabytes
from mindstone_tui.core.text import inside, one_line, plural
from mindstone_tui.core.transcript import Damaged
from mindstone_tui.core.values import alike

Told = TypeVar("Told", bound=ev.AnyEvent)

ANNOUNCED_AS: Final[Mapping[type[Entry | Unknown], type[ev.AnyEvent]]] = {
    window.ContextWindowPruned: ev.WindowPruned,
    window.ContextPruneBlocked: ev.PruneBlocked,
    window.ToolResultsTrimmed: ev.ResultsTrimmed,
    derived.RecallInjected: ev.RecallInjected,
    derived.SummaryDerived: ev.SummaryDerived,
    derived.StandingInstructionOffered: ev.InstructionOffered,
    derived.MemoryProposed: ev.MemoryProposed,
    derived.DelegationEnded: ev.DelegationEnded,
    derived.CheckpointSaved: ev.CheckpointSaved,
    derived.HandoffWritten: ev.HandoffWritten,
    window.ZoneChanged: ev.ZoneChanged,
    window.ShareCrossed: ev.ShareCrossed,
    window.VelocitySpiked: ev.VelocitySpiked,
    window.AlertRaised: ev.AlertRaised,
    store.FilesChanged: ev.FilesChanged,
    store.FilesRestored: ev.FilesRestored,
}
"""Entries whose event repeats some of their fields under the same names.

`turn` and `entry` of an event are the line's own: its turn and its id.
"""


def announcements(*lines: Line) -> list[ev.AnyEvent]:
    """The events for decisions about the window, recall and pressure; other lines have none."""
    return [event for line in lines if (event := _announced(line)) is not None]


def events_of(line: Line | Damaged) -> list[ev.AnyEvent]:
    """Every event that tells of one line; none for bookkeeping."""
    if isinstance(line, Damaged):
        message = (
            f"Unreadable line at byte {line.offset} of this transcript ({line.why}); "
            "`mindstone verify` explains it."
        )
        return [ev.Noticed(level="error", message=message)]
    return _of_turn(line) or _of_session(line) or announcements(line)


def tool_ended(line: Line) -> ev.ToolEnded:
    """A tool result that is on disk."""
    told = _repeating(ev.ToolEnded, line)
    return replace(told, text=inside(told.text))


def tool_answered(line: Line) -> ev.ToolAnswered:
    """An answer that is on disk, with the surface it came from."""
    return _repeating(ev.ToolAnswered, line)


def used_elsewhere(line: Line, whole: Callable[[Line], Line]) -> list[ev.AnyEvent]:
    """What a line says that another surface wrote of tools, files and recall, as it is live."""
    kinds = conversation.ToolCalled | conversation.ToolReturned | derived.RecallInjected
    kinds |= store.FilesChanged | store.FilesRestored
    return events_of(whole(line)) if isinstance(line.entry, kinds) else []


def job_ended(entry: derived.JobEnded) -> ev.Noticed:
    """A command in the background is over, in a line."""
    how = f"exit code {entry.code}" if entry.ending == "exited" else entry.ending
    how = f"ended after {entry.elapsed:.0f} s, {how}"
    if entry.ending == derived.UNSEEN:
        how = "is over, and nobody saw how it ended"
    said = f"Job {entry.job} {how}: {one_line(entry.command, 80)}"
    good = entry.ending == "exited" and entry.code == 0
    return ev.Noticed(message=said, level="info" if good else "warning")


def files_let_go(entry: store.FilesLetGo) -> ev.Noticed:
    """Older states of files had to make room, in a line."""
    said = (
        f"What turns up to turn {entry.through} did to files can no longer be taken back: "
        f"their states made room for newer ones (undo.store_bytes is {megabytes(entry.limit)})."
    )
    return ev.Noticed(message=said, level="info")


def appeared(line: Line) -> ev.EntryAppeared:
    """A line written outside a turn of ours: what was said or decided, or how a turn broke off."""
    proposal = ""
    match line.entry:
        case conversation.UserMessage(text=text) | conversation.AssistantMessage(text=text):
            said = text
        case conversation.AssistantPartial(text=text):
            said = text
        case conversation.TurnEnded(ending=ending) as ended if ending != "done":
            said = narrate_entry.cut_short(ended)
        case entry:
            said = narrate_entry.decision_in(entry, line.channel)
            proposal = entry.proposal if isinstance(entry, derived.MemoryDecided) else ""
    own = {name: getattr(line, name) for name in ("seq", "kind", "role", "channel", "turn")}
    return ev.EntryAppeared(entry=line.id, text=said, proposal=proposal, **own)


class Announcer:
    """Turns lines into the stream a live session would have sent; every turn ends exactly once."""

    def __init__(self) -> None:
        self.open_turn = 0
        """The turn that was announced as started and not yet as ended."""
        self._answered = False
        """Its newest answer asks for nothing more: a fork copies turns without their ends."""

    def events_of(self, line: Line | Damaged) -> Iterator[ev.AnyEvent]:
        """Everything a client hears about one line; nothing for bookkeeping."""
        for event in events_of(line):
            match event:
                case ev.TurnStarted(turn=turn) if turn == self.open_turn and isinstance(line, Line):
                    yield appeared(line)
                case ev.TurnStarted(turn=turn):
                    yield from self.end_open_turn("No end of this turn was recorded.")
                    self.open_turn, self._answered = turn, False
                    yield event
                case ev.TurnEnded(turn=turn):
                    if turn == self.open_turn:
                        self.open_turn = 0
                        yield event
                case ev.AnswerRecorded(turn=turn, text=text, calls=calls, partial=partial) if text:
                    self._answered = not (calls or partial)
                    yield ev.TextDelta(turn=turn, text=text)
                    yield event
                case _:
                    yield event

    def end_open_turn(self, why: str) -> Iterator[ev.AnyEvent]:
        """Close a turn that history, or the viewer, left open."""
        if self.open_turn:
            if self._answered:
                yield ev.TurnEnded(turn=self.open_turn, ending="done")
            else:
                yield ev.TurnEnded(turn=self.open_turn, ending="interrupted", why=why)
            self.open_turn = 0


def _announced(line: Line) -> ev.AnyEvent | None:
    event = ANNOUNCED_AS.get(type(line.entry))
    return _window_change(line) if event is None else _repeating(event, line)


def _repeating(event: type[Told], line: Line) -> Told:
    """An event with what the line's entry has under the same names."""
    own = {"turn": line.turn, "entry": line.id, "channel": line.channel}
    said: dict[str, Any] = {**asdict(line.entry), **own}
    return event(**{name: said[name] for name in event.__struct_fields__})


def _window_change(line: Line) -> ev.WindowChanged | None:
    match line.entry:
        case window.Restored(turns=turns):
            named = "turn" if len(turns) == 1 else "turns"
            detail = f"{named} {', '.join(map(str, turns))} restored to the window"
        case window.Rewound(to_turn=turn, returned=turns):
            detail = f"rewound to turn {turn}; later turns stay in the transcript"
            if turns:
                detail += f"; {plural(len(turns), 'turn')} returned in place of a summary"
        case window.HeadShortened(summaries=summaries, handoff=handoff):
            gone = [plural(len(summaries), "summary", "summaries")] if summaries else []
            gone += ["the handoff"] if handoff is not None else []
            detail = f"{' and '.join(gone)} left the prompt to make room; the transcript keeps them"
        case derived.StatementSuperseded(statement=seq, by=by, part=part):
            detail = f"#{seq} is {replaced(None if part else by, {by: part})[0].words}"
        case entry:
            if (line_of := narrate_entry.always("window", entry.kind, entry)) is None:
                return None
            detail = line_of.text
    return ev.WindowChanged(turn=line.turn, entry=line.id, kind=line.kind, detail=detail)


def _of_turn(line: Line) -> list[ev.AnyEvent]:
    turn = line.turn
    match line.entry:
        case conversation.UserMessage(text=text, queued=queued):
            asked = ev.TurnStarted(
                turn=turn, entry=line.id, text=text, queued=queued, imported=is_imported(line)
            )
            return [asked]
        case conversation.AssistantMessage(text=text, calls=calls, finish=finish) as said:
            thoughts = [each.text for each in said.thinking if each.text]
            return [
                *(ev.ThinkingDelta(turn=turn, text=thought) for thought in thoughts),
                ev.AnswerRecorded(
                    turn=turn, entry=line.id, text=text, calls=len(calls), finish=finish
                ),
                *_usage(turn, said),
            ]
        case conversation.AssistantPartial(text=text):
            return [ev.AnswerRecorded(turn=turn, entry=line.id, text=text, calls=0, partial=True)]
        case conversation.ToolCalled(call=call, name=name, shown=shown):
            return [ev.ToolStarted(turn=turn, call=call, name=name, shown=shown)]
        case conversation.ToolAnswered():
            return [tool_answered(line)]
        case conversation.ToolReturned():
            return [tool_ended(line)]
        case window.PromptPlanned(purpose="") as plan:
            return [model_called(turn, plan)]
        case conversation.UsageReported() as report:
            return _usage(turn, report)
        case conversation.TurnEnded() as end:
            return [ev.TurnEnded(turn=turn, **asdict(end))]
    return []


def _usage(turn: int, entry: Entry) -> list[ev.AnyEvent]:
    if (report := conversation.usage_in(entry)) is None:
        return []
    return [ev.UsageReported(turn=turn, call=report.call, model=report.model, usage=report.usage)]


def _of_session(line: Line) -> list[ev.AnyEvent]:
    match line.entry:
        case conversation.SessionOpened(forked_from=point) if point is not None:
            told = (
                f"Forked from {point.session} at line {point.seq}; what had left the window there"
            )
            return [ev.Noticed(message=f"{told} is recalled from there.", level="info")]
        case window.ModelChanged(model=model, why=why):
            return [ev.ModelChanged(model=model, note=why)]
        case conversation.MessageQueued(text=text):
            return [ev.MessageQueued(entry=line.id, text=text)]
        case conversation.MessageWithdrawn(queued=queued):
            return [ev.MessageWithdrawn(entry=queued)]
        case derived.JobEnded() as ended:
            return [job_ended(ended)]
        case store.FilesLetGo() as entry:
            return [files_let_go(entry)]
        case conversation.ModelFailed(why=why):
            return [ev.Noticed(level="warning", message=why)]
        case store.CommandRun(command=command, output=output, ok=ok):
            return [
                ev.CommandPrinted(command=command, text=output, ok=ok),
                ev.CommandEnded(command=command, ok=ok),
            ]
    return []


def model_called(turn: int, plan: window.PromptPlanned) -> ev.ModelCalled:
    """A request in the numbers of its plan."""
    measure, carried = plan.measure, plan.carried
    return alike(
        ev.ModelCalled,
        plan,
        turn=turn,
        tokens=measure.tokens if measure is not None else plan.raw_tokens,
        label=measure.label if measure is not None else "estimated",
        zone=carried.zone if carried is not None else "green",
    )
