"""A recorded session through the same stream as a live one: played, paused, stepped, jumped in.

`Replay` is a `Conversation`: whoever draws a session draws a recording. It reads the transcript and
nothing else; no model is asked, no tool runs, no file is opened for writing. A jump begins the
stream anew with `session_ready`, a few turns before the place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mindstone_tui.core import events as ev
from mindstone_tui.core.config.settings import Settings
from mindstone_tui.core.context.build_report import report_at
from mindstone_tui.core.context.policies import text_of
from mindstone_tui.core.entries import IMPORTED, Line, window
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.events.from_entry import Announcer
from mindstone_tui.core.interchange.samples import SAMPLE_SESSION, import_sample
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.replay.in_memory import InMemoryTranscript
from mindstone_tui.core.replay.survey import Kind, Landmark, survey
from mindstone_tui.core.transcript import Damaged, History

if TYPE_CHECKING:
    from mindstone_tui.core.replay.rehearsal import RehearsalOptions

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 0.0)
"""What faster and slower go through; 0 does not wait at all."""
_PIECE: Final = 24
"""Characters of an answer that come at once."""
_PAUSES: Final[dict[type[ev.AnyEvent], float]] = {
    ev.TurnStarted: 0.9,
    ev.TextDelta: 0.05,
    ev.ToolStarted: 0.4,
    ev.ToolEnded: 0.3,
    ev.RecallInjected: 0.6,
    ev.WindowPruned: 1.0,
    ev.ResultsTrimmed: 0.8,
    ev.SummaryDerived: 0.8,
    ev.TurnEnded: 0.5,
}
"""Seconds after an event, at normal speed."""


def pieces(event: ev.AnyEvent) -> Iterator[ev.AnyEvent]:
    """An answer in pieces, as it was once streamed; every other event as it is."""
    if not isinstance(event, ev.TextDelta):
        yield event
        return
    for at in range(0, len(event.text), _PIECE):
        yield ev.TextDelta(turn=event.turn, text=event.text[at : at + _PIECE])


SHOWN_BEFORE: Final = 2
"""Turns before a place that a jump shows as well."""
_RECORDING: Final = "This is a recording: nothing can be said, run or changed in it."


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where the recording stands."""

    seq: int
    turn: int
    turns: int
    ts: str
    playing: bool
    speed: float
    at_end: bool


