"""Steps of a foreign session as lines of the transcript: in batches, nothing twice.

A batch ends with an exchange wherever it can. A crash leaves whole lines and perhaps an exchange
without its end; the next import of the same file finds it open and goes on inside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mindstone_tui.core.entries import Draft, Entry, Line
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    Thinking,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.store import Imported
from mindstone_tui.core.interchange.exchanges import Answered, Step
from mindstone_tui.core.interchange.records import NO_RESULT, Said
from mindstone_tui.core.interchange.seen import Message, Seen, name_of, visible
from mindstone_tui.core.transcript import Transcript
from mindstone_tui.core.transcript.drafting import Clean

CHANNEL: Final = "import"
_BATCH: Final = 256
"""Entries after which a batch is written at the next end of an exchange."""
_LARGEST_BATCH: Final = 2_048
_BATCH_TEXT: Final = 4 << 20
"""Characters after which a batch is written wherever the exchange stands."""
_MOST_THOUGHTS: Final = 64

Index = Callable[[Sequence[Line]], None]
"""Called with the lines of each batch, right after they are on disk."""


class Writer:
    """Writes what is new of each step, and remembers where it stands."""

    def __init__(
        self, transcript: Transcript, *, clean: Clean = str, index: Index | None = None
    ) -> None:
        self.added = 0
        self.already_there = 0
        self.first_turn = 0
        self.last_turn = 0
        self._transcript = transcript
        self._clean = clean
        self._index = index
        self._batch: list[Draft] = []
        self._batch_text = 0
        self._run = Seen()
        self._turn = transcript.last_turn
        self._ts = ""
        self._touched = False
        """Whether this import wrote something in the open turn."""
        self._cut_short = False
        self._before = _Before(transcript)
        self.was_cut_off = self._before.unrecorded
        """An earlier import wrote messages and never came to its end."""

    def write(self, step: Step) -> None:
        """Write what is new of a step."""
        if step.opens and self._touched:
            self.end_turn()
        message = _message_of(step.said)
        is_new = self._is_new(message, step.said.ts, counts=not step.said.stands_in)
        fresh = [each for each in step.answered if self._is_new(_returned(each), each.result.ts)]
        if not is_new and not fresh:
            return
        self._ts = step.said.ts or self._ts
        if is_new and step.opens and not self._before.nothing_said:
            self.end_turn()
        self._begin_turn(resumes=not (is_new and step.opens))
        if is_new:
            self._put(message, step.said.ts)
        elif late := [each.call for each in fresh if each.call.id not in self._before.pending]:
            # The message stands in a turn that is over: its late results need it once more.
            again = AssistantMessage(text="", model=step.said.model, calls=tuple(late))
            self._put(again, step.said.ts)
        for each in fresh:
            self._put_answered(each)
        self._cut_short = self._cut_short or step.cut_short
        if len(self._batch) >= _LARGEST_BATCH or self._batch_text >= _BATCH_TEXT:
            self._flush()

    def end_turn(self) -> None:
        """Close the open turn, if there is one."""
        if not (self._touched or self._before.open_turn):
            return
        for call, name in self._before.pending.items():
            self._cut_short = True
            lost = ToolReturned(call=call, name=name, text=NO_RESULT, status="interrupted")
            self._put(lost, self._ts)
        ending = TurnEnded(ending="interrupted" if self._cut_short else "done")
        self._put(ending, self._ts)
        self._before.close()
        self._touched = self._cut_short = False
        if len(self._batch) >= _BATCH:
            self._flush()

    def finish(self) -> None:
        """Close what is open and write what is left."""
        self.end_turn()
        self._flush()

    def _begin_turn(self, *, resumes: bool) -> None:
        if self._touched:
            return
        self._touched = True
        if self._before.open_turn:
            self._turn = self._before.open_turn
        else:
            self._turn += 1
            self._put(TurnStarted(origin="resumed" if resumes else "message"), self._ts)
        self.first_turn = self.first_turn or self._turn
        self.last_turn = self._turn

    def _put_answered(self, each: Answered) -> None:
        if each.call.id not in self._before.called:
            self._put(_called(each.call.id, each.call.name, each.call.arguments), each.result.ts)
        self._put(_returned(each), each.result.ts)
        self._before.pending.pop(each.call.id, None)

    def _is_new(self, message: Message, ts: str, *, counts: bool = True) -> bool:
        """Whether neither the transcript nor this file had the message; it is counted."""
        name = name_of(message, ts, lambda text: visible(self._clean(text)))
        key = self._run.take(name, once=bool(message.source_id))
        is_new = key is not None and key not in self._before.seen
        if counts and message.text != NO_RESULT:
            self.added += is_new
            self.already_there += not is_new
        return is_new

    def _put(self, entry: Entry, ts: str) -> None:
        self._ts = ts or self._ts
        self._batch.append(Draft(entry=entry, turn=self._turn, channel=CHANNEL, ts=self._ts))
        self._batch_text += len(getattr(entry, "text", ""))

    def _flush(self) -> None:
        if not self._batch:
            return
        written = self._transcript.append_all(self._batch)
        self._batch = []
        self._batch_text = 0
        if self._index is not None:
            self._index(written)


class _Before:
    """What earlier imports left in the transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.seen = Seen()
        self.open_turn = 0
        """An imported turn at the end of history that has no end yet."""
        self.pending: dict[str, str] = {}
        """Its calls without a result, with the tools' names."""
        self.called: set[str] = set()
        self.nothing_said = False
        """The open turn has a beginning and no more."""
        self.unrecorded = False
        """There are messages after the newest entry that says an import is complete."""
        if transcript.head.seq > 0:
            with transcript.history() as history:
                self._learn(
                    history.whole(line)
                    for line in history.read()
                    if isinstance(line, Line)
                    and (line.channel == CHANNEL or isinstance(line.entry, Imported))
                )

    def close(self) -> None:
        """The open turn has its end."""
        self.open_turn = 0
        self.nothing_said = False
        self.pending.clear()
        self.called.clear()

    def _learn(self, lines: Iterable[Line]) -> None:
        for line in lines:
            match line.entry:
                case TurnStarted():
                    self.close()
                    self.open_turn = line.turn
                    self.nothing_said = True
                case TurnEnded():
                    self.close()
                case Imported():
                    self.unrecorded = False
                case UserMessage() as message:
                    self._remember(message, line.ts)
                case AssistantMessage() as message:
                    self._remember(message, line.ts)
                    self.pending |= {call.id: call.name for call in message.calls}
                case ToolCalled(call=call):
                    self.called.add(call)
                case ToolReturned() as message:
                    self._remember(message, line.ts)
                    self.pending.pop(message.call, None)

    def _remember(self, message: Message, ts: str) -> None:
        """Take in a message, whose own file may or may not have said when it was."""
        self.nothing_said = False
        self.unrecorded = True
        self.seen.take(name_of(message, ts), once=bool(message.source_id))
        if not message.source_id:
            self.seen.take(name_of(message, ""), once=False)


def _message_of(said: Said) -> UserMessage | AssistantMessage:
    if said.role == "user":
        return UserMessage(text=said.text, name=said.name, source_id=said.id)
    return AssistantMessage(
        text=said.text,
        model=said.model,
        calls=said.calls,
        thinking=_bounded(said.thinking),
        finish=said.finish,
        name=said.name,
        source_id=said.id,
    )


def _bounded(thinking: tuple[Thinking, ...]) -> tuple[Thinking, ...]:
    """Thoughts as a line can hold them: very many become one."""
    if len(thinking) <= _MOST_THOUGHTS:
        return thinking
    return (Thinking(text="\n\n".join(each.text for each in thinking if each.text)),)


def _called(call: str, name: str, arguments: str) -> ToolCalled:
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest()
    return ToolCalled(call=call, name=name, shown=f"{name} {arguments}", digest=digest)


def _returned(each: Answered) -> ToolReturned:
    return ToolReturned(
        call=each.call.id,
        name=each.call.name,
        text=each.result.text,
        status=each.result.status,
        source_id=each.result.id,
    )
