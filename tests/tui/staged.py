"""A conversation that plays what a test wants to see and writes down what a person does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from textual import events
from textual.pilot import Pilot
from textual.widgets import Button

from mindstone_tui.core import events as ev
from mindstone_tui.core.config.settings import BudgetSettings, TuiSettings
from mindstone_tui.core.context.budget import hard_mark
from mindstone_tui.core.context.report import (
    Block,
    ContextReport,
    GoneExchange,
    Marks,
    OutsideWindow,
    PromptNumbers,
    Tokens,
)
from mindstone_tui.core.entries.base import Span, Zone
from mindstone_tui.core.entries.derived import RecalledPassage
from mindstone_tui.core.entries.window import Component, Left, Receipt
from mindstone_tui.tui.app import MindstoneApp
from mindstone_tui.tui.host import AppHost, CommandHelp

GRACE = 1.0
SESSION = "agent:default:main"
COMMANDS = (
    CommandHelp(name="context", usage="[list|detail]", help="What the model sees next."),
    CommandHelp(name="compact", usage="[focus]", help="Summarise what leaves."),
    CommandHelp(name="pin", usage="[turn]", help="Keep an exchange in the window."),
    CommandHelp(name="restore", usage="TURN", help="Put an exchange back."),
    CommandHelp(
        name="theme", usage="[name]", help="Change the colours.", choices=("basalt", "chalk")
    ),
    CommandHelp(name="quit", help="Leave."),
)


class Staged:
    """A `Conversation` without a session behind it."""

    def __init__(self, events: Iterable[ev.AnyEvent] = ()) -> None:
        self._events: asyncio.Queue[ev.AnyEvent | None] = asyncio.Queue()
        for event in events:
            self._events.put_nowait(event)
        self.did: list[tuple[object, ...]] = []
        self.writing: list[float] = []
        """For how long each command was being written."""
        self.drawn = 0
        self.announced = self._events.qsize()

    def announce(self, *events: ev.AnyEvent) -> None:
        """Let more happen."""
        for event in events:
            self._events.put_nowait(event)
        self.announced += len(events)

    @property
    def settled(self) -> bool:
        """Everything announced so far was handed over and drawn."""
        return self.drawn > self.announced

    async def events(self) -> AsyncIterator[ev.AnyEvent]:
        self.drawn = 1
        while (event := await self._events.get()) is not None:
            yield event
            self.drawn += 1

    def send(
        self, text: str, *, attachments: Sequence[ev.Attachment] = (), steer: bool = False
    ) -> None:
        self.did.append(("send", text, tuple(a.path.name for a in attachments), steer))

    def command(self, line: str, *, how: str = "", seen: float = 0.0, writing: float = 0.0) -> None:
        self.did.append(("command", line, *([how] if how else [])))
        self.writing.append(writing)

    def answer(self, call: str, answer: ev.Answer) -> None:
        self.did.append(("answer", call, answer))

    def withdraw(self, entry: str) -> None:
        self.did.append(("withdraw", entry))

    def interrupt(self, *, how: str = "") -> None:
        self.did.append(("interrupt",))

    async def close(self) -> None:
        self.did.append(("close",))
        self._events.put_nowait(None)


def around(folder: Path = Path("/nonexistent"), theme: str = "basalt", **tui: object) -> AppHost:
    """What the app is given, with a theme and nothing that takes time."""
    settings = msgspec.convert({"theme": theme, **tui}, TuiSettings)
    return AppHost(
        settings=settings,
        commands=lambda: COMMANDS,
        folder=folder,
        decision_grace=-1,  # the clock stands still, and nothing is too early
        clock=lambda: 0.0,
        now=lambda: datetime(2026, 1, 5, 10, 0, tzinfo=UTC),
    )


def timed(*events: ev.AnyEvent) -> tuple[list[float], MindstoneApp, Staged]:
    """A clock that the test moves, and an app on a stage that reads it."""
    now = [100.0]
    host = msgspec.structs.replace(around(), decision_grace=GRACE, clock=lambda: now[0])
    return now, *staged(*events, given=host)


def in_view(app: MindstoneApp, talk: Staged) -> bool:
    """Whether a question is drawn, and the time began in which it can be read."""
    shown = app.chat.input_area.decision
    return shown is not None and talk.settled and shown.gate._shown is not None


async def step_in(pilot: Pilot[Any], now: list[float]) -> None:
    """Read the question that is in view, go to its answers, and take a moment there."""
    now[0] += GRACE + 0.5
    await pilot.press("tab")
    await until(pilot, lambda: isinstance(pilot.app.focused, Button))
    now[0] += GRACE


def staged(*events: ev.AnyEvent, given: AppHost | None = None) -> tuple[MindstoneApp, Staged]:
    """An app on a stage; the session is ready before anything else happens."""
    talk = Staged([ready(), *events])

    async def open_conversation(key: str) -> ev.Conversation:
        return talk

    return MindstoneApp(open_conversation, given or around()), talk


async def escape_again(pilot: Pilot[Any]) -> None:
    """Press Escape when it cannot be an earlier one that is held down."""
    again = events.Key("escape", "\x1b")
    again.time += 1.0
    pilot.app.post_message(again)
    await pilot.pause()


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    """Let the app work until something is true."""
    for _ in range(500):
        await pilot.pause()
        if holds():
            return
    raise AssertionError("it never happened")


def drawn(app: MindstoneApp) -> str:
    """What the screen shows, row by row."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def settle(pilot: Pilot[Any], talk: Staged) -> None:
    """Let everything announced be drawn."""
    await until(pilot, lambda: talk.settled)
    await pilot.pause()


