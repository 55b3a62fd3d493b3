"""Whatever waits for a person, in any session: derived from history, so that no surface holds it.

A question that nobody answered is in the transcript of its session, whoever asked it and whatever
became of them. Who takes the turn is known from its lease.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mindstone_tui.core import disk, errors, events, paths, patterns, text, transcript
from mindstone_tui.core.entries import Line, ToolCall, conversation, derived, standings, store
from mindstone_tui.core.events.narrate_entry import surface_of
from mindstone_tui.core.library.lease import Holder, Lease
from mindstone_tui.core.memory import proposals
from mindstone_tui.core.numbers import ago
from mindstone_tui.core.tools import trust
from mindstone_tui.core.tools.hooks import read_hooks
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.transcript.directory import lately_used

LOOKED_BACK: Final = 2_000
"""Lines of a session in which something that waits is looked for."""
LATELY: Final = 100
"""Sessions that are looked at where nobody asked for a list: those used last."""
_KINDS: Final = (
    *("tool_asked", "tool_answered", "tool_returned", "turn_ended", "memory_proposed"),
    *("memory_decided", "standing_instruction_offered", "offer_answered", "plan_changed"),
    *("trust_asked", "project_trusted", "statement_superseded", "rewound", "restored"),
)
_STEP: Final = patterns.pattern_of(
    r"\s{0,3}(?:\d{1,2}[.)]|[-*])\s+(?:\[[ xX~]\]\s+)?(\S.*)|\s{0,3}\[[ xX~]\]\s+(\S.*)"
)
_MOST: Final = 50
LONGEST_STEP: Final = 300
_DECIDED_BY: Final = {
    "approval": ("/answer yes {mark}", "/answer no {mark}"),
    "memory": ("/memory approve {call}", "/memory refuse {call}"),
    "plan": ("/plan approve {mark}", "/plan refuse {mark}"),
    "trust": ("/trust yes {mark}", "/trust no {mark}"),
    "offer": ("/keep yes {mark}", "/keep no {mark}"),
}
"""The slash command for a yes and for a no."""
_YES: Final = {
    "memory": "Remember it",
    "plan": "Begin it",
    "trust": "Trust what it says now",
    "offer": "Keep it in every prompt of this session",
}
_MARK: Final = patterns.pattern_of(r"#[0-9a-f]{8}")


def mark_of(*parts: str) -> str:
    """What a decision names the very thing by that was shown: it counts for nothing else."""
    return "#" + hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:8]


def mark_in(argument: str) -> tuple[str, str]:
    """The mark that words begin with, if they do, and the rest of them."""
    first, _, rest = argument.strip().partition(" ")
    return (first, rest.strip()) if _MARK.fullmatch(first) else ("", argument.strip())


def check_mark(mark: str, now: str, what: str, look: str) -> None:
    """Raise where a decision names something else than what waits now; without a mark it may."""
    if mark not in ("", now):
        raise errors.NotAllowed(
            f"{what} changed since it was asked about; nothing was decided.", f"Look again: {look}."
        )


def check_was_there(seq: int, read_through: int, what: str, look: str) -> None:
    """Raise where a command decides about a line that came after its first letter."""
    if seq > read_through:
        raise errors.NotAllowed(f"{what} while you wrote that; nothing was decided.", look)


def was_withheld(turn: Iterable[Line]) -> bool:
    """Whether it was asked how to send the message of a turn, and nobody agreed to any way."""
    entries = [line.entry for line in turn]
    questions = [one for one in entries if isinstance(one, conversation.ToolAsked)]
    answers = [one for one in entries if isinstance(one, conversation.ToolAnswered)]
    left = {one.call for one in questions if one.risk == "message"}
    return bool(left - {one.call for one in answers if one.allowed})


def check_sent(history: transcript.History, line: Line) -> None:
    """Raise where a line is of a message that its writer kept from the model."""
    if was_withheld(history.turn(line.turn)):
        raise errors.NoSuchEntry(
            f"The message of turn {line.turn} was not sent: the person kept it to themselves."
        )


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a person: who asked what, and since when nobody has answered."""

    session: str
    turn: int
    kind: Literal["approval", "memory", "plan", "trust", "offer"] = "approval"
    call: str
    """What an answer names: a call, a proposal, a folder."""
    digest: str = ""
    """Of what a folder says or a plan wants: it is asked about again when that changes."""
    name: str
    risk: str = ""
    shown: str
    why: str = ""
    channel: str
    """The surface that asked."""
    since: str
    """ISO 8601."""
    unattended: bool = False
    """Nobody looks any more at the surface that asked."""
    gone: bool = False
    """The program that asked has ended, and its turn with it: a yes cannot begin anything."""
    folder: str = ""
    """Where it would run."""
    helper: str = ""
    """The sub-agent that asked."""
    number: int = 0
    """What lists call it: its own for good, and nothing else's."""

    @property
    def key(self) -> str:
        """What tells it from all others; a folder is trusted once for every session in it."""
        if self.kind == "trust":
            return f"{self.call} {self.digest}"
        return f"{self.session} {self.call} {self.since}"

    @property
    def mark(self) -> str:
        """What an answer names it by, so that it decides this and nothing that came after it."""
        return mark_of(self.call, self.digest or self.since)

    @property
    def what(self) -> str:
        """Exactly what is asked about: a command without its title."""
        title, _, body = self.shown.partition("\n")
        return body or title.removeprefix("run ") if self.risk == "run" else self.shown

    def sentence(self, now: datetime) -> str:
        """Who waits for what since when."""
        when = ago(datetime.fromisoformat(self.since), now)
        what = self.what if self.risk == "run" else self.what.partition("\n")[0]
        if self.kind != "approval":
            verb = "asked for" if self.kind == "trust" else "proposed"
            return f"{text.one_line(what, 120)}, {verb} {when}, waits for a decision."
        verb = "run" if self.risk == "run" else "allow"
        _, asker = surface_of(self.channel)
        if self.helper:
            asker = f"the helper '{text.one_line(self.helper, 40)}' of {asker}"
        what = text.one_line(what, 120)
        told = f"{asker[0].upper()}{asker[1:]} asked {when} whether to {verb} `{what}`"
        if self.gone:
            return f"{told}, and has ended before anybody answered; nothing ran."
        told = f"{told}, and waits for an answer"
        return f"{told}; nobody looks at it there any more." if self.unattended else f"{told}."

    def command(self, *, yes: bool) -> str:
        """The slash command that decides it in its session."""
        return _DECIDED_BY[self.kind][not yes].format(call=self.call, mark=self.mark)

    def as_asked(self, now: datetime) -> events.ToolAsked:
        """What is no question about a tool, put like one."""
        title, _, body = self.shown.partition("\n")
        where = f" It would work in {self.folder}." if self.kind == "plan" else ""
        when = ago(datetime.fromisoformat(self.since), now)
        return events.ToolAsked(
            turn=self.turn,
            call=self.call,
            name=self.name,
            risk=self.kind,
            shown=text.exact(body or title),
            digest=self.digest,
            why=f"{'Asked for' if self.kind == 'trust' else 'Proposed'} {when}.{where}",
            scopes=(events.AskedScope(scope="once", label=_YES[self.kind]),),
            since=self.since,
        )

    @property
    def remedy(self) -> str:
        """How anybody can end the wait for an answer, from a terminal."""
        name = self.session.removeprefix("agent:default:")
        if self.gone:
            if self.name == "message":
                return f"It was not sent. Send it again in {name} if it should be."
            again = f"Say `go on` in {name}, or give the command again"
            if self.name in ("undo", "redo"):  # the command asked, and no turn would
                again = f"Give `/{self.name}` again in {name}"
            return f"{again}: it is asked again where it is still wanted."
        return f'`mindstone run -s {name} "{self.command(yes=False)}"` declines it.'

    def how(self, here: str = "") -> str:
        """How whoever reads the list, in a session or (nowhere) on the command line, decides it."""
        if self.gone:
            return self.remedy
        if self.session == here:
            return f"`{self.command(yes=True)}` or `{self.command(yes=False)}` decides it."
        return f"`mindstone waiting answer {self.number} yes` or `no` decides it."


