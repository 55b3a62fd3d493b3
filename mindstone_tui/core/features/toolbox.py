"""The tools of this program and of tool servers: `/tools`, `/shell` and `/approve`."""

from collections.abc import AsyncIterator, Sequence
from typing import get_args

from mindstone_tui.core.config.settings import ApprovalMode
from mindstone_tui.core.entries.store import OWN_SHELL, CommandRun
from mindstone_tui.core.events import AnyEvent, CommandPrinted
from mindstone_tui.core.session.features import Feature, WrongUse, command
from mindstone_tui.core.text import inside
from mindstone_tui.core.tools.base import Tool
from mindstone_tui.core.tools.fetch import Fetcher
from mindstone_tui.core.tools.files import FILE_TOOLS, FOLDER_TOOLS, GREP
from mindstone_tui.core.tools.shell import SHELL

APPROVALS: tuple[str, ...] = get_args(ApprovalMode)


class ToolboxFeature(Feature):
    """Files, search, shell and pages, and what tool servers bring."""

    name = "tools"

    def tools(self) -> Sequence[Tool]:
        """Those that need nothing but the folder."""
        fetch = Fetcher(self.context.settings.fetch).tool()
        return (*FILE_TOOLS, *FOLDER_TOOLS, GREP, SHELL, fetch)

    async def before_turn(self) -> Sequence[str]:
        """Start the tool servers, once."""
        return await self.session.tools.start_servers()

    async def close(self) -> None:
        """End the tool servers."""
        await self.session.tools.close()

    @command("tools", usage="[on|off NAME | accept SERVER]", changes_window=True)
    async def list_tools(self, argument: str) -> AsyncIterator[AnyEvent]:
        """List the tools and what their schemas cost; switch one, or accept changed ones."""
        if argument.startswith("accept "):
            for told in await self.session.tools.accept(argument.removeprefix("accept ").strip()):
                yield CommandPrinted(text=told, ok=False)
        elif argument:
            switch, _, name = argument.partition(" ")
            offer = self.session.tools.switch
            if switch not in ("on", "off") or not offer(name.strip(), on=switch == "on"):
                raise WrongUse(f"`{argument}` names no tool.")
        sizes = {each.name: each.tokens for each in self.context.report().tools}
        rows = [
            f"{'on ' if name in self.context.tools else 'off'} {name:14} "
            f"{sizes.get(name, 0):>6,} tokens  "
            f"{tool.risk:7} {tool.description.splitlines()[0][:44]}"
            for name, tool in sorted(self.session.tools.all.items())
        ]
        yield CommandPrinted(text="\n".join(rows) or "There are no tools.")

    @command("approve", usage="[MODE]", words=APPROVALS)
    async def approve(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Show or set what runs without asking: read-only, ask, auto-edit or full-auto."""
        if argument:
            if argument not in APPROVALS:
                known = ", ".join(APPROVALS)
                raise WrongUse(f"There is no mode {argument}; known: {known}.")
            await self.context.permissions.switch(argument)
            # It counts at once, also in the running turn, so it goes on record where it does.
            self.context.window.record(CommandRun(command=f"/approve {argument}"))
        yield CommandPrinted(text=self.context.permissions.describe())

    @command("shell", usage="COMMAND")
    async def shell(self, argument: str) -> AsyncIterator[AnyEvent]:
        """Run a shell command yourself; the model does not see it."""
        if not argument:
            raise WrongUse("Which command?")
        self.context.window.record(CommandRun(command=f"{OWN_SHELL}{argument}"))
        result = await SHELL.run({"command": argument}, self.context.tool_context("shell"))
        clean = self.context.redactor.redact(inside(result.text)).text
        yield CommandPrinted(text=clean, ok=result.status == "ok")
