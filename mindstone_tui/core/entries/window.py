"""Decisions about the working set. Each is written before the request it shapes.

A *window change* carries the whole state of the fold (`WindowState`), so that opening a session
reads back to the newest one and no further.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import msgspec

from mindstone_tui.core.entries.base import (
    ByHand,
    Entry,
    Label,
    Part,
    Place,
    Role,
    Sampling,
    ShareLevel,
    Span,
    TextEntry,
    ToolSchema,
    Zone,
)


class Outside(Part):
    """What history holds that the window does not."""

    exchanges: int = 0
    tokens: int = 0
    unindexed: int = 0
    rewound: tuple[Span, ...] = ()
    """Turns that were taken back; they are in none of the figures above."""


class WindowState(Part):
    """Everything the fold needs to go on from here.

    Entries with a sequence number above `through` are in the window unless a later change says
    otherwise; this is what lets a message survive that arrives while a prune is being decided.
    """

    through: Place
    spans: tuple[Span, ...] = ()
    """Runs of history at or below `through` that are in the window."""
    trimmed: dict[int, int] = {}
    """Tool result → the `tool_results_trimmed` entry that holds its placeholder."""
    cut: dict[int, int] = {}
    """Message → the `message_cut` entry that holds its shortened text."""
    pins: tuple[int, ...] = ()
    """Turns that a person pinned."""
    corrected: tuple[tuple[int, int], ...] = ()
    """Messages of the window that others of it replace: each with the one that holds."""
    summaries: tuple[int, ...] = ()
    """`summary_derived` entries that stand in the head."""
    pruned: int | None = None
    """The newest prune or restore whose marker line stands in the head."""
    model: int | None = None
    instructions: int | None = None
    tools: int | None = None
    mode: int | None = None
    policy: int | None = None
    task: int | None = None
    """The user message that states the original task; it never leaves. Between `task_started`
    and its first message, and after `task_done`, it is the number of that entry instead."""
    handoff: int | None = None
    plan: int | None = None
    """The newest `prompt_planned`; it carries what later plans need to know about earlier turns."""
    outside: Outside = Outside()


class Receipt(Part):
    """Proof that an exchange can be found again: read back from the index, not assumed."""

    turn: int
    passages: int
    """How many passages were read back by content hash; 0 when there was nothing to index."""
    digest: str = ""
    """SHA-256 over the content hashes that were read back, in order."""
    vectors: str = "stored"
    """`stored`, `pending` or `failed`: the state of the passages' vectors; empty in a rehearsal
    by words alone."""


class Left(Part):
    """An exchange that left the window, and why."""

    turn: int
    span: Span
    tokens: int
    score: float
    """How much it was worth keeping under the active policy: 1 keeps, 0 leaves first."""
    reason: str
    parts: dict[str, float] = {}
    receipt: Receipt | None = None
    exchanges: int = 1
    """How many end with this turn: all that lies before an imported session's window is one."""
    kept: tuple[int, ...] = ()
    """Messages of it that stay in the window: it left in part."""

    @property
    def turns(self) -> range:
        """The exchanges this stands for."""
        return range(self.turn + 1 - self.exchanges, self.turn + 1)

    @property
    def name(self) -> str:
        """`7`, or `1–74`."""
        return f"{self.turns[0]}–{self.turn}" if self.exchanges > 1 else str(self.turn)


class Component(Part):
    """One share of the budget."""

    name: str
    tokens: int
    limit: int
    """The share itself."""
    soft: int
    """From here on it is nearly full."""
    hard: int
    """From here on it acts: tools come on demand, older results are shortened …"""


class Measure(Part):
    """The prompt in tokens, and how far to trust the number."""

    tokens: int
    label: Label
    utilization: float = 0.0
    """Against the usable room: 1.0 is full."""
    components: tuple[Component, ...] = ()
    """Every share with its limits, where they changed or a session was opened again."""
    used: tuple[int, ...] = ()
    """The tokens of each share, in the order of the components that `limits` names."""
    limits: int | None = None
    """The plan whose components have the same limits as this one."""


