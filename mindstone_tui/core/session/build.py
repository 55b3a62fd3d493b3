"""Putting a session together: the one place where the rooms are introduced to each other."""

import asyncio
import contextlib
import time
from functools import cached_property, partial

import msgspec

from mindstone_tui.core import diagnostics, disk, errors, paths, redaction, signals
from mindstone_tui.core.agent import hooks, permissions, undo
from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.entries.window import PromptPlanned
from mindstone_tui.core.library import agent_files, open_questions
from mindstone_tui.core.library.lease import Lease, SharedLease
from mindstone_tui.core.providers.base import Window
from mindstone_tui.core.providers.key_store import written_keys
from mindstone_tui.core.providers.registry import session_model, warm_up
from mindstone_tui.core.recall.embed_apart import open_embedder_apart
from mindstone_tui.core.session import fork, recover
from mindstone_tui.core.session.models import Models, SessionModels
from mindstone_tui.core.session.options import Opening, permissions_for
from mindstone_tui.core.session.recall import SessionRecall
from mindstone_tui.core.session.services import SessionServices
from mindstone_tui.core.session.session import Session
from mindstone_tui.core.session.tools import Project, Servers, ToolRegistry, session_hooks
from mindstone_tui.core.text import plural
from mindstone_tui.core.tokens import Calibration
from mindstone_tui.core.tools.base import ToolContext, ToolLimits
from mindstone_tui.core.tools.trust import TrustFile
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.transcript import History, Transcript, history_store, rescue


async def open_session(opening: Opening) -> Session:
    """Open or create the session and begin to listen."""
    signals.return_freed_memory()
    try:
        services = await asyncio.to_thread(assemble_or_fork, opening)
    except errors.HistoryAway as error:
        own = opening.places.session(opening.key)
        waits = rescue.waiting(opening.places.rescued)[str(own.key)]
        told = f"{plural(waits, 'line')} from earlier will be written first. " if waits else ""
        raise errors.EntryNotSaved(
            f"NOT SAVED: {error.what}", fork.while_away(own, told)
        ) from error
    context = services.context
    try:
        await context.permissions.make_ready()
    except errors.MindstoneError:
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
        if here_alone and fork.is_offline_fork(own):
            fork.push_fork(own, opening.places, history)
        services = assemble(opening)
        fork.fetch_origin(services.history, opening.places, history)
        if forks := fork.push_forks(opening.places, history):
            services.greeting = f"What went on here meanwhile is on the server: {', '.join(forks)}."
        return services
    except errors.HistoryAway as error:
        if not fork.leaves_a_copy(own) or history.offline != "fork":
            raise
        alone = msgspec.structs.replace(opening, offline=True)
        if here_alone and fork.is_offline_fork(own):
            services = assemble(alone)
        else:
            services = assemble(msgspec.structs.replace(alone, key=_fork_here(alone, own)))
        services.greeting = (
            f"{error.what} Going on in a fork on this machine: {services.key}. It is put on the "
            "server by the first session that is opened once that answers."
        )
        return services


def _fork_here(opening: Opening, own: paths.SessionPlaces) -> paths.SessionKey:
    """The fork of a copy at its head, made unless there is one; nothing is written to the copy."""
    with History(own) as history:
        head = history.head
    key = paths.SessionKey.parse(fork.offline_name(str(own.key), head.hash))
    child = opening.places.session(key)
    if not child.transcript.exists():
        parent = assemble(opening)
        try:
            fork.fork_session(
                parent.context, parent.context.transcript.history(), child, None, noted=False
            )
        finally:
            asyncio.run(parent.close())  # this is no thread that has a loop
            parent.context.transcript.close()
    return key


