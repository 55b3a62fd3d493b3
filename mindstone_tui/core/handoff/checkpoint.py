"""The state of a task as a program can read it: structured, complete, and no summary.

A checkpoint is advanced from the one before it by the lines that were written since, so that its
cost does not grow with history. What people settled comes from the one recogniser and is retired
when they settle something else. `planned` is an intention that nobody has carried out. What was
imported settles nothing, and stands here only as a quotation that says so.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from mindstone_tui.core.context.extract import BINDING, folded
from mindstone_tui.core.entries import Line, Part, conversation, derived
from mindstone_tui.core.entries.actions import actions_of, plan_in
from mindstone_tui.core.entries.provenance import is_imported, is_quotation, quoted
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.handoff.environment import Environment
from mindstone_tui.core.language import clause, intent, lists, replacement
from mindstone_tui.core.language.sentences import prose, shortened
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.statements import recogniser, statement
from mindstone_tui.core.statements import register as registers
from mindstone_tui.core.values import alike

Status = Literal["planned", "in_progress", "done"]

FORMAT: Final = 1
GOAL_LENGTH: Final = 2_000
TOPIC_LENGTH: Final = 400
_LONGEST_TOLD: Final = 10_000
"""Characters in which a message says what it is after; more is a paste."""
KEPT: Final = 60
"""Newest issues, learnings and notes of progress that a checkpoint carries, of each."""
COMMANDS: Final = 8
ERRORS: Final = 3
NEXT_STEPS: Final = 5
LOOKED_BACK: Final = 60
"""Lines before a checkpoint's head that say what a correction after it may be about."""
_OF_TASK: Final = -(1 << 20)
_TOPIC_WORDS: Final = 4
"""Telling words that make a request a topic of its own; a shorter one goes on with the last."""
_TELLS: Final = frozenset({"commitment", "memory", "preference", "question"})
_COMMAND_LENGTH: Final = 160
_COMMAND_LINE: Final = lists.pattern_beside(__file__, "command line")
"""A command that somebody pasted is no topic of a conversation."""
_TASK_BOUNDS: Final = (derived.TaskStarted, derived.TaskDone)

_STATUS: Final[dict[str, Status]] = {
    " ": "planned", "todo": "planned", "planned": "planned", "next": "planned",
    "~": "in_progress", ">": "in_progress", "-": "in_progress", "doing": "in_progress",
    "current": "in_progress", "in progress": "in_progress", "now": "in_progress",
    "x": "done", "done": "done", "finished": "done", "completed": "done",
}  # fmt: skip
_CHECKBOX: Final = pattern_of(r"\s{0,12}(?:[-*]|\d{1,3}[.)])?\s{0,3}\[([ xX~>-])\]\s+(\S.{0,300})")
_PREFIX: Final = lists.pattern_beside(__file__, "prefix", re.IGNORECASE)
_SUFFIX: Final = pattern_of(r"\s{1,3}\((doing|current|in progress|now)\)\.?$", re.IGNORECASE)
_SOLVED: Final = pattern_of(r"(?:fixed|solved|resolved|closed)\s{0,2}:\s+(\S.*)", re.IGNORECASE)
_NEXT: Final = lists.pattern_beside(__file__, "next", re.IGNORECASE)


class Sourced(Part):
    """A sentence with the line it stands in."""

    text: str
    seq: int = 0
    turn: int = 0
    kind: str = ""
    """What kind of statement it is, where it is one; with `?`, what it only sounds like."""
    start: int = 0
    """Where it begins in its message; below 0 for a rule that was given with a task."""
    old: str = ""
    """What a correction corrects, word for word."""
    old_seq: int = 0

    @property
    def is_doubtful(self) -> bool:
        """Whether it may have been meant for one step only."""
        return self.kind.endswith("?")


