"""Every event, grouped by what it is about: turns, the window, the session, tools, memory."""

from __future__ import annotations

from typing import Literal

import msgspec

from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.entries.base import Label, ShareLevel, Usage, Zone, kind_of
from mindstone_tui.core.entries.conversation import (
    AskedPart,
    AskedScope,
    ToolStatus,
    TurnEnding,
)
from mindstone_tui.core.entries.derived import RecalledPassage
from mindstone_tui.core.entries.store import FileChange
from mindstone_tui.core.entries.window import AlertLevel, Left, Trimmed
from mindstone_tui.core.values import Value


class Event(
    msgspec.Struct,
    metaclass=Value,
    frozen=True,
    kw_only=True,
    tag_field="event",
    tag=kind_of,
):
    """Something a client may show."""

    @property
    def tag(self) -> str:
        """The event's name as programs see it."""
        return str(self.__struct_config__.tag)


class TurnStarted(Event):
    """A turn began."""

    turn: int
    entry: str
    text: str
    """What was asked, as it was recorded."""
    queued: str = ""
    """Id of the entry it waited in; empty if it never had to wait."""
    imported: bool = False
    """It was asked in another program."""


class TextDelta(Event):
    """More of the answer."""

    turn: int
    text: str


class ThinkingDelta(Event):
    """More of the reasoning."""

    turn: int
    text: str


class AnswerRecorded(Event):
    """One model call's answer is on disk; `text` is all of it."""

    turn: int
    entry: str
    text: str
    calls: int
    partial: bool = False
    finish: str = "stop"
    """Why it ended, in the provider's word: `length` when it reached the longest allowed."""
    last: bool = False
    """Nothing follows it in its turn but the end; only whoever takes the turn can tell."""


class ModelCalled(Event):
    """A request is about to be sent, planned and recorded."""

    turn: int
    call: int
    model: str
    prompt_hash: str
    tokens: int
    label: Label = "estimated"
    """How the tokens are known."""
    window: int = 0
    window_label: Label = "assumed"
    zone: Zone = "green"


class ModelRetried(Event):
    """A request failed and is tried again."""

    turn: int
    attempt: int
    wait: float
    why: str


class UsageReported(Event):
    """What the provider counted."""

    turn: int
    call: int
    model: str
    usage: Usage


class MessageQueued(Event):
    """A message waits for its own turn."""

    entry: str
    text: str


class MessageWithdrawn(Event):
    """A queued message was taken back."""

    entry: str


class MessageSteered(Event):
    """A queued message went into the running turn, before its next model call."""

    turn: int
    entry: str
    queued: str
    """Id of the entry it waited in."""
    text: str


class TurnEnded(Event):
    """The turn is over; exactly one for each that started."""

    turn: int
    ending: TurnEnding
    why: str = ""
    remedy: str = ""
    calls: int = 0
    tools: int = 0
    usage: Usage = Usage()
    elapsed: float = 0.0


TurnEvent = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | AnswerRecorded
    | ModelCalled
    | ModelRetried
    | UsageReported
    | MessageQueued
    | MessageWithdrawn
    | MessageSteered
    | TurnEnded
)


class RecallInjected(Event):
    """Passages came back for this turn."""

    turn: int
    entry: str
    query: str
    passages: tuple[RecalledPassage, ...]
    tokens: int
    left_out: int = 0
    """Weaker ones that stayed out, because memory's share was full."""


class WindowPruned(Event):
    """Whole exchanges left the window."""

    turn: int
    entry: str
    left: tuple[Left, ...]
    tokens_before: int
    tokens_after: int
    policy: str
    trigger: str


class PruneBlocked(Event):
    """The window is over its mark and not enough may leave."""

    turn: int
    entry: str
    why: str
    detail: str


class ResultsTrimmed(Event):
    """Older tool results became placeholders."""

    turn: int
    entry: str
    results: tuple[Trimmed, ...]
    tokens_before: int
    tokens_after: int


class WindowChanged(Event):
    """A pin, unpin, restore, rewind, repair or another change a person or the program made."""

    turn: int
    entry: str
    kind: str
    detail: str


class SummaryDerived(Event):
    """A labelled summary stands in for originals in the prompt."""

    turn: int
    entry: str
    strategy: str
    tokens_before: int
    tokens_after: int
    model: str
    fallback: bool


class ZoneChanged(Event):
    """The window crossed an edge between two zones."""

    turn: int
    before: Zone
    after: Zone
    utilization: float


class ShareCrossed(Event):
    """A share of the window crossed its soft or its hard mark, upwards or back."""

    turn: int
    component: str
    before: ShareLevel
    after: ShareLevel
    tokens: int
    limit: int


class VelocitySpiked(Event):
    """The prompt grew far faster than it usually does."""

    turn: int
    tokens: int
    baseline: float


class AlertRaised(Event):
    """Something planning could not solve by itself."""

    turn: int
    level: AlertLevel
    metric: str
    message: str
    remedy: str = ""


class AlertsCleared(Event):
    """What was raised and is not wrong any more, by metric."""

    turn: int
    metrics: tuple[str, ...]


class ContextReported(Event):
    """The one accounting, after anything that changed it."""

    report: ContextReport


WindowEvent = (
    RecallInjected
    | WindowPruned
    | PruneBlocked
    | ResultsTrimmed
    | WindowChanged
    | SummaryDerived
    | ZoneChanged
    | ShareCrossed
    | VelocitySpiked
    | AlertRaised
    | AlertsCleared
    | ContextReported
)