def in_short(found: Sequence[OpenQuestion], now: datetime, lists: str = "/waiting") -> str:
    """How much waits, since when, and what lists it, in one line; nothing where nothing does.

    An offer waits for nobody: whoever says nothing has answered.
    """
    found = [one for one in found if one.kind != "offer"]
    if not found:
        return ""
    oldest = ago(datetime.fromisoformat(found[0].since), now)
    count = text.plural(len(found), "decision waits", "decisions wait")
    which, what = ("asked", "it") if len(found) == 1 else ("the oldest asked", "them")
    return f"{count} for you, {which} {oldest}: `{lists}` lists {what}."


def left_waiting(turn: Iterable[Line]) -> Line | None:
    """The question that a turn without an end stands at, if nothing but its answer is missing.

    Whoever has the right to a turn can go on there: what was asked about has not begun.
    """
    calls: tuple[ToolCall, ...] = ()
    asked: dict[str, Line] = {}
    for line in turn:
        match line.entry:
            case conversation.TurnEnded():
                return None
            case conversation.AssistantMessage(calls=wanted):
                calls = wanted
            case conversation.ToolAsked(call=call, folder=folder) if folder:
                asked[call] = line
            case (
                conversation.ToolApproved(call=call)
                | conversation.ToolRefused(call=call)
                | conversation.ToolReturned(call=call)
            ):
                calls = tuple(one for one in calls if one.id != call)
    return asked.get(calls[0].id) if calls else None


