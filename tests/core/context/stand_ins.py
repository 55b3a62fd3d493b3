"""Stand-ins for what a window needs: a counter to check by hand, an index, a quick disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mindstone_tui.core.context.window_view import ExchangeLines
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Message, ToolSchema
from mindstone_tui.core.entries.window import Receipt
from mindstone_tui.core.errors import IndexUnavailable
from tests.core.context.fake_models import words


class Words:
    """Counts words: a reader can check it."""

    method = "words"

    def text(self, text: str) -> int:
        return words(text)

    def message(self, message: Message) -> int:
        calls = "".join(str(call) for call in message.get("tool_calls") or ())
        return 4 + words(str(message.get("content") or "")) + words(calls)

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        return len(tools)

    def image(self, width: int, height: int) -> int:
        return width * height

    async def ready(self) -> None:
        """Nothing to load."""


class Index:
    """Gives receipts, unless it is broken."""

    broken = False

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        if self.broken:
            raise IndexUnavailable("The index is broken.")
        return {each.turn: Receipt(turn=each.turn, passages=1, digest="x") for each in turns}


class Unsynced(Disk):
    """A disk that is believed at once: these tests cut no power."""

    def sync(self, fd: int) -> None:
        """Nothing."""
