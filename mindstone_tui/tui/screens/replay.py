"""The replay screen: a recording drawn like a live session, with a timeline below."""

import itertools
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Footer, Input

from mindstone_tui.core import events as ev
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.numbers import local
from mindstone_tui.core.replay.playback import SPEEDS, Position, Replay
from mindstone_tui.core.replay.survey import KINDS, Kind, Landmark, Survey
from mindstone_tui.core.text import plural
from mindstone_tui.tui.screens.chat import TalkScreen
from mindstone_tui.tui.widgets import base, context_panel, conversation, exchange

_STEPS: Final = " ▁▂▃▄▅▆▇█"
_ROWS: Final = 2
_SIGNS: Final[dict[Kind, tuple[str, str]]] = {
    "prune": ("▾", "$context-pruned"),
    "summary": ("≈", "$warning"),
    "trim": ("✂", "$warning"),
    "recall": ("↩", "$context-recalled"),
    "checkpoint": ("⚑", "$muted"),
}
"""Signs above the bars, the most telling first: where several fall together, one is shown."""


class Timeline(Widget):
    """Bars in the colours of their zones; a click goes there."""

    position: reactive[Position | None] = reactive(None)

    class Chosen(Message):
        """Somebody clicked on a moment."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq

    def __init__(self) -> None:
        super().__init__(id="timeline")
        self._survey = Survey((), 0, 0, "")
        self._calls: tuple[Landmark, ...] = ()

    def draw(self, survey: Survey) -> None:
        """Show a session."""
        self._survey = survey
        self._calls = survey.calls
        self.refresh()

    def render(self) -> Content:
        width = max(self.content_size.width, 10)
        if not self._calls:
            return Content.styled("No requests were recorded in this session.", "$muted")
        columns = self._columns(width)
        here = self._column_of(self.position.seq - 1, columns) if self.position else -1
        return Content("\n").join(
            [
                self._signs(columns, here),
                *(_bars(columns, row, here) for row in reversed(range(_ROWS))),
                _legend(self.position, self._survey, width),
            ]
        )

    def on_click(self, event: events.Click) -> None:
        columns = self._columns(max(self.content_size.width, 10))
        at = event.get_content_offset_capture(self).x
        if columns:
            self.post_message(self.Chosen(columns[min(max(at, 0), len(columns) - 1)].seq))

    def _columns(self, width: int) -> list[Landmark]:
        """One request a column; of those that share one, the fullest."""
        count = min(width, len(self._calls))
        edges = [at * len(self._calls) // count for at in range(count + 1)] if count else []
        groups = [self._calls[first:last] for first, last in itertools.pairwise(edges)]
        return [max(group, key=lambda mark: mark.utilization) for group in groups]

    def _column_of(self, seq: int, columns: list[Landmark]) -> int:
        return min(bisect_left(columns, seq, key=lambda mark: mark.seq), len(columns) - 1)

    def _signs(self, columns: list[Landmark], here: int) -> Content:
        row: list[tuple[str, str]] = [(" ", "")] * len(columns)
        for kind in reversed(_SIGNS):
            for mark in self._survey.marks:
                if mark.kind == kind:
                    row[self._column_of(mark.seq, columns)] = _SIGNS[kind]
        if 0 <= here < len(row) and row[here][0] == " ":
            row[here] = ("│", "$accent")
        return Content.assemble(*row)


def _bars(columns: list[Landmark], row: int, here: int) -> Content:
    """One row of the bars, the lowest has number 0."""
    levels = len(_STEPS) - 1
    cells = []
    for at, mark in enumerate(columns):
        height = round(min(max(mark.utilization, 0.0), 1.0) * levels * _ROWS)
        if mark.utilization > 0:
            height = max(height, 1)
        step = _STEPS[min(max(height - row * levels, 0), levels)]
        colour = f"$zone-{mark.zone}"
        if at == here:
            cells.append((step, f"bold reverse {colour}") if step != " " else ("│", "$accent"))
        else:
            cells.append((step, colour if at < here else f"{colour} 40%"))
    return Content.assemble(*cells)


def _legend(position: Position | None, survey: Survey, width: int) -> Content:
    if position is None:
        return Content("")
    sign = "▶" if position.playing else ("■" if position.at_end else "❚❚")
    speed = f"{position.speed:g}×" if position.speed else "at once"
    left = Content.assemble(
        (f"{sign} {speed}", "bold $accent"),
        f"  turn {position.turn} of {position.turns}",
        (f"  {local(position.ts)}", "$muted"),
    )
    counts = {kind: sum(mark.kind == kind for mark in survey.marks) for kind in _SIGNS}
    told = [
        plural(len(survey.calls), "request"),
        *(f"{_SIGNS[kind][0]} {plural(count, kind)}" for kind, count in counts.items() if count),
    ]
    while told:
        right = Content.styled(" · ".join(told), "$muted")
        if (gap := width - left.cell_length - right.cell_length) >= 2:
            return left + Content(" " * gap) + right
        told.pop()
    return left


OpenReplay = Callable[[], Awaitable[Replay]]


class ReplayScreen(TalkScreen):
    """A recording: the panel shows the window as it was, and a timeline stands below."""

    AUTO_FOCUS = "#conversation"
    BINDINGS = [
        Binding("space", "play_or_pause", "Play", priority=True, id="replay.toggle"),
        Binding("right", "step('call')", "Step", key_display="←→", priority=True, id="replay.call"),
        Binding(
            "left", "back('call')", "Previous call", show=False, priority=True, id="replay.uncall"
        ),
        Binding("j,shift+right", "step('turn')", "Turn", key_display="kj", id="replay.turn"),
        Binding("k,shift+left", "back('turn')", "Previous turn", show=False, id="replay.unturn"),
        Binding("p", "go('prune')", "Prune", id="replay.prune"),
        Binding("P", "back('prune')", "Previous prune", show=False, id="replay.unprune"),
        Binding("t", "go('tool')", "Tool", id="replay.tool"),
        Binding("T", "back('tool')", "Previous tool call", show=False, id="replay.untool"),
        Binding("r", "go('recall')", "Recall", show=False, id="replay.recall"),
        Binding("R", "back('recall')", "Previous recall", show=False, id="replay.unrecall"),
        Binding("plus,equals_sign", "speed(1)", "Speed", key_display="-+", id="replay.faster"),
        Binding("minus", "speed(-1)", "Slower", show=False, id="replay.slower"),
        Binding("g", "ask('turn')", "Go", id="replay.go"),
        Binding("slash", "ask('find')", "Find", key_display="/", id="replay.find"),
        Binding("n", "again", "Find the next", show=False, id="replay.again"),
        Binding("home", "turn(1)", "From the start", show=False, priority=True, id="replay.start"),
        Binding("ctrl+b", "panel", "Panel", show=False, id="replay.panel"),
        Binding("q,escape", "leave", "Leave", key_display="q", id="replay.leave"),
    ]

    timeline = query_one(Timeline)

    def __init__(self, open_replay: OpenReplay, *, panel: bool = True) -> None:
        super().__init__()
        self._open = open_replay
        self._with_panel = panel
        self.replay: Replay | None = None
        self._wanted = ""
        self._asking = ""
        self._drawn = False

    def compose(self) -> ComposeResult:
        with Horizontal(id="main"):
            with Vertical(id="left"):
                yield conversation.ConversationView(id="conversation")
            yield context_panel.ContextPanel(id="panel")
        yield Timeline()
        yield base.LineInput(id="where", compact=True)
        yield context_panel.StatusLine()
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#where").display = False
        self.panel.set_class(not self._with_panel, "-off")
        self.call_after_refresh(self._follow)

    # the stream

    @work(group="replay", exit_on_error=False)
    async def _follow(self) -> None:
        """Draw every event in order, as the chat does."""
        try:
            replay = self.replay = await self._open()
        except MindstoneError as error:
            await self.show_problem(error)
            return
        self.timeline.draw(replay.survey)
        async for event in replay.events():
            await self.show(event)

    async def show(self, event: ev.AnyEvent) -> None:
        """Draw one event everywhere it belongs."""
        match event:
            case ev.SessionReady():
                await self._begin(event)
            case ev.ContextReported(report=report):
                self.panel.report = report
                self.status.report = report
            case ev.ModelChanged(model=model):
                self.status.model = model
        await self.conversation.show(event)
        self.panel.show(event)
        self._tell_position()

    async def _begin(self, event: ev.SessionReady) -> None:
        """Start over, the first time or after a jump, with nothing left from before."""
        self.status.session, self.status.model = event.session, event.model
        if self._drawn:
            with self.app.batch_update():
                off = self.panel.has_class("-off")
                await self.conversation.remove()
                await self.panel.remove()
                await self.query_one("#left").mount(
                    conversation.ConversationView(id="conversation")
                )
                await self.query_one("#main").mount(context_panel.ContextPanel(id="panel"))
                self.panel.set_class(off, "-off")
            self.set_focus(self.conversation)
        self._drawn = True
        await self.conversation.show(ev.Noticed(message=event.note))

    def _tell_position(self) -> None:
        if self.replay is not None:
            position = self.replay.position
            self.timeline.position = position
            self.status.doing = "playing" if position.playing else "paused"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the input is open, keys go to it."""
        typing = isinstance(self.focused, Input)
        return not typing or action in ("leave", "panel") or not hasattr(self, f"action_{action}")

    # what a person does

    def action_play_or_pause(self) -> None:
        if (replay := self.replay) is not None:
            replay.pause() if replay.position.playing else replay.play()
            self._tell_position()

    def action_step(self, kind: str) -> None:
        self._do(kind, lambda replay, known: replay.step(known))

    def action_go(self, kind: str) -> None:
        self._do(kind, lambda replay, known: replay.go(known))

    def action_back(self, kind: str) -> None:
        self._do(kind, lambda replay, known: replay.go(known, back=True))

    def _do(self, kind: str, act: Callable[..., bool]) -> None:
        if self.replay is None:
            return
        known = next(each for each in KINDS if each == kind)
        self.replay.pause()
        if not act(self.replay, known):
            self.notify(f"No more {kind}s in that direction.", timeout=2, markup=False)
        self._tell_position()

    def action_speed(self, direction: int) -> None:
        if (replay := self.replay) is not None:
            now = replay.position.speed
            at = min(range(len(SPEEDS)), key=lambda one: abs(SPEEDS[one] - now))
            replay.set_speed(SPEEDS[min(max(at + direction, 0), len(SPEEDS) - 1)])
            self._tell_position()

    def action_turn(self, number: int) -> None:
        if self.replay is not None and not self.replay.go_to_turn(number):
            self.notify(f"There is no turn {number}.", timeout=2, markup=False)

    def action_ask(self, what: str) -> None:
        self._asking = what
        where = self.query_one("#where", Input)
        where.placeholder = "turn number" if what == "turn" else "search the recording"
        where.value = ""
        where.display = True
        where.focus()

    @on(Input.Submitted, "#where")
    async def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_input()
        text = event.value.strip()
        if self._asking == "turn" and text.isdecimal():
            self.action_turn(int(text))
        elif self._asking == "find" and text:
            self._wanted = text
            await self.action_again()

    async def action_again(self) -> None:
        """Jump to the next match."""
        if self.replay is None or not self._wanted:
            return
        self.replay.pause()
        if not await self.replay.find(self._wanted):
            self.notify("No match.", timeout=2, markup=False)

    @on(Timeline.Chosen)
    def _chosen(self, event: Timeline.Chosen) -> None:
        self._jump(event.seq)

    @on(context_panel.LeftLog.Wanted)
    def _left_wanted(self, event: context_panel.LeftLog.Wanted) -> None:
        self.action_turn(event.turn)

    @on(exchange.Card.Opened)
    def _open_source(self, event: exchange.Card.Opened) -> None:
        if event.passage.session == self.status.session:
            self._jump(event.passage.seq)

    def _jump(self, seq: int) -> None:
        if self.replay is not None:
            self.replay.pause()
            self.replay.jump(seq)

    def _close_input(self) -> None:
        self.query_one("#where").display = False
        self.set_focus(self.conversation)

    async def action_leave(self) -> None:
        if self.query_one("#where").display:
            self._close_input()
            return
        if self.replay is not None:
            await self.replay.close()
        if len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            await self.app.action_quit()
