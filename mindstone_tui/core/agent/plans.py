"""Plans and the list of what is to be done: kept in entries, so that they survive every prune.

While a plan is made only reading tools run. What a person approves becomes the list, and the list
the subtasks of the task; it stands in the head of every prompt, the panel, the checkpoint and the
handoff.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.memories import RecentHistory
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.derived import PlanChanged, TaskDone, TodoChanged, TodoItem
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import ToolError, UsageError
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.tools.base import ToolContext, ToolResult
from mindstone_tui.core.tools.history import TodoArgument, TodoArguments

TODO: Final = "todo"
PLANNING: Final = "plan"
_TITLE: Final = "To be done:"
_SIGNS: Final = {"planned": " ", "in_progress": "~", "done": "x"}
_READ: Final[dict[str, Literal["planned", "in_progress", "done"]]] = {
    " ": "planned",
    "~": "in_progress",
    "x": "done",
}
_ITEM: Final = pattern_of(r"\[([ ~x])\] (.+)")
_STEP: Final = pattern_of(
    r"\s{0,3}(?:\d{1,2}[.)]|[-*])\s+(?:\[[ xX~]\]\s+)?(\S.*)|\s{0,3}\[[ xX~]\]\s+(\S.*)"
)
_MOST: Final = 50
_LONGEST: Final = 300
RULE: Final = """\
Plan mode: look around with reading tools, and change nothing; every other tool is refused. Answer \
with a plan: what you found, then the steps as one numbered list, each a single sentence. A person \
approves, edits or refuses it."""


def steps_of(text: str) -> tuple[str, ...]:
    """The steps that a plan names: its numbered lines, else its bullets."""
    numbered = [found for line in text.splitlines() if (found := _STEP.match(line))]
    counted = [found for found in numbered if found[0].lstrip()[:1].isdigit()]
    return tuple(
        one_line(found[1] or found[2], _LONGEST) for found in (counted or numbered)[:_MOST]
    )


def offer_plan(steps: int) -> str:
    """What a person can do with a plan that was just made."""
    return (
        f"This is a plan of {plural(steps, 'step')}. `/plan approve` lets it begin, "
        "`/plan edit 2 NEW TEXT` changes a step, `/plan refuse WHY` asks for another."
    )


def todo_text(items: tuple[TodoItem, ...]) -> str:
    """The list as people and models read it."""
    return "\n".join(f"[{_SIGNS[one.status]}] {one.title}" for one in items)


def _read_back(section: Section | None) -> tuple[TodoItem, ...]:
    """The list from the head of earlier prompts, when its entry is far back in history."""
    text = section.text if section else ""
    return tuple(
        TodoItem(title=found[2], status=_READ[found[1]])
        for line in text.splitlines()
        if (found := _ITEM.fullmatch(line))
    )


class Plans:
    """The plan and the list of one session."""

    def __init__(self, context: TurnContext, past: RecentHistory) -> None:
        self._context = context
        self._past = past
        self.forget()

    def forget(self) -> None:
        """Another surface wrote: read from history again."""
        sections = {one.name: one for one in self._context.window.fold.sections}
        self.items = _read_back(sections.get(TODO))
        self.planning = PLANNING in sections
        self.steps: tuple[str, ...] = ()
        """Of the plan as a person edited it; empty takes those of the newest answer."""
        for line in reversed(self._past.lines):
            self._take(line)
        self._context.permissions.planning = self.planning

    def _take(self, line: Line) -> None:
        match line.entry:
            case TodoChanged(items=items):
                self.items = items
            case TaskDone():
                self.items = ()
            case PlanChanged(stage=stage, steps=steps):
                self.planning = stage in ("planning", "edited")
                self.steps = steps if stage == "edited" else ()
                self._context.permissions.planning = self.planning

    def record(self, entry: TodoChanged | PlanChanged) -> Line:
        """Write a change down; it holds at once."""
        line = self._context.window.record(entry, self._context.transcript.last_turn)
        self._take(line)
        return line

    @property
    def sections(self) -> tuple[Section, ...]:
        """What the head of every prompt says of it."""
        found = []
        if self.planning:
            found.append(Section(name=PLANNING, text=RULE, source="/plan", raw_size=len(RULE)))
        if self.items:
            text = f"{_TITLE}\n{todo_text(self.items)}"
            found.append(Section(name=TODO, text=text, source="todo", raw_size=len(text)))
        return tuple(found)

    async def write(self, arguments: TodoArguments, context: ToolContext) -> ToolResult:
        """What the model calls to keep the list."""
        del context
        items = tuple(_item(number, each) for number, each in enumerate(arguments.items, 1))
        self.record(TodoChanged(items=items))
        done = sum(one.status == "done" for one in items)
        return ToolResult(
            text=todo_text(items) or "The list is empty.",
            finding=f"{done} of {len(items)} done",
        )

    def edit(self, steps: tuple[str, ...], change: str) -> tuple[str, ...]:
        """Steps after `N new text`, `-N` or `+ text`."""
        if found := re.fullmatch(r"\+\s*(\S.*)", change):
            return (*steps, one_line(found[1], _LONGEST))
        if found := re.fullmatch(r"-\s*(\d+)|(\d+)\s+(\S.*)", change):
            at = int(found[1] or found[2]) - 1
            if 0 <= at < len(steps):
                fresh = [one_line(found[3], _LONGEST)] if found[3] else []
                return (*steps[:at], *fresh, *steps[at + 1 :])
        raise UsageError(
            f"`{one_line(change, 60)}` changes no step.",
            "Write `/plan edit 2 NEW TEXT`, `/plan edit -2` or `/plan edit + ONE MORE`.",
        )


def _item(number: int, given: TodoArgument) -> TodoItem:
    title = one_line(given.title or given.content, _LONGEST)
    if not title:
        raise ToolError(
            f"The list stays as it was: item {number} has no title.",
            "Send every item with `title` and `status`.",
        )
    status = given.status
    if status in ("done", "completed"):
        return TodoItem(title=title, status="done")
    return TodoItem(title=title, status="in_progress" if status == "in_progress" else "planned")
