"""Tool servers from the user's settings: started before the first turn, pinned on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mindstone_tui.core.config.settings import ToolSettings
from mindstone_tui.core.disk import replace_file
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.tools.mcp import McpServer, ServerSettings
from mindstone_tui.core.tools.mcp_pins import Change
from mindstone_tui.core.tools.tool import Tool

Pins = dict[str, dict[str, str]]
"""By server, then by tool: what it was declared as when it was first seen."""


class Servers:
    """The tool servers of one session."""

    def __init__(
        self, settings: ToolSettings, pins: Path, *, environ: Mapping[str, str], cwd: Path
    ) -> None:
        self._pins_file = pins
        self._servers = [
            McpServer(
                name,
                ServerSettings(command=each.command, url=each.url, environment=each.env),
                environ=environ,
                cwd=cwd,
            )
            for name, each in settings.mcp.items()
            if each.enabled
        ]
        self._started = False
        self.withheld: dict[str, tuple[Change, ...]] = {}
        """Tools that changed since they were first seen, by server; `/tools accept` takes them."""

    async def start(self) -> tuple[dict[str, Tool], list[str]]:
        """Ask every server, once, what it offers; what went wrong is told, not raised."""
        if self._started:
            return {}, []
        self._started = True
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
            if isinstance(offer, MindstoneError):
                told.append(f"The tool server {server.name} is not there: {offer.what}")
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
        try:
            return msgspec.json.decode(self._pins_file.read_bytes(), type=Pins)
        except (OSError, msgspec.DecodeError, msgspec.ValidationError):
            return {}

    def _write(self, pins: Pins) -> None:
        if self._servers:
            replace_file(self._pins_file, msgspec.json.encode(pins, order="sorted"))