class _Assembly:
    """The rooms of one session from the ground up; each is made once, from those above it here.

    Two things point the other way, because a turn meets what is built on its context: the session
    hands the context its services, and fills in the tools that it looks at.
    """

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        loaded = opening.settings()
        self.settings, self.unheeded = loaded.settings, loaded.unheeded
        self.home = opening.places
        self.places = opening.places.session(opening.key)

    # History, and what is made of it

    @cached_property
    def redactor(self) -> redaction.Redactor:
        known = dict(redaction.secrets_of(self.opening.environ))
        for url in (self.settings.history.url, *self.settings.history.sessions.values()):
            if password := redaction.password_in(url):
                known[f"history-password-{len(known)}"] = password
        for server, its in self.settings.tools.mcp.items():
            # Of `Bearer …`, what comes last is secret.
            heads = {
                key.replace("-", "_"): told.split(" ")[-1] for key, told in its.headers.items()
            }
            found = redaction.secrets_of({**its.env, **heads})
            known |= {f"{server}-{name}": value for name, value in found.items()}
        with contextlib.suppress(errors.MindstoneError):
            known |= written_keys(self.home.keys)
        with contextlib.suppress(OSError, ValueError):
            known["serve-token"] = self.home.serve_token.read_text().strip()
        return redaction.Redactor(known)

    @cached_property
    def _store(self) -> history_store.HistoryStore | None:
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
            disk.sweep(folder, time.time())
        return Transcript(
            self.places,
            disk=self.opening.disk,
            clean=lambda text: self.redactor.redact(text).text,
            channel=self.opening.channel,
            upstream=self._store,
            folder=self._begun_in,
        )

    @property
    def _begun_in(self) -> str:
        """The folder that a new session belongs to; a program's may belong to none."""
        guest = self.opening.guest
        folder = self.opening.cwd if guest is None else guest.folder
        return str(folder.resolve()) if folder is not None else ""

    @cached_property
    def history(self) -> History:
        return self.transcript.history()

    @cached_property
    def recall(self) -> SessionRecall:
        open_by_name = self.opening.embedder
        if self.opening.apart:
            open_by_name = open_embedder_apart
        embedder = open_by_name(self.settings.recall.embedder)
        return SessionRecall(
            self.home,
            self.places,
            self.settings.recall,
            embedder,
            agent_files.AgentFilesIndex(self.home.agent(self.opening.key.agent), embedder),
            dropped=recover.dropped_in(self.history),
            require_vectors=self.settings.context.vectorize_before_prune == "require",
        )

    @cached_property
    def window(self) -> LiveWindow:
        return LiveWindow(
            self.history,
            self.settings,
            transcript=self.transcript,
            indexer=self.recall,
            calibration=Calibration(self.home.state / "calibration.json"),
            by_words=lambda: self.recall.by_words,
        )

    # Who answers, and with which tools

    @cached_property
    def models(self) -> Models:
        return Models(self.settings, self.home, self.opening.environ)

    @cached_property
    def workspace(self) -> Workspace:
        roots = (paths.from_home(root) for root in self.settings.tools.roots)
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
    def files(self) -> undo.FileKeeper:
        return undo.FileKeeper(
            self.places,
            self.workspace,
            self.settings.undo,
            history=self.transcript.history,
            record=lambda entry: self.window.record(entry),
        )

    @cached_property
    def _permissions(self) -> permissions.Permissions:
        return permissions_for(self.opening, self.settings.approvals, self.workspace.roots)

    @cached_property
    def _hooks(self) -> hooks.Hooks:
        return hooks.Hooks(
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
        named = self.opening.model or self._model_of_left_turn()
        model = named or session_model(self.window.fold.model_changed, self.settings.models)
        return TurnContext(
            window=self.window,
            model=model,
            overridden=bool(named),
            provider=self.models.provider(model),
            named_window=self._named_window(),
            position=recover.position_in(self.history, model) if self.window.fold.plan else 0,
            tools=self.tools.offered,
            tool_context=self._tool_context,
            permissions=self._permissions,
            files=self.files,
            hooks=self._hooks,
            redactor=self.redactor,
            report_bug=partial(diagnostics.record, log=self.home.log, clean=self.transcript.clean),
            # A program looks at the numbers of its requests; nobody draws the window beside them.
            reports=self.opening.guest is None,
            leaves_failures=self.opening.guest is not None,
        )

    def _model_of_left_turn(self) -> str:
        """Who answers the turn that waits for an answer given here; empty where none does."""
        turn = self.history.turn(self.transcript.last_turn)
        asked = (line.entry for line in reversed(turn))
        own = (one.model for one in asked if isinstance(one, PromptPlanned) and not one.purpose)
        return next(own, "") if open_questions.left_waiting(turn) is not None else ""

    def _named_window(self) -> Window | None:
        tokens = self.opening.context_window or self.settings.context.window
        return Window(tokens=tokens, label="set") if tokens else None

    # What is built on the turn's context

    @cached_property
    def project(self) -> Project:
        return Project(self.workspace, TrustFile(self.home.trust))

    @cached_property
    def services(self) -> SessionServices:
        """The session as a whole."""
        return SessionServices(
            self.opening,
            self.context,
            history=self.history,
            recall=self.recall,
            models=SessionModels(self.models, self.context, self.history),
            tools=self.tools,
            project=self.project,
            store=self._store,
            unheeded=self.unheeded,
        )
