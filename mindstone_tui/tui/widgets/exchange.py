"""One exchange, drawn by playing its events; live and from history alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mindstone_tui.core import events as ev
from mindstone_tui.core.entries.provenance import MARK
from mindstone_tui.core.events.narrate import aside, describe, in_brief, is_bookkeeping, turn_cost
from mindstone_tui.core.events.narrate_entry import EventLine
from mindstone_tui.core.text import as_written, plural
from mindstone_tui.tui import show
from mindstone_tui.tui.from_entries import ExchangeEvents
from mindstone_tui.tui.widgets.fold import Fold
from mindstone_tui.tui.widgets.growth import GrowsQuietly
from mindstone_tui.tui.widgets.markdown import Prose
from mindstone_tui.tui.widgets.recalled import Recalled
from mindstone_tui.tui.widgets.tool_call import ToolCall

W = TypeVar("W", bound=Widget)

_LONG_QUESTION = 30
"""Lines of a question that are shown before it is folded."""


class Thought(Fold):
    """Reasoning, folded to how much of it there is."""

    def __init__(self) -> None:
        super().__init__(classes="thought")
        self._text: list[str] = []

    def write(self, text: str) -> None:
        """Add what was streamed."""
        self._text.append(text)
        self.retitle()
        if self.opened and self.is_mounted:
            for body in self.query(".body").results(Static):
                body.update(show.text("".join(self._text)))

    def title(self) -> Content:
        words = len("".join(self._text).split())
        return Content.styled(f"thinking · {plural(words, 'word')}", "$muted")

    def body(self) -> Iterator[Widget]:
        yield Static(show.text("".join(self._text)), classes="body", markup=False)


class LongQuestion(Fold):
    """A question too long to show whole."""

    def __init__(self, text: str) -> None:
        super().__init__(classes="question")
        self._text = text

    def title(self) -> Content:
        lines = self._text.count("\n") + 1
        start = show.line(self._text, 200)
        return start + Content.styled(f"  {plural(lines, 'line')}", "$muted")

    def body(self) -> Iterator[Widget]:
        yield Static(show.text(self._text), classes="body", markup=False)


class Aside(Static):
    """One line about what happened to the window, the session or the turn."""

    def __init__(self, line: EventLine) -> None:
        super().__init__(_drawn(line), markup=False, classes=f"aside -{line.tone}")
        self.loud = line.tone in ("warning", "error")


class Bookkeeping(Fold):
    """What the program did around a turn: one line that opens to all of it."""

    def __init__(self) -> None:
        super().__init__(classes="bookkeeping")
        self.events: list[ev.AnyEvent] = []

    def add(self, event: ev.AnyEvent) -> None:
        """Take one more thing that happened."""
        self.events.append(event)
        self.retitle()
        if self.opened:
            self.call_later(self.refill)

    def titled(self) -> Content:
        """One thing is said whole; several in a few words each, with the arrow that opens them."""
        if len(self.events) != 1:
            return super().titled()
        return _drawn(describe(self.events[0]))

    def title(self) -> Content:
        return show.line(" · ".join(in_brief(self.events)), 300, "$muted")

    def body(self) -> Iterator[Widget]:
        lines = [_drawn(describe(event)) for event in self.events if len(self.events) > 1]
        yield Static(Content("\n").join(lines), classes="body", markup=False)


def _drawn(line: EventLine) -> Content:
    colour = {"note": "$muted", "good": "$success"}.get(line.tone, f"${line.tone}")
    parts = [Content.styled(f"{line.sign} {line.text}", colour)]
    if line.detail:
        loud = line.tone in ("warning", "error")
        parts.append(Content.styled(f"  {line.detail}", "$muted" if loud else "$faint"))
    return Content("").join(parts)


class Printed(Static):
    """A slash command and what it printed."""

    def __init__(self, event: ev.CommandPrinted) -> None:
        head = show.line(event.command, 200, "bold $primary" if event.ok else "bold $error")
        text = show.text(event.text.rstrip("\n"))
        super().__init__(Content("\n").join([head, text]), markup=False, classes="printed")
        self.set_class(not event.ok, "-failed")


class ExchangeView(Vertical, GrowsQuietly):
    """A question, what it set off, and the answer."""

    DEFAULT_CSS = """
    ExchangeView { width: 1fr; height: auto; }
    """

    def __init__(self, exchange: ExchangeEvents) -> None:
        super().__init__()
        self.exchange = exchange
        self._waiting: list[Widget] | None = []
        self._answer: Prose | None = None
        self._thought: Thought | None = None
        self._tools: dict[str, ToolCall] = {}
        self._compact: bool | None = None
        self._loud = False
        self._kept: Bookkeeping | None = None
        self._kept_ended = self._ended = False
        for event in exchange.events:
            self.play(event)

    def compose(self) -> ComposeResult:
        waiting, self._waiting = self._waiting or [], None
        yield from waiting

    def play(self, event: ev.AnyEvent) -> None:
        """Draw one more event."""
        match event:
            case ev.TurnStarted(text=text, imported=imported):
                self._ask(text, MARK if imported else "")
            case ev.MessageSteered(text=text):
                self._answer = self._thought = None
                self._ask(text, "sent while the turn was running")
            case ev.TextDelta(text=text) | ev.AnswerDrafted(text=text):
                self._stream(text)
            case ev.ThinkingDelta(text=text):
                if self._thought is None:
                    self._thought = self._add(Thought())
                self._thought.write(text)
            case ev.AnswerRecorded():
                self._record(event)
            case ev.ToolAsked() | ev.ToolStarted() | ev.ToolOutput() | ev.ToolEnded():
                self._use(event)
            case ev.RecallInjected():
                self._add(Recalled(event))
            case ev.CommandPrinted(repeats=repeats):
                if not repeats:
                    self._add(Printed(event))
            case ev.EntryAppeared():
                self._appear(event)
            case ev.TurnEnded():
                self._end(event)
            case _:
                self._note(event)

    def _note(self, event: ev.AnyEvent) -> None:
        """A line of its own for what somebody may act on; the rest goes into one that opens.

        What leaves the window after the turn left because a person said so, and is told them.
        """
        line = aside(event)
        if line is None:
            return
        by_hand = self._ended and isinstance(event, ev.WindowPruned | ev.ResultsTrimmed)
        if by_hand or not is_bookkeeping(event):
            self._add(Aside(line))
            return
        if self._kept is None or self._kept_ended != self._ended:
            self._kept, self._kept_ended = Bookkeeping(), self._ended
            self._kept.events.append(event)
            self._add(self._kept)
        else:
            self._kept.add(event)

    def _add(self, widget: W) -> W:
        """Put a widget below the others; one-liners of a kind stand close together."""
        compact = isinstance(widget, Aside | ToolCall | Thought | Bookkeeping)
        loud = isinstance(widget, Aside) and widget.loud
        together = compact and self._compact and loud == self._loud
        widget.set_class(self._compact is not None and not together, "-apart")
        self._compact, self._loud = compact, loud
        if self._waiting is not None:
            self._waiting.append(widget)
        else:
            self.mount(widget)
        return widget

    def _ask(self, text: str, note: str = "") -> None:
        text = as_written(text)
        if text.count("\n") >= _LONG_QUESTION:
            self._add(LongQuestion(text))
            if note:
                self._add(Static(show.line(note, 40, "$faint"), markup=False))
            return
        content = show.text(text)
        if note:
            content += Content("  ") + show.line(note, 40, "$faint")
        self._add(Static(content, markup=False, classes="question"))

    def _stream(self, text: str) -> None:
        self._thought = None
        if self._answer is None:
            self._answer = self._add(Prose(finished=False, classes="answer"))
        self._answer.write(text)

    def _record(self, event: ev.AnswerRecorded) -> None:
        self._thought = None
        if self._answer is not None:
            self._answer.finish(event.text)
        elif event.text:
            self._answer = self._add(Prose(event.text, classes="answer"))
        if self._answer is not None:
            self._answer.set_class(event.partial, "-partial")
        self._answer = None

    def _use(self, event: ev.ToolAsked | ev.ToolStarted | ev.ToolOutput | ev.ToolEnded) -> None:
        tool = self._tools.get(event.call)
        if tool is None:
            name = "" if isinstance(event, ev.ToolOutput) else event.name
            shown = name if isinstance(event, ev.ToolOutput) else event.shown or name
            tool = self._tools[event.call] = self._add(ToolCall(event.call, name, shown))
        tool.play(event)

    def _appear(self, event: ev.EntryAppeared) -> None:
        if event.role == "user":
            self._ask(event.text, f"via {event.channel}")
        elif event.role == "assistant" and self._answer is not None:
            self._answer.finish(event.text)
            self._answer = None
        elif event.role == "assistant" and event.text:
            self._add(Prose(event.text, classes="answer"))
        elif event.text:
            self._add(Aside(describe(event)))

    def _end(self, event: ev.TurnEnded) -> None:
        self._answer = self._thought = None
        self._ended = True
        for tool in self._tools.values():
            tool.end()
        self.add_class(f"-{event.ending}")
        if line := aside(event):
            self._add(Aside(line))
        elif event.elapsed or event.usage.prompt:
            cost = Content.styled(turn_cost(event), "$faint")
            self._add(Static(cost, markup=False, classes="ending"))

    @property
    def codes(self) -> list[str]:
        """The code blocks of its answers, in order."""
        return [code for prose in self.query(Prose) for code in prose.codes]
