"""The list of verbs: add a line here and a file beside it.

A family is a module with `register(app)`, which adds its verbs to a Typer app. Only the family
that is asked for is loaded; help loads them all, so a module defers whatever is slow to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

import typer

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "chat": ("chat",),
    "talk": ("run",),
    "history": ("sessions", "log", "verify"),
    "window": ("context",),
    "recalling": ("recall", "reindex"),
    "searching": ("search",),
    "continuity": ("task", "checkpoint", "handoff", "memory", "health"),
    "replaying": ("replay",),
    "comparing": ("compare",),
    "importing": ("import",),
    "exporting": ("export",),
    "models": ("models",),
    "config": ("config",),
    "doctor": ("doctor",),
}
"""Module in this package → the verbs it registers, in the order that help shows them."""

OPENING: Final = "chat"
"""The verb that `mindstone` alone stands for, once a family offers it."""


def register(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Add the verbs that these arguments may need."""
    named = _family_of(arguments)
    for family in [named] if named else FAMILIES:
        import_module(f"mindstone_tui.cli.{family}").register(app)


def known() -> frozenset[str]:
    """Every verb there is."""
    return frozenset(verb for verbs in FAMILIES.values() for verb in verbs)


def _family_of(arguments: Sequence[str]) -> str | None:
    """The family of the verb that comes first, if that much is certain."""
    first = next(iter(arguments), "")
    return next((family for family, verbs in FAMILIES.items() if first in verbs), None)
