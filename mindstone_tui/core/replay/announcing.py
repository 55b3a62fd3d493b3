"""Recorded lines as the events that a live session announced for them, in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from mindstone_tui.core import events as ev
from mindstone_tui.core.agent.announce import announcements, appeared, tool_ended, turn_ended
from mindstone_tui.core.entries import Line, conversation, store, window
from mindstone_tui.core.transcript import Damaged


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
