"""A session in numbers: how long, how much, how full its window was."""

from __future__ import annotations

from collections.abc import Iterable

from mindstone_tui.core.entries import Line, Part, Zone
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned, UserMessage
from mindstone_tui.core.entries.store import Imported
from mindstone_tui.core.entries.window import (
    ContextWindowPruned,
    Measure,
    PromptPlanned,
    ZoneChanged,
)
from mindstone_tui.core.events.narrate import describe_line
from mindstone_tui.core.text import plural


class Point(Part):
    """How full the window was when a request was sent."""

    turn: int
    seq: int
    tokens: int
    utilization: float
    zone: Zone


class Overview(Part):
    """The whole session in numbers."""

    session: str
    began: str = ""
    ended: str = ""
    turns: int = 0
    messages: int = 0
    tools: int = 0
    models: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    prunes: tuple[tuple[int, int, str], ...] = ()
    """Turn, line and title of every prune."""
    imported_from: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        """How much there is of everything, in words."""
        counted = [(self.turns, "turn"), (self.messages, "message"), (self.tools, "tool result")]
        prunes = [(len(self.prunes), "prune")] if self.prunes else []
        return tuple(plural(number, noun) for number, noun in [*counted, *prunes])


def overview(session: str, lines: Iterable[Line]) -> Overview:
    """Everything that can be said about a session before it is told."""
    seen = _Seen()
    for line in lines:
        seen.take(line)
    return Overview(
        session=session,
        began=seen.began,
        ended=seen.ended,
        turns=seen.turns,
        messages=seen.messages,
        tools=seen.tools,
        models=tuple(seen.models),
        points=tuple(seen.points),
        prunes=tuple(seen.prunes),
        imported_from=seen.imported,
    )


class _Seen:
    """What has been counted so far."""

    def __init__(self) -> None:
        self.began = self.ended = self.imported = ""
        self.turns = self.messages = self.tools = 0
        self.models: dict[str, None] = {}
        self.points: list[Point] = []
        self.prunes: list[tuple[int, int, str]] = []
        self._zone: Zone = "green"

    def take(self, line: Line) -> None:
        """Count one line."""
        self.turns = max(self.turns, line.turn)
        if isinstance(line.entry, UserMessage | AssistantMessage | ToolReturned):
            self.began = min(self.began or line.ts, line.ts)
            self.ended = max(self.ended, line.ts)
        match line.entry:
            case UserMessage():
                self.messages += 1
            case AssistantMessage(model=model):
                self.messages += 1
                self.models |= {model: None} if model else {}
            case ToolReturned():
                self.tools += 1
            case ZoneChanged(after=after):
                self._zone = after
            case Imported(format=name):
                self.imported = name
            case PromptPlanned(measure=Measure() as measure, purpose=""):
                self.points.append(self._point(line, measure))
            case ContextWindowPruned():
                self.prunes.append((line.turn, line.seq, describe_line(line).text))

    def _point(self, line: Line, measure: Measure) -> Point:
        return Point(
            turn=line.turn,
            seq=line.seq,
            tokens=measure.tokens,
            utilization=measure.utilization,
            zone=self._zone,
        )
