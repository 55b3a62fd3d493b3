"""The terminal outside the app: clipboard, external editor, plain scrollback."""

import asyncio
import base64
import contextlib
import io
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App, SuspendNotSupported
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from mindstone_tui.core import errors, patterns
from mindstone_tui.core.paths import helper
from mindstone_tui.core.text import for_terminal

_PROGRAMS: Final = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("WSL_DISTRO_NAME", ("clip.exe",)),
)


_PASTE: Final = "\x1b[200~"
_PASTED: Final = "\x1b[201~"
_ESCAPES: Final = patterns.pattern_of(r"\x1b(?:\[[0-9;?]*[@-~])?")


_TOGETHER: Final = 0.02
"""Seconds within which what is read belongs to what was read before it."""
_SWITCH: Final = 0.0005
"""Seconds after which a busy thread makes way: a key and its picture pass through three threads."""
_TYPED: Final = 8
"""Keys that come together are fewer than this if hands pressed them."""


class KeyAmong(events.Key):
    """A key that was read together with others: nobody pressed this one to decide something."""

    def __init__(self, key: events.Key, together: int) -> None:
        super().__init__(key.key, key.character)
        self.time = key.time
        self.pasted = together >= _TYPED
        """It is part of a paste whose terminal sets no marks."""


KeyAmong.handler_name = events.Key.handler_name


class PasteParser(XTermParser):
    """Textual's parser, which sees only the marks of a paste: what lies between is taken whole.

    Textual takes all that follows an escape within a paste for typing. Terminals paste Enter where
    a line ends, so each line of a coloured log would be sent, and one that begins with `!` would be
    run. It also looks at each character, and holds everything else up while it does.
    """

    _pasting = False
    _before = ""
    """The end of what was read last, which may hold the first half of a mark."""

    def __init__(self, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(debug)
        self._clock = clock
        self._together, self._last = 0, 0.0
        """How many keys came together last, and when."""
        self._read: list[str] = []
        self._pasted: list[str] = []

    def feed(self, data: str) -> Iterable[Message]:
        if not (passed := "".join(self._without_pastes(data))) and data:
            return  # nothing at all would mean that the terminal is gone
        messages = list(super().feed(passed))
        keys = [one for one in messages if isinstance(one, events.Key) and _writes(one)]
        now = self._clock()
        self._together = len(keys) + (self._together if now - self._last < _TOGETHER else 0)
        self._last = now
        for message in messages:
            if isinstance(message, events.Paste):
                yield events.Paste(self._pasted.pop(0))
            elif isinstance(message, events.Key) and self._together > 1:
                yield KeyAmong(message, self._together)
            else:
                yield message

    def _without_pastes(self, data: str) -> Iterator[str]:
        while data:
            seen = self._before + data
            if not self._pasting:
                # Passed on as it is: an Escape that was pressed must not wait for what follows it.
                end = seen.find(_PASTE)
                self._pasting = end >= 0
                passed = data if end < 0 else data[: end + len(_PASTE) - len(self._before)]
                yield passed
                self._before = "" if self._pasting else seen[1 - len(_PASTE) :]
                data = data[len(passed) :]
                continue
            text, mark, data = seen.partition(_PASTED)
            self._pasting, self._before = not mark, ""
            if not mark and "\x1b" in text[1 - len(_PASTED) :]:
                at = text.rindex("\x1b")
                text, self._before = text[:at], text[at:]
            self._read.append(_ESCAPES.sub("", text).replace("\x00", ""))
            if mark:
                self._pasted.append("".join(self._read))
                self._read.clear()
                yield mark


def _writes(key: events.Key) -> bool:
    return key.is_printable or key.key == "enter"


# Textual has no other place to name the parser.
linux_driver.XTermParser = PasteParser  # type: ignore[attr-defined]


class LastingFile(io.TextIOWrapper):
    """The terminal as a file that can be written to even when the terminal is gone."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


class LastingDriver(LinuxDriver):
    """Textual's own driver, which outlives its terminal long enough to save what was said.

    Its writer is a thread that an error ends. The app then waits for it for ever, with an answer
    that nobody wrote down.
    """

    typed = 0.0
    """When a letter was read that is not drawn yet."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        shown = self._file
        assert shown is not None, "the app is only started on a terminal"
        same = os.fdopen(os.dup(shown.fileno()), "wb")
        self._file = LastingFile(same, encoding=shown.encoding, errors=shown.errors)

    def start_application_mode(self) -> None:
        before = termios.tcgetattr(self.fileno) if os.isatty(self.fileno) else None
        if before is not None:
            for event in PasteParser(self._debug).feed(typed_ahead(self.fileno)):
                self.process_message(event)
        sys.setswitchinterval(_SWITCH)
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.attrs_before = before

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.Key) and message.is_printable:
            self.typed = time.monotonic()
        super().process_message(message)

    def _sigcont_application(self, *given: Any) -> None:
        """Take the terminal up again with one thread that reads it, unless it is gone.

        The system sends this signal when a terminal is closed, too. Of two threads that read, one
        may miss that the app ends, and then never does.
        """
        if self._auto_restart and os.isatty(self.fileno):
            self.disable_input()
            super()._sigcont_application(*given)


