"""Putting a session together: the one place where the rooms are introduced to each other."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import msgspec

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.handoffs import Handoffs
from mindstone_tui.core.agent.health import Health
from mindstone_tui.core.agent.hooks import Hooks, announced_first
from mindstone_tui.core.agent.memories import Memories, RecentHistory
from mindstone_tui.core.agent.permissions import Permissions
from mindstone_tui.core.agent.plans import Plans
from mindstone_tui.core.agent.tasks import Tasks
from mindstone_tui.core.agent.undo import FileKeeper
from mindstone_tui.core.config import Loaded, load
from mindstone_tui.core.config.edit import toml_value
from mindstone_tui.core.config.load import store
from mindstone_tui.core.config.settings import ApprovalSettings, McpServerSettings
from mindstone_tui.core.context.modes import Means, Modes
from mindstone_tui.core.context.summaries import Summarizer
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.diagnostics import record
from mindstone_tui.core.disk import REAL, Disk, sweep
from mindstone_tui.core.entries.derived import JobEnded, JobStarted
from mindstone_tui.core.errors import EntryNotSaved, HistoryAway, MindstoneError, UsageError
from mindstone_tui.core.events.from_entry import job_ended
from mindstone_tui.core.handoff.delegation import DelegationLimits
from mindstone_tui.core.health.fidelity import ProbeResult
from mindstone_tui.core.heap import return_freed_memory
from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
from mindstone_tui.core.providers.base import Window
from mindstone_tui.core.providers.registry import session_model, warm_up
from mindstone_tui.core.recall.embedding import Embedder, open_embedder
from mindstone_tui.core.redaction import Redactor, password_in, secrets_of
from mindstone_tui.core.session.agent_files import AgentFilesIndex, Sources, resolve_reference
from mindstone_tui.core.session.delegate import Delegations
from mindstone_tui.core.session.fork import (
    fork_session,
    is_offline_fork,
    leaves_a_copy,
    offline_name,
    push_fork,
    while_away,
)
from mindstone_tui.core.session.guest import Guest
from mindstone_tui.core.session.history_tools import ToolsOfHistory, toolbox
from mindstone_tui.core.session.lease import Lease, SharedLease
from mindstone_tui.core.session.models import Models, SessionModels
from mindstone_tui.core.session.prompt_files import PromptFiles
from mindstone_tui.core.session.recall import SessionRecall
from mindstone_tui.core.session.recover import dropped_in, position_in
from mindstone_tui.core.session.services import SessionServices, turn_services
from mindstone_tui.core.session.session import Session
from mindstone_tui.core.session.tools import Project, Servers, ToolRegistry, session_hooks
from mindstone_tui.core.tokens import Calibration
from mindstone_tui.core.tools import sandbox_probe
from mindstone_tui.core.tools.approvals import MODES, Mode
from mindstone_tui.core.tools.base import ToolContext, ToolLimits
from mindstone_tui.core.tools.fetch import Fetcher
from mindstone_tui.core.tools.history import todo_tool
from mindstone_tui.core.tools.jobs import Job, Jobs
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.shell_rules import Rule
from mindstone_tui.core.tools.trust import TrustFile
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.transcript import History, Transcript
from mindstone_tui.core.transcript.history_store import HistoryStore
from mindstone_tui.core.values import Value


class Opening(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """All that a surface says when it opens a session."""

    key: SessionKey
    places: Places
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
        self, key: SessionKey, *, model: str, offered: tuple[str, ...], calls: int
    ) -> Opening:
        """The same for a sub-agent: it looks with few tools, changes nothing and asks nobody."""
        return msgspec.structs.replace(
            self,
            key=key,
            channel="delegate",
            model=model,
            approve="read-only",
            max_rounds=calls,
            asks=False,
            follow=False,
            offered=offered,
        )


def permissions_for(opening: Opening, approvals: ApprovalSettings) -> Permissions:
    """Who decides whether a tool may run."""

    async def find_sandbox() -> Sandbox | None:
        found, _ = await sandbox_probe.find(opening.environ, hidden=opening.places.own)
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


def keep_rule(places: Places, rule: str) -> None:
    """Add a rule to the user's own settings."""
    known = load(places, {}).settings.approvals.allow
    if rule not in known:
        store(places, "approvals.allow", toml_value([*known, rule]))


