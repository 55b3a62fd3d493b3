"""Every setting, with its default and what it does.

A section of `config.toml` is a class, a key is a field, and the text below a field is what
`mindstone config explain` prints.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mindstone_tui.core.values import Value

Mode = Literal["sliding_window", "auto_compact", "cascade"]
Policy = Literal["fifo", "lru", "priority", "semantic_merge", "type_based", "hybrid"]
Effort = Literal["minimal", "low", "medium", "high"]
ApprovalMode = Literal["read-only", "ask", "auto-edit", "full-auto"]
Percent = Annotated[float, Meta(ge=0, le=100)]
Mark = Annotated[float, Meta(ge=1, le=100)]
"""A fullness at which something happens."""


class SettingsSection(
    msgspec.Struct, metaclass=Value, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A part of the settings."""


class ContextSettings(SettingsSection):
    """How the working set is kept. Marks are percentages of the usable room."""

    mode: Mode = "sliding_window"
    """How room is made: whole exchanges leave, a summary replaces them, or the full cascade."""
    ceiling: Mark = 92.0
    """Fullness at which exchanges leave."""
    floor: Mark = 70.0
    """Fullness down to which they leave, in one step; the gap keeps the prompt cache warm."""
    min_recent: Annotated[int, Meta(ge=0, le=10_000)] = 24
    """Recent messages that stay, rounded out to whole exchanges, unless that is impossible."""
    trim: Mark = 75.0
    """Fullness from which older tool results become placeholders, all in one step."""
    trim_step: Annotated[float, Meta(ge=0, le=100)] = 35.0
    """Share of the usable room that such a step must free, so that the next one is far away."""
    trim_to: Annotated[float, Meta(ge=0, le=100)] = 60.0
    """Fullness down to which tool results give way, and exchanges with them, at the ceiling."""
    checkpoint: Mark = 85.0
    """Fullness at which a checkpoint and a handoff draft are saved."""
    emergency: Mark = 95.0
    """Fullness after pruning at which even recent exchanges give way, one by one."""
    policy: Policy = "fifo"
    """In which order tool results and exchanges leave."""
    marker: bool = True
    """Tell the model, in one line, how much is out of its window and how to get it."""
    pin_budget: Percent = 10.0
    """Share of the usable room that pins may take before a warning."""
    window: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """Context window in tokens; 0 asks the provider and the registry."""
    keep_recent_tokens: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 20_000
    """What `auto_compact` keeps verbatim, at most 30 % of the usable room."""
    spike_step: Annotated[float, Meta(ge=0, le=100)] = 10.0
    """Share of the usable room that older tool results must free to give way to a fast turn."""
    max_tokens: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 400_000
    """The most that a prompt may have, whatever the window allows; 0 for no such limit."""
    vectorize_before_prune: Literal["wait", "require"] = "wait"
    """Wait a moment for the vectors of what leaves, or let nothing leave without them."""
    keep_trimmed: Annotated[int, Meta(ge=0, le=10_000)] = 4
    """Newest tool results that stay whole; over the hard mark of their share, only the last one."""
    placeholder_tokens: Annotated[int, Meta(ge=0, le=1_000)] = 150
    """The most that a placeholder takes; it says what the result found and how to get it back. In a
    small window that is half a percent of the room, but not less than three fifths of this."""


class EvictionSettings(SettingsSection):
    """How the policies weigh what may leave: a score of 1 keeps, 0 leaves first."""

    fifo_half_life: Annotated[float, Meta(ge=0.1, le=1e6)] = 10.0
    """Turns after which age alone is worth half; `hybrid` and `semantic_merge` use it, too."""
    lru_half_life: Annotated[float, Meta(ge=0.1, le=1e6)] = 5.0
    """Turns without a reference after which `lru` halves the score."""
    priority_half_life: Annotated[float, Meta(ge=0.1, le=1e6)] = 15.0
    """Turns after which `priority` halves what being recent is worth."""
    references: Annotated[int, Meta(ge=1, le=1_000_000)] = 5
    """References after which being referred to counts in full."""
    duplicate: Annotated[float, Meta(ge=0, le=1)] = 0.85
    """Likeness (cosine) above which a newer exchange repeats an older one."""
    priority: dict[str, float] = msgspec.field(
        default_factory=lambda: {
            "recency": 0.30,
            "semantic": 0.25,
            "source": 0.20,
            "reuse": 0.15,
            "explicit": 0.10,
        }
    )
    """Weights of `priority`, together 1; what is not named keeps its default."""
    hybrid: dict[str, float] = msgspec.field(
        default_factory=lambda: {
            "recency": 0.30,
            "priority": 0.25,
            "time_to_live": 0.20,
            "references": 0.15,
            "unique": 0.10,
        }
    )
    """Weights of `hybrid`, together 1; what is not named keeps its default."""
    worth: dict[str, float] = msgspec.field(
        default_factory=lambda: {"user": 1.0, "assistant": 0.5, "tool_result": 0.3}
    )
    """What each source is worth to `priority`."""
    turns_to_live: dict[str, float] = msgspec.field(
        default_factory=lambda: {"user": 50.0, "assistant": 30.0, "tool_result": 8.0}
    )
    """Turns after which `type_based` counts a source as outlived."""


