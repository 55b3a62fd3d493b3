"""A turn's context without a session around it: a provider that says what it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.agent.context import TurnContext, TurnServices
from mindstone_tui.core.agent.hooks import Hooks
from mindstone_tui.core.agent.permissions import Permissions
from mindstone_tui.core.agent.system_prompt import SystemPrompt
from mindstone_tui.core.agent.turn import take_turn
from mindstone_tui.core.agent.undo import FileKeeper
from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import UndoSettings
from mindstone_tui.core.context.policies import Similarity, word_similarity
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.entries import Line, Request
from mindstone_tui.core.entries.conversation import UserMessage
from mindstone_tui.core.entries.derived import MemoryDigested, RecallInjected
from mindstone_tui.core.entries.window import Section
from mindstone_tui.core.errors import ProviderError
from mindstone_tui.core.providers.base import (
    CallDelta,
    Delta,
    Finished,
    ModelInfo,
    Options,
    Retrying,
    TextPart,
    Window,
)
from mindstone_tui.core.redaction import Redactor
from mindstone_tui.core.tools.approvals import Mode
from mindstone_tui.core.tools.base import (
    Preview,
    Risk,
    Tool,
    ToolContext,
    ToolLimits,
    ToolResult,
    declare,
)
from mindstone_tui.core.tools.sandbox import Sandbox
from mindstone_tui.core.tools.shell_rules import Rule
from mindstone_tui.core.tools.workspace import Workspace
from tests.builders import transcript_in
from tests.core.context.stage import FakeIndex, Quarter, Unsynced

MODEL = "test/plain"
Reply = Sequence[Delta | Retrying | ProviderError]


def saying(text: str) -> Reply:
    """A reply of these words."""
    return [TextPart(text=text), Finished(reason="stop")]


class Replies:
    """Answers with each reply in turn, and remembers what it was asked."""

    def __init__(self, *replies: Reply, window: int = 8_000) -> None:
        self._replies = list(replies)
        self._window = window
        self.requests: list[Request] = []

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(name=model, window=Window(tokens=self._window, label="measured"))

    async def served_window(self, model: str) -> Window | None:
        return None

    async def stream(self, request: Request, options: Options) -> AsyncIterator[Delta | Retrying]:
        self.requests.append(request)
        for delta in self._replies.pop(0):
            if isinstance(delta, ProviderError):
                raise delta
            yield delta

    async def close(self) -> None:
        """Nothing to give back."""


async def no_sandbox() -> Sandbox | None:
    return None


def permissions(mode: Mode = "ask", *rules: Rule, asks: bool = True) -> Permissions:
    """Permissions on a machine that has no sandbox."""
    return Permissions(mode, rules, no_sandbox, asks=asks)


async def nothing_brought(text: str, share: int) -> AsyncIterator[MemoryDigested | RecallInjected]:
    return
    yield


async def ready() -> Sequence[events.AnyEvent]:
    return ()


def services() -> TurnServices:
    """A session that has an identity, and neither memories nor recall."""
    identity = Section(name="identity", text="You are a stone that remembers.")
    return TurnServices(
        untold=tuple,
        make_ready=ready,
        system_prompt=lambda: SystemPrompt((identity,)),
        bring=nothing_brought,
        recalls=lambda: False,
    )


def context_of(
    window: LiveWindow,
    provider: Replies,
    *tools: Tool,
    model: str = MODEL,
    allowed: Permissions | None = None,
    bugs: list[BaseException] | None = None,
) -> TurnContext:
    """The context of turns in this window."""
    folder = window.history.places.folder
    context = TurnContext(
        window=window,
        model=model,
        provider=provider,
        tools={tool.name: tool for tool in tools},
        tool_context=lambda call: ToolContext(
            workspace=Workspace((folder,)), call=call, limits=ToolLimits()
        ),
        permissions=allowed or permissions(),
        files=FileKeeper(
            window.history.places,
            Workspace((folder,)),
            UndoSettings(on=False),
            history=window.transcript.history,
            record=window.record,
        ),
        hooks=Hooks(
            load=lambda: ((), ()),
            record=window.record,
            places=window.history.places,
            permissions=allowed or permissions(),
            tool_context=lambda call: ToolContext(workspace=Workspace((folder,))),
            redactor=Redactor(),
            seconds=1.0,
            network=False,
        ),
        redactor=Redactor(),
        report_bug=(bugs if bugs is not None else []).append,
    )
    context.services = services()
    return context


async def heard(context: TurnContext, text: str) -> list[events.AnyEvent]:
    """Every event of one turn."""
    told: list[events.AnyEvent] = []
    await take_turn(context, UserMessage(text=text), told.append)
    return told


def window_in(
    home: Path, settings: Settings | None = None, similar: Similarity = word_similarity
) -> LiveWindow:
    """The window of a session that begins now."""
    transcript = transcript_in(home, disk=Unsynced())
    counter = Quarter()
    return LiveWindow(
        transcript.history(),
        settings or Settings(),
        transcript=transcript,
        indexer=FakeIndex(),
        counters=lambda model: counter,
        similar=similar,
        threads=False,
    )


class Nothing(msgspec.Struct):
    """A tool that takes no arguments."""


def tool(name: str = "look", risk: Risk = "read", result: str = "a stone") -> Tool:
    """A tool that always gives the same."""

    async def run(arguments: Nothing, context: ToolContext) -> ToolResult:
        return ToolResult(text=result, finding=result)

    def preview(arguments: Nothing, context: ToolContext) -> Preview:
        return Preview(title=name)

    return declare(name, f"Use {name}.", risk, Nothing, run, preview)


def calling(*names: str) -> Reply:
    """A reply that asks for tools."""
    asked = [CallDelta(index=at, id=f"c{at}", name=name) for at, name in enumerate(names)]
    return [*asked, Finished(reason="tool_calls")]


def kinds(context: TurnContext) -> list[str]:
    """What is on disk, by kind."""
    with context.transcript.history() as history:
        return [line.kind for line in history.read() if isinstance(line, Line)]
