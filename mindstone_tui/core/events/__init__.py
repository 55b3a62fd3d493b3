"""The client contract: every event a conversation can announce, and the verbs it understands.

`run --json` prints these, one a line, with `event` as the first key. Names are an API. An event
about an entry comes after that entry is on disk, and names it; each `turn_started` is followed by
exactly one `turn_ended`.
"""

from __future__ import annotations

from mindstone_tui.core.events.conversation import (
    Answer as Answer,
)
from mindstone_tui.core.events.conversation import (
    AnyEvent as AnyEvent,
)
from mindstone_tui.core.events.conversation import (
    Attachment as Attachment,
)
from mindstone_tui.core.events.conversation import (
    Conversation as Conversation,
)
from mindstone_tui.core.events.conversation import (
    encode as encode,
)
from mindstone_tui.core.events.types import (
    AlertRaised as AlertRaised,
)
from mindstone_tui.core.events.types import (
    AnswerRecorded as AnswerRecorded,
)
from mindstone_tui.core.events.types import (
    CheckpointSaved as CheckpointSaved,
)
from mindstone_tui.core.events.types import (
    CommandEnded as CommandEnded,
)
from mindstone_tui.core.events.types import (
    CommandPrinted as CommandPrinted,
)
from mindstone_tui.core.events.types import (
    ContextReported as ContextReported,
)
from mindstone_tui.core.events.types import (
    DelegationEnded as DelegationEnded,
)
from mindstone_tui.core.events.types import (
    EntryAppeared as EntryAppeared,
)
from mindstone_tui.core.events.types import (
    Event as Event,
)
from mindstone_tui.core.events.types import (
    HandoffWritten as HandoffWritten,
)
from mindstone_tui.core.events.types import (
    InstructionOffered as InstructionOffered,
)
from mindstone_tui.core.events.types import (
    MemoryProposed as MemoryProposed,
)
from mindstone_tui.core.events.types import (
    MessageQueued as MessageQueued,
)
from mindstone_tui.core.events.types import (
    MessageSteered as MessageSteered,
)
from mindstone_tui.core.events.types import (
    MessageWithdrawn as MessageWithdrawn,
)
from mindstone_tui.core.events.types import (
    ModelCalled as ModelCalled,
)
from mindstone_tui.core.events.types import (
    ModelChanged as ModelChanged,
)
from mindstone_tui.core.events.types import (
    ModelRetried as ModelRetried,
)
from mindstone_tui.core.events.types import (
    Noticed as Noticed,
)
from mindstone_tui.core.events.types import (
    NotSaved as NotSaved,
)
from mindstone_tui.core.events.types import (
    PruneBlocked as PruneBlocked,
)
from mindstone_tui.core.events.types import (
    RecallInjected as RecallInjected,
)
from mindstone_tui.core.events.types import (
    ResultsTrimmed as ResultsTrimmed,
)
from mindstone_tui.core.events.types import (
    SavedAgain as SavedAgain,
)
from mindstone_tui.core.events.types import (
    ScreenAsked as ScreenAsked,
)
from mindstone_tui.core.events.types import (
    SessionClosed as SessionClosed,
)
from mindstone_tui.core.events.types import (
    SessionReady as SessionReady,
)
from mindstone_tui.core.events.types import (
    ShareCrossed as ShareCrossed,
)
from mindstone_tui.core.events.types import (
    SummaryDerived as SummaryDerived,
)
from mindstone_tui.core.events.types import (
    TextDelta as TextDelta,
)
from mindstone_tui.core.events.types import (
    ThinkingDelta as ThinkingDelta,
)
from mindstone_tui.core.events.types import (
    ToolAsked as ToolAsked,
)
from mindstone_tui.core.events.types import (
    ToolEnded as ToolEnded,
)
from mindstone_tui.core.events.types import (
    ToolOutput as ToolOutput,
)
from mindstone_tui.core.events.types import (
    ToolStarted as ToolStarted,
)
from mindstone_tui.core.events.types import (
    TurnEnded as TurnEnded,
)
from mindstone_tui.core.events.types import (
    TurnStarted as TurnStarted,
)
from mindstone_tui.core.events.types import (
    UsageReported as UsageReported,
)
from mindstone_tui.core.events.types import (
    VelocitySpiked as VelocitySpiked,
)
from mindstone_tui.core.events.types import (
    WindowChanged as WindowChanged,
)
from mindstone_tui.core.events.types import (
    WindowPruned as WindowPruned,
)
from mindstone_tui.core.events.types import (
    ZoneChanged as ZoneChanged,
)
