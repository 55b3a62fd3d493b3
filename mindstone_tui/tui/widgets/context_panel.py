"""The context panel and the status line: how full the window is, with what, how fast it fills.

Its figures come from `ContextReport` alone; its lists from the events that announce each change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import numbers, text
from mindstone_tui.tui import gauges, show

if TYPE_CHECKING:
    from mindstone_tui.core import events as ev
    from mindstone_tui.core.entries.window import Alert
    from mindstone_tui.core.events import ContextReport, GoneExchange

_ALERTS = 5


class Gauges(Widget):
    """Zone, bar, tokens, budget, pace and money."""

    report: reactive[ContextReport | None] = reactive(None, layout=True)
    expiring = reactive("", layout=True)
    """What a pause is about to cost."""

    def render(self) -> Content:
        report, width = self.report, max(self.size.width, 20)
        if report is None:
            return Content.styled("Opening the session…", "$muted")
        parts = [
            _heading("Context window", gauges.zone(report), width),
            gauges.fullness(report, width),
            gauges.size(report),
            gauges.room(report),
            Content(""),
            _heading("What fills it", Content.styled(f"turn {report.turn}", "$faint"), width),
            gauges.budget(report, width),
            Content(""),
            _heading("Growth", Content(""), width),
            gauges.growth(report, width),
            gauges.money(report),
            *([Content.styled(self.expiring, "$warning")] if self.expiring else []),
            *_todo(report, width),
            *(show.line(row, width) for row in report.beside),
        ]
        return Content("\n").join(parts)


_MOST_TODO = 8


def _todo(report: ContextReport, width: int) -> list[Content]:
    """What is to be done, what is done last; nothing where there is no list."""
    if not report.todo:
        return []
    done = sum(row.startswith("[x]") for row in report.todo)
    right = Content.styled(f"{done} of {len(report.todo)} done", "$faint")
    rows = sorted(report.todo, key=lambda row: row.startswith("[x]"))
    shown = [show.line(row, width) for row in rows[:_MOST_TODO]]
    more = [Content.styled(f"… {len(rows) - _MOST_TODO} more: /todo", "$faint")]
    rest = more if len(rows) > _MOST_TODO else []
    return [Content(""), _heading("To do", right, width), *shown, *rest]


def _heading(title: str, right: Content, width: int) -> Content:
    gap = max(1, width - len(title) - right.cell_length)
    return Content.styled(title, "bold $muted") + Content(" " * gap) + right


class LeftLog(OptionList):
    """Exchanges that left the window, the newest first."""

    BINDINGS = [
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
        self.entries: tuple[GoneExchange, ...] = ()

    def show(self, gone: tuple[GoneExchange, ...]) -> None:
        """List these, and nothing else."""
        self.display = bool(gone)
        if gone == self.entries:
            return
        at, self.entries = self.highlighted, gone
        self.clear_options()
        self.add_options([Option(_gone(entry)) for entry in gone])
        if at is not None and gone:
            self.highlighted = min(at, len(gone) - 1)

    def on_option_list_option_highlighted(self) -> None:
        """The panel scrolls, not the list in it."""
        if self.has_focus and self.highlighted is not None:
            self.call_after_refresh(self._scroll_panel)

    def _scroll_panel(self) -> None:
        # Only after the list was laid out anew is it known where its rows are.
        if self.highlighted is not None and isinstance(self.parent, Widget):
            row = Region(0, self.virtual_region.y + self.highlighted, 1, 1)
            self.parent.scroll_to_region(row, animate=False)

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


def _gone(gone: GoneExchange) -> Content:
    """The turn, what restoring it costs, and how its request begins, in one line."""
    return Content.assemble(
        (f"{gone.turn:>4} ", "$context-pruned"),
        (f"{numbers.tokens(gone.tokens):>6}  ", "$muted"),
        show.line(gone.words or "(no request)", 120),
    )


class ContextPanel(VerticalScroll, can_focus=False):
    """The column on the right."""

    report: reactive[ContextReport | None] = reactive(None)
    waiting = reactive("")
    """What waits for a decision in any session, and what lists it."""

    def compose(self) -> ComposeResult:
        yield Gauges()

    def on_mount(self) -> None:
        self._alerts: list[Alert] = []
        self._opened = True
        """Whether the next report is the first of a session, and tells what was wrong before."""

    def _make_lists(self) -> None:
        """Make the lists below the gauges, hidden; the first picture does not wait for them."""
        if len(self.children) > 1:
            return
        names = ("waiting", "alerts", "left-title", "recall-hits")
        titles = [Static(id=name, markup=False) for name in names]
        lists = (*titles[:3], LeftLog(), titles[3])
        for each in lists:
            each.display = False
        self.mount(*lists)

    def watch_waiting(self, told: str) -> None:
        self._make_lists()
        shown = self.query_one("#waiting", Static)
        shown.display = bool(told)
        shown.update(show.text(told.replace("`", ""), "$accent"))

    def watch_report(self, report: ContextReport | None) -> None:
        if report is None:
            return
        self._make_lists()
        self.query_one(Gauges).report = report
        self.query_one(LeftLog).show(report.gone)
        outside, title = report.outside, self.query_one("#left-title", Static)
        title.display = bool(outside.exchanges)
        if outside.exchanges:
            title.update(_left_title(report))
        if self._opened:
            told = {one.metric for one in self._alerts}
            self._alerts += [one for one in report.alerts if one.metric not in told][:_ALERTS]
            self._opened = False
        self._show_alerts()

    def tell_time(self, now: float) -> None:
        """Say what a pause is about to cost, as of this second."""
        self.query_one(Gauges).expiring = gauges.expiring(self.report, now)

    def show(self, event: ev.AnyEvent) -> None:
        """Keep the lists up to date."""
        from mindstone_tui.core import events as ev  # not for the first picture

        self._make_lists()
        match event:
            case ev.SessionReady():
                self._alerts, self._opened = [], True
            case ev.TurnStarted():
                self.query_one("#recall-hits").display = False
            case ev.RecallInjected():
                self._recalled(event)
            case ev.AlertRaised():
                others = [one for one in self._alerts if one.metric != event.metric]
                self._alerts = others if event.level == "info" else [event, *others][:_ALERTS]
                self._show_alerts()
            case ev.AlertsCleared(metrics=metrics):
                self._alerts = [one for one in self._alerts if one.metric not in metrics]
                self._show_alerts()

    def _recalled(self, event: ev.RecallInjected) -> None:
        lines = [Content.styled("Recalled for this turn", "bold $muted")]
        for passage in event.passages[:6]:
            marks = passage.short_marks
            lines.append(
                Content.assemble(
                    (f"turn {passage.turn} ", "$context-recalled"),
                    ("".join(f"{show.line(one, 40).plain} · " for one in marks), "$muted"),
                    show.line(passage.text, 60),
                )
            )
        hits = self.query_one("#recall-hits", Static)
        hits.update(Content("\n").join(lines))
        hits.display = True

    def _show_alerts(self) -> None:
        """What needs attention, each with what to do about it."""
        lines, told = [], self.report
        held = told is not None and told.protected_tokens > told.marks.floor
        for alert in self._alerts:
            if alert.metric == "protected" and held:
                continue  # the report says it with its tokens
            colour = "$error" if alert.level == "critical" else "$warning"
            lines.append(show.text(f"! {alert.message}", colour))
            if alert.remedy:
                lines.append(show.text(f"  {alert.remedy}", "$muted"))
        if self.report is not None:
            lines += [show.text(f"! {warning}", "$warning") for warning in self.report.warnings]
        shown = self.query_one("#alerts", Static)
        shown.display = bool(lines)
        shown.update(Content("\n").join([Content.styled("Needs attention", "bold $muted"), *lines]))


def _left_title(report: ContextReport) -> Content:
    """How much left, and how many of it the list does not show."""
    outside = report.outside
    if outside.unindexed:
        state = f"{outside.unindexed} not indexed"
    elif outside.by_words:
        state = f"found by words\n({text.plural(outside.by_words, 'passage')} not yet by meaning)"
    else:
        state = "all searchable"
    told = f"{outside.count} · {state}"
    if outside.rewound:
        told += f"\nand {text.plural(outside.rewound, 'turn')} rewound"
    if (more := outside.exchanges - len(report.gone)) > 0 and report.gone:
        told += f"\nthe newest {len(report.gone)}, and {more:,} older (F4)"
    return Content.assemble(
        ("Left the window", "bold $muted"),
        ("  Tab, then r restores\n" if report.gone else "\n", "$faint"),
        (told, "$warning" if outside.unindexed else "$muted"),
        ("\nturn   cost  request" if report.gone else "", "$faint"),
    )


class StatusLine(Widget):
    """One row with the state of the window and the turn."""

    report: reactive[ContextReport | None] = reactive(None)
    model = reactive("")
    doing = reactive("")
    session = reactive("")

    def __init__(self, where: str = "") -> None:
        super().__init__()
        self._where = f" in {where}" if where else ""

    def render(self) -> Content:
        room = self.size.width
        for left, told in self._layouts(room):
            right = show.line(told, 80).stylize("$muted")
            if (gap := room - left.cell_length - right.cell_length) >= (2 if told else 0):
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
        named = self.session + self._where
        if not self.doing:
            yield from ((wide, named), (narrow, named), (narrow, self.session), (narrow, ""))
            return
        first, _, rest = self.doing.partition(" · ")
        since = rest.partition(" · ")[0]
        yield wide, f"{self.doing} │ {named}"
        for told in (self.doing, f"{first} · {since}" if since else first):
            yield from ((wide, told), (narrow, told))
        small = self._left(wide=False, model=8)
        yield from ((small, told), (narrow, f"… {since or first}"), (small, f"… {since or first}"))
