"""Exchanges and tool results as a policy sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mindstone_tui.core.config.settings import EvictionSettings
from mindstone_tui.core.context.eviction import (
    NEEDS_REFERENCES,
    Candidate,
    Scored,
    Similarity,
    marked_important,
    rank,
    source_of,
    text_of,
)
from mindstone_tui.core.context.references import Referenced, references
from mindstone_tui.core.context.units import Exchange
from mindstone_tui.core.context.window import Fold
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage

_TEXT: Final = 4_000
"""Characters of an exchange that a policy compares."""


def rank_exchanges(
    fold: Fold,
    units: Sequence[Exchange],
    policy: str,
    similar: Similarity,
    how: EvictionSettings,
) -> list[Scored]:
    """Exchanges in the order in which they leave."""
    known = _references(fold, policy)
    return rank(
        policy,
        [_exchange(unit, known) for unit in units],
        now=fold.turn,
        query=question(fold),
        similar=similar,
        how=how,
    )


def rank_results(
    fold: Fold,
    results: Sequence[tuple[Line, int]],
    policy: str,
    similar: Similarity,
    how: EvictionSettings,
) -> list[Scored]:
    """Tool results, each with its size, in the order in which they are trimmed."""
    known = _references(fold, policy)
    return rank(
        policy,
        [_result(line, size, known) for line, size in results],
        now=fold.turn,
        query=question(fold),
        similar=similar,
        how=how,
    )


def question(fold: Fold) -> str:
    """What the person said last."""
    for line in reversed(fold.lines.values()):
        if isinstance(line.entry, UserMessage):
            return line.entry.text
    return ""


def _references(fold: Fold, policy: str) -> Mapping[int, Referenced]:
    if policy not in NEEDS_REFERENCES:
        return {}
    return references(fold.lines.values(), fold.recalls.values())


def _exchange(unit: Exchange, known: Mapping[int, Referenced]) -> Candidate:
    weights: dict[str, int] = {}
    for line, size in zip(unit.lines, unit.sizes, strict=True):
        weights[source_of(line)] = weights.get(source_of(line), 0) + size
    seen = known.get(unit.turn, Referenced(unit.turn))
    return Candidate(
        key=unit.turn,
        turn=unit.turn,
        tokens=unit.freed,
        text=" ".join(text_of(line)[:_TEXT] for line in unit.lines)[:_TEXT],
        weights=weights,
        referenced=seen.last,
        references=seen.count,
        important=marked_important(unit.lines),
    )


def _result(line: Line, size: int, known: Mapping[int, Referenced]) -> Candidate:
    seen = known.get(line.turn, Referenced(line.turn))
    return Candidate(
        key=line.seq,
        turn=line.turn,
        tokens=size,
        text=text_of(line)[:_TEXT],
        weights={"tool_result": size},
        referenced=seen.last,
        references=seen.count,
    )
