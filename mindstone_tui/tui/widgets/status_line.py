"""The last line: zone, tokens, model and cost, always; what is going on, where there is room."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from mindstone_tui.core.context.report import ContextReport
from mindstone_tui.tui import gauges, inert


class StatusLine(Widget):
    """One row that never lies about the window."""

    DEFAULT_CSS = """
    StatusLine { width: 1fr; height: 1; }
    """

    report: reactive[ContextReport | None] = reactive(None)
    model = reactive("")
    doing = reactive("")
    session = reactive("")

    def render(self) -> Content:
        room = self.size.width
        if self.report is None:
            left = Content.assemble(("● ", "$faint"), inert.line(self.model or "opening…"))
        else:
            left = gauges.status(self.report, wide=room >= 90)
        right = self._right(room - left.cell_length - 2)
        gap = max(1, room - left.cell_length - right.cell_length)
        return left + Content(" " * gap) + right

    def _right(self, room: int) -> Content:
        for parts in ((self.doing, self.session), (self.doing,), (self.session,)):
            shown = " │ ".join(part for part in parts if part)
            line = inert.line(shown, 80)
            if shown and line.cell_length <= room:
                return line.stylize("$muted")
        return Content("")
