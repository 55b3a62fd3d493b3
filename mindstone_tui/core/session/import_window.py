"""The first window of an imported session: the newest exchanges that fit, the rest indexed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import budget
from mindstone_tui.core.context.budget import resolve_window, room_for
from mindstone_tui.core.context.fold import Fold, Placed, merged, single, state_of
from mindstone_tui.core.context.measure import TokenCache
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.prune import marker_text
from mindstone_tui.core.context.trim import TASK_SHARE
from mindstone_tui.core.context.window_view import follow, reader
from mindstone_tui.core.entries import IMPORTED, Line, Span
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Left,
    Outside,
    Receipt,
    WindowCarried,
    WindowState,
)
from mindstone_tui.core.recall.catch_up import reading
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.recall.passages import Chunker, Passage
from mindstone_tui.core.tokens import UNCALIBRATED, Counter, LengthCounter
from mindstone_tui.core.tokens.count import CHARACTERS_IN_TWO_TOKENS
from mindstone_tui.core.transcript import History, Transcript


class _Fitting(msgspec.Struct, frozen=True, kw_only=True):
    """The exchanges that stay, and the newest line that does not."""

    kept: dict[int, list[Line]]
    tokens: float
    head: int
    first_out: Line


def initial_prune(
    newest_first: Iterable[Line],
    *,
    counter: Counter,
    room: budget.Room,
    settings: Settings,
    receipt: Receipt | None,
    outside_tokens: Callable[[int], int] = lambda last: 0,
    task: Line | None = None,
    state: WindowState | None = None,
) -> ContextWindowPruned | None:
    """The prune that ends an import: the newest exchanges stay that fit under the floor.

    Reads only as many lines as the window holds. `receipt` proves that the imported turns were
    indexed before this is written; `outside_tokens` tells how much was said up to a line; `task` is
    the first user message; `state` names what the session had before. None when everything fits.
    """
    ledger = TokenCache(counter)
    floor = budget.marks(room, settings.context, settings.zones).floor
    always = 0.0 if task is None else _size(task, ledger)
    found = _newest_that_fit(
        (line for line in newest_first if task is None or line.seq != task.seq),
        ledger,
        # Where room is needed, the task is shortened to its share.
        floor - min(always, room.tokens(TASK_SHARE)),
        settings.context.placeholder_tokens,
    )
    if found is None:
        return None
    tokens = round(found.tokens + always)
    before = state or WindowState(through=-1)
    spans = single(line.seq for lines in found.kept.values() for line in lines)
    if task is not None:
        spans = merged((*spans, Span(task.seq, task.seq)))
    out = found.first_out.turn
    said_outside = outside_tokens(found.first_out.seq)
    outside = Outside(
        exchanges=out, tokens=said_outside, unindexed=0 if receipt is not None else out
    )
    return ContextWindowPruned(
        left=(
            Left(
                turn=out,
                span=Span(0, found.first_out.seq),
                tokens=said_outside,
                score=0.0,
                reason="imported before the window",
                receipt=receipt,
                exchanges=out,
            ),
        ),
        state=msgspec.structs.replace(
            before,
            through=found.head,
            spans=spans,
            task=task.seq if task is not None else before.task,
            outside=outside,
        ),
        tokens_before=tokens + said_outside,
        tokens_after=tokens,
        policy="fifo",
        trigger="import",
        marker=marker_text(outside, found.kept, ()) if settings.context.marker else "",
    )


def _newest_that_fit(
    newest_first: Iterable[Line], ledger: TokenCache, floor: float, shortest: int
) -> _Fitting | None:
    """Whole exchanges from the end, as long as they fit under a mark; None when all of them do.

    An exchange that is too large only by its tool results stays where hardly anything else would:
    the first request shortens them, and the work that was done last is what one goes on with.
    """
    kept: dict[int, list[Line]] = {}
    sizes: dict[int, float] = {}
    shortened: dict[int, float] = {}
    total, head, first_out = 0.0, -1, None
    for line in newest_first:
        head = max(head, line.seq)
        if line.turn not in kept and total > floor:
            first_out = line
            break
        kept.setdefault(line.turn, []).append(line)
        if said(line) is not None:
            size = _size(line, ledger)
            small = min(size, shortest) if isinstance(line.entry, ToolReturned) else size
            sizes[line.turn] = sizes.get(line.turn, 0.0) + size
            shortened[line.turn] = shortened.get(line.turn, 0.0) + small
            total += size
    if len(sizes) > 1 and total > floor:
        oldest = min(sizes)
        others = total - sizes[oldest]
        if others > floor * _HARDLY or others + shortened[oldest] > floor:
            total = others
            first_out = max(kept.pop(oldest), key=lambda line: line.seq)
            kept.pop(0, None)
    if first_out is None or first_out.turn < 1:
        return None
    return _Fitting(kept=kept, tokens=total, head=head, first_out=first_out)


def _size(line: Line, ledger: TokenCache) -> float:
    """Tokens that a message takes in the prompt."""
    return ledger.message(Placed((line.seq, None, False), line)) * UNCALIBRATED


_SAID: Final = (UserMessage, AssistantMessage, ToolReturned)
_AROUND_TEXT: Final = 520
"""Bytes of a line that are not what was said."""
_HARDLY: Final = 0.1
"""So little of the room that a window which holds no more is hardly one."""


class Past:
    """What the window of an import is planned by, taken in line by line.

    Imported lines are not held: that would cost as much memory as the file that they came from.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        """The line of the first message of a person."""
        self.exchange: list[Passage] = []
        """What can be found of the exchange that it began."""
        self._turn = 0
        self._chunker = Chunker()
        self._said = array("Q")
        """How many bytes were said up to each line."""
        self._change: Line | None = None
        """The newest line that says what the window was."""
        self._since: list[Line] = []

    def take(self, line: Line, passages: Sequence[Passage] | None = None) -> None:
        """Take in the next line, with its whole body; its passages, where they are at hand."""
        entry = line.entry
        if self.first is None and line.turn != self._turn:
            self._turn, self.exchange = line.turn, []
        if line.turn == self._turn:
            self.exchange += self._chunker.passages(line) if passages is None else passages
        if self.first is None and isinstance(entry, UserMessage):
            self.first = line.seq
        said = self._said[-1] if self._said else 0
        self._said.extend([said] * (line.seq - len(self._said)))  # some cannot be read
        if isinstance(entry, _SAID):
            said += max(len(line.raw) - line.raw.count(b"\\") - _AROUND_TEXT, 0)
        self._said.append(said)
        if state_of(line) is not None:
            self._change, self._since = line, []
        elif line.channel != IMPORTED and self._change is not None:
            self._since.append(line)

    def tokens_through(self, last: int) -> int:
        """Roughly how much was said up to a line: nobody needs it exactly, and history is long."""
        return self._said[last] * 2 // CHARACTERS_IN_TWO_TOKENS

    def state(self, history: History) -> WindowState | None:
        """What the window was before the import, and what was set since; None if there was none."""
        if self._change is None:
            return None
        fold = self._fold(history)
        for line in self._since:
            fold.add(history.whole(line))
        return fold.state

    def everything(self, history: History) -> WindowState:
        """The same with all that was imported."""
        fold = self._fold(history)
        follow(fold, history)
        return fold.state

    def _fold(self, history: History) -> Fold:
        read = reader(history)
        if self._change is None:
            return Fold(read)
        return Fold.from_state(history.whole(self._change), read)


