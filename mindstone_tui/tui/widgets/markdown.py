"""An answer: Markdown that grows while it is streamed and is parsed whole when it is done."""

from __future__ import annotations

from typing import Final

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.selection import Selection
from textual.visual import RenderOptions, Visual

from mindstone_tui.core.text import for_terminal
from mindstone_tui.tui.markdown.layout import Drawing
from mindstone_tui.tui.markdown.parse import Piece, parse
from mindstone_tui.tui.widgets.growth import GrowsQuietly

FRAME: Final = 1 / 30
"""Seconds in which streamed pieces are gathered before they are drawn."""


class Prose(GrowsQuietly):
    """Markdown in one widget.

    Pieces that arrive together are drawn together; only the last block is parsed again, and only
    lines that differ are sent to the terminal as long as their number stays the same.
    """

    DEFAULT_CSS = """
    Prose { width: 1fr; height: auto; }
    """

    class CodeClicked(Message):
        """A code block is to be copied."""

        def __init__(self, code: str) -> None:
            super().__init__()
            self.code = code

    class LinkClicked(Message):
        """A link was clicked."""

        def __init__(self, href: str) -> None:
            super().__init__()
            self.href = href

    def __init__(self, text: str = "", *, finished: bool = True, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._written: list[str] = [text]
        self._unsettled: list[str] = [text]
        """The end of it, which is parsed again while it grows."""
        self._finished = finished
        self._settled: list[Piece] = []
        self._drawing = self._shown = Drawing([])
        self._stale = True
        self._growing = False
        # Links are ours; Textual need not look for its own in every line.
        self.set_reactive(Prose.auto_links, False)

    @property
    def source(self) -> str:
        """The text as it came, made harmless."""
        return for_terminal("".join(self._written))

    @property
    def codes(self) -> list[str]:
        """Every code block, oldest first."""
        self._parse()
        return self._drawing.codes

    def write(self, text: str) -> None:
        """Add what was streamed."""
        self._written.append(text)
        self._unsettled.append(text)
        self._stale = True
        if not self.is_mounted:
            self.refresh(layout=True)
        elif not self._growing:
            self._growing = True
            self.set_timer(FRAME, self._grow)

    def _grow(self) -> None:
        """Draw the lines that differ; lay everything out again when there are more or fewer."""
        self._growing = False
        self._parse()
        width, height = self.size
        before, now = self._shown.lines, self._drawing
        if self.text_selection is not None or now.get_height({}, width) != height:
            self.refresh(layout=True)
            return
        fresh = now.render_strips(
            width, height, self.visual_style, RenderOptions(self._get_style, {})
        )
        differing = [at for at, line in enumerate(fresh) if line not in before[at : at + 1]]
        if differing:
            first, last = differing[0], differing[-1]
            self.refresh(Region(0, first, width, last + 1 - first))

    def finish(self, text: str) -> None:
        """Show the whole text as it was recorded, parsed from its beginning."""
        if not self._finished or "".join(self._written) != text:
            self._written = [text]
            self._finished = True
            self._settled, self._unsettled = [], []
            self._changed()

    def _changed(self) -> None:
        self._stale = True
        self.refresh(layout=True)

    def _parse(self) -> None:
        """Parse what can still have changed: all of it at the end, else only the last block."""
        if not self._stale:
            return
        if self._finished:
            pieces, _ = parse(self.source)
        else:
            # No sign that is made harmless goes on in the next line, so lines may be cut first.
            lines = "".join(self._unsettled).split("\n")
            fresh, last_line = parse(for_terminal("\n".join(lines)), streaming=True)
            # A line that still grows may yet turn out to belong to the block before it.
            if 0 < last_line < len(lines) - 1:
                self._settled += parse(for_terminal("\n".join(lines[:last_line])))[0]
                lines = lines[last_line:]
                fresh, _ = parse(for_terminal("\n".join(lines)), streaming=True)
            self._unsettled = ["\n".join(lines)]
            pieces = [*self._settled, *fresh]
        self._drawing = self._drawing.with_pieces(pieces)
        self._stale = False

    def render(self) -> Visual:
        self._parse()
        self._shown = self._drawing
        return self._drawing

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return self._drawing.selected(selection), "\n"

    def on_click(self, event: events.Click) -> None:
        meta = event.style.meta
        if "href" in meta:
            self.post_message(self.LinkClicked(meta["href"]))
            event.stop()
        elif "copy" in meta:
            self.post_message(self.CodeClicked(self._drawing.code_at(meta["copy"])))
            event.stop()
