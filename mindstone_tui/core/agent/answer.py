"""A stream of deltas gathered into one answer, however the provider cut it up."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mindstone_tui.core.entries import ToolCall
from mindstone_tui.core.entries.conversation import Thinking
from mindstone_tui.core.providers.base import CallDelta, TextPart, ThinkingPart

LONGEST_ARGUMENTS: Final = 4 << 20
"""Characters of tool arguments that are kept; a model that sends more has lost its way."""


class Gathering:
    """What a model has said so far in one call."""

    def __init__(self, turn: int, call: int, taken: Collection[str] = ()) -> None:
        self._turn = turn
        self._call = call
        self._taken = frozenset(taken)
        """Ids that earlier calls of this turn have: some models begin anew in every answer."""
        self._text: list[str] = []
        self._thinking: list[Thinking] = []
        self._open_thought: list[str] = []
        self._calls: dict[int, ToolCall] = {}

    def take(self, delta: TextPart | ThinkingPart | CallDelta) -> None:
        """Add a piece in the order it came."""
        match delta:
            case TextPart(text=text):
                self._text.append(text)
            case ThinkingPart():
                self._think(delta)
            case CallDelta():
                self._ask(delta)

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self._text)

    @property
    def thinking(self) -> tuple[Thinking, ...]:
        """The reasoning, block by block."""
        rest = "".join(self._open_thought)
        return (*self._thinking, Thinking(text=rest)) if rest else tuple(self._thinking)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, each with an id of its own even if the provider forgot or repeated it."""
        taken = set(self._taken)
        calls = []
        for index, call in sorted(self._calls.items()):
            if not call.name:
                continue
            own = call.id
            while not own or own in taken:
                own = f"call_{self._turn}_{self._call}_{index}_{len(taken)}"
            taken.add(own)
            calls.append(ToolCall(id=own, name=call.name, arguments=call.arguments or "{}"))
        return tuple(calls)

    def _think(self, delta: ThinkingPart) -> None:
        self._open_thought.append(delta.text)
        if delta.signature or delta.redacted:
            text = "".join(self._open_thought)
            self._thinking.append(
                Thinking(text=text, signature=delta.signature, redacted=delta.redacted)
            )
            self._open_thought.clear()

    def _ask(self, delta: CallDelta) -> None:
        before = self._calls.get(delta.index, ToolCall(id="", name="", arguments=""))
        room = LONGEST_ARGUMENTS - len(before.arguments)
        self._calls[delta.index] = ToolCall(
            id=before.id or delta.id,
            name=before.name or delta.name,
            arguments=before.arguments + delta.arguments[:room],
        )
