"""Recall, and everything derived from history: labelled, with its sources, never the record."""

import hashlib
from typing import Any, Final, Literal

import msgspec

from mindstone_tui.core.entries.base import ByHand, Entry, Part, Place, Span, TextEntry
from mindstone_tui.core.entries.marks import (
    HERE,
    Corrected,
    Standing,
    by_a_line,
    imported,
    replaced,
    told,
)
from mindstone_tui.core.entries.provenance import ImportSource
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.entries.window import WindowState
from mindstone_tui.core.patterns import pattern_of

Importance = Literal["critical", "high", "normal"]


def in_force(corrected: Corrected) -> Corrected:
    """Those that count: of lines that replace the same sentences, the last."""
    kept: Corrected = {}
    replaced: dict[str, list[frozenset[str]]] = {}
    """By each sentence, what the lines replace that replace it."""
    for by, words in sorted(corrected.items(), reverse=True):
        said = frozenset(words)
        if any(said <= more for more in replaced.get(words[0], ())) if words else kept:
            continue
        kept[by] = words
        for one in said:
            replaced.setdefault(one, []).append(said)
    return dict(sorted(kept.items()))


_UNDONE: Final = pattern_of(r" \(changes to files taken back by line \d.*\)\Z")


def with_undone(words: str, turn: int, seq: int, act: FilesRestored) -> str:
    """A request with what a line did to its turn's changes to files, as long as that holds."""
    if not act.whole(turn):
        return words
    by, left = act.then(seq, turn, 0, ())
    marks = (f" ({mark})" for mark in told(by_a_line("undone", by, left), sign="line "))
    return "".join([_UNDONE.sub("", words), *marks])


class Replacement(Part, kw_only=True):
    """What a passage replaces, and what replaces it, some sentences of it, or undid its deeds."""

    supersedes: tuple[int, ...] = ()
    """Sequence numbers of older statements, also found, that this one replaces."""
    superseded_by: Place | None = None
    """The newer statement, also found, that replaces this one."""
    superseded_here: bool = False
    """That line stands here: the passage is of a session that this one was forked from."""
    corrected: Corrected = {}
    """The sentences that others replace, by their lines, where the rest holds."""
    undone_by: int | None = None
    """The line in which a person took back what its turn had done to files,"""
    left_alone: tuple[str, ...] = ()
    """and the files that were left as they were, or done again since."""
    done_by: int | None = None
    """The line in which the task ended that began with this one."""

    imported: ImportSource | str | None = None
    """Where the words come from, if they were not said here; they are quoted, not obeyed."""
    interrupted: bool = False
    """Whether they were cut off."""

    @property
    def stands(self) -> tuple[Standing, ...]:
        """How it stands, as its line does by `Standings`."""
        match self.imported:
            case ImportSource() as source:
                whence = imported(source.words, source.marks)
            case words:
                whence = imported(words or "")
        return (
            *replaced(self.superseded_by, self.corrected, HERE if self.superseded_here else ""),
            *by_a_line("done", self.done_by),
            *by_a_line("undone", self.undone_by, self.left_alone),
            *((Standing("interrupted"),) if self.interrupted else ()),
            *whence,
        )

    @property
    def marks(self) -> list[str]:
        """The same in words."""
        return told(self.stands)

    @property
    def short_marks(self) -> list[str]:
        """The same where there is little room."""
        return told(self.stands, short=True)


class RecalledPassage(Replacement, kw_only=True):
    """One passage that was brought back, with the way to its source."""

    seq: Place
    turn: int
    score: float
    tokens: int
    session: str = ""
    entry: str = ""
    ts: str = ""
    speaker: str = ""
    text: str = ""
    parts: dict[str, float] = {}
    imported: str = ""
    """Where the words come from, if they were not said here; they are quoted, not obeyed."""
    at: tuple[int, int] | None = None
    """In a line: where the block has the text, and how long it is. In memory the text is here."""
    of: int | None = None
    """In a line: where the text of line `seq` has it. It stands there only, with whatever else is
    missing here; see `quotes`."""
    but: tuple[tuple[int, str], ...] = ()
    """In a line: signs of the text that the block shows in another form, by their place in it."""


