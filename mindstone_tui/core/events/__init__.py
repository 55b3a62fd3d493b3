"""The client contract: every event a conversation can announce, and the verbs it understands.

`run --json` prints these, one a line, with `event` as the first key. Names are an API. An event
about an entry comes after that entry is on disk, and names it; each `turn_started` is followed by
exactly one `turn_ended`.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mindstone_tui.core.context.report import Block as Block
from mindstone_tui.core.context.report import ContextReport as ContextReport
from mindstone_tui.core.context.report import GoneExchange as GoneExchange
from mindstone_tui.core.entries import conversation, derived, store, window
from mindstone_tui.core.entries.base import Label, Usage, Zone, kind_of
from mindstone_tui.core.entries.conversation import Answer as Answer
from mindstone_tui.core.entries.conversation import AskedPart as AskedPart
from mindstone_tui.core.entries.conversation import AskedScope as AskedScope
from mindstone_tui.core.entries.conversation import DeclinedCall as DeclinedCall
from mindstone_tui.core.values import Value


class Event(
    msgspec.Struct, metaclass=Value, frozen=True, kw_only=True, tag_field="event", tag=kind_of
):
    """Something a client may show."""

    @property
    def tag(self) -> str:
        """The event's name as programs see it."""
        return str(self.__struct_config__.tag)


class EventOfTurn(Event):
    """It belongs to a turn; 0 is before the first."""

    turn: int


class EntryEvent(EventOfTurn):
    """It tells of an entry that is on disk."""

    entry: str


class TurnStarted(EntryEvent):
    """A turn began."""

    text: str
    """What was asked, as it was recorded."""
    queued: str = ""
    """Id of the entry it waited in; empty if it never had to wait."""
    imported: bool = False
    """It was asked in another program."""
    resumed: bool = False
    """It goes on: another surface began it and left it waiting for an answer."""


class TextDelta(EventOfTurn):
    """More of the answer."""

    text: str


class ThinkingDelta(EventOfTurn):
    """More of the reasoning."""

    text: str


class AnswerRecorded(EntryEvent):
    """One model call's answer is on disk; `text` is all of it."""

    text: str
    calls: int
    partial: bool = False
    finish: str = "stop"
    """Why it ended, in the provider's word: `length` when it reached the longest allowed."""
    last: bool = False
    """Nothing follows it in its turn but the end; only whoever takes the turn can tell."""


class ModelCalled(EventOfTurn):
    """A request is about to be sent, planned and recorded."""

    call: int
    model: str
    prompt_hash: str
    tokens: int
    label: Label = "estimated"
    """How the tokens are known."""
    window: int = 0
    window_label: Label = "assumed"
    zone: Zone = "green"


class ModelRetried(EventOfTurn):
    """A request failed and is tried again."""

    attempt: int
    wait: float
    why: str


class UsageReported(EventOfTurn):
    """What the provider counted."""

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
    text: str = ""
    """Its words, where they go back to a prompt: what ran before it was stopped."""


class MessageSteered(EntryEvent):
    """A queued message went into the running turn, before its next model call."""

    queued: str
    """Id of the entry it waited in."""
    text: str


class TurnEnded(Event, conversation.EndOfTurn, omit_defaults=False):
    """The turn is over; exactly one for each that started."""

    turn: int
    elapsed: float = 0.0
    declined: tuple[DeclinedCall, ...] = ()
    """What was not allowed in it; known while it is live."""
    failure: str = ""
    """Which way its model failed, in one word; this and what follows is known while it is live."""
    status: int = 0
    """What the model's server answered then, if it did."""
    retry_after: float | None = None
    """Seconds it asks to be left alone for."""


AnswerEvent = TextDelta | ThinkingDelta | AnswerRecorded | ModelCalled | ModelRetried
MessageEvent = MessageQueued | MessageWithdrawn | MessageSteered
TurnEvent = TurnStarted | AnswerEvent | MessageEvent | UsageReported | TurnEnded


class RecallInjected(EntryEvent):
    """Passages came back for this turn."""

    query: str
    passages: tuple[derived.RecalledPassage, ...]
    tokens: int
    left_out: int = 0
    """Weaker ones that stayed out, because memory's share was full."""


class WindowPruned(Event, window.Departure, omit_defaults=False):
    """Whole exchanges left the window."""

    turn: int
    entry: str


class PruneBlocked(EntryEvent):
    """The window is over its mark and not enough may leave."""

    why: str
    detail: str


class ResultsTrimmed(EntryEvent):
    """Older tool results became placeholders."""

    results: tuple[window.Trimmed, ...]
    tokens_before: int
    tokens_after: int


class WindowChanged(EntryEvent):
    """A pin, unpin, restore, rewind, repair or another change a person or the program made."""

    kind: str
    detail: str


class SummaryDerived(Event, derived.Shortening, omit_defaults=False):
    """A labelled summary stands in for originals in the prompt."""

    turn: int
    entry: str


