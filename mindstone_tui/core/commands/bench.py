"""What a slash command may use. The session implements it; commands never see more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a contract needs names only; the rooms behind it take long to load
    from mindstone_tui.core.agent.continuity import Continuity
    from mindstone_tui.core.agent.desk import Desk
    from mindstone_tui.core.entries import Line
    from mindstone_tui.core.places import Places, SessionKey, SessionPlaces
    from mindstone_tui.core.providers.protocol import ModelInfo
    from mindstone_tui.core.recall.index import Found
    from mindstone_tui.core.tools.tool import Tool, ToolResult
    from mindstone_tui.core.tools.trust import ProjectInstructions
    from mindstone_tui.core.transcript import History
    from mindstone_tui.core.transcript.listing import SessionSummary


class Bench(Protocol):
    """The session as a command sees it."""

    key: SessionKey
    desk: Desk
    continuity: Continuity
    home: Places
    places: SessionPlaces
    cwd: Path

    def history(self) -> History:
        """A reader of this session's transcript."""
        ...

    def refer(self, pointer: str) -> Line:
        """The line that a person means by an id, a number (`#42`) or a turn (`turn 7`)."""
        ...

    async def recall(self, query: str, k: int, scope: str) -> Found:
        """Search history."""
        ...

    def last_recall(self) -> Found | None:
        """The newest search of this session, by a command or by a turn."""
        ...

    async def switch_model(self, name: str) -> ModelInfo:
        """Let another model answer from here on."""
        ...

    def models(self) -> Sequence[ModelInfo]:
        """What is usable now."""
        ...

    def sessions(self) -> Sequence[SessionSummary]:
        """All sessions, newest first."""
        ...

    def fork(self, name: str, turn: int | None) -> SessionKey:
        """Start another session from a turn of this one."""
        ...

    async def accept_tools(self, server: str) -> list[str]:
        """Take a server's changed tools as they are now."""
        ...

    def project(self) -> ProjectInstructions:
        """What the folder wants to tell the agent, and whether it may."""
        ...

    def trust_project(self) -> ProjectInstructions:
        """Let this folder's instruction files be read, as they are now."""
        ...

    def distrust_project(self) -> None:
        """Read this folder's instruction files no longer."""
        ...

    async def run_shell(self, line: str) -> ToolResult:
        """Run a shell command that the person wrote, in the session's folder."""
        ...

    async def compact(self) -> list[Line]:
        """Let a summary stand for the older exchanges, now."""
        ...

    async def export(self, kind: str, path: Path) -> None:
        """Write this session to a file."""
        ...

    def free_name(self) -> str:
        """A name for a new session that nobody has yet."""
        ...

    def all_tools(self) -> dict[str, Tool]:
        """Every tool, switched on or not."""
        ...

    def switch_tool(self, name: str, *, on: bool) -> bool:
        """Offer a tool to the model or not; False when there is no such tool."""
        ...
