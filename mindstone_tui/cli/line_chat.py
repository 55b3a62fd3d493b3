"""A conversation without a screen: its events as lines, and a chat in lines.

The answer goes to stdout and everything about it to stderr, so that a pipe carries the answer
alone; a recording goes to stdout as a whole, in order. There is nobody to ask on a pipe, so a tool
that needs approval is declined there, with a line that says so.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mindstone_tui.cli.output import PIPE_CLOSED, complain, hint, prompt, say, say_piece, say_styled
from mindstone_tui.cli.typed_lines import TypedLines
from mindstone_tui.core import events as ev
from mindstone_tui.core import patterns, signals
from mindstone_tui.core.entries.provenance import MARK
from mindstone_tui.core.errors import ExitCode
from mindstone_tui.core.events.narrate import aside, describe
from mindstone_tui.core.events.narrate_entry import EventLine
from mindstone_tui.core.events.question import A_LETTER, GRACE, answer_to, explain, scopes_of
from mindstone_tui.core.text import as_written, exact

_STYLES: Final = {"note": "dim", "good": "green", "warning": "yellow", "error": "red"}


class EventPrinter(msgspec.Struct, eq=False, kw_only=True):
    """Prints a conversation as it happens, or a recording of one."""

    quiet: bool = False
    introduce: bool = True
    recorded: bool = False
    exact: bool = False
    _open_line: bool = False

    def show(self, event: ev.AnyEvent) -> None:
        """Print what this event has to say, if anything."""
        match event:
            case ev.TextDelta(text=text) if text:
                say_piece(text, exact=self.exact)
                self._open_line = not text.endswith("\n")
            case ev.AnswerRecorded():
                self.end_line()
            case ev.TurnStarted(turn=turn, text=text) if self.recorded:
                say(f"\n── turn {turn}{f' · {MARK}' if event.imported else ''}", "dim")
                say(f"> {as_written(text)}", "cyan")
            case ev.EntryAppeared(role="user", text=text) if self.recorded:
                say(f"> {as_written(text)}", "cyan")
            case ev.CommandPrinted(text=text, ok=ok) if not self.recorded:
                self.end_line()
                say(text) if ok else complain(text)
            case ev.ScreenAsked(otherwise=text) if text:
                say(text)
            case ev.SessionReady() if self.introduce:
                self._tell(describe(event))
            case ev.ScreenAsked() | ev.ToolStarted() | ev.ToolEnded() | ev.RecallInjected():
                self._tell(describe(event))
            case ev.MemoryProposed() | ev.InstructionOffered():
                how = "/keep, or `mindstone run /keep`, keeps it; `mindstone waiting` lists it"
                self._tell(msgspec.structs.replace(describe(event), detail=how))
            case ev.ModelCalled() if self.recorded:
                self._tell(describe(event))
            case _:
                if line := aside(event):
                    waits = isinstance(event, ev.Noticed) and bool(event.waits_for)
                    self._tell(line, always=waits or isinstance(event, ev.TurnEnded))

    def end_line(self) -> None:
        """End a line that the answer left open."""
        if self._open_line:
            say_piece("\n")
            self._open_line = False

    def _tell(self, line: EventLine, *, always: bool = False) -> None:
        if self.quiet and not always and line.tone != "error":
            return
        self.end_line()
        if line.tone == "error" and not self.recorded:
            complain(line.text, line.detail)
        else:
            stream = sys.stdout if self.recorded else sys.stderr
            say_styled(str(line), _STYLES[line.tone], stream)


_YES: Final = patterns.pattern_of(r"yes(?: (\d))?")
_UNFINISHED: Final = ("", "y", "n")
"""Neither an answer nor worth sending."""
_HALF: Final = patterns.pattern_of(r"y(?:es?(?: \d?)?)?|no?")
"""What may have been begun as an answer."""


class LineQuestions(msgspec.Struct, eq=False):
    """The open questions of one conversation, asked one after the other."""

    _answer: Callable[[str, ev.Answer], None]
    clock: Callable[[], float] = time.monotonic
    kept: str = "It is kept as your next message. "
    """What becomes of a line that is no answer."""
    typed: TypedLines | None = None
    unfinished: float = 0.0
    """When a question came while a line was being written, which then answers nothing."""
    _open: list[ev.ToolAsked] = []
    _shown: float = 0.0

    def ask(self, asked: ev.ToolAsked) -> None:
        """Ask it, once those before it are answered."""
        self._open.append(asked)
        if len(self._open) == 1:
            self._show()

    @property
    def open(self) -> bool:
        """Whether any waits for an answer."""
        return bool(self._open)

    def asks(self, call: str) -> bool:
        """Whether this one does."""
        return any(asked.call == call for asked in self._open)

    def settle(self, call: str) -> None:
        """It was answered, here or elsewhere, or its turn is over."""
        first = self._open[:1]
        self._open = [asked for asked in self._open if asked.call != call]
        if self._open[:1] != first:
            if self.typed is not None and _HALF.fullmatch(self.typed.begun().strip().lower()):
                self.typed.forget()  # half an answer to what is gone
            if self._open:
                self._show()

    def take(self, line: str) -> bool:
        """Whether a line that was entered just now belongs to the question."""
        if not self._open:
            return False
        word = line.strip().lower()
        seen = self.clock() - self._shown
        begun, self.unfinished = self.unfinished, 0.0
        if (
            seen >= GRACE and not begun and "\n" not in line.strip()
        ):  # what was pasted decides nothing
            asked = self._open[0]
            said, _, why = line.strip().partition(":")
            yes = _YES.fullmatch(word)
            number = int(yes[1] or 1) if yes else 0
            no = word == "no" or (said.lower() == "no" and why.strip())
            if no or 0 < number <= len(scopes_of(asked)):
                given = f"allow-{number - 1}" if number else "deny"
                how = f"typed {said.lower()}"
                answer = answer_to(asked, given, why=why.strip(), how=how, seen=seen)
                self._answer(asked.call, answer)
                self.settle(asked.call)
                return True
            if yes or word in _UNFINISHED:
                prompt("Nothing is decided. Write yes or no in full: ")
                return True
        early = "That was entered before the question could be read. " if seen < GRACE else ""
        early = "That was begun before the question came. " if begun else early
        hint(f"{early}{self.kept}The question is still open: write yes or no now, alone on a line.")
        return False

    def decline_all(self, why: str) -> None:
        """Nobody is left who could answer."""
        for asked in self._open:
            self._answer(asked.call, ev.Answer(allowed=False, why=why))
        self._open.clear()

    def ask_again(self) -> None:
        """Write below everything else what is asked for."""
        prompt(f"{scopes_of(self._open[0])[0].label}? Write yes or no (no: WHY says why): ")

    def _show(self) -> None:
        show(self._open[0])
        half = self.typed.begun() if self.typed is not None else ""
        self._shown = self.clock()
        self.unfinished = self._shown if half.strip() else 0.0
        if self.unfinished:
            hint("What you have begun goes on here: Enter ends it, then write yes or no.")
            prompt(half)
        else:
            self.ask_again()


def show(asked: ev.ToolAsked) -> None:
    """Print exactly what a tool would do, and all that a person decides by."""
    told = explain(asked)
    hint(f"? {told.heading}")
    for text in (told.why, told.exact, told.diff):
        if text:
            hint(text)
    for row in told.rows:
        hint(f"  {row}")
    for number, scope in enumerate(told.scopes[1:], 2):
        hint(f"  yes {number}: {scope.label}")


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
        typed: TypedLines | None = None,
        settled: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._talk = talk
        self._read = read
        self._typed = typed
        self._interactive = interactive
        self._printer = EventPrinter()
        self._questions = LineQuestions(talk.answer, clock=clock, typed=typed)
        self._finished = asyncio.Event()
        self._finished.set()
        self._settled = settled or self._finished.wait
        # A person may type ahead; a pipe is read as it is needed.
        self._lines: asyncio.Queue[tuple[str, float]] = asyncio.Queue(0 if interactive else 1)
        self._clock = clock
        self._begun = 0.0
        """When the newest message was begun, at the latest: a line is there when it is entered."""
        self._at_end = False
        self._pasted = False
        """Whether the newest message was pasted, as far as lines tell."""
        self._until = ("", "")
        """The call after whose answer it is over, unless its turn goes on here; when it asked."""
        self._goes_on = ""
        """The same call, where it does: its program has ended."""
        self._queued: set[str] = set()
        """Messages that begin a turn of their own when the one before them ends."""
        self._quit = False
        self.code: int = ExitCode.DONE
        """How the last turn ended, as an exit code."""

    async def run(
        self, only: str = "", until: tuple[str, str] = ("", ""), *, how: str = "", seen: float = 0.0
    ) -> int:
        """Take lines until there are no more, then finish; how the last turn ended.

        Or run `only` one command that was given so, or none: finish with the answer to a call.
        """
        self._until = until
        drawing = asyncio.create_task(self._draw())
        hearing = asyncio.create_task(self._hear())
        try:
            if only:
                self._talk.command(only, how=how, seen=seen)
            if only or until[0]:
                self._finished.clear()
                self._questions.kept = ""
                await self._finish(drawing)
            if until[0] and not self._quit:  # a turn that its program left just now goes on here
                self._finished.clear()
                await self._finish(drawing, self._settled)
            while not (only or until[0] or self._quit or drawing.done()):
                if (line := await self._next()) is None:
                    break
                await self._say(line, drawing)
        finally:
            hearing.cancel()
            if until[0] and self._typed is not None:  # half a word is not for the shell
                self._typed.begun()
            await self._talk.close()
            await drawing
        return self.code

    async def _hear(self) -> None:
        """Sort lines as they are entered: a whole answer to an open question, or a message."""
        goes_on = False
        while line := await self._read():
            begun = self._clock() - (len(line) * A_LETTER if self._interactive else 0.0)
            begun = min(begun, self._questions.unfinished or begun)
            if goes_on or not self._questions.take(line):
                text = line.rstrip("\r\n")
                if self._keeps(text, first=not goes_on):
                    self._talk.send(text)
                else:
                    await self._lines.put((line, begun))
            goes_on = line.rstrip("\r\n").endswith("\\")
        self._at_end = True
        if self._interactive:  # whoever sat here is gone: the next surface asks
            self._quit = self._questions.open
            self._finished.set() if self._quit else None
        else:
            self._questions.decline_all(_NOBODY)
        await self._lines.put(("", 0.0))

    def _keeps(self, text: str, *, first: bool) -> bool:
        """Whether a line is a whole message behind a turn that runs: it goes on record at once.

        Not behind a line that waits here: messages and commands are taken in their order.
        """
        message = "\n" in text or not text.startswith(("/", "!"))
        whole = first and message and not text.endswith("\\") and text.strip()
        behind = self._interactive and not self._finished.is_set() and self._lines.empty()
        return bool(behind and self._questions.kept and whole)

    async def _next(self) -> str | None:
        """The next message; a line that ends in a backslash goes on in the next."""
        if self._interactive:
            prompt(f"> {self._typed.half if self._typed is not None else ''}")
        parts: list[str] = []
        while (entered := await self._lines.get())[0]:
            line, begun = entered
            self._begun = self._begun if parts else begun
            text = line.rstrip("\r\n")
            if not text.endswith("\\"):
                self._pasted = any("\n" in each for each in (*parts, text))
                return "\n".join([*parts, text])
            parts.append(text[:-1])
        self._lines.put_nowait(("", 0.0))  # the end is still the end
        return "\n".join(parts) if parts else None

    async def _say(self, text: str, drawing: asyncio.Task[None]) -> None:
        if not text.strip():
            return
        self._finished.clear()
        if self._pasted:  # a message, however it begins
            self._talk.send(text)
        elif text.startswith("!"):
            self._talk.command(f"/shell {text[1:].strip()}")
        elif text.startswith("/"):
            self._talk.command(text.strip(), writing=self._clock() - self._begun)
        else:
            self._talk.send(text)
        await self._finish(drawing)

    def stop(self) -> None:
        """Stop the running turn; what was entered for later is not sent behind it, and is told."""
        self._talk.interrupt(how="Ctrl+C")
        while not self._lines.empty() and (line := self._lines.get_nowait()[0]):
            hint(f"Not sent: {exact(line.rstrip())}")
        if self._at_end:
            self._lines.put_nowait(("", 0.0))

    async def _finish(
        self, drawing: asyncio.Task[None], *ends: Callable[[], Awaitable[object]]
    ) -> None:
        waiting = [asyncio.ensure_future(end()) for end in (self._finished.wait, *ends)]
        await asyncio.wait({*waiting, drawing}, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

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
            case ev.Noticed(level="info") if self._questions.open and not self._questions.kept:
                pass  # whoever came for one answer is not told what else there is
            case ev.Noticed() if self._questions.open:
                prompt("\n")
                self._printer.show(event)
                self._questions.ask_again()
            case _:
                self._printer.show(event)
        match event:
            case ev.TurnStarted(resumed=True):
                self._goes_on, self._until = self._until[0], ("", "")
            case ev.TurnStarted(queued=queued):
                self._queued.discard(queued)
            case ev.ToolAnswered(call=call) | ev.ToolStarted(call=call) | ev.ToolEnded(call=call):
                if call == self._until[0]:
                    if self._questions.asks(call):  # what was entered here came to nothing
                        self.code = ExitCode.FAILED
                    self._finished.set()
                elif call == self._goes_on:
                    self._goes_on = ""
                    hint(
                        "The program that asked has ended: its turn goes on here. Ctrl+C stops it."
                    )
                self._questions.settle(call)
            case ev.CommandEnded(ok=ok, exit_code=code):
                self.code = code or (ExitCode.DONE if ok else ExitCode.FAILED)
                self._finished.set()
            case ev.MessageQueued(entry=entry):
                self._queued.add(entry)
            case ev.MessageWithdrawn():
                self._queued.clear()
            case ev.MessageReturned() | ev.EntryAppeared(kind="message_withdrawn"):
                self._queued.clear()
                self._finished.set()
            case ev.TurnEnded(ending=ending):
                self.code = _CODES[ending]
                self._finished.set() if not self._queued else None

    def _ask(self, event: ev.ToolAsked) -> None:
        """Ask the person, if there is one; otherwise decline what a turn of our own asks."""
        if self._until[0] and self._until != (event.call, event.since):
            return  # whoever came for one answer gives no other
        self._printer.end_line()
        if self._interactive and not self._at_end:
            self._questions.ask(event)
        elif not event.channel:
            show(event)
            hint("⊘ declined: there is nobody to ask on a pipe")
            self._talk.answer(event.call, ev.Answer(allowed=False, why=_NOBODY))


async def converse(talk: ev.Conversation, *, interactive: bool) -> int:
    """A line-mode chat on this process's own streams; Ctrl+C stops the running turn."""
    typed = TypedLines()
    chat = LineChat(talk, typed.read, interactive=interactive, typed=typed)
    asking = asyncio.create_task(chat.run())

    def end() -> None:
        if not asking.cancelling():
            asking.cancel()

    signals.on_ending(end)
    # Ctrl+C means the turn, and the chat goes on: asked for second, this one holds.
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, chat.stop)
    try:
        return await asking
    except asyncio.CancelledError:
        return ExitCode.INTERRUPTED
    finally:
        loop.remove_signal_handler(signal.SIGINT)
