"""The client contract: every event a conversation can announce, and the verbs it understands.

`run --json` prints these, one a line, with `event` as the first key. Names are an API. An event
about an entry comes after that entry is on disk, and names it; each `turn_started` is followed by
exactly one `turn_ended`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.core.entries.base import ShareLevel, Usage, Zone, kind_of
from mindstone_tui.core.entries.conversation import ToolStatus, TurnEnding
from mindstone_tui.core.entries.memory import RecalledPassage
from mindstone_tui.core.entries.pressure import AlertLevel
from mindstone_tui.core.entries.window import Left, Trimmed
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
    def name(self) -> str:
        """The event's name as programs see it."""
        return str(self.__struct_config__.tag)


class SessionReady(Event):
    """The session is open: who answers, and where history stands."""

    session: str
    model: str
    note: str
    """One honest sentence about who answers."""
    turns: int
    entries: int


class TurnStarted(Event):
    """A turn began."""

    turn: int
    entry: str
    text: str
    """What was asked, as it was recorded."""


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


class ModelCalled(Event):
    """A request is about to be sent, planned and recorded."""

    turn: int
    call: int
    model: str
    prompt_hash: str
    tokens: int


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


class RecallInjected(Event):
    """Passages came back for this turn."""

    turn: int
    entry: str
    query: str
    passages: tuple[RecalledPassage, ...]
    tokens: int


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


class ContextReported(Event):
    """The one accounting, after anything that changed it."""

    report: ContextReport


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
    """The task's state was written down."""

    turn: int
    version: int
    path: str


class HandoffWritten(Event):
    """A handoff for the next window was written."""

    turn: int
    path: str


class DelegationEnded(Event):
    """A sub-agent brought something back."""

    turn: int
    child: str
    ending: str
    tokens: int
    cost: float | None


class CommandPrinted(Event):
    """A slash command's output; it is part of no prompt."""

    command: str
    text: str
    ok: bool = True
    data: dict[str, object] | None = None
    """The same for programs, where the command has more than text to say."""


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


class ModelChanged(Event):
    """Another model answers from here on."""

    model: str
    note: str


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
    """The disk refused; nothing after this is on disk, and no tool runs."""

    what: str
    remedy: str
    unsaved: int


class SavedAgain(Event):
    """Everything that was unsaved is on disk now."""

    entries: int


class Noticed(Event):
    """Something a person should know, in one line."""

    message: str
    level: Literal["info", "warning", "error"] = "info"


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


class SessionClosed(Event):
    """The stream ends here."""

    session: str
    seq: int
    hash: str


AnyEvent = (
    SessionReady
    | TurnStarted
    | TextDelta
    | ThinkingDelta
    | AnswerRecorded
    | ModelCalled
    | ModelRetried
    | UsageReported
    | ToolAsked
    | ToolStarted
    | ToolOutput
    | ToolEnded
    | RecallInjected
    | WindowPruned
    | PruneBlocked
    | ResultsTrimmed
    | WindowChanged
    | SummaryDerived
    | ZoneChanged
    | ShareCrossed
    | VelocitySpiked
    | AlertRaised
    | ContextReported
    | MessageQueued
    | MessageWithdrawn
    | MessageSteered
    | InstructionOffered
    | MemoryProposed
    | CheckpointSaved
    | HandoffWritten
    | DelegationEnded
    | CommandPrinted
    | CommandEnded
    | ScreenAsked
    | ModelChanged
    | EntryAppeared
    | NotSaved
    | SavedAgain
    | Noticed
    | TurnEnded
    | SessionClosed
)
"""Every event there is; clients match on it exhaustively."""


class Attachment(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A picture that goes with a message."""

    path: Path


class Answer(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A person's word on a tool that was asked about."""

    allowed: bool
    remember: str = ""
    """A rule of `ToolAsked.remember`, or empty for this once."""
    keep: Literal["", "session", "config"] = ""
    why: str = ""


class Conversation(Protocol):
    """A session, live or replayed: verbs in, one ordered stream of events out.

    Verbs return at once; what comes of them is announced. There is one stream and one reader.
    """

    def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, in order, until the session is closed."""
        ...

    def send(
        self, text: str, *, attachments: Sequence[Attachment] = (), steer: bool = False
    ) -> None:
        """Say something; while a turn runs it is queued, or steers that turn when told to."""
        ...

    def command(self, line: str) -> None:
        """Run a slash command."""
        ...

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a `ToolAsked`."""
        ...

    def withdraw(self, entry: str) -> None:
        """Take a queued message back."""
        ...

    def interrupt(self) -> None:
        """Stop the running turn; what was streamed so far is kept."""
        ...

    async def close(self) -> None:
        """Finish, and end the stream."""
        ...


def encode(event: AnyEvent) -> bytes:
    """One event as a line of JSON, newline included."""
    return msgspec.json.encode(event) + b"\n"
