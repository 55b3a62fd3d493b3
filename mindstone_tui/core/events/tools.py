"""Tools: asked about, started, running, ended; and the sub-agents that work for a turn."""

from __future__ import annotations

from mindstone_tui.core.entries.conversation import ToolStatus
from mindstone_tui.core.events.base import Event


class ToolAsked(Event):
    """The turn waits until `answer(call, …)` is called."""

    turn: int
    call: str
    name: str
    risk: str
    shown: str
    """Exactly what will run."""
    digest: str
    diff: str = ""
    why: str = ""
    remember: tuple[str, ...] = ()
    """Rules that can be remembered with the answer."""


class ToolStarted(Event):
    """A tool runs; its intent and its approval are on disk."""

    turn: int
    call: str
    name: str
    shown: str


class ToolOutput(Event):
    """Output while a tool runs; the result that counts comes with `tool_ended`."""

    turn: int
    call: str
    text: str


class ToolEnded(Event):
    """A tool's result is on disk."""

    turn: int
    call: str
    name: str
    entry: str
    status: ToolStatus
    text: str
    finding: str = ""
    diff: str = ""
    elapsed: float = 0.0


class DelegationEnded(Event):
    """A sub-agent brought something back."""

    turn: int
    child: str
    ending: str
    tokens: int
    cost: float | None


ToolEvent = ToolAsked | ToolStarted | ToolOutput | ToolEnded | DelegationEnded
