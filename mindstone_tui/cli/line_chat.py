"""A chat without a screen: lines in, text out, over the same stream of events.

The answer goes to stdout; everything about it goes to stderr. There is nobody to ask on a pipe, so
a tool that needs approval is declined there, with a line that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from mindstone_tui.cli.output import PIPE_CLOSED, hint, prompt
from mindstone_tui.cli.printer import EventPrinter
from mindstone_tui.core import events as ev
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.signals import on_ending
from mindstone_tui.core.text import exact, one_line

ReadLine = Callable[[], Awaitable[str]]
"""The next line with its newline; empty at the end."""

_CODES: Final = {
    "done": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
}


class LineChat:
    """One conversation in lines."""

    def __init__(self, talk: ev.Conversation, read: ReadLine, *, interactive: bool) -> None:
        self._talk = talk
        self._read = read
        self._interactive = interactive
        self._printer = EventPrinter()
        self._finished = asyncio.Event()
        self._quit = False
        self.code: int = ExitCode.DONE
        """How the last turn ended, as an exit code."""

    async def run(self) -> int:
        """Take lines until there are no more, then finish; how the last turn ended."""
        drawing = asyncio.create_task(self._draw())
        try:
            while not self._quit and not drawing.done():
                line = await self._next()
                if line is None:
                    break
                await self._say(line, drawing)
        finally:
            await self._talk.close()
            await drawing
        return self.code

    async def _next(self) -> str | None:
        """The next message; a line that ends in a backslash goes on in the next."""
        if self._interactive:
            prompt("> ")
        parts: list[str] = []
        while line := await self._read():
            text = line.rstrip("\r\n")
            if not text.endswith("\\"):
                return "\n".join([*parts, text])
            parts.append(text[:-1])
        return "\n".join(parts) if parts else None

    async def _say(self, text: str, drawing: asyncio.Task[None]) -> None:
        if not text.strip():
            return
        self._finished.clear()
        if text.startswith("!"):
            self._talk.command(f"/shell {text[1:].strip()}")
        elif text.startswith("/"):
            self._talk.command(text.strip())
        else:
            self._talk.send(text)
        finished = asyncio.create_task(self._finished.wait())
        await asyncio.wait({finished, drawing}, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()

    async def _draw(self) -> None:
        async for event in self._talk.events():
            try:
                await self.show(event)
            except SystemExit:  # a task that raises this would end the loop before the session
                self.code, self._quit = PIPE_CLOSED, True
                return

    async def show(self, event: ev.AnyEvent) -> None:
        """Print one event, and act on those that ask for something."""
        match event:
            case ev.ToolAsked(channel=""):
                await self._ask(event)
            case ev.ScreenAsked(screen="quit"):
                self._quit = True
            case _:
                self._printer.show(event)
        match event:
            case ev.CommandEnded(ok=ok, exit_code=code):
                self.code = code or (ExitCode.DONE if ok else ExitCode.FAILED)
                self._finished.set()
            case ev.TurnEnded(ending=ending):
                self.code = _CODES[ending]
                self._finished.set()

    async def _ask(self, event: ev.ToolAsked) -> None:
        """Ask the person, if there is one; otherwise decline."""
        self._printer.end_line()
        worst = f" · {one_line(event.worst, 40)}" if event.worst else ""
        hint(f"? {one_line(event.name, 30)} needs your approval{worst}:")
        if event.why:
            hint(one_line(event.why, 400))
        hint(exact(event.shown))
        if event.diff and exact(event.diff).strip() not in exact(event.shown):
            hint(exact(event.diff))
        if event.risk == "run":
            width = max((len(part.verdict) for part in event.parts), default=0)
            for part in event.parts:
                hint(f"  {part.verdict:<{width}}  {exact(part.text)} ({one_line(part.reason)})")
        if not self._interactive:
            hint("⊘ declined: there is nobody to ask on a pipe")
            self._talk.answer(event.call, ev.Answer(allowed=False, why="nobody could be asked"))
            return
        prompt("Allow it once? [y/N] ")
        word = (await self._read()).strip().lower()
        self._talk.answer(event.call, ev.Answer(allowed=word in ("y", "yes")))


async def converse(talk: ev.Conversation, *, interactive: bool) -> int:
    """A line-mode chat on this process's own streams; Ctrl+C stops the running turn."""
    plain = LineChat(talk, _read_line, interactive=interactive)
    asking = asyncio.create_task(plain.run())

    def end() -> None:
        if not asking.cancelling():
            asking.cancel()

    on_ending(end)
    # Ctrl+C means the turn, and the chat goes on: asked for second, this one holds.
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, talk.interrupt)
    try:
        return await asking
    except asyncio.CancelledError:
        return ExitCode.INTERRUPTED
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _read_line() -> str:
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