class FinishedCommand(Part):
    """A command and how it ended."""

    text: str
    seq: int
    turn: int
    exit: int | None = None
    ok: bool = True
    undone: int = 0
    left_alone: tuple[str, ...] = ()
    """The line in which a person took back what its turn had done to files, and all but which."""


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
    """Which window of the session this is."""
    version: int = 0
    """Counts up with every save; 0 was never saved."""
    goal: str = ""
    """The task, or the current topic in the words of the person."""
    goal_turn: int = 0
    """The turn in which a topic was named; 0 for a task that was started as one."""
    criteria: tuple[str, ...] = ()
    constraints: tuple[Sourced, ...] = ()
    """Rules, corrections, preferences, what is to be remembered: never dropped."""
    subtasks: tuple[Subtask, ...] = ()
    decisions: tuple[Sourced, ...] = ()
    questions: tuple[Sourced, ...] = ()
    commitments: tuple[Sourced, ...] = ()
    asked: Sourced | None = None
    """The newest request, while nobody has answered it."""
    next_steps: tuple[Sourced, ...] = ()
    """What the newest answer says comes next."""
    commands: tuple[FinishedCommand, ...] = ()
    errors: tuple[Sourced, ...] = ()
    """What failed last and was not done again with success, whole."""
    left_out: tuple[str, ...] = ()
    """What did not fit, as pointers into history."""
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
        if running := [one for one in self.subtasks if one.status == "in_progress"]:
            return max(running, key=lambda one: one.seq)
        return next((one for one in self.subtasks if one.status == "planned"), None)

    @property
    def binding(self) -> tuple[Sourced, ...]:
        """The rules, corrections and preferences that are one for certain."""
        return tuple(one for one in self.constraints if not one.is_doubtful)

    @property
    def decided(self) -> tuple[Sourced, ...]:
        """The decisions that are one for certain."""
        return tuple(one for one in self.decisions if not one.is_doubtful)

    @property
    def doubtful(self) -> tuple[Sourced, ...]:
        """What sounds like a rule or decision, and may have been meant for one step only."""
        said = (*self.constraints, *self.decisions)
        return tuple(sorted((one for one in said if one.is_doubtful), key=lambda one: one.seq))

    def of(self, status: Status) -> tuple[Subtask, ...]:
        """The subtasks with that status, in their order."""
        return tuple(one for one in self.subtasks if one.status == status)


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


def digest(sealed: msgspec.Struct) -> str:
    """SHA-256 over everything in a checkpoint or a handoff but itself."""
    bare = replace(sealed, sha256="")
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


def fresh(session: str) -> Checkpoint:
    """The state before anything was said."""
    return Checkpoint(session=session)


def advance(checkpoint: Checkpoint, lines: Iterable[Line]) -> Checkpoint:
    """The state after these lines, still to be saved.

    Lines up to the checkpoint's head only say what later ones may be about.
    """
    read = list(lines)
    known = [line for line in read if line.seq <= checkpoint.head.seq][-LOOKED_BACK:]
    new = [line for line in read if line.seq > checkpoint.head.seq]
    if not new:
        return checkpoint
    said = tuple(one for line in known if (one := _utterance(line)) is not None)
    work = _Work(checkpoint, said[-registers.RECENT :])
    for line in new:
        work.take(line)
    work.note_actions([*known, *new])
    return replace(work.result(), head=HeadMark(seq=new[-1].seq, hash=new[-1].hash))


def _utterance(line: Line) -> statement.Utterance | None:
    said = partial(statement.Utterance, line=line.seq, turn=line.turn, imported=is_imported(line))
    match line.entry:
        case conversation.UserMessage(text=text):
            return said(speaker="user", text=text)
        case conversation.AssistantMessage(text=text) if text.strip():
            return said(speaker="assistant", text=text)
    return None


