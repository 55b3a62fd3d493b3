"""Work that is under way, as somebody who opens the session should hear of it."""

from __future__ import annotations

from typing import Final

from mindstone_tui.core.context.window import ReadLines
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.memory import TaskDone, TaskStarted
from mindstone_tui.core.foreign import one_line
from mindstone_tui.core.handoff.resuming import Resumption

BEFORE: Final = 64
"""Lines before a task's first message among which its start is looked for."""
_SHOWN: Final = 120
_DRIFT_SHOWN: Final = 300


def begun_as_task(read: ReadLines, first: int | None) -> bool:
    """Whether the message at this line is the first of a task that was started by name."""
    if first is None:
        return False
    for line in reversed(list(read(max(first - BEFORE, 0), first))):
        if isinstance(line.entry, TaskStarted):
            return True
        if isinstance(line.entry, TaskDone) or (
            isinstance(line.entry, UserMessage) and line.seq < first
        ):
            return False
    return False


def where_it_stands(found: Resumption) -> list[str]:
    """Where open work goes on, and what changed around it since it was written down."""
    checkpoint = found.checkpoint
    told = []
    if checkpoint.goal and checkpoint.subtasks:
        done, all_of_it = len(checkpoint.of("done")), len(checkpoint.subtasks)
        goal, at = one_line(checkpoint.goal, _SHOWN), one_line(found.resume_at, _SHOWN)
        told.append(f"Open work: {goal} ({done} of {all_of_it} done). It goes on with: {at}")
    if found.drift:
        shown = one_line(" ".join(found.drift), _DRIFT_SHOWN)
        told.append(f"Since checkpoint {checkpoint.version}: {shown}")
    return told
