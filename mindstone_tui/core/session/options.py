"""What a surface says when it opens a session, and who then decides whether a tool may run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from mindstone_tui.core import errors, paths, values
from mindstone_tui.core.agent.permissions import Permissions
from mindstone_tui.core.config import Loaded, edit, load
from mindstone_tui.core.config.load import store
from mindstone_tui.core.config.settings import ApprovalSettings, McpServerSettings
from mindstone_tui.core.context.plan import AS_ALWAYS
from mindstone_tui.core.disk import REAL, Disk
from mindstone_tui.core.entries import Entry, Sampling, ToolSchema, conversation, window
from mindstone_tui.core.recall.embedding import Embedder, open_embedder
from mindstone_tui.core.session.features import Feature
from mindstone_tui.core.text import one_line
from mindstone_tui.core.tools import sandbox, sandbox_probe
from mindstone_tui.core.tools.approvals import MODES, Mode
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult
from mindstone_tui.core.tools.shell_rules import Rule


class ForeignExchange(msgspec.Struct, frozen=True):
    """An exchange that took place elsewhere and that history does not have yet."""

    said: conversation.UserMessage
    answers: tuple[Entry, ...] = ()
    """What was said and done after it; every call has its result."""

    @property
    def entries(self) -> list[Entry]:
        """The exchange as a turn of its own."""
        return [
            conversation.TurnStarted(origin="adopted"),
            self.said,
            *self.answers,
            conversation.TurnEnded(ending="done", why="It took place elsewhere."),
        ]


class Guest:
    """What a program brings to its turns in a session."""

    def __init__(self, *, own_tools: bool = False, folder: Path | None = None) -> None:
        self.own_tools = own_tools
        """Whether the tools of this program are offered as well."""
        self.folder = folder
        """Where the program works, if it says so."""
        self.instructions = ""
        self.sampling = AS_ALWAYS
        """What it wants of the next answer."""
        self._schemas: tuple[ToolSchema, ...] = ()
        self._results: dict[str, asyncio.Future[ToolResult]] = {}

    def bring(
        self, instructions: str, tools: Sequence[ToolSchema], sampling: Sampling = AS_ALWAYS
    ) -> None:
        """Say what holds for the next turn."""
        self.instructions = instructions
        self.sampling = sampling
        self._schemas = tuple(tools)

    @property
    def names(self) -> frozenset[str]:
        """The tools that run at the client."""
        return frozenset(schema.name for schema in self._schemas)

    def hand_in(self, call: str, text: str, *, failed: bool = False) -> None:
        """Give a call its result; a second one comes to nothing."""
        waiting = self._place(call)
        if not waiting.done():
            result = ToolResult(
                text=text, status="error" if failed else "ok", finding=one_line(text, 160)
            )
            waiting.set_result(result)

    def forget(self) -> None:
        """Let go of results that nobody came for: the turn is over."""
        for waiting in self._results.values():
            waiting.cancel()
        self._results.clear()

    def section(self) -> window.Section | None:
        """The program's own instructions, for the head of the prompt."""
        return window.Section(name="client", text=self.instructions) if self.instructions else None

    def offer(self, into: dict[str, Tool], own: Mapping[str, Tool]) -> None:
        """Put on offer what holds for the next turn; a client's tool wins over one of ours."""
        into.clear()
        if self.own_tools:
            into.update(own)
        into.update({schema.name: self._tool(schema) for schema in self._schemas})

    def _tool(self, schema: ToolSchema) -> Tool:
        async def run(given: Mapping[str, object], context: ToolContext) -> ToolResult:
            # The client has what was given, word for word.
            try:
                return await self._place(context.call)
            finally:
                self._results.pop(context.call, None)

        def preview(given: Mapping[str, object], context: ToolContext) -> Preview:
            shown = one_line(msgspec.json.encode(given).decode(), 300)
            return Preview(title=f"{schema.name} {shown} at the client")

        return Tool(
            name=schema.name,
            description=schema.description,
            parameters=schema.parameters,
            risk="client",
            run=run,
            preview=preview,
            confined=False,
        )

    def _place(self, call: str) -> asyncio.Future[ToolResult]:
        found = self._results.get(call)
        if found is None:
            found = self._results[call] = asyncio.get_running_loop().create_future()
        return found


class Opening(msgspec.Struct, metaclass=values.Value, frozen=True, kw_only=True):
    """All that a surface says when it opens a session."""

    key: paths.SessionKey
    places: paths.Places
    environ: Mapping[str, str]
    cwd: Path
    channel: str
    model: str = ""
    """Answers while this surface is open; empty takes the session's own."""
    context_window: int = 0
    profile: str = ""
    approve: str = ""
    max_rounds: int = 0
    wait: bool = True
    """Wait for another surface's turn instead of refusing."""
    asks: bool = True
    """A person is there who can be asked."""
    follow: bool = True
    """Take in what other surfaces write while idle."""
    offered: tuple[str, ...] = ()
    """The only tools that are offered; empty for all."""
    servers: Mapping[str, McpServerSettings] = {}
    """Tool servers beside those of the settings, which win where a name is the same."""
    features: tuple[type[Feature], ...] = ()
    """What the session can do beside what is installed."""
    guest: Guest | None = None
    """A program that brings its own tools and instructions."""
    disk: Disk = REAL
    """How bytes of the transcript reach the disk."""
    embedder: Callable[[str], Embedder] = open_embedder
    """Who makes the vectors for recall, by the name in the settings."""
    apart: bool = False
    """Have them made in a process of its own: this one is open all day and stays small."""
    offline: bool = False
    """Files alone: the server that keeps this history is away."""

    def settings(self) -> Loaded:
        """The user's settings, with what this surface wants otherwise."""
        flags: dict[str, object] = {}
        if self.max_rounds:
            flags["tools.max_rounds"] = self.max_rounds
        if self.approve:
            flags["approvals.mode"] = self.approve
        return load(self.places, self.environ, profile=self.profile, flags=flags, project=self.cwd)

    def for_child(
        self, key: paths.SessionKey, *, model: str, offered: tuple[str, ...], calls: int
    ) -> Opening:
        """The same for a sub-agent: it looks with few tools and changes nothing."""
        return msgspec.structs.replace(
            self,
            key=key,
            channel="delegate",
            model=model,
            approve="read-only",
            max_rounds=calls,
            follow=False,
            offered=offered,
        )


def permissions_for(
    opening: Opening, approvals: ApprovalSettings, work: tuple[Path, ...]
) -> Permissions:
    """Who decides whether a tool may run."""

    async def find_sandbox() -> sandbox.Sandbox | None:
        found, _ = await sandbox_probe.find(opening.environ, opening.places.own, work)
        return found

    rules = (
        *(Rule.parse("refuse", text) for text in approvals.deny),
        *(Rule.parse("allow", text, network=approvals.network) for text in approvals.allow),
    )
    permissions = Permissions(
        _mode(approvals.mode),
        rules,
        find_sandbox,
        asks=opening.asks,
        keep=lambda rule: keep_rule(opening.places, rule),
    )
    permissions.hosts = approvals.fetch
    return permissions


def keep_rule(places: paths.Places, rule: str) -> None:
    """Add a rule to the user's own settings."""
    known = load(places, {}).settings.approvals.allow
    if rule not in known:
        store(places, "approvals.allow", edit.toml_value([*known, rule]))


def _mode(name: str) -> Mode:
    for mode in MODES:
        if mode == name:
            return mode
    raise errors.UsageError(f"There is no approval mode {name}.", f"Use {', '.join(MODES)}.")