class _Work:
    """A checkpoint while lines are taken in."""

    def __init__(self, checkpoint: Checkpoint, recent: Sequence[statement.Utterance]) -> None:
        self._state = checkpoint
        self._since = checkpoint.head.seq
        groups = (
            *(checkpoint.constraints, checkpoint.decisions),
            *(checkpoint.questions, checkpoint.commitments),
        )
        known = sorted((one for group in groups for one in group), key=lambda o: (o.seq, o.start))
        standing = tuple(_restated(one) for one in known)
        self._register = registers.Register(standing=standing, recent=tuple(recent))
        self._notes: set[int] = set()

    def result(self) -> Checkpoint:
        """The state with what stands now."""
        stands = self._register
        return replace(
            self._state,
            constraints=_sourced_statements(stands, *BINDING),
            decisions=_sourced_statements(stands, "decision"),
            questions=tuple(map(_sourced_statement, stands.of("question"))),
            commitments=tuple(map(_sourced_statement, stands.of("commitment"))),
        )

    def take(self, line: Line) -> None:
        state = self._state
        match line.entry:
            case derived.TaskStarted(title=title, criteria=criteria, constraints=rules):
                self._state = replace(
                    fresh(state.session),
                    window=state.window,
                    version=state.version,
                    environment=state.environment,
                    goal=title[:GOAL_LENGTH],
                    criteria=criteria,
                )
                self._end_task()
                for rule in rules:
                    self._add("rule", rule, line, start=_OF_TASK)
            case derived.TaskDone():
                over = {"criteria": (), "subtasks": (), "issues": (), "errors": (), "asked": None}
                self._state = replace(state, goal="", goal_turn=0, **over)
                self._end_task()
            case derived.TodoChanged(items=items):
                self._state = _with_plan(state, [(one.title, one.status) for one in items], line)
            case derived.NoteTaken(category=category, text=text):
                self._notes.add(line.seq)
                if (kind := _KIND_OF_NOTE.get(category)) is not None:
                    self._add(kind, text, line)
                else:
                    self._state = _noted(state, category, text, line)
            case derived.StatementSuperseded():
                self._no_more(line.entry)
            case derived.OfferAnswered(keep=False, words=words):
                self._not_kept(words)
            case derived.MemoryDecided(decision="refused" | "undone", words=words):
                self._not_kept(words, "memory")
            case derived.MemoryDecided(decision="edited", words=words, instead=old) if old:
                self._not_kept(old, "memory")
                self._add("memory", words, line)
            case conversation.UserMessage(text=text):
                self._hear(line)
                self._state = _asked(state, text, line)
            case conversation.AssistantMessage(text=text, calls=calls):
                self._hear(line)
                state = _with_subtasks(state, _checklist(text, line))
                state = _with_plan(state, [one for call in calls for one in plan_in(call)], line)
                self._state = state if calls or not text.strip() else _answered(state, text, line)
            case conversation.AssistantPartial(text=text) if text.strip():
                self._state = _cut_off(state, text, line)
            case FilesRestored(turns=turns) as act if state.goal_turn in turns:
                self._state = replace(
                    state, goal=derived.with_undone(state.goal, state.goal_turn, line.seq, act)
                )
            case derived.SummaryDerived():
                self._state = replace(state, summary=line.seq)

    def _no_more(self, judged: derived.StatementSuperseded) -> None:
        """What was replaced goes; a message may say more, and a note says one thing."""
        gone, words, state = judged.statement, judged.words, self._state
        self._register = registers.confirmed(self._register, judged.by, gone, words)

        def stays(text: str) -> bool:
            return bool(words) and replacement.says_more(text, words)

        note = gone in self._notes
        self._let_go(lambda one: one.at.line == gone and (note or not stays(one.words)))
        left = tuple(
            one for one in state.learnings if one.seq != gone or (judged.partly and stays(one.text))
        )
        goal = replacement.left_of(state.goal, words if state.goal_turn else ())
        self._state = replace(state, learnings=left, goal=goal)

    def _not_kept(self, words: str, *kinds: statement.StatementKind) -> None:
        """A person does not want words kept; what else they made of them, a rule say, stays."""
        no = folded(words)
        self._let_go(lambda one: folded(one.words) in no and (not kinds or one.kind in kinds))

    def _end_task(self) -> None:
        """The task's own rules end with it, and promises; what the session settled stays."""
        self._let_go(
            lambda one: (
                one.is_of_task or one.kind == "commitment" or intent.is_for_a_task(one.words)
            )
        )

    def _let_go(self, ends: Callable[[statement.Statement], bool]) -> None:
        standing = tuple(one for one in self._register.standing if not ends(one))
        self._register = replace(self._register, standing=standing)

    def _hear(self, line: Line) -> None:
        if (said := _utterance(line)) is not None:
            self._register = registers.advance(self._register, [said])

    def _add(self, kind: statement.StatementKind, text: str, line: Line, start: int = 0) -> None:
        number = start + len(self._register.standing)
        one = recogniser.restate(
            kind, " ".join(text.split()), statement.Pointer(line.seq, number), line.turn
        )
        same = [each for each in self._register.standing if folded(each.words) == folded(one.words)]
        if not any(each.sure for each in same):
            standing = (*(each for each in self._register.standing if each not in same), one)
            self._register = replace(self._register, standing=standing)

    def note_actions(self, lines: Sequence[Line]) -> None:
        """Commands with how they ended, and what failed and was not mended since."""
        state = self._state
        commands, errors = list(state.commands), {one.kind: one for one in state.errors}
        by_seq = {line.seq: line for line in lines}
        bounds = (each.seq for each in lines if isinstance(each.entry, _TASK_BOUNDS))
        since = max(self._since, *bounds, 0)  # nobody mends what failed in a task that is over
        for action in actions_of(lines):
            status = getattr(by_seq[action.seq].entry, "status", "")
            unknown = status in ("refused", "interrupted")  # it neither worked nor failed
            if action.seq <= since or action.kind in ("read", "other") or unknown:
                continue
            about = shortened(" ".join(action.about.split()), _COMMAND_LENGTH)
            about = quoted(by_seq[action.seq], about)
            if action.kind == "command":
                ended = alike(FinishedCommand, action, text=about)
                commands = [one for one in commands if one.text != about] + [ended]
            errors.pop(about, None)
            if action.error:
                errors[about] = alike(Sourced, action, text=f"{about}: {action.error}", kind=about)
        for line in lines:
            act = line.entry if line.seq > self._since else None
            for at, one in enumerate(commands):
                if isinstance(act, FilesRestored) and one.turn in act.turns:
                    by, left = act.then(line.seq, one.turn, one.undone, one.left_alone)
                    commands[at] = replace(one, undone=by, left_alone=left)
        failed = tuple(errors.values())[-ERRORS:]
        self._state = replace(state, commands=tuple(commands[-COMMANDS:]), errors=failed)


