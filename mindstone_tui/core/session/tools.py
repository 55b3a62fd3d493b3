"""Tool servers from the user's settings: started before the first turn, pinned on first use."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors
from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.tools.base import Tool
from mindstone_tui.core.tools.hooks import FoundHooks, Hook, read_hooks
from mindstone_tui.core.tools.mcp import Change, McpServer
from mindstone_tui.core.tools.trust import (
    ProjectInstructions,
    Remembered,
    TrustFile,
    judged,
    read_told,
)
from mindstone_tui.core.tools.workspace import Workspace

Pins = dict[str, dict[str, str]]
"""By server, then by tool: what it was declared as when it was first seen."""


class Servers:
    """The tool servers of one session."""

    def __init__(
        self, settings: ToolSettings, pins: Path, *, environ: Mapping[str, str], cwd: Path
    ) -> None:
        self._pins_file = pins
        self._servers = [
            McpServer(name, each, environ=environ, cwd=cwd, tokens=pins.with_name("tool-tokens"))
            for name, each in settings.mcp.items()
            if each.enabled
        ]
        self.started = False
        self.withheld: dict[str, tuple[Change, ...]] = {}
        """Tools that changed since they were first seen, by server; `/tools accept` takes them."""

    async def start(self) -> tuple[dict[str, Tool], list[str]]:
        """Ask every server, once, what it offers; what went wrong is told, not raised."""
        if self.started:
            return {}, []
        self.started = True
        return await self._ask()

    async def accept(self, server: str) -> tuple[dict[str, Tool], list[str]]:
        """Take the changed tools of a server as they are now."""
        pins = self._read()
        changes = self.withheld.get(server, ())
        pins[server] = {**pins.get(server, {}), **{each.tool: each.pin for each in changes}}
        self._write(pins)
        return await self._ask()

    async def close(self) -> None:
        """End every server."""
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _ask(self) -> tuple[dict[str, Tool], list[str]]:
        pins = self._read()
        asked = await asyncio.gather(
            *(server.offer(pins.get(server.name, {})) for server in self._servers),
            return_exceptions=True,
        )
        tools: dict[str, Tool] = {}
        told: list[str] = []
        for server, offer in zip(self._servers, asked, strict=True):
            if isinstance(offer, errors.MindstoneError):
                told.append(f"The tool server {server.name} could not be started: {offer.what}")
                continue
            if isinstance(offer, BaseException):
                raise offer
            tools |= {tool.name: tool for tool in offer.tools}
            pins[server.name] = offer.pins
            self.withheld[server.name] = offer.withheld
            told += [f"{server.name}: {why}" for why in offer.ignored]
            told += [
                f"The tool {each.tool} of {server.name} changed since it was first seen and is "
                f"withheld; `/tools accept {server.name}` takes it:\n{each.diff}"
                for each in offer.withheld
            ]
        self._write(pins)
        return tools, told

    def _read(self) -> Pins:
        return disk.read_stored(self._pins_file, Pins) or {}

    def _write(self, pins: Pins) -> None:
        if self._servers:
            disk.replace_file(self._pins_file, msgspec.json.encode(pins, order="sorted"))


FIRST: Final = (
    *("read", "write", "edit", "list", "glob", "grep", "shell"),
    *("recall", "read_entry", "note", "remember", "delegate", "todo", "background", "job"),
)
"""The tools that every prompt begins with, in this order, so that its front stays the same; where
there is room for few, those that were not used yet give way from the end."""


def in_order(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by name: the first ones first, the others as they come."""
    rank = {name: at for at, name in enumerate(FIRST)}
    ranked = sorted(tools, key=lambda tool: rank.get(tool.name, len(FIRST)))
    return {tool.name: tool for tool in ranked}


_WITH: Final = {"background": "shell"}
"""What goes when another tool is switched off, as it would do the same, and comes back with it."""


