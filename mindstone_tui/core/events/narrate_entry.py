"""The words for entries that no event stands for, and the line that words stand in."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, Literal

import msgspec

from mindstone_tui.core.entries import Entry, Unknown, base, conversation, derived, store, window
from mindstone_tui.core.numbers import dollars, percent, seconds, tokens
from mindstone_tui.core.text import inside, one_line, plural
from mindstone_tui.core.values import Value, shipped

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
    typed = with_it.removeprefix("typed ")
    key = "" if not how else f"with {with_it}" if typed == with_it else f"by typing {typed}"
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


_WORDS: Final = shipped(__file__, "words.json", dict[str, dict[str, EventLine]])
"""The words for what is always told alike, by the name of its kind, with its fields in them."""
_FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "": str,
    "tokens": lambda count: tokens(round(count)),
    "seconds": seconds,
    "percent": percent,
    "dollars": dollars,
    "in short": lambda text: one_line(text, 160),
    "listed": ", ".join,
    "words": lambda names: ", ".join(names).replace("_", " "),
}


class _Field(msgspec.Struct):
    value: Any

    def __format__(self, form: str) -> str:
        """It in one of the forms; any other form is a noun, and says how many of these it is."""
        if form in _FORMS:
            return _FORMS[form](self.value)
        count = self.value if isinstance(self.value, int) else len(self.value)
        return plural(count, *form.split("/"))


class _Fields(msgspec.Struct):
    source: object

    def __getitem__(self, name: str) -> _Field:
        return _Field(getattr(self.source, name))


def always(group: str, name: str, source: object) -> EventLine | None:
    """The words for what is always told alike, with the fields of a source; None for the rest."""
    if (line := _WORDS[group].get(name)) is None:
        return None
    text, detail = (part.format_map(_Fields(source)) for part in (line.text, line.detail))
    return msgspec.structs.replace(line, text=text, detail=detail)


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
            kinds = (_of_talk, _of_work, _of_rule, _of_record, _of_any)
            text, detail = next(filter(None, (of(entry) for of in kinds)), ("", ""))
            if text and isinstance(entry, base.ByHand) and entry.how:
                text = f"{text}, {decided(channel, entry.how, entry.seen)}"
            return EventLine(text=text, detail=detail) if text else None


def turn_names(turns: Iterable[int | range]) -> str:
    """Turns as runs: `turn 7`, `turns 3–14, 17`; however many a range holds, none is counted."""
    runs: list[list[int]] = []
    bounds = ((one, one) if isinstance(one, int) else (one.start, one.stop - 1) for one in turns)
    for first, last in sorted(bounds):
        if runs and runs[-1][1] + 1 >= first:
            runs[-1][1] = max(runs[-1][1], last)
        else:
            runs.append([first, last])
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
    kept = f"; {plural(len(left), 'path left as it is', 'paths left as they are')}" if left else ""
    return EventLine(
        sign="↶" if undone else "↷",
        text=f"Changes of {turn_names(done.turns)} {did}: {how_many(done)}{kept}",
        detail="/redo does it again" if undone else "/undo takes it back",
        more=left,
    )


def cut_short(ended: conversation.EndOfTurn) -> str:
    """That a turn was stopped, or why it failed."""
    if ended.ending == "interrupted":
        return f"Interrupted ({ended.how})" if ended.how else "Interrupted"
    return ended.why or "The turn failed"


def decision_in(entry: Entry | Unknown, channel: str) -> str:
    """What a person decided on a surface, in words; nothing where an entry is no decision."""
    is_one = isinstance(entry, derived.MemoryDecided) or (
        isinstance(entry, base.ByHand) and bool(entry.how)
    )
    told = of_entry(entry, channel) if is_one else None
    if isinstance(entry, store.FilesRestored):
        told = msgspec.structs.replace(taken_back(entry), detail="")
    return "" if told is None else str(told).removeprefix("· ")


def _of_talk(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case conversation.SessionOpened(agent=agent, main=main, forked_from=None):
            return f"Session {agent}:{main} opened", ""
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
        case window.PromptPlanned(purpose=purpose, model=model) if purpose:
            return f"Side request to {model}: {purpose}", ""
        case window.RoomStepTaken(step=step, tokens_before=before, tokens_after=after) as taken:
            named = f"{step.replace('_', ' ')} ({taken.strategy})" if taken.strategy else step
            kept = "" if taken.fidelity is None else f"; {taken.fidelity:.0%} of the facts kept"
            cost = plural(taken.calls, "model call")
            text = f"Room made by {named} · {tokens(before)} → {tokens(after)} tokens"
            return text, f"{cost}{kept}{'; ' if taken.why else ''}{taken.why}"
    return None


def _of_work(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
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
        case derived.MemoryDecided(proposal=proposal, decision=decision, by=by, why=why):
            told = f"“{one_line(entry.words, 160)}”" if entry.words else ""
            of_whom = "" if by == "person" else f" by {by}"
            return f"Memory {proposal} {decision}{of_whom}", " · ".join(filter(None, (told, why)))
    return None


def _of_rule(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case derived.RuleSet(number=number, words=words, checked=checked):
            return f"Rule {number}: {words}", checked or "nothing of it can be checked"
        case derived.RuleFired(number=number, verdict=verdict):
            spoke = "refused a call" if verdict == "deny" else "had a person asked"
            return f"Rule {number} {spoke}", ""
        case derived.OfferAnswered(offer=offer, keep=keep, why=why):
            lapsed = "" if keep or entry.words or entry.how else ", as the person went on"
            return f"{'Kept' if keep else 'Not kept'}{lapsed}: what line {offer} offered", why
    return None


def _of_record(entry: Entry | Unknown) -> tuple[str, str] | None:
    match entry:
        case derived.RecallUsed(silent=silent) if silent:
            return "Recall brought nothing back", silent
        case derived.RecallUsed(used=used, unused=unused, of=of):
            total = plural(of or len(used) + len(unused), "recalled passage")
            return f"The answer used {len(used)} of {total}", ""
        case derived.HandoffReplayed(text=text):
            return "Handoff loaded" if text else "What was resumed is over", ""
        case derived.SummaryJudged(score=score, why=why) if score is None:
            return "Summary not judged", why
        case derived.SummaryJudged(summary=summary, score=score, passes=passes):
            word = "passes" if passes else "does not pass"
            return f"Summary #{summary} judged: {score:.0%}, {word}", ""
        case store.ProjectTrusted(folder=folder, refused=refused, why=why):
            return f"Folder {'not ' if refused else ''}trusted: {folder}", why
    return None


def _of_any(entry: Entry | Unknown) -> tuple[str, str] | None:
    found = always("entries", entry.kind, entry)
    return (found.text, found.detail) if found is not None else None


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
