"""Settings that contradict each other or make no sense, found before anything runs on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.errors import ConfigError, SessionNameError
from mindstone_tui.core.places import SessionKey

Origin = Callable[[str], str]
"""Where a key's value comes from, in words."""

_PERCENT: Final = (0.0, 100.0)
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "context.ceiling": (1, 100),
    "context.floor": (1, 100),
    "context.trim": (1, 100),
    "context.trim_to": (0, 100),
    "context.checkpoint": (1, 100),
    "context.emergency": (1, 100),
    "context.pin_budget": _PERCENT,
    "context.min_recent": (0, 10_000),
    "context.window": (0, 1e9),
    "context.keep_recent_tokens": (0, 1e9),
    "context.keep_trimmed": (0, 10_000),
    "context.placeholder_tokens": (0, 1_000),
    "eviction.fifo_half_life": (0.1, 1e6),
    "eviction.lru_half_life": (0.1, 1e6),
    "eviction.priority_half_life": (0.1, 1e6),
    "eviction.references": (1, 1e6),
    "eviction.duplicate": (0, 1),
    "cascade.tool_results": _PERCENT,
    "cascade.evict": _PERCENT,
    "cascade.progressive": _PERCENT,
    "cascade.compaction": _PERCENT,
    "cascade.delegate": _PERCENT,
    "cascade.target": _PERCENT,
    "cascade.result_tokens": (0, 1e9),
    "zones.yellow": _PERCENT,
    "zones.orange": _PERCENT,
    "zones.red": _PERCENT,
    "zones.hysteresis": (0, 20),
    "zones.velocity_turns": (1, 1_000),
    "zones.spike": (1, 1_000),
    "budget.system_prompt": _PERCENT,
    "budget.tool_definitions": _PERCENT,
    "budget.message_history": _PERCENT,
    "budget.tool_results": _PERCENT,
    "budget.memory_injection": _PERCENT,
    "budget.output_reserve": _PERCENT,
    "budget.soft": (1, 100),
    "recall.max_passages": (0, 1_000),
    "memory.digest_tokens": (0, 1e6),
    "memory.invariant_tokens": (0, 1e6),
    "memory.notes_tokens": (0, 1e6),
    "memory.standing_tokens": (0, 1e6),
    "health.sustained_turns": (1, 1_000),
    "health.utilization": _PERCENT,
    "health.eviction_rate": (0, 1e6),
    "health.compression_ratio": (0, 1e6),
    "health.burn_spike": (1, 1e6),
    "health.fidelity": (0, 1),
    "health.tool_bloat": _PERCENT,
    "tools.max_rounds": (1, 1_000),
    "tools.output_chars": (1_000, 1e7),
    "tools.shell_timeout": (0.1, 86_400),
    "models.timeout": (0.1, 86_400),
    "models.retries": (0, 20),
    "models.max_output": (0, 1e9),
    "models.turn_cost": (0, 1e6),
    "models.turn_tokens": (0, 1e12),
    "tui.notify_after": (0, 86_400),
}
_ASCENDING: Final = (
    ("context.trim_to", "context.trim", "context.emergency"),
    ("context.checkpoint", "context.emergency"),
    ("context.floor", "context.ceiling", "context.emergency"),
    ("zones.yellow", "zones.orange", "zones.red"),
)
_TABLES: Final = {"priority": True, "hybrid": True, "worth": False, "turns_to_live": False}
"""Tables of weights, and whether each must add up to 1."""
_SHARES: Final = (
    "system_prompt",
    "tool_definitions",
    "message_history",
    "tool_results",
    "memory_injection",
    "output_reserve",
)


