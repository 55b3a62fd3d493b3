"""Putting a session together: the one place where the rooms are introduced to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mindstone_tui.core.agent.announce import announced
from mindstone_tui.core.agent.continuity import Continuity
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.agent.gate import Gate
from mindstone_tui.core.agent.memories import Memories
from mindstone_tui.core.agent.side_calls import SideCalls
from mindstone_tui.core.agent.standing import Standing, standing_context
from mindstone_tui.core.config import Settings, load
from mindstone_tui.core.config.editing import toml_value
from mindstone_tui.core.config.loading import store
from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.context.asking import Ask
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.diagnostics import record
from mindstone_tui.core.disk import REAL, Disk
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.health.fidelity import Found as FidelityFound
from mindstone_tui.core.places import Places, SessionKey
from mindstone_tui.core.providers.guide import GUIDE
from mindstone_tui.core.providers.protocol import Provider, Window
from mindstone_tui.core.providers.registry import default_model, embedded_models, resolve, warm_up
from mindstone_tui.core.recall.embedding import open_embedder
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.recall.standing import recognise_standing_instruction
from mindstone_tui.core.redaction import Redactor, secrets_of
from mindstone_tui.core.session.bench import SessionBench
from mindstone_tui.core.session.delegating import Delegations
from mindstone_tui.core.session.lease import Lease
from mindstone_tui.core.session.remembering import Remembering, in_view, recent_texts
from mindstone_tui.core.session.resuming import dropped_in, position_in, positions_in
from mindstone_tui.core.session.servers import Servers
from mindstone_tui.core.session.session import Session
from mindstone_tui.core.session.shelves import Shelves
from mindstone_tui.core.session.sources import Sources
from mindstone_tui.core.session.toolbox import toolbox
from mindstone_tui.core.tokens import Calibration
from mindstone_tui.core.tools import probe
from mindstone_tui.core.tools.approvals import MODES, Mode
from mindstone_tui.core.tools.rules import Rule
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.tool import Limits, Tool, ToolContext
from mindstone_tui.core.tools.trust import ProjectInstructions, TrustFile, project_instructions
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.transcript import History, Transcript
from mindstone_tui.core.values import Value


class Opening(msgspec.Struct, metaclass=Value, frozen=True, kw_only=True):
    """Which session, for whom, and how it may act."""

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
    disk: Disk = REAL
    """How bytes of the transcript reach the disk."""


async def open_session(opening: Opening) -> Session:
    """Open or create the session and begin to listen."""
    desk, bench = await asyncio.to_thread(_assemble, opening)
    try:
        await desk.gate.make_ready()
    except MindstoneError:
        await bench.close()
        desk.transcript.close()
        raise
    session = Session(desk, bench, Lease(bench.places), wait=opening.wait)
    session.start(follow=opening.follow)
    warm_up(desk.model)
    return session


def _assemble(opening: Opening) -> tuple[Desk, SessionBench]:
    """Everything that blocks: files, the index, the vocabulary."""
    settings = _settings(opening)
    home = opening.places
    places = home.session(opening.key)
    redactor = Redactor(secrets_of(opening.environ))
    transcript = Transcript(
        places,
        disk=opening.disk,
        clean=lambda text: redactor.redact(text).text,
        channel=opening.channel,
    )
    history = transcript.history()
    remembering = Remembering(
        home,
        places,
        settings.recall,
        open_embedder(settings.recall.embedder),
        count=lambda text: desk.count(text),
        window=lambda: in_view(working_set.fold, continuity.memories.notes),
        recent=lambda: recent_texts(working_set.fold),
        share=lambda: desk.recall_room,
        dropped=dropped_in(history),
    )
    shelves = Shelves(home.agent(opening.key.agent), remembering.embedder)
    remembering.shelves = shelves
    working_set = WorkingSet.open(
        transcript,
        history,
        settings,
        indexer=remembering,
        calibration=Calibration(home.state / "calibration.json"),
    )
    model = opening.model or working_set.model or default_model(settings.models, home)

    def provider_of(name: str) -> Provider:
        return resolve(name, settings.models, home, opening.environ)

    async def search(query: str, k: int) -> Found:
        """What the model finds is what was said before this turn, not its own question."""
        fold = working_set.fold
        asking = [seq for seq, line in fold.lines.items() if line.turn == fold.turn]
        return await remembering.search(
            query, k, settings.recall.scope, exclude=asking, memories=True
        )

    tools = toolbox(
        search,
        lambda pointer: bench.refer(pointer),
        Sources(
            home,
            opening.key,
            settings.recall,
            lambda pointer: bench.refer(pointer),
            transcript.history,
        ),
        lambda section, text, how: continuity.memories.take_note(section, text, how),
        lambda: continuity.memories,
        lambda arguments, context: delegations.run(arguments, context),
        lambda line: _tell(desk, line),
        asks=opening.asks,
    )
    workspace = _workspace(opening, settings)
    trust = TrustFile(home.trust)

    def project() -> ProjectInstructions:
        return project_instructions(workspace, trust.digest(workspace.cwd))

    desk = Desk(
        transcript=transcript,
        working_set=working_set,
        settings=settings,
        model=model,
        overridden=bool(opening.model),
        provider=provider_of(model),
        window=_named_window(opening, settings),
        tools=_offered(tools, settings, opening.offered),
        tool_context=_tool_contexts(opening, settings, workspace),
        gate=_gate(opening, settings),
        recaller=remembering,
        redactor=redactor,
        standing=lambda: _standing(opening, settings, desk, project(), continuity.memories),
        recognise=_recognise,
        make_ready=lambda: bench.before_turn(),
        report_bug=lambda error: record(error, home.log, transcript.clean),
        position=position_in(history, model) if working_set.fold.plan else 0,
        digest=lambda text, room: remembering.digest(
            text, lambda likeness: continuity.memories.digest(likeness, room)
        ),
    )
    side_calls = _side_calls(desk, history, settings, provider_of)
    continuity = Continuity(
        desk,
        home,
        places,
        opening.cwd,
        ask=side_calls(model),
        recall=lambda query, k: _found(remembering, query, k),
        unindexed=lambda: bench.backfill(),
    )

    def open_child(
        key: SessionKey, offered: tuple[str, ...], calls: int
    ) -> tuple[Desk, SessionBench]:
        child = msgspec.structs.replace(
            opening,
            key=key,
            channel="delegate",
            model=desk.model,
            approve="read-only",
            max_rounds=calls,
            asks=False,
            follow=False,
            offered=offered,
        )
        return _assemble(child)

    delegations = Delegations(desk, opening.key, open_child, lambda: continuity.modes.means.scribe)
    bench = SessionBench(
        desk=desk,
        home=home,
        places=places,
        cwd=opening.cwd,
        remembering=remembering,
        tools=tools,
        resolve=provider_of,
        models=lambda: [provider_of(name).info(name) for name in embedded_models(home)],
        history=history,
        servers=Servers(
            _served(opening, settings), home.tool_pins, environ=opening.environ, cwd=workspace.cwd
        ),
        project=project,
        trust=trust,
        continuity=continuity,
        side_calls=side_calls,
    )
    return desk, bench


def _settings(opening: Opening) -> Settings:
    flags: dict[str, object] = {}
    if opening.max_rounds:
        flags["tools.max_rounds"] = opening.max_rounds
    if opening.approve:
        flags["approvals.mode"] = opening.approve
    return load(
        opening.places,
        opening.environ,
        profile=opening.profile,
        flags=flags,
        project=opening.cwd,
    ).settings


def _named_window(opening: Opening, settings: Settings) -> Window | None:
    tokens = opening.context_window or settings.context.window
    return Window(tokens=tokens, label="measured") if tokens else None


def _offered(
    tools: Mapping[str, Tool], settings: Settings, only: tuple[str, ...]
) -> dict[str, Tool]:
    return {
        name: tool
        for name, tool in tools.items()
        if name not in settings.tools.disabled and (not only or name in only)
    }


def _tell(desk: Desk, line: Line) -> None:
    if (event := announced(line)) is not None:
        desk.tell(event)


def _served(opening: Opening, settings: Settings) -> ToolSettings:
    """Who brings tools; a session that is offered named tools only starts no servers for more."""
    return msgspec.structs.replace(settings.tools, mcp={}) if opening.offered else settings.tools


def _side_calls(
    desk: Desk,
    history: History,
    settings: Settings,
    provider_of: Callable[[str], Provider],
) -> Callable[[str], Ask | None]:
    """Who writes summaries: the configured model, else the session's own; the guide cannot."""

    def answering(model: str) -> Ask | None:
        name = settings.models.summary or model
        if name == GUIDE:
            return None
        provider = desk.provider if name == desk.model else provider_of(name)
        return SideCalls(desk, name, provider, positions_in(history, name)).ask

    return answering