def typed_ahead(terminal: int) -> str:
    """Take a terminal over from line mode, with the keys that were typed until now.

    A terminal in line mode turns Enter into a line feed, which the app reads as Ctrl+J. What was
    typed before the app could say otherwise is given back with Enter as Enter.
    """
    mode = termios.tcgetattr(terminal)
    in_lines = mode[tty.IFLAG] & termios.ICRNL
    mode[tty.IFLAG] &= ~termios.ICRNL
    mode[tty.LFLAG] &= ~(termios.ECHO | termios.ICANON)
    mode[tty.CC][termios.VMIN] = 1
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    typed = b""
    while select.select([terminal], [], [], 0)[0] and (piece := os.read(terminal, 1 << 12)):
        typed += piece
    text = typed.decode("utf-8", "replace")
    return text.replace("\n", "\r") if in_lines else text


def sequences(text: str, environ: Mapping[str, str]) -> str:
    """What to write to the terminal so that it takes the text."""
    request = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"
    if not environ.get("TMUX"):
        return request
    return request + "\x1bPtmux;" + request.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def program(
    environ: Mapping[str, str], which: Callable[[str], str | None] = helper
) -> tuple[str, ...]:
    """The system's clipboard program, if there is a desktop in front of it; else nothing."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return ()
    for variable, command in _PROGRAMS:
        if (not variable or environ.get(variable)) and (found := which(command[0])):
            return (found, *command[1:])
    return ()


def hand_over(text: str, command: tuple[str, ...]) -> None:
    """Give the text to a clipboard program; one that fails is ignored, the terminal has it too."""
    try:
        subprocess.run(
            command,
            input=text.encode(),
            timeout=2,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return


def editor_command(setting: str, environ: Mapping[str, str]) -> list[str]:
    """The editor to start: the setting, $VISUAL, $EDITOR, or what every system has."""
    return shlex.split(setting or environ.get("VISUAL") or environ.get("EDITOR") or "vi")


@contextmanager
def _away(app: App[int]) -> Iterator[None]:
    """Hand the terminal over for a while; the app and its turn keep running."""
    # Ctrl+C now means whoever has the terminal. A handler, unlike ignoring, is not inherited.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        with app.batch_update(), app.suspend():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
        app.refresh(layout=True)


async def edit(app: App[int], text: str, command: list[str]) -> str:
    """Let a person change a text in an editor; what it leaves in the file comes back."""
    handle, name = tempfile.mkstemp(prefix="mindstone-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        with _away(app):
            await asyncio.to_thread(subprocess.run, [*command, name], check=False)
        return await asyncio.to_thread(_read, path)
    except (OSError, SuspendNotSupported) as error:
        raise errors.UsageError(
            f"The editor `{shlex.join(command)}` could not be started ({error}).",
            "Set tui.editor in config.toml, or $EDITOR.",
        ) from error
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")


async def show_plain(app: App[int], text: str) -> None:
    """Print a text below the prompt of the shell and wait for Enter."""
    try:
        with _away(app):
            print(for_terminal(text))
            await asyncio.to_thread(input, "\n— press Enter to return to MindStone — ")
    except (EOFError, SuspendNotSupported) as error:
        raise errors.MindstoneError("This terminal cannot show plain scrollback.") from error