def check(settings: Settings, origin: Origin) -> None:
    """Raise `ConfigError` for the first thing that is wrong, naming keys, values and origins."""

    def value(key: str) -> float:
        section, _, field = key.partition(".")
        number: float = getattr(getattr(settings, section), field)
        return number

    def said(key: str) -> str:
        return f"{key} is {value(key):g} ({origin(key)})"

    for key, (low, high) in _RANGES.items():
        if not low <= value(key) <= high:
            raise ConfigError(f"{said(key)}, which is out of range.", f"Use {low:,g} to {high:,g}.")
    for run in _ASCENDING:
        for lower, upper in pairwise(run):
            if value(lower) >= value(upper):
                raise ConfigError(
                    f"{said(lower)}, but must be below {upper}, which is {value(upper):g} "
                    f"({origin(upper)}).",
                    f"Set them so that {' < '.join(run)}.",
                )
    _check_early_marks(value, said, origin)
    _check_budget(settings)
    _check_cascade(settings, said)
    _check_tables(settings, origin)
    _check_others(settings, origin)


def _check_early_marks(
    value: Callable[[str], float], said: Callable[[str], str], origin: Origin
) -> None:
    """What happens before exchanges leave, unless only the ceiling was lowered, on its own."""
    ceiling = "context.ceiling"
    for early in ("context.trim", "context.checkpoint"):
        together = origin(ceiling) in (origin(early), "default") and origin(early) != "default"
        if together and value(early) > value(ceiling):
            raise ConfigError(
                f"{said(early)}, above the ceiling: {said(ceiling)}.",
                f"Set it at most as high as {ceiling}, or raise that.",
            )


def _check_budget(settings: Settings) -> None:
    total = sum(getattr(settings.budget, share) for share in _SHARES)
    if abs(total - 100) > 0.01:
        raise ConfigError(
            f"The shares in [budget] add up to {total:g}, not to 100.",
            f"Change one of {', '.join(_SHARES)}.",
        )


def _check_cascade(settings: Settings, said: Callable[[str], str]) -> None:
    steps = ("target", "tool_results", "evict", "progressive", "compaction", "delegate")
    for lower, upper in pairwise(steps):
        if getattr(settings.cascade, lower) > getattr(settings.cascade, upper):
            raise ConfigError(
                f"{said(f'cascade.{lower}')}, but may not be above cascade.{upper}.",
                f"Cheap steps come first: {' ≤ '.join(steps)}.",
            )
    first, second = settings.cascade.ages
    if not 0 < first < second:
        raise ConfigError(
            f"cascade.ages is {first}, {second}.", "Use two numbers of turns, the smaller first."
        )


def _check_tables(settings: Settings, origin: Origin) -> None:
    """Weights by name: none unknown, none negative, and those that are shares add up to 1."""
    defaults = type(settings.eviction)()
    for field, together in _TABLES.items():
        known: dict[str, float] = getattr(defaults, field)
        given: dict[str, float] = getattr(settings.eviction, field)
        where = f"eviction.{field} ({origin(f'eviction.{field}')})"
        if odd := sorted(given.keys() - known.keys()):
            raise ConfigError(f"{where} knows no {odd[0]!r}.", f"It has {', '.join(known)}.")
        if any(number < 0 for number in given.values()):
            raise ConfigError(f"{where} has a number below 0.", "Use 0 or more.")
        total = sum({**known, **given}.values())
        if together and abs(total - 1) > 0.001:
            raise ConfigError(
                f"The weights of {where} add up to {total:g}, not to 1.",
                f"Change one of {', '.join(known)}.",
            )
        if field == "turns_to_live" and 0 in given.values():
            raise ConfigError(f"{where} has 0 turns.", "Use 1 or more.")


def _check_others(settings: Settings, origin: Origin) -> None:
    try:
        SessionKey.parse(settings.session.default)
    except SessionNameError as error:
        raise ConfigError(
            f"session.default ({origin('session.default')}): {error.what}", error.remedy
        ) from error
    for name, server in settings.tools.mcp.items():
        if bool(server.command) == bool(server.url):
            raise ConfigError(
                f"The tool server {name!r} ({origin('tools.mcp')}) needs a command or a url, "
                "and not both.",
                f'Write, for example: [tools.mcp.{name}] command = ["program", "argument"].',
            )
    temperature = settings.models.temperature
    if temperature is not None and not 0 <= temperature <= 5:
        raise ConfigError(
            f"models.temperature is {temperature:g} ({origin('models.temperature')}).",
            "Use 0 to 2, or leave it out.",
        )
