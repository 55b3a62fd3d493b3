"""One exchange with its recalled passages and tool calls, drawn by playing its events."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.core.entries import derived, provenance
from mindstone_tui.core.events import narrate, narrate_entry
from mindstone_tui.core.text import as_written, exact, for_terminal, plural
from mindstone_tui.tui import from_entries, show
from mindstone_tui.tui.markdown.parse import numbered
from mindstone_tui.tui.widgets.base import Fold, GrowsQuietly
from mindstone_tui.tui.widgets.markdown import Prose


class Card(Static, can_focus=True):
    """One passage; Enter opens its source, `x` drops it, space shows all of it."""

    BINDINGS = [
        Binding("enter", "open", "Open source", id="recall.open"),
        Binding("x,delete", "drop", "Drop passage", id="recall.drop"),
        Binding("space", "unfold", "Whole text", id="recall.unfold"),
    ]

    @dataclass
    class Opened(Message):
        """The source of a passage is wanted."""

        passage: derived.RecalledPassage

    @dataclass
    class Dropped(Message):
        """A passage is not wanted."""

        passage: derived.RecalledPassage

    def __init__(self, passage: derived.RecalledPassage) -> None:
        self.passage = passage
        self._whole = False
        super().__init__(self._drawn(), markup=False, classes="card body")

    def _drawn(self) -> Content:
        passage = self.passage
        place = [passage.session.removeprefix("agent:"), f"turn {passage.turn}", f"#{passage.seq}"]
        if passage.seq < 0:  # a section of a file, which has no turn
            place = [passage.entry]
        where = [passage.speaker, *place, numbers.day(passage.ts)]
        said = [show.line(part, 40).plain for part in where if part]
        told = " · ".join([*said, *(show.line(each, 120).plain for each in passage.marks)])
        text = show.text(passage.text) if self._whole else show.line(passage.text, 160)
        return Content("\n").join([Content.styled(told, "$context-recalled"), text])

    def action_open(self) -> None:
        if self.passage.seq < 0:
            self.action_unfold()
        else:
            self.post_message(self.Opened(self.passage))

    def action_drop(self) -> None:
        if self.has_class("-dropped"):
            return
        self.add_class("-dropped")
        self.post_message(self.Dropped(self.passage))

    def action_unfold(self) -> None:
        self._whole = not self._whole
        self.update(self._drawn())

    def on_click(self) -> None:
        self.action_unfold()


class Recalled(Fold):
    """Everything that came back for one turn: one line until it is opened."""

    def __init__(self, event: ev.RecallInjected) -> None:
        super().__init__(classes="recalled")
        self._event = event

    def title(self) -> Content:
        """How much came back, and from which days."""
        line = narrate.describe(self._event)
        return Content.styled(
            f"{line.sign} {narrate.recalled_from(self._event.passages)}", "$muted"
        )

    def body(self) -> Iterator[Widget]:
        """What it cost, and the passages."""
        yield Static(Content.styled(narrate.describe(self._event).text, "$muted"), classes="body")
        yield from map(Card, self._event.passages)


_SIGNS = {
    "asked": ("?", "$accent"),
    "running": ("◌", "$primary"),
    "ok": ("✓", "$success"),
    "error": ("✗", "$error"),
    "refused": ("⊘", "$warning"),
    "interrupted": ("■", "$warning"),
    "timeout": ("✗", "$error"),
}
_WORDED: Final = ("asked", "timeout", "refused", "interrupted")
"""States that a sign alone does not tell."""
_LIVE_LINES: Final = 400
"""Lines of running output that are drawn; the result that counts is shown whole."""
SHOWN_LINES: Final = 30
"""Lines of a result that an open row shows before it is asked for the rest."""
DIFF_LINES: Final = 12
"""Lines of a change that stand below a closed row."""


class Rest(Static, can_focus=True):
    """The end of a text that is shown in part; Enter, space or a click shows the rest."""

    BINDINGS = [Binding("enter,space", "more", "Show the rest", show=False, id="fold.rest")]

    def __init__(self, left: int) -> None:
        said = f"… {plural(left, 'more line')} · Enter opens it fully"
        super().__init__(Content.styled(said, "$muted"), markup=False, classes="body rest")

    def action_more(self) -> None:
        if isinstance(self.parent, ToolCall):
            self.parent.show_all()

    def on_click(self) -> None:
        self.action_more()


class ToolCall(Fold):
    """One call of a tool."""

    def __init__(self, call: str, name: str, shown: str) -> None:
        super().__init__(classes="tool")
        self.call = call
        self.tool = name
        self.shown = shown
        self.state = "running"
        self.ended: ev.ToolEnded | None = None
        self._output: list[str] = []
        self._all = False

    def play(self, event: ev.ToolAsked | ev.ToolStarted | ev.ToolOutput | ev.ToolEnded) -> None:
        """Take what happened to this call."""
        match event:
            case ev.ToolAsked():
                self.state = "asked"
            case ev.ToolStarted(shown=shown):
                self.state, self.shown = "running", shown
            case ev.ToolOutput(text=text):
                self._output.append(text)
                self._show_output()
                return
            case ev.ToolEnded(status=status):
                self.state, self.ended = status, event
        self.retitle()
        if self.opened or self.ended is not None:
            self.call_later(self.refill)

    def end(self) -> None:
        """The turn is over: a call of which no result was recorded was interrupted."""
        if self.ended is None:
            self.state = "interrupted"
            self.retitle()

    def show_all(self) -> None:
        """Show a long result whole."""
        self._all = True
        self.call_later(self.refill)

    def title(self) -> Content:
        sign, colour = _SIGNS[self.state]
        target = narrate_entry.without_name(self.shown.partition("\n")[0], self.tool)
        parts = [Content.styled(f"{sign} ", colour), show.line(self.tool, 30, "bold")]
        if self.state in _WORDED:
            # First, because a long command leaves no room for it behind.
            parts.append(Content.styled(f"  {narrate.TOOL_WORDS[self.state]}", colour))
        parts.append(Content("  ") + show.line(target, 90))
        if self.ended is not None and self.state != "refused":
            parts.append(Content.styled(f"  {numbers.seconds(self.ended.elapsed)}", "$faint"))
            if self.state != "error":
                found = news(self.ended.finding, target)
                parts.append(Content("  ") + show.line(found, 120, "$muted"))
        return Content("").join(parts)

    def glimpse(self) -> Iterator[Widget]:
        """What it changed, as far as that is short, or why it failed or did not run."""
        if self.ended is None:
            return
        if self.state in ("refused", "error") and self.ended.finding:
            target = narrate_entry.without_name(self.shown.partition("\n")[0], self.tool)
            why = show.line(news(self.ended.finding, target), 200, "$muted")
            yield Static(why, classes="body", markup=False)
        elif self.ended.diff:
            yield from self._part(numbered(for_terminal(self.ended.diff)), "diff", DIFF_LINES)

    def body(self) -> Iterator[Widget]:
        if what := details(self.shown, self.ended.diff if self.ended is not None else ""):
            yield Static(show.judged(what), classes="body shown", markup=False)
        if self.ended is None:
            yield Static(self._live(), classes="body output live", markup=False)
            return
        if self.ended.diff:
            yield Static(numbered(for_terminal(self.ended.diff)), classes="body diff", markup=False)
        if self.ended.text:
            most = 0 if self._all else SHOWN_LINES
            yield from self._part(show.text(self.ended.text), "output", most)

    def _part(self, text: Content, kind: str, most: int) -> Iterator[Widget]:
        """The first lines of a text, and a way to the rest."""
        lines = text.split("\n", allow_blank=True)
        if not most or len(lines) <= most + 1:
            yield Static(text, classes=f"body {kind}", markup=False)
            return
        yield Static(Content("\n").join(lines[:most]), classes=f"body {kind}", markup=False)
        if self.opened:
            yield Rest(len(lines) - most)
        else:
            said = f"… {plural(len(lines) - most, 'more line')} · open the row to see them"
            yield Static(Content.styled(said, "$faint"), classes="body", markup=False)

    def _live(self) -> Content:
        return Content("\n").join(show.text("".join(self._output)).split("\n")[-_LIVE_LINES:])

    def _show_output(self) -> None:
        if self.opened and self.is_mounted:
            for live in self.query(".live").results(Static):
                live.update(self._live())


def news(finding: str, target: str) -> str:
    """What a tool found, without the file or the command that stands before it already."""
    repeated = re.compile(rf"(?:\w+ )?{re.escape(target)}: ")
    while target and (found := repeated.match(finding)):
        finding = finding[found.end() :]
    return finding


def details(shown: str, diff: str = "") -> str:
    """What a call shows below its title, without what stands elsewhere already.

    A shell call's title repeats a short command; a change is shown as a diff.
    """
    title, _, body = shown.partition("\n")
    if diff and exact(diff).strip() in exact(body):
        return ""
    return "" if body and body in title else body


W = TypeVar("W", bound=Widget)

_LONG_QUESTION = 30
"""Lines of a question that are shown before it is folded."""
_LAST_LINE = 240
"""Characters of its last line, from the end: what is asked may stand right behind a paste."""


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
        """How it begins and how it ends: the question may stand before or behind a paste."""
        lines = [line for line in self._text.splitlines() if line.strip()]
        count, last = self._text.count("\n") + 1, lines[-1]
        return Content.assemble(
            show.line(lines[0], 120),
            (f"  … {plural(count, 'line')} …\n", "$muted"),
            show.line(last if len(last) <= _LAST_LINE else f"… {last[-_LAST_LINE:]}", 300),
        )

    def body(self) -> Iterator[Widget]:
        yield Static(show.text(self._text), classes="body", markup=False)


class Aside(Static):
    """One line about what happened to the window, the session or the turn."""

    def __init__(self, line: narrate_entry.EventLine) -> None:
        super().__init__(_drawn(line), markup=False, classes=f"aside -{line.tone}")
        self.loud = line.tone in ("warning", "error")


class Bookkeeping(Fold):
    """What the program did around a turn: one line that opens to all of it."""

    def __init__(self, since: str = "") -> None:
        super().__init__(classes="bookkeeping")
        self.events: list[ev.AnyEvent] = []
        self.since = since
        """What became of the files that were changed."""

    def add(self, event: ev.AnyEvent) -> None:
        """Take one more thing that happened."""
        self.events.append(event)
        self.draw_again()

    def draw_again(self) -> None:
        """Draw it as it is now."""
        self.retitle()
        if self.opened:
            self.call_later(self.refill)

    def titled(self) -> Content:
        """One thing is said whole; several in a few words each, with the arrow that opens them."""
        if len(self.events) != 1:
            return super().titled()
        return _drawn(narrate.describe(self.events[0], self.since))

    def title(self) -> Content:
        return show.line(" · ".join(narrate.in_brief(self.events, self.since)), 300, "$muted")

    def body(self) -> Iterator[Widget]:
        told = self.events if len(self.events) > 1 else []
        lines = [_drawn(narrate.describe(event, self.since)) for event in told]
        yield Static(Content("\n").join(lines), classes="body", markup=False)


def _drawn(line: narrate_entry.EventLine) -> Content:
    colour = {"note": "$muted", "good": "$success"}.get(line.tone, f"${line.tone}")
    parts = [Content.styled(f"{line.sign} {line.text}", colour)]
    if line.detail:
        loud = line.tone in ("warning", "error")
        parts.append(Content.styled(f"  {line.detail}", "$muted" if loud else "$faint"))
    return Content("").join(parts)


class Printed(Static):
    """A slash command and what it printed."""

    def __init__(self, event: ev.CommandPrinted) -> None:
        typed = event.typed or event.command
        head = show.line(typed, 200, "bold $primary" if event.ok else "bold $error")
        text = show.text(event.text.rstrip("\n"))
        super().__init__(Content("\n").join([head, text]), markup=False, classes="printed")
        self.set_class(not event.ok, "-failed")


class ExchangeView(Vertical, GrowsQuietly):
    """A question, what it set off, and the answer."""

    def __init__(self, exchange: from_entries.ExchangeEvents) -> None:
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
                self._ask(text, provenance.MARK if imported else "")
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
        if (line := narrate.aside(event)) is None:
            return
        by_hand = self._ended and isinstance(event, ev.WindowPruned | ev.ResultsTrimmed)
        if by_hand or not narrate.is_bookkeeping(event):
            self._add(Aside(line))
            return
        if self._kept is None or self._kept_ended != self._ended:
            self._kept, self._kept_ended = Bookkeeping(self.exchange.since), self._ended
            self._kept.events.append(event)
            self._add(self._kept)
        else:
            self._kept.add(event)

    def became(self) -> None:
        """Say beside files that were changed what became of that."""
        for kept in self.query(Bookkeeping):
            kept.since = self.exchange.since
            kept.draw_again()

    def _add(self, widget: W) -> W:
        """Put a widget below the others; one-liners of a kind stand close together."""
        compact = isinstance(widget, Aside | ToolCall | Thought | Bookkeeping)
        loud = isinstance(widget, Aside) and widget.loud
        together = compact and self._compact and loud == self._loud
        widget.set_class(self._compact is not None and not together, "-apart")
        self._compact, self._loud = compact, loud
        self._waiting.append(widget) if self._waiting is not None else self.mount(widget)
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
        if (tool := self._tools.get(event.call)) is None:
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
            self._add(Aside(narrate.describe(event)))

    def _end(self, event: ev.TurnEnded) -> None:
        self._answer = self._thought = None
        self._ended = True
        for tool in self._tools.values():
            tool.end()
        self.add_class(f"-{event.ending}")
        if line := narrate.aside(event):
            self._add(Aside(line))
        elif event.elapsed or event.usage.prompt:
            cost = Content.styled(narrate.turn_cost(event), "$faint")
            self._add(Static(cost, markup=False, classes="ending"))

    @property
    def codes(self) -> list[str]:
        """The code blocks of its answers, in order."""
        return [code for prose in self.query(Prose) for code in prose.codes]