def question_in(
    line: Line, lease: Lease, *, gone: bool = False, left: bool = False
) -> OpenQuestion:
    """A line that asks about a tool, as what waits; its program may have left it, or be gone."""
    assert isinstance(line.entry, conversation.ToolAsked)
    same = ("call", "name", "risk", "shown", "why", "folder", "helper")
    asked = {name: getattr(line.entry, name) for name in same}
    unattended = left or lease.holder == Holder(line.channel, unattended=True)
    return _proposal(str(lease.key), line, unattended=unattended, gone=gone, **asked)


def begun_in(history: transcript.History) -> str:
    """The folder in which a session was begun; empty where its history does not say that."""
    with contextlib.suppress(errors.NoSuchEntry):
        opened = history.line(0).entry
        return opened.folder if isinstance(opened, conversation.SessionOpened) else ""
    return ""


def waiting_in(home: paths.Places, places: paths.SessionPlaces) -> list[OpenQuestion]:
    """What waits in one session, oldest first."""
    session = str(places.key)
    with transcript.History(places) as history:
        every = list(history.newest(_KINDS, LOOKED_BACK))
        lines = standings.not_rewound(every)[::-1]
        found = _plans(session, lines, history)
        folder = begun_in(history)
        asked = standings.still_open(lines)
        left = left_waiting(history.turn(asked[-1].turn)) if asked else None
    found += [*_proposed(home, session, every), *_offered(session, lines)]
    found += _untrusted(home, session, every[::-1])
    if asked:
        lease = Lease(places)
        free = lease.try_take()
        lease.give_back()
        for line in asked:
            waits = left is not None and left.seq == line.seq
            found.append(question_in(line, lease, gone=free and not waits, left=free))
    found = [one if one.folder else msgspec.structs.replace(one, folder=folder) for one in found]
    return sorted(found, key=lambda one: one.since)


class WaitingRoom:
    """What waits in any session of a home; a session that had nothing is not read twice."""

    def __init__(self, home: paths.Places) -> None:
        self._home = home
        self._quiet: dict[Path, tuple[int, int]] = {}
        """Transcripts in which nothing waited, with their size and time then."""

    def look(self, newest: int = 0) -> list[OpenQuestion]:
        """What waits now, oldest first: in every session, or in so many that were used last.

        A session that cannot be read has nothing to say.
        """
        found: list[OpenQuestion] = []
        for each in lately_used(self._home, newest):
            with contextlib.suppress(errors.MindstoneError, OSError):
                info = each.transcript.stat()
                stamp = (info.st_size, info.st_mtime_ns)
                if self._quiet.get(each.transcript) == stamp:
                    continue
                waits = waiting_in(self._home, each)
                found += waits
                if not waits:
                    self._quiet[each.transcript] = stamp
        # Many sessions work in one folder, which is trusted once for all of them; a fork proposes
        # the same change of a memory as what it was forked from.
        once = {one.shown if one.kind == "memory" else one.key: one for one in found}
        return self._numbered(sorted(once.values(), key=lambda one: one.since), all_=not newest)

    def _numbered(self, found: list[OpenQuestion], *, all_: bool) -> list[OpenQuestion]:
        """The same with numbers that stay: who read a list means what had the number then.

        The highest one is kept under no name, so that none comes again for something else.
        """
        path = self._home.state / "waiting.json"
        known = disk.read_stored(path, dict[str, int]) or {}
        kept = {one.key for one in found} if all_ else set(known)
        numbers = {key: number for key, number in known.items() if key in kept}
        highest = max(known.values(), default=0)
        for one in found:
            highest = max(highest, numbers.setdefault(one.key, highest + 1))
        numbers |= {"": highest} if highest else {}
        if numbers != known:
            with contextlib.suppress(errors.MindstoneError, OSError):
                disk.replace_file(path, msgspec.json.encode(numbers))
        return [msgspec.structs.replace(one, number=numbers[one.key]) for one in found]


