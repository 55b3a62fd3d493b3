"""The inspector: every block of the next prompt, its size, and why it is there or may leave."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from mindstone_tui.core import events, numbers, text
from mindstone_tui.tui import gauges, show

_HEAD = "    turn   tokens  what            why it is here          begins with"
_WHY = {
    "standing part of the prompt": "always sent",
    "passes with this turn": "for this turn only",
    "original task": "states the task",
    "current exchange": "stays: newest",
}
"""Reasons in fewer words than the report has for them."""


class Blocks(OptionList):
    """The rows; Enter opens one."""

    BINDINGS = [Binding("enter", "select", "Open", id="inspector.open")]


class InspectorScreen(Screen[None]):
    """The window as a list; whole exchanges are marked, because they leave as a whole."""

    AUTO_FOCUS = "#blocks"
    BINDINGS = [
        Binding("space,m", "mark", "Mark", id="inspector.mark"),
        Binding("p", "pin", "Pin / unpin", id="inspector.pin"),
        Binding("x,delete", "prune", "Prune marked", id="inspector.prune"),
        Binding("r", "restore", "Restore", id="inspector.restore"),
        Binding("escape,q,f2", "close", "Back", id="inspector.close"),
    ]

    _list = query_one("#blocks", OptionList)

    def __init__(
        self,
        report: events.ContextReport | None,
        *,
        command: Callable[[str], None],
        open_line: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._report = report
        self._command = command
        self._open_line = open_line
        self.marked: set[int] = set()
        self._confirming = False
        self._place = (-1, 0)
        """The line and the turn under the cursor."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", id="summary", markup=False)
            yield Static(Content.styled(_HEAD, "$faint"), id="head", markup=False)
            yield Blocks(id="blocks", markup=False)
            yield Static("", id="detail", markup=False)
            yield Static("", id="effect", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._draw()

    def measured(self, report: events.ContextReport | None) -> None:
        """Show a new report."""
        self._report = report
        self._draw()

    # drawing

    @property
    def _blocks(self) -> tuple[events.Block, ...]:
        return self._report.blocks if self._report is not None else ()

    def _draw(self) -> None:
        report = self._report
        self.query_one("#head").display = report is not None
        self.query_one("#detail").display = report is not None
        if report is None:
            said = "Nothing to show yet. The window is measured when you send the first message."
            self.query_one("#summary", Static).update(Content(said))
            self._preview()
            return
        self.query_one("#summary", Static).update(
            Content("\n").join(
                [
                    Content.assemble(
                        gauges.zone(report),
                        "  ",
                        gauges.size(report),
                        "  ",
                        show.line(f"{report.mode} · {report.policy}", 80, "$muted"),
                    ),
                    gauges.fullness(report, min(max(self.size.width - 6, 40), 100)),
                ]
            )
        )
        at = self._list.highlighted or 0
        rows = [Option(_block(block, block.turn in self.marked)) for block in self._blocks]
        if report.gone:
            rows.append(Option(_boundary(report), disabled=True))
        rows += [Option(_gone(gone)) for gone in report.gone]
        self._list.clear_options()
        self._list.add_options(rows)
        if rows:
            self._list.highlighted = self._followed(min(at, len(rows) - 1))
        self._preview()

    def _followed(self, at: int) -> int:
        """Where the row under the cursor is now: what was restored moved up among the others."""
        seq, turn = self._place
        rows = [*((one.seq, one.turn) for one in self._blocks), *self._outside_rows()]
        exact = [number for number, row in enumerate(rows) if row == (seq, turn) and turn]
        same = [number for number, row in enumerate(rows) if row[1] == turn and turn]
        return (exact or same or [at])[0]

    def _outside_rows(self) -> list[tuple[int, int]]:
        gone = self._report.gone if self._report is not None else ()
        return [(-1, 0), *((-1, one.turn) for one in gone)] if gone else []

    def on_option_list_option_highlighted(self) -> None:
        detail = Content("")
        self._place = (-1, 0)
        if (block := self._here()) is not None:
            self._place = (block.seq, block.turn)
            detail = Content("\n").join([show.line(block.preview, 300), _details(block)])
        elif (gone := self._here_gone()) is not None:
            self._place = (-1, gone.turn)
            told = f"Outside the window. Restoring it adds {gone.tokens:,} tokens: press r."
            why = f"/why turn {gone.turn} says why it left."
            detail = Content("\n").join(
                [show.line(gone.words, 300), Content.styled(f"{told} {why}", "$muted")]
            )
        self.query_one("#detail", Static).update(detail)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_open()

    def _here(self) -> events.Block | None:
        at = self._list.highlighted
        return self._blocks[at] if at is not None and at < len(self._blocks) else None

    def _here_gone(self) -> events.GoneExchange | None:
        at = self._list.highlighted
        if self._report is None or at is None or at <= len(self._blocks):
            return None
        return self._report.gone[at - len(self._blocks) - 1]

    # actions

    def action_mark(self) -> None:
        """Mark the exchange under the cursor, if it may leave."""
        if (block := self._here()) is None:
            return
        whole = [one for one in self._blocks if one.turn == block.turn]
        if (shield := next((one for one in whole if one.protected), None)) is not None:
            self.notify(f"Turn {block.turn} cannot leave: {shield.why}.", markup=False)
            return
        self.marked ^= {block.turn}
        self._confirming = False
        self._draw()

    def effect(self) -> tuple[int, float]:
        """Tokens and fullness after the marked exchanges have left, as an estimate."""
        if (report := self._report) is None:
            return 0, 0.0
        gone = sum(block.tokens for block in self._blocks if block.turn in self.marked)
        after = report.prompt.tokens - gone
        return after, after / max(report.usable, 1)

    def _preview(self) -> None:
        effect = self.query_one("#effect", Static)
        effect.display = bool(self.marked)
        if not self.marked or self._report is None:
            effect.update(Content(""))
            return
        tokens, full = self.effect()
        before = self._report
        count = text.plural(len(self.marked), "exchange")
        ask = "  press x again to prune, escape to cancel" if self._confirming else "  x to prune"
        effect.update(
            Content.assemble(
                (f"{count} marked", "bold $accent"),
                f"  {numbers.tokens(before.prompt.tokens)} → {numbers.tokens(tokens)} tokens"
                f"  {numbers.percent(before.utilization)} → {numbers.percent(full)}",
                ("  estimated; stays searchable", "$muted"),
                (ask, "$accent"),
            )
        )

    def action_prune(self) -> None:
        """Preview the effect; press again to prune."""
        if not self.marked:
            self.action_mark()
        if not self.marked:
            return
        if not self._confirming:
            self._confirming = True
            self._preview()
            return
        self._command("/prune " + " ".join(f"turn {turn}" for turn in sorted(self.marked)))
        self.marked.clear()
        self._confirming = False
        self._draw()

    def action_pin(self) -> None:
        if (block := self._here()) is not None:
            self._command(f"/{'unpin' if block.pinned else 'pin'} turn {block.turn}")

    def action_restore(self) -> None:
        if (gone := self._here_gone()) is not None:
            self._command(f"/restore turn {gone.turn}")

    def action_open(self) -> None:
        if (block := self._here()) is not None:
            self._open_line(str(block.seq))
        elif (gone := self._here_gone()) is not None:
            self._open_line(f"turn {gone.turn}")

    def action_close(self) -> None:
        if self._confirming:
            self._confirming = False
            self._preview()
        else:
            self.dismiss()


def _reason(block: events.Block) -> tuple[str, str]:
    """Why a block is in the window, in a few words, and their colour."""
    if block.pinned:
        return "pinned", "$context-pinned"
    if block.protected:
        return _WHY.get(block.why, f"stays: {block.why}"), "$success"
    return ("shortened, may leave" if block.trimmed else "may leave"), "$muted"


def _block(block: events.Block, marked: bool) -> Content:
    why, colour = _reason(block)
    what = block.role or block.kind
    return Content.assemble(
        ("[x] " if marked else "    ", "bold $accent"),
        (f"{block.turn or '':>4}", "$muted"),
        f"{numbers.tokens(block.tokens):>9}  ",
        show.line(what, 14).pad_right(max(0, 16 - len(what[:14]))),
        show.line(why, 22, colour).pad_right(max(0, 24 - len(why[:22]))),
        show.line(block.preview, 200),
    )


def _details(block: events.Block) -> Content:
    """Where the block stands, how old it is, and what its keep score is made of."""
    why, colour = _reason(block)
    said = [f"line {block.seq}"] if block.seq >= 0 else []
    if block.age:
        said.append(f"{text.plural(block.age, 'turn')} old")
    if block.score is not None:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in block.parts.items())
        said.append(f"keep score {block.score:.2f} (the lowest leaves first): {parts}")
    told = show.line(" · ".join(said), 200, "$muted")
    return Content.assemble(show.line(why, 200, colour), "  ", told)


def _boundary(report: events.ContextReport) -> Content:
    """Parts what is in the window from what left it."""
    more = report.outside.exchanges - len(report.gone)
    listed = f", the newest {len(report.gone)} here" if more > 0 else ""
    return Content.styled(
        f"    ── {report.outside.count} left the window{listed}: r restores ──", "$muted"
    )


def _gone(gone: events.GoneExchange) -> Content:
    return Content.assemble(
        "    ",
        (f"{gone.turn:>4}", "$context-pruned"),
        f"{numbers.tokens(gone.tokens):>9}  ",
        ("exchange        ", "$muted"),
        ("outside                 ", "$context-pruned"),
        show.line(gone.words, 200, "$muted"),
    )