def _mode(name: str) -> Mode:
    for mode in MODES:
        if mode == name:
            return mode
    raise UsageError(f"There is no approval mode {name}.", f"Use {', '.join(MODES)}.")


async def open_session(opening: Opening) -> Session:
    """Open or create the session and begin to listen."""
    return_freed_memory()
    try:
        services = await asyncio.to_thread(assemble_or_fork, opening)
    except HistoryAway as error:
        raise EntryNotSaved(
            f"NOT SAVED: {error.what}", while_away(opening.places.session(opening.key))
        ) from error
    context = services.context
    try:
        await context.permissions.make_ready()
    except MindstoneError:
        await services.close()
        context.transcript.close()
        raise
    store, seconds = services.store, context.settings.history.lease
    lease = (
        SharedLease(services.places, context.transcript, store, seconds)
        if store is not None
        else Lease(services.places)
    )
    session = Session(services, lease, wait=opening.wait)
    session.start(follow=opening.follow)
    warm_up(context.provider)
    return session


def assemble(opening: Opening) -> SessionServices:
    """Make every room of a session; blocks on files, the index and the vocabulary."""
    return _Assembly(opening).services


def assemble_or_fork(opening: Opening) -> SessionServices:
    """The same; while the server is away, the fork on this machine, if the settings want one."""
    history = opening.settings().settings.history
    if not history.address_for(opening.key):
        return assemble(opening)
    own = opening.places.session(opening.key)
    here_alone = own.transcript.exists() and not own.server.exists()
    try:
        if here_alone and is_offline_fork(own):
            push_fork(own, opening.places, history)
        return assemble(opening)
    except HistoryAway as error:
        if not leaves_a_copy(own) or history.offline != "fork":
            raise
        alone = msgspec.structs.replace(opening, offline=True)
        if here_alone and is_offline_fork(own):
            services = assemble(alone)
        else:
            key = _fork_here(alone, own)
            services = assemble(msgspec.structs.replace(alone, key=key))
        services.greeting = (
            f"{error.what} Going on in a fork on this machine: {services.key}. Once the server "
            "answers, opening the fork puts it there, and so does `mindstone history push --all`."
        )
        return services


def _fork_here(opening: Opening, own: SessionPlaces) -> SessionKey:
    """The fork of a copy at its head, made unless there is one; nothing is written to the copy."""
    with History(own) as history:
        head = history.head
    key = SessionKey(own.key.agent, offline_name(own.key.main, head.hash))
    child = opening.places.session(key)
    if not child.transcript.exists():
        parent = assemble(opening)
        try:
            fork_session(
                parent.context, parent.context.transcript.history(), child, None, noted=False
            )
        finally:
            asyncio.run(parent.close())  # this is no thread that has a loop
            parent.context.transcript.close()
    return key


