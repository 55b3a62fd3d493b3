"""Records of a foreign session put together: each message with the results of its calls.

Results may come late, out of order, or never; what is held meanwhile is bounded.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import TurnEnding
from mindstone_tui.core.interchange.formats.base import NO_RESULT, Gave, Said

_MOST_OPEN: Final = 64
"""Steps that may wait for results, and calls that pieces may add to one; it bounds the buffer."""

_MOST_CALLS: Final = 256
"""Calls of one message; a line of the transcript holds no more."""
_LONGEST_ID: Final = 200


class AnsweredCall(msgspec.Struct, frozen=True):
    """One call of a step, with its result."""

    call: ToolCall
    result: Gave


class WriteStep(msgspec.Struct, frozen=True):
    """One message of the exchange, and the results of all its calls."""

    said: Said
    answered: tuple[AnsweredCall, ...] = ()
    opens: bool = False
    """The first of its exchange."""
    ending: TurnEnding = "done"
    """How the exchange ends, as far as this tells: a call may never have got its result."""


class _Open:
    """A step whose results may still come."""

    def __init__(self, said: Said, *, opens: bool) -> None:
        self.said = msgspec.structs.replace(said, calls=())
        self.opens = opens
        self.ending: TurnEnding = "done"
        self.calls: dict[str, ToolCall] = {}
        self.pending: dict[str, None] = {}
        self.results: dict[str, Gave] = {}
        self.ask(said.calls)

    def ask(self, calls: tuple[ToolCall, ...]) -> None:
        """Add calls, each under an id that no other call of this message has."""
        for call in calls:
            name = short = short_id(call.id)
            number = 1
            while name in self.calls:
                number += 1
                name = f"{short}#{number}"
            renamed = name != call.id
            self.calls[name] = msgspec.structs.replace(call, id=name) if renamed else call
            self.pending[name] = None

    def answer(self, gave: Gave) -> bool:
        """Take a result if one of the calls waits for it."""
        call = short_id(gave.call) or next(iter(self.pending), "")
        if call not in self.pending:
            return False
        del self.pending[call]
        self.results[call] = gave
        return True

    @property
    def is_full(self) -> bool:
        return len(self.calls) >= _MOST_OPEN

    def so_far(self) -> WriteStep:
        """The message with the results that are there."""
        answered = tuple(
            AnsweredCall(call, self.results[name])
            for name, call in self.calls.items()
            if name in self.results
        )
        said = msgspec.structs.replace(self.said, calls=tuple(self.calls.values()))
        lost = any(each.result.status == "interrupted" for each in answered)
        return WriteStep(said, answered, self.opens, "interrupted" if lost else self.ending)

    def closed(self) -> WriteStep:
        """The message with a result for every call; those that never came say so."""
        for name, call in self.calls.items():
            self.results.setdefault(name, _missing(call, self.said))
        return self.so_far()


class Assembler(msgspec.Struct, eq=False):
    """Takes records one by one; hands over steps as soon as they are whole."""

    _are_apart: Callable[[Said, Said], bool] = lambda first, more: False
    """Whether the first piece of an answer was written down before the other one came."""
    _steps: list[_Open] = []
    _begun: bool = False

    def say(self, said: Said) -> Iterator[WriteStep]:
        """A message: a user's closes the exchange before it, a model's continues it."""
        if said.role == "user":
            yield from self.close()
        elif self._steps and self._is_piece(self._steps[-1], said):
            last = self._steps[-1]
            last.ask(said.calls)
            last.said = joined_pieces(last.said, said)
            return
        yield from self._open(msgspec.structs.replace(said, calls=said.calls[:_MOST_CALLS]))
        for at in range(_MOST_CALLS, len(said.calls), _MOST_CALLS):
            more = said.calls[at : at + _MOST_CALLS]
            yield from self._open(
                Said(
                    line=said.line, role=said.role, text="", ts=said.ts, calls=more, stands_in=True
                )
            )

    def give(self, gave: Gave) -> Iterator[WriteStep]:
        """A result: it goes to the call it names, else to the newest message as its own call."""
        if any(step.answer(gave) for step in self._steps):
            return
        if not self._steps or self._steps[-1].said.role == "user" or self._steps[-1].is_full:
            yield from self._open(
                Said(line=gave.line, role="assistant", text="", ts=gave.ts, stands_in=True)
            )
        call = gave.call or f"call-{gave.line}"
        last = self._steps[-1]
        last.ask((ToolCall(id=call, name=gave.name or "tool", arguments="{}"),))
        last.answer(msgspec.structs.replace(gave, call=next(reversed(last.calls))))

    def stop(self, ending: TurnEnding) -> None:
        """The exchange did not come to its end."""
        if self._steps:
            self._steps[-1].ending = ending

    def close(self) -> Iterator[WriteStep]:
        """The exchange is over; calls without a result are marked as interrupted."""
        steps, self._steps, self._begun = self._steps, [], False
        yield from (step.closed() for step in steps)

    def so_far(self, *, settled: bool) -> Iterator[WriteStep]:
        """What is open, without closing it: a file that is being written ends here only for now.

        The newest answer may still get more pieces: it is left out unless it is settled.
        """
        for step in self._steps:
            is_newest = step is self._steps[-1]
            may_grow = step.said.role == "assistant" and is_newest and not step.results
            is_thought = not (step.said.text or step.calls)
            if not may_grow or (settled and not is_thought):
                yield step.so_far()

    def _is_piece(self, last: _Open, said: Said) -> bool:
        """Whether a message is one more piece of the answer that is being given."""
        if last.said.role != "assistant" or last.results or last.is_full:
            return False
        if len(said.calls) > _MOST_OPEN:
            return False
        same = bool(said.group) and said.group == last.said.group
        is_piece = same or bool(last.calls) or not last.said.text
        return is_piece and not self._are_apart(last.said, said)

    def _open(self, said: Said) -> Iterator[WriteStep]:
        """A new step; those before it that wait for nothing, or for too long, are over."""
        self._steps.append(_Open(said, opens=not self._begun))
        self._begun = True
        while len(self._steps) > 1 and (
            not self._steps[0].pending or len(self._steps) > _MOST_OPEN
        ):
            yield self._steps.pop(0).closed()


def short_id(name: str) -> str:
    """An id as it is, or a stand-in of bounded length that is the same for the same id."""
    if len(name) <= _LONGEST_ID:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: _LONGEST_ID - 17]}~{digest[:16]}"


def joined_pieces(first: Said, more: Said) -> Said:
    """Two pieces of one answer."""
    return msgspec.structs.replace(
        first,
        text="\n\n".join(filter(None, (first.text, more.text))),
        thinking=(*first.thinking, *more.thinking),
        model=first.model or more.model,
        id=first.id or more.id,
        finish=more.finish,
        cut_off=more.cut_off,
    )


def _missing(call: ToolCall, said: Said) -> Gave:
    return Gave(
        line=said.line,
        call=call.id,
        name=call.name,
        text=NO_RESULT,
        status="interrupted",
        ts=said.ts,
    )
