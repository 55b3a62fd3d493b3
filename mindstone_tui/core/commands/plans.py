"""Commands for plans and for the list of what is to be done."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from mindstone_tui.core.agent.plans import steps_of, todo_text
from mindstone_tui.core.commands.registry import command, wrong_use
from mindstone_tui.core.entries.conversation import AssistantMessage, UserMessage
from mindstone_tui.core.entries.derived import PlanChanged, TodoChanged, TodoItem
from mindstone_tui.core.errors import UsageError
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.text import one_line, plural

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices


@command(
    "plan",
    usage="[approve | edit N TEXT | refuse [WHY] | off]",
    changes_window=True,
    words=("approve", "edit", "refuse", "off"),
)
async def plan(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Plan before anything is changed: only reading tools run until you approve the plan.

    The answer is the plan. `edit 2 NEW TEXT` changes a step, `edit -2` drops it, `edit + TEXT` adds
    one; `approve` makes the steps the task's subtasks and lets all tools run again; `refuse` asks
    for another plan; `off` leaves without one.
    """
    plans = services.plans
    verb, _, rest = argument.partition(" ")
    rest = rest.strip()
    if not verb:
        if not plans.planning:
            plans.record(PlanChanged(stage="planning"))
        steps = plans.steps or _proposed(services)
        said = "Plan mode is on: only reading tools run. Say what you want done."
        yield CommandPrinted(command="plan", text="\n".join([said, *_numbered(steps)]))
        return
    if verb not in ("approve", "edit", "refuse", "off"):
        raise wrong_use("plan", f"/plan does not know `{verb}`.")
    if not plans.planning:
        raise UsageError("Plan mode is off.", "`/plan` turns it on.")
    if verb == "off":
        plans.record(PlanChanged(stage="refused", why="left without a plan"))
        yield CommandPrinted(command="plan", text="Plan mode is off; all tools may run again.")
    elif verb == "refuse":
        plans.record(PlanChanged(stage="refused", why=rest))
        plans.record(PlanChanged(stage="planning"))
        text = "The plan is refused. Plan mode stays on: say what should be different."
        yield CommandPrinted(command="plan", text=text)
    elif verb == "edit":
        steps = plans.edit(_steps(services), rest)
        plans.record(PlanChanged(stage="edited", steps=steps))
        yield CommandPrinted(command="plan", text="\n".join(_numbered(steps)))
    else:
        steps = _steps(services)
        if services.tasks.section is None:
            services.tasks.start(_asked(services).replace("|", "/") or "The plan")
        plans.record(PlanChanged(stage="approved", steps=steps))
        items = tuple(TodoItem(title=step) for step in steps)
        plans.record(TodoChanged(items=items, by="plan"))
        text = f"Approved: {plural(len(steps), 'step')} to do, and all tools may run. Say `go on`."
        yield CommandPrinted(command="plan", text=text, data={"steps": list(steps)})


def _steps(services: SessionServices) -> tuple[str, ...]:
    steps = services.plans.steps or _proposed(services)
    if not steps:
        raise UsageError("The newest answer names no steps.", "Ask for a plan first.")
    return steps


def _proposed(services: SessionServices) -> tuple[str, ...]:
    """The steps in the newest answer."""
    lines = reversed(services.context.window.fold.lines.values())
    answer = next((one.entry for one in lines if isinstance(one.entry, AssistantMessage)), None)
    return steps_of(answer.text) if answer else ()


def _asked(services: SessionServices) -> str:
    lines = reversed(services.context.window.fold.lines.values())
    asked = next((one.entry for one in lines if isinstance(one.entry, UserMessage)), None)
    return one_line(asked.text, 200) if asked else ""


def _numbered(steps: tuple[str, ...]) -> list[str]:
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)]


@command(
    "todo",
    usage="[add TEXT | doing N | done N | drop N | clear]",
    changes_window=True,
    words=("add", "doing", "done", "drop", "clear"),
)
async def todo(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show or change the list of what is to be done, which the model keeps with its tool `todo`.

    It stands in the head of every prompt, the panel, the checkpoint and the handoff.
    """
    plans = services.plans
    if argument:
        plans.record(TodoChanged(items=_changed(plans.items, argument), by="person"))
    rows = [f"{at:>2} {row}" for at, row in enumerate(todo_text(plans.items).splitlines(), 1)]
    listed = [{"title": one.title, "status": one.status} for one in plans.items]
    text = "\n".join(rows) or "Nothing is to be done."
    yield CommandPrinted(command="todo", text=text, data={"items": listed})


def _changed(items: tuple[TodoItem, ...], argument: str) -> tuple[TodoItem, ...]:
    if argument == "clear":
        return ()
    if found := re.fullmatch(r"add\s+(\S.*)", argument):
        return (*items, TodoItem(title=one_line(found[1], 300)))
    found = re.fullmatch(r"(doing|done|drop)\s+(\d+)", argument)
    if found is None or not 0 < int(found[2]) <= len(items):
        raise wrong_use("todo", f"`{one_line(argument, 60)}` names no item.")
    at = int(found[2]) - 1
    if found[1] == "drop":
        return (*items[:at], *items[at + 1 :])
    status = TodoItem(title=items[at].title, status="done" if found[1] == "done" else "in_progress")
    return (*items[:at], status, *items[at + 1 :])
