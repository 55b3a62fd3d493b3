"""A line in words, for people who read a transcript outside the app."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mindstone_tui.core.entries import Entry, Line, Unknown
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    AssistantPartial,
    ToolCalled,
    ToolReturned,
    UserMessage,
)

_SILENT: Final = frozenset({"kind", "state", "digest", "salt"})
"""Fields that say nothing to a person."""


def heading(line: Line) -> str:
    """Number, turn and kind: `#12  turn 3  user_message`."""
    return f"#{line.seq}  turn {line.turn}  {line.kind}"


def wording(line: Line) -> str:
    """What the line says: its text, or its fields."""
    match line.entry:
        case AssistantMessage(text=text, calls=calls):
            wishes = [f"→ {call.name} {call.arguments}" for call in calls]
            return "\n".join([text, *wishes] if text else wishes)
        case UserMessage(text=text) | AssistantPartial(text=text):
            return text
        case ToolCalled(shown=shown):
            return shown
        case ToolReturned(name=name, status=status, finding=finding, text=text):
            return f"{name}: {status}: {finding or text}"
        case Unknown(fields=fields):
            return _fields(fields)
        case Entry() as entry:
            return _fields(msgspec.to_builtins(entry))


def _fields(fields: dict[str, Any]) -> str:
    return "  ".join(
        f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in fields.items()
        if name not in _SILENT
    )
