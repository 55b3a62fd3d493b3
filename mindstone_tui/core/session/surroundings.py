"""What stands around the turns of a session: files, memories, the project, tool servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mindstone_tui.core import events
from mindstone_tui.core.agent.continuity import Continuity
from mindstone_tui.core.agent.desk import Desk
from mindstone_tui.core.agent.standing import Standing, standing_context
from mindstone_tui.core.entries.memory import MemoryDigested
from mindstone_tui.core.recall.auto import queries
from mindstone_tui.core.session.project import Project
from mindstone_tui.core.session.rack import Rack
from mindstone_tui.core.session.remembering import Remembering


class SessionSurroundings:
    """The surroundings of a live session; see `agent.desk.Surroundings` for the contract."""

    def __init__(
        self,
        desk: Desk,
        continuity: Continuity,
        remembering: Remembering,
        *,
        project: Project,
        rack: Rack,
        cwd: Path,
    ) -> None:
        self._desk = desk
        self._continuity = continuity
        self._remembering = remembering
        self._project = project
        self._rack = rack
        self._cwd = cwd
        self._told: set[str] = set()

    async def make_ready(self) -> list[events.AnyEvent]:
        """Start the tool servers, look at the project; each thing to say is said once."""
        told = await self._rack.start_servers()
        if unread := self._project.unread():
            told.append(unread)
        fresh = [each for each in told if each not in self._told]
        self._told.update(fresh)
        return [events.Noticed(message=each, level="warning") for each in fresh]

    def standing(self) -> Standing:
        """Who the agent is, whom it works for, what the project and memory add."""
        remembered, warnings = self._continuity.memories.head_sections()
        task = self._continuity.task
        found = standing_context(
            self._continuity.agent,
            self._cwd,
            count=self._desk.count,
            room=self._desk.settings.memory.standing_tokens,
            with_tools=self._desk.info.tools,
            extra=(*self._project.sections(), *([task] if task else ()), *remembered),
        )
        return Standing(found.sections, (*found.warnings, *warnings))

    async def digest(self, text: str, recent: Sequence[str], room: int) -> MemoryDigested | None:
        """The memories that bear on a message."""
        for query in queries(text, recent):
            likeness = await self._remembering.likeness(query)
            found = self._continuity.memories.digest(likeness, room) if likeness else None
            if found is not None:
                return found
        return None