_KIND_OF_NOTE: Final = dict[str, statement.StatementKind](constraints="rule", decisions="decision")


def _restated(one: Sourced) -> statement.Statement:
    kind: statement.StatementKind = next(
        (each for each in statement.KINDS if each == one.kind.rstrip("?")), "rule"
    )
    at = statement.Pointer(one.seq, one.start)
    stated = recogniser.restate(kind, one.text, at, one.turn, sure=not one.is_doubtful)
    corrects = statement.Pointer(one.old_seq) if one.old else None
    return replace(stated, old=one.old, corrects=corrects)


def _sourced_statements(
    register: registers.Register, *kinds: statement.StatementKind
) -> tuple[Sourced, ...]:
    """What is settled, and behind it what only sounds so."""
    return tuple(map(_sourced_statement, (*register.of(*kinds), *register.perhaps(*kinds))))


def _sourced_statement(one: statement.Statement) -> Sourced:
    return Sourced(
        text=" ".join(one.words.split()),
        seq=one.line,
        turn=one.turn,
        kind=one.kind if one.sure else f"{one.kind}?",
        start=one.at.start,
        old=" ".join(one.old.split()),
        old_seq=one.corrects.line if one.corrects else 0,
    )


def _only_tells(said: str) -> bool:
    """Whether somebody promises, wishes or leaves something open, and asks for nothing."""
    return len(prose(said)) == 1 and recogniser.kind_of_sentence(said) in _TELLS


def _asked(state: Checkpoint, text: str, line: Line) -> Checkpoint:
    text = text[:_LONGEST_TOLD]
    said = text.strip()
    topic = quoted(line, shortened(said, TOPIC_LENGTH))
    # What another program was asked waits there.
    waits = None if is_imported(line) else Sourced(text=topic, seq=line.seq, turn=line.turn)
    if intent.is_small_talk(text):
        if said and not intent.only_greets(text):  # "yes, do it"
            state = replace(state, asked=state.asked or waits)
        # Better than nothing to go on from, and only until something is asked.
        known = state.goal or not said
        return state if known else replace(state, goal=topic, goal_turn=line.turn)
    state = replace(state, asked=waits, next_steps=())
    is_task = bool(state.goal) and not state.goal_turn
    told = _only_tells(said)
    words = len(clause.content_words(said.lower()))
    broad = words >= _TOPIC_WORDS and not told and not _COMMAND_LINE.fullmatch(said)
    weak = (
        intent.is_small_talk(state.goal)
        or (not told and _only_tells(state.goal))
        or (is_quotation(state.goal) and not is_imported(line))
    )
    if not is_task and (broad or weak or not state.goal):
        lately = tuple(one for one in state.subtasks if line.seq - one.seq <= LOOKED_BACK)
        state = replace(state, goal=topic, goal_turn=line.turn, subtasks=lately)
    return _with_subtasks(state, _checklist(text, line))


def _answered(state: Checkpoint, text: str, line: Line) -> Checkpoint:
    """After a complete answer: nothing waits, and what it says of what comes next."""
    whole = [one.text for one in prose(text) if one.form != "heading"]
    said = [one for one in whole if not one.rstrip(" *_").endswith(":") and len(one.split()) > 3]
    asks = said[-1:] if said and said[-1].rstrip(" *_").endswith("?") else []
    next_up = dict.fromkeys([*(one for one in said if _NEXT.search(one)), *asks])
    found = tuple(_sourced(shortened(one, TOPIC_LENGTH), line) for one in next_up)
    return replace(state, asked=None, next_steps=found[-NEXT_STEPS:])


def _cut_off(state: Checkpoint, text: str, line: Line) -> Checkpoint:
    """After an answer that was interrupted: its last words say where to take it up."""
    last = " ".join(text.split())[-TOPIC_LENGTH:]
    found = _sourced(f"(cut off) …{last}", line)
    return replace(state, next_steps=(found,))


