"""What a slash command may use. The session implements it; commands never see more."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from mindstone_tui.core.errors import UnknownName, UsageError
from mindstone_tui.core.events import AnyEvent

if TYPE_CHECKING:
    from mindstone_tui.core.agent.context import Desk
    from mindstone_tui.core.agent.continuity import Continuity
    from mindstone_tui.core.entries import Line
    from mindstone_tui.core.paths import Places, SessionKey, SessionPlaces
    from mindstone_tui.core.providers.base import ModelInfo
    from mindstone_tui.core.recall.index import Found
    from mindstone_tui.core.tools.base import Tool, ToolResult
    from mindstone_tui.core.tools.trust import ProjectInstructions
    from mindstone_tui.core.transcript import History
    from mindstone_tui.core.transcript.directory import SessionSummary


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


Handler = Callable[[Bench, str], AsyncIterator[AnyEvent]]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command as everybody sees it."""

    name: str
    help: str
    handler: Handler
    usage: str = ""
    details: str = ""
    changes_window: bool = False
    """Waits until no turn is running, because the running one plans with the window."""
    words: tuple[str, ...] = ()
    """Completions for its argument."""

    @property
    def synopsis(self) -> str:
        """`/name usage`."""
        return f"/{self.name} {self.usage}".rstrip()


COMMANDS: Final[dict[str, Command]] = {}


def command(
    name: str,
    *,
    usage: str = "",
    changes_window: bool = False,
    words: tuple[str, ...] = (),
) -> Callable[[Handler], Handler]:
    """Register a slash command; the first line of its docstring is its help."""

    def register(handler: Handler) -> Handler:
        if name in COMMANDS or not handler.__doc__:
            raise ValueError(f"/{name} needs a docstring and a name of its own")
        summary, _, details = inspect.cleandoc(handler.__doc__).partition("\n")
        COMMANDS[name] = Command(
            name=name,
            help=summary,
            handler=handler,
            usage=usage,
            details=details.strip(),
            changes_window=changes_window,
            words=words,
        )
        return handler

    return register


def parse(line: str) -> tuple[Command, str]:
    """The command of a line and its argument; an unknown one suggests the nearest."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    found = COMMANDS.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), COMMANDS, n=1, cutoff=0.5)
        hint = f"Did you mean /{near[0]}?" if near else "/help lists every command."
        raise UnknownName(f"There is no command /{name}.", hint)
    return found, argument.strip()


def wrong_use(name: str, why: str) -> UsageError:
    """A clear word on how a command is used."""
    return UsageError(why, f"Usage: {COMMANDS[name].synopsis}")
