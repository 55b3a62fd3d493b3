"""What a turn works with: every collaborator, handed in by the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.working_set import WorkingSet
from mindstone_tui.core.entries import Entry, Line
from mindstone_tui.core.entries.memory import RecallInjected
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import Interrupted
from mindstone_tui.core.events import Answer
from mindstone_tui.core.providers.protocol import ModelInfo, Provider, Window
from mindstone_tui.core.tools.tool import Tool, ToolContext
from mindstone_tui.core.transcript import Transcript


class Recaller(Protocol):
    """Finds what was said before, for one turn."""

    async def gather(self, text: str, turn: int, share: int) -> RecallInjected | None:
        """The passages worth bringing back for a message; None when nothing is good enough."""
        ...


class Gate(Protocol):
    """Decides whether a call may run, must be asked about, or is refused."""

    def judge(self, tool: Tool, arguments: Mapping[str, object], context: ToolContext) -> Judged:
        """What may happen, and exactly what would run."""
        ...

    def remember(self, call: str, answer: Answer) -> None:
        """Keep a rule that a person gave with an answer."""
        ...


class Judged(Protocol):
    """A judgement about one call."""

    verdict: str
    """`allow`, `ask` or `refuse`."""
    reason: str
    shown: str
    digest: str
    diff: str
    rules: tuple[str, ...]
    context: ToolContext
    """What the tool gets when it runs: confined when it was not asked about."""


class Questions:
    """Questions to the person that wait for an answer, by call."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, call: str) -> asyncio.Future[Answer]:
        """A place for the answer; open it before the question is announced."""
        return self._open.setdefault(call, asyncio.get_running_loop().create_future())

    def answer(self, call: str, answer: Answer) -> bool:
        """Hand an answer over; False when nobody waits for it."""
        waiting = self._open.pop(call, None)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
        return True

    def abandon(self) -> None:
        """Nobody will answer any more."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(Interrupted("The turn was interrupted."))
                waiting.exception()
        self._open.clear()


class Desk:
    """The collaborators of one session, as a turn and a command see them."""

    def __init__(
        self,
        *,
        transcript: Transcript,
        working_set: WorkingSet,
        settings: Settings,
        provider: Provider,
        info: ModelInfo,
        window: Window,
        tools: Mapping[str, Tool],
        tool_context: Callable[[str], ToolContext],
        gate: Gate,
        recaller: Recaller,
        standing: Callable[[], tuple[Section, ...]],
        position: int = 0,
    ) -> None:
        self.transcript = transcript
        self.working_set = working_set
        self.settings = settings
        self.provider = provider
        self.info = info
        self.window = window
        self.tools = tools
        self.tool_context = tool_context
        self.gate = gate
        self.recaller = recaller
        self.standing = standing
        self.position = position
        self.questions = Questions()
        self.steering: list[str] = []

    def record(self, entry: Entry, turn: int) -> Line:
        """Write an entry and let the working set know; on disk when this returns."""
        line = self.transcript.append(entry, turn=turn)
        self.working_set.take(line)
        return line
