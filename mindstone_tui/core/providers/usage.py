"""Reads what a provider says it counted.

Servers name the same figures in different ways and sometimes report nonsense. A figure that is not
a whole number from 0 up is unknown (None), never guessed and never 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from mindstone_tui.core.entries import Usage

_NAMES = {
    "prompt": ("prompt", "prompt_tokens", "input_tokens"),
    "completion": ("completion", "completion_tokens", "output_tokens"),
    "cached": (
        "cached",
        "cache_read_input_tokens",
        "prompt_cache_hit_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
    ),
    "cache_written": (
        "cache_written",
        "cache_creation_input_tokens",
        "prompt_tokens_details.cache_creation_tokens",
    ),
    "reasoning": (
        "reasoning",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
    ),
}


def usage_of(report: object) -> Usage:
    """The figures in a provider's usage report, whatever it calls them."""
    figures = {
        name: next((count for path in paths if (count := _count(report, path)) is not None), None)
        for name, paths in _NAMES.items()
    }
    cost = field(report, "cost")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
    return Usage(**figures, cost=float(cost) if known else None)  # type: ignore[arg-type]


def field(value: object, name: str) -> object:
    """A field of a mapping or of an object; None when there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _count(report: object, path: str) -> int | None:
    for name in path.split("."):
        report = field(report, name)
    if isinstance(report, bool) or not isinstance(report, int) or not 0 <= report < 1 << 53:
        return None
    return report
