"""Work that is under way, as somebody who opens the session should hear of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mindstone_tui.core.context.fold import ReadLines
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import SummaryDerived, TaskDone, TaskStarted
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.handoff.resume import Resumption
from mindstone_tui.core.text import one_line

TASK: Final = "task"
"""The section of the prompt's head that states the task."""
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


def task_section(task: TaskStarted) -> Section:
    """A task as the head of every prompt says it: in the person's words, until it is done."""
    when = ["Done when:", *(f"- {one}" for one in task.criteria)] if task.criteria else []
    rules = ["Rules that bind:", *(f"- {one}" for one in task.constraints)]
    text = "\n".join(
        ["The task under way:", task.title, *when, *(rules if task.constraints else [])]
    )
    return Section(name=TASK, text=text, source="/task start", raw_size=len(text))


def running_task(newest_first: Iterable[Line], standing: Iterable[Section]) -> Section | None:
    """The task under way, from the end of history, else as the newest prompts say it."""
    for line in newest_first:
        if isinstance(line.entry, TaskStarted):
            return task_section(line.entry)
        if isinstance(line.entry, TaskDone):
            return None
    return next((section for section in standing if section.name == TASK), None)


def summary_text(read: ReadLines, seq: int) -> str:
    """The summary that a line derived; empty when it is none."""
    found = (line.entry.text for line in read(seq, seq) if isinstance(line.entry, SummaryDerived))
    return next(found, "")


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
