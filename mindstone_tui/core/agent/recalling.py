"""Recall as a turn asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mindstone_tui.core.context.window import Fold
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.memory import RecallInjected
from mindstone_tui.core.recall.injecting import Vacancy


class Recaller(Protocol):
    """Finds what was said before, for one turn."""

    on: bool

    async def gather(self, text: str, vacancy: Vacancy) -> RecallInjected | None:
        """The passages worth bringing back for a message; None when nothing is good enough."""
        ...

    def switch(self, *, on: bool) -> None:
        """Recall before each turn, or only when asked."""
        ...

    def drop(self, session: str, entry: str) -> None:
        """Keep an entry out of automatic recall."""
        ...


def vacancy_beside(fold: Fold, tokens: int, count: Callable[[str], int]) -> Vacancy:
    """The place that a window leaves to recalled passages."""
    return Vacancy(shown=fold.lines.keys(), recent=recent_texts(fold), tokens=tokens, count=count)


def recent_texts(fold: Fold) -> list[str]:
    """What was said last before the newest message, for questions that lean on it."""
    said = [
        line.entry.text
        for line in fold.lines.values()
        if isinstance(line.entry, UserMessage | AssistantMessage) and line.entry.text
    ]
    return said[-3:-1]