class CascadeSettings(SettingsSection):
    """The mode `cascade`: from which fullness each step may be tried, cheapest first.

    The first two cost nothing: once begun, they go on down to the target before a model is asked.
    """

    tool_results: Percent = 75.0
    """Older tool results are shortened."""
    evict: Percent = 75.0
    """Whole exchanges leave by policy."""
    progressive: Percent = 85.0
    """Older exchanges are condensed by their age."""
    compaction: Percent = 92.0
    """A summary stands for what leaves."""
    delegate: Percent = 95.0
    """The rest goes to a reader with a clean window of its own."""
    target: Percent = 60.0
    """Fullness at which the cascade stops."""
    overflow: Mark = 93.0
    """Fullness after an emergency from which the work goes on in a new window, by a handoff."""
    result_tokens: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 500
    """Tool results up to this size stay as they are; larger ones give way to their finding."""
    ages: tuple[int, int] = (5, 20)
    """Turns up to which `progressive` leaves about 30 %, then 5 %; older ones become a title."""


class ZoneSettings(SettingsSection):
    """Where the zones begin, in percent of the usable room; shown and announced, nothing more."""

    yellow: Percent = 50.0
    """Begin of the yellow zone."""
    orange: Percent = 75.0
    """Begin of the orange zone."""
    red: Percent = 90.0
    """Begin of the red zone."""
    hysteresis: Annotated[float, Meta(ge=0, le=20)] = 3.0
    """Points the window must fall below an edge before the zone changes back."""
    scale: bool = True
    """Earlier edges for windows under 32K, later ones from 200K on."""
    velocity_turns: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """Turns over which growth is averaged."""
    spike: Annotated[float, Meta(ge=1, le=1_000)] = 3.0
    """Growth beyond this multiple of the usual one is a spike."""


class BudgetSettings(SettingsSection):
    """Shares of the window, in percent; together 100."""

    profile: str = "default"
    """Shares to start from: default, code-review, research, support, or a profile of your own."""
    system_prompt: Percent = 6.0
    """Identity, rules, user and project instructions."""
    tool_definitions: Percent = 4.0
    """Tool schemas."""
    message_history: Percent = 65.0
    """Messages, pins and the current exchange."""
    tool_results: Percent = 12.0
    """Results of tools."""
    memory_injection: Percent = 8.0
    """Recall and the memory digest."""
    output_reserve: Percent = 5.0
    """Room for the answer; at least 4,096 tokens, at most a quarter of the window."""
    soft: Mark = 80.0
    """Percentage of its hard mark at which a share is shown as nearly full."""
    results_hard: Annotated[float, Meta(ge=100, le=10_000)] = 400.0
    """Percentage of the results' share at which the oldest become placeholders at once, until the
    results are within their share again; the other shares act at 100."""


class RecallSettings(SettingsSection):
    """What comes back from history."""

    auto: bool = True
    """Look for relevant passages before each turn."""
    at_action: bool = True
    """Say at an edit, a command or its failure what other sessions of the project know of it."""
    max_passages: Annotated[int, Meta(ge=0, le=1_000)] = 12
    """At most this many passages in a prompt."""
    scope: Literal["session", "agent", "all"] = "session"
    """Which sessions automatic recall looks at: this one, all of this agent's, or everything. The
    agent's memories, log and journals are looked at in every turn."""
    embedder: str = "minilm"
    """`minilm` ships with the program; any other name is a litellm embedding model."""
    exclude: tuple[str, ...] = ()
    """Sessions that are never recalled from elsewhere."""
    vector_wait: Annotated[float, Meta(ge=0, le=3_600)] = 30.0
    """Seconds that a prune waits at most for the vectors of what leaves."""
    background: bool = True
    """Make missing vectors in a process of their own after a session is closed or imported."""


