"""The client contract: every event a conversation can announce, and the verbs it understands.

`run --json` prints these, one a line, with `event` as the first key. Names are an API. An event
about an entry comes after that entry is on disk, and names it; each `turn_started` is followed by
exactly one `turn_ended`.
"""

from __future__ import annotations

from mindstone_tui.core.events.base import Event
from mindstone_tui.core.events.commands import (
    CommandEnded,
    CommandPrinted,
    ScreenAsked,
)
from mindstone_tui.core.events.memory import (
    CheckpointSaved,
    HandoffWritten,
    InstructionOffered,
    MemoryProposed,
)
from mindstone_tui.core.events.session import (
    EntryAppeared,
    ModelChanged,
    Noticed,
    NotSaved,
    SavedAgain,
    SessionClosed,
    SessionReady,
)
from mindstone_tui.core.events.stream import Answer, AnyEvent, Attachment, Conversation, encode
from mindstone_tui.core.events.tools import (
    DelegationEnded,
    ToolAsked,
    ToolEnded,
    ToolOutput,
    ToolStarted,
)
from mindstone_tui.core.events.turn import (
    AnswerRecorded,
    MessageQueued,
    MessageSteered,
    MessageWithdrawn,
    ModelCalled,
    ModelRetried,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from mindstone_tui.core.events.window import (
    AlertRaised,
    ContextReported,
    PruneBlocked,
    RecallInjected,
    ResultsTrimmed,
    ShareCrossed,
    SummaryDerived,
    VelocitySpiked,
    WindowChanged,
    WindowPruned,
    ZoneChanged,
)

__all__ = [
    "AlertRaised",
    "Answer",
    "AnswerRecorded",
    "AnyEvent",
    "Attachment",
    "CheckpointSaved",
    "CommandEnded",
    "CommandPrinted",
    "ContextReported",
    "Conversation",
    "DelegationEnded",
    "EntryAppeared",
    "Event",
    "HandoffWritten",
    "InstructionOffered",
    "MemoryProposed",
    "MessageQueued",
    "MessageSteered",
    "MessageWithdrawn",
    "ModelCalled",
    "ModelChanged",
    "ModelRetried",
    "NotSaved",
    "Noticed",
    "PruneBlocked",
    "RecallInjected",
    "ResultsTrimmed",
    "SavedAgain",
    "ScreenAsked",
    "SessionClosed",
    "SessionReady",
    "ShareCrossed",
    "SummaryDerived",
    "TextDelta",
    "ThinkingDelta",
    "ToolAsked",
    "ToolEnded",
    "ToolOutput",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
    "UsageReported",
    "VelocitySpiked",
    "WindowChanged",
    "WindowPruned",
    "ZoneChanged",
    "encode",
]
