"""Questions about tools that any surface may answer: each is asked and answered once, in history.

Whoever takes the turn writes the question down and waits. An answer is an entry, too, whoever gives
it; the first one on disk holds, and every later one comes to nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import (
    ToolAnswered,
    ToolAsked,
    ToolReturned,
    TurnEnded,
)
from mindstone_tui.core.errors import EntryNotSaved
from mindstone_tui.core.events import Answer, AnyEvent
from mindstone_tui.core.events.from_entry import tool_ended

TOO_LATE = "That question is no longer open."


class SharedQuestions:
    """The open questions of one session, asked by a turn of ours or of another program."""

    def __init__(self, context: TurnContext, emit: Callable[[AnyEvent], None]) -> None:
        self._context = context
        self._emit = emit
        self._elsewhere: dict[str, ToolAsked] = {}
        """Questions that another program's turn waits with, by call."""
        self._shown: set[str] = set()
        """Calls of that turn that were announced here, and whose end is, too."""

    @property
    def waiting(self) -> bool:
        """Whether a turn of ours waits for an answer."""
        return bool(self._context.questions.waiting)

    def write(self, call: str, answer: Answer) -> Line | None:
        """Write an answer down; None when nobody waits for it.

        It counts when it is heard, after everything that stands before it in the file.
        """
        if call not in self._context.questions.waiting and call not in self._elsewhere:
            self._emit(events.Noticed(message=TOO_LATE))
            return None
        entry = ToolAnswered(
            call=call,
            allowed=answer.allowed,
            remember=answer.remember,
            keep=answer.keep,
            why=answer.why,
        )
        try:
            return self._context.window.record(entry)
        except EntryNotSaved:
            # The turn cannot go on, either, and says why; nobody is left waiting.
            self._context.questions.answer(call, answer)
            raise

    def hear(self, line: Line) -> None:
        """Take in a line that somebody wrote, in the order of the file."""
        match line.entry:
            case ToolAsked() as asked if asked.call not in self._context.questions.waiting:
                self._ask(asked, line)
            case ToolAnswered(call=call) as given:
                self._settle(call, given, line)
            case ToolReturned(call=call) as returned if call in self._shown:
                self._shown.discard(call)
                self._elsewhere.pop(call, None)
                self._emit(tool_ended(line, returned))
            case TurnEnded():
                self._elsewhere.clear()
                self._shown.clear()

    def find(self) -> None:
        """Take up what is open in a turn that runs elsewhere."""
        transcript = self._context.transcript
        with transcript.history() as history:
            for line in history.turn(transcript.last_turn):
                self.hear(history.whole(line))

    def _ask(self, asked: ToolAsked, line: Line) -> None:
        self._elsewhere[asked.call] = asked
        if self._context.permissions.asks:
            self._shown.add(asked.call)
            fields = {name: getattr(asked, name) for name in asked.__struct_fields__}
            self._emit(events.ToolAsked(turn=line.turn, channel=line.channel, **fields))

    def _settle(self, call: str, given: ToolAnswered, line: Line) -> None:
        answer = Answer(
            allowed=given.allowed, remember=given.remember, keep=given.keep, why=given.why
        )
        mine = self._context.questions.answer(call, answer)
        if self._elsewhere.pop(call, None) is not None or mine:
            told = events.ToolAnswered(
                turn=line.turn,
                call=call,
                allowed=given.allowed,
                channel=line.channel,
                why=given.why,
            )
            self._emit(told)
