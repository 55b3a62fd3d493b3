"""The tools of a session: files, search and shell, and those that reach into history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mindstone_tui.core.agent.memories import Memories
from mindstone_tui.core.entries import Line
from mindstone_tui.core.errors import ContinuityError, NoSuchEntry, ToolError
from mindstone_tui.core.handoff.delegation import DESCRIPTION
from mindstone_tui.core.memory.proposals import Draft
from mindstone_tui.core.recall.auto import render
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.session.sources import Refer, Sources
from mindstone_tui.core.tools.catalogue import BUILT_IN
from mindstone_tui.core.tools.rooms import (
    DelegateArguments,
    NoteArguments,
    ReadEntryArguments,
    RecallArguments,
    RememberArguments,
    delegate_tool,
    note_tool,
    read_entry_tool,
    recall_tool,
    remember_tool,
)
from mindstone_tui.core.tools.tool import Tool, ToolContext, ToolResult, bounded

Search = Callable[[str, int], Awaitable[Found]]
TakeNote = Callable[[str, str, str], object]
Delegate = Callable[[DelegateArguments, ToolContext], Awaitable[ToolResult]]


def toolbox(
    search: Search,
    refer: Refer,
    sources: Sources,
    take_note: TakeNote,
    remembering: Callable[[], Memories],
    delegate: Delegate,
    tell: Callable[[Line], None] = lambda line: None,
    *,
    asks: bool = True,
) -> dict[str, Tool]:
    """Every tool there is, by name."""

    async def recall(arguments: RecallArguments, context: ToolContext) -> ToolResult:
        found = await search(arguments.query, arguments.limit)
        if not found.hits:
            return ToolResult(text="Nothing in history fits.", finding="nothing found")
        text, full = bounded("\n\n".join(render(hit) for hit in found.hits), context)
        return ToolResult(
            text=text,
            full=full,
            finding=f"{len(found.hits)} passages, best {found.hits[0].passage.pointer}",
            origin="recall",
        )

    async def read_entry(arguments: ReadEntryArguments, context: ToolContext) -> ToolResult:
        try:
            source = sources.read(arguments.entry)
        except NoSuchEntry as error:
            raise ToolError(
                error.what, "Use a number as #42, an id that recall gave, or a memory's file."
            ) from None
        text, full = bounded(source.text[arguments.offset :], context)
        return ToolResult(text=text, full=full, finding=source.finding, origin=source.origin)

    async def note(arguments: NoteArguments, context: ToolContext) -> ToolResult:
        del context
        try:
            take_note(arguments.section, arguments.text, arguments.importance)
        except ContinuityError as error:
            raise ToolError(error.what, error.remedy) from error
        return ToolResult(text="Noted.", finding=f"note in {arguments.section}")

    def proposed(arguments: RememberArguments) -> tuple[Draft, tuple[int, ...]]:
        try:
            source = refer(arguments.source).seq
        except NoSuchEntry as error:
            raise ToolError(error.what, "Name the entry it comes from, as #42.") from None
        return Draft(kind=arguments.kind, name=arguments.title, text=arguments.text), (source,)

    async def remember(arguments: RememberArguments, context: ToolContext) -> ToolResult:
        # Agreeing to this call, with its diff in front of them, is a person's agreement. Where
        # nobody can be asked, the proposal waits for one.
        del context
        memories = remembering()
        draft, sources = proposed(arguments)
        try:
            line, made = memories.propose(draft, sources, by="model")
            if not asks:
                tell(line)
                text = f"Proposed as {made.entry.proposal}; a person decides with /memory."
                return ToolResult(text=text, finding=f"proposed: {arguments.title}")
            memories.decide(made.entry.proposal, "approved", by="person")
        except ContinuityError as error:
            raise ToolError(error.what, error.remedy) from error
        return ToolResult(text="Remembered.", finding=f"remembered: {arguments.title}")

    def diff(arguments: RememberArguments) -> str:
        draft, sources = proposed(arguments)
        try:
            made = remembering().preview(draft, sources)
        except ContinuityError as error:
            raise ToolError(error.what, error.remedy) from error
        caution = f"CAUTION: this holds {', '.join(made.cautions)}\n" if made.cautions else ""
        return f"{caution}{made.diff}"

    tools = (
        *BUILT_IN,
        recall_tool(recall),
        read_entry_tool(read_entry),
        note_tool(note),
        remember_tool(remember, diff, asks=asks),
        delegate_tool(delegate, DESCRIPTION),
    )
    return {tool.name: tool for tool in tools}
