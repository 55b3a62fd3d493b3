"""Review of a proposed memory: what would be written, and where it comes from."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mindstone_tui.core.events import MemoryProposed
from mindstone_tui.core.text import exact
from mindstone_tui.tui import show
from mindstone_tui.tui.markdown.code import diffed
from mindstone_tui.tui.widgets.decision import Decision, button


class MemoryReview(Decision):
    """Nothing is stored without `approve`; `later` leaves it undecided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "choose('approve')", "Approve", id="memory.approve"),
        Binding("r", "choose('refuse')", "Refuse", id="memory.refuse"),
        Binding("l", "choose('later')", "Later", id="memory.later"),
    ]
    FIRST = "later"

    def __init__(
        self, proposal: MemoryProposed, *, grace: float, clock: Callable[[], float]
    ) -> None:
        super().__init__(grace=grace, clock=clock)
        self.proposal = proposal

    def content(self) -> ComposeResult:
        proposal = self.proposal
        sources = ", ".join(f"#{seq}" for seq in proposal.sources)
        yield Static(
            Content.assemble(
                ("☆ ", "bold $accent"),
                ("Remember this?  ", "bold"),
                show.line(proposal.path, 80, "$muted"),
            ),
            markup=False,
            id="question",
        )
        why = [show.text(proposal.why, "$muted"), Content.styled(f"from {sources}", "$faint")]
        yield Static(Content("\n").join(why), markup=False, id="why")
        with VerticalScroll(id="exact", can_focus=False):
            yield Static(difference(proposal), markup=False, id="diff")

    def answers(self) -> ComposeResult:
        yield button("l", Content("Later"), "later")
        yield button("a", Content("Approve"), "approve")
        yield button("r", Content("Refuse"), "refuse")

    def action_back(self) -> None:
        self.choose("later")


def difference(proposal: MemoryProposed) -> Content:
    """What changes in the memory's file, line by line."""
    lines = difflib.unified_diff(
        exact(proposal.before).splitlines(), exact(proposal.after).splitlines(), lineterm="", n=3
    )
    return diffed("\n".join(list(lines)[2:]))