def ready(
    turns: int = 0,
    model: str = "local/guide",
    note: str = "It is no language model: it answers from your history, quotes and runs tools.",
    session: str = SESSION,
) -> ev.SessionReady:
    return ev.SessionReady(
        session=session,
        model=model,
        note=note,
        turns=turns,
        entries=turns * 4,
    )


def asked(turn: int, text: str, queued: str = "") -> ev.TurnStarted:
    return ev.TurnStarted(turn=turn, entry=f"q{turn}", text=text, queued=queued)


def streamed(turn: int, text: str, size: int = 7) -> list[ev.AnyEvent]:
    return [ev.TextDelta(turn=turn, text=text[at : at + size]) for at in range(0, len(text), size)]


def recorded(turn: int, text: str, *, partial: bool = False) -> ev.AnswerRecorded:
    return ev.AnswerRecorded(turn=turn, entry=f"a{turn}", text=text, calls=0, partial=partial)


def done(turn: int, **fields: object) -> ev.TurnEnded:
    base = {"elapsed": 3.2, "usage": {"prompt": 4100, "completion": 312, "cost": 0.0123}}
    return msgspec.convert({"turn": turn, "ending": "done", **base, **fields}, ev.TurnEnded)


def said(turn: int, question: str, answer: str) -> list[ev.AnyEvent]:
    return [asked(turn, question), *streamed(turn, answer), recorded(turn, answer), done(turn)]


def tool(
    turn: int, call: str, name: str, shown: str, text: str, **fields: object
) -> list[ev.AnyEvent]:
    ended = {"status": "ok", "elapsed": 0.31, "finding": "", "diff": "", **fields}
    return [
        ev.ToolStarted(turn=turn, call=call, name=name, shown=shown),
        msgspec.convert(
            {"turn": turn, "call": call, "name": name, "entry": f"e{call}", "text": text, **ended},
            ev.ToolEnded,
        ),
    ]


def left(turn: int, tokens: int = 1_840, reason: str = "oldest first") -> Left:
    return Left(
        turn=turn,
        span=Span(turn * 4, turn * 4 + 3),
        tokens=tokens,
        score=0.1,
        reason=reason,
        receipt=Receipt(turn=turn, passages=3, vectors="stored"),
    )


def gone(*turns: int, tokens: int = 1_840) -> tuple[GoneExchange, ...]:
    """Exchanges outside the window, as the report lists them."""
    return tuple(
        GoneExchange(turn=turn, tokens=tokens, words=f"What was asked in turn {turn}, [b]as is[/b]")
        for turn in sorted(turns, reverse=True)
    )


def pruned(turn: int, *turns: int) -> ev.WindowPruned:
    return ev.WindowPruned(
        turn=turn,
        entry=f"p{turn}",
        left=tuple(left(one) for one in turns),
        tokens_before=113_400,
        tokens_after=85_900,
        policy="fifo",
        trigger="ceiling",
    )