class MemorySettings(SettingsSection):
    """Durable memory; nothing is stored without consent."""

    digest_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 600
    """Room for the memory digest in each turn."""
    invariant_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    """Room for invariants, which are always in force."""
    propose: bool = True
    """Let the model propose memories."""
    notes_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 2_000
    """Room for notes in the head of the prompt."""
    standing_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 2_000
    """IDENTITY.md and USER.md together; more is cut, with a warning."""


class HealthSettings(SettingsSection):
    """When to raise an alert."""

    sustained_turns: Annotated[int, Meta(ge=1, le=1_000)] = 3
    """Turns a value must be out of range before an alert."""
    utilization: Percent = 90.0
    """Alert above this fullness, in percent."""
    eviction_rate: Annotated[float, Meta(ge=0, le=1e6)] = 5.0
    """Alert above this many exchanges leaving per turn."""
    compression_ratio: Annotated[float, Meta(ge=0, le=1e6)] = 2.0
    """Alert below this ratio."""
    burn_spike: Annotated[float, Meta(ge=1, le=1e6)] = 3.0
    """Alert above this multiple of the usual growth."""
    fidelity: Annotated[float, Meta(ge=0, le=1)] = 0.75
    """Alert below this share of probes that recall brings back."""
    tool_bloat: Percent = 30.0
    """Alert above this share of tool results, in percent."""


class ToolSettings(SettingsSection):
    """What tools may do and how much they may say."""

    disabled: tuple[str, ...] = ()
    """Tools the model is not offered."""
    max_rounds: Annotated[int, Meta(ge=1, le=1_000)] = 20
    """Model calls in one turn."""
    output_chars: Annotated[int, Meta(ge=1_000, le=10_000_000)] = 32_768
    """Longer results go to a blob, with head, tail and a way to read more."""
    shell_timeout: Annotated[float, Meta(ge=0.1, le=86_400)] = 120.0
    """Seconds a shell command may take."""
    delegate_tokens: int = 60_000
    """Tokens that one sub-agent may use."""
    delegate_calls: int = 12
    """Model calls that one sub-agent may make."""
    delegate_timeout: float = 600.0
    """Seconds that one sub-agent may take."""
    roots: tuple[str, ...] = ()
    """Folders that tools may touch; none means the working folder."""
    mcp: dict[str, McpServerSettings] = {}
    """Tool servers, by name."""


class HookSettings(SettingsSection):
    """Programs that run at certain moments: `hooks.json` beside this file says which."""

    seconds: float = 60.0
    """Time that one run may take, unless it names its own."""
    end_seconds: float = 5.0
    """The same at the end of a session, which nobody wants to wait for."""


class SkillSettings(SettingsSection):
    """Skills: folders with a SKILL.md, yours and those of trusted projects."""

    head_chars: int = 3_000
    """Room for their names and descriptions in the head of the prompt."""


class JobSettings(SettingsSection):
    """Commands in the background."""

    seconds: float = 86_400.0
    """Time after which one is ended."""
    output_bytes: int = 268_435_456
    """Output after which one is ended."""


class FetchSettings(SettingsSection):
    """The tool `fetch`: web pages and text files. `approvals.fetch` says which hosts never ask."""

    bytes: int = 4_194_304
    """Most that is read of one page."""
    seconds: float = 30.0
    """Patience with a server."""
    robots: bool = True
    """Leave alone what a site's robots.txt names."""
    private: bool = False
    """Allow addresses that are not of the public internet, such as this machine's own."""


class UndoSettings(SettingsSection):
    """What is kept of files before tools change them."""

    on: bool = True
    """Keep it, so that `/undo` can put it back."""
    files: int = 50_000
    """Files of a workspace that are looked at around a shell command; in a larger one, what shell
    commands change cannot be undone."""
    file_bytes: int = 16_777_216
    """Larger files are not kept."""
    store_bytes: int = 1_073_741_824
    """Most that one session keeps; then the states of its oldest turns are let go."""


