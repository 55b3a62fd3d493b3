"""Commands about what crosses windows: notes, memory, checkpoints, handoffs, tasks, health."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui import __version__
from mindstone_tui.core.agent.review import (
    finish_review,
    offer_review,
    outcome_in_words,
    reviewed_through,
)
from mindstone_tui.core.commands.registry import COMMANDS, command, wrong_use
from mindstone_tui.core.context.modes import NOTHING_TO_GAIN
from mindstone_tui.core.context.plan import make_room_by
from mindstone_tui.core.entries.derived import HandoffWritten, SummaryJudged, TaskDone
from mindstone_tui.core.errors import NotAllowed
from mindstone_tui.core.events import AnyEvent, CommandPrinted, Noticed
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.handoff import resume
from mindstone_tui.core.health import export
from mindstone_tui.core.health.monitor import health_data, health_text
from mindstone_tui.core.memory.files import read_shelf
from mindstone_tui.core.memory.notes import CATEGORIES
from mindstone_tui.core.memory.proposals import Decision, ProposalDraft, diff
from mindstone_tui.core.text import plural

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices

FORMATS: Final = ("prometheus", "otlp")
DECISIONS: Final[dict[str, Decision]] = {
    "approve": "approved",
    "approve!": "approved",
    "refuse": "refused",
    "undo": "undone",
}


@command("compact", changes_window=True)
async def compact(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Summarise older exchanges now.

    The task is checkpointed and a handoff written first; the originals stay in history, indexed.
    """
    del argument
    before = services.context.report().prompt.tokens
    fired = await services.context.hooks.before_compact("manual")
    for notice in fired.notices:
        yield notice
    if fired.blocked is not None:
        raise NotAllowed(f"A hook stopped this: {fired.blocked}", "`/hooks` lists them.")
    lines = await make_room_by(services.context.window, services.modes.compact)
    for event in announcements(*lines):
        yield event
    if any(line.kind == "summary_derived" for line in lines):
        after = services.context.report().prompt.tokens
        text = (
            f"Older exchanges are summarised: the prompt has {after:,} tokens, before {before:,}."
        )
        yield CommandPrinted(
            command="compact", text=text, data={"tokens_before": before, "tokens_after": after}
        )
        return
    outcome = services.modes.last_chain
    why = outcome.why if outcome is not None and outcome.why else ""
    only_recent = not why or "nothing but the newest" in why
    if NOTHING_TO_GAIN in why:
        text = f"Nothing to gain: {NOTHING_TO_GAIN}. The window stays as it is, {before:,} tokens."
    elif only_recent:
        text = "Nothing to compact: only recent exchanges are left."
    else:
        text = f"Nothing was compacted: {why}."
    ok = only_recent or NOTHING_TO_GAIN in why
    yield CommandPrinted(command="compact", text=text, ok=ok)