class _Assembly:
    """The rooms of one session from the ground up; each is made once, from those above it here.

    Two things point the other way, because a turn meets what is built on its context: the context
    is told its services, and the tools it looks at are filled in, when everything is there.
    """

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        loaded = opening.settings()
        self.settings, self.unheeded = loaded.settings, loaded.unheeded
        self.home = opening.places
        self.places = opening.places.session(opening.key)

    # History, and what is made of it

    @cached_property
    def redactor(self) -> Redactor:
        known = dict(secrets_of(self.opening.environ))
        for url in (self.settings.history.url, *self.settings.history.sessions.values()):
            if password := password_in(url):
                known[f"history-password-{len(known)}"] = password
        return Redactor(known)

    @cached_property
    def _store(self) -> HistoryStore | None:
        """The server that keeps this history; None where the files do."""
        if self.opening.offline or not self.settings.history.address_for(self.opening.key):
            return None
        # Deferred: nobody else needs what talks to a server.
        from mindstone_tui.core.shared.copies import open_store

        return open_store(self.settings.history, self.opening.key)

    @cached_property
    def transcript(self) -> Transcript:
        own = self.places
        for folder in (own.folder, own.blobs, own.files, own.handoffs, own.torn, self.home.state):
            sweep(folder, time.time())
        return Transcript(
            self.places,
            disk=self.opening.disk,
            clean=lambda text: self.redactor.redact(text).text,
            channel=self.opening.channel,
            upstream=self._store,
        )

    @cached_property
    def history(self) -> History:
        return self.transcript.history()

    @cached_property
    def recall(self) -> SessionRecall:
        open_by_name = self.opening.embedder
        if self.opening.apart:
            from mindstone_tui.core.recall.embed_apart import open_embedder_apart

            open_by_name = open_embedder_apart
        embedder = open_by_name(self.settings.recall.embedder)
        return SessionRecall(
            self.home,
            self.places,
            self.settings.recall,
            embedder,
            AgentFilesIndex(self.home.agent(self.opening.key.agent), embedder),
            dropped=dropped_in(self.history),
            require_vectors=self.settings.context.vectorize_before_prune == "require",
        )

    @cached_property
    def window(self) -> LiveWindow:
        window = LiveWindow(
            self.transcript,
            self.history,
            self.settings,
            indexer=self.recall,
            calibration=Calibration(self.home.state / "calibration.json"),
        )
        window.by_words = lambda: self.recall.by_words
        return window

    # Who answers, and with which tools

    @cached_property
    def models(self) -> Models:
        return Models(self.settings, self.home, self.opening.environ)

    @cached_property
    def workspace(self) -> Workspace:
        roots = (Path(root).expanduser() for root in self.settings.tools.roots)
        return Workspace(tuple(roots) or (self.opening.cwd,), protected=self.home.own)

    @cached_property
    def tools(self) -> ToolRegistry:
        settings, only = self.settings.tools, self.opening.offered
        guest = self.opening.guest
        # Whoever is offered named tools only, or none of ours, starts no servers for more.
        few = bool(only) or (guest is not None and not guest.own_tools)
        all_servers = {**self.opening.servers, **settings.mcp}
        served = msgspec.structs.replace(settings, mcp={} if few else all_servers)
        servers = Servers(
            served, self.home.tool_pins, environ=self.opening.environ, cwd=self.workspace.cwd
        )
        return ToolRegistry(servers, settings.disabled, only)

    def _tool_context(self, call: str) -> ToolContext:
        """What a tool may use when it runs."""
        tools = self.settings.tools
        return ToolContext(
            workspace=self.workspace,
            call=call,
            environ=self.opening.environ,
            limits=ToolLimits(shown=tools.output_chars, seconds=tools.shell_timeout),
        )

    @cached_property
    def files(self) -> FileKeeper:
        return FileKeeper(
            self.places,
            self.workspace,
            self.settings.undo,
            history=self.transcript.history,
            record=lambda entry: self.window.record(entry),
        )

    @cached_property
    def _permissions(self) -> Permissions:
        return permissions_for(self.opening, self.settings.approvals)

    @cached_property
    def _hooks(self) -> Hooks:
        return Hooks(
            load=lambda: session_hooks(self.home.hooks, self.project.instructions()),
            record=lambda entry, turn: self.window.record(entry, turn),
            places=self.places,
            permissions=self._permissions,
            tool_context=self._tool_context,
            redactor=self.redactor,
            seconds=self.settings.hooks.seconds,
            network=self.settings.approvals.network,
        )

    # The turn

    @cached_property
    def context(self) -> TurnContext:
        chosen = self.window.fold.model_changed
        model = self.opening.model or session_model(chosen, self.settings.models)
        context = TurnContext(
            window=self.window,
            model=model,
            overridden=bool(self.opening.model),
            provider=self.models.provider(model),
            named_window=self._named_window(),
            tools=self.tools.offered,
            tool_context=self._tool_context,
            permissions=self._permissions,
            files=self.files,
            hooks=self._hooks,
            redactor=self.redactor,
            report_bug=partial(record, log=self.home.log, clean=self.transcript.clean),
            position=position_in(self.history, model) if self.window.fold.plan else 0,
        )
        # A program looks at the numbers of its requests; nobody draws the window beside them.
        context.reports = self.opening.guest is None
        return context

    def _named_window(self) -> Window | None:
        tokens = self.opening.context_window or self.settings.context.window
        return Window(tokens=tokens, label="set") if tokens else None

    # What is built on the turn's context

    @cached_property
    def answering(self) -> SessionModels:
        return SessionModels(self.context, self.history, self.models)

    @cached_property
    def past(self) -> RecentHistory:
        return RecentHistory(self.transcript)

    @cached_property
    def memories(self) -> Memories:
        agent = self.home.agent(self.opening.key.agent)
        return Memories(self.context, agent, self.places, self.past)

    @cached_property
    def health(self) -> Health:
        return Health(self.context, self.places, self.past, self._probe)

    @cached_property
    def tasks(self) -> Tasks:
        return Tasks(
            self.context,
            self.memories,
            self.health,
            self.opening.cwd,
            trusted=lambda: self.project.instructions().state == "trusted",
            tools_known=lambda: self.tools.started,
        )

    @cached_property
    def handoffs(self) -> Handoffs:
        return Handoffs(self.context, self.tasks)

    @cached_property
    def modes(self) -> Modes:
        model = self.context.model
        summarizer = Summarizer(
            count=self.context.count,
            ask=self.answering.aside(model),
            model=model,
            timeout=self.settings.models.aside_timeout,
        )
        steps = self.handoffs.room_steps(self.recall.backfill)
        modes = Modes(Means(summarizer=summarizer, steps=steps))
        self.window.room_maker = announced_first(self._hooks, modes.make_room)
        return modes

    async def _probe(self, query: str, k: int) -> Sequence[ProbeResult]:
        found = await self.recall.search(query, k, "session", aside=True)
        return [ProbeResult(text=hit.text, seq=hit.passage.seq) for hit in found.hits]

    def _assemble_child(
        self, key: SessionKey, offered: tuple[str, ...], calls: int
    ) -> SessionServices:
        model = self.context.model
        return assemble(self.opening.for_child(key, model=model, offered=offered, calls=calls))

    @cached_property
    def project(self) -> Project:
        return Project(self.workspace, TrustFile(self.home.trust))

    @cached_property
    def _jobs(self) -> Jobs:
        settings = self.settings.jobs
        return Jobs(
            self.places.jobs,
            seconds=settings.seconds,
            output=settings.output_bytes,
            clean=self.transcript.clean,
            on_start=self._job_started,
            on_end=self._job_ended,
        )

    def _job_started(self, job: Job) -> None:
        self.window.record(
            JobStarted(job=job.number, command=job.command, log=str(job.log), stays=job.stays)
        )

    def _job_ended(self, job: Job) -> None:
        entry = JobEnded(
            job=job.number,
            command=job.command,
            ending=job.ending,
            code=job.code,
            elapsed=round(job.elapsed, 3),
        )
        with contextlib.suppress(MindstoneError):  # what cannot be saved is kept for later
            self.window.record(entry)
        self.context.tell(job_ended(entry))

    @cached_property
    def _plans(self) -> Plans:
        return Plans(self.context, self.past)

    @cached_property
    def _prompts(self) -> PromptFiles:
        return PromptFiles(self.home, self.project, self.context)

    @cached_property
    def tools_of_history(self) -> ToolsOfHistory:
        sources = Sources(
            self.home,
            self.opening.key,
            self.settings.recall,
            lambda pointer: resolve_reference(pointer, self.history, self.window.fold),
            self.transcript.history,
        )
        return ToolsOfHistory(
            self.context, self.recall, self.memories, sources, asks=self.opening.asks
        )

    # The session as a whole

    @cached_property
    def services(self) -> SessionServices:
        self.context.services = turn_services(
            self.context,
            self.memories,
            self.tasks,
            self.recall,
            project=self.project,
            prompts=self._prompts,
            plans=self._plans,
            tools=self.tools,
            cwd=self.opening.cwd,
            home=self.home,
            guest=self.opening.guest,
        )
        delegations = Delegations(
            self.context,
            self.opening.key,
            self._assemble_child,
            DelegationLimits(
                tokens=self.settings.tools.delegate_tokens,
                calls=self.settings.tools.delegate_calls,
                seconds=self.settings.tools.delegate_timeout,
            ),
        )
        more = (
            todo_tool(self._plans.write),
            *self._jobs.tools(),
            Fetcher(self.settings.fetch).tool(),
        )
        self.tools.add(toolbox(self.tools_of_history, delegations, *more))
        return SessionServices(
            context=self.context,
            home=self.home,
            places=self.places,
            cwd=self.opening.cwd,
            history=self.history,
            past=self.past,
            unheeded=self.unheeded,
            memories=self.memories,
            health=self.health,
            tasks=self.tasks,
            handoffs=self.handoffs,
            modes=self.modes,
            recall=self.recall,
            models=self.answering,
            tools=self.tools,
            project=self.project,
            prompts=self._prompts,
            plans=self._plans,
            jobs=self._jobs,
            store=self._store,
        )