def plan_imported_window(
    transcript: Transcript, settings: Settings, index: RecallIndex, past: Past | None = None
) -> None:
    """Write down which part of an imported history is in the window.

    Runs after indexing: the first exchange is read back from the index, and the index has come to
    the end, so everything between is there too. Sizes are estimated from lengths, which costs a
    hundredth of counting; the first turn counts what is in the window. History is read where its
    `past` is not known from having written it.
    """
    with transcript.history() as history:
        if past is None:
            past = Past()
            for line in reading(history)(0):
                past.take(line)
        window, label = resolve_window(settings.context.window)
        prune = initial_prune(
            _newest_first(history),
            counter=LengthCounter(),
            room=room_for(window, label, settings.budget, settings.context.max_tokens),
            settings=settings,
            receipt=_proof(past, index),
            outside_tokens=past.tokens_through,
            task=None if past.first is None else history.line(past.first),
            state=past.state(history),
        )
        transcript.append(prune or WindowCarried(state=past.everything(history)))


def _newest_first(history: History) -> Iterator[Line]:
    for item in history.back():
        if isinstance(item, Line):
            yield history.whole(item)


def _proof(past: Past, index: RecallIndex) -> Receipt | None:
    """A receipt for the first exchange, read back now, if the index has come to the end."""
    if past.first is None or index.mark.seq < past.first:
        return None
    found = index.receipts(past.exchange)
    return found[0] if found else None
