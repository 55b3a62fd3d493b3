"""The first window of an imported session: the newest exchanges that fit, the rest indexed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.budget import resolve_window, room_for
from mindstone_tui.core.context.importing import initial_prune
from mindstone_tui.core.context.view import open_fold, reader
from mindstone_tui.core.context.window import Fold, state_of
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Receipt,
    WindowCarried,
    WindowState,
)
from mindstone_tui.core.places import SessionPlaces
from mindstone_tui.core.recall.chunks import passages_of
from mindstone_tui.core.recall.index import RecallIndex
from mindstone_tui.core.tokens import counter_for, rough_count
from mindstone_tui.core.transcript import History, Transcript

CHANNEL: Final = "import"


def settle(places: SessionPlaces, settings: Settings, index: RecallIndex) -> None:
    """Write down which part of an imported history is in the window.

    Runs after indexing: the newest exchange that stays outside is read back from the index, and
    the index has come at least as far, so everything before it is there too.
    """
    with History(places, may_store_offsets=True) as history:
        before = _state_before(history)
        window, label = resolve_window(settings.context.window)

        def plan(outside_tokens: int) -> ContextWindowPruned | None:
            return initial_prune(
                _newest_first(history),
                counter=counter_for(""),
                room=room_for(window, label, settings.budget),
                settings=settings,
                receipt=_proof(history, index),
                outside_tokens=outside_tokens,
                task=_first_message(history),
                state=before,
            )

        prune = plan(0)
        if prune is not None:
            prune = plan(_tokens_through(history, prune.left[-1].span.last))
        transcript = Transcript(places, channel=CHANNEL, create=False)
        try:
            transcript.append(prune or WindowCarried(state=open_fold(history).state))
        finally:
            transcript.close()


def _state_before(history: History) -> WindowState | None:
    """What the window was before the import, and what was set since; None where there was none.

    Imported lines are passed over: which of them are in the window is decided here, and holding
    them would cost as much memory as the file that they came from.
    """
    for item in history.back():
        if isinstance(item, Line) and state_of(item) is not None:
            fold = Fold.from_state(history.whole(item), reader(history))
            for later in history.read(item.seq + 1):
                if isinstance(later, Line) and later.channel != CHANNEL:
                    fold.add(history.whole(later))
            return fold.state
    return None


def _tokens_through(history: History, last: int) -> int:
    """Roughly how much was said up to a line: nobody needs it exactly, and history is long."""
    return sum(
        rough_count(item.entry.text)
        for item in history.read(0, last)
        if isinstance(item, Line)
        and isinstance(item.entry, UserMessage | AssistantMessage | ToolReturned)
    )


def _newest_first(history: History) -> Iterator[Line]:
    for item in history.back():
        if isinstance(item, Line):
            yield history.whole(item)


def _first_message(history: History) -> Line | None:
    for item in history.read():
        if isinstance(item, Line) and isinstance(item.entry, UserMessage):
            return item
    return None


def _proof(history: History, index: RecallIndex) -> Receipt | None:
    """A receipt for the first exchange, read back now, if the index has come to the end."""
    first = _first_message(history)
    if first is None or index.mark.seq < first.seq:
        return None
    found = index.receipts(passages_of(history.turn(first.turn)))
    return found[0] if found else None
