"""Originals as whatever is derived from them reads them: who said what, where, in order.

Summaries, handoffs, probes and proposals all start here and never from one another, so that
nothing drifts by being retold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from mindstone_tui.core.entries import Line, Part, Span, spans_of
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolApproved,
    ToolReturned,
    UserMessage,
)

Speaker = Literal["user", "assistant", "tool"]

_CALL_SHOWN: Final = 400


class Passage(Part):
    """One message or tool result, whole, with its place in history."""

    seq: int
    turn: int
    speaker: Speaker
    text: str
    entry: str = ""
    name: str = ""
    """The tool's name."""
    finding: str = ""
    """The deterministic line that stands for a tool result."""


def passages_of(lines: Iterable[Line]) -> tuple[Passage, ...]:
    """What was said and what tools gave back; bookkeeping and derived entries are no material."""
    found = (_passage(line) for line in lines)
    return tuple(passage for passage in found if passage is not None)


def _passage(line: Line) -> Passage | None:
    match line.entry:
        case UserMessage(text=text):
            return Passage(seq=line.seq, turn=line.turn, speaker="user", text=text, entry=line.id)
        case AssistantMessage(text=text, calls=calls):
            asked = [f"[called {call.name} {call.arguments[:_CALL_SHOWN]}]" for call in calls]
            said = "\n".join(filter(None, [text, *asked]))
            return Passage(
                seq=line.seq, turn=line.turn, speaker="assistant", text=said, entry=line.id
            )
        case AssistantPartial(text=text):
            return Passage(
                seq=line.seq, turn=line.turn, speaker="assistant", text=text, entry=line.id
            )
        case ToolReturned(text=text, name=name, finding=finding):
            return Passage(
                seq=line.seq,
                turn=line.turn,
                speaker="tool",
                text=text,
                entry=line.id,
                name=name,
                finding=finding,
            )
    return None


def approvals_of(lines: Iterable[Line]) -> tuple[str, ...]:
    """Permissions that outlive their call, as one sentence each."""
    return tuple(
        f"{line.entry.rule} is allowed ({line.entry.remember}, said by {line.entry.by})"
        for line in lines
        if isinstance(line.entry, ToolApproved) and line.entry.rule and line.entry.remember
    )


def as_text(passages: Iterable[Passage]) -> str:
    """The passages as a model reads them, each under its turn and speaker."""
    return "\n\n".join(
        f"[turn {passage.turn} · {passage.name or passage.speaker}]\n{passage.text}"
        for passage in passages
    )


def spans_over(passages: Sequence[Passage]) -> tuple[Span, ...]:
    """Which lines of history these are."""
    return spans_of(sorted({passage.seq for passage in passages}))