class Growth(msgspec.Struct, frozen=True, array_like=True):
    """What one turn added to the window, in tokens."""

    turn: int
    messages: int = 0
    results: int = 0
    recalled: int = 0

    @property
    def tokens(self) -> int:
        """Growth that stays: what was recalled is gone with its turn."""
        return self.messages + self.results


class Anchor(Part):
    """The newest request whose size its provider reported: later sizes are measured from it."""

    plan: int
    at: int
    """The window change that request was folded from; another one since makes this stale."""
    raw: int
    """Our own count of it."""
    estimated: int
    reported: int
    model: str = ""
    cached: int | None = None


class Carried(Part):
    """What must outlive the window without anybody reading history for it."""

    zone: Zone = "green"
    growth: tuple[Growth, ...] = ()
    """The last turns, oldest first."""
    base: int | None = None
    """The plan whose growth this one continues: `growth` has the turns from its newest one on. It
    may continue another one itself."""
    spent: float = 0.0
    """Dollars so far, as far as known."""
    cost_unknown: bool = False
    """Some request had no price."""
    delegated: float = 0.0
    """The part of `spent` that sub-agents took."""
    spiked: int = 0
    """The last turn whose growth was announced as a spike."""
    anchor: Anchor | None = None
    windows: int = 1
    """Windows that the session had: the next begins whenever exchanges leave."""
    shares: dict[str, ShareLevel] = {}
    """Shares over a mark, as they were announced last."""
    same: bool = False
    """`cost_unknown`, `delegated`, `spiked`, `windows` and `shares` are those of plan `base`."""


class PromptPlanned(Entry):
    """A request as it will be sent: enough to rebuild it, byte for byte, and to prove it."""

    call: int
    """Which model call of its turn this is, from 1."""
    at: int
    """The window change it was folded from; -1 when the session never had one."""
    through: int
    """The last sequence number that belongs to the request."""
    spans: tuple[Span, ...]
    model: str = ""
    tail: tuple[int, ...] = ()
    """`recall_injected` entries that stand at the end of the prompt, for this turn only."""
    window: int = 0
    window_label: Label = "assumed"
    reserve: int = 0
    measure: Measure | None = None
    raw_tokens: int = 0
    """Our own count before any correction."""
    correction: float = 1.0
    """The learned factor that was applied: replay needs no learned state."""
    stable_prefix: int = 0
    """Tokens at the front that are the same as in the request before."""
    prompt_hash: str = ""
    max_tokens: int = 0
    purpose: str = ""
    """Empty for the conversation; `summary`, `judge` … for side calls."""
    images: bool = True
    """Pictures were sent; else each is only named."""
    sounds: bool = False
    """Sounds were sent; else each is only named."""
    sampling: Sampling | None = None
    """What the program that asked wanted of the answer; None when nothing."""
    carried: Carried | None = None
    like: int | None = None
    """An earlier plan with the same model, window, reserve, limits and kinds of attachments: a line
    leaves them to it. That one has them all itself."""

    @property
    def leans(self) -> bool:
        """Whether it still has to be completed from the plan that it is like."""
        return self.like is not None and not self.model

    def is_like(self, other: PromptPlanned) -> bool:
        """Whether everything that a line may leave to another plan is the same there."""
        return self.sampling is None and all(
            getattr(self, name) == getattr(other, name) for name in _OTHERS
        )

    def as_written(self) -> Any:
        """Without what the plan says that it is like, or what follows from the rest."""
        if self.like is None or self.leans:
            return self
        fields = msgspec.to_builtins(self)
        for name in _OTHERS:
            fields.pop(name, None)
        if self.measure is not None:
            fields["measure"].pop("limits", None)
            if self.measure.utilization == self._usual_utilization(self.measure):
                fields["measure"].pop("utilization", None)
        anchor = self.carried.anchor if self.carried is not None else None
        if anchor is not None and anchor.model == self.model:
            fields["carried"]["anchor"].pop("model", None)
        return fields

    def completed(self, other: PromptPlanned) -> PromptPlanned:
        """What a line has of it, with what the plan has that it is like."""
        replace = msgspec.structs.replace
        plan = replace(self, **{name: getattr(other, name) for name in _OTHERS})
        if (measure := plan.measure) is not None:
            share = measure.utilization or plan._usual_utilization(measure)
            plan = replace(plan, measure=replace(measure, limits=self.like, utilization=share))
        if (carried := plan.carried) is not None and carried.anchor and not carried.anchor.model:
            anchor = replace(carried.anchor, model=plan.model)
            plan = replace(plan, carried=replace(carried, anchor=anchor))
        return plan

    def _usual_utilization(self, measure: Measure) -> float:
        """How full a window is that nothing but the reserve makes smaller."""
        return round(measure.tokens / max(self.window - self.reserve, 1), 4)


