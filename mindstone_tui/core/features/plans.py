"""Plans and the list of what is to be done: kept in entries, so that they survive every prune.

While a plan is made only reading tools run. What a person approves becomes the list, and the list
the subtasks of the task; it stands in the head of every prompt, the panel, the checkpoint and the
handoff.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Literal, TypeVar

from mindstone_tui.core import errors, patterns
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.entries import Line, derived
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.events import AnyEvent, CommandPrinted, Noticed
from mindstone_tui.core.events.narrate_entry import of_entry
from mindstone_tui.core.features.tasks import TasksFeature
from mindstone_tui.core.library import open_questions
from mindstone_tui.core.library.open_questions import LONGEST_STEP, steps_of
from mindstone_tui.core.session.features import EndedTurn, Feature, Say, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import one_line, plural
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult
from mindstone_tui.core.tools.history import TodoArgument, TodoArguments, todo_tool

T = TypeVar("T", UserMessage, AssistantMessage)
Status = Literal["planned", "in_progress", "done"]
TODO: Final = "todo"
PLANNING: Final = "plan"
_TITLE: Final = "To be done:"
_SIGNS: Final[dict[Status, str]] = {"planned": " ", "in_progress": "~", "done": "x"}
_REFUSAL: Final = "I refuse this plan: "
"""How the model is told that it is to make another one; no task is called so."""
_READ: Final = {sign: status for status, sign in _SIGNS.items()}
_ITEM: Final = patterns.pattern_of(r"\[([ ~x])\] (.+)")
_LONGEST: Final = LONGEST_STEP
RULE: Final = """\
Plan mode: look around with reading tools, and change nothing; every other tool is refused. Answer \
with a plan: what you found, then the steps as one numbered list, each a single sentence. A person \
approves, edits or refuses it."""
BEGIN: Final = "The plan is approved. Carry it out, step by step."
"""What an approved plan begins with, said in the person's name."""


def todo_text(items: tuple[derived.TodoItem, ...]) -> str:
    """The list as people and models read it."""
    return "\n".join(f"[{_SIGNS[one.status]}] {one.title}" for one in items)


def _read_back(section: Section | None) -> tuple[derived.TodoItem, ...]:
    """The list from the head of earlier prompts, when its entry is far back in history."""
    return tuple(
        derived.TodoItem(title=found[2], status=_READ[found[1]])
        for line in (section.text if section else "").splitlines()
        if (found := _ITEM.fullmatch(line))
    )