def _proposed(home: paths.Places, session: str, lines: Sequence[Line]) -> list[OpenQuestion]:
    agent = home.agent(paths.SessionKey.parse(session).agent)
    waiting = {one.seq: one.entry for one in proposals.waiting_among(agent, lines)}
    return [
        _proposal(
            session,
            line,
            kind="memory",
            call=waiting[line.seq].proposal,
            shown=f"The memory {waiting[line.seq].path}\n{waiting[line.seq].after}",
            name=waiting[line.seq].path,
            why=waiting[line.seq].why,
        )
        for line in lines
        if line.seq in waiting
    ]


def _offered(session: str, lines: Iterable[Line]) -> list[OpenQuestion]:
    """What may be kept, until the person goes on there without a word about it."""
    offers: dict[int, OpenQuestion] = {}
    for line in lines:
        match line.entry:
            case derived.StandingInstructionOffered(waits=True, text=words, of_kind=kind):
                asked = {"kind": "offer", "shown": f"Sounds like a {kind}: {words}"}
                offers[line.seq] = _proposal(session, line, call=str(line.seq), **asked)
            case derived.OfferAnswered(offer=offer):
                offers.pop(offer, None)
    return list(offers.values())


def steps_of(plan: str) -> tuple[str, ...]:
    """The steps that a plan names: its numbered lines, else its bullets."""
    numbered = [found for line in plan.splitlines() if (found := _STEP.match(line))]
    counted = [found for found in numbered if found[0].lstrip()[:1].isdigit()]
    steps = [found[1] or found[2] for found in (counted or numbered)[:_MOST]]
    return tuple(text.one_line(each, LONGEST_STEP) for each in steps)


def _plans(session: str, lines: Iterable[Line], history: transcript.History) -> list[OpenQuestion]:
    """The plan that was made since planning began, or edited, and not decided on.

    One that names no steps cannot be: it waits for another answer, not for a person.
    """
    began: int | None = None
    made: Line | None = None
    for line in lines:
        match line.entry:
            case derived.PlanChanged(stage=stage):
                began = line.turn if stage == "planning" else None
                made = line if stage == "edited" else None
            case conversation.TurnEnded(ending="done") if began is not None and line.turn > began:
                made = line
    if made is None:
        return []
    if isinstance(made.entry, derived.PlanChanged):
        steps = made.entry.steps
        said = ["\n".join(f"{at}. {step}" for at, step in enumerate(steps, 1))]
    else:
        turn = [history.whole(line).entry for line in history.turn(made.turn)]
        said = [entry.text for entry in turn if isinstance(entry, conversation.AssistantMessage)]
        steps = steps_of(said[-1]) if said else ()
    asked = {"kind": "plan", "call": "plan", "digest": "\n".join(steps)}
    shown = "\n".join(["A plan", *said])
    return [_proposal(session, made, shown=shown, **asked)] if steps else []


def content_of(found: trust.ProjectInstructions | trust.Told, run: str = "would run") -> str:
    """All that a folder wants to tell the model, and the commands of its hooks."""
    from mindstone_tui.core.agent.hooks import shown  # a list of questions needs no turn

    files = "\n\n".join(
        f"── {each.path} ({each.raw_size:,} bytes)\n{each.text}"
        for each in found.files
        if each.kind != "hooks"
    )
    data = [each.data for each in found.files if each.kind == "hooks"]
    if hooks := [hook for each in data for hook in read_hooks(each, "project", "")[0]]:
        files += f"\n\n── These commands {run}, in the sandbox:\n{shown(hooks)}"
    return files


def _untrusted(home: paths.Places, session: str, lines: Iterable[Line]) -> list[OpenQuestion]:
    """Folders that want to tell the model something, as long as nobody trusts what they say."""
    waiting: dict[str, OpenQuestion] = {}
    book = trust.TrustFile(home.trust)
    for line in lines:
        match line.entry:
            case store.TrustAsked(folder=folder):
                waiting.pop(folder, None)
                if not paths.is_folder(folder):
                    continue
                # What it says now: a yes to anything else would not be one.
                told = trust.read_told(Workspace((Path(folder),)), trust.Looking(Path(folder)))
                if told.files and book.digest(Path(folder)) != told.digest:
                    shown = f"Trust in {folder}\n{content_of(told)}"
                    asked = {"kind": "trust", "call": folder, "digest": told.digest, "shown": shown}
                    waiting[folder] = _proposal(session, line, folder=folder, **asked)
            case store.ProjectTrusted(folder=folder):
                waiting.pop(folder, None)
    return list(waiting.values())


def _proposal(session: str, line: Line, **asked: Any) -> OpenQuestion:
    asked = {"name": asked.get("kind", ""), "turn": line.turn, "channel": line.channel, **asked}
    return OpenQuestion(session=session, since=line.ts, **asked)
