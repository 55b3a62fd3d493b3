"""Lines of a transcript as the events that once announced them.

The chat has one way to draw: history is turned back into events, so that an old exchange looks
exactly as it did when it happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Line, conversation, memory, pressure, window
from mindstone_tui.core.transcript.history import Damaged
from mindstone_tui.tui.feed import Exchange


def exchanges_in(lines: Iterable[Line | Damaged]) -> list[Exchange]:
    """The exchanges that consecutive lines tell, oldest first."""
    found: list[Exchange] = []
    for line in lines:
        turn = line.turn if isinstance(line, Line) else (found[-1].turn if found else 0)
        for event in events_of(line):
            if not found or found[-1].turn != turn:
                found.append(Exchange(turn))
            found[-1].add(event)
    return found


def split_at_turn(
    lines: Sequence[Line | Damaged],
) -> tuple[list[Line | Damaged], list[Line | Damaged]]:
    """Lines of the first turn, which may have begun earlier, and all that come after it."""
    first = next((line.turn for line in lines if isinstance(line, Line)), 0)
    for at, line in enumerate(lines):
        if isinstance(line, Line) and line.turn != first:
            return list(lines[:at]), list(lines[at:])
    return list(lines), []


def events_of(line: Line | Damaged) -> Iterator[ev.AnyEvent]:
    """The events that announce a line; none for bookkeeping."""
    if isinstance(line, Damaged):
        yield ev.Noticed(
            level="error",
            message=f"A line at byte {line.offset} of this transcript cannot be read ({line.why}); "
            "`mindstone verify` explains it.",
        )
        return
    event = _of_conversation(line) or _of_window(line)
    if event is not None:
        if isinstance(line.entry, conversation.AssistantMessage):
            for thought in line.entry.thinking:
                if thought.text:
                    yield ev.ThinkingDelta(turn=line.turn, text=thought.text)
        yield event


def _of_conversation(line: Line) -> ev.AnyEvent | None:
    turn = line.turn
    match line.entry:
        case conversation.UserMessage(text=text):
            return ev.TurnStarted(turn=turn, entry=line.id, text=text)
        case conversation.AssistantMessage(text=text, calls=calls):
            return ev.AnswerRecorded(turn=turn, entry=line.id, text=text, calls=len(calls))
        case conversation.AssistantPartial(text=text):
            return ev.AnswerRecorded(turn=turn, entry=line.id, text=text, calls=0, partial=True)
        case conversation.ToolCalled(call=call, name=name, shown=shown):
            return ev.ToolStarted(turn=turn, call=call, name=name, shown=shown)
        case conversation.ToolReturned() as entry:
            return ev.ToolEnded(
                turn=turn,
                call=entry.call,
                name=entry.name,
                entry=line.id,
                status=entry.status,
                text=entry.text,
                finding=entry.finding,
                diff=entry.diff,
                elapsed=entry.elapsed,
            )
        case conversation.TurnEnded() as entry:
            return ev.TurnEnded(
                turn=turn,
                ending=entry.ending,
                why=entry.why,
                remedy=entry.remedy,
                calls=entry.calls,
                tools=entry.tools,
                usage=entry.usage,
            )
    return None


def _of_window(line: Line) -> ev.AnyEvent | None:
    turn, entry = line.turn, line.id
    match line.entry:
        case memory.RecallInjected(query=query, passages=passages, tokens=tokens):
            return ev.RecallInjected(
                turn=turn, entry=entry, query=query, passages=passages, tokens=tokens
            )
        case window.ContextWindowPruned() as pruned:
            return ev.WindowPruned(
                turn=turn,
                entry=entry,
                left=pruned.left,
                tokens_before=pruned.tokens_before,
                tokens_after=pruned.tokens_after,
                policy=pruned.policy,
                trigger=pruned.trigger,
            )
        case window.ContextPruneBlocked(why=why, detail=detail):
            return ev.PruneBlocked(turn=turn, entry=entry, why=why, detail=detail)
        case window.ToolResultsTrimmed() as trimmed:
            return ev.ResultsTrimmed(
                turn=turn,
                entry=entry,
                results=trimmed.results,
                tokens_before=trimmed.tokens_before,
                tokens_after=trimmed.tokens_after,
            )
        case window.Pinned(pinned_turn=which):
            return _changed(line, "pinned", f"turn {which}")
        case window.Unpinned(pinned_turn=which):
            return _changed(line, "unpinned", f"turn {which}")
        case window.Restored(turns=turns):
            return _changed(line, "restored", "turn " + ", ".join(map(str, turns)))
        case window.Rewound(to_turn=which):
            return _changed(line, "rewound", f"to turn {which}")
        case memory.SummaryDerived() as summary:
            return ev.SummaryDerived(
                turn=turn,
                entry=entry,
                strategy=summary.strategy,
                tokens_before=summary.tokens_before,
                tokens_after=summary.tokens_after,
                model=summary.model,
                fallback=summary.fallback,
            )
        case memory.CheckpointSaved(version=version, path=path):
            return ev.CheckpointSaved(turn=turn, version=version, path=path)
        case pressure.ZoneChanged(before=before, after=after, utilization=full):
            return ev.ZoneChanged(turn=turn, before=before, after=after, utilization=full)
        case pressure.ShareCrossed() as share:
            return ev.ShareCrossed(
                turn=turn,
                component=share.component,
                before=share.before,
                after=share.after,
                tokens=share.tokens,
                limit=share.limit,
            )
        case pressure.AlertRaised() as alert:
            return ev.AlertRaised(
                turn=turn,
                level=alert.level,
                metric=alert.metric,
                message=alert.message,
                remedy=alert.remedy,
            )
    return None


def _changed(line: Line, kind: str, detail: str) -> ev.WindowChanged:
    return ev.WindowChanged(turn=line.turn, entry=line.id, kind=kind, detail=detail)
