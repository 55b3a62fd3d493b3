"""Going on where the last window stopped, in five steps, without working anything out again.

Orient, load and validate, verify the environment, inject by priority, resume. Constraints are
never left out and come first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from mindstone_tui.core import entries, errors
from mindstone_tui.core.context.summary_call import Count
from mindstone_tui.core.entries.derived import TaskDone, TaskStarted
from mindstone_tui.core.handoff import handoff
from mindstone_tui.core.handoff.checkpoint import (
    GOAL_LENGTH,
    Checkpoint,
    Sourced,
    Subtask,
    fitted,
    validate,
)
from mindstone_tui.core.handoff.environment import Environment, drift, environment_text
from mindstone_tui.core.language.replacement import says_more

DONE_SHOWN: Final = 10
OPEN_SHOWN: Final = 10
DECISIONS_SHOWN: Final = 5

_CORRECTS: Final = ("correction", "correction?")
"""Kinds of constraints that end when they are corrected themselves; rules never do."""
_MARKS: Final = {"done": "x", "in_progress": "~", "planned": " "}


class ResumeStep(entries.Part):
    """One step of the bootstrap and what came of it."""

    name: str
    detail: str
    ok: bool = True


class Resumption(entries.Part):
    """A window that is ready to go on."""

    checkpoint: Checkpoint
    steps: tuple[ResumeStep, ...]
    drift: tuple[str, ...]
    warnings: tuple[str, ...]
    block: str
    """What the model is told."""
    resume_at: str
    """The subtask to go on with."""


def bootstrap(
    load: Callable[[], Checkpoint],
    observe: Callable[[Iterable[str]], Environment],
    count: Count,
    budget: int = 2_000,
    summary_at: Callable[[int], str] = lambda _seq: "",
    corrected: Callable[[Checkpoint], Mapping[tuple[int, tuple[str, ...]], str]] = lambda _: {},
    put_back: Callable[[Checkpoint], Sequence[str]] = lambda _: (),
    by_now: Callable[[Checkpoint], Checkpoint] = lambda saved: saved,
) -> Resumption:
    """Take the five steps; a checkpoint that is refused ends them with its reason.

    `summary_at` reads the summary that a line of history derived, `corrected` says what of it was
    judged afterwards to hold no longer, `put_back` which turns' changes to files do not stand,
    `by_now` how the task stands now, which knows what was answered since.
    """
    steps = [ResumeStep(name="orient", detail=_position(observe(())))]
    checkpoint = load()
    checked = validate(checkpoint)
    steps.append(
        ResumeStep(
            name="load", detail=f"version {checkpoint.version} of {checkpoint.saved_at}, valid"
        )
    )
    now = observe(file.path for file in checkpoint.environment.files)
    gone = corrected(checkpoint)
    changed = (*drift(checkpoint.environment, now), *gone.values(), *put_back(checkpoint))
    steps.append(
        ResumeStep(name="verify", detail=" ".join(changed) or "nothing has changed", ok=not changed)
    )
    summary = summary_at(checkpoint.summary) if checkpoint.summary is not None else ""
    settled = (*checkpoint.decisions, *(c for c in checkpoint.constraints if c.kind in _CORRECTS))
    ended = [
        one
        for one in settled
        if any(seq == one.seq and not (part and says_more(one.text, part)) for seq, part in gone)
    ]
    now_known = by_now(checkpoint)
    told = msgspec.structs.replace(
        checkpoint,
        asked=now_known.asked,
        next_steps=now_known.next_steps,
        constraints=tuple(one for one in checkpoint.constraints if one not in ended),
        decisions=tuple(one for one in checkpoint.decisions if one not in ended),
    )
    block = resume_block(told, changed, count, budget, summary)
    steps.append(ResumeStep(name="inject", detail=f"{count(block)} tokens"))
    current = checkpoint.current
    resume_at = current.title if current else checkpoint.goal
    steps.append(ResumeStep(name="resume", detail=f"at: {resume_at}"))
    return Resumption(
        checkpoint=checkpoint,
        steps=tuple(steps),
        drift=changed,
        warnings=checked.warnings,
        block=block,
        resume_at=resume_at,
    )


def milestones(before: Checkpoint | None, now: Checkpoint) -> str:
    """What was reached since a checkpoint that is worth another one; nothing when nothing was."""
    earlier = before if before is not None and before.goal == now.goal else None
    known = {one.title for one in earlier.of("done")} if earlier else set()
    reached = [
        (len([one for one in now.of("done") if one.title not in known]), "subtask done"),
        # What the session decided stays when another task begins, and is no news there.
        (_newer(now.decided, before.decided if before else ()), "decision"),
        (_newer(now.issues, earlier.issues if earlier else ()), "blocker"),
    ]
    return ", ".join(name for number, name in reached if number)


def says_the_same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints describe one state, whenever and for whatever reason saved."""
    left, right = (fitted(each) for each in (one, other))
    return all(getattr(left, field) == getattr(right, field) for field in _STATE)


