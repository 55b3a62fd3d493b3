"""The task under way: begun, written down in checkpoints, taken up again, done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.agent.tasks import Tasks
from mindstone_tui.core.entries.derived import TaskDone
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.features.health import HealthFeature
from mindstone_tui.core.features.memory import MemoryFeature, offer_review
from mindstone_tui.core.handoff import resume
from mindstone_tui.core.memory.notes import CATEGORIES
from mindstone_tui.core.session.features import EndedTurn, Feature, WrongUse, command
from mindstone_tui.core.session.services import SessionServices


class TasksFeature(Feature):
    """One task at a time, with its checkpoints."""

    name = "tasks"
    for_programs = True

    def __init__(self, session: SessionServices) -> None:
        super().__init__(session)
        self.tasks = Tasks(
            self.context,
            session.features.get(MemoryFeature).memories,
            session.features.get(HealthFeature).health,
            session.cwd,
            trusted=lambda: session.project.instructions().state == "trusted",
            tools_known=lambda: session.tools.started,
        )

    def standing(self) -> SystemPrompt:
        """The task in the person's words, until it is done."""
        section = self.tasks.section
        return SystemPrompt((section,) if section else ())

    def left_open(self) -> Sequence[str]:
        """Where open work goes on."""
        return self.tasks.where_it_stands()

    async def after_turn(self, turn: EndedTurn) -> Sequence[AnyEvent]:
        """Save a checkpoint when something was reached."""
        saved = self.tasks.milestone()
        return announcements(saved) if saved is not None else ()

    def forget(self) -> None:
        """Read the task anew."""
        self.tasks.forget()

    @command(
        "task",
        usage="start TITLE | done | show",
        changes_window=True,
        words=("start", "done", "show"),
    )
    async def task(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Begin a task, end it, or show where it stands.

        `/task start TITLE | when: CRITERION | rule: CONSTRAINT` states what counts as done and what
        must hold; its first message stays in the window until the task is done.
        """
        verb, _, rest = argument.partition(" ")
        if verb == "start" and rest.strip():
            self.tasks.start(rest.strip())
        elif verb == "done":
            line = self.tasks.finish()
            assert isinstance(line.entry, TaskDone)
            offered = offer_review(self.context.transcript)
            text = "\n".join(filter(None, ["Done.", line.entry.summary, offered]))
            yield CommandPrinted(command="task", text=text)
            return
        elif verb == "start":
            raise WrongUse("A task needs a title.")
        elif verb not in ("", "show"):
            raise WrongUse(f"/task does not know `{argument}`.")
        standing = self.tasks.state().checkpoint
        yield CommandPrinted(
            command="task", text=resume.show(standing), data=msgspec.to_builtins(standing)
        )

    @command(
        "checkpoint",
        usage="[save|show|resume]",
        changes_window=True,
        words=("save", "show", "resume"),
        looks=("show",),
    )
    async def checkpoint(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Save the task's state, show it, or go on from it.

        `resume` looks at paths, git and services first, then puts the checkpoint into the prompt,
        once. A checkpoint that is stale, torn, edited or from elsewhere is refused with that word.
        """
        match argument:
            case "" | "save":
                line = self.tasks.save_checkpoint("asked")
                for event in announcements(line):
                    yield event
                text = f"Saved to {self.session.places.checkpoint}."
                yield CommandPrinted(command="checkpoint", text=text, repeats=True)
            case "show":
                resumption = self.tasks.resume()
                yield CommandPrinted(
                    command="checkpoint",
                    text=resumption.block,
                    data=msgspec.to_builtins(resumption),
                )
            case "resume":
                resumption, line = self.tasks.resume_into_prompt()
                for event in announcements(line):
                    yield event
                steps = "\n".join(f"{step.name}: {step.detail}" for step in resumption.steps)
                yield CommandPrinted(
                    command="checkpoint",
                    text=f"{steps}\nThis stands in the prompt from now on:\n\n{resumption.block}",
                    data=msgspec.to_builtins(resumption),
                )
            case _:
                raise WrongUse(f"/checkpoint does not know `{argument}`.")

    @command("notes", usage="[CATEGORY[!|!!] TEXT | gather]", words=(*CATEGORIES, "gather"))
    async def notes(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show the notes of this task, or take one.

        `!` behind the category makes it important, `!!` critical. `gather` makes notes of what the
        window says.
        """
        memories = self.session.features.get(MemoryFeature).memories
        if argument == "gather":
            for event in announcements(
                *await self.tasks.gather_notes(self.session.modes.means.summarizer)
            ):
                yield event
        elif argument:
            category, _, text = argument.partition(" ")
            importance = {"!": "high", "!!": "critical"}.get(
                category[len(category.rstrip("!")) :], ""
            )
            category = category.rstrip("!")
            if category not in CATEGORIES or not text.strip():
                known = ", ".join(CATEGORIES)
                raise WrongUse(f"A note has a category ({known}) and a text.")
            memories.take_note(category, text.strip(), importance or "normal", by="person")
        rows = [f"{note.category}: {note.text}" for note in memories.notes]
        yield CommandPrinted(
            command="notes",
            text="\n".join(rows) or "There are no notes.",
            data={"notes": msgspec.to_builtins(memories.notes)},
        )