async def _found(remembering: Remembering, query: str, k: int) -> list[FidelityFound]:
    found = await remembering.search(query, k, "session", aside=True)
    return [FidelityFound(text=hit.text, seq=hit.passage.seq) for hit in found.hits]


def _workspace(opening: Opening, settings: Settings) -> Workspace:
    roots = tuple(Path(root).expanduser() for root in settings.tools.roots) or (opening.cwd,)
    home = opening.places
    return Workspace(roots, protected=(home.config, home.data, home.state))


def _tool_contexts(
    opening: Opening, settings: Settings, workspace: Workspace
) -> Callable[[str], ToolContext]:
    limits = Limits(shown=settings.tools.output_chars, seconds=settings.tools.shell_timeout)

    def context(call: str) -> ToolContext:
        return ToolContext(workspace=workspace, call=call, environ=opening.environ, limits=limits)

    return context


def _gate(opening: Opening, settings: Settings) -> Gate:
    approvals = settings.approvals
    rules = (
        *(Rule.parse("refuse", text) for text in approvals.deny),
        *(Rule.parse("allow", text, network=approvals.network) for text in approvals.allow),
    )
    return Gate(
        _mode(approvals.mode),
        rules,
        lambda: _sandbox(opening),
        asks=opening.asks,
        keep=lambda rule: _keep_rule(opening.places, rule),
    )


