"""What a turn has cost so far, and when that is enough."""

from __future__ import annotations

from typing import TypeVar

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Usage
from mindstone_tui.core.errors import MindstoneError

Number = TypeVar("Number", int, float)


def added(left: Usage, right: Usage) -> Usage:
    """Both together; what neither knows stays unknown."""
    return Usage(
        prompt=_sum(left.prompt, right.prompt),
        completion=_sum(left.completion, right.completion),
        cached=_sum(left.cached, right.cached),
        cache_written=_sum(left.cache_written, right.cache_written),
        reasoning=_sum(left.reasoning, right.reasoning),
        cost=_sum(left.cost, right.cost),
    )


def check_budget(spent: Usage, limits: ModelSettings) -> None:
    """Stop a turn that has become more expensive than it may be."""
    tokens = (spent.prompt or 0) + (spent.completion or 0)
    cost = spent.cost or 0.0
    if limits.turn_tokens and tokens > limits.turn_tokens:
        raise MindstoneError(
            f"This turn used {tokens:,} tokens; models.turn_tokens allows {limits.turn_tokens:,}.",
            "Say `continue` to go on, or raise the limit.",
        )
    if limits.turn_cost and cost > limits.turn_cost:
        raise MindstoneError(
            f"This turn cost ${cost:.2f}; models.turn_cost allows ${limits.turn_cost:.2f}.",
            "Say `continue` to go on, or raise the limit.",
        )


def _sum(left: Number | None, right: Number | None) -> Number | None:
    if left is None or right is None:
        return left if right is None else right
    return left + right
