"""A chat without a screen: lines in, text out, over the same stream of events.

What the model says goes to stdout; everything about it goes to stderr. Nothing can be asked on a
pipe, so a tool that would have to ask is refused there, and that is said.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TextIO

from mindstone_tui.core import events as ev
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.text import exact, for_terminal, one_line
from mindstone_tui.tui.event_lines import tell

ReadLine = Callable[[], Awaitable[str]]
"""The next line with its newline; empty at the end."""

_CODES: Final = {
    "done": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
}


class Plain:
    """One conversation in lines."""

    def __init__(
        self,
        talk: ev.Conversation,
        read: ReadLine,
        *,
        out: TextIO,
        err: TextIO,
        interactive: bool,
    ) -> None:
        self._talk = talk
        self._read = read
        self._out = out
        self._err = err
        self._interactive = interactive
        self._open_line = False
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
            self._tell("> ", end="")
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
            await self.show(event)

    async def show(self, event: ev.AnyEvent) -> None:
        """Print one event."""
        match event:
            case ev.TextDelta(text=text):
                self._print(for_terminal(text))
            case ev.AnswerRecorded():
                self._end_line()
            case ev.CommandPrinted(text=text):
                self._print(for_terminal(text))
                self._end_line()
            case ev.CommandEnded(ok=ok, exit_code=code):
                self.code = code or (ExitCode.DONE if ok else ExitCode.FAILED)
                self._finished.set()
            case ev.ScreenAsked():
                self._screen(event)
            case ev.ToolAsked():
                await self._ask(event)
            case ev.ToolStarted(name=name, shown=shown):
                self._tell(f"· {one_line(name, 30)}: {one_line(shown, 160)}")
            case ev.ToolEnded(status=status, finding=finding):
                self._tell(f"  {status} {one_line(finding, 160)}".rstrip())
            case ev.RecallInjected(passages=passages):
                self._tell(f"· recalled {len(passages)} passages")
            case ev.TurnEnded(ending=ending):
                self._end_line()
                self._aside(event)
                self.code = _CODES[ending]
                self._finished.set()
            case _:
                self._aside(event)

    def _aside(self, event: ev.AnyEvent) -> None:
        if told := tell(event):
            line = f"{told.sign} {told.what}" + (f" ({told.hint})" if told.hint else "")
            self._tell(for_terminal(line))

    def _screen(self, event: ev.ScreenAsked) -> None:
        if event.screen == "quit":
            self._quit = True
        elif event.otherwise:
            self._print(for_terminal(event.otherwise))
            self._end_line()
        else:
            self._tell(f"· {one_line(event.screen, 40)} can only be opened in the app")

    async def _ask(self, event: ev.ToolAsked) -> None:
        """Ask a person, if there is one; otherwise refuse."""
        self._end_line()
        self._tell(f"? {one_line(event.name, 30)} ({one_line(event.risk, 30)}) wants to run:")
        self._tell(exact(event.shown))
        if event.diff:
            self._tell(exact(event.diff))
        if not self._interactive:
            self._tell("⊘ refused: nobody can be asked on a pipe")
            self._talk.answer(event.call, ev.Answer(allowed=False, why="nobody could be asked"))
            return
        self._tell("Allow it once? [y/N] ", end="")
        word = (await self._read()).strip().lower()
        self._talk.answer(event.call, ev.Answer(allowed=word in ("y", "yes")))

    def _print(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._open_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open_line:
            self._print("\n")

    def _tell(self, text: str, end: str = "\n") -> None:
        self._end_line()
        self._err.write(text + end)
        self._err.flush()


async def converse(talk: ev.Conversation, *, interactive: bool) -> int:
    """A line-mode chat on this process's own streams; Ctrl+C stops the running turn."""
    plain = Plain(
        talk,
        lambda: asyncio.to_thread(sys.stdin.readline),
        out=sys.stdout,
        err=sys.stderr,
        interactive=interactive,
    )
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, talk.interrupt)
    try:
        return await plain.run()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
