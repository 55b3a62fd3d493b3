"""What other widgets are made of: rows that open, content that grows, one line to type into."""

import time
from collections.abc import Iterator
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from mindstone_tui.core.text import one_line
from mindstone_tui.tui.prompt.paste import with_newlines
from mindstone_tui.tui.terminal import LastingDriver

_LETTER: Final = 0.06
"""Seconds for which a picture waits for a letter that was read; it may be for somebody else."""


class GrowsQuietly(Widget):
    """Is laid out once when only its content got longer.

    Textual lays out and draws a widget again whenever the size of its content has changed, which
    that layout itself did. It has to only where the room around it has changed as well. Stands
    second among the bases: Textual takes styles and keys from the first.
    """

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        before, around = self._size, self._container_size
        settled = size.width == before.width and container_size.width == around.width
        if self.styles.overflow_y != "hidden":
            settled = settled and size.height == before.height
        resized = size != before
        sent = super()._size_updated(size, virtual_size, container_size, layout and not settled)
        if self.show_vertical_scrollbar:
            # Drawn where it is now, in the picture that this layout belongs to.
            self.vertical_scrollbar._repaint_required = False
        if resized:
            # The layout draws a widget of another size whole; what it still asks for came with it.
            self._repaint_regions.clear()
        return sent


class PacedScreen(Screen[None]):
    """Draws a letter that was typed before all else: a picture of everything takes far longer."""

    def draw_first(self, widget: Widget) -> None:
        """Draw one widget where it is, whatever else waits to be drawn or laid out."""
        waiting = self._dirty_widgets - {widget}
        self._compositor.update_widgets({widget})
        self._compositor_refresh()
        self._dirty_widgets.update(waiting)

    def _on_timer_update(self) -> None:
        driver = self.app._driver
        typed = driver.typed if isinstance(driver, LastingDriver) else 0.0
        if time.monotonic() - typed > _LETTER:  # else asked again with the next frame
            super()._on_timer_update()


def only_plain(self: Widget, event: events.Click) -> None:
    """As `on_click` of what decides: a button that pastes, or one with a modifier, is no answer."""
    if event.button != 1 or event.shift or event.meta or event.ctrl:
        event.stop()
        event.prevent_default()


class Rows(OptionList):
    """A list whose rows take a plain click, and which ends where it ends."""

    on_click = only_plain

    def action_cursor_up(self) -> None:
        if self.highlighted:
            super().action_cursor_up()

    def action_cursor_down(self) -> None:
        if self.highlighted != self.option_count - 1:
            super().action_cursor_down()


class FoldTitle(Static, can_focus=True):
    """The line that stays; Enter, space or a click opens what belongs to it."""

    BINDINGS = [Binding("enter,space", "unfold", "Open or close", show=False, id="fold.toggle")]

    def action_unfold(self) -> None:
        self._toggle()

    def on_click(self) -> None:
        self._toggle()

    def _toggle(self) -> None:
        if isinstance(self.parent, Fold):
            self.parent.opened = not self.parent.opened


class Fold(Vertical):
    """A title, a glimpse while it is closed, and a body once it is opened."""

    opened = reactive(False, init=False)

    def __init__(self, *, classes: str) -> None:
        super().__init__(classes=classes)
        self._title = FoldTitle(markup=False)

    def compose(self) -> ComposeResult:
        self.retitle()
        yield self._title
        yield from self._inside()

    def title(self) -> Content:
        """What the line says, without its arrow."""
        raise NotImplementedError

    def body(self) -> Iterator[Widget]:
        """What is inside; each has the class `body`."""
        raise NotImplementedError

    def glimpse(self) -> Iterator[Widget]:
        """What is seen of it while it is closed; each has the class `body`."""
        yield from ()

    def titled(self) -> Content:
        """The line with its arrow."""
        return Content.assemble(("▾ " if self.opened else "▸ ", "$faint"), self.title())

    def retitle(self) -> None:
        """Draw the line again; also while the row itself is still being put on the screen."""
        self._title.update(self.titled())

    def _inside(self) -> Iterator[Widget]:
        return self.body() if self.opened else self.glimpse()

    async def watch_opened(self) -> None:
        self.retitle()
        await self.refill()
        if self.opened:
            self.call_after_refresh(self._stay_in_view)

    async def refill(self) -> None:
        """Build again what stands below the title."""
        if self.is_mounted:
            with self.app.batch_update():
                await self.query(".body").remove()
                await self.mount_all(self._inside())

    def _stay_in_view(self) -> None:
        """A row that opens to more than the screen holds is read from its title on."""
        for widget in self.ancestors:
            if isinstance(widget, Widget) and widget.is_anchored:
                if self.outer_size.height > widget.size.height:
                    widget.release_anchor()
                    widget.scroll_to(
                        y=self._rows_below_top_of(widget), animate=False, immediate=True, force=True
                    )
                return

    def _rows_below_top_of(self, around: Widget) -> int:
        """Rows between the top of what scrolls and this row."""
        return int(self.region.y - around.content_region.y + around.scroll_y)


class LineInput(Input):
    """An `Input` that no paste can make write control bytes, and that rests when nobody types."""

    def on_mount(self) -> None:
        self.cursor_blink = False

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.replace(one_line(with_newlines(event.text), 1_000), *self.selection)
