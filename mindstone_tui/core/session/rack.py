"""The tools of a session: all there are, and those that are on offer to the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mindstone_tui.core.session.servers import Servers
from mindstone_tui.core.tools.tool import Tool


class Rack:
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

    def hang(self, tools: Mapping[str, Tool]) -> None:
        """Take tools in, and offer those that may be; what is switched off stays off."""
        self.all |= tools
        self.offered |= {name: tool for name, tool in tools.items() if self._may_offer(name)}

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
        return True

    async def start_servers(self) -> list[str]:
        """Take in what the tool servers bring, once; what a person should know about it."""
        tools, told = await self._servers.start()
        self.hang(tools)
        return told

    async def accept(self, server: str) -> list[str]:
        """Take a server's changed tools as they are now."""
        tools, told = await self._servers.accept(server)
        self.hang(tools)
        return told

    async def close(self) -> None:
        """End the tool servers."""
        await self._servers.close()

    def _may_offer(self, name: str) -> bool:
        return name not in self._off and (not self._only or name in self._only)
