"""The status line: zone, tokens, model and cost; current activity where there is room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from mindstone_tui.tui import gauges, show

if TYPE_CHECKING:
    from mindstone_tui.core.events import ContextReport


class StatusLine(Widget):
    """One row with the state of the window and the turn."""

    DEFAULT_CSS = """
    StatusLine { width: 1fr; height: 1; }
    """

    report: reactive[ContextReport | None] = reactive(None)
    model = reactive("")
    doing = reactive("")
    session = reactive("")

    def render(self) -> Content:
        room = self.size.width
        for left, told in self._layouts(room):
            right = show.line(told, 80).stylize("$muted")
            gap = room - left.cell_length - right.cell_length
            if gap >= (2 if told else 0):
                return left + Content(" " * gap) + right
        return self._left(wide=False, model=8)

    def _left(self, *, wide: bool, model: int = 20) -> Content:
        if self.report is None:
            told = show.line(self.model) if self.model else Content("opening…")
            return Content.assemble(("● ", "$faint"), told)
        return gauges.status(self.report, wide=wide, model=40 if wide else model)

    def _layouts(self, room: int) -> Iterator[tuple[Content, str]]:
        """Fuller ones first; what goes on is never left out for what stays the same."""
        wide = self._left(wide=room >= 90)
        narrow = self._left(wide=False)
        if not self.doing:
            yield from ((wide, self.session), (narrow, self.session), (narrow, ""))
            return
        first, _, rest = self.doing.partition(" · ")
        since = rest.partition(" · ")[0]
        yield wide, f"{self.doing} │ {self.session}"
        for told in (self.doing, f"{first} · {since}" if since else first):
            yield from ((wide, told), (narrow, told))
        for left in (narrow, self._left(wide=False, model=8)):
            yield left, f"… {since or first}"