_STATE: Final = (
    *("goal", "criteria", "constraints", "subtasks", "decisions", "questions", "commitments"),
    *("asked", "next_steps", "commands", "errors", "issues", "learnings", "progress", "summary"),
)


def _newer(now: Sequence[Sourced], before: Sequence[Sourced]) -> int:
    known = {one.text for one in before}
    return sum(one.text not in known for one in now)


def _position(here: Environment) -> str:
    branch = f", branch {here.branch}" if here.branch else ""
    if here.branch and here.commit:
        branch += f" at {here.commit[:12]}"
    tools = f", {len(here.tools)} tools" if here.tools else ""
    return f"{here.cwd} on {here.system}{branch}{tools}"


def resume_block(
    checkpoint: Checkpoint, changed: Sequence[str], count: Count, budget: int, summary: str = ""
) -> str:
    """The task for the model: rules first, then the goal, where it stands, and what is open.

    What gives way in a small room, in this order: the summary of what left, learnings, what is
    done, decisions, what is planned later; how much did is said. Rules, goal, the current subtask,
    changes and issues never do.
    """
    shown = {
        "summary": [summary] if summary else [],
        "learnings": handoff.said(checkpoint.learnings[-5:]),
        "done": [_box(one) for one in checkpoint.of("done")[-DONE_SHOWN:]],
        "decisions": handoff.said(checkpoint.decided[-DECISIONS_SHOWN:]),
        "planned": [_box(one) for one in _planned(checkpoint)[:OPEN_SHOWN]],
    }
    text = _block(checkpoint, changed, shown)
    left_out = 0
    for name, items in shown.items():
        while items and count(text) > budget:
            items.pop(-1 if name == "planned" else 0)
            left_out += 1
            text = _block(checkpoint, changed, shown, left_out)
    return text


def _planned(checkpoint: Checkpoint) -> tuple[Subtask, ...]:
    current = checkpoint.current
    return tuple(one for one in checkpoint.subtasks if one.status != "done" and one is not current)


def _block(
    checkpoint: Checkpoint, changed: Sequence[str], shown: dict[str, list[str]], left_out: int = 0
) -> str:
    parts = (
        ("Rules that bind", handoff.said(checkpoint.binding)),
        (handoff.goal_title(checkpoint), [checkpoint.goal]),
        ("Done when", [f"- {one}" for one in checkpoint.criteria]),
        ("Go on with", handoff.next_step(checkpoint)),
        ("Changed since it was saved", [f"- {one}" for one in changed]),
        ("Open issues", handoff.said(checkpoint.issues)),
        (
            "Last errors",
            [f"- {one.text} [turn {one.turn}]" for one in handoff.fresh_errors(checkpoint)],
        ),
        ("Open questions", handoff.said(checkpoint.questions)),
        ("Open after that", shown["planned"]),
        ("Recent decisions", shown["decisions"]),
        (handoff.PERHAPS, handoff.said(checkpoint.doubtful)),
        ("Already done, not to be done again", shown["done"]),
        ("Learned", shown["learnings"]),
        ("Before that", shown["summary"]),
    )
    head = (
        f"The work goes on from checkpoint {checkpoint.version}. It is derived from the "
        "transcript, which wins where they differ: what was done since is not in it; turns and "
        "lines are those of the transcript."
    )
    blocks = [f"{title}:\n" + "\n".join(lines) for title, lines in parts if lines]
    if left_out:
        blocks.append(f"[{left_out} more points of it are left out for want of room.]")
    return "\n\n".join([head, *blocks])


def _box(one: Subtask) -> str:
    return f"- [{_MARKS[one.status]}] {one.title}"


def changed_since(text: str, now: Checkpoint) -> list[str]:
    """Steps of which a block tells another state than they have now."""
    told = {*text.splitlines()}
    return [
        f"{one.title}: {one.status} by now"
        for one in now.subtasks
        for each in (msgspec.structs.replace(one, status=other) for other in _MARKS)
        if each.status != one.status and told & {_box(each), f"- {one.title} ({each.status})"}
    ]


def _saved(checkpoint: Checkpoint) -> str:
    if not checkpoint.saved_at:
        since = f"since, {checkpoint.session}. {checkpoint.trigger}"
        return f"Not saved {since if checkpoint.trigger else f'yet, {checkpoint.session}.'}"
    return (
        f"Checkpoint {checkpoint.version} of {checkpoint.session}, window {checkpoint.window}, "
        f"{checkpoint.saved_at} ({checkpoint.trigger})."
    )


