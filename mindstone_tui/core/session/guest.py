"""A program that has a conversation of its own: its instructions, its tools, what it knows already.

Its tools run where the program is. A call of one waits until the program hands the result in, as
any tool's call waits for its tool; the turn around it is one turn, with every result in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from mindstone_tui.core.context.plan import AS_ALWAYS
from mindstone_tui.core.entries import Entry, Sampling, ToolSchema
from mindstone_tui.core.entries.conversation import TurnEnded, TurnStarted, UserMessage
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.text import one_line
from mindstone_tui.core.tools.base import Preview, Tool, ToolContext, ToolResult


class ForeignExchange(msgspec.Struct, frozen=True):
    """An exchange that took place elsewhere and that history does not have yet."""

    said: UserMessage
    answers: tuple[Entry, ...] = ()
    """What was said and done after it; every call has its result."""

    @property
    def entries(self) -> list[Entry]:
        """The exchange as a turn of its own."""
        return [
            TurnStarted(origin="adopted"),
            self.said,
            *self.answers,
            TurnEnded(ending="done", why="It took place elsewhere."),
        ]


class Guest:
    """What a program brings to its turns in a session."""

    def __init__(self, *, own_tools: bool = False) -> None:
        self.own_tools = own_tools
        """Whether the tools of this program are offered as well."""
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

    def section(self) -> Section | None:
        """The program's own instructions, for the head of the prompt."""
        return Section(name="client", text=self.instructions) if self.instructions else None

    def offer(self, into: dict[str, Tool], own: Mapping[str, Tool]) -> None:
        """Put on offer what holds for the next turn; a client's tool wins over one of ours."""
        into.clear()
        if self.own_tools:
            into.update(own)
        into.update({schema.name: self._tool(schema) for schema in self._schemas})

    def _tool(self, schema: ToolSchema) -> Tool:
        async def run(given: Mapping[str, object], context: ToolContext) -> ToolResult:
            del given  # the client has them, word for word
            try:
                return await self._place(context.call)
            finally:
                self._results.pop(context.call, None)

        def preview(given: Mapping[str, object], context: ToolContext) -> Preview:
            del context
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
