"""What the window asks of whoever makes history findable: a receipt before anything leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from mindstone_tui.core.context.eviction import text_of
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import Receipt


class ExchangeLines(msgspec.Struct, frozen=True):
    """One exchange as it stands in history."""

    turn: int
    lines: tuple[Line, ...]

    @property
    def has_text(self) -> bool:
        """Whether there is anything to find."""
        return any(text_of(line).strip() for line in self.lines)


class Indexer(Protocol):
    """Makes exchanges findable and proves it by reading them back."""

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        """A receipt for each exchange that was read back; raises `RecallError` when none can be.

        An exchange without a receipt could not be indexed and stays in the window.
        """
        ...


def proven(exchange: ExchangeLines, receipts: Mapping[int, Receipt]) -> Receipt | None:
    """The exchange's receipt, if it proves anything."""
    receipt = receipts.get(exchange.turn)
    if receipt is None or receipt.turn != exchange.turn:
        return None
    return receipt if receipt.passages > 0 or not exchange.has_text else None
