"""The context panel: how full the window is, with what, how fast it fills, what left and came back.

Its figures come from `ContextReport` alone; its lists from the events that announce each change.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import events as ev
from mindstone_tui.core import numbers
from mindstone_tui.core.entries.window import Left
from mindstone_tui.core.events import ContextReport
from mindstone_tui.core.text import plural
from mindstone_tui.tui import gauges, show

LOG_LENGTH = 200


class Gauges(Widget):
    """Zone, bar, tokens, budget, pace and money."""

    DEFAULT_CSS = """
    Gauges { width: 1fr; height: auto; }
    """

    report: reactive[ContextReport | None] = reactive(None, layout=True)

    def render(self) -> Content:
        report, width = self.report, max(self.size.width, 20)
        if report is None:
            return Content.styled("Measured when you send the first message.", "$muted")
        parts = [
            _heading("Window", gauges.zone(report), width),
            gauges.fullness(report, width),
            gauges.size(report),
            gauges.room(report),
            gauges.marks(report),
            Content(""),
            _heading("Budget", Content.styled(f"turn {report.turn}", "$faint"), width),
            gauges.budget(report.components, width),
            Content(""),
            _heading("Pace", Content(""), width),
            gauges.pace(report, width),
            gauges.money(report),
        ]
        for warning in report.warnings:
            parts.append(show.text(f"! {warning}", "$warning"))
        return Content("\n").join(parts)


def _heading(title: str, right: Content, width: int) -> Content:
    gap = max(1, width - len(title) - right.cell_length)
    return Content.styled(title, "bold $muted") + Content(" " * gap) + right


class LeftLog(OptionList):
    """Exchanges that left the window, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "restore", "Restore", id="log.restore"),
        Binding("p", "pin", "Restore and pin", id="log.pin"),
    ]

    class Wanted(Message):
        """An action on a pruned exchange."""

        def __init__(self, turn: int, deed: str) -> None:
            super().__init__()
            self.turn = turn
            self.deed = deed
            """`open`, `restore` or `pin`."""

    def __init__(self) -> None:
        super().__init__(markup=False, id="left-log")
        self.entries: list[Left] = []

    def take(self, left: tuple[Left, ...]) -> None:
        """Add exchanges at the top, newest first."""
        fresh = sorted(left, key=lambda one: one.turn, reverse=True)
        self.entries = [*fresh, *self.entries][:LOG_LENGTH]
        self.clear_options()
        self.add_options([Option(_left(entry)) for entry in self.entries])

    def forget(self, turn: int) -> None:
        """An exchange was restored."""
        self.entries = [entry for entry in self.entries if entry.turn != turn]
        self.clear_options()
        self.add_options([Option(_left(entry)) for entry in self.entries])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._want("open")

    def action_restore(self) -> None:
        self._want("restore")

    def action_pin(self) -> None:
        self._want("pin")

    def _want(self, deed: str) -> None:
        if self.highlighted is not None:
            self.post_message(self.Wanted(self.entries[self.highlighted].turn, deed))


def _left(left: Left) -> Content:
    receipt = left.receipt
    state = (
        ""
        if receipt is None or receipt.vectors in ("", "stored")
        else f" · vectors {receipt.vectors}"
    )
    return Content.assemble(
        (f"turn {left.name}".ljust(10), "$context-pruned"),
        numbers.tokens(left.tokens).rjust(6),
        "  ",
        show.line(left.reason + state, 40, "$muted"),
    )


class ContextPanel(VerticalScroll, can_focus=False):
    """The column on the right."""

    report: reactive[ContextReport | None] = reactive(None)

    def compose(self) -> ComposeResult:
        yield Gauges()
        yield Static("", id="left-title", markup=False)
        yield LeftLog()
        yield Static("", id="recall-hits", markup=False)
        yield Static("", id="alerts", markup=False)

    def on_mount(self) -> None:
        self._alerts: list[ev.AlertRaised] = []
        self.query_one(LeftLog).display = False

    def watch_report(self, report: ContextReport | None) -> None:
        if report is None:
            return
        self.query_one(Gauges).report = report
        log = self.query_one(LeftLog)
        known = {entry.turn for entry in log.entries}
        if unheard := tuple(entry for entry in report.left if entry.turn not in known):
            log.take(unheard)
            log.display = True
        outside = report.outside
        if outside.exchanges:
            state = "all indexed" if outside.indexed else f"{outside.unindexed} not indexed"
            count = plural(outside.exchanges, "exchange")
            self._title_log(
                Content.styled(
                    f"{count} · {numbers.tokens(outside.tokens)} · {state}",
                    "$muted" if outside.indexed else "$warning",
                )
            )

    def show(self, event: ev.AnyEvent) -> None:
        """Keep the lists up to date."""
        log = self.query_one(LeftLog)
        match event:
            case ev.WindowPruned(left=left):
                log.take(left)
            case ev.WindowChanged(kind="restored", detail=detail):
                for word in detail.replace(",", " ").split():
                    if word.isdecimal():
                        log.forget(int(word))
            case ev.RecallInjected():
                self._recalled(event)
            case ev.AlertRaised():
                self._alerts = [event, *self._alerts][:5]
                self._alarm()
        log.display = bool(log.entries)
        if log.entries and self.report is not None and not self.report.outside.exchanges:
            self._title_log(Content.styled("since the last measurement", "$muted"))

    def _title_log(self, told: Content) -> None:
        title = Content.styled("Left the window\n", "bold $muted")
        self.query_one("#left-title", Static).update(title + told)

    def _recalled(self, event: ev.RecallInjected) -> None:
        lines = [Content.styled("Recalled", "bold $muted")]
        for passage in event.passages[:6]:
            lines.append(
                Content.assemble(
                    (f"{passage.score:.2f} ", "$context-recalled"),
                    (f"turn {passage.turn} ", "$muted"),
                    show.line(passage.text, 60),
                )
            )
        self.query_one("#recall-hits", Static).update(Content("\n").join(lines))

    def _alarm(self) -> None:
        lines = [Content.styled("Alerts", "bold $muted")]
        for alert in self._alerts:
            colour = "$error" if alert.level == "critical" else "$warning"
            lines.append(show.text(f"! {alert.message}", colour))
        self.query_one("#alerts", Static).update(Content("\n").join(lines))
