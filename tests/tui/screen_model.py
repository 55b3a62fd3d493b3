"""A terminal of cells: what output puts on the screen, and how many cells it drew for that."""

from __future__ import annotations

import re

import pyte
from wcwidth import wcswidth

FRAME_ENDS = "\x1b[?2026l"
"""Closes an update that the terminal shows as a whole."""

_PRIVATE = re.compile(r"\x1b\[[<=>?][0-9;$]*[a-zA-Z]")


class ScreenModel(pyte.Screen):
    """A screen that counts the cells it is told to print, blank ones too."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines)
        self.printed = 0
        self._stream = pyte.Stream(self)

    def draw(self, data: str) -> None:
        self.printed += max(wcswidth(data), 0)
        super().draw(data)

    def feed(self, output: str) -> None:
        """Take output; private modes, which pyte would print, are left out."""
        self._stream.feed(_PRIVATE.sub("", output))

    @property
    def text(self) -> str:
        """What stands on the screen now."""
        return "\n".join(self.display)
