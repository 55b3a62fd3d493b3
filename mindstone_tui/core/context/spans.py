"""Sets of sequence numbers as runs: small on disk however long the window is."""

from __future__ import annotations

from collections.abc import Iterable

from mindstone_tui.core.entries import Span


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same numbers as the fewest runs, ascending."""
    result: list[Span] = []
    for span in sorted(spans):
        if span.last < span.first:
            continue
        if result and span.first <= result[-1].last + 1:
            result[-1] = Span(result[-1].first, max(result[-1].last, span.last))
        else:
            result.append(span)
    return tuple(result)


def without(spans: Iterable[Span], removed: Iterable[Span]) -> tuple[Span, ...]:
    """The numbers of `spans` that are in none of `removed`."""
    gone = merged(removed)
    result: list[Span] = []
    for span in merged(spans):
        first = span.first
        for hole in gone:
            if hole.last < first:
                continue
            if hole.first > span.last:
                break
            if hole.first > first:
                result.append(Span(first, hole.first - 1))
            first = hole.last + 1
        if first <= span.last:
            result.append(Span(first, span.last))
    return tuple(result)


def within(spans: Iterable[Span], allowed: Iterable[Span]) -> tuple[Span, ...]:
    """The numbers that are in both."""
    kept = merged(spans)
    return without(kept, without(kept, allowed))


def holds(spans: Iterable[Span], seq: int) -> bool:
    """Whether one of the runs has this number."""
    return any(seq in span for span in spans)


def single(seqs: Iterable[int]) -> tuple[Span, ...]:
    """Numbers in any order as runs."""
    return merged(Span(seq, seq) for seq in seqs)


def said(spans: Iterable[Span]) -> str:
    """Runs as people write them: `2–35, 40`."""
    return ", ".join(
        str(span.first) if span.first == span.last else f"{span.first}–{span.last}"
        for span in spans
    )