def progress_text(checkpoint: Checkpoint) -> str:
    """`progress.md`: the whole checkpoint for people."""
    environment = checkpoint.environment
    where = [
        *([f"folder {environment.cwd}"] if environment.cwd else []),
        *environment_text(environment),
        *(f"{file.path} ({file.words()})" for file in environment.files),
    ]
    parts = (
        ("Constraints", handoff.said(checkpoint.binding)),
        ("Done when", [f"- {one}" for one in checkpoint.criteria]),
        ("Next", handoff.next_step(checkpoint)),
        ("Current", [_box(one) for one in checkpoint.of("in_progress")]),
        ("Remaining", [_box(one) for one in checkpoint.of("planned")]),
        ("Completed", [_box(one) for one in checkpoint.of("done")]),
        ("Open issues", handoff.said(checkpoint.issues)),
        ("Last errors", [f"- {one.text} [turn {one.turn}]" for one in checkpoint.errors]),
        ("Open questions", handoff.said(checkpoint.questions)),
        ("Promised", handoff.said(checkpoint.commitments)),
        ("Decisions", handoff.said(checkpoint.decided)),
        (handoff.PERHAPS, handoff.said(checkpoint.doubtful)),
        ("Learnings", handoff.said(checkpoint.learnings)),
        ("Progress", handoff.said(checkpoint.progress)),
        ("Commands", handoff.commands_text(checkpoint)),
        ("Environment", [f"- {line}" for line in where]),
        ("Not shown here", [f"- {one}" for one in checkpoint.left_out]),
    )
    topic = f"{handoff.goal_title(checkpoint)}." if checkpoint.goal_turn else ""
    head = [
        f"# {checkpoint.goal.splitlines()[0] if checkpoint.goal else 'No goal yet'}",
        "",
        f"{_saved(checkpoint)} Derived from the transcript up to line {checkpoint.head.seq}, "
        "which wins where they differ.",
        *(["", topic] if topic else []),
        *(["", checkpoint.goal] if "\n" in checkpoint.goal else []),
    ]
    blocks = [f"\n## {title}\n" + "\n".join(lines) for title, lines in parts if lines]
    return "\n".join([*head, *blocks]) + "\n"


def start(title: str, criteria: Sequence[str] = (), constraints: Sequence[str] = ()) -> TaskStarted:
    """The beginning of a task; what was said before it no longer counts as its goal."""
    goal = title.strip()
    if not goal:
        raise errors.UsageError(
            "A task needs a title.", "Write /task start followed by what is to be done."
        )
    return TaskStarted(
        title=goal[:GOAL_LENGTH],
        criteria=tuple(one.strip() for one in criteria if one.strip()),
        constraints=tuple(one.strip() for one in constraints if one.strip()),
    )


def parse_start(argument: str) -> TaskStarted:
    """`title | when: criterion | rule: constraint …`, as it is typed."""
    argument = argument.strip()
    if len(argument) > 1 and argument[0] + argument[-1] in ('""', "“”", "''"):
        argument = argument[1:-1]  # as a shell has it written
    title, *rest = (part.strip() for part in argument.split("|"))
    criteria = [part[5:] for part in rest if part.lower().startswith("when:")]
    rules = [part[5:] for part in rest if part.lower().startswith("rule:")]
    if odd := [part for part in rest if not part.lower().startswith(("when:", "rule:"))]:
        raise errors.UsageError(
            f"{odd[0]!r} is neither a criterion nor a rule.",
            "Write /task start TITLE | when: CRITERION | rule: CONSTRAINT.",
        )
    return start(title, criteria, rules)


def done(checkpoint: Checkpoint, *, archived: str, since: int = 0, trend: str = "") -> TaskDone:
    """The end of a task: what was finished, what was left, and where its checkpoint is kept.

    What was decided before the line where it began is not its own.
    """
    if not checkpoint.goal:
        raise errors.ContinuityError("There is no task to finish.", "/task start begins one.")
    finished, left = checkpoint.of("done"), [s for s in checkpoint.subtasks if s.status != "done"]
    if not checkpoint.subtasks:
        steps = ["Nobody wrote down its steps, so this cannot say what was finished or left."]
    else:
        steps = [
            f"Finished: {'; '.join(one.title for one in finished) or 'none of its steps'}.",
            f"Left: {'; '.join(one.title for one in left)}." if left else "Nothing is left.",
        ]
    decided = [one.text for one in checkpoint.decided if one.seq >= since]
    lines = [
        checkpoint.goal,
        *steps,
        f"Decisions: {'; '.join(decided[-5:])}" if decided else "",
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