class PlansFeature(Feature):
    """The plan and the list of one session."""

    name = "plans"

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self._shown: tuple[str, ...] = ()
        """The steps that were last printed here."""
        self.forget()

    def tools(self) -> Sequence[Tool]:
        """Keep the list."""
        return (todo_tool(self._write),)

    def forget(self) -> None:
        """Another surface wrote: read from history again."""
        past = self.session.past
        standing = () if past.was_rewound else self.context.window.fold.sections
        sections = {one.name: one for one in standing}
        self.items = _read_back(sections.get(TODO))
        self.planning = PLANNING in sections
        self._in_task = False
        self.steps: tuple[str, ...] = ()
        """Of the plan as a person edited it; empty takes those of the newest answer."""
        self._edited: Line | None = None
        for line in reversed(past.lines):
            self._take(line)
        self._tell()

    def _take(self, line: Line) -> None:
        match line.entry:
            case derived.TodoChanged(items=items):
                self.items = items
            case derived.TaskStarted():
                self.items = () if self._in_task else self.items
                self._in_task = True
            case derived.TaskDone():
                self.items = ()
                self._in_task = False
            case derived.PlanChanged(stage=stage, steps=steps):
                self.planning = stage in ("planning", "edited")
                self.steps = steps if stage == "edited" else ()
                self._edited = line if stage == "edited" else None

    def _tell(self) -> None:
        """Let permissions and the window know how the work stands."""
        self.context.permissions.planning = self.planning
        self.context.window.open_steps = sum(one.status != "done" for one in self.items)

    def record(self, entry: derived.TodoChanged | derived.PlanChanged) -> Line:
        """Write a change down; it holds at once."""
        line = self.context.window.record(entry, self.context.transcript.last_turn)
        self._take(line)
        self._tell()
        return line

    def standing(self) -> SystemPrompt:
        """What the head of every prompt says of it."""
        found = []
        if self.planning:
            found.append(Section(name=PLANNING, text=RULE, source="/plan", raw_size=len(RULE)))
        if self.items:
            text = f"{_TITLE}\n{todo_text(self.items)}"
            found.append(Section(name=TODO, text=text, source="todo", raw_size=len(text)))
        return SystemPrompt(tuple(found))

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Say what can be done with a plan that was just made."""
        if not self.planning or not (steps := steps_of(turn.answer)):
            return ()
        offer = (
            f"This is a plan of {plural(len(steps), 'step')}. `/plan approve` lets it begin, "
            "`/plan edit 2 NEW TEXT` changes a step, `/plan refuse WHY` asks for another."
        )
        return (Noticed(message=offer),)

    async def _write(self, arguments: TodoArguments, context: ToolContext) -> ToolResult:
        """What the model calls to keep the list."""
        items = tuple(_item(number, each) for number, each in enumerate(arguments.items, 1))
        self.record(derived.TodoChanged(items=items))
        done = sum(one.status == "done" for one in items)
        return ToolResult(
            text=todo_text(items) or "The list is empty.", finding=f"{done} of {len(items)} done"
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
        raise errors.UsageError(
            f"`{one_line(change, 60)}` changes no step.",
            "Write `/plan edit 2 NEW TEXT`, `/plan edit -2` or `/plan edit + ONE MORE`.",
        )

    @command(
        "plan",
        usage="[approve | edit N TEXT | refuse [WHY] | off]",
        changes_window=True,
        words=("approve", "edit", "refuse", "off"),
    )
    async def plan(self, argument: str) -> AsyncIterator[AnyEvent | Say]:
        """Plan before anything is changed: only reading tools run until you approve the plan.

        The answer is the plan. `edit 2 NEW TEXT` changes a step, `edit -2` drops it, `edit + TEXT`
        adds one; `approve` makes the steps the task's subtasks and lets all tools run again;
        `refuse` asks for another plan; `off` leaves without one.
        """
        verb, _, rest = argument.partition(" ")
        mark, rest = open_questions.mark_in(rest)
        if not verb:
            if not self.planning:
                self.record(derived.PlanChanged(stage="planning"))
            steps = self._shown = self.steps or self._proposed()
            said = "Plan mode is on: only reading tools run. Say what you want done."
            yield CommandPrinted(text="\n".join([said, *_numbered(steps)]))
            return
        if verb not in ("approve", "edit", "refuse", "off"):
            raise WrongUse(f"/plan does not know `{verb}`.")
        waits = "\n".join(self.steps or self._proposed()) if self.planning else ""
        hand = self._decided(verb, waits, mark)
        if verb == "off":
            hand |= {} if waits else {"seen": 0.0}  # there was nothing to look at
            self.record(derived.PlanChanged(stage="refused", why="left without a plan", **hand))
            yield CommandPrinted(text="Plan mode is off; all tools may run again.")
        elif verb == "refuse":
            self.record(derived.PlanChanged(stage="refused", why=rest, **hand))
            self.record(derived.PlanChanged(stage="planning"))
            if rest:  # the model is told why, and makes another
                yield Say(f"{_REFUSAL}{rest}\nMake another one.")
            text = "The plan is refused. Plan mode stays on: say what should be different."
            yield CommandPrinted(text=text)
        elif verb == "edit":
            steps = self.edit(self._asked_steps(), rest)
            self.record(derived.PlanChanged(stage="edited", steps=steps, **hand))
            yield CommandPrinted(text="\n".join(_numbered(steps)))
        else:
            steps = self._asked_steps()
            tasks = self.session.features.get(TasksFeature).tasks
            if tasks.section is None:
                users = (one.entry for one in reversed(self.context.window.fold.lines.values()))
                texts = (one.text for one in users if isinstance(one, UserMessage))
                asked = (text for text in texts if not text.startswith(_REFUSAL))
                said = one_line(next(asked, ""), 200)
                tasks.start(said.replace("|", "/") or "The plan")
            self.record(derived.PlanChanged(stage="approved", steps=steps, **hand))
            items = tuple(derived.TodoItem(title=step) for step in steps)
            self.record(derived.TodoChanged(items=items, by="plan"))
            text = f"Approved: {plural(len(steps), 'step')} to do, and all tools may run."
            yield CommandPrinted(text=text, data={"steps": list(steps)})
            yield Say(BEGIN)

    def _decided(self, verb: str, waits: str, mark: str) -> dict[str, Any]:
        """By which hand a word about the plan came; refused where it meant another plan."""
        open_questions.check_mark(
            mark, open_questions.mark_of("plan", waits), "The plan", "`/plan` shows it"
        )
        if not self.planning:
            with self.context.transcript.history() as history:
                newest = next(iter(history.newest({"plan_changed"}, 1_000)), None)
            last = of_entry(newest.entry, newest.channel) if newest is not None else None
            why = f" {last.text}." if last is not None else ""
            raise errors.UsageError(f"Plan mode is off.{why}", "`/plan` turns it on.")
        answer = self._newest(AssistantMessage)
        line = self._edited or (answer[0] if answer else None)
        if line is not None and not mark:
            read, look = self.context.read_through, "`/plan` shows it."
            open_questions.check_was_there(line.seq, read, "This plan came", look)
            if verb in ("approve", "edit") and not self._was_shown(line, waits):
                raise errors.NotAllowed("This plan was not shown here: nothing was decided.", look)
        return self.context.by_hand(line.ts if line is not None else "")

    def _was_shown(self, line: Line, waits: str) -> bool:
        """Whether a person here has seen the plan that a line made: every app draws answers."""
        answered = self._edited is None and self.context.hand[1] >= 0
        put = self.context.window.put_here(line.seq, line.channel)
        return answered or put or "\n".join(self._shown) == waits

    @command(
        "todo",
        usage="[add TEXT | doing N | done N | drop N | clear]",
        changes_window=True,
        words=("add", "doing", "done", "drop", "clear"),
    )
    async def todo(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show or change the list of what is to be done.

        The model keeps it with its tool `todo`. It stands in the head of every prompt, the panel,
        the checkpoint and the handoff.
        """
        if argument:
            self.record(derived.TodoChanged(items=_changed(self.items, argument), by="person"))
        rows = [f"{at:>2} {row}" for at, row in enumerate(todo_text(self.items).splitlines(), 1)]
        listed = [{"title": one.title, "status": one.status} for one in self.items]
        text = "\n".join(rows) or "Nothing is to be done."
        yield CommandPrinted(text=text, data={"items": listed})

    def _asked_steps(self) -> tuple[str, ...]:
        steps = self.steps or self._proposed()
        if not steps:
            raise errors.UsageError("The newest answer names no steps.", "Ask for a plan first.")
        return steps

    def _proposed(self) -> tuple[str, ...]:
        """The steps in the newest answer."""
        answer = self._newest(AssistantMessage)
        return steps_of(answer[1].text) if answer else ()

    def _newest(self, kind: type[T]) -> tuple[Line, T] | None:
        """The newest message of a kind, and its line."""
        lines = reversed(self.context.window.fold.lines.values())
        return next(((one, one.entry) for one in lines if isinstance(one.entry, kind)), None)


