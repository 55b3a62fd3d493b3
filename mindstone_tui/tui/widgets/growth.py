"""A widget whose content grows, and what that must not cost."""

from __future__ import annotations

from textual.geometry import Size
from textual.widget import Widget


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