class RecallInjected(TextEntry):
    """Passages that stand at the end of this turn's prompts, and in no other turn's."""

    passages: tuple[RecalledPassage, ...]
    text: str
    """The exact block the model sees, with its delimiters; in a line, without what it points to."""
    tokens: int
    query: str = ""
    share: int = 0
    """The room that was reserved for it."""
    nonce: str = ""
    vectors: bool = True
    elapsed: float = 0.0
    left_out: int = 0
    """Passages that were good enough and stayed out, because memory's share was full."""
    asked: int | None = None
    """In a line: the message whose text is the query, which is then left out."""
    parts: dict[str, float | tuple[float, ...]] = {}
    """In a line: the parts of each passage's score, by their names; one number holds for all."""
    digest: str = ""
    """In a line that points: SHA-256 of the whole block."""

    @property
    def leans(self) -> bool:
        """Whether it points to words that were not put back yet."""
        return bool(self.digest) or (self.asked is not None and not self.query)

    def __post_init__(self) -> None:
        # Only what was just read from a line has anything to be put in its place.
        if self.parts or any(each.at and not each.text for each in self.passages):
            holes = [each.at for each in self.passages if each.at and each.of is not None]
            told = tuple(
                _told(passage, number, self, holes) for number, passage in enumerate(self.passages)
            )
            msgspec.structs.force_setattr(self, "passages", told)
            msgspec.structs.force_setattr(self, "parts", {})

    def as_written(self) -> Any:
        """The block once, without what stands in other lines, and of each passage what is new."""
        fields = msgspec.to_builtins(self)
        if self.leans:
            return fields
        holes = [each.at for each in self.passages if each.at and each.of is not None]
        for written, passage in zip(fields["passages"], self.passages, strict=True):
            written.pop("parts", None)
            if passage.of is not None:
                for name in ("session", "entry", "ts", "speaker", "text"):
                    written.pop(name, None)
            elif (at := _outside(self.text, passage.text, holes)) >= 0:
                del written["text"]
                written["at"] = (at, len(passage.text))
        if columns := _columns([each.parts for each in self.passages]):
            fields["parts"] = columns
        if holes:
            fields["text"] = _without(self.text, holes)
            fields["digest"] = hashlib.sha256(self.text.encode()).hexdigest()
        if self.asked is not None:
            fields.pop("query", None)
        return fields


Hole = tuple[int, int]
"""Where a block has words that stand in another line, and how many characters they are."""


def _told(
    passage: RecalledPassage, number: int, block: RecallInjected, holes: list[Hole]
) -> RecalledPassage:
    """A passage of a line with what the line says of it elsewhere."""
    parts = {
        name: value
        for name, column in block.parts.items()
        if (value := column[number] if isinstance(column, tuple) else column)
    }
    changes: dict[str, Any] = {"parts": parts} if parts else {}
    if passage.at and passage.of is None and not passage.text:
        start, length = passage.at
        start -= sum(width for hole, width in holes if hole < start)
        changes |= {"text": block.text[start : start + length], "at": None}
    return msgspec.structs.replace(passage, **changes) if changes else passage


def _columns(parts: list[dict[str, float]]) -> dict[str, float | list[float]]:
    """The same numbers by their names, each name once."""
    columns: dict[str, float | list[float]] = {}
    for name in dict.fromkeys(name for each in parts for name in each):
        column = [each.get(name, 0) for each in parts]
        columns[name] = column[0] if len(set(column)) == 1 else column
    return columns


def _outside(block: str, text: str, holes: list[Hole]) -> int:
    """Where the block has a text that will be in the line; -1 if nowhere."""
    at = block.find(text) if text else -1
    end = at + len(text)
    return -1 if any(start < end and at < start + width for start, width in holes) else at


def _without(block: str, holes: list[Hole]) -> str:
    """The block with the holes cut out of it."""
    kept, at = [], 0
    for start, width in holes:
        kept.append(block[at:start])
        at = start + width
    return "".join((*kept, block[at:]))