class McpServerSettings(SettingsSection):
    """A tool server: a command to start, or an address to reach."""

    command: tuple[str, ...] = ()
    """Program and arguments, for stdio; or the program alone, with `args` beside it."""
    url: str = ""
    """Address, for HTTP."""
    env: dict[str, str] = {}
    """Environment for the command; nothing else is passed on."""
    headers: dict[str, str] = {}
    """Headers for the address: a key, for example."""
    timeout: float = 60.0
    """Seconds that one of its answers may take."""
    enabled: bool = True
    """Offer its tools."""


class ApprovalSettings(SettingsSection):
    """What runs without asking."""

    mode: ApprovalMode = "ask"
    """read-only, ask, auto-edit, or full-auto (only inside a sandbox)."""
    allow: tuple[str, ...] = ()
    """Tools, or commands as `shell git status *`, that never ask."""
    deny: tuple[str, ...] = ()
    """The same, never allowed; of a command whatever follows, in `background` as well."""
    fetch: tuple[str, ...] = ()
    """Hosts, such as `docs.python.org` or `*.python.org`, that `fetch` may read from unasked."""
    network: bool = False
    """Give automatically approved commands the network."""
    patience: Annotated[float, Meta(ge=0, le=31_536_000)] = 43_200.0
    """Seconds after which a question that nobody answered is declined; 0 waits for ever."""


class ModelSettings(SettingsSection):
    """Which model answers, and how it is reached."""

    default: str = ""
    """A litellm name, `local/…` or `scripted/FILE`; empty is the built-in guide."""
    summary: str = ""
    """Model for summaries and judging; empty uses the session's own."""
    base_url: str = ""
    """Address of an OpenAI-compatible server."""
    api_key_env: str = ""
    """Environment variable that holds the key for it."""
    transport: Literal["auto", "direct", "litellm"] = "auto"
    """Ask directly where the wire format is known; `litellm` asks everyone through litellm."""
    timeout: Annotated[float, Meta(ge=0.1, le=86_400)] = 120.0
    """Seconds without a word before a request counts as lost."""
    connect_timeout: Annotated[float, Meta(ge=0.1, le=86_400)] = 15.0
    """Seconds for reaching a server."""
    answer_timeout: Annotated[float, Meta(ge=1, le=86_400)] = 3600.0
    """Seconds that a whole answer may take."""
    aside_timeout: float = 60.0
    """Seconds for a request MindStone makes for itself: a summary, a handoff, a review."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 3
    """How often a request is tried again."""
    max_output: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """Longest answer in tokens; 0 uses the whole output reserve."""
    temperature: float | None = None
    """Left to the provider when unset."""
    turn_cost: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Dollars a turn may cost before it stops; 0 for no limit."""
    turn_tokens: Annotated[int, Meta(ge=0, le=1_000_000_000_000)] = 0
    """Tokens a turn may use before it stops; 0 for no limit."""
    windows: dict[str, int] = {}
    """Context windows by model, where the registry is wrong."""
    prices: dict[str, tuple[float, float]] = {}
    """Dollars per million prompt and completion tokens, by model."""
    effort: dict[str, Effort] = {}
    """How hard a model thinks before it answers, by model: minimal, low, medium or high. Unset, it
    is left to the provider."""
    local_threads: Annotated[int, Meta(ge=0, le=1_024)] = 0
    """Processor threads for a model on this machine; 0 takes all cores but one, at least one."""
    local_window: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """Its largest context window in tokens; 0 takes what free memory and the model allow."""
    local_memory_left: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 1_500
    """Megabytes of free memory that it and its window leave for everything else."""


class TuiSettings(SettingsSection):
    """How the terminal app looks and behaves."""

    theme: str = "basalt"
    """A file of `themes/`, without its ending."""
    panel: bool = True
    """Show the context panel where there is room."""
    cache_warning: bool = False
    """Say in the panel when the provider's cache of the prompt is about to expire, and about what
    that would cost."""
    vim: bool = False
    """Vim keys in the prompt."""
    mouse: bool = True
    """Let the app have the mouse."""
    notify: Literal["off", "bell", "osc9"] = "bell"
    """How a long turn says that it is done, or that it waits for approval, while you look
    elsewhere."""
    notify_after: Annotated[float, Meta(ge=0, le=86_400)] = 20.0
    """Seconds a turn must take for that."""
    editor: str = ""
    """External editor; empty uses $VISUAL or $EDITOR."""
    keys: dict[str, str] = {}
    """Key bindings by action id."""


class SessionSettings(SettingsSection):
    """Which session and agent."""

    default: str = ""
    """The session that is meant when none is named; empty for the last one of the project."""


