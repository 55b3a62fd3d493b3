"""A tool call: folded to one line with its state, time and finding; open, all it did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.core.events.narrate_entry import without_name
from mindstone_tui.core.text import exact, for_terminal, plural
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import numbered
from mindstone_tui.tui.widgets.fold import Fold

_SIGNS = {
    "asked": ("?", "$accent"),
    "running": ("◌", "$primary"),
    "ok": ("✓", "$success"),
    "error": ("✗", "$error"),
    "refused": ("⊘", "$warning"),
    "interrupted": ("■", "$warning"),
    "timeout": ("✗", "$error"),
}
_WORDS = {
    "asked": "approval needed",
    "timeout": "timed out",
    "refused": "declined",
    "interrupted": "interrupted",
}
_LIVE_LINES: Final = 400
"""Lines of running output that are drawn; the result that counts is shown whole."""
SHOWN_LINES: Final = 30
"""Lines of a result that an open row shows before it is asked for the rest."""
DIFF_LINES: Final = 12
"""Lines of a change that stand below a closed row."""


class Rest(Static, can_focus=True):
    """The end of a text that is shown in part; Enter, space or a click shows the rest."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "more", "Show the rest", show=False, id="fold.rest"),
    ]

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
        target = without_name(self.shown.partition("\n")[0], self.tool)
        parts = [Content.styled(f"{sign} ", colour), show.line(self.tool, 30, "bold")]
        if self.state in _WORDS:
            # First, because a long command leaves no room for it behind.
            parts.append(Content.styled(f"  {_WORDS[self.state]}", colour))
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
            target = without_name(self.shown.partition("\n")[0], self.tool)
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
            diff = numbered(for_terminal(self.ended.diff))
            yield Static(diff, classes="body diff", markup=False)
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
        lines = show.text("".join(self._output)).split("\n")
        return Content("\n").join(lines[-_LIVE_LINES:])

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