class ToolRegistry:
    """Where tools hang; some are switched off, and only some may be offered at all."""

    def __init__(
        self, servers: Servers, disabled: Collection[str], only: Collection[str] = ()
    ) -> None:
        self.all: dict[str, Tool] = {}
        self.offered: dict[str, Tool] = {}
        """What the model may call now; a turn looks here."""
        self._servers = servers
        self._off = set(disabled)
        """What nobody offers again but the person who asks for it by name."""
        self._only = only

    def add(self, tools: Mapping[str, Tool]) -> None:
        """Take tools in, and offer those that may be; what is switched off stays off."""
        self.all |= tools
        self.offered |= {name: tool for name, tool in tools.items() if self._may_offer(name)}

    @property
    def started(self) -> bool:
        """Whether the tool servers were asked what they offer."""
        return self._servers.started

    def usable(self) -> dict[str, Tool]:
        """All that may be offered."""
        return {name: tool for name, tool in self.all.items() if self._may_offer(name)}

    def switch(self, name: str, *, on: bool) -> bool:
        """Offer a tool to the model or not; False when there is no such tool."""
        if name not in self.all:
            return False
        if on:
            self._off.discard(name)
            self.offered[name] = self.all[name]
        else:
            self._off.add(name)
            self.offered.pop(name, None)
        for each in self.all.keys() & {one for one, other in _WITH.items() if other == name}:
            if self._may_offer(each):
                self.offered[each] = self.all[each]
            else:
                self.offered.pop(each, None)
        return True

    async def start_servers(self) -> list[str]:
        """Take in what the tool servers bring, once; what a person should know about it."""
        tools, told = await self._servers.start()
        self.add(tools)
        return told

    async def accept(self, server: str) -> list[str]:
        """Take a server's changed tools as they are now."""
        tools, told = await self._servers.accept(server)
        self.add(tools)
        return told

    async def close(self) -> None:
        """End the tool servers."""
        await self._servers.close()

    def _may_offer(self, name: str) -> bool:
        off = name in self._off or _WITH.get(name) in self._off
        return not off and (not self._only or name in self._only)


class Project:
    """One folder and the trust in it."""

    def __init__(
        self, workspace: Workspace, trust: TrustFile, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._workspace = workspace
        self._trust = trust
        self._told = Remembered(workspace.cwd, partial(read_told, workspace), clock)
        self._shown = ("", "")

    def instructions(self) -> ProjectInstructions:
        """The folder's instruction files as they are now."""
        folder = self._workspace.cwd
        return judged(self._told.get(), folder, self._trust.digest(folder))

    def show(self) -> ProjectInstructions:
        """The folder's instruction files, for a person who is to decide about them."""
        found = self.instructions()
        self._shown = (found.digest, datetime.now(UTC).isoformat())
        return found

    def shown_at(self, found: ProjectInstructions) -> str:
        """When exactly this was shown here, ISO 8601; empty where it was not."""
        digest, when = self._shown
        return when if digest == found.digest else ""

    def trust(self, found: ProjectInstructions) -> None:
        """Let these files be read, with exactly this content."""
        self._trust.trust(found.folder, found.digest)

    def distrust(self) -> None:
        """Read the folder's instruction files no longer."""
        self._trust.forget(self._workspace.cwd)

    def sections(self) -> list[Section]:
        """What the folder may say, for the head of the prompt."""
        return [
            Section(
                name="project",
                text=f"Instructions of this project, from {each.path}:\n\n{each.text}",
                source=each.path,
                raw_size=each.raw_size,
            )
            for each in self.instructions().in_force
        ]

    def unread(self) -> str:
        """Which files are not read for want of trust, in a sentence; empty when there are none."""
        found = self.instructions()
        if found.state not in ("untrusted", "changed"):
            return ""
        named = [each.path for each in found.files]
        more = [f"{len(named) - 6} more"] if len(named) > 6 else []
        names = ", ".join([*named[:6], *more])
        why = "changed since it was trusted" if found.state == "changed" else "is not trusted"
        how = "`/trust` shows what is in them, `/trust yes` lets them be used"
        return f"This folder {why}, so these files are not read: {names}; {how}."


def session_hooks(own: Path, project: ProjectInstructions) -> FoundHooks:
    """The user's hooks, then a trusted project's; a file that is wrong has none."""
    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    try:
        hooks, problems = read_hooks(disk.read_regular(own), "user", str(own))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems = (f"{own} cannot be read: {error.strerror}.",)
    for each in project.trusted("hooks"):
        more, wrong = read_hooks(each.data, "project", each.path)
        hooks, problems = (*hooks, *more), (*problems, *wrong)
    return hooks, problems
