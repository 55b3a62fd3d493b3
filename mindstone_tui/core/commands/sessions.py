"""Commands about the session itself: status, model, tools, approvals, other sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from mindstone_tui.core.agent.hooks import shown
from mindstone_tui.core.commands.registry import command, wrong_use
from mindstone_tui.core.config.settings import ApprovalMode
from mindstone_tui.core.events import AnyEvent, CommandPrinted, ModelChanged, ScreenAsked
from mindstone_tui.core.events.report_text import budget_data, headline
from mindstone_tui.core.paths import SessionKey
from mindstone_tui.core.text import plural
from mindstone_tui.core.tools.hooks import read_hooks

if TYPE_CHECKING:
    from mindstone_tui.core.session.services import SessionServices

APPROVALS: tuple[str, ...] = get_args(ApprovalMode)
STATUS: Final[dict[str, str]] = {
    "green": "healthy",
    "yellow": "preparing",
    "orange": "active",
    "red": "emergency",
}
"""What a zone means for the window."""


@command("status")
async def status(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show the model, how full the window is, and how long the history is."""
    del argument
    context = services.context
    head, turns = context.transcript.head, context.transcript.last_turn
    report = context.report()
    yield CommandPrinted(
        command="status",
        text="\n".join(
            [
                *headline(report),
                context.info.note or f"{context.info.name} answers.",
                f"history: {head.seq + 1:,} entries, {turns:,} turns, head {head.hash[:12]}",
                f"window {report.windows:,} of this session: {STATUS[report.zone]}; "
                f"{report.mode}, {report.policy}",
                f"approvals: {context.permissions.mode}; "
                f"recall: {'on' if services.recall.on else 'off'}; folder: {services.cwd}",
            ]
        ),
        data={
            "session": str(services.key),
            "model": context.info.name,
            "window_status": STATUS[report.zone],
            "zone": report.zone,
            "windows": report.windows,
            "turn": turns,
            "utilization": report.utilization,
            "mode": report.mode,
            "policy": report.policy,
            "entries": head.seq + 1,
            "head": {"seq": head.seq, "hash": head.hash},
            "budget": budget_data(report),
            "alerts": [msgspec.to_builtins(one) for one in services.health.monitor.alerts],
        },
    )


