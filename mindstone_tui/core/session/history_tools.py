"""The tools of a session: files, search and shell, and those that reach into history."""

from __future__ import annotations

from mindstone_tui.core.agent.context import TurnContext
from mindstone_tui.core.agent.memories import Memories
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.errors import ContinuityError, NoSuchEntry, ToolError
from mindstone_tui.core.events.from_entry import announcements
from mindstone_tui.core.handoff.delegation import DESCRIPTION
from mindstone_tui.core.memory.proposals import ProposalDraft
from mindstone_tui.core.recall.inject import render
from mindstone_tui.core.session.agent_files import Sources
from mindstone_tui.core.session.delegate import Delegations
from mindstone_tui.core.session.recall import SessionRecall
from mindstone_tui.core.tools.base import Tool, ToolContext, ToolResult, bounded
from mindstone_tui.core.tools.files import FILE_TOOLS, FOLDER_TOOLS
from mindstone_tui.core.tools.history import (
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
from mindstone_tui.core.tools.search import GREP
from mindstone_tui.core.tools.shell import SHELL


def toolbox(history: ToolsOfHistory, delegations: Delegations, *more: Tool) -> dict[str, Tool]:
    """Every tool there is, by name."""
    tools = (
        *FILE_TOOLS,
        *FOLDER_TOOLS,
        GREP,
        SHELL,
        *history.tools(),
        delegate_tool(delegations.run, DESCRIPTION),
        *more,
    )
    return {tool.name: tool for tool in tools}


class ToolsOfHistory:
    """What the model may do with history: search it, read it, note, and propose to remember."""

    def __init__(
        self,
        context: TurnContext,
        recall: SessionRecall,
        memories: Memories,
        sources: Sources,
        *,
        asks: bool,
    ) -> None:
        self._context = context
        self._recall = recall
        self._memories = memories
        self._sources = sources
        self._asks = asks

    def tools(self) -> tuple[Tool, ...]:
        """All of them, as the model is offered them."""
        return (
            recall_tool(self.recall),
            read_entry_tool(self.read_entry),
            note_tool(self.note),
            remember_tool(self.remember, self.diff, asks=self._asks),
        )

    async def recall(self, arguments: RecallArguments, context: ToolContext) -> ToolResult:
        """Search what was said before this turn: its own question is not an answer."""
        fold = self._context.window.fold
        asking = [seq for seq, line in fold.lines.items() if line.turn == fold.turn]
        scope = self._context.settings.recall.scope
        found = await self._recall.search(
            arguments.query,
            arguments.limit,
            scope,
            exclude=asking,
            pinned=fold.state.pins,
            memories=True,
        )
        if not found.hits:
            return ToolResult(text="Nothing in history matches.", finding="nothing found")
        origin = self._sources.origin
        rendered = (render(hit, origin=origin, whole=True) for hit in found.hits)
        text, full = bounded("\n\n".join(rendered), context)
        return ToolResult(
            text=text,
            full=full,
            finding=f"{len(found.hits)} passages, best {found.hits[0].passage.pointer}",
            origin="recall",
        )

    async def read_entry(self, arguments: ReadEntryArguments, context: ToolContext) -> ToolResult:
        """Read one entry or memory whole, from an offset on."""
        try:
            source = self._sources.read(arguments.entry)
        except NoSuchEntry as error:
            raise ToolError(
                error.what, "Use a number as #42, an id that recall gave, or a memory's file."
            ) from None
        text, full = bounded(source.text[arguments.offset :], context)
        return ToolResult(text=text, full=full, finding=source.finding, origin=source.origin)

    async def note(self, arguments: NoteArguments, context: ToolContext) -> ToolResult:
        """Write a note into the session's own history."""
        del context
        memories = self._memories
        try:
            memories.take_note(arguments.section, arguments.text, arguments.importance)
        except ContinuityError as error:
            raise ToolError(error.what, error.remedy) from error
        return ToolResult(text="Noted.", finding=f"note in {arguments.section}")

    async def remember(self, arguments: RememberArguments, context: ToolContext) -> ToolResult:
        """Propose a memory, and store it where a person agreed.

        Agreeing to this call, with its diff in front of them, is a person's agreement. Where
        nobody can be asked, the proposal waits for one.
        """
        del context
        memories = self._memories
        draft, sources = self._drafted(arguments)
        try:
            line, made = memories.propose(draft, sources, by="model")
            if self._asks:
                memories.decide(made.entry.proposal, "approved", by="person")
                return ToolResult(text="Remembered.", finding=f"remembered: {arguments.title}")
        except ContinuityError as error:
            raise ToolError(error.what, error.remedy) from error
        for event in announcements(line):
            self._context.tell(event)
        text = f"Proposed as {made.entry.proposal}; a person decides with /memory."
        return ToolResult(text=text, finding=f"proposed: {arguments.title}")

    def diff(self, arguments: RememberArguments) -> str:
        """What remembering would change, with what to be careful about before it."""
        draft, sources = self._drafted(arguments)
        try:
            made = self._memories.preview(draft, sources)
        except ContinuityError as error:
            raise ToolError(error.what, error.remedy) from error
        caution = f"CAUTION: this holds {', '.join(made.cautions)}\n" if made.cautions else ""
        return f"{caution}{made.diff}"

    def _drafted(self, arguments: RememberArguments) -> tuple[ProposalDraft, tuple[int, ...]]:
        try:
            source = self._sources.refer(arguments.source)
        except NoSuchEntry as error:
            raise ToolError(error.what, "Name the entry it comes from, as #42.") from None
        if is_imported(source):
            raise ToolError(
                f"#{source.seq} was imported from another program: nothing is remembered from it.",
                "If it should be, ask the person to say so here, and name that message.",
            )
        draft = ProposalDraft(kind=arguments.kind, name=arguments.title, text=arguments.text)
        return draft, (source.seq,)
