"""A dialog that asks for a decision: the content scrolls, the buttons stay in view."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

Answered = TypeVar("Answered")

_LEAST = 3
"""Rows of content that stay visible however small the terminal is."""


class DialogScreen(ModalScreen[Answered], Generic[Answered]):
    """Holds `#dialog` and in it `#exact`, which shrinks before anything else does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "read(1)", "Read on", show=False, id="judge.on"),
        Binding("pageup", "read(-1)", "Read back", show=False, id="judge.back"),
    ]

    HIGHEST: ClassVar[float] = 0.94
    """Share of the screen that it may take, as long as its content has a few rows."""

    def on_mount(self) -> None:
        self.call_after_refresh(self._make_room)

    def on_resize(self) -> None:
        self.call_after_refresh(self._make_room)

    def _make_room(self) -> None:
        dialog, exact = self.query_one("#dialog"), self.query_one("#exact")
        margins = dialog.styles.margin.height + exact.styles.margin.height
        others = sum(
            child.outer_size.height + child.styles.margin.height
            for child in dialog.children
            if child is not exact
        )
        room = int(self.size.height * self.HIGHEST) - dialog.styles.gutter.height - margins - others
        exact.styles.max_height = max(_LEAST, room)
        more = exact.virtual_size.height > max(_LEAST, room)
        dialog.border_subtitle = "PgDn reads on" if more else ""

    def action_read(self, direction: int) -> None:
        exact = self.query_one("#exact")
        if direction > 0:
            exact.scroll_page_down(animate=False)
        else:
            exact.scroll_page_up(animate=False)
