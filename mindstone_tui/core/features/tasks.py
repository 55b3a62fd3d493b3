"""The task under way: begun, written down in checkpoints, taken up again, done."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.health import Health
from mindstone_tui.core.agent.memories import LOOKED_BACK, Memories, now, stamp
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.context.cascade import HANDOFF_SHARE
from mindstone_tui.core.context.extract import folded, passages_of
from mindstone_tui.core.context.fold import ReadLines
from mindstone_tui.core.context.summaries import Material, Summarizer, Summary, summarise
from mindstone_tui.core.context.window_view import reader
from mindstone_tui.core.entries import Line, conversation, standings
from mindstone_tui.core.entries.derived import (
    HandoffReplayed,
    StatementSuperseded,
    SummaryDerived,
    TaskDone,
    TaskStarted,
)
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.events import AnyEvent, CommandPrinted, from_entry
from mindstone_tui.core.features.health import HealthFeature
from mindstone_tui.core.features.memory import MemoryFeature
from mindstone_tui.core.features.recall import RecallFeature
from mindstone_tui.core.handoff import checkpoint_store, handoff_store, resume
from mindstone_tui.core.handoff import environment as surroundings
from mindstone_tui.core.handoff.checkpoint import Checkpoint, Sourced, fresh
from mindstone_tui.core.handoff.resume import Resumption, bootstrap
from mindstone_tui.core.language.replacement import says_more
from mindstone_tui.core.memory import notes
from mindstone_tui.core.memory.notes import CATEGORIES
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.rules.book import RuleBook
from mindstone_tui.core.session.features import EndedTurn, Feature, Happening, WrongUse, command
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.text import as_data, fresh_nonce, one_line
from mindstone_tui.core.transcript import standings_of
from mindstone_tui.core.transcript.reader import rewinds_of

TASK: Final = "task"
"""The section of the prompt's head that states the task."""
BEFORE: Final = 64
"""Lines before a task's first message among which its start is looked for."""
_SHOWN: Final = 120
_RESUME: Final = 2_000
"""Tokens of a checkpoint that is put into the prompt, where the window is large."""
_DRIFT_SHOWN: Final = 300


def begun_as_task(read: ReadLines, first: int | None) -> bool:
    """Whether the message at this line is the first of a task that was started by name."""
    if first is None:
        return False
    for line in reversed(list(read(max(first - BEFORE, 0), first))):
        if isinstance(line.entry, TaskStarted):
            return True
        if isinstance(line.entry, TaskDone) or (
            isinstance(line.entry, conversation.UserMessage) and line.seq < first
        ):
            return False
    return False


def task_section(task: TaskStarted, gone: Collection[str] = ()) -> Section:
    """A task as the head of every prompt says it: in the person's words, until it is done.

    Rules that were corrected are left out.
    """
    binding = [one for one in task.constraints if not gone or says_more(one, gone)]
    when = ["Done when:", *(f"- {one}" for one in task.criteria)] if task.criteria else []
    rules = ["Rules that bind:", *(f"- {one}" for one in binding)] if binding else []
    text = "\n".join(["The task under way:", task.title, *when, *rules])
    return Section(name=TASK, text=text, source="/task start", raw_size=len(text))


def running_task(newest_first: Iterable[Line], standing: Iterable[Section]) -> Section | None:
    """The task under way, from the end of history, else as the newest prompts say it."""
    gone: set[str] = set()
    for line in newest_first:
        if isinstance(line.entry, StatementSuperseded):
            gone.update(line.entry.words)
        if isinstance(line.entry, TaskStarted):
            return task_section(line.entry, gone)
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


