"""Stage two: whole exchanges leave, from the ceiling down to the floor in one step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from mindstone_tui.core.context.eviction import Scored
from mindstone_tui.core.context.spans import said, single
from mindstone_tui.core.context.units import Exchange
from mindstone_tui.core.entries import Span
from mindstone_tui.core.entries.window import Left, Outside, Receipt

MARKER_TOKENS: Final = 80
"""Room set aside for the marker before its numbers are known."""
_GAPS_SAID: Final = 6


def next_batch(ranked: Iterable[Scored], excess: int) -> list[Scored]:
    """The first candidates whose leaving frees `excess`; never one more than needed."""
    taken: list[Scored] = []
    for scored in ranked:
        if excess <= 0:
            break
        taken.append(scored)
        excess -= scored.candidate.tokens
    return taken


def departure(
    unit: Exchange, scored: Scored | None, receipt: Receipt | None, why: str = ""
) -> Left:
    """The record of one exchange that leaves."""
    return Left(
        turn=unit.turn,
        span=unit.span,
        tokens=unit.freed,
        score=scored.score if scored else 0.0,
        reason=why or (scored.reason if scored else ""),
        parts=scored.parts if scored else {},
        receipt=receipt,
    )


def after_leaving(outside: Outside, gone: Sequence[Left]) -> Outside:
    """What is out of the window once these have left."""
    return Outside(
        exchanges=outside.exchanges + len(gone),
        tokens=outside.tokens + sum(each.tokens for each in gone),
        unindexed=outside.unindexed + sum(each.receipt is None for each in gone),
    )


def after_returning(outside: Outside, exchanges: int, tokens: int) -> Outside:
    """What is out of the window once some came back."""
    remaining = max(outside.exchanges - exchanges, 0)
    return Outside(
        exchanges=remaining,
        tokens=max(outside.tokens - tokens, 0) if remaining else 0,
        unindexed=min(outside.unindexed, remaining),
    )


def gaps(shown: Collection[int]) -> tuple[Span, ...]:
    """Turns that are missing between those that are shown."""
    if not shown:
        return ()
    missing = set(range(min(shown), max(shown))) - set(shown)
    return single(missing)


def marker_text(outside: Outside, shown: Collection[int], tools: Collection[str]) -> str:
    """One line for the model: how much is out of its window, and how to get it."""
    if not outside.exchanges:
        return ""
    one = outside.exchanges == 1
    parts = [
        f"{outside.exchanges:,} earlier exchange{'' if one else 's'} of this conversation "
        f"(about {outside.tokens:,} tokens) {'is' if one else 'are'} kept in its transcript but "
        "not shown here."
    ]
    if missing := gaps(shown):
        more = " and others" if len(missing) > _GAPS_SAID else ""
        parts.append(f"Missing between what is shown: turns {said(missing[:_GAPS_SAID])}{more}.")
    if "recall" in tools:
        parts.append("Search them with the recall tool; read_entry shows one by its id.")
    else:
        parts.append("What matters of them may be recalled below; do not guess the rest.")
    return "[" + " ".join(parts) + "]"
