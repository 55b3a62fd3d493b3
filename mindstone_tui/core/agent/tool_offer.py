"""Which tools a request carries: all of them, or, over their share, the rest on demand.

Schemas stand in every prompt. When they take more than their share, those that are used least are
left out; `more_tools` names them, and whoever asks for one finds it in the next request.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from mindstone_tui.core.context.fold import Fold
from mindstone_tui.core.entries import ToolSchema
from mindstone_tui.core.entries.base import MORE_TOOLS
from mindstone_tui.core.entries.conversation import AssistantMessage
from mindstone_tui.core.errors import ToolError
from mindstone_tui.core.text import exact, one_line
from mindstone_tui.core.tokens import Counter
from mindstone_tui.core.tools.base import (
    Preview,
    Tool,
    ToolContext,
    ToolResult,
    declare,
    parameters_of,
)

ALWAYS: Final = frozenset(
    {"read", "write", "edit", "list", "grep", "shell", "recall", "read_entry"}
)
"""Never left out: without these nothing can be looked up, changed or found again."""
_MOST_WANTED: Final = 4
"""Tools that stay because they were asked for; an older one gives way to the next."""
_ABOUT: Final = 48
"""Characters that say what a tool is for while its schema is left out."""


class MoreArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tool is wanted."""

    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


_MORE_TOOLS_PARAMETERS: Final = parameters_of(MoreArguments)


def choose(
    tools: Sequence[ToolSchema],
    size: Callable[[Sequence[ToolSchema]], int],
    limit: int,
    order: Sequence[str],
    wanted: Collection[str] = (),
) -> tuple[ToolSchema, ...]:
    """The schemas that fit, in their own order, with a way to the others; all when all fit.

    `order` names tools by their use, most first; what is `wanted` stays in any case.
    """
    if size(tools) <= limit:
        return tuple(tools)
    rank = {name: at for at, name in enumerate(order)}
    spare = sorted(
        (tool for tool in tools if tool.name not in ALWAYS and tool.name not in wanted),
        key=lambda tool: rank.get(tool.name, len(rank)),
    )
    offered: tuple[ToolSchema, ...] = tuple(tools)
    for kept in range(len(spare) - 1, -1, -1):
        out = {tool.name for tool in spare[kept:]}
        held = [tool for tool in tools if tool.name in out]
        offered = (*(tool for tool in tools if tool.name not in out), _more(held))
        if size(offered) <= limit:
            return offered
    # Nothing fits: as little as possible, if that is less at all.
    return offered if size(offered) < size(tools) else tuple(tools)


def _more(held: Sequence[ToolSchema]) -> ToolSchema:
    names = "; ".join(f"{tool.name}: {one_line(tool.description, _ABOUT)}" for tool in held)
    return ToolSchema(
        name=MORE_TOOLS,
        description=f"Get one of these tools, which are not shown here: {names}",
        parameters=_MORE_TOOLS_PARAMETERS,
    )


def by_use(names: Sequence[str], fold: Fold) -> list[str]:
    """Tools by their use: offered before, called often, listed early.

    What was offered before stays ahead, so that the front of the prompt stays as it is.
    """
    calls = collections.Counter(
        call.name
        for line in fold.lines.values()
        if isinstance(line.entry, AssistantMessage)
        for call in line.entry.calls
    )
    before = {tool.name for tool in fold.tools} if fold.tools else set(names)
    return sorted(names, key=lambda name: (name not in before, -calls[name]))


def _asked_before(fold: Fold) -> list[str]:
    """What a session that was opened again had asked for: it stands among what is needed."""
    offered = [tool.name for tool in fold.tools]
    if MORE_TOOLS not in offered:
        return []
    return [name for name in offered if name not in ALWAYS and name != MORE_TOOLS][-_MOST_WANTED:]


class ToolOffer:
    """What one session offers of its tools, and what was asked for beyond that."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self.wanted: list[str] = []
        """Tools that were asked for, the newest first."""
        self.more = declare(
            MORE_TOOLS,
            "Get a tool that is not shown.",
            "read",
            MoreArguments,
            self._get,
            lambda arguments, _: Preview(title=f"{MORE_TOOLS} {exact(arguments.tool)}"),
        )

    def schemas(
        self, fold: Fold, counter: Counter, limit: int, only: Collection[str] = ()
    ) -> list[ToolSchema]:
        """What the next request carries; a model that copes with few is shown only those."""
        known = [tool.schema for tool in self._tools.values()]
        if only:
            return [tool for tool in known if tool.name in only]
        if counter.tools(known) <= limit:
            return known
        if not self.wanted:
            self.wanted = _asked_before(fold)
        order = by_use([tool.name for tool in known], fold)
        return list(choose(known, counter.tools, limit, order, self.wanted))

    def find(self, name: str) -> Tool | None:
        """A tool by its name, shown or not."""
        return self.more if name == MORE_TOOLS else self._tools.get(name)

    async def _get(self, arguments: MoreArguments, context: ToolContext) -> ToolResult:
        if arguments.tool not in self._tools:
            known = ", ".join(sorted(self._tools))
            raise ToolError(f"There is no tool {arguments.tool}.", f"There are: {known}.")
        others = [each for each in self.wanted if each != arguments.tool]
        self.wanted = [arguments.tool, *others][:_MOST_WANTED]
        return ToolResult(
            text=f"{arguments.tool} can be called from now on.",
            finding=f"{arguments.tool} is offered from here on",
        )
