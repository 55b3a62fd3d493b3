"""The state of a task as a program can read it: structured, complete, and no summary.

A checkpoint is advanced from the one before it by the lines that were written since, so that its
cost does not grow with history. `planned` is an intention that nobody has carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from mindstone_tui.core.context.extract import folded, is_decision, is_rule, sentences
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import (
    NoteTaken,
    SummaryDerived,
    TaskDone,
    TaskStarted,
    TodoChanged,
)
from mindstone_tui.core.handoff.environment import Environment

Status = Literal["planned", "in_progress", "done"]

FORMAT: Final = 1
GOAL_LENGTH: Final = 2_000
KEPT: Final = 60
"""Newest rules, decisions, issues and learnings that a checkpoint carries, of each."""

_STATUS: Final[dict[str, Status]] = {
    " ": "planned", "todo": "planned", "planned": "planned", "next": "planned",
    "~": "in_progress", ">": "in_progress", "-": "in_progress", "doing": "in_progress",
    "current": "in_progress", "in progress": "in_progress", "now": "in_progress",
    "x": "done", "done": "done", "finished": "done", "completed": "done",
}  # fmt: skip
_CHECKBOX: Final = re.compile(r"\s{0,12}(?:[-*]|\d{1,3}[.)])?\s{0,3}\[([ xX~>-])\]\s+(\S.{0,300})")
_PREFIX: Final = re.compile(
    r"(todo|planned|next|doing|current|in progress|now|done|finished|completed)"
    r"\s{0,2}:\s+(\S.{0,300})",
    re.IGNORECASE,
)
_SUFFIX: Final = re.compile(r"\s{1,3}\((doing|current|in progress|now)\)\.?$", re.IGNORECASE)
_SOLVED: Final = re.compile(r"(?:fixed|solved|resolved|closed)\s{0,2}:\s+(\S.*)", re.IGNORECASE)


class Sourced(Part):
    """A sentence with the line it stands in."""

    text: str
    seq: int = 0
    turn: int = 0


class Subtask(Part, omit_defaults=False):
    """A piece of the work and how far it is."""

    title: str
    status: Status
    seq: int = 0
    """The line that last said so."""


class HeadMark(Part, omit_defaults=False):
    """The newest line of history that is part of this."""

    seq: int
    hash: str


class Checkpoint(Part, omit_defaults=False, forbid_unknown_fields=True):
    """Everything that the next window needs to go on."""

    session: str
    format: int = FORMAT
    window: int = 1
    """The how-manieth window of the session."""
    version: int = 0
    """Counts up with every save; 0 was never saved."""
    goal: str = ""
    criteria: tuple[str, ...] = ()
    constraints: tuple[Sourced, ...] = ()
    subtasks: tuple[Subtask, ...] = ()
    decisions: tuple[Sourced, ...] = ()
    issues: tuple[Sourced, ...] = ()
    learnings: tuple[Sourced, ...] = ()
    progress: tuple[Sourced, ...] = ()
    summary: int | None = None
    """The `summary_derived` line that stands for what left the window last."""
    environment: Environment = Environment()
    head: HeadMark = HeadMark(seq=-1, hash="")
    saved_at: str = ""
    trigger: str = ""
    sha256: str = ""
    """Of everything else here."""

    @property
    def current(self) -> Subtask | None:
        """Where to go on: what was last in progress, else what is planned first."""
        running = [one for one in self.subtasks if one.status == "in_progress"]
        if running:
            return max(running, key=lambda one: one.seq)
        return next((one for one in self.subtasks if one.status == "planned"), None)

    def of(self, status: Status) -> tuple[Subtask, ...]:
        """The subtasks with that status, in their order."""
        return tuple(one for one in self.subtasks if one.status == status)

    @property
    def sources(self) -> tuple[int, ...]:
        """Every line that this rests on."""
        groups = (self.constraints, self.decisions, self.issues, self.learnings, self.progress)
        seqs = {one.seq for group in groups for one in group} | {s.seq for s in self.subtasks}
        return tuple(sorted(seqs - {0}))


class Validation(Part):
    """What is wrong with a checkpoint, and what is odd about it."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether it may be used."""
        return not self.errors


def validate(checkpoint: Checkpoint) -> Validation:
    """Check that a checkpoint can be resumed from."""
    errors = [
        message
        for wrong, message in (
            (checkpoint.format != FORMAT, f"its format is {checkpoint.format}, not {FORMAT}"),
            (not checkpoint.goal.strip(), "it has no goal"),
            (checkpoint.window < 1, "its window number is below 1"),
            (checkpoint.version < 1, "its version is below 1"),
            (checkpoint.head.seq < 0 or not checkpoint.head.hash, "it names no head of history"),
        )
        if wrong
    ]
    running = checkpoint.of("in_progress")
    warnings = [
        message
        for odd, message in (
            (checkpoint.of("planned") and not running, "work remains and nothing is in progress"),
            (len(running) > 1, f"{len(running)} subtasks are in progress at once"),
            (not checkpoint.subtasks, "it names no subtasks"),
        )
        if odd
    ]
    return Validation(errors=tuple(errors), warnings=tuple(warnings))


