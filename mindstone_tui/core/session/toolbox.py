"""The tools of a session: files, search and shell, and those that reach into history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.entries.conversation import ToolReturned
from mindstone_tui.core.entries.memory import NoteTaken
from mindstone_tui.core.errors import NoSuchEntry, ToolError
from mindstone_tui.core.recall.auto import render
from mindstone_tui.core.recall.index import Found
from mindstone_tui.core.tools.catalogue import BUILT_IN
from mindstone_tui.core.tools.rooms import (
    NoteArguments,
    ReadEntryArguments,
    RecallArguments,
    note_tool,
    read_entry_tool,
    recall_tool,
)
from mindstone_tui.core.tools.tool import Tool, ToolContext, ToolResult, bounded
from mindstone_tui.core.transcript import History

Search = Callable[[str, int], Awaitable[Found]]
Refer = Callable[[str], Line]
Record = Callable[[NoteTaken], object]


def toolbox(
    search: Search, refer: Refer, open_history: Callable[[], History], record: Record
) -> dict[str, Tool]:
    """Every tool there is, by name."""

    async def recall(arguments: RecallArguments, context: ToolContext) -> ToolResult:
        found = await search(arguments.query, arguments.limit)
        if not found.hits:
            return ToolResult(text="Nothing in history fits.", finding="nothing found")
        text, full = bounded("\n\n".join(render(hit) for hit in found.hits), context)
        best = found.hits[0].passage
        return ToolResult(
            text=text,
            full=full,
            finding=f"{len(found.hits)} passages, best #{best.seq} of turn {best.turn}",
            origin="recall",
        )

    async def read_entry(arguments: ReadEntryArguments, context: ToolContext) -> ToolResult:
        try:
            line = refer(arguments.entry)
        except NoSuchEntry as error:
            raise ToolError(error.what, "Use a number as #42, or an id that recall gave.") from None
        with open_history() as history:
            whole = _whole_text(history, line)[arguments.offset :]
        text, full = bounded(whole, context)
        return ToolResult(
            text=text,
            full=full,
            finding=f"#{line.seq}, {line.kind} of turn {line.turn}",
            origin=f"history #{line.seq}",
        )

    async def note(arguments: NoteArguments, context: ToolContext) -> ToolResult:
        del context
        record(NoteTaken(category=arguments.section, text=arguments.text))
        return ToolResult(text="Noted.", finding=f"note in {arguments.section}")

    tools = (
        *BUILT_IN,
        recall_tool(recall),
        read_entry_tool(read_entry),
        note_tool(note),
    )
    return {tool.name: tool for tool in tools}


def _whole_text(history: History, line: Line) -> str:
    """All that an entry says; for a cut tool result, the whole output."""
    entry = history.whole(line).entry
    if isinstance(entry, ToolReturned) and entry.full:
        return history.blob(entry.full).decode("utf-8", "replace")
    if isinstance(entry, Unknown):
        return line.raw.decode("utf-8", "replace")
    text = getattr(entry, "text", None)
    return text if isinstance(text, str) else line.raw.decode("utf-8", "replace")
