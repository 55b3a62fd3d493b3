"""The words for entries that no event stands for, and the line that words stand in."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, Literal

import msgspec

from mindstone_tui.core.entries import Entry, Unknown, base, conversation, derived, store, window
from mindstone_tui.core.numbers import percent, seconds, tokens
from mindstone_tui.core.text import inside, one_line, plural
from mindstone_tui.core.values import Value

SURFACES: Final = {
    "web": ("on", "the page"),
    "tui": ("in", "the app"),
    "cli": ("in", "the line chat"),
    "acp": ("in", "an editor"),
    "python": ("by", "a Python program"),
    "run": ("by", "`mindstone run`"),
    "waiting": ("by", "`mindstone waiting`"),
}
"""Who takes a turn or answers, by the channel of its lines, and how a place there is named."""


def surface_of(channel: str) -> tuple[str, str]:
    """How a place on a surface is named, and the surface, in words."""
    return SURFACES.get(channel, ("by", f"another program ({one_line(channel, 20)})"))


ANSWERED: Final = "the answer to "
"""How something was decided that a call asked for; its `tool_answered` has the key and surface."""


def decided(channel: str, how: str, seen: float) -> str:
    """Where a person decided, with which key or click, and how long they could have read it."""
    where = "" if how.startswith(ANSWERED) else " ".join(surface_of(channel))
    where = "in a shell" if how.startswith("typed mindstone") else where
    with_it = "that answer" if how.startswith(ANSWERED) else one_line(how, 60)
    key = f"with {with_it}" if how else ""
    read = f"{seen * 1_000:.0f} ms" if 0 < seen < 0.1 else seconds(seen)
    after = f", {read} after it came into view" if seen else ""
    return " ".join(filter(None, (where, key))) + after


_FIRST_ARGUMENTS: Final = ("file_path", "path", "command", "cmd", "pattern", "query")

Tone = Literal["note", "good", "warning", "error"]


class EventLine(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """What happened in one line, with an optional detail or next step."""

    sign: str = "·"
    text: str
    detail: str = ""
    tone: Tone = "note"
    more: tuple[str, ...] = ()
    """Particulars for a reader who wants all of them; unlike the rest, foreign text as it came."""

    def __str__(self) -> str:
        return f"{self.sign} {self.text}" + (f" ({self.detail})" if self.detail else "")


def of_entry(entry: Entry | Unknown, channel: str) -> EventLine | None:
    """The words for an entry that no event stands for, on the surface that wrote it."""
    match entry:
        case conversation.AssistantMessage(text="", calls=calls) if calls:
            return EventLine(sign="●", text=f"Calls {', '.join(call.name for call in calls)}")
        case Unknown(kind=kind, fields=fields):
            known = {name: value for name, value in fields.items() if name != "kind"}
            text = f"{kind.replace('_', ' ')}: {msgspec.json.encode(known).decode()}"
            return EventLine(text=text)
        case store.SessionDescribed(program=program, title=title, folder=folder):
            text = f"A session of {program}" + (f": {one_line(title, 120)}" if title else "")
            return EventLine(sign="⤓", text=text, detail=one_line(folder, 200))
        case store.Imported(format=name, added=added, skipped=skipped):
            text = f"Imported {plural(added, 'message')} from {name}"
            more = tuple(f"line {each.line}: {each.why}" for each in skipped)
            return EventLine(sign="⤓", text=text, more=more)
        case _:
            kinds = (_of_talk, _of_work, _of_rule, _of_record)
            text, detail = next(filter(None, (of(entry) for of in kinds)), ("", ""))
            if text and isinstance(entry, base.ByHand) and entry.how:
                text = f"{text}, {decided(channel, entry.how, entry.seen)}"
            return EventLine(text=text, detail=detail) if text else None


def turn_names(turns: Iterable[int]) -> str:
    """Turns as runs: `turn 7`, `turns 3–14, 17`."""
    runs: list[list[int]] = []
    for turn in sorted(turns):
        if runs and runs[-1][1] + 1 >= turn:
            runs[-1][1] = turn
        else:
            runs.append([turn, turn])
    named = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
    return f"turns {named}" if "–" in named or "," in named else f"turn {named}"


def is_folder(change: store.FileChange) -> bool:
    """Whether a folder came, went or is another one."""
    return (change.after or change.before).startswith("folder")


def how_many(event: store.ChangesOfCall | store.ChangesTakenBack) -> str:
    """How many files, and folders in which nothing else changed."""
    files = event.total - sum(map(is_folder, event.changes))
    folders = sum(map(is_folder, named_in(event)))
    counted = ((files, "file"), (folders, "folder"))
    return " and ".join(plural(many, name) for many, name in counted if many)


def named_in(event: store.ChangesOfCall | store.ChangesTakenBack) -> list[store.FileChange]:
    """What changed, without the folders of something else that did."""
    within = {str(above) for one in event.changes for above in PurePosixPath(one.path).parents}
    return [one for one in event.changes if not is_folder(one) or one.path not in within]


def taken_back(done: store.ChangesTakenBack) -> EventLine:
    """What turns had done to files, and is undone or done again."""
    undone, left = done.direction == "undo", done.left
    did = "taken back" if undone else "done again"
    kept = f"; {plural(len(left), 'path')} left as they are" if left else ""
    return EventLine(
        sign="↶" if undone else "↷",
        text=f"Changes of {turn_names(done.turns)} {did}: {how_many(done)}{kept}",
        detail="/redo does it again" if undone else "/undo takes it back",
        more=left,
    )


def decision_in(entry: Entry | Unknown, channel: str) -> str:
    """What a person decided on a surface, in words; nothing where an entry is no decision."""
    is_one = isinstance(entry, derived.MemoryDecided) or (
        isinstance(entry, base.ByHand) and bool(entry.how)
    )
    told = of_entry(entry, channel) if is_one else None
    if isinstance(entry, store.FilesRestored):
        told = taken_back(entry)
    return "" if told is None else str(told).removeprefix("· ")


def _of_talk(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case conversation.SessionOpened(agent=agent, main=main, forked_from=None):
            return f"Session {agent}:{main} opened", ""
        case conversation.TurnStarted(origin=origin):
            return "Turn started", origin
        case conversation.ClientMatched(format=name, known=known, adopted=adopted, action=action):
            text = f"Matched with what a client sent ({name}): {action}"
            return text, f"{plural(known, 'message')} known, {adopted} taken over"
        case conversation.ToolAsked(name=name, shown=shown):
            return f"Approval asked for: {call_line(name, shown)}", ""
        case conversation.ToolApproved(by="person", remember=remember):
            return "You approved this", f"remembered for this {remember}" if remember else ""
        case conversation.ToolApproved(by=by, rule=rule, given=given):
            return f"Approved by {by}: {rule}{given}" if rule else f"Approved by {by}", ""
        case conversation.ToolRefused(by=conversation.NOBODY, why=why):
            return f"Not run: {why}", ""
        case conversation.ToolRefused(by="person", why=why):
            return "You declined this", "" if "by the user" in why else why
        case conversation.ToolRefused(by=by, why=why):
            return f"Declined by {by}", why
        case conversation.SideRequestSent(purpose=purpose, model=model):
            return f"Side request to {model}: {purpose}", ""
        case window.PromptPlanned(purpose=purpose, model=model) if purpose:
            return f"Side request to {model}: {purpose}", ""
        case conversation.MessageCut(target=target, tokens_before=before, tokens_after=after):
            text = f"Message at line {target} shortened · {tokens(before)} → {tokens(after)} tokens"
            return text, "full text kept in the transcript"
        case window.RoomStepTaken(step=step, tokens_before=before, tokens_after=after) as taken:
            named = f"{step.replace('_', ' ')} ({taken.strategy})" if taken.strategy else step
            kept = "" if taken.fidelity is None else f"; {taken.fidelity:.0%} of the facts kept"
            cost = plural(taken.calls, "model call")
            text = f"Room made by {named} · {tokens(before)} → {tokens(after)} tokens"
            return text, f"{cost}{kept}{'; ' if taken.why else ''}{taken.why}"
    return None


def _of_work(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case derived.Delegated(task=task, child=child):
            return f"Delegated to {child}: {task}", ""
        case derived.TaskStarted(title=title):
            return f"Task started: {title}", ""
        case derived.TaskDone(title=title, summary=summary):
            return f"Task done: {title}", summary
        case derived.NoteTaken(category=category, text=text):
            return f"Note ({category}): {text}", ""
        case derived.TodoChanged(items=items, by=by):
            done = sum(one.status == "done" for one in items)
            return f"To do: {done} of {len(items)} done", f"by the {by}"
        case derived.PlanChanged(stage="refused", seen=0.0, why="left without a plan"):
            return "Plan mode left", "without a plan"
        case derived.PlanChanged(stage=stage, steps=steps, why=why):
            return f"Plan {stage}" + (f" · {plural(len(steps), 'step')}" if steps else ""), why
        case derived.JobStarted(job=job, command=command, stays=stays):
            return f"Job {job} started: {command}", "stays when MindStone ends" if stays else ""
        case derived.HookRun(source="mindstone", text=text):
            return "From earlier sessions", inside(text)
        case derived.HookRun(event=event, command=command, status=status, why=why):
            return f"Hook {event} {status}: {command}", why
        case derived.MemoryDigested(files=files):
            return f"From approved memory: {', '.join(files)}", ""
        case derived.MemoryDecided(proposal=proposal, decision=decision, by=by, why=why):
            told = f"“{one_line(entry.words, 160)}”" if entry.words else ""
            of_whom = "" if by == "person" else f" by {by}"
            return f"Memory {proposal} {decision}{of_whom}", " · ".join(filter(None, (told, why)))
    return None


def _of_rule(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case derived.RuleSet(number=number, words=words, checked=checked):
            return f"Rule {number}: {words}", checked or "nothing of it can be checked"
        case derived.RuleRetired(number=number):
            return f"Rule {number} stands no longer", ""
        case derived.RuleFired(number=number, verdict=verdict):
            spoke = "refused a call" if verdict == "deny" else "had a person asked"
            return f"Rule {number} {spoke}", ""
        case derived.CompactionCertified(program=program):
            return f"Compaction: {entry.sentence}", f"of {program}"
        case derived.OfferAnswered(offer=offer, keep=keep, why=why):
            lapsed = "" if keep or entry.words or entry.how else ", as the person went on"
            return f"{'Kept' if keep else 'Not kept'}{lapsed}: what line {offer} offered", why
    return None


def _of_record(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case derived.RecallDropped(entry=source, from_session=session):
            return f"Recalled passage dropped: {source}", session
        case derived.RecallUsed(silent=silent) if silent:
            return "Recall brought nothing back", silent
        case derived.StatementSuperseded(statement=seq, by=by):
            told = derived.replaced_in_words(None if entry.part else by, {by: entry.part})
            return f"#{seq} is {told[0]}", ""
        case derived.RecallUsed(used=used, unused=unused, of=of):
            total = plural(of or len(used) + len(unused), "recalled passage")
            return f"The answer used {len(used)} of {total}", ""
        case derived.HandoffReplayed(text=text):
            return "Handoff loaded" if text else "What was resumed is over", ""
        case derived.BackfillChecked(unindexed=waiting):
            return f"{plural(waiting, 'exchange')} waiting to be indexed", ""
        case derived.SummaryJudged(score=score, why=why) if score is None:
            return "Summary not judged", why
        case derived.SummaryJudged(summary=summary, score=score, passes=passes):
            word = "passes" if passes else "does not pass"
            return f"Summary #{summary} judged: {score:.0%}, {word}", ""
        case derived.Consolidated(through=through, proposals=proposals):
            found = plural(len(proposals), "memory proposed", "memories proposed")
            return f"History reviewed up to line {through} · {found}", ""
        case window.Forked(child=child, at=at):
            return f"Forked to {child} at line {at}", ""
        case window.InstructionsChanged(sections=sections):
            return f"System prompt set · {plural(len(sections), 'section')}", ""
        case window.ToolsChanged(tools=tools):
            return f"{plural(len(tools), 'tool')} offered to the model", ""
        case window.WindowCarried():
            return "Window state saved", ""
        case window.HealthMeasured(utilization=share):
            return f"Health measured · {percent(share)} full", ""
        case store.TailRecovered(length=length, copy=copy):
            return f"An incomplete last line ({length} bytes) was moved aside", copy
        case store.FileReplaced():
            return "Another program replaced the transcript file", ""
        case store.TrustAsked(folder=folder, files=files):
            return f"Folder not trusted yet: {folder}", ", ".join(files)
        case store.ProjectTrusted(folder=folder, refused=refused, why=why):
            return f"Folder {'not ' if refused else ''}trusted: {folder}", why
    return None


def call_line(name: str, shown: str) -> str:
    """A call as one line: the tool, then what it is about."""
    rest = without_name(shown.partition("\n")[0], name)
    return f"{name}: {one_line(rest, 160)}" if rest else name


def without_name(shown: str, name: str) -> str:
    """A call as it is shown, without the tool's name in front, or the verb of the shell's.

    Calls of other programs were imported with their arguments as data; their values are shown.
    """
    if name == "shell" and shown.startswith("run "):
        return shown.removeprefix("run ")
    rest = shown.removeprefix(name).lstrip(" :") if shown.startswith(name) else shown
    return _values(rest) if rest.startswith("{") else rest


def _values(arguments: str) -> str:
    """The values of a call's arguments, the place or the command first; else what was given."""
    try:
        found = msgspec.json.decode(arguments, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError):
        return arguments
    first = next((name for name in _FIRST_ARGUMENTS if name in found), "")
    order = [first, *(name for name in found if name != first)] if first else list(found)
    return " ".join(str(found[name]) for name in order)