def _numbered(steps: tuple[str, ...]) -> list[str]:
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)]


def _changed(items: tuple[derived.TodoItem, ...], argument: str) -> tuple[derived.TodoItem, ...]:
    if argument == "clear":
        return ()
    if found := re.fullmatch(r"add\s+(\S.*)", argument):
        return (*items, derived.TodoItem(title=one_line(found[1], 300)))
    found = re.fullmatch(r"(doing|done|drop)\s+(\d+)", argument)
    if found is None or not 0 < int(found[2]) <= len(items):
        raise WrongUse(f"`{one_line(argument, 60)}` names no item.")
    at = int(found[2]) - 1
    if found[1] == "drop":
        return (*items[:at], *items[at + 1 :])
    status = derived.TodoItem(
        title=items[at].title, status="done" if found[1] == "done" else "in_progress"
    )
    return (*items[:at], status, *items[at + 1 :])


def _item(number: int, given: TodoArgument) -> derived.TodoItem:
    title = one_line(given.title or given.content, _LONGEST)
    if not title:
        raise errors.ToolError(
            f"The list stays as it was: item {number} has no title.",
            "Send every item with `title` and `status`.",
        )
    status = given.status
    if status in ("done", "completed"):
        return derived.TodoItem(title=title, status="done")
    return derived.TodoItem(
        title=title, status="in_progress" if status == "in_progress" else "planned"
    )
