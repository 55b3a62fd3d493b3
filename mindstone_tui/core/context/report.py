"""The window in numbers and names: the only thing that panel, footer, commands and logs show.

Field names are part of what programs may rely on (`mindstone context --json`).
"""

from mindstone_tui.core.entries.base import Label, Part, Zone
from mindstone_tui.core.entries.window import Alert, Component, Left
from mindstone_tui.core.text import plural


class Tokens(Part):
    """A number of tokens, and how far to trust it."""

    tokens: int
    label: Label


class PromptNumbers(Part, omit_defaults=False):
    """The next prompt's size."""

    tokens: int
    label: Label
    error_percent: float | None = None
    """How far the last estimate was from what the provider then reported."""


class Marks(Part, omit_defaults=False):
    """Where things happen, in tokens of the usable room."""

    trim: int
    trim_to: int
    checkpoint: int
    ceiling: int
    floor: int
    emergency: int
    yellow: int
    orange: int
    red: int


class EntryStanding(Part, omit_defaults=False):
    """How an entry stands to the window."""

    entry: str
    seq: int
    kind: str
    turn: int
    why: str
    """Why it is protected, under which policy it may leave, or why it is not in the window."""
    protected: bool = False
    score: float | None = None
    parts: dict[str, float] = {}


class Block(EntryStanding, kw_only=True):
    """One entry in the next prompt."""

    tokens: int
    role: str = ""
    preview: str = ""
    trimmed: bool = False
    pinned: bool = False
    age: int = 0


class OutsideWindow(Part, omit_defaults=False):
    """What left the window."""

    exchanges: int
    tokens: int
    indexed: bool
    """All of it can be found again, by words and by meaning."""
    unindexed: int = 0
    by_words: int = 0
    """Passages of the session that are found by words only so far: their vectors follow."""
    rewound: int = 0
    """Turns that were taken back; none of them is counted above."""
    in_part: int = 0
    """Of the exchanges, those of which a message is still shown."""

    @property
    def count(self) -> str:
        """How many left, in words."""
        told = plural(self.exchanges - self.in_part, "exchange")
        return f"{told}, and {self.in_part:,} in part" if self.in_part else told

    @property
    def state(self) -> str:
        """How well what left can be found, in a few words."""
        if self.unindexed:
            return f"{self.unindexed:,} not indexed"
        return f"by words only so far: {self.by_words:,}" if self.by_words else "all indexed"


class GoneExchange(Part, omit_defaults=False):
    """An exchange outside the window, as a person would ask for it back."""

    turn: int
    tokens: int
    """What restoring it would add to the prompt: its full text, nothing trimmed."""
    words: str = ""
    """How its request begins."""


class SectionSize(Part, omit_defaults=False):
    """A part of the system prompt, or a tool schema."""

    name: str
    tokens: int
    source: str = ""
    raw_size: int = 0
    injected_size: int = 0


class Burn(Part, omit_defaults=False):
    """How fast one component fills."""

    component: str
    per_turn: float
    turns_left: float | None
    """Turns until its hard mark."""
    level: str
    """`normal`, `warning` (under 10 turns) or `critical` (under 3)."""


class PruneCost(Part, omit_defaults=False):
    """What the next prune would cost once, and what it would save per turn, in dollars."""

    once: float | None = None
    saves_per_turn: float | None = None


class CachePause(Part, omit_defaults=False):
    """When the provider forgets the prompt, and what more the next request costs then."""

    ends: float
    """Seconds since 1970."""
    cost: float


class ContextReport(Part, omit_defaults=False):
    """Everything there is to know about the next prompt."""

    session: str
    model: str
    window: Tokens
    reserve: int
    usable: int
    prompt: PromptNumbers
    utilization: float
    """Prompt against usable room; 1.0 is full."""
    raw_utilization: float
    """Prompt against the whole window."""
    zone: Zone
    velocity: float
    """Tokens per turn, averaged."""
    velocity_class: str
    turns_until_red: float | None
    marks: Marks
    components: tuple[Component, ...]
    blocks: tuple[Block, ...]
    outside: OutsideWindow
    prompt_hash: str
    stable_prefix_tokens: int
    mode: str = "sliding_window"
    policy: str = "fifo"
    turn: int = 0
    call: int = 0
    sections: tuple[SectionSize, ...] = ()
    todo: tuple[str, ...] = ()
    """What is to be done, a line each, as the head of the prompt says it."""
    beside: tuple[str, ...] = ()
    """What features of the session want shown beside the window, a line each."""
    tools: tuple[SectionSize, ...] = ()
    burn: tuple[Burn, ...] = ()
    pins: tuple[int, ...] = ()
    pin_tokens: int = 0
    pin_budget: int = 0
    protected_tokens: int = 0
    protected_by: str = ""
    """What most of that is, and what a person can do about it."""
    recall_tokens: int = 0
    recalled: int = 0
    cached_tokens: int | None = None
    """What the provider read from its cache for the last request."""
    cost: float | None = None
    """Dollars spent in this session and by its sub-agents, as far as known."""
    cost_unknown: bool = False
    cost_delegated: float = 0.0
    """The part of `cost` that sub-agents took."""
    prune: PruneCost = PruneCost()
    pause: CachePause | None = None
    """Where the model's cache and its prices are known, and it has something to lose."""
    warnings: tuple[str, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """What health found wrong and still holds, whoever was told when."""
    left: tuple[Left, ...] = ()
    """What left with the newest prune, newest turn first."""
    gone: tuple[GoneExchange, ...] = ()
    """The newest exchanges outside the window, newest first; `outside` counts all of them."""
    scaled: str = ""
    """Why zones or marks differ from the settings in this window; empty where they do not."""
    acting: tuple[str, ...] = ()
    """What the shares that are full do about it, a few words each."""
    velocities: tuple[int, ...] = ()
    """Growth per turn, oldest first, for a sparkline."""
    windows: int = 1
    """Windows that the session had so far, this one included."""
