"""A row that opens; its body is built when it is first opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static


class FoldTitle(Static, can_focus=True):
    """The line that stays; Enter, space or a click opens what belongs to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "unfold", "Open or close", show=False, id="fold.toggle"),
    ]
    DEFAULT_CSS = """
    FoldTitle { width: 1fr; height: auto; }
    """

    def action_unfold(self) -> None:
        self._toggle()

    def on_click(self) -> None:
        self._toggle()

    def _toggle(self) -> None:
        if isinstance(self.parent, Fold):
            self.parent.opened = not self.parent.opened


class Fold(Vertical):
    """A title and, once opened, a body."""

    DEFAULT_CSS = """
    Fold { width: 1fr; height: auto; }
    Fold > .body { width: 1fr; height: auto; padding: 0 0 0 2; }
    """

    opened = reactive(False, init=False)

    def __init__(self, *, opened: bool = False, classes: str = "") -> None:
        super().__init__(classes=classes)
        self.set_reactive(Fold.opened, opened)

    def compose(self) -> ComposeResult:
        yield FoldTitle(self.titled(), markup=False)
        if self.opened:
            yield from self.body()

    def title(self) -> Content:
        """What the line says, without its arrow."""
        raise NotImplementedError

    def body(self) -> Iterator[Widget]:
        """What is inside; each has the class `body`."""
        raise NotImplementedError

    def titled(self) -> Content:
        """The line with its arrow."""
        return Content.assemble(("▾ " if self.opened else "▸ ", "$faint"), self.title())

    def retitle(self) -> None:
        """Draw the line again."""
        if self.is_mounted:
            self.query_one(FoldTitle).update(self.titled())

    async def watch_opened(self) -> None:
        self.retitle()
        if not self.is_mounted:
            return
        with self.app.batch_update():
            await self.query(".body").remove()
            if self.opened:
                await self.mount_all(self.body())
