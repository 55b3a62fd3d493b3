"""Stage one: older tool results become a placeholder with their finding and a way back.

Only tool results, only in the prompt, only in batches worth the cache they cost. History keeps
every result whole, and what is a placeholder already is never touched again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from mindstone_tui.core.context.clipping import one_line
from mindstone_tui.core.context.eviction import Scored
from mindstone_tui.core.context.measure import Measured
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned
from mindstone_tui.core.entries.window import Trimmed

FINDING_TOKENS: Final = 50
WORTHWHILE: Final = 0.05
"""Share of the usable room that a batch must free."""
_LEAST_SAVED: Final = 32
"""Tokens that one placeholder must save."""


def trimmable(
    measured: Measured, *, trimmed: Container[int], pins: Container[int], keep: int
) -> list[tuple[Line, int]]:
    """Results that a later model call already answered, except the newest few and pinned ones."""
    found: list[tuple[Line, int]] = []
    answered = -1
    for piece, size in zip(measured.pieces, measured.sizes, strict=True):
        if piece.line is None:
            continue
        if isinstance(piece.line.entry, AssistantMessage):
            answered = max(answered, piece.line.seq)
        elif isinstance(piece.line.entry, ToolReturned):
            found.append((piece.line, size))
    older = found[: max(len(found) - keep, 0)]
    return [
        (line, size)
        for line, size in older
        if line.seq < answered and line.seq not in trimmed and line.turn not in pins
    ]


def placeholder(line: Line, count: Callable[[str], int], most: int = FINDING_TOKENS) -> str:
    """What stands in the prompt for a result: where it came from, what it found, how to get it."""
    entry = line.entry
    assert isinstance(entry, ToolReturned)
    finding = one_line(entry.finding or entry.text, most, count)
    stop = "" if finding.endswith((".", "!", "?", "…")) else "."
    said = f" Finding: {finding}{stop}" if finding else ""
    return (
        f"[Not shown: result of {entry.name}, turn {line.turn}.{said} "
        f"The whole result is entry {line.id}; read_entry shows it.]"
    )


def plan_trim(
    ranked: Sequence[Scored],
    lines: dict[int, Line],
    *,
    excess: int,
    least: float,
    finding: int,
    factor: float,
    count: Callable[[str], int],
) -> list[Trimmed]:
    """Take results in order until `excess` is freed; none when that frees less than `least`."""
    taken: list[Trimmed] = []
    freed = 0
    for scored in ranked:
        if freed >= excess:
            break
        text = placeholder(lines[scored.candidate.key], count, finding)
        after = round((count(text) + 4) * factor)
        saved = scored.candidate.tokens - after
        if saved < _LEAST_SAVED:
            continue
        freed += saved
        taken.append(
            Trimmed(
                result=scored.candidate.key,
                placeholder=text,
                tokens_before=scored.candidate.tokens,
                tokens_after=after,
                score=scored.score,
                reason=scored.reason,
            )
        )
    return taken if freed >= least else []
