"""Hostile hands, case by case: one line a case, one verdict at the end.

`make red` runs every room at full size, `make red ROOM=damage` one of them; the suite runs a small
part of each. A room yields a case as soon as it was tried, so that whoever watches sees how far it
is; a case without a problem held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Case(msgspec.Struct, frozen=True):
    """One thing that was tried."""

    name: str
    problem: str = ""
    """What did not hold; empty when everything did."""
    skipped: str = ""
    """Why it could not be tried here."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """Where a room may work, and how much of it is wanted."""

    base: Path
    """An empty folder of its own."""
    small: bool
    every: int = 1
    """One case in so many, on a machine that has little time."""

    def some(self, cases: Sequence[T]) -> Sequence[T]:
        """The cases that are wanted."""
        return cases[:: self.every]

    def sized(self, small: int, full: int) -> int:
        """How many cases to try."""
        return small if self.small else full

    def folder(self, name: str) -> Path:
        """A new folder for one case."""
        made = self.base / name
        made.mkdir(parents=True)
        return made


Room = Callable[[Tried], Iterator[Case]]