def _noted(state: Checkpoint, category: str, text: str, line: Line) -> Checkpoint:
    match category:
        case "learnings":
            return _with(state, category, [text], line)
        case "bugs":
            if solved := _SOLVED.match(text):
                done = folded(solved[1]).rstrip(".")
                left = tuple(one for one in state.issues if done not in folded(one.text))
                return replace(state, issues=left)
            return _with(state, "issues", [text], line)
        case "task_progress":
            if found := list(_checklist(text, line, words=True)):
                return _with_subtasks(state, found)
            return _with(state, "progress", [text], line)
    return state


LARGEST: Final = 5_000
"""Bytes of a saved checkpoint."""
_GIVES_WAY: Final = (
    *(("progress", 0), ("learnings", 3), ("commands", 4), ("commitments", 5), ("decisions", 8)),
    *(("errors", 1), ("next_steps", 2), ("questions", 5), ("decisions", 3), ("commitments", 0)),
    ("commands", 0),
)
"""What is left out of a checkpoint that is too large, in this order, and how many stay."""


def fitted(checkpoint: Checkpoint, most: int = LARGEST) -> Checkpoint:
    """A checkpoint of at most so many bytes; what is left out becomes a pointer.

    Rules, corrections, what is to be remembered, the goal and open work always stay, and so a
    checkpoint with more of them than fit is larger.
    """
    state = checkpoint
    while len(encoded(state)) > most and len(state.environment.files) > 4:
        files = state.environment.files[len(state.environment.files) // 2 :]
        state = replace(state, environment=replace(state.environment, files=files))
    for field, least in _GIVES_WAY:
        items = getattr(state, field)
        if len(encoded(state)) <= most:
            break
        if len(items) <= least:
            continue
        gone = items[: len(items) - least]
        lines = ", ".join(str(one.seq) for one in gone[-8:])
        name = field.replace("_", " ")
        before = tuple(one for one in state.left_out if name not in one)
        told = (*before, f"{len(gone)} {name}: lines {lines}")
        state = replace(state, **{field: items[len(items) - least :]}, left_out=told)
    done = [one for one in state.subtasks if one.status == "done"]
    if len(encoded(state)) > most and len(done) > DONE_KEPT:
        old = {id(one) for one in done[:-DONE_KEPT]}
        kept = tuple(one for one in state.subtasks if id(one) not in old)
        said = f"{len(old)} finished subtasks"
        state = replace(state, subtasks=kept, left_out=(*state.left_out, said))
    return state


DONE_KEPT: Final = 10


def encoded(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(checkpoint), indent=2) + b"\n"


def _checklist(text: str, line: Line, *, words: bool = False) -> Iterator[Subtask]:
    """Checkboxes and, in notes, lines that begin with a word like `done:`."""
    for row in text.splitlines():
        if match := _CHECKBOX.match(row) or (words and _PREFIX.match(row.strip())):
            status, title = _STATUS[match[1].lower()], " ".join(match[2].split())
            if status == "planned" and (running := _SUFFIX.search(title)):
                status, title = "in_progress", title[: running.start()]
            yield Subtask(title=quoted(line, title), status=status, seq=line.seq)


def _with_subtasks(state: Checkpoint, found: Iterable[Subtask]) -> Checkpoint:
    subtasks = {folded(one.title): one for one in (*state.subtasks, *found)}
    return replace(state, subtasks=tuple(subtasks.values()))


def _with_plan(state: Checkpoint, steps: Sequence[tuple[str, Status]], line: Line) -> Checkpoint:
    """The list is whole: what is neither in it nor done is no longer to be done."""
    if not steps and not isinstance(line.entry, derived.TodoChanged):
        return state
    kept = tuple(one for one in state.subtasks if one.status == "done")
    found = (Subtask(title=quoted(line, one), status=now, seq=line.seq) for one, now in steps)
    return _with_subtasks(replace(state, subtasks=kept), found)


def _with(state: Checkpoint, field: str, said: Iterable[str], line: Line) -> Checkpoint:
    kept: dict[str, Sourced] = {folded(one.text): one for one in getattr(state, field)}
    for text in said:
        kept.setdefault(folded(text), _sourced(text, line))
    return replace(state, **{field: tuple(kept.values())[-KEPT:]})


def _sourced(text: str, line: Line) -> Sourced:
    said = " ".join(text.split())
    return Sourced(text=quoted(line, said), seq=line.seq, turn=line.turn)
