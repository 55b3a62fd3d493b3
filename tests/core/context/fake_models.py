"""Fake models for side calls: they say what a test tells them to, and remember what they saw."""

from __future__ import annotations

from collections.abc import Sequence

from mindstone_tui.core.context.extract import SourceMessage
from mindstone_tui.core.entries import Message
from mindstone_tui.core.statements.statement import Speaker


class Saying:
    """Gives its replies in order, the last for ever; an exception is raised instead of said."""

    def __init__(self, *replies: str | Exception) -> None:
        self._replies = list(replies)
        self.seen: list[tuple[str, list[Message]]] = []

    async def __call__(self, purpose: str, messages: Sequence[Message]) -> str:
        self.seen.append((purpose, list(messages)))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def words(text: str) -> int:
    """A token counter that a reader of a test can check."""
    return len(text.split())


def passage(
    seq: int, speaker: Speaker, text: str, *, turn: int = 1, name: str = ""
) -> SourceMessage:
    """A passage with the least said about it."""
    return SourceMessage(seq=seq, turn=turn, speaker=speaker, text=text, name=name)
