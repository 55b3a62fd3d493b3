"""The lines that somebody enters, and the one they have begun when a question comes up."""

import asyncio
import codecs
import contextlib
import os
import select
import sys
import termios
from typing import Final

_TOGETHER: Final = 0.1
"""Seconds within which lines follow each other that were pasted and not typed."""


class TypedLines:
    """The lines of stdin, and what was begun of one when something else came up.

    Lines that are pasted into a terminal come as one text: none of them is a line by itself.
    """

    def __init__(self) -> None:
        self._in_terminal = sys.stdin.isatty()
        errors = sys.stdin.errors or "strict"
        self._decoder = codecs.getincrementaldecoder(sys.stdin.encoding or "utf-8")(errors)
        self._text, self._ended, self._file = "", False, -1
        try:
            self._file = sys.stdin.fileno()
        except OSError:  # it lies in memory, as where another program runs this one in its own
            self._text, self._ended = sys.stdin.read(), True
        self._ready = asyncio.Event()

    async def read(self) -> str:
        """The next line with its newline; empty at the end."""
        while "\n" not in self._text and not self._ended:
            await self._wait()
        with contextlib.suppress(TimeoutError):
            while self._in_terminal and not self._ended:
                async with asyncio.timeout(_TOGETHER):
                    await self._wait()
        cut = (self._text.rfind if self._in_terminal else self._text.find)("\n") + 1
        line = self._text[:cut] if cut else self._text
        self._text = self._text[len(line) :]
        return line

    @property
    def half(self) -> str:
        """What `begun` took of a line that is still to come."""
        return self._text.rpartition("\n")[2]

    def begun(self) -> str:
        """Take what was typed of a line that is not entered yet: the next line begins with it.

        So no half of it is left for whoever reads next, and none is lost.
        """
        with contextlib.suppress(termios.error, ValueError):  # no terminal, or none any more
            mode = termios.tcgetattr(self._file)
            at_once = [*mode[:3], mode[3] & ~termios.ICANON, *mode[4:]]
            termios.tcsetattr(self._file, termios.TCSANOW, at_once)
            try:
                self._take()
            finally:
                termios.tcsetattr(self._file, termios.TCSANOW, mode)
            self._ready.set()
        return self.half

    def forget(self) -> None:
        """Let go of what was begun."""
        self._text = self._text[: len(self._text) - len(self.half)]

    async def _wait(self) -> None:
        """Wait until there is something to read, and take it."""
        loop = asyncio.get_running_loop()
        self._ready.clear()
        try:
            loop.add_reader(self._file, self._ready.set)
        except PermissionError:  # a file: there always is
            self._ready.set()
        try:
            await self._ready.wait()
        finally:
            loop.remove_reader(self._file)
        self._take()

    def _take(self) -> None:
        try:
            while not self._ended and select.select([self._file], [], [], 0)[0]:
                piece = os.read(self._file, 1 << 16)
                self._ended = not piece
                self._text += self._decoder.decode(piece, final=not piece)
                if not self._in_terminal:
                    break  # a pipe is read as it is needed
        except (OSError, ValueError):  # the terminal is gone
            self._ended = True