@command("notes", usage="[CATEGORY[!|!!] TEXT | gather]", words=(*CATEGORIES, "gather"))
async def notes(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show the notes of this task, or take one.

    `!` behind the category makes it important, `!!` critical. `gather` makes notes of what the
    window says.
    """
    memories = services.memories
    if argument == "gather":
        for event in announcements(
            *await services.tasks.gather_notes(services.modes.means.summarizer)
        ):
            yield event
    elif argument:
        category, _, text = argument.partition(" ")
        importance = {"!": "high", "!!": "critical"}.get(category[len(category.rstrip("!")) :], "")
        category = category.rstrip("!")
        if category not in CATEGORIES or not text.strip():
            known = ", ".join(CATEGORIES)
            raise wrong_use("notes", f"A note has a category ({known}) and a text.")
        memories.take_note(category, text.strip(), importance or "normal", by="person")
    rows = [f"{note.category}: {note.text}" for note in memories.notes]
    yield CommandPrinted(
        command="notes",
        text="\n".join(rows) or "There are no notes.",
        data={"notes": msgspec.to_builtins(memories.notes)},
    )


@command(
    "memory",
    usage="[show NAME | add TEXT | approve ID | edit ID TEXT | refuse ID | undo ID | helped NAME]",
    words=("show", "add", "approve", "edit", "refuse", "undo", "helped"),
)
async def memory(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show what is remembered and proposed; decide about a proposal, or undo one.

    Nothing is remembered until a person says so. `approve! ID` approves knowing that it holds
    something sensitive; `edit ID TEXT` approves it in your own words; `helped NAME` counts that a
    memory kept a mistake from happening again.
    """
    memories = services.memories
    verb, _, rest = argument.partition(" ")
    rest = rest.strip()
    if verb in DECISIONS and rest:
        decision = DECISIONS[verb]
        memories.decide(rest, decision, by="person", knowingly=verb == "approve!")
        yield CommandPrinted(command="memory", text=f"{rest} is {decision}.")
    elif verb == "edit" and len(rest.split(None, 1)) == 2:
        proposal, text = rest.split(None, 1)
        memories.edit(proposal, text)
        yield CommandPrinted(command="memory", text=f"{proposal} is edited and remembered.")
    elif verb == "helped" and rest:
        name = memories.note_prevented(rest)
        yield CommandPrinted(command="memory", text=f"Counted for {name}.")
    elif verb == "add" and rest:
        line, made = memories.propose(
            ProposalDraft(kind="fact", name=rest[:60], text=rest),
            # The proposal's own line is what the person said.
            (services.context.transcript.head.seq + 1,),
            by="person",
        )
        for event in announcements(line):
            yield event
        name = made.entry.proposal
        caution = f"CAUTION: this holds {', '.join(made.cautions)}\n" if made.cautions else ""
        text = f"Proposed as {name}:\n{caution}{made.diff}\n/memory approve {name}"
        yield CommandPrinted(command="memory", text=text, data={"proposal": name})
    elif verb in ("", "list", "show"):
        yield _shelf(services, rest)
    else:
        alone = verb in COMMANDS["memory"].words or verb in DECISIONS
        why = f"`{argument}` needs to know what" if alone else f"/memory does not know `{argument}`"
        raise wrong_use("memory", f"{why}.")


def _shelf(services: SessionServices, name: str) -> CommandPrinted:
    memories = services.memories
    shelf = read_shelf(memories.agent)
    chosen = [
        one for one in shelf.live if not name or name.casefold() in one.memory.name.casefold()
    ]
    rows = [f"{one.file:32} {one.memory.body if name else one.memory.name}" for one in chosen]
    waiting = [
        f"{one.entry.proposal}: {one.entry.path} ({one.entry.why or 'no reason given'})\n"
        f"{diff(one.entry)}"
        for one in memories.waiting
    ]
    parts = ["\n".join(rows) or "Nothing is remembered."]
    if waiting and not name:
        parts.append("Proposed, to be decided by you:\n" + "\n".join(waiting))
    return CommandPrinted(
        command="memory",
        text="\n\n".join(parts),
        data={
            "memories": [msgspec.to_builtins(one.memory) for one in chosen],
            "proposals": [msgspec.to_builtins(one.entry) for one in memories.waiting],
        },
    )


@command(
    "checkpoint",
    usage="[save|show|resume]",
    changes_window=True,
    words=("save", "show", "resume"),
    looks=("show",),
)
async def checkpoint(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Save the task's state, show it, or go on from it.

    `resume` looks at paths, git and services first, then puts the checkpoint into the prompt, once.
    A checkpoint that is stale, torn, edited or from elsewhere is refused with that word.
    """
    match argument:
        case "" | "save":
            line = services.tasks.save_checkpoint("asked")
            for event in announcements(line):
                yield event
            text = f"Saved to {services.places.checkpoint}."
            yield CommandPrinted(command="checkpoint", text=text, repeats=True)
        case "show":
            resumption = services.tasks.resume()
            yield CommandPrinted(
                command="checkpoint",
                text=resumption.block,
                data=msgspec.to_builtins(resumption),
            )
        case "resume":
            resumption, line = services.tasks.resume_into_prompt()
            for event in announcements(line):
                yield event
            steps = "\n".join(f"{step.name}: {step.detail}" for step in resumption.steps)
            yield CommandPrinted(
                command="checkpoint",
                text=f"{steps}\nThis stands in the prompt from now on:\n\n{resumption.block}",
                data=msgspec.to_builtins(resumption),
            )
        case _:
            raise wrong_use("checkpoint", f"/checkpoint does not know `{argument}`.")


@command(
    "handoff",
    usage="[write|show|use] [prose]",
    changes_window=True,
    words=("write", "show", "use"),
    looks=("show",),
)
async def handoff(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Write a handoff for the next window, show the newest, or load it (once)."""
    verb, _, how = argument.partition(" ")
    if verb in ("", "write"):
        line = await services.handoffs.write(
            "asked", prose_by=services.modes.ask if how.strip() == "prose" else None
        )
        for event in announcements(line):
            yield event
        assert isinstance(line.entry, HandoffWritten)
        path = line.entry.path
        text = f"Written to {path}."
        yield CommandPrinted(command="handoff", text=text, data={"path": path}, repeats=True)
    elif verb == "show":
        yield CommandPrinted(command="handoff", text=services.handoffs.newest())
    elif verb == "use":
        services.handoffs.use()
        yield CommandPrinted(command="handoff", text="The handoff is in the prompt now.")
    else:
        raise wrong_use("handoff", f"/handoff does not know `{argument}`.")


@command(
    "task",
    usage="start TITLE | done | show",
    changes_window=True,
    words=("start", "done", "show"),
)
async def task(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Begin a task, end it, or show where it stands.

    `/task start TITLE | when: CRITERION | rule: CONSTRAINT` states what counts as done and what
    must hold; its first message stays in the window until the task is done.
    """
    verb, _, rest = argument.partition(" ")
    if verb == "start" and rest.strip():
        services.tasks.start(rest.strip())
    elif verb == "done":
        line = services.tasks.finish()
        assert isinstance(line.entry, TaskDone)
        offered = offer_review(services.context.transcript)
        text = "\n".join(filter(None, ["Done.", line.entry.summary, offered]))
        yield CommandPrinted(command="task", text=text)
        return
    elif verb == "start":
        raise wrong_use("task", "A task needs a title.")
    elif verb not in ("", "show"):
        raise wrong_use("task", f"/task does not know `{argument}`.")
    standing = services.tasks.state().checkpoint
    yield CommandPrinted(
        command="task", text=resume.show(standing), data=msgspec.to_builtins(standing)
    )


@command("health", usage="[prometheus [FILE] | otlp [FILE] | judge]", words=(*FORMATS, "judge"))
async def health(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show the six measures of the working set, alerts and the trend.

    `prometheus` and `otlp` export them, to a file where one is named. `judge` lets the model say
    how much of its originals the newest summary still knows.
    """
    monitor = services.health.monitor
    verb, _, name = argument.partition(" ")
    if verb in FORMATS:
        text = _exported(services, verb)
        if name.strip():
            export.write_textfile(Path(services.cwd) / name.strip(), text)
            text = f"Written to {name.strip()}."
        yield CommandPrinted(command="health", text=text)
    elif verb == "judge":
        judged, line = await services.health.judge(services.modes.ask)
        verdict = line.entry
        assert isinstance(verdict, SummaryJudged)
        gate = "passes" if verdict.passes else "does not pass"
        held = f" It {gate} the gate of {verdict.gate:.0%}." if judged.score is not None else ""
        yield CommandPrinted(
            command="health",
            text=judged.sentence() + held,
            data={**msgspec.to_builtins(judged), "gate": verdict.gate, "passes": verdict.passes},
        )
    elif argument:
        raise wrong_use("health", f"/health does not know `{argument}`.")
    else:
        report = services.context.report()
        full = report.prompt.tokens / max(report.usable, 1)
        yield CommandPrinted(
            command="health", text=health_text(monitor, full), data=health_data(monitor)
        )


def _exported(services: SessionServices, form: str) -> str:
    history = services.health.monitor.history
    if form == "prometheus":
        session, alerts = str(services.key), services.health.monitor.alerts
        return export.prometheus(
            [(session, each) for each in history[-1:]], [(session, each) for each in alerts]
        )
    data = export.otlp(
        str(services.key), history, times=map(export.nanoseconds, history), version=__version__
    )
    return msgspec.json.encode(data).decode()


@command("consolidate", usage="[with model]", changes_window=True)
async def consolidate(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Review history since the last time and propose what is worth remembering.

    It writes no memory by itself: `/memory` shows the proposals. Each piece that was read is
    recorded, so an interrupted review goes on there; a long history takes several runs.
    """
    memories = services.memories
    found = left_out = 0
    finished = True
    async for piece in memories.consolidate(
        reviewed_through(services.context.transcript),
        services.modes.ask if argument == "with model" else None,
    ):
        found += len(piece.findings)
        left_out += piece.left_out
        finished = piece.finished
        said = (
            f"Reviewed {piece.share:.0%} up to #{piece.through}: {plural(found, 'finding')} so far."
        )
        yield Noticed(message=f"{said} {piece.objection}".rstrip())
    lines, told = await finish_review(
        services.context, memories, services.health, services.handoffs, services.recall.backfill
    )
    for event in announcements(*lines):
        yield event
    sentences = outcome_in_words(found, left_out, told, finished=finished)
    yield CommandPrinted(
        command="consolidate",
        text="\n".join(sentences),
        data={
            "findings": found,
            "proposals": [one.entry.proposal for one in memories.waiting],
            "left_out": left_out,
            "finished": finished,
            "checks": told,
        },
    )