_OTHERS: Final = ("model", "window", "window_label", "reserve", "max_tokens", "images", "sounds")


class Departure(Part, kw_only=True):
    """Which exchanges left the window, and why."""

    left: tuple[Left, ...]
    tokens_before: int
    tokens_after: int
    policy: str
    trigger: str
    """`ceiling`, `emergency`, `manual`, `spike`, `import` …"""


class ContextWindowPruned(Entry, Departure):
    """Whole exchanges left the window; each was read back from the index first."""

    state: WindowState
    marker: str = ""
    """The line that tells the model how much is out of its window and how to get it."""


class ContextPruneBlocked(Entry):
    """The window is over its mark and nothing, or not enough, may leave."""

    why: str
    """`protected`, `unindexed` or `index unavailable`."""
    turns: tuple[int, ...] = ()
    tokens: int = 0
    target: int = 0
    detail: str = ""


class Trimmed(Part):
    """One tool result that the prompt shows as a placeholder."""

    result: int
    """Sequence number of the `tool_returned` entry."""
    placeholder: str
    tokens_before: int
    tokens_after: int
    score: float = 0.0
    reason: str = ""


class ToolResultsTrimmed(TextEntry):
    """Older tool results became placeholders in the prompt; history keeps them whole."""

    results: tuple[Trimmed, ...]
    state: WindowState
    tokens_before: int
    tokens_after: int
    policy: str
    trigger: str = "trim"


class StepEffect(Part, kw_only=True):
    """What applying a step came to; `held` is false when it failed and changed nothing."""

    strategy: str = ""
    """How texts were shortened, or in which order exchanges left."""
    calls: int = 0
    """Requests to a model that it took."""
    fidelity: float | None = None
    """The share of names, rules and open items of the originals that stand in what replaces them;
    None when nothing does."""
    held: bool = True
    why: str = ""


class RoomStepTaken(Entry, StepEffect):
    """One step of a cascade or a compaction: what it did, what it cost, what it kept."""

    mode: str
    step: str
    """`tool_results`, `evict`, `progressive`, `compaction`, `delegate`, `checkpoint` …"""
    tokens_before: int
    tokens_after: int


class Pinned(Entry):
    """An exchange is kept in the window until it is unpinned."""

    pinned_turn: int
    state: WindowState
    tokens: int = 0
    why: str = ""


class Unpinned(Entry):
    """An exchange may leave again."""

    pinned_turn: int
    state: WindowState


class Restored(Entry):
    """Exchanges came back to their old place in the window."""

    turns: tuple[int, ...]
    state: WindowState
    tokens: int = 0
    marker: str = ""