class HistorySettings(SettingsSection):
    """Where histories are kept: in files, or on a PostgreSQL server for more than one machine."""

    url: str = ""
    """Server that keeps histories, as postgresql://user@host/database; empty for files alone."""
    sessions: dict[str, str] = {}
    """Other servers for some sessions, by key; an empty address keeps a session in files."""
    team: str = ""
    """A role on the server whose sessions are used instead of your own."""
    offline: Literal["refuse", "fork"] = "refuse"
    """While the server is away: take no turn, or go on in a fork on this machine."""
    search: Literal["fetch", "server"] = "fetch"
    """How sessions that are only on the server are searched: by fetching them, or in the database,
    which this machine then keeps up to date with what it writes."""
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    """Seconds after which another machine may go on for one that no longer answers."""
    timeout: Annotated[float, Meta(ge=0.5, le=600)] = 5.0
    """Seconds to wait for the server."""

    def address_for(self, key: object) -> str:
        """The server that keeps a session; empty for files."""
        return self.sessions.get(str(key), self.url)


class McpSettings(SettingsSection):
    """What `mindstone mcp` hands out to other agents."""

    propose: bool = False
    """Let other agents propose memories; a person still decides about each."""
    max_chars: int = 16_000
    """Longest text in one answer; the rest is read with an offset."""
    max_results: int = 20
    """Most hits, lines or sessions in one answer."""


class AcpSettings(SettingsSection):
    """What `mindstone acp` does for editors."""

    session: str = ""
    """The session that an editor's new conversation goes on with; empty begins a new one."""
    page: int = 50
    """Sessions in one answer to the editor's question for all of them."""


class ServeSettings(SettingsSection):
    """What `mindstone serve` does for programs and browsers."""

    port: int = 7433
    """On this machine alone; 0 takes any that is free."""
    body_bytes: int = 32 << 20
    """Longest request."""
    body_seconds: float = 30.0
    """Longest time that a request may take to arrive."""
    tool_wait: float = 600.0
    """Seconds that a turn waits for the results of a client's own tools."""
    idle: float = 900.0
    """Seconds after which a session that no client uses is closed."""
    clients: int = 64
    """Most connections at a time."""


class AttachSettings(SettingsSection):
    """What is done for the programs that `mindstone attach` was called for."""

    recall: bool = True
    """Give a prompt what earlier sessions of its project say about it."""
    recall_tokens: int = 1_500
    """Most that one prompt is given."""
    handoff: bool = True
    """Offer a new session the handoff of the one before it; give back what a compaction lost."""
    handoff_tokens: int = 1_200
    """Most of a handoff, or of what was lost, that is put before it; the rest is pointed to."""
    at_action: bool = True
    """Say before an edit or a command, and after a failure, what earlier sessions know of it."""
    watch: bool = True
    """Let the resident follow the session folders of other programs."""
    settle: float = 0.4
    """Seconds without a change after which an answer is believed to be whole."""
    idle: float = 600.0
    """Seconds after which a file that nobody writes to is closed."""
    keep_raw: bool = False
    """Keep the files of other programs as they are, too, secrets included, to give them back."""
    raw_bytes: int = 200_000_000
    """Most that the raw copy of one session takes on disk; then it stops."""
    linger: float = 7_200.0
    """Seconds without a hook after which a resident that a hook started ends itself."""


class Settings(SettingsSection):
    """All settings."""

    session: SessionSettings = SessionSettings()
    history: HistorySettings = HistorySettings()
    context: ContextSettings = ContextSettings()
    eviction: EvictionSettings = EvictionSettings()
    cascade: CascadeSettings = CascadeSettings()
    zones: ZoneSettings = ZoneSettings()
    budget: BudgetSettings = BudgetSettings()
    recall: RecallSettings = RecallSettings()
    memory: MemorySettings = MemorySettings()
    health: HealthSettings = HealthSettings()
    tools: ToolSettings = ToolSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    undo: UndoSettings = UndoSettings()
    hooks: HookSettings = HookSettings()
    skills: SkillSettings = SkillSettings()
    jobs: JobSettings = JobSettings()
    fetch: FetchSettings = FetchSettings()
    models: ModelSettings = ModelSettings()
    tui: TuiSettings = TuiSettings()
    mcp: McpSettings = McpSettings()
    acp: AcpSettings = AcpSettings()
    serve: ServeSettings = ServeSettings()
    attach: AttachSettings = AttachSettings()
