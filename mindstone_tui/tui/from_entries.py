"""The conversation as exchanges, each a list of events.

Widgets are made from these lists when they come into view and thrown away when they leave it, so
the lists are what is kept. They are kept small: once an answer is recorded its pieces are dropped.
"""

import asyncio
import itertools
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries import Line, Unknown
from mindstone_tui.core.entries.derived import MemoryDecided, OfferAnswered
from mindstone_tui.core.entries.standings import NOTES, UNDONE, Standings
from mindstone_tui.core.errors import NoSuchEntry
from mindstone_tui.core.events import from_entry, narrate
from mindstone_tui.core.text import as_written, unfenced
from mindstone_tui.core.transcript.reader import Damaged, History, Item, read_line, standings_of

_BETWEEN = (
    *(ev.ContextReported, ev.SessionReady, ev.ScreenAsked, ev.CommandEnded),
    *(ev.UsageReported, ev.ModelCalled),
)
"""Events the chat does not draw."""
_TELLS: Final = NOTES | {"user_message"}
"""Kinds of lines that tell what became of a turn, with those they tell it of."""
_PASSED_OVER: Final = frozenset(
    {"model_changed", "message_queued", "message_withdrawn", "model_failed", "command_run"}
)
"""Kinds worth a line only while they happen; in history the turn itself says enough."""


class ExchangeEvents:
    """What happened in one turn, and after it until the next."""

    def __init__(self, turn: int, events: Iterable[ev.AnyEvent] = ()) -> None:
        self.turn = turn
        self.notes: tuple[str, ...] = ()
        """What it says by now of what became of it."""
        self.events: list[ev.AnyEvent] = []
        for event in events:
            self.add(event)

    @property
    def since(self) -> str:
        """What became of the files that it changed, instead of how to take it back."""
        rest = (note.removeprefix(UNDONE)[:-1] for note in self.notes if note.startswith(UNDONE))
        return next((f"taken back since{left}" for left in rest), "")

    def add(self, event: ev.AnyEvent) -> None:
        """Take one more event; a recorded whole replaces its streamed pieces."""
        match event:
            case ev.AnswerRecorded():
                self._drop(ev.TextDelta)
            case ev.ToolEnded(call=call):
                self._drop(ev.ToolOutput, call)
            case ev.TurnEnded():
                self._join_thinking()
        self.events.append(event)

    def _drop(self, kind: type[ev.TextDelta] | type[ev.ToolOutput], call: str = "") -> None:
        self.events = [
            event
            for event in self.events
            if not isinstance(event, kind) or getattr(event, "call", "") != call
        ]

    def _join_thinking(self) -> None:
        joined: list[ev.AnyEvent] = []
        run: list[str] = []
        for event in [*self.events, None]:
            if isinstance(event, ev.ThinkingDelta):
                run.append(event.text)
                continue
            if run:
                joined.append(ev.ThinkingDelta(turn=self.turn, text="".join(run)))
                run = []
            if event is not None:
                joined.append(event)
        self.events = joined

    @property
    def ended(self) -> bool:
        """The turn is over, or there was none."""
        started = any(isinstance(event, ev.TurnStarted) for event in self.events)
        return not started or any(isinstance(event, ev.TurnEnded) for event in self.events)

    @property
    def answer(self) -> str:
        """Everything the model said in it."""
        said = [
            event.text
            for event in self.events
            if isinstance(event, ev.AnswerRecorded | ev.TextDelta) and event.text
        ]
        recorded = any(isinstance(event, ev.AnswerRecorded) for event in self.events)
        return ("\n\n" if recorded else "").join(said)

    @property
    def question(self) -> str:
        """What was asked in it."""
        asked = (
            event.text
            for event in self.events
            if isinstance(event, ev.TurnStarted)
            or (isinstance(event, ev.EntryAppeared) and event.kind == "user_message")
        )
        return as_written(next(asked, ""))


class Feed(msgspec.Struct, eq=False):
    """Every exchange that was read or heard so far, oldest first."""

    exchanges: list[ExchangeEvents] = []

    def __len__(self) -> int:
        return len(self.exchanges)

    def add(self, event: ev.AnyEvent) -> ExchangeEvents | None:
        """Put an event where it belongs; None when the chat has nothing to draw for it."""
        if isinstance(event, _BETWEEN):
            return None
        turn: int = getattr(event, "turn", 0)
        if isinstance(event, ev.TurnStarted) and event.resumed and self._find(turn):
            return None
        if isinstance(event, ev.TurnStarted) or (
            isinstance(event, ev.EntryAppeared) and event.kind == "user_message"
        ):
            return self._open(turn, event)
        if (exchange := self._find(turn)) is None:
            return self._open(turn, event)
        exchange.add(event)
        return exchange

    def prepend(self, older: Sequence[ExchangeEvents]) -> None:
        """Put what was read from history before everything else."""
        self.exchanges[:0] = older

    def _open(self, turn: int, event: ev.AnyEvent) -> ExchangeEvents:
        exchange = ExchangeEvents(turn, [event])
        self.exchanges.append(exchange)
        return exchange

    def _find(self, turn: int) -> ExchangeEvents | None:
        if turn:
            for exchange in reversed(self.exchanges[-4:]):
                if exchange.turn == turn:
                    return exchange
        return self.exchanges[-1] if self.exchanges else None


