"""A task from its start to its end: what `/task start`, `/task show` and `/task done` say."""

from __future__ import annotations

from collections.abc import Sequence

from mindstone_tui.core.entries.memory import TaskDone, TaskStarted
from mindstone_tui.core.errors import ContinuityError, UsageError
from mindstone_tui.core.handoff.checkpoint import GOAL_LENGTH, Checkpoint
from mindstone_tui.core.handoff.resuming import progress_text


def start(title: str, criteria: Sequence[str] = (), constraints: Sequence[str] = ()) -> TaskStarted:
    """The beginning of a task; what was said before it no longer counts as its goal."""
    goal = title.strip()
    if not goal:
        raise UsageError(
            "A task needs a title.", "Write /task start followed by what is to be done."
        )
    return TaskStarted(
        title=goal[:GOAL_LENGTH],
        criteria=tuple(one.strip() for one in criteria if one.strip()),
        constraints=tuple(one.strip() for one in constraints if one.strip()),
    )


def parse_start(argument: str) -> TaskStarted:
    """`title | when: criterion | rule: constraint …`, as it is typed."""
    title, *rest = (part.strip() for part in argument.split("|"))
    criteria = [part[5:] for part in rest if part.lower().startswith("when:")]
    rules = [part[5:] for part in rest if part.lower().startswith("rule:")]
    odd = [part for part in rest if not part.lower().startswith(("when:", "rule:"))]
    if odd:
        raise UsageError(
            f"{odd[0]!r} is neither a criterion nor a rule.",
            "Write /task start TITLE | when: CRITERION | rule: CONSTRAINT.",
        )
    return start(title, criteria, rules)


def done(checkpoint: Checkpoint, *, archived: str, trend: str = "") -> TaskDone:
    """The end of a task: what was finished, what was left, and where its checkpoint is kept."""
    if not checkpoint.goal:
        raise ContinuityError("There is no task to finish.", "/task start begins one.")
    finished, left = checkpoint.of("done"), [s for s in checkpoint.subtasks if s.status != "done"]
    lines = [
        checkpoint.goal,
        f"Finished: {'; '.join(one.title for one in finished) or 'no subtasks were named'}.",
        f"Left: {'; '.join(one.title for one in left)}." if left else "Nothing is left.",
        f"Decisions: {'; '.join(one.text for one in checkpoint.decisions[-5:])}"
        if checkpoint.decisions
        else "",
        f"Unsolved: {'; '.join(one.text for one in checkpoint.issues)}"
        if checkpoint.issues
        else "",
        trend,
    ]
    return TaskDone(
        title=checkpoint.goal.splitlines()[0][:200],
        summary="\n".join(filter(None, lines)),
        checkpoint=archived,
    )


def show(checkpoint: Checkpoint) -> str:
    """The task as it stands."""
    if not checkpoint.goal:
        return "No task is under way. /task start begins one."
    return progress_text(checkpoint)
