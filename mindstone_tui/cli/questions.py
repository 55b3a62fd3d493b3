"""Questions about tools, asked at a terminal in lines.

A question takes nothing from whoever types: only a whole word, entered when it has been in view for
a second, answers it. Every other line is what it would have been without the question.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from mindstone_tui.cli.output import hint, prompt
from mindstone_tui.core import events as ev
from mindstone_tui.core.text import exact, one_line

GRACE: Final = 1.0
"""Seconds for which a question must have been in view before a line answers it."""
_ANSWERS: Final = {"yes": True, "no": False}
_UNFINISHED: Final = ("", "y", "n")
"""Neither an answer nor worth sending."""


class LineQuestions:
    """The open questions of one conversation, asked one after the other."""

    def __init__(
        self,
        answer: Callable[[str, ev.Answer], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer = answer
        self._clock = clock
        self._open: list[ev.ToolAsked] = []
        self._shown = 0.0

    def ask(self, asked: ev.ToolAsked) -> None:
        """Ask it, once those before it are answered."""
        self._open.append(asked)
        if len(self._open) == 1:
            self._show()

    def settle(self, call: str) -> None:
        """It was answered, here or elsewhere, or its turn is over."""
        first = self._open[:1]
        self._open = [asked for asked in self._open if asked.call != call]
        if self._open and self._open[:1] != first:
            self._show()

    def take(self, line: str) -> bool:
        """Whether a line that was entered just now belongs to the question."""
        if not self._open:
            return False
        word = line.strip().lower()
        if self._clock() - self._shown >= GRACE:
            if word in _ANSWERS:
                call = self._open[0].call
                self._answer(call, ev.Answer(allowed=_ANSWERS[word]))
                self.settle(call)
                return True
            if word in _UNFINISHED:
                prompt("Nothing is decided. Write yes or no in full: ")
                return True
        hint("This is kept as your next message; the question is still open.")
        return False

    def decline_all(self, why: str) -> None:
        """Nobody is left who could answer."""
        for asked in self._open:
            self._answer(asked.call, ev.Answer(allowed=False, why=why))
        self._open.clear()

    def _show(self) -> None:
        show(self._open[0])
        prompt("Allow it once? Write yes or no: ")
        self._shown = self._clock()


def show(asked: ev.ToolAsked) -> None:
    """Print exactly what a tool would do."""
    worst = f" · {one_line(asked.worst, 40)}" if asked.worst else ""
    where = f" (asked on {one_line(asked.channel, 20)})" if asked.channel else ""
    hint(f"? {one_line(asked.name, 30)} needs your approval{worst}{where}:")
    if asked.why:
        hint(one_line(asked.why, 400))
    hint(exact(asked.shown))
    if asked.diff and exact(asked.diff).strip() not in exact(asked.shown):
        hint(exact(asked.diff))
    if asked.risk == "run":
        width = max((len(part.verdict) for part in asked.parts), default=0)
        for part in asked.parts:
            hint(f"  {part.verdict:<{width}}  {exact(part.text)} ({one_line(part.reason)})")


async def read_line() -> str:
    """The next line of stdin, read by a thread that the end of the program does not wait for."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def hand_over(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        try:
            text = sys.stdin.readline()
        except (OSError, ValueError):  # the terminal is gone
            text = ""
        with contextlib.suppress(RuntimeError):  # so is the loop
            loop.call_soon_threadsafe(hand_over, text)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return await line
