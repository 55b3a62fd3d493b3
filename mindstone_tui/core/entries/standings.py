"""What counts: the standing of each entry, folded from the lines in their order.

The transcript keeps everything; whether an entry still holds is another question, and this module
alone answers it. Only what entries record decides: a line's standing is changed by the later line
that names it, or by the rewind that went back before its turn, and by nothing else. So the same
lines give the same standing in every process and every version, and a line that no later one
refers to keeps the standing it was written with.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from mindstone_tui.core.entries.conversation import (
    AssistantPartial,
    MessageQueued,
    MessageWithdrawn,
    SessionOpened,
    ToolAnswered,
    ToolAsked,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from mindstone_tui.core.entries.derived import (
    BY_CORRECTION,
    MemoryDecided,
    RecallInjected,
    Replacement,
    StatementSuperseded,
    TaskDone,
    TaskStarted,
    in_force,
)
from mindstone_tui.core.entries.line import Line
from mindstone_tui.core.entries.marks import (
    OF_ITSELF,
    Corrected,
    Standing,
    What,
    by_a_line,
    replaced,
    told,
)
from mindstone_tui.core.entries.provenance import ImportSource, Provenance, is_imported
from mindstone_tui.core.entries.store import FilesRestored, Imported
from mindstone_tui.core.entries.window import Restored, Rewound
from mindstone_tui.core.text import one_line, plural

GOES_BACK: Final = frozenset([
    "user_message", "assistant_message", "assistant_partial", "model_failed", "turn_started",
    "turn_ended", "tool_called", "tool_asked", "tool_answered", "tool_approved", "tool_refused",
    "tool_returned", "recall_injected", "recall_used", "memory_digested", "memory_proposed",
    "standing_instruction_offered", "offer_answered", "task_started", "task_done",
    "todo_changed", "plan_changed", "note_taken", "summary_derived", "checkpoint_saved",
    "handoff_written", "handoff_replayed",
])  # fmt: skip
"""What a rewind takes back. The rest stays done: a model that was chosen, a file that was changed,
a memory that a person approved, money that was spent."""
DID: Final = frozenset([
    "user_message", "assistant_message", "assistant_partial", "tool_called", "tool_returned",
    "files_changed",
])  # fmt: skip
"""What tells of a turn's changes to files: when they are taken back, it tells that, too."""
_DERIVED: Final = frozenset([
    "summary_derived", "handoff_written", "handoff_replayed", "checkpoint_saved",
    "memory_digested",
])  # fmt: skip
_BLACKENED: Final = b"[redacted:"
CHANGES: Final = frozenset([
    "session_opened", "imported", "session_described", "rewound", "restored", "message_queued",
    "message_withdrawn", "user_message", "recall_injected", "statement_superseded",
    "files_restored", "task_started", "task_done", "turn_started",
])  # fmt: skip
"""Kinds of lines that may change the standing of others."""
REWOUND: Final = "This turn was rewound: the conversation went on without it."
"""What is said beside a turn that was taken back, wherever turns are shown."""
UNDONE: Final = "What this turn did to files was taken back"
"""The same beside one whose words hold, before the files that were left as they were."""
REPLACED: Final = "What was said in it"
"""The same beside a message that a later one replaced, before by which."""
_NONE_HOLDS: Final = "holds no longer: #{by} replaces it."
_PART_HOLDS: Final = "holds in part: #{by} replaces the rest."
COUNTS_AGAIN: Final = "This turn counts again."
DONE_AGAIN: Final = "What this turn did to files was done again."
HOLDS_AGAIN: Final = "What was said in it holds again."
"""What is said instead once that is so no longer."""
REWINDS: Final = frozenset(("rewound", "restored"))
TAKES_BACK: Final = REWINDS | {"files_restored"}
"""Kinds of lines that say what became of whole turns,"""
NOTES: Final = TAKES_BACK | {"statement_superseded"}
"""and those that say what became of what was said in them as well."""


def turns_in_words(turns: int, rewound: int, before: int = 0) -> str:
    """`12 turns (2 rewound) since the fork, 30 before it`: those that began here, and nothing that
    was taken back without a word."""
    told = plural(turns - before, "turn") + (f" ({rewound:,} rewound)" if rewound else "")
    return f"{told} since the fork, {before:,} before it" if before else told


class _Rewind(msgspec.Struct):
    by: int
    to_turn: int
    through: int
    last: int
    """The newest turn then."""
    kept: frozenset[int] = frozenset()
    """Summaries that tell of nothing that was taken back: they still stand in the prompt."""


