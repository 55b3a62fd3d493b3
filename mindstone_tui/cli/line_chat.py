"""A chat without a screen: lines in, text out, over the same stream of events.

The answer goes to stdout; everything about it goes to stderr. There is nobody to ask on a pipe, so
a tool that needs approval is declined there, with a line that says so.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Final

from mindstone_tui.cli.output import PIPE_CLOSED, hint, prompt
from mindstone_tui.cli.printer import EventPrinter
from mindstone_tui.cli.questions import LineQuestions, read_line, show
from mindstone_tui.core import events as ev
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.signals import on_ending

ReadLine = Callable[[], Awaitable[str]]
"""The next line with its newline; empty at the end."""

_NOBODY: Final = "nobody could be asked"
_CODES: Final = {
    "done": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
}


class LineChat:
    """One conversation in lines."""

    def __init__(
        self,
        talk: ev.Conversation,
        read: ReadLine,
        *,
        interactive: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._talk = talk
        self._read = read
        self._interactive = interactive
        self._printer = EventPrinter()
        self._questions = LineQuestions(talk.answer, clock=clock)
        self._finished = asyncio.Event()
        # A person may type ahead; a pipe is read as it is needed.
        self._lines: asyncio.Queue[str] = asyncio.Queue(0 if interactive else 1)
        self._at_end = False
        self._quit = False
        self.code: int = ExitCode.DONE
        """How the last turn ended, as an exit code."""

    async def run(self) -> int:
        """Take lines until there are no more, then finish; how the last turn ended."""
        drawing = asyncio.create_task(self._draw())
        hearing = asyncio.create_task(self._hear())
        try:
            while not self._quit and not drawing.done():
                line = await self._next()
                if line is None:
                    break
                await self._say(line, drawing)
        finally:
            hearing.cancel()
            await self._talk.close()
            await drawing
        return self.code

    async def _hear(self) -> None:
        """Sort lines as they are entered: a whole answer to an open question, or a message."""
        goes_on = False
        while line := await self._read():
            if goes_on or not self._questions.take(line):
                await self._lines.put(line)
            goes_on = line.rstrip("\r\n").endswith("\\")
        self._at_end = True
        self._questions.decline_all(_NOBODY)
        await self._lines.put("")

    async def _next(self) -> str | None:
        """The next message; a line that ends in a backslash goes on in the next."""
        if self._interactive:
            prompt("> ")
        parts: list[str] = []
        while line := await self._lines.get():
            text = line.rstrip("\r\n")
            if not text.endswith("\\"):
                return "\n".join([*parts, text])
            parts.append(text[:-1])
        self._lines.put_nowait("")  # the end is still the end
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
            case ev.ToolAsked():
                self._ask(event)
            case ev.ScreenAsked(screen="quit"):
                self._quit = True
            case _:
                self._printer.show(event)
        match event:
            case ev.ToolAnswered(call=call) | ev.ToolStarted(call=call) | ev.ToolEnded(call=call):
                self._questions.settle(call)
            case ev.CommandEnded(ok=ok, exit_code=code):
                self.code = code or (ExitCode.DONE if ok else ExitCode.FAILED)
                self._finished.set()
            case ev.TurnEnded(ending=ending):
                self.code = _CODES[ending]
                self._finished.set()

    def _ask(self, event: ev.ToolAsked) -> None:
        """Ask the person, if there is one; otherwise decline what a turn of our own asks."""
        self._printer.end_line()
        if self._interactive and not self._at_end:
            self._questions.ask(event)
        elif not event.channel:
            show(event)
            hint("⊘ declined: there is nobody to ask on a pipe")
            self._talk.answer(event.call, ev.Answer(allowed=False, why=_NOBODY))


async def converse(talk: ev.Conversation, *, interactive: bool) -> int:
    """A line-mode chat on this process's own streams; Ctrl+C stops the running turn."""
    plain = LineChat(talk, read_line, interactive=interactive)
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
