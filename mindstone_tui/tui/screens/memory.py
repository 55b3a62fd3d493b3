"""Review of a proposed memory: what would be written, and where it comes from."""

from __future__ import annotations

import difflib
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from mindstone_tui.core.events import MemoryProposed
from mindstone_tui.core.text import exact
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import diffed
from mindstone_tui.tui.screens.dialog import DialogScreen


class MemoryScreen(DialogScreen[str]):
    """Nothing is stored without `approve`; closing the dialog leaves it undecided."""

    AUTO_FOCUS = "#later"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "decide('approve')", "Approve", id="memory.approve"),
        Binding("r", "decide('refuse')", "Refuse", id="memory.refuse"),
        Binding("escape", "dismiss", "Later", id="memory.later"),
        Binding("left", "app.focus_previous", "Previous", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
    ]

    def __init__(self, proposal: MemoryProposed) -> None:
        super().__init__()
        self.proposal = proposal

    def compose(self) -> ComposeResult:
        proposal = self.proposal
        sources = ", ".join(f"#{seq}" for seq in proposal.sources)
        with Vertical(id="dialog"):
            yield Static(
                Content.assemble(
                    ("☆ ", "bold $accent"),
                    ("Remember this?  ", "bold"),
                    show.line(proposal.path, 80, "$muted"),
                ),
                markup=False,
            )
            yield Static(
                Content("\n").join(
                    [
                        show.text(proposal.why, "$muted"),
                        Content.styled(f"from {sources}", "$faint"),
                    ]
                ),
                markup=False,
                id="why",
            )
            with VerticalScroll(id="exact"):
                yield Static(difference(proposal), markup=False, id="diff")
            with Horizontal(id="buttons"):
                yield Button(Content("Later (esc)"), id="later", compact=True)
                yield Button(Content("Approve (a)"), id="approve", compact=True)
                yield Button(Content("Refuse (r)"), id="refuse", compact=True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "later":
            self.dismiss(None)
        else:
            self.action_decide(event.button.id or "")

    def action_decide(self, decision: str) -> None:
        self.dismiss(decision)


def difference(proposal: MemoryProposed) -> Content:
    """What changes in the memory's file, line by line."""
    lines = difflib.unified_diff(
        exact(proposal.before).splitlines(), exact(proposal.after).splitlines(), lineterm="", n=3
    )
    return diffed("\n".join(list(lines)[2:]))