def log_section(before: Checkpoint | None, saved: Checkpoint) -> notes.LogSection:
    """What a checkpoint adds to the log: only what the one before it did not say."""
    goal = saved.goal.splitlines()[0][:200] if saved.goal else ""
    known = before or fresh(saved.session)
    finished = {one.title for one in known.of("done")}
    decided = {one.text for one in known.decided}
    met = {one.text for one in known.issues}
    done = [
        *(f"done: {one.title}" for one in saved.of("done") if one.title not in finished),
        *(f"blocker: {one.text}" for one in saved.issues if one.text not in met),
    ]
    return notes.LogSection(
        session=saved.session,
        version=saved.version,
        happened=(*([goal] if goal and saved.goal != known.goal else []), *done[-10:]),
        decisions=tuple(one.text for one in saved.decided if one.text not in decided)[-5:],
    )


Written = tuple[Checkpoint | None, int, checkpoint_store.Saved]
"""The checkpoint before, the line that told of it, and the one that was written."""


class Tasks(msgspec.Struct, dict=True, eq=False):
    """The task of one session."""

    _context: TurnContext
    _memories: Memories
    _health: Health
    _cwd: Path
    trusted: Callable[[], bool] = lambda: False
    tools_known: Callable[[], bool] = lambda: True
    clock: Callable[[], datetime] = now
    book: RuleBook | None = None

    @property
    def places(self) -> SessionPlaces:
        return self._memories.places

    @cached_property
    def section(self) -> Section | None:
        """The task under way, for the head of every prompt; None when none was started."""
        past = self._memories.past
        standing = () if past.was_rewound else self._context.window.fold.sections
        return running_task(past.lines, standing)

    def forget(self) -> None:
        """Another surface wrote: what is known from history is read anew when it is needed."""
        self.__dict__.pop("section", None)

    def state(self) -> checkpoint_store.TaskState:
        """The task as it is now."""
        state = self._context.window.fold.state
        first = state.spans[0].first if state.spans else 0
        since = min(first, first if state.task is None else state.task) - BEFORE
        with self._context.transcript.history() as history:
            found = checkpoint_store.task_state(self.places, history, since=max(since, 0))
        return msgspec.structs.replace(found, checkpoint=self._ruled(found.checkpoint))

    def state_now(self) -> Checkpoint:
        """The same in its surroundings as they are, where a checkpoint told how they were."""
        known = self.state().checkpoint
        if not known.environment.cwd:
            return known
        here = self._look((one.path for one in known.environment.files), self.window_lines())
        # Before the first turn nobody knows the tools of servers and skills.
        here = msgspec.structs.replace(here, tools=here.tools or known.environment.tools)
        return msgspec.structs.replace(known, environment=here)

    def _ruled(self, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint with the rules that bind here now, whichever session set or retired them."""
        if self.book is None or not (every := self.book.all()):
            return checkpoint
        known, key = {folded(one.words) for one in every}, str(self.places.key)
        said = (one for one in checkpoint.constraints if folded(one.text) not in known)
        binds = self.book.standing(str(self._cwd), key)
        rules = (
            Sourced(text=one.words, seq=one.line if one.session == key else 0, kind="rule")
            for one in binds
        )
        return msgspec.structs.replace(checkpoint, constraints=(*rules, *said))

    def save_checkpoint(self, trigger: str) -> Line:
        """Write the task's state down, for machines, for people and into the log."""
        return self.note(self._write(trigger, self.state()))

    def write_if_new(self, trigger: str, state: checkpoint_store.TaskState) -> Written | None:
        """Write a checkpoint unless the newest one says the same; a state is written down once.

        Blocks, so call it off the loop, and then `note` it.
        """
        before = self._saved()
        if before is not None and resume.says_the_same(before, state.checkpoint):
            return None
        return self._write(trigger, state)

    def _write(self, trigger: str, state: checkpoint_store.TaskState) -> Written:
        before = self._saved(also_rewound=True)
        with self._context.transcript.history() as history:
            saves = history.newest(["checkpoint_saved"], LOOKED_BACK)
            told = next((one.seq for one in saves), -1)
        windows = max(state.checkpoint.window, self._context.window.windows)
        saved = checkpoint_store.save(
            self.places,
            msgspec.structs.replace(state.checkpoint, window=windows),
            environment=self.environment(self.window_lines()),
            saved_at=stamp(self.clock()),
            trigger=trigger,
            newest=state.newest,
        )
        return before, told, saved

    def note(self, written: Written) -> Line:
        """Record a checkpoint that was written, and what it tells into the log."""
        before, told, saved = written
        memories = self._memories
        line = self._context.window.record(saved.entry, self._context.transcript.last_turn)
        section = log_section(before, saved.checkpoint)
        section = msgspec.structs.replace(
            section,
            cited=tuple(sorted(memories.cited)),
            prevented=tuple(sorted(memories.prevented)),
            proposed=tuple(one.body for one in memories.waiting if one.seq > told),
        )
        if section.happened or section.decisions or section.cited or section.prevented:
            notes.write_log(memories.agent, section, self.clock())
        memories.cited.clear()
        memories.prevented.clear()
        return line

    def _saved(self, *, also_rewound: bool = False) -> Checkpoint | None:
        with self._context.transcript.history() as history:
            try:
                return checkpoint_store.load_proven(self.places, history, also_rewound=also_rewound)
            except ContinuityError:
                return None

    def milestone(self) -> Line | None:
        """Save a checkpoint when a subtask was done, a decision made or a blocker met meanwhile.

        Only for a task that was begun as one; else every chat would be one.
        """
        with self._context.transcript.history() as history:
            if not begun_as_task(reader(history), self._context.window.fold.state.task):
                return None
        # What a rewound checkpoint has was no news when it was saved, and is none again.
        before = self._saved(also_rewound=True)
        reached = resume.milestones(before, self.state().checkpoint)
        return self.save_checkpoint(f"milestone: {reached}") if reached else None

    def start(self, argument: str) -> Line:
        """Begin a task: `title | when: criterion | rule: constraint`; one under way is done."""
        entry = resume.parse_start(argument)
        if self.section is not None:
            self.finish()
        self._end_resumed()
        line = self._context.window.record(entry, self._context.transcript.last_turn)
        if isinstance(line.entry, TaskStarted):
            self.section = task_section(line.entry)
        return line

    def finish(self) -> Line:
        """End the task: a last checkpoint, archived, a summary, and health that starts anew."""
        self.save_checkpoint("task done")
        checkpoint = self.state().checkpoint
        trend = self._health.monitor.trend()
        starts = (
            one.seq for one in self._memories.past.lines if isinstance(one.entry, TaskStarted)
        )
        entry = resume.done(
            checkpoint,
            since=next(starts, 0),
            archived=str(checkpoint_store.archive(self.places).relative_to(self.places.folder)),
            trend=trend.sentence() if trend else "",
        )
        line = self._context.window.record(entry, self._context.transcript.last_turn)
        self._end_resumed()
        self.section = None
        self._health.monitor.reset()
        self._memories.notes = ()
        return line

    def _end_resumed(self) -> None:
        """What was resumed or handed over was about a task that is over: it leaves the prompt."""
        fold = self._context.window.fold
        if fold.state.handoff is not None and fold.derived.get(fold.state.handoff):
            ended = HandoffReplayed(sha256="", text="", state=fold.state)
            self._context.window.record(ended, self._context.transcript.last_turn)

    def resume(self) -> Resumption:
        """The five steps of going on; refused with its reason when the checkpoint is no good.

        What matters least of it is told only as far as a small window has room.
        """
        call = self._context.window.call(self._context.target)
        budget = min(_RESUME, call.room.tokens(HANDOFF_SHARE))
        with self._context.transcript.history() as history:
            return bootstrap(
                lambda: checkpoint_store.load_proven(self.places, history),
                lambda files: self._look(files, self.window_lines()),
                self._context.count,
                budget,
                lambda seq: summary_text(reader(history), seq),
                lambda saved: handoff_store.corrected(history, saved.head.seq),
                lambda saved: handoff_store.put_back(history, saved.head.seq),
                lambda _: self.state().checkpoint,
            )

    def resume_into_prompt(self) -> tuple[Resumption, Line]:
        """Check what is around the work, and put the checkpoint into the prompt, once.

        The entry holds the text, so that a replay builds the same prompts.
        """
        found = self.resume()
        checkpoint = found.checkpoint
        if ended := self.ended_since(checkpoint):
            raise ContinuityError(
                ended, "/task start begins another; /checkpoint show prints what was reached."
            )
        if any(
            isinstance(one.entry, HandoffReplayed) and one.entry.sha256 == checkpoint.sha256
            for one in self._since(checkpoint)
        ):
            raise ContinuityError(
                f"Checkpoint {checkpoint.version} stands in the prompt already.",
                "/checkpoint show prints it; /checkpoint saves a new one.",
            )
        text = as_data(found.block, origin=f"checkpoint {checkpoint.version}", nonce=fresh_nonce())
        window = self._context.window
        entry = HandoffReplayed(sha256=checkpoint.sha256, text=text, state=window.fold.state)
        return found, window.record(entry, self._context.transcript.last_turn)

    def _since(self, checkpoint: Checkpoint) -> list[Line]:
        """What was written after a checkpoint and not taken back."""
        with self._context.transcript.history() as history:
            return standings.not_rewound(reader(history)(checkpoint.head.seq + 1, history.head.seq))

    def ended_since(self, checkpoint: Checkpoint) -> str:
        """That the task of a checkpoint was ended after it; empty while it goes on."""
        if any(isinstance(one.entry, TaskDone) for one in self._since(checkpoint)):
            return f"The task of checkpoint {checkpoint.version} is done."
        return ""

    def where_it_stands(self) -> list[str]:
        """What a person is told who opens a session with open work: where, and what changed."""
        if not self.places.checkpoint.exists():
            return []
        try:
            found = self.resume()
            return [] if self.ended_since(found.checkpoint) else where_it_stands(found)
        except ContinuityError as error:
            return [error.what]

    async def gather_notes(self, summarizer: Summarizer) -> list[Line]:
        """Make notes of what the window says, by a model that is audited, else by choosing."""
        with self._context.transcript.history() as history:
            read = reader(history)
            spans = self._context.window.fold.state.spans
            lines = [line for span in spans for line in read(span.first, span.last)]
            said = passages_of(lines, standings_of(history))
        outcome = await summarise("notes", Material(passages=said), summarizer)
        if not isinstance(outcome, Summary):
            raise ContinuityError(f"No notes were made: {outcome.why}.", "Say more first.")
        turn = self._context.transcript.last_turn
        derived = self._context.window.record(outcome.entry(), turn)
        taken = notes.derived(outcome.text, outcome.model)
        return [derived, *map(self._memories.keep_note, taken)]

    def window_lines(self) -> list[Line]:
        """Every line of the window's runs of history, and whatever came after them."""
        with self._context.transcript.history() as history:
            read = reader(history)
            spans = self._context.window.fold.state.spans
            lines = [line for span in spans for line in read(span.first, span.last)]
            last, there = lines[-1].seq if lines else -1, rewinds_of(history).there
            since = standings.not_rewound(read(last + 1, history.head.seq))
            return [*(line for line in lines if line.seq not in there), *since]

    def environment(self, lines: Sequence[Line]) -> surroundings.Environment:
        """What surrounds the work: the files it touched, git, services, the tools on offer."""
        touched = surroundings.files_touched(lines)
        read, changed = ([f.path for f in touched if f.changed is kind] for kind in (False, True))
        return self._look([*read, *changed], lines)

    def _look(self, files: Iterable[str], lines: Sequence[Line]) -> surroundings.Environment:
        """Only a folder that is trusted has git asked, and services knocked at, on its behalf."""
        trusted = self.trusted()
        return surroundings.observe(
            self._cwd,
            files,
            tools=self._tool_names(),
            changes=surroundings.git_changes(self._cwd) if trusted else (),
            services=surroundings.services_at(surroundings.ports_used(lines)) if trusted else (),
        )

    def _tool_names(self) -> list[str]:
        """Those on offer; none before the first turn brings those of servers and skills."""
        return list(self._context.tools) if self.tools_known() else []


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
            book=RuleBook(session.home),
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
        return from_entry.announcements(saved) if saved is not None else ()

    def forget(self) -> None:
        """Read the task anew."""
        self.tasks.forget()

    @command(
        "task",
        usage="start TITLE | done | show",
        changes_window=True,
        words=("start", "done", "show"),
    )
    async def task(self, argument: str) -> AsyncIterator[Happening]:
        """Begin a task, end it, or show where it stands.

        `/task start TITLE | when: CRITERION | rule: CONSTRAINT` states what counts as done and what
        must hold; its first message stays in the window until the task is done. Another start ends
        the task before: its rules, list and notes go, what the session settled stays.
        """
        verb, _, rest = argument.partition(" ")
        if verb == "start" and rest.strip():
            self.tasks.start(rest.strip())
            self.session.read_anew()
        elif verb == "done":
            line = self.tasks.finish()
            self.session.read_anew()
            assert isinstance(line.entry, TaskDone)
            text = "\n".join(filter(None, ["Done.", line.entry.summary]))
            yield CommandPrinted(text=text)
            memory = self.session.features.get(MemoryFeature)
            yield from_entry.announcements(*await memory.look_back())
            return
        elif verb == "start":
            raise WrongUse("A task needs a title.")
        elif verb not in ("", "show"):
            raise WrongUse(f"/task does not know `{argument}`.")
        standing = self.tasks.state_now()
        yield CommandPrinted(text=resume.show(standing), data=msgspec.to_builtins(standing))

    @command(
        "checkpoint",
        usage="[save|show|resume]",
        changes_window=True,
        words=("save", "show", "resume"),
        looks=("show",),
    )
    async def checkpoint(self, argument: str) -> AsyncIterator[Happening]:
        """Save the task's state, show it, or go on from it.

        `resume` looks at paths, git and services first, then puts the checkpoint into the prompt,
        once. A checkpoint that is stale, torn, edited or from elsewhere is refused with that word.
        """
        match argument:
            case "" | "save":
                await self.session.features.get(RecallFeature).judge()
                line = self.tasks.save_checkpoint("asked")
                yield from_entry.announcements(line)
                text = f"Saved to {self.session.places.checkpoint}."
                yield CommandPrinted(text=text, repeats=True)
            case "show":
                resumption = self.tasks.resume()
                text = resumption.block
                if ended := self.tasks.ended_since(resumption.checkpoint):
                    _, _, reached = text.partition("\n\n")
                    text = f"{ended} It reached this.\n\n{reached}"
                yield CommandPrinted(text=text, data=msgspec.to_builtins(resumption))
            case "resume":
                resumption, line = self.tasks.resume_into_prompt()
                yield from_entry.announcements(line)
                steps = "\n".join(f"{step.name}: {step.detail}" for step in resumption.steps)
                yield CommandPrinted(
                    text=f"{steps}\nThis stands in the prompt from now on:\n\n{resumption.block}",
                    data=msgspec.to_builtins(resumption),
                )
            case _:
                raise WrongUse(f"/checkpoint does not know `{argument}`.")

    @command("notes", usage="[CATEGORY[!|!!] TEXT | gather]", words=(*CATEGORIES, "gather"))
    async def notes(self, argument: str) -> AsyncIterator[Happening]:
        """Show the notes of this task and what you had kept before it, or take one.

        `!` behind the category makes it important, `!!` critical. `gather` makes notes of what the
        window says.
        """
        memories = self.session.features.get(MemoryFeature).memories
        if argument == "gather":
            means = self.session.modes.means
            yield from_entry.announcements(*await self.tasks.gather_notes(means.summarizer))
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
            text="\n".join(rows) or "There are no notes.",
            data={"notes": msgspec.to_builtins(memories.notes)},
        )
