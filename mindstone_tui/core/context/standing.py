"""What stands at the front of every prompt, and which lines say so.

A window state names lines; here they are kept and read: the model, the instructions, the tools, the
handoff, the summaries and the marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mindstone_tui.core.context.messages import Key
from mindstone_tui.core.entries import Line, ToolSchema
from mindstone_tui.core.entries.memory import HandoffReplayed, SummaryDerived
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    InstructionsChanged,
    Left,
    ModeChanged,
    ModelChanged,
    PolicyChanged,
    Restored,
    Section,
    ToolsChanged,
    WindowState,
)
from mindstone_tui.core.errors import DamagedTranscript

_SINGLE_REFERENCES: Final = (
    "pruned",
    "model",
    "instructions",
    "tools",
    "mode",
    "policy",
    "task",
    "handoff",
    "plan",
)


class Standing:
    """The lines that a window state names, and what they say."""

    def __init__(self) -> None:
        self._state = WindowState(through=-1)
        self._references: dict[int, Line] = {}

    @property
    def model(self) -> str:
        """The session's model; empty before one was chosen."""
        entry = self._named(self._state.model)
        return entry.model if isinstance(entry, ModelChanged) else ""

    @property
    def model_changed(self) -> ModelChanged | None:
        """The entry that chose the session's model."""
        entry = self._named(self._state.model)
        return entry if isinstance(entry, ModelChanged) else None

    @property
    def sections(self) -> tuple[Section, ...]:
        """The standing part of the prompt."""
        entry = self._named(self._state.instructions)
        return entry.sections if isinstance(entry, InstructionsChanged) else ()

    @property
    def tools(self) -> tuple[ToolSchema, ...]:
        """The tool schemas that requests carry."""
        entry = self._named(self._state.tools)
        return entry.tools if isinstance(entry, ToolsChanged) else ()

    @property
    def mode(self) -> str | None:
        """How room is made, where the session says so itself."""
        entry = self._named(self._state.mode)
        return entry.mode if isinstance(entry, ModeChanged) else None

    @property
    def policy(self) -> str | None:
        """In which order things leave, where the session says so itself."""
        entry = self._named(self._state.policy)
        return entry.policy if isinstance(entry, PolicyChanged) else None

    @property
    def plan(self) -> Line | None:
        """The newest planned request of the conversation."""
        return None if self._state.plan is None else self._references.get(self._state.plan)

    @property
    def last_left(self) -> tuple[Left, ...]:
        """What left the window with the newest prune, oldest turn first."""
        entry = self._named(self._state.pruned)
        return entry.left if isinstance(entry, ContextWindowPruned) else ()

    @property
    def marker(self) -> str:
        """The line that tells the model what is out of its window."""
        entry = self._named(self._state.pruned)
        return entry.marker if isinstance(entry, ContextWindowPruned | Restored) else ""

    @property
    def derived(self) -> tuple[str, ...]:
        """The handoff and the summaries that stand in the head."""
        handoff = self._named(self._state.handoff)
        texts = [handoff.text] if isinstance(handoff, HandoffReplayed) else []
        summaries = (self._named(seq) for seq in self._state.summaries)
        return (*texts, *(entry.text for entry in summaries if isinstance(entry, SummaryDerived)))

    @property
    def derived_at(self) -> tuple[int, ...]:
        """The entries of `derived`, in the same order."""
        named = (self._state.handoff, *self._state.summaries)
        found = ((seq, self._named(seq)) for seq in named if seq is not None)
        kinds = (HandoffReplayed, SummaryDerived)
        return tuple(seq for seq, entry in found if isinstance(entry, kinds))

    def reference(self, seq: int | None) -> Line | None:
        """A line that the head or the tail of the prompt stands on, by its number."""
        return None if seq is None else self._references.get(seq)

    def head_text(self) -> str:
        """The system message."""
        parts = (*(section.text for section in self.sections), *self.derived, self.marker)
        return "\n\n".join(part for part in parts if part)

    def head_key(self) -> Key:
        """Names the exact bytes of the head and of the tools."""
        state = self._state
        return (
            "head",
            state.instructions,
            state.tools,
            state.handoff,
            state.summaries,
            self.marker,
        )

    def _named(self, seq: int | None) -> object:
        if seq is None:
            return None
        if seq not in self._references:
            raise missing(seq)
        return self._references[seq].entry


def references_of(state: WindowState) -> Iterator[int]:
    """Every line that a state names."""
    yield from (seq for name in _SINGLE_REFERENCES if (seq := getattr(state, name)) is not None)
    yield from dict.fromkeys((*state.trimmed.values(), *state.cut.values(), *state.summaries))


def missing(seq: int) -> DamagedTranscript:
    """The error for a line that the window needs and nobody can read."""
    return DamagedTranscript(
        f"Line {seq}, which the window is built from, cannot be read.",
        "Run `mindstone verify`, and restore the file from a backup.",
    )
