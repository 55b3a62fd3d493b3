"""The replay timeline: how full the window was, what happened, and the current position."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from typing import Final

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from mindstone_tui.core.replay.playback import Position
from mindstone_tui.core.replay.survey import Kind, Landmark, Survey
from mindstone_tui.core.text import plural

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

    DEFAULT_CSS = """
    Timeline { width: 1fr; height: 4; }
    """

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
        at = bisect_left(columns, seq, key=lambda mark: mark.seq)
        return min(at, len(columns) - 1)

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
        (f"  {position.ts[:16].replace('T', ' ')}", "$muted"),
    )
    counts = {kind: sum(mark.kind == kind for mark in survey.marks) for kind in _SIGNS}
    told = [
        plural(len(survey.calls), "request"),
        *(f"{_SIGNS[kind][0]} {plural(count, kind)}" for kind, count in counts.items() if count),
    ]
    while told:
        right = Content.styled(" · ".join(told), "$muted")
        gap = width - left.cell_length - right.cell_length
        if gap >= 2:
            return left + Content(" " * gap) + right
        told.pop()
    return left