class Rewinds:
    """Which lines were taken back; enough for whoever only needs to leave them out.

    A rewind stands behind what it takes back: any run of lines up to the newest knows all of its.
    """

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self._rewinds: list[_Rewind] = []
        self._back: dict[int, int] = {}
        """Turns that were restored, each with the line that did so last."""
        self._there: dict[str, Collection[int]] = {}
        """By file: lines that the program they were imported from went back before."""
        changes = (line for line in lines if isinstance(line.entry, Rewound | Restored | Imported))
        for line in sorted(changes, key=lambda line: line.seq):
            self.take(line)

    def __bool__(self) -> bool:
        return bool(self._rewinds or self.there)

    def take(self, line: Line) -> None:
        """Take in the next line."""
        match line.entry:
            case Rewound(to_turn=to_turn, state=state):
                through = min(state.through, line.seq)
                kept = frozenset(state.summaries)
                self._rewinds.append(_Rewind(line.seq, to_turn, through, line.turn, kept))
            case Restored(turns=turns):
                self._back |= dict.fromkeys(turns, line.seq)
            case Imported(path=path, taken_back=back) if not line.parent:  # a fork has others
                self._there[path] = back

    @property
    def there(self) -> frozenset[int]:
        """Imported lines that were taken back where they come from: who goes on has none of it."""
        return frozenset().union(*self._there.values())

    def of(self, line: Line) -> int | None:
        """The line that took this one back; None while it holds."""
        entry = line.entry
        judged = isinstance(entry, MemoryDecided) and entry.by.startswith(BY_CORRECTION)
        if not judged and line.kind not in GOES_BACK:
            return None
        return self.of_place(line.seq, line.turn)

    def of_place(self, seq: int, turn: int) -> int | None:
        """The same for something that was said at a place."""
        back = self._back.get(turn, 0)
        for each in self._rewinds:
            after = turn > each.to_turn and seq <= each.through
            if after and each.by > back and seq not in each.kept:
                return each.by
        return None

    def gave_back(self, turn: int) -> bool:
        """Whether a turn that was taken back is in force again."""
        back = self._back.get(turn, 0) if self.of_turn(turn) is None else 0
        return any(each.to_turn < turn <= each.last and each.by < back for each in self._rewinds)

    def of_turn(self, turn: int) -> int | None:
        """The same for a whole turn."""
        for each in self._rewinds:
            if each.to_turn < turn <= each.last and each.by > self._back.get(turn, 0):
                return each.by
        return None