class MemoryDigested(TextEntry):
    """Memories that bear on this turn, at the end of its prompts beside what was recalled."""

    text: str
    """The exact block the model sees, with its delimiters."""
    files: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Memories that bear on it too and found no room."""
    tokens: int = 0
    share: int = 0
    """The room that it had."""


class RecallDropped(Entry):
    """A person dropped a recalled passage; it stays out for the rest of the session."""

    from_session: str
    entry: str


class StatementSuperseded(Entry):
    """What a person said later replaces what a line says: judged once, never judged anew."""

    statement: Place
    """The line that no longer holds."""
    by: Place
    """The line that holds instead."""
    words: tuple[str, ...] = ()
    """The sentences of it that are meant, as they were said (in older transcripts in lower case);
    none where they were not looked for."""
    partly: bool = False
    """The line says more than these, which still holds."""

    @property
    def part(self) -> tuple[str, ...]:
        """The sentences that hold no longer, where the rest of the line does."""
        return self.words if self.partly else ()


class RecallUsed(Entry):
    """Which recalled passages the answer leaned on, or why none were brought back.

    There is none where it leaned on none, or where the message asked for nothing.
    """

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    """Only in older lines; by now, all others that this turn recalled."""
    of: int = 0
    """How many this turn recalled."""
    silent: str = ""
    """Why nothing was brought back for a message that history was searched for, in a sentence."""


class StandingInstructionOffered(TextEntry):
    """Something that sounds like a rule or decision was said; it can be kept."""

    text: str
    source: int
    of_kind: str = "rule"
    form: str = ""
    """What it was recognised by; a form that was offered and not kept is not offered again."""
    waits: bool = False
    """It waits for an `offer_answered`; those from before this was written lapsed with a turn."""


class RuleSet(TextEntry, ByHand, kw_only=True):
    """A person set a rule; it stands until it is retired."""

    number: int
    words: str
    scope: Literal["session", "project", "everywhere"]
    folder: str = ""
    checked: str = ""
    """What is checked of it, in plain words; empty where nothing can be."""
    source: int = -1
    """The message that it was said in, where it was."""


class RuleRetired(Entry, ByHand, kw_only=True):
    """A rule stands no longer."""

    number: int


class RuleFired(Entry):
    """A rule refused a call, or had a person asked about it."""

    number: int
    call: str
    verdict: Literal["ask", "deny"]


class CompactionCertified(Entry):
    """What a compaction left of what must not be lost, by the lines that say it.

    Below 0 it is the number of a rule that was set.
    """

    program: str
    kept: tuple[int, ...] = ()
    """Still stands in what the program goes on with."""
    recoverable: tuple[int, ...] = ()
    """No longer, and there was no room to give it back; recall finds it."""
    lost: tuple[int, ...] = ()
    """No longer, and given back word for word."""

    @property
    def sentence(self) -> str:
        """`23 of 31 kept, 8 given back`."""
        rest = f", {len(self.recoverable)} left to recall" if self.recoverable else ""
        total = len(self.kept) + len(self.recoverable) + len(self.lost)
        given = f", {len(self.lost)} given back" if self.lost else ""
        return f"{len(self.kept)} of {total} kept{given}{rest}"


class OfferAnswered(TextEntry, ByHand, kw_only=True):
    """A person kept what was offered, did not want it kept, or went on without a word about it."""

    offer: int
    """The line that offered it."""
    keep: bool
    words: str = ""
    """What was offered and is not kept; empty where they only went on."""
    why: str = ""


class Shortening(Part, kw_only=True):
    """How a text became shorter, and by how much."""

    strategy: str
    """`conversation_compaction`, `notes`, `tool_result_summary`, `progressive`, `sub_agent`."""
    tokens_before: int
    tokens_after: int
    model: str
    """The model that wrote it, or `deterministic`."""
    fallback: bool = False


class ShorterText(Shortening):
    """A shorter text, and what it was made of."""

    sources: tuple[Span, ...]
    text: str
    level: int = 0
    prompt_version: str = ""
    audit_missed: tuple[str, ...] = ()
    """What the model's text lost; the text that stands here has it again."""


class SummaryDerived(TextEntry, ShorterText):
    """A shorter text made from originals. It names them and loses against them."""

    state: WindowState | None = None


class NoteTaken(TextEntry):
    """Something worth keeping, written at the moment it became clear."""

    category: str
    text: str
    importance: Importance = "normal"
    by: str = "model"


class ProposedMemory(Part, kw_only=True):
    """What a memory would say, instead of what, and where it comes from."""

    proposal: str
    path: str
    before: str
    after: str
    why: str = ""
    sources: tuple[int, ...]


