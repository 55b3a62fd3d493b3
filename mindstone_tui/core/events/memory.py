"""What outlives the window: rules, memories, checkpoints, handoffs."""

from __future__ import annotations

from mindstone_tui.core.events.base import Event


class InstructionOffered(Event):
    """Something that sounds like a lasting rule was said: pin or remember it?"""

    turn: int
    entry: str
    text: str


class MemoryProposed(Event):
    """A memory is proposed; nothing is stored until a person agrees."""

    proposal: str
    path: str
    before: str
    after: str
    why: str
    sources: tuple[int, ...]


class CheckpointSaved(Event):
    """The task's state was written down."""

    turn: int
    version: int
    path: str


class HandoffWritten(Event):
    """A handoff for the next window was written."""

    turn: int
    path: str


MemoryEvent = InstructionOffered | MemoryProposed | CheckpointSaved | HandoffWritten
