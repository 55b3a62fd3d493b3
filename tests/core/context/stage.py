"""A session on stage: no syncs, no vocabularies, and an index that can be broken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mindstone_tui.core.config import Settings
from mindstone_tui.core.config.settings import ContextSettings
from mindstone_tui.core.context.plan import Prepared, prepare
from mindstone_tui.core.context.window import LiveWindow
from mindstone_tui.core.context.window_view import ExchangeLines, Target
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.entries import Line, Message, ToolCall, ToolSchema, Usage
from mindstone_tui.core.entries.conversation import (
    AssistantMessage,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from mindstone_tui.core.entries.window import Receipt, Section
from mindstone_tui.core.errors import IndexUnavailable
from mindstone_tui.core.replay.in_memory import InMemoryTranscript
from mindstone_tui.core.transcript import Transcript
from tests.builders import places_in, transcript_in

T = TypeVar("T")

MODEL = "test/plain"


class Unsynced(Disk):
    """A disk that is believed at once, so that many sessions can be played quickly."""

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_folder(self, folder: Path) -> None:
        """Nothing."""


class Quarter:
    """Counts a token for each four characters; fast, and the same everywhere."""

    method = "quarter"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def text(self, text: str) -> int:
        self.counted.append(text)
        return (len(text) + 3) // 4

    def message(self, message: Message) -> int:
        total = 4 + self.text(str(message.get("content") or ""))
        for call in message.get("tool_calls") or ():
            total += 4 + self.text(call["function"]["name"] + call["function"]["arguments"])
        for block in message.get("thinking_blocks") or ():
            total += self.text(block.get("thinking", ""))
        return total

    def tools(self, tools: Sequence[ToolSchema]) -> int:
        return sum(self.text(msgspec.json.encode(tool).decode()) for tool in tools)

    def image(self, width: int, height: int) -> int:
        return width * height // 750

    async def ready(self) -> None:
        """Nothing to load."""


class FakeIndex:
    """Gives receipts, unless it is told to fail or to refuse some turns."""

    def __init__(self) -> None:
        self.failing = False
        self.refused: set[int] = set()
        self.asked: list[ExchangeLines] = []
        self.meanwhile: Callable[[], None] | None = None

    def ensure(self, turns: Sequence[ExchangeLines]) -> Mapping[int, Receipt]:
        if self.meanwhile is not None:
            happening, self.meanwhile = self.meanwhile, None
            happening()
        if self.failing:
            raise IndexUnavailable("The index is broken.", "Reindex.")
        good = [each.turn for each in turns if each.turn not in self.refused]
        self.asked.extend(turns)
        return {turn: Receipt(turn=turn, passages=1, digest="d") for turn in good}


def finish(work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Run a coroutine that never really waits."""
    try:
        work.__await__().__next__()
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("it waited for something")


class Stage:
    """A session with its working set, driven turn by turn; without a home, in memory alone."""

    def __init__(
        self,
        home: Path | None,
        *,
        window: int = 8_000,
        settings: Settings | None = None,
        instructions: str = "You are a stone that remembers.",
    ) -> None:
        self.index = FakeIndex()
        self.counter = Quarter()
        self.settings = settings or Settings()
        self.transcript: Transcript = (
            InMemoryTranscript(places_in(Path("/nowhere")), channel="test")
            if home is None
            else transcript_in(home, disk=Unsynced())
        )
        self.history = self.transcript.history()
        self.window = self.open()
        self.window.set_model(MODEL, window=window, label="measured")
        self.window.set_instructions([Section(name="identity", text=instructions)])
        self.prepared: list[Prepared] = []

    def open(self) -> LiveWindow:
        """The working set as another process would open it."""
        return LiveWindow(
            self.history,
            self.settings,
            transcript=self.transcript,
            indexer=self.index,
            counters=lambda model: self.counter,
            threads=False,
        )

    def close(self) -> None:
        """Give the files back."""
        self.history.close()
        self.transcript.close()

    @property
    def turn(self) -> int:
        return self.transcript.last_turn

    def ask(self, text: str) -> int:
        """Begin a turn."""
        turn = self.transcript.last_turn + 1
        self.transcript.append(TurnStarted(), turn=turn)
        self.transcript.append(UserMessage(text=text), turn=turn)
        return turn

    def plan(self, call: int = 1, *, tail: Sequence[int] = (), **target: Any) -> Prepared:
        prepared = finish(prepare(self.window, Target(**target), call=call, tail=tail))
        self.prepared.append(prepared)
        return prepared

    def answer(self, text: str, calls: Sequence[ToolCall] = ()) -> Line:
        return self.transcript.append(
            AssistantMessage(text=text, model=MODEL, calls=tuple(calls)), turn=self.turn
        )

    def result(self, call: str, text: str, name: str = "read") -> Line:
        self.transcript.append(
            ToolCalled(call=call, name=name, shown=name, digest="0" * 64), turn=self.turn
        )
        return self.transcript.append(
            ToolReturned(call=call, name=name, text=text, finding=f"found {text[:12]}"),
            turn=self.turn,
        )

    def report_usage(self, prompt: int, call: int = 1) -> Line:
        line = self.transcript.append(
            UsageReported(call=call, model=MODEL, usage=Usage(prompt=prompt)), turn=self.turn
        )
        self.window.note_usage(line)
        return line

    def end(self) -> None:
        self.transcript.append(TurnEnded(ending="done"), turn=self.turn)

    def chat(self, question: str, answer: str) -> Prepared:
        """One plain turn."""
        self.ask(question)
        prepared = self.plan()
        self.answer(answer)
        self.end()
        return prepared

    def look(self, turn: int, number: int, text: str, path: str = "a.txt") -> None:
        """The model reads a file, and gets it."""
        call = ToolCall(id=f"call_{turn}_{number}", name="read", arguments=f'{{"path":"{path}"}}')
        self.answer("", [call])
        self.result(call.id, text)

    def work(self, question: str, results: Sequence[str], answer: str) -> list[Prepared]:
        """One turn that calls a tool for each result, one after the other."""
        turn = self.ask(question)
        plans = []
        for number, text in enumerate(results, 1):
            plans.append(self.plan(number))
            self.look(turn, number, text)
        plans.append(self.plan(len(results) + 1))
        self.answer(answer)
        self.end()
        return plans


def kinds(prepared: Prepared) -> list[str]:
    """What planning wrote."""
    return [line.kind for line in prepared.lines]


def with_context(**changes: Any) -> Settings:
    """Settings that differ in [context]."""
    return Settings(context=ContextSettings(**changes))


def words(tokens: int, tag: str = "") -> str:
    """A text of about so many tokens by the stage's counter."""
    unit = f"{tag or 'stone'} rolls on. "
    return (unit * (tokens * 4 // len(unit) + 1))[: tokens * 4]
