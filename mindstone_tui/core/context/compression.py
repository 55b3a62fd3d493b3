"""Making what the window cannot hold shorter: five strategies in a table.

Each works from the originals and never from a summary, and returns a value; history is never
touched, and when nothing is gained nothing is replaced. How a text is written, audited and, where
a model fails, chosen from the originals stands in `scribe`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from mindstone_tui.core.context.extract import as_notes, notes_form, notes_kept, titles, verbatim
from mindstone_tui.core.context.facts import SURVIVORS, Limits
from mindstone_tui.core.context.scribe import (
    Material,
    Order,
    Scribe,
    Summary,
    Unchanged,
    binding,
    derive,
    joined,
    settled,
    tokens_of,
)
from mindstone_tui.core.errors import UnknownName

__all__ = [
    "STRATEGIES",
    "Material",
    "Scribe",
    "Strategy",
    "Summary",
    "Unchanged",
    "level_of",
    "strategy",
]

DELEGATED_RESULT: Final = 2_000
"""The most that a sub-agent may bring back, in tokens."""
AGES: Final = (5, 20)
"""Ages in turns up to which the first and the second level hold; the last, a title, has no end."""
SHARES: Final = (1.0, 0.30, 0.05)
"""How much of its text remains of an exchange, by level."""


_SPARSE: Final = Limits(decisions=0, errors=0, paths=4, identifiers=6, numbers=4)

Strategy = Callable[[Material, Scribe], Awaitable[Summary | Unchanged]]


async def conversation_compaction(material: Material, scribe: Scribe) -> Summary | Unchanged:
    """Headed bullets from which the work can go on; rules and open items stay word for word."""
    before = tokens_of(material, scribe)
    order = Order(
        strategy="conversation_compaction",
        prompt="compaction",
        material=material,
        target=_within(before * 15 // 100, 120, 4_000),
        before=before,
    )
    return await derive(order, scribe)


async def notes(material: Material, scribe: Scribe) -> Summary | Unchanged:
    """Self-contained notes, a line each, from what was said."""
    before = tokens_of(material, scribe)
    order = Order(
        strategy="notes",
        prompt="notes",
        material=material,
        target=_within(before * 15 // 100, 80, 2_000),
        before=before,
        plain=as_notes,
        keep=notes_kept,
        form=notes_form,
        stands_in=False,
    )
    return await derive(order, scribe)


async def tool_result_summary(material: Material, scribe: Scribe) -> Summary | Unchanged:
    """The finding of one long tool result, at about a fifth of its length."""
    before = tokens_of(material, scribe)
    if before <= scribe.short_result:
        why = f"a result of {before} tokens is short enough"
        return Unchanged(strategy="tool_result_summary", why=why)
    order = Order(
        strategy="tool_result_summary",
        prompt="tool_result",
        material=material,
        target=_within(before // 5, 60, 1_000),
        before=before,
        limits=Limits(decisions=0, errors=3, paths=8, identifiers=8, numbers=6),
    )
    return await derive(order, scribe)


async def progressive(material: Material, scribe: Scribe) -> Summary | Unchanged:
    """The older an exchange, the less of it: about 30 %, 5 %, then a title."""
    before = tokens_of(material, scribe)
    if material.level < 1:
        return Unchanged(strategy="progressive", why="the current exchange stays as it is")
    if material.level >= len(SHARES):
        order = Order(
            strategy="progressive",
            prompt="",
            material=material,
            target=0,
            before=before,
            limits=Limits(paths=0, identifiers=0, numbers=0),
        )
        text = titles(material.passages)
        text = joined(text, verbatim(binding(order), material.approvals, text))
        return settled(order, text, scribe)
    share = SHARES[material.level]
    order = Order(
        strategy="progressive",
        prompt="progressive",
        material=material,
        target=_within(int(before * share), 40, 8_000),
        before=before,
        limits=SURVIVORS if material.level == 1 else _SPARSE,
        percent=f"{share:.0%}",
    )
    return await derive(order, scribe)


async def sub_agent(material: Material, scribe: Scribe) -> Summary | Unchanged:
    """What a sub-agent brought back, within its bound; a short result passes as it is."""
    before = tokens_of(material, scribe)
    if before <= DELEGATED_RESULT:
        return Unchanged(strategy="sub_agent", why=f"a result of {before} tokens is short enough")
    order = Order(
        strategy="sub_agent",
        prompt="sub_agent",
        material=material,
        target=DELEGATED_RESULT * 3 // 4,
        before=before,
        limits=_SPARSE,
        stands_in=False,
    )
    return await derive(order, scribe)


STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {
        "conversation_compaction": conversation_compaction,
        "notes": notes,
        "tool_result_summary": tool_result_summary,
        "progressive": progressive,
        "sub_agent": sub_agent,
    }
)


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name not in STRATEGIES:
        raise UnknownName(
            f"There is no compression strategy {name!r}.", f"Choose from {', '.join(STRATEGIES)}."
        )
    return STRATEGIES[name]


def level_of(age: int, ages: tuple[int, int] = AGES) -> int:
    """The level of an exchange that is `age` turns old: 0 is the current one, 3 has no end."""
    return next((level for level, oldest in enumerate((0, *ages)) if age <= oldest), len(SHARES))


def _within(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