class MemoryProposed(TextEntry, ProposedMemory):
    """A durable memory is proposed; nothing is stored until a person agrees."""

    by: str


BY_CORRECTION: Final = "the correction in line "
"""Who refused a proposal that a person's later words replaced: nobody was asked."""


class MemoryDecided(TextEntry, ByHand, kw_only=True):
    """A proposal was approved, edited, refused or undone."""

    proposal: str
    decision: Literal["approved", "edited", "refused", "undone"]
    by: str
    after: str = ""
    words: str = ""
    """What it says, to be told with the decision."""
    instead: str = ""
    """The words that were proposed, where a person chose others."""
    why: str = ""


class CheckpointSaved(Entry):
    """The state of the task was written down for the next window."""

    version: int
    path: str
    sha256: str
    trigger: str


class HandoffWritten(Entry):
    """A handoff for the next window was written."""

    path: str
    sha256: str
    covers: Span
    trigger: str


class HandoffReplayed(TextEntry):
    """A handoff was taken over, once; an empty one ends what stood in its place."""

    sha256: str
    text: str
    state: WindowState


class BackfillChecked(Entry):
    """After a compaction: how much of history still waits to be indexed."""

    unindexed: int


class SummaryScore(Part):
    """How many answers survived in a shorter text."""

    score: float | None
    """None when nothing could be measured."""
    consistent: int = 0
    judged: int = 0
    excluded: int = 0
    """Questions that the originals do not answer."""
    why: str = ""


class SummaryJudged(Entry, SummaryScore, kw_only=True):
    """A model judged what a summary still knows of its originals."""

    summary: int
    """The line of the summary."""
    gate: float = 0.0
    passes: bool = False
    model: str = ""


class Consolidated(Entry):
    """History was reviewed up to a point; what came of it are proposals."""

    through: int
    proposals: tuple[str, ...]
    tokens: int = 0


class Delegated(TextEntry):
    """A sub-agent took a task with a window and a transcript of its own."""

    task: str
    child: str
    call: str = ""


class DelegationCost(Part, kw_only=True):
    """How a sub-agent ended, and what it cost."""

    child: str
    ending: str
    tokens: int = 0
    cost: float | None = None


class DelegationEnded(TextEntry, DelegationCost):
    """What a sub-agent brought back, and what it cost."""

    text: str


class TaskStarted(TextEntry):
    """A task began: its first message is kept in the window until it is done."""

    title: str
    criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


class TaskDone(TextEntry):
    """The task is over: summary, archived checkpoint, trend."""

    title: str
    summary: str = ""
    checkpoint: str = ""


class HookRun(TextEntry):
    """A program that a person set up for an event was run; what it said may join this turn."""

    event: str
    """`PreToolUse`, `UserPromptSubmit` …"""
    command: str
    source: str
    """`user` or `project`; `mindstone` for what earlier sessions know of a call."""
    status: Literal["ok", "blocked", "failed", "timeout"] = "ok"
    code: int = 0
    why: str = ""
    """Why it blocked, or how it failed."""
    text: str = ""
    """The exact block that the model sees for the rest of the turn; empty where it adds nothing."""
    said: str = ""
    """What it wants a person to read."""
    elapsed: float = 0.0


class TodoItem(Part):
    """One thing to do."""

    title: str
    status: Literal["planned", "in_progress", "done"] = "planned"


class TodoChanged(TextEntry):
    """The list of what is to be done, whole, as it is from here on."""

    items: tuple[TodoItem, ...]
    by: str = "model"
    """`model`, `person` or `plan`."""


class PlanChanged(TextEntry, ByHand, kw_only=True):
    """Planning began, or what became of the plan."""

    stage: Literal["planning", "edited", "approved", "refused"]
    steps: tuple[str, ...] = ()
    why: str = ""


class JobStarted(TextEntry):
    """A command goes on in the background; on record before it begins."""

    job: int
    command: str
    log: str
    """The file with its output."""
    stays: bool = False
    """It goes on when the session is closed."""


UNSEEN: Final = "unseen"
"""How a job ended that nobody was there to see."""


class JobEnded(TextEntry):
    """A command in the background is over."""

    job: int
    command: str
    ending: str
    """`exited`, `timeout`, `flooded`, `interrupted`, or `unseen`; then there is no code."""
    code: int = 0
    elapsed: float = 0.0