def exchanges_in(lines: Iterable[Item], behind: Iterable[Item] = ()) -> list[ExchangeEvents]:
    """The exchanges recorded in consecutive lines, oldest first.

    One that was taken back says so, as far as the lines `behind` know of it. What was offered and
    decided is not asked about again.
    """
    every, later = list(lines), list(behind)
    known = [line for line in (*every, *later) if isinstance(line, Line)]
    acts = {line.seq: line for line in known if line.kind in _TELLS}
    became = Standings(acts[seq] for seq in sorted(acts))
    settled = {str(line.entry.proposal) for line in known if isinstance(line.entry, MemoryDecided)}
    settled |= {f"#{line.entry.offer}" for line in known if isinstance(line.entry, OfferAnswered)}
    found: list[ExchangeEvents] = []
    began = ""
    for line in every:
        turn = line.turn if isinstance(line, Line) else (found[-1].turn if found else 0)
        if isinstance(line, Line) and line.kind in _PASSED_OVER:
            continue
        for event in from_entry.events_of(line):
            offered = getattr(event, "proposal", "") or f"#{getattr(line, 'seq', '')}"
            if isinstance(event, _BETWEEN) or offered in settled:
                continue
            if not found or found[-1].turn != turn:
                found.append(ExchangeEvents(turn))
            if isinstance(line, Line) and isinstance(event, ev.TurnStarted):
                began = line.ts
            if isinstance(line, Line) and isinstance(event, ev.TurnEnded) and event.usage.prompt:
                event = msgspec.structs.replace(event, elapsed=_between(began, line.ts))
            found[-1].add(event)
            if isinstance(event, ev.TurnStarted):
                found[-1].notes = became.notes(turn)
                for note in found[-1].notes:
                    found[-1].add(ev.Noticed(message=note, level="warning"))
    return found


def _between(began: str, ended: str) -> float:
    """Seconds from one moment to a later one; 0 where one of them is not known."""
    try:
        passed = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:
        return 0.0
    return max(passed.total_seconds(), 0.0)


def split_at_turn(lines: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Lines of the first turn, which may have begun earlier, and all that come after it."""
    first = next((line.turn for line in lines if isinstance(line, Line)), 0)
    for at, line in enumerate(lines):
        if isinstance(line, Line) and line.turn != first:
            return list(lines[:at]), list(lines[at:])
    return list(lines), []


def _text_of(line: Line) -> str:
    if isinstance(line.entry, Unknown):
        return ""
    text = getattr(line.entry, "text", "")
    return text if isinstance(text, str) else ""


def whole(line: Item) -> str:
    """The full content of a line: its text, or its fields as JSON."""
    if isinstance(line, Damaged):
        return line.raw.decode("utf-8", "replace")
    if text := _text_of(line):
        # A person's message stands as it was sent; the marks around data are the program's own.
        return text if line.role == "user" else unfenced(text)
    fields = line.entry.fields if isinstance(line.entry, Unknown) else line.entry
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def contains(line: Item, text: str) -> bool:
    """Whether the line contains the text, ignoring case."""
    wanted = text.casefold()
    return wanted in narrate.describe_line(line).text.casefold() or wanted in whole(line).casefold()


_STRIDE: Final = 2_000
"""Lines that a search looks through before it goes further back."""


class HistoryBrowse(msgspec.Struct, eq=False):
    """Reads an open `History`; one question at a time."""

    _history: History
    _lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    async def length(self) -> int:
        async with self._lock:
            return await asyncio.to_thread(lambda: len(self._history.offsets))

    async def lines(self, first: int, count: int) -> Sequence[Item]:
        async with self._lock:
            return await asyncio.to_thread(self._lines, first, count)

    def _lines(self, first: int, count: int) -> list[Item]:
        offsets = self._history.offsets
        if first >= len(offsets) or count <= 0:
            return []
        found = list(itertools.islice(self._history.read_from(offsets.start(first)), count))
        return [self._history.whole(line) if isinstance(line, Line) else line for line in found]

    async def standings(self) -> Standings:
        async with self._lock:
            return await asyncio.to_thread(standings_of, self._history)

    async def search(self, text: str, before: int) -> int | None:
        end = before
        while end > 0:
            first = max(0, end - _STRIDE)
            async with self._lock:
                found = await asyncio.to_thread(self._search, text, first, end)
            if found is not None:
                return found
            end = first
        return None

    def _search(self, text: str, first: int, end: int) -> int | None:
        """The last of these lines that contains the text; most are ruled out without decoding."""
        offsets = self._history.offsets
        if first >= len(offsets):
            return None
        wanted = json.dumps(text, ensure_ascii=False)[1:-1].casefold()
        found = None
        raws = itertools.islice(self._history.raw_from(offsets.start(first)), end - first)
        for number, (offset, raw) in enumerate(raws, first):
            if wanted in raw.decode("utf-8", "replace").casefold() and contains(
                read_line(raw, offset), text
            ):
                found = number
        return found

    async def place_of(self, entry: str) -> int | None:
        async with self._lock:
            try:
                return (await asyncio.to_thread(self._history.find, entry)).seq
            except NoSuchEntry:
                return None

    async def first_of(self, turn: int) -> int | None:
        async with self._lock:
            lines = await asyncio.to_thread(self._history.turn, turn)
        return lines[0].seq if lines else None