@command("model", usage="[NAME]", changes_window=True)
async def model(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List models, or switch to another one from here on."""
    if not argument:
        rows = [
            f"{'*' if info.name == services.context.info.name else ' '} {info.name:32} {info.note}"
            for info in services.models.usable()
        ]
        yield ScreenAsked(screen="models", otherwise="\n".join(rows))
        return
    info = await services.switch_model(argument)
    yield ModelChanged(model=info.name, note=info.note)
    text = f"Now using {info.name}. {info.note}"
    yield CommandPrinted(command="model", text=text, repeats=True)


@command("trust", usage="[yes|no]", changes_window=True, words=("yes", "no"))
async def trust(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show what this folder wants to tell the model, and let it, or not.

    Trust is given to the exact content: when a byte changes, it is asked for again.
    """
    if argument not in ("", "yes", "no"):
        raise wrong_use("trust", f"/trust does not know `{argument}`.")
    if argument == "no":
        services.project.distrust()
    found = services.trust_project() if argument == "yes" else services.project.show()
    if found.state == "none":
        yield CommandPrinted(command="trust", text="This folder has no instructions for the model.")
        return
    files = "\n\n".join(
        f"── {each.path} ({each.raw_size:,} bytes)\n{each.text}"
        for each in found.files
        if each.kind != "hooks"
    )
    hooks = [hook for each in found.of("hooks") for hook in read_hooks(each.data, "project", "")[0]]
    if hooks:
        run = "run" if found.state == "trusted" else "would run"
        files += f"\n\n── These commands {run}, in the sandbox:\n{shown(hooks)}"
    how = (
        "`/trust yes` lets it be read." if found.state != "trusted" else "It is read in every turn."
    )
    yield CommandPrinted(command="trust", text=f"{files}\n\nThis folder is {found.state}. {how}")


@command("skills")
async def skills(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List your own commands and the skills that the model may look up, with where they stand.

    Commands are Markdown files in commands/, skills folders with a SKILL.md in skills/, both beside
    config.toml; a trusted project's are in .mindstone or .claude.
    """
    del argument
    prompts = services.prompts
    prompts.refresh()
    listed = [
        *((f"/{each.name}", each) for each in prompts.commands().values()),
        *prompts.skills.items(),
    ]
    rows = [
        f"{name:24} {each.size:>7,} bytes  {each.source:8} {each.description}\n  {each.path}"
        for name, each in listed
    ]
    where = f"{services.home.commands} and {services.home.skills}"
    none = f"There are none. They would stand in {where}."
    yield CommandPrinted(command="skills", text="\n".join(rows) or none)


@command("hooks")
async def hooks(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List the programs that run at certain moments, with their exact commands.

    They stand in hooks.json beside config.toml, and in .mindstone/hooks.json of a trusted project.
    """
    del argument
    found = services.context.hooks
    found.refresh()
    text = shown(found.all) or f"There are no hooks. They would stand in {services.home.hooks}."
    yield CommandPrinted(command="hooks", text="\n".join([text, *found.problems]))


@command("tools", usage="[on|off NAME | accept SERVER]", changes_window=True)
async def tools(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List the tools and what their schemas cost; switch one, or accept changed ones."""
    if argument.startswith("accept "):
        for told in await services.tools.accept(argument.removeprefix("accept ").strip()):
            yield CommandPrinted(command="tools", text=told, ok=False)
    elif argument:
        switch, _, name = argument.partition(" ")
        offer = services.tools.switch
        if switch not in ("on", "off") or not offer(name.strip(), on=switch == "on"):
            raise wrong_use("tools", f"`{argument}` names no tool.")
    sizes = {each.name: each.tokens for each in services.context.report().tools}
    rows = [
        f"{'on ' if name in services.context.tools else 'off'} {name:14} "
        f"{sizes.get(name, 0):>6,} tokens  "
        f"{tool.risk:7} {tool.description.splitlines()[0][:44]}"
        for name, tool in sorted(services.tools.all.items())
    ]
    yield CommandPrinted(command="tools", text="\n".join(rows) or "There are no tools.")


@command("approve", usage="[MODE]", words=APPROVALS)
async def approve(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show or set what runs without asking: read-only, ask, auto-edit or full-auto."""
    if argument:
        if argument not in APPROVALS:
            known = ", ".join(APPROVALS)
            raise wrong_use("approve", f"There is no mode {argument}; known: {known}.")
        await services.context.permissions.switch(argument)
    yield CommandPrinted(command="approve", text=services.context.permissions.describe())


@command("sessions")
async def sessions(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """List all sessions, newest first."""
    del argument
    own = str(services.key)
    rows = [
        f"{'*' if each.session == own else ' '} {each.session:40} "
        f"{plural(each.turns, 'turn'):>11}  {each.title}".rstrip()
        for each in await asyncio.to_thread(services.sessions)
    ]
    text = "\n".join(rows) or "There are no sessions."
    yield ScreenAsked(screen="sessions", otherwise=text)


@command("title", usage="[TEXT]", changes_window=True)
async def title(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Name this session for the lists; without a text, go back to its first request."""
    named = services.set_title(argument)
    text = f"This session is called “{named}” now." if named else "The title is its first request."
    yield CommandPrinted(command="title", text=text)


@command("new", usage="[NAME]")
async def new(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Go to a new session with the same model; this one stays as it is."""
    key = SessionKey.parse(f"agent:{services.key.agent}:{argument or services.free_name()}")
    model = services.context.model
    keeps = "" if services.exists(key) else f" {model}"
    otherwise = f"Open it with --session {key}{f' --model {model}' if keeps else ''}."
    yield ScreenAsked(screen="open", argument=f"{key}{keeps}", otherwise=otherwise)


@command("fork", usage="[NAME] [turn N]", changes_window=True)
async def fork(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Start another session from here or from an earlier turn, with the same model."""
    name, _, turn = argument.partition("turn")
    number = turn.strip()
    if number and not number.isdigit():
        raise wrong_use("fork", f"`{number}` is not a turn.")
    key = services.fork(name.strip() or services.free_name(), int(number) if number else None)
    text = f"{key} begins here. This session stays as it is."
    yield ScreenAsked(screen="open", argument=str(key), otherwise=text)


@command("cost")
async def cost(services: SessionServices, argument: str) -> AsyncIterator[AnyEvent]:
    """Show what this session has cost so far, as far as prices are known."""
    del argument
    report = services.context.report()
    known = "unknown" if report.cost is None else f"${report.cost:.4f}"
    delegated = report.cost_delegated
    passed_on = f", ${delegated:.4f} of it delegated to sub-agents" if delegated else ""
    more = ", and some models have no known price" if report.cost_unknown else ""
    cached = report.cached_tokens
    share = (
        ""
        if not cached or not report.prompt.tokens
        else f"; {cached / report.prompt.tokens:.0%} of the last prompt came from the cache"
    )
    yield CommandPrinted(command="cost", text=f"Cost so far: {known}{passed_on}{more}{share}.")