class Replay(msgspec.Struct, dict=True, eq=False):
    """A recording; see `events.Conversation` for the contract."""

    _history: History
    _settings: Settings
    note: str = ""
    speed: float = 1.0
    playing: bool = True
    stays: bool = True
    reports: bool = True
    _announcer: Announcer = msgspec.field(default_factory=Announcer)
    _asides: list[ev.AnyEvent] = []
    _changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    _next: int = 0
    _line: Line | None = None
    _goal: int | None = None
    _jump: int | None = None
    _closing: bool = False

    def __post_init__(self) -> None:
        self.survey = survey(self._history)

    @property
    def position(self) -> Position:
        """Where it stands now."""
        return Position(
            seq=self._next,
            turn=self._line.turn if self._line else 0,
            turns=self.survey.turns,
            ts=self._line.ts if self._line else "",
            playing=self.playing,
            speed=self.speed,
            at_end=self._next > self.survey.last,
        )

    # verbs of its own

    def play(self) -> None:
        """Go on; from the beginning when it was at the end."""
        if self.position.at_end:
            self._jump = 0
        self.playing = True
        self._changed.set()

    def pause(self) -> None:
        """Stop after this event."""
        self.playing = False
        self._goal = None
        self._changed.set()

    def set_speed(self, speed: float) -> None:
        """How many times as fast as normal; 0 does not wait at all."""
        self.speed = max(speed, 0.0)
        self._changed.set()

    def step(self, kind: Kind) -> bool:
        """Tell everything up to the next mark of a kind, then pause; False when there is none."""
        self.playing = False
        mark = self.survey.after(self._next - 1, kind)
        self._goal = mark.seq if mark else self.survey.last
        if mark is not None and kind == "turn":
            # A turn is told whole: up to where the one after it begins.
            following = self.survey.after(mark.seq, kind)
            self._goal = following.seq - 1 if following else self.survey.last
        self._changed.set()
        return mark is not None

    def jump(self, seq: int) -> None:
        """Go to a line, forwards or back."""
        self._jump = min(max(seq, 0), self.survey.last)
        self._goal = None
        self._changed.set()

    def go(self, kind: Kind, *, back: bool = False) -> bool:
        """Jump to the next or previous mark of a kind; False when there is none."""
        here = max(self._next - 1, 0)
        mark = self.survey.before(here, kind) if back else self.survey.after(here, kind)
        return self._go_to(mark)

    def go_to_turn(self, number: int) -> bool:
        """Jump to where a turn begins."""
        return self._go_to(self.survey.turn(number))

    async def find(self, text: str) -> bool:
        """Jump to the next place that says this, in capitals or not, from the start if need be."""
        if (seq := await asyncio.to_thread(self._search, text.casefold(), self._next)) is None:
            return False
        self.jump(seq)
        return True

    def _go_to(self, mark: Landmark | None) -> bool:
        if mark is not None:
            self.jump(mark.seq)
        return mark is not None

    def _search(self, wanted: str, start: int) -> int | None:
        for first, last in ((start, None), (0, start)):
            for item in self._history.read(first, last):
                if isinstance(item, Line) and wanted in text_of(item).casefold():
                    return item.seq
        return None

    # the conversation's verbs

    async def events(self) -> AsyncIterator[ev.AnyEvent]:
        """Everything that happened, in order, as fast as asked, until it is closed."""
        yield self._ready()
        while not self._closing:
            self._changed.clear()
            while self._asides:
                yield self._asides.pop(0)
            if self._jump is not None:
                async for event in self._arrive(self._jump):
                    yield event
            elif self._next > self.survey.last:
                if not self.stays:
                    break
                self.playing, self._goal = False, None
                await self._changed.wait()
            elif self.playing or self._goal is not None:
                async for event in self._tell_next():
                    yield event
            else:
                await self._changed.wait()
        for event in self._announcer.end_open_turn("The recording was left here."):
            yield event
        head = self._history.head
        yield ev.SessionClosed(session=str(self._history.places.key), seq=head.seq, hash=head.hash)

    def send(
        self, text: str, *, attachments: Sequence[ev.Attachment] = (), steer: bool = False
    ) -> None:
        """Nobody answers in a recording."""
        self._notice(_RECORDING)

    def command(self, line: str, *, how: str = "", seen: float = 0.0, writing: float = 0.0) -> None:
        """No command runs in a recording."""
        self._asides.append(ev.CommandPrinted(command=line, text=f"{line}: {_RECORDING}", ok=False))
        self._asides.append(ev.CommandEnded(command=line, ok=False))
        self._changed.set()

    def answer(self, call: str, answer: ev.Answer) -> None:
        """Nothing is asked in a recording."""
        self._notice(_RECORDING)

    def withdraw(self, entry: str) -> None:
        """What was said stays said."""
        self._notice(_RECORDING)

    def interrupt(self, *, how: str = "") -> None:
        """Pause."""
        self.pause()

    async def close(self) -> None:
        """End the stream."""
        self._closing = True
        self._changed.set()

    def _notice(self, message: str) -> None:
        self._asides.append(ev.Noticed(message=message))
        self._changed.set()

    # telling

    def _ready(self) -> ev.SessionReady:
        return ev.SessionReady(
            session=str(self._history.places.key),
            model=self.survey.model,
            note=self.note or "A recording: nothing is sent, run or written.",
            turns=self.survey.turns,
            entries=self.survey.last + 1,
        )

    async def _tell_next(self) -> AsyncIterator[ev.AnyEvent]:
        """The events of the next line, each followed by its pause."""
        line = self._read(self._next)
        self._next += 1
        rushing = self._goal is not None
        for event in self._announcer.events_of(line):
            for piece in [event] if rushing or not self.speed else pieces(event):
                yield piece
                if not rushing:
                    await self._pause(piece)
        if isinstance(line, Line) and line.kind != "turn_started":
            self._line = line  # a turn is reached when its message is
        if not rushing and isinstance(line, Line):
            async for event in self._reported(line):
                yield event
        elif self._goal is not None and self._next > self._goal:
            self._goal = None
            async for event in self._reported_newest():
                yield event

    async def _arrive(self, seq: int) -> AsyncIterator[ev.AnyEvent]:
        """Begin anew a few turns before a place, and tell everything up to it at once."""
        self._jump = None
        for event in self._announcer.end_open_turn("The recording was left here."):
            yield event
        yield self._ready()
        target = self._history.line(seq) if seq else None
        first = self.survey.turn(target.turn - SHOWN_BEFORE) if target else None
        self._next = min(first.seq, seq) if first else 0
        for item in self._history.read(self._next, seq) if target else ():
            line = self._history.whole(item) if isinstance(item, Line) else item
            for event in self._announcer.events_of(line):
                yield event
            self._line = line if isinstance(line, Line) else self._line
        self._next = seq + 1 if target else 0
        async for event in self._reported_newest():
            yield event

    def _read(self, seq: int) -> Line | Damaged:
        """The line with this number; one that cannot be read is passed over with a word."""
        for item in self._history.read(seq, seq):
            return self._history.whole(item) if isinstance(item, Line) else item
        return Damaged(0, b"", f"line {seq} is missing")

    async def _reported_newest(self) -> AsyncIterator[ev.AnyEvent]:
        if (newest := self.survey.shown_at(self._next)) is not None:
            async for event in self._reported(self._history.line(newest.seq)):
                yield event

    async def _reported(self, line: Line) -> AsyncIterator[ev.AnyEvent]:
        """The window as it was when a request was planned; nothing for every other line."""
        plan = line.entry
        if not self.reports or not isinstance(plan, window.PromptPlanned) or plan.purpose:
            return
        try:
            report = await asyncio.to_thread(report_at, self._history, self._settings, line)
        except MindstoneError as error:
            yield ev.Noticed(message=error.what, level="warning")
        else:
            yield ev.ContextReported(report=report)

    async def _pause(self, event: ev.AnyEvent) -> None:
        """Wait as long as an event deserves, or until somebody does something."""
        seconds = _PAUSES.get(type(event), 0.0) / self.speed if self.speed else 0.0
        wanted_elsewhere = self._closing or self._jump is not None or not self.playing
        if not seconds or wanted_elsewhere:
            await asyncio.sleep(0)
            return
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


SAMPLE_WINDOW: Final = 16_384
"""A window in which the sample has to make room several times."""
REHEARSED: Final = (
    "No request of this session was recorded here: its window is rehearsed under your settings."
)


def open_sample(home: Places) -> History:
    """The sample session, in memory."""
    sketch = InMemoryTranscript(home.session(SessionKey.parse(SAMPLE_SESSION)), channel=IMPORTED)
    import_sample(sketch)
    return sketch.history()


def has_requests(history: History) -> bool:
    """Whether a request was ever planned in this session."""
    return any(isinstance(item, Line) and _is_request(item) for item in history.read())


def _is_request(line: Line) -> bool:
    return isinstance(line.entry, window.PromptPlanned) and not line.entry.purpose


async def playable(
    history: History, settings: Settings, options: RehearsalOptions | None = None
) -> tuple[History, str]:
    """The session to play, and a word about it where it is a rehearsal."""
    if has_requests(history):
        return history, ""
    # Deferred: a recording that is only played loads neither recall nor its libraries.
    from mindstone_tui.core.replay.rehearsal import AS_IT_IS, rehearse

    held = await rehearse(history, settings, options or AS_IT_IS)
    held.recollection.close()
    return held.sketch.history(), REHEARSED