class Rewound(Entry, ByHand, kw_only=True):
    """The conversation goes on from an earlier point; what came later stays in history."""

    to_turn: Place
    state: WindowState
    spans_left: tuple[Span, ...] = ()
    marker: str = ""
    """What the model is told from now on, where exchanges that had left were taken back."""
    returned: tuple[int, ...] = ()
    """Turns that are in the window again: the summary that stood for them was taken back."""


class Forked(Entry):
    """Another session was started from this point."""

    child: str
    at: int


class WindowRepaired(Entry):
    """The window held something that must not be sent; it was left out, history is untouched."""

    why: str
    seqs: tuple[int, ...]
    state: WindowState


class Section(Part):
    """One part of the system prompt."""

    name: str
    """`identity`, `rules`, `user`, `invariants`, `project`, `notes`, `handoff` …"""
    text: str
    source: str = ""
    raw_size: int = 0
    """Characters the source had before it was cut to its bound."""


class InstructionsChanged(TextEntry):
    """The standing part of the prompt, by content, so that replay needs no other file."""

    role: ClassVar[Role] = "system"

    sections: tuple[Section, ...]
    state: WindowState


class ToolsChanged(Entry):
    """The tool schemas that every request carries from here on."""

    tools: tuple[ToolSchema, ...]
    state: WindowState


BY_HAND: Final = "chosen by hand"
"""Why a model answers that somebody named, and not only because there is no other."""


class ModelChanged(Entry):
    """Another model answers from here on."""

    model: str
    state: WindowState
    window: int = 0
    window_label: Label = "assumed"
    why: str = ""
    marker: str = ""
    """In a fork, what the model is told of exchanges that stayed behind."""


class ModeChanged(Entry):
    """How room is made: `sliding_window`, `auto_compact` or `cascade`."""

    mode: str
    state: WindowState


class PolicyChanged(Entry):
    """In which order exchanges and tool results leave."""

    policy: str
    state: WindowState


class HeadShortened(Entry):
    """Derived texts left the head because nothing else could; what they stand for is in history."""

    state: WindowState
    summaries: tuple[int, ...] = ()
    handoff: int | None = None
    tokens_before: int = 0
    tokens_after: int = 0


class WindowCarried(Entry):
    """The state of the fold, written down again so that opening stays cheap; nothing changed."""

    state: WindowState


AlertLevel = Literal["info", "warning", "critical"]


class ZoneChanged(Entry):
    """The window crossed an edge between two zones."""

    before: Zone
    after: Zone
    utilization: float
    tokens: int
    usable: int


class VelocitySpiked(Entry):
    """The prompt grew far faster than it usually does; the next call is planned anew."""

    tokens: int
    baseline: float
    ratio: float


class ShareMove(Part, kw_only=True):
    """A share of the window that crossed its soft or its hard mark, upwards or back."""

    component: str
    before: ShareLevel
    after: ShareLevel
    tokens: int
    limit: int


class ShareCrossed(Entry, ShareMove):
    """A share of the window crossed its soft or its hard mark, upwards or back."""


class Alert(Part, kw_only=True):
    """What is wrong, how badly, and what helps."""

    level: AlertLevel
    metric: str
    message: str
    remedy: str = ""


class AlertRaised(Entry, Alert):
    """Something that planning could not solve by itself."""

    value: float | None = None


class HealthMeasured(Entry):
    """The six metrics after a turn; None where nothing could be measured."""

    utilization: float
    eviction_rate: float = 0.0
    compression_ratio: float | None = None
    burn_rate: float = 0.0
    fidelity: float | None = None
    tool_bloat: float = 0.0
    index_lag: int = 0
    protected: float = 0.0
    window: int = 0
    """Which window of the session this is; 0 where nobody counted."""
    growth: float | None = None
    """Tokens a turn, averaged as everywhere else."""
    wrong: tuple[str, ...] = ()
    """What was wrong that these figures do not tell, by the metric of its alert."""

    def as_written(self) -> Any:
        """Without zeros, which say as little as nothing does."""
        fields = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if value or name == "utilization"}
