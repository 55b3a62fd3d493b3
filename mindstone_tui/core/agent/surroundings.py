"""What a turn finds around it, beside the desk it works at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mindstone_tui.core.agent.standing import Standing
from mindstone_tui.core.entries.memory import MemoryDigested
from mindstone_tui.core.events import AnyEvent


class Surroundings(Protocol):
    """Standing files, memories and tool servers; the session introduces its own."""

    async def make_ready(self) -> Sequence[AnyEvent]:
        """Have there what the first model call of a turn needs; what a person should know."""
        ...

    def standing(self) -> Standing:
        """The standing part of the prompt, read anew."""
        ...

    async def digest(self, text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """The memories that bear on a message, in so many tokens; None when none does."""
        ...


class Nothing:
    """No files, no memories, nothing to wait for: where a desk stands until it is told where."""

    async def make_ready(self) -> Sequence[AnyEvent]:
        """Nothing is needed."""
        return ()

    def standing(self) -> Standing:
        """Nothing stands."""
        return Standing(())

    async def digest(self, text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """Nothing is remembered."""
        return None