def fresh(session: str) -> Checkpoint:
    """The state before anything was said."""
    return Checkpoint(session=session)


def advance(checkpoint: Checkpoint, lines: Iterable[Line]) -> Checkpoint:
    """The state after these lines, which follow the checkpoint's head; still to be saved."""
    state = checkpoint
    for line in lines:
        if line.seq > checkpoint.head.seq:
            state = _after(state, line)
            head = HeadMark(seq=line.seq, hash=line.hash)
            state = msgspec.structs.replace(state, head=head)
    return state


def _after(state: Checkpoint, line: Line) -> Checkpoint:
    match line.entry:
        case TaskStarted(title=title, criteria=criteria, constraints=rules):
            return msgspec.structs.replace(
                fresh(state.session),
                window=state.window,
                version=state.version,
                environment=state.environment,
                goal=title[:GOAL_LENGTH],
                criteria=criteria,
                constraints=tuple(_sourced(rule, line) for rule in rules),
            )
        case TaskDone():
            return msgspec.structs.replace(state, goal="", criteria=(), subtasks=(), issues=())
        case TodoChanged(items=items):
            # The list is whole: what is neither in it nor done is no longer to be done.
            kept = tuple(one for one in state.subtasks if one.status == "done")
            found = [Subtask(title=one.title, status=one.status, seq=line.seq) for one in items]
            return _with_subtasks(msgspec.structs.replace(state, subtasks=kept), found)
        case NoteTaken():
            return _noted(state, line.entry, line)
        case UserMessage(text=text):
            return _asked(state, text, line)
        case AssistantMessage(text=text):
            decided = [one for one in sentences(text) if is_decision(one)]
            state = _with(state, "decisions", decided, line)
            return _with_subtasks(state, _checklist(text, line.seq))
        case SummaryDerived():
            return msgspec.structs.replace(state, summary=line.seq)
    return state


def _asked(state: Checkpoint, text: str, line: Line) -> Checkpoint:
    if not state.goal:
        state = msgspec.structs.replace(state, goal=text.strip()[:GOAL_LENGTH])
    said = list(sentences(text))
    state = _with(state, "constraints", filter(is_rule, said), line)
    state = _with(state, "decisions", filter(is_decision, said), line)
    return _with_subtasks(state, _checklist(text, line.seq))


def _noted(state: Checkpoint, note: NoteTaken, line: Line) -> Checkpoint:
    match note.category:
        case "constraints" | "decisions" | "learnings":
            return _with(state, note.category, [note.text], line)
        case "bugs":
            if solved := _SOLVED.match(note.text):
                done = folded(solved[1]).rstrip(".")
                left = tuple(one for one in state.issues if done not in folded(one.text))
                return msgspec.structs.replace(state, issues=left)
            return _with(state, "issues", [note.text], line)
        case "task_progress":
            found = list(_checklist(note.text, line.seq, words=True))
            if found:
                return _with_subtasks(state, found)
            return _with(state, "progress", [note.text], line)
    return state


def _checklist(text: str, seq: int, *, words: bool = False) -> Iterator[Subtask]:
    """Checkboxes and, in notes, lines that begin with a word like `done:`."""
    for line in text.splitlines():
        match = _CHECKBOX.match(line) or (words and _PREFIX.match(line.strip()))
        if match:
            status, title = _STATUS[match[1].lower()], " ".join(match[2].split())
            if status == "planned" and (running := _SUFFIX.search(title)):
                status, title = "in_progress", title[: running.start()]
            yield Subtask(title=title, status=status, seq=seq)


def is_subtask(line: str) -> bool:
    """Whether a line of text names a subtask by a checkbox."""
    return _CHECKBOX.match(line) is not None


def _with_subtasks(state: Checkpoint, found: Iterable[Subtask]) -> Checkpoint:
    subtasks = {folded(one.title): one for one in state.subtasks}
    for one in found:
        subtasks[folded(one.title)] = one
    return msgspec.structs.replace(state, subtasks=tuple(subtasks.values()))


def _with(state: Checkpoint, field: str, said: Iterable[str], line: Line) -> Checkpoint:
    kept: dict[str, Sourced] = {folded(one.text): one for one in getattr(state, field)}
    for text in said:
        kept.setdefault(folded(text), _sourced(text, line))
    return msgspec.structs.replace(state, **{field: tuple(kept.values())[-KEPT:]})


def _sourced(text: str, line: Line) -> Sourced:
    return Sourced(text=" ".join(text.split()), seq=line.seq, turn=line.turn)