class ZoneChanged(EventOfTurn):
    """The window crossed an edge between two zones."""

    before: Zone
    after: Zone
    utilization: float


class ShareCrossed(Event, window.ShareMove, omit_defaults=False):
    """A share of the window crossed its soft or its hard mark, upwards or back."""

    turn: int


class VelocitySpiked(EventOfTurn):
    """The prompt grew far faster than it usually does."""

    tokens: int
    baseline: float


class AlertRaised(Event, window.Alert, omit_defaults=False):
    """Something planning could not solve by itself."""

    turn: int


class AlertsCleared(EventOfTurn):
    """What was raised and is not wrong any more, by metric."""

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
    rewound: int = 0
    before: int = 0
    """How many of the turns came before the fork."""


class ModelChanged(Event):
    """Another model is used from here on."""

    model: str
    note: str


class AnswerDrafted(EventOfTurn):
    """More of an answer that another surface is getting; history will have all of it."""

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
    """What was said, or what was decided, in words."""
    proposal: str = ""
    """The memory that was decided about."""


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


_Heard = AnswerDrafted | EntryAppeared | Noticed
_OfDisk = NotSaved | MessageReturned | SavedAgain
SessionEvent = SessionReady | ModelChanged | _Heard | _OfDisk | SessionClosed


class ToolAsked(Event, conversation.AskedCall, omit_defaults=False):
    """The turn waits until `answer(call, …)` is called."""

    turn: int
    channel: str = ""
    """The surface whose turn it is; empty for our own."""
    since: str = ""
    """When it was asked, ISO 8601."""


class ToolAnswered(Event, conversation.SaidOfCall):
    """A question was answered, on the surface `channel`; any later answer comes to nothing."""

    turn: int
    call: str
    channel: str


class ToolStarted(EventOfTurn):
    """A tool runs; its intent and its approval are on disk."""

    call: str
    name: str
    shown: str


class ToolOutput(EventOfTurn):
    """Output while a tool runs; the result that counts comes with `tool_ended`."""

    call: str
    text: str


class ToolEnded(Event, conversation.CallResult, omit_defaults=False):
    """A tool's result is on disk."""

    turn: int
    entry: str


class DelegationEnded(Event, derived.DelegationCost, omit_defaults=False):
    """A sub-agent finished."""

    turn: int


class FilesChanged(Event, store.ChangesOfCall, omit_defaults=False):
    """A call changed files; what they were before is kept."""

    turn: int
    entry: str


class FilesRestored(Event, store.ChangesTakenBack, kw_only=True, omit_defaults=False):
    """What turns had done to files was taken back, or done again."""

    turn: int
    entry: str


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


class InstructionOffered(EntryEvent):
    """Something that sounds like a rule or decision was said: keep it?"""

    text: str
    of_kind: str = "rule"


class MemoryProposed(Event, derived.ProposedMemory, omit_defaults=False):
    """A memory is proposed; nothing is stored until a person agrees."""


class CheckpointSaved(EventOfTurn):
    """The task's state was saved."""

    version: int
    path: str


class HandoffWritten(EventOfTurn):
    """A handoff for the next window was written."""

    path: str


MemoryEvent = InstructionOffered | MemoryProposed | CheckpointSaved | HandoffWritten


class CommandPrinted(Event, kw_only=True):
    """A slash command's output; it is part of no prompt."""

    command: str = ""
    """Whose output it is; whoever runs a command fills in its name."""
    text: str
    ok: bool = True
    data: dict[str, object] | None = None
    """The same for programs, where the command has more than text to say."""
    repeats: bool = False
    """The events before it said all of it; who has drawn those need not draw this."""
    typed: str = ""
    """The command as it was typed, with all that followed its name."""


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

AnyEvent = SessionEvent | TurnEvent | ToolEvent | WindowEvent | MemoryEvent | CommandEvent
"""Every event there is; clients match on it exhaustively."""


class Attachment(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """A picture, a sound or a text file that goes with a message."""

    path: Path


class Conversation(Protocol):
    """A session, live or replayed: verbs in, one ordered stream of events out.

    Verbs return at once; what comes of them is announced. There is one stream and one reader.
    """

    def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, in order, until the session is closed."""

    def send(
        self, text: str, *, attachments: Sequence[Attachment] = (), steer: bool = False
    ) -> None:
        """Say something; while a turn runs it is queued, or steers that turn when told to."""

    def command(self, line: str, *, how: str = "", seen: float = 0.0, writing: float = 0.0) -> None:
        """Run a slash command, given by a key or a click, with what it decides in view so long."""

    def answer(self, call: str, answer: Answer) -> None:
        """Answer a `ToolAsked`."""

    def withdraw(self, entry: str) -> None:
        """Take a queued message back."""

    def interrupt(self, *, how: str = "") -> None:
        """Stop the running turn, by a person's key or click; what was streamed so far is kept."""

    async def close(self) -> None:
        """Finish, and end the stream."""
