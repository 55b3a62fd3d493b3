"""The first window of a session that came from elsewhere, thousands of turns long."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context import budget
from mindstone_tui.core.context.measure import Ledger
from mindstone_tui.core.context.messages import said
from mindstone_tui.core.context.pruning import marker_text
from mindstone_tui.core.context.spans import merged, single
from mindstone_tui.core.context.window import Placed
from mindstone_tui.core.entries import Line, Span
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Left,
    Outside,
    Receipt,
    WindowState,
)
from mindstone_tui.core.tokens import UNCALIBRATED, Counter


class _Fitting(msgspec.Struct, frozen=True, kw_only=True):
    """The exchanges that stay, and the newest line that does not."""

    kept: dict[int, list[Line]]
    tokens: int
    head: int
    first_out: Line


def initial_prune(
    newest_first: Iterable[Line],
    *,
    counter: Counter,
    room: budget.Room,
    settings: Settings,
    receipt: Receipt | None,
    outside_tokens: int = 0,
    task: Line | None = None,
    state: WindowState | None = None,
) -> ContextWindowPruned | None:
    """The prune that ends an import: the newest exchanges that fit under the floor stay.

    Reads only as many lines as the window holds. `receipt` proves that the imported turns were
    indexed before this is written; `task` is the first user message; `state` names what the session
    had before. None when everything fits.
    """
    marks = budget.marks(room, settings.context, settings.zones)
    found = _newest_that_fit(newest_first, Ledger(counter), marks.floor)
    if found is None:
        return None
    before = state or WindowState(through=-1)
    spans = single(line.seq for lines in found.kept.values() for line in lines)
    if task is not None:
        spans = merged((*spans, Span(task.seq, task.seq)))
    out = found.first_out.turn
    outside = Outside(
        exchanges=out, tokens=outside_tokens, unindexed=0 if receipt is not None else out
    )
    return ContextWindowPruned(
        left=(
            Left(
                turn=out,
                span=Span(0, found.first_out.seq),
                tokens=outside_tokens,
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
        tokens_before=found.tokens + outside_tokens,
        tokens_after=found.tokens,
        policy="fifo",
        trigger="import",
        marker=marker_text(outside, found.kept, ()) if settings.context.marker else "",
    )


def _newest_that_fit(newest_first: Iterable[Line], ledger: Ledger, floor: int) -> _Fitting | None:
    """Whole exchanges from the end, as long as they fit under a mark; None when all of them do."""
    kept: dict[int, list[Line]] = {}
    total, head, first_out = 0.0, -1, None
    for line in newest_first:
        head = max(head, line.seq)
        if line.turn not in kept and total > floor:
            first_out = line
            break
        kept.setdefault(line.turn, []).append(line)
        if said(line) is not None:
            total += ledger.message(Placed((line.seq, None, False), line)) * UNCALIBRATED
    if first_out is None or first_out.turn < 1:
        return None
    if len(kept) > 1 and total > floor:
        first_out = max(kept.pop(min(kept)), key=lambda line: line.seq)
    return _Fitting(kept=kept, tokens=round(total), head=head, first_out=first_out)
