"""Lines of a transcript as the events that once announced them.

The chat has one way to draw: history is turned back into events, so that an old exchange looks
exactly as it did when it happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Line, conversation
from mindstone_tui.core.events.from_entry import announcements, tool_ended, turn_ended
from mindstone_tui.core.transcript.reader import Damaged
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
    if isinstance(line.entry, conversation.AssistantMessage):
        for thought in line.entry.thinking:
            if thought.text:
                yield ev.ThinkingDelta(turn=line.turn, text=thought.text)
    said = _of_conversation(line)
    yield from [said] if said is not None else announcements(line)


def _of_conversation(line: Line) -> ev.AnyEvent | None:
    turn = line.turn
    match line.entry:
        case conversation.UserMessage(text=text, queued=queued):
            return ev.TurnStarted(turn=turn, entry=line.id, text=text, queued=queued)
        case conversation.AssistantMessage(text=text, calls=calls):
            return ev.AnswerRecorded(turn=turn, entry=line.id, text=text, calls=len(calls))
        case conversation.AssistantPartial(text=text):
            return ev.AnswerRecorded(turn=turn, entry=line.id, text=text, calls=0, partial=True)
        case conversation.ToolCalled(call=call, name=name, shown=shown):
            return ev.ToolStarted(turn=turn, call=call, name=name, shown=shown)
        case conversation.ToolReturned() as entry:
            return tool_ended(line, entry)
        case conversation.TurnEnded() as entry:
            return turn_ended(line, entry)
    return None