class SessionReady(Event):
    """The session is open: its model, and how long it is."""

    session: str
    model: str
    note: str
    """One sentence about the model."""
    turns: int
    entries: int


class ModelChanged(Event):
    """Another model is used from here on."""

    model: str
    note: str


class AnswerDrafted(Event):
    """More of an answer that another surface is getting; history will have all of it."""

    turn: int
    text: str


class EntryAppeared(Event):
    """Another surface wrote to this session."""

    entry: str
    seq: int
    kind: str
    role: str
    channel: str
    turn: int
    text: str


class NotSaved(Event):
    """Writing failed; nothing after this is on disk, and no tool runs."""

    what: str
    remedy: str
    unsaved: int


class MessageReturned(Event):
    """A message that could not be taken in; it goes back to whoever typed it."""

    text: str
    path: str = ""
    """The file that holds it meanwhile; empty where none could be written."""


class SavedAgain(Event):
    """Everything that was unsaved is on disk now."""

    entries: int


class Noticed(Event):
    """Something a person should know, in one line."""

    message: str
    level: Literal["info", "warning", "error"] = "info"
    waits_for: str = ""
    """The call that somebody must answer before anything goes on here."""


class SessionClosed(Event):
    """The stream ends here."""

    session: str
    seq: int
    hash: str


SessionEvent = (
    SessionReady
    | ModelChanged
    | AnswerDrafted
    | EntryAppeared
    | NotSaved
    | MessageReturned
    | SavedAgain
    | Noticed
    | SessionClosed
)


class ToolAsked(Event):
    """The turn waits until `answer(call, …)` is called."""

    turn: int
    call: str
    name: str
    risk: str
    shown: str
    """Exactly what will run."""
    digest: str
    diff: str = ""
    why: str = ""
    remember: tuple[str, ...] = ()
    """Rules that can be remembered with the answer."""
    parts: tuple[AskedPart, ...] = ()
    """What will run, one by one."""
    worst: str = ""
    """The worst verdict among the parts."""
    scopes: tuple[AskedScope, ...] = ()
    """Every yes there is, from the narrowest to the widest; the first is once."""
    channel: str = ""
    """The surface whose turn it is; empty for this one's own."""


class ToolAnswered(Event):
    """A question was answered, here or on another surface; any later answer comes to nothing."""

    turn: int
    call: str
    allowed: bool
    channel: str
    """The surface that answered."""
    why: str = ""


class ToolStarted(Event):
    """A tool runs; its intent and its approval are on disk."""

    turn: int
    call: str
    name: str
    shown: str


class ToolOutput(Event):
    """Output while a tool runs; the result that counts comes with `tool_ended`."""

    turn: int
    call: str
    text: str


class ToolEnded(Event):
    """A tool's result is on disk."""

    turn: int
    call: str
    name: str
    entry: str
    status: ToolStatus
    text: str
    finding: str = ""
    diff: str = ""
    elapsed: float = 0.0
    shown: str = ""
    """What it was meant for, when it failed before it could begin."""


class DelegationEnded(Event):
    """A sub-agent finished."""

    turn: int
    child: str
    ending: str
    tokens: int
    cost: float | None


class FilesChanged(Event):
    """A call changed files; what they were before is kept."""

    turn: int
    entry: str
    call: str
    name: str
    total: int
    changes: tuple[FileChange, ...]
    """The first of them."""
    unkept: int = 0
    """Changes that cannot be undone."""


class FilesRestored(Event):
    """What turns had done to files was taken back, or done again."""

    turn: int
    entry: str
    direction: Literal["undo", "redo"]
    turns: tuple[int, ...]
    total: int
    changes: tuple[FileChange, ...]
    left: tuple[str, ...] = ()
    """Paths that stayed as they were, with the reason."""


ToolEvent = (
    ToolAsked
    | ToolAnswered
    | ToolStarted
    | ToolOutput
    | ToolEnded
    | DelegationEnded
    | FilesChanged
    | FilesRestored
)


class InstructionOffered(Event):
    """Something that sounds like a lasting rule was said: pin or remember it?"""

    turn: int
    entry: str
    text: str


class MemoryProposed(Event):
    """A memory is proposed; nothing is stored until a person agrees."""

    proposal: str
    path: str
    before: str
    after: str
    why: str
    sources: tuple[int, ...]


class CheckpointSaved(Event):
    """The task's state was saved."""

    turn: int
    version: int
    path: str


class HandoffWritten(Event):
    """A handoff for the next window was written."""

    turn: int
    path: str


MemoryEvent = InstructionOffered | MemoryProposed | CheckpointSaved | HandoffWritten


class CommandPrinted(Event):
    """A slash command's output; it is part of no prompt."""

    command: str
    text: str
    ok: bool = True
    data: dict[str, object] | None = None
    """The same for programs, where the command has more than text to say."""
    repeats: bool = False
    """The events before it said all of it; who has drawn those need not draw this."""


class CommandEnded(Event):
    """A slash command is done; exactly one for each that was given."""

    command: str
    ok: bool
    exit_code: int = 0
    """What a verb of the command line returns for it."""


class ScreenAsked(Event):
    """A slash command wants something only a surface can do: open a screen, copy, quit."""

    screen: str
    argument: str = ""
    otherwise: str = ""
    """What a surface prints that cannot do it."""


CommandEvent = CommandPrinted | CommandEnded | ScreenAsked
