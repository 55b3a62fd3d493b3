"""Which line of history a person or a model means."""

from __future__ import annotations

import re

from mindstone_tui.core.context.window import Fold
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.transcript import History


def line_meant_by(pointer: str, history: History, fold: Fold) -> Line:
    """The line behind an id, a number (`#42`), a call or a turn (`turn 7`)."""
    pointer = pointer.strip()
    if turn := re.fullmatch(r"(?:turn\s*|t)(\d+)", pointer):
        lines = history.turn(int(turn[1]))
        if not lines:
            raise NoSuchEntry(f"There is no turn {turn[1]}.", "`/status` names the newest.")
        return next((line for line in lines if line.role == "user"), lines[0])
    if number := re.fullmatch(r"#?(\d+)", pointer):
        return history.line(int(number[1]))
    for line in fold.lines.values():
        if isinstance(line.entry, ToolReturned) and line.entry.call == pointer:
            return line
    return history.find(pointer)