def passage(
    text: str = "We chose SQLite because it is one file.", turn: int = 17
) -> RecalledPassage:
    return RecalledPassage(
        session=SESSION,
        entry=f"p{turn}",
        seq=turn * 4,
        turn=turn,
        ts="2026-01-03T10:00:00Z",
        speaker="you",
        score=0.82,
        tokens=24,
        text=text,
    )


def recalled(turn: int, *passages: RecalledPassage) -> ev.RecallInjected:
    return ev.RecallInjected(
        turn=turn, entry=f"r{turn}", query="storage", passages=passages or (passage(),), tokens=24
    )


USABLE = 121_600
LIMITS = {
    "system_prompt": 7_680,
    "tool_definitions": 5_120,
    "message_history": 83_200,
    "tool_results": 15_360,
    "memory_injection": 10_240,
    "output_reserve": 6_400,
}


def blocks(count: int = 12) -> tuple[Block, ...]:
    kinds = (
        ("user_message", "user"),
        ("assistant_message", "assistant"),
        ("tool_returned", "tool"),
    )
    return tuple(
        Block(
            entry=f"01J{n:05}",
            seq=100 + n,
            kind=kinds[n % 3][0],
            role=kinds[n % 3][1],
            turn=20 + n // 3,
            tokens=240 + 137 * (n % 5),
            protected=n < 2 or n >= count - 3,
            why="original task" if n < 2 else "current exchange" if n >= count - 3 else "fifo",
            preview=f"What the entry {n} begins with, [bold]as it is[/bold]",
            score=round(1 - n / count, 2),
            parts={"age": round(n / count, 2), "kind": 0.4},
            age=count - n,
            pinned=n == 1,
        )
        for n in range(count)
    )


def report(zone: Zone = "green", full: float = 0.34, **fields: object) -> ContextReport:
    """A window of 128K, as full as it is told."""
    prompt = round(full * USABLE)
    shares = {
        "system_prompt": round(min(2_100, prompt * 0.2)),
        "tool_definitions": round(min(3_900, prompt * 0.3)),
        "tool_results": round(prompt * 0.14),
        "memory_injection": round(min(1_200, prompt * 0.1)),
        "output_reserve": 6_400,
    }
    shares["message_history"] = prompt - sum(shares.values()) + 6_400
    base = ContextReport(
        session=SESSION,
        model="anthropic/claude-sonnet-4-5",
        window=Tokens(tokens=128_000, label="measured"),
        reserve=6_400,
        usable=USABLE,
        prompt=PromptNumbers(tokens=prompt, label="anchored", error_percent=2.6),
        utilization=full,
        raw_utilization=prompt / 128_000,
        zone=zone,
        velocity=2_140,
        velocity_class="medium",
        turns_until_red=None if zone == "red" else (0.9 - full) * USABLE / 2_140,
        marks=Marks(
            trim=round(0.75 * USABLE),
            trim_to=round(0.60 * USABLE),
            checkpoint=round(0.85 * USABLE),
            ceiling=round(0.92 * USABLE),
            floor=round(0.70 * USABLE),
            emergency=round(0.95 * USABLE),
            yellow=round(0.5 * USABLE),
            orange=round(0.75 * USABLE),
            red=round(0.9 * USABLE),
        ),
        components=tuple(
            Component(name=name, tokens=shares[name], limit=limit, soft=hard * 4 // 5, hard=hard)
            for name, limit in LIMITS.items()
            for hard in (hard_mark(name, limit, BudgetSettings()),)
        ),
        blocks=blocks(),
        outside=OutsideWindow(exchanges=0, tokens=0, indexed=True),
        prompt_hash="0" * 64,
        stable_prefix_tokens=round(prompt * 0.87),
        turn=31,
        cached_tokens=round(prompt * 0.87),
        cost=0.4127,
        velocities=(900, 1200, 800, 2100, 2600, 1900, 5200, 1400, 2300, 2100),
    )
    return msgspec.structs.replace(base, **fields)


def reported(zone: Zone = "green", full: float = 0.34, **fields: object) -> ev.ContextReported:
    return ev.ContextReported(report=report(zone, full, **fields))
