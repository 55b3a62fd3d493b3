"""An answer: Markdown that grows while it is streamed and is parsed whole when it is done."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.selection import Selection
from textual.visual import Visual
from textual.widget import Widget

from mindstone_tui.core.foreign import for_terminal
from mindstone_tui.tui.prose.drawing import Drawing
from mindstone_tui.tui.prose.parsing import Piece, parse


class Prose(Widget):
    """Markdown in one widget.

    Pieces that arrive between two frames are drawn together; only the last block is parsed again.
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
        self._finished = finished
        self._settled: list[Piece] = []
        self._settled_lines = 0
        self._drawing = Drawing([])
        self._stale = True

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
        self._changed()

    def finish(self, text: str) -> None:
        """Show the whole text as it was recorded, parsed from its beginning."""
        if not self._finished or "".join(self._written) != text:
            self._written = [text]
            self._finished = True
            self._settled, self._settled_lines = [], 0
            self._changed()

    def _changed(self) -> None:
        self._stale = True
        self.refresh(layout=True)

    def _parse(self) -> None:
        """Parse what can still have changed: all of it at the end, else only the last block."""
        if not self._stale:
            return
        source = self.source
        if self._finished:
            pieces, _ = parse(source)
        else:
            lines = source.split("\n")
            tail = "\n".join(lines[self._settled_lines :])
            fresh, last_line = parse(tail, streaming=True)
            if last_line:
                ended = "\n".join(lines[self._settled_lines : self._settled_lines + last_line])
                self._settled += parse(ended)[0]
                self._settled_lines += last_line
                fresh, _ = parse("\n".join(lines[self._settled_lines :]), streaming=True)
            pieces = [*self._settled, *fresh]
        self._drawing = self._drawing.with_pieces(pieces)
        self._stale = False

    def render(self) -> Visual:
        self._parse()
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
