"""A tool call: folded to one line with its state, time and finding; open, all it did."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.core.events.narrate import without_name
from mindstone_tui.core.text import for_terminal
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import diffed
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
_LIVE_LINES = 400
"""Lines of running output that are drawn; the result that counts is shown whole."""


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
        if self.opened:
            self.call_later(self.watch_opened)

    def title(self) -> Content:
        sign, colour = _SIGNS[self.state]
        parts = [
            Content.styled(f"{sign} ", colour),
            show.line(self.tool, 30, "bold"),
            Content("  "),
            show.line(without_name(self.shown.partition("\n")[0], self.tool), 90),
        ]
        if self.ended is not None:
            parts.append(Content.styled(f"  {numbers.seconds(self.ended.elapsed)}", "$faint"))
            parts.append(Content("  ") + show.line(self.ended.finding, 120, "$muted"))
        if self.state in ("refused", "interrupted", "timeout", "asked"):
            words = {
                "asked": "approval needed",
                "timeout": "timed out",
                "refused": "declined",
            }
            parts.append(Content.styled(f"  {words.get(self.state, self.state)}", colour))
        return Content("").join(parts)

    def body(self) -> Iterator[Widget]:
        yield Static(show.judged(self.shown), classes="body shown", markup=False)
        if self.ended is None:
            yield Static(self._live(), classes="body output live", markup=False)
            return
        if self.ended.diff:
            diff = diffed(for_terminal(self.ended.diff))
            yield Static(diff, classes="body diff", markup=False)
        if self.ended.text:
            yield Static(show.text(self.ended.text), classes="body output", markup=False)

    def _live(self) -> Content:
        lines = show.text("".join(self._output)).split("\n")
        return Content("\n").join(lines[-_LIVE_LINES:])

    def _show_output(self) -> None:
        if self.opened and self.is_mounted:
            for live in self.query(".live").results(Static):
                live.update(self._live())