class Undone:
    """Turns whose changes to files a person took back, and did not do again since."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self._turns: dict[int, tuple[int, tuple[str, ...]]] = {}
        for line in lines:
            self.take(line)

    def take(self, line: Line) -> None:
        """Take in the next line."""
        match line.entry:
            case FilesRestored(turns=turns) as act:
                # A fork hears of turns that it left out, too, and has others by their numbers.
                for turn in (one for one in turns if one <= line.turn):
                    self._turns[turn] = act.then(line.seq, turn, *self._turns.get(turn, (0, ())))

    def of(self, line: Line) -> int | None:
        """The line that took back what was done where this one tells of it; None while it holds."""
        return self.of_place(line.seq, line.turn) if line.kind in DID else None

    def of_place(self, seq: int, turn: int) -> int | None:
        """The same for something that was said at a place."""
        by = self.of_turn(turn)
        return by if by is not None and seq < by else None

    def of_turn(self, turn: int) -> int | None:
        """The same for a whole turn."""
        return self._turns.get(turn, (0,))[0] or None

    def whole(self, turn: int) -> bool:
        """Whether all that a turn did was taken back, and no file left as it was."""
        by, left = self._turns.get(turn, (0, ()))
        return by > 0 and not left

    def of_file(self, seq: int, turn: int, path: str) -> int | None:
        """The same for a file, which may have been left as it was."""
        by = self.of_place(seq, turn)
        return None if any(f"/{path}".endswith(f"/{one}") for one in self.left_in(turn)) else by

    def left_in(self, turn: int) -> tuple[str, ...]:
        """The files of a turn that were left as they were when others were taken back."""
        return self._turns.get(turn, (0, ()))[1]


def not_rewound(lines: Iterable[Line]) -> list[Line]:
    """The lines of a run up to the newest that nobody took back, in the order they came.

    A verdict goes with the correction that it follows from, whenever it was written.
    """
    run = list(lines)
    rewinds = Rewinds(run)
    gone = {line.seq for line in run if rewinds.of(line) is not None} if rewinds else set()
    gone |= rewinds.there
    return [line for line in run if line.seq not in gone and not _follows(line, gone)]


def _follows(line: Line, gone: Collection[int]) -> bool:
    return isinstance(line.entry, StatementSuperseded) and line.entry.by in gone


def superseded_in(line: Line) -> dict[int, int]:
    """Which lines of its session a line says are superseded, each with the line that holds.

    What a fork copied names lines of the session that it came from.
    """
    match line.entry:
        case StatementSuperseded(statement=seq, by=by) if not line.parent:
            return {seq: by}
        case RecallInjected(passages=passages) if not line.parent:
            return {
                one.seq: one.superseded_by
                for one in passages
                if one.superseded_by is not None and one.session in ("", line.session)
            }
    return {}


class Standings:
    """The standing of every entry of a session, as its lines come."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.rewinds = Rewinds()
        self.undone = Undone()
        self._provenance = Provenance()
        self._parent = ""
        self._superseded: dict[int, dict[int, tuple[str, ...]]] = {}
        """Each with the lines that were said to replace it, or only some sentences of it."""
        self._turns: dict[int, int] = {}
        """In which turn each message was said: one that is taken back replaces nothing."""
        self._waiting: dict[str, Line] = {}
        """Queued messages by their ids, until something becomes of them."""
        self._unsent: dict[int, int] = {}
        self._elsewhere: set[int] = set()
        """Turns that were taken over from what a client sent."""
        self._tasks: list[Line] = []
        """Where tasks begin and end."""
        for line in lines:
            self.take(line)

    def take(self, line: Line) -> None:
        """Take in the next line."""
        self.rewinds.take(line)
        self.undone.take(line)
        self._provenance.take(line)
        match line.entry:
            case SessionOpened(forked_from=point) if point is not None:
                self._parent = point.session
            case RecallInjected() | StatementSuperseded():
                part = line.entry.part if isinstance(line.entry, StatementSuperseded) else ()
                for seq, by in superseded_in(line).items():
                    self._superseded.setdefault(seq, {})[by] = part
            case TaskStarted() | TaskDone():
                self._tasks.append(line)
            case TurnStarted(origin="adopted"):
                self._elsewhere.add(line.turn)
            case MessageQueued():
                self._waiting[line.id] = line
            case UserMessage(queued=queued):
                self._hear(line, queued)
            case MessageWithdrawn(queued=queued):
                if (taken := self._waiting.pop(queued, None)) is not None:
                    self._unsent[taken.seq] = line.seq

    def _hear(self, line: Line, queued: str) -> None:
        self._turns[line.seq] = line.turn
        sent = self._waiting.pop(queued, None) if queued else None
        if sent is not None:
            self._unsent.pop(sent.seq, None)
            self._superseded[sent.seq] = {line.seq: ()}
        elif not queued:
            # Whoever waits comes before what is said later: these were left behind.
            self._unsent |= {
                one.seq: line.seq
                for one in self._waiting.values()
                if one.turn < line.turn and one.seq not in self._unsent
            }

    def took_back(self, turn: int) -> bool:
        """Whether a whole turn was rewound."""
        return self.rewinds.of_turn(turn) is not None

    def notes(self, turn: int) -> tuple[str, ...]:
        """What is said beside a whole turn."""
        by = self.undone.of_turn(turn)
        left = ", ".join(self.undone.left_in(turn))
        undone = f"{UNDONE}, all but {one_line(left, 200)}." if left else f"{UNDONE}."
        replaced = (
            f"{REPLACED} " + (_PART_HOLDS if part else _NONE_HOLDS).format(by=by)
            for seq in self._superseded
            if self._turns.get(seq) == turn
            for by, part in self._standing_of(seq).items()
        )
        return (REWOUND,) * self.took_back(turn) + (*replaced,) + (undone,) * (by is not None)

    def source_of(self, seq: int) -> ImportSource:
        """Where the imported words of a line come from."""
        return self._provenance.of(seq)

    def replaced_by(self, seq: int, *, sent: bool = False) -> int | None:
        """The newest line that still replaces one; `sent` says that any does."""
        known = self._superseded.get(seq, {}) if sent else self._standing_of(seq)
        return max((by for by, part in known.items() if not part), default=None)

    def task_over(self, seq: int) -> Standing | None:
        """How the task ended that began at a line, or what other took its place; of a line that
        ended a task, which one had done so: a rewind hid it then, and a restore brought it back.
        """
        task: list[Line] = []
        for one in self._tasks:
            if one.seq == seq or self.rewinds.of(one) is None:
                begins = one.kind == "task_started" and one.seq <= seq
                task = [one] if begins else [*task, one]
        titles = {getattr(one.entry, "title", "") for one in task if one.seq in (seq, task[0].seq)}
        own = next((one for one in task if one.seq == seq), None)
        if own is None or self.rewinds.of(own) is not None or len(task) < 2 or len(titles) > 1:
            return None
        if task[0].kind == "task_done" or task[1].seq == seq:
            return None
        return Standing("done" if task[1].kind == "task_done" else "superseded", task[1].seq)

    def corrected_by(self, seq: int) -> Corrected:
        """Of a line that holds, the sentences that do not."""
        known = self._standing_of(seq)
        return in_force(known) if all(known.values()) else {}

    def _standing_of(self, seq: int) -> dict[int, tuple[str, ...]]:
        """What was said to replace a line and was not taken back."""
        known = self._superseded.get(seq, {}).items()
        return {by: part for by, part in known if self.replaces(by, seq)}

    def replaces(self, by: int, seq: int) -> bool:
        """Whether a line still replaces another that it was said to replace.

        Where all files are again what they were, so is what the model had told of them; what a
        person said stays said.
        """
        turn = self._turns.get(by, 0)
        so_again = seq not in self._turns and self.undone.whole(turn)
        gone = by in self.rewinds.there or self.rewinds.of_place(by, turn) is not None
        return not so_again and not gone

    def stored(self, seq: int, turn: int, kind: str) -> Replacement:
        """The same of something that is told of by its place, as the library keeps it."""
        over = self.task_over(seq) if kind in ("task_started", "task_done") else None
        by = over.by if over and over.what == "superseded" else self.replaced_by(seq)
        back = self.undone.of_place(seq, turn) if kind in DID else None
        return Replacement(
            superseded_by=by,
            corrected=self.corrected_by(seq),
            done_by=over.by if over and over.what == "done" else None,
            undone_by=back,
            left_alone=self.undone.left_in(turn) if back else (),
            interrupted=kind == "assistant_partial",
        )

    def told(
        self,
        line: Line,
        *,
        sign: str = "#",
        but: Collection[What] = OF_ITSELF,
        short: bool = False,
    ) -> list[str]:
        """What is said beside a line wherever it is told of, in words."""
        return told(self.of(line), sign=sign, but=but, short=short)

    def of(self, line: Line) -> tuple[Standing, ...]:
        """What is to be known about a line; nothing for one that simply holds."""
        found: list[Standing] = []
        by = self.rewinds.of(line)
        if isinstance(line.entry, StatementSuperseded) and not line.parent:
            # A verdict goes with the correction that it follows from, whenever it was written.
            correction = line.entry.by
            by = self.rewinds.of_place(correction, self._turns.get(correction, 0))
        found += by_a_line("rewound", by)
        # A queued message was sent, whatever became of that.
        by = self.replaced_by(line.seq, sent=isinstance(line.entry, MessageQueued))
        found += replaced(by, self.corrected_by(line.seq))
        if isinstance(line.entry, TaskStarted | TaskDone) and (over := self.task_over(line.seq)):
            found.append(over)
        found += by_a_line("undone", self.undone.of(line), self.undone.left_in(line.turn))
        match line.entry:
            case AssistantPartial() | TurnEnded(ending="interrupted"):
                found.append(Standing("interrupted"))
            case ToolReturned(status="interrupted"):
                found.append(Standing("interrupted"))
            case MessageQueued() if line.seq in self._unsent:
                found.append(Standing("unsent", self._unsent[line.seq]))
            case MessageQueued() if line.id in self._waiting:
                found.append(Standing("queued"))
            case _ if line.kind in _DERIVED:
                found.append(Standing("derived"))
        if line.parent:
            found.append(Standing("copied", source=self._parent))
        if line.turn in self._elsewhere and line.kind in DID:
            found.append(Standing("elsewhere"))
        if is_imported(line):
            source = self.source_of(line.seq)
            found.append(Standing("imported", source=source.words, part=source.marks))
        if _BLACKENED in line.raw:
            found.append(Standing("redacted"))
        if not line.intact:
            found.append(Standing("altered"))
        return tuple(found)


def still_open(lines: Iterable[Line]) -> list[Line]:
    """The questions among the lines of a turn that nothing has answered, oldest first."""
    asked: dict[str, Line] = {}
    for line in lines:
        match line.entry:
            case ToolAsked(call=call):
                asked[call] = line
            case ToolAnswered(call=call) as given:
                if call in asked and is_answered(asked[call], given):
                    del asked[call]
            case ToolReturned(call=call):
                asked.pop(call, None)
            case TurnEnded():
                asked.clear()
    return list(asked.values())


def is_answered(asked: Line, given: ToolAnswered) -> bool:
    """Whether an answer was meant for a question, and not for an earlier one of that call."""
    return isinstance(asked.entry, ToolAsked) and given.is_for(asked.entry.call, asked.ts)