def _keep_rule(places: Places, rule: str) -> None:
    """Add a rule to the user's own settings."""
    known = load(places, {}).settings.approvals.allow
    if rule not in known:
        store(places, "approvals.allow", toml_value([*known, rule]))


def _mode(name: str) -> Mode:
    for mode in MODES:
        if mode == name:
            return mode
    raise UsageError(f"There is no approval mode {name}.", f"Use {', '.join(MODES)}.")


async def _sandbox(opening: Opening) -> Sandbox | None:
    home = opening.places
    found, _ = await probe.find(opening.environ, hidden=(home.config, home.data, home.state))
    return found


def _standing(
    opening: Opening,
    settings: Settings,
    desk: Desk,
    project: ProjectInstructions,
    memories: Memories,
) -> Standing:
    remembered, warnings = memories.head_sections()
    found = standing_context(
        opening.places.agent(opening.key.agent),
        opening.cwd,
        count=desk.count,
        room=settings.memory.standing_tokens,
        with_tools=desk.info.tools,
        extra=[
            Section(
                name="project",
                text=f"Instructions of this project, from {each.path}:\n\n{each.text}",
                source=each.path,
                raw_size=each.raw_size,
            )
            for each in project.in_force
        ]
        + list(remembered),
    )
    return Standing(found.sections, (*found.warnings, *warnings))


def _recognise(text: str) -> str | None:
    found = recognise_standing_instruction(text)
    return found.text if found is not None else None
