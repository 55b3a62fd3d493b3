"""What verbs print: plain text, tables and JSON on stdout, diagnostics on stderr.

Text from outside is made harmless before it is printed. Colour is for people: a pipe, `NO_COLOR`
and a dumb terminal get none. When nobody reads any more, the program ends quietly.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from mindstone_tui.core import errors, numbers
from mindstone_tui.core.text import for_terminal

_NARROWEST: Final = 12
"""Columns that a column of a table, or a line of words, has at least."""
PIPE_CLOSED: Final = 141
"""What a shell reports for a program that wrote to a pipe nobody reads."""


class OutputRefused(errors.MindstoneError):
    """What stands behind stdout takes nothing more; its remedy is not ours to know."""


_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def colourful(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a person looks at this stream on a terminal that can show colour."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a colour or weight, where the stream can show it."""
    if not style or not text or not colourful(stream or sys.stdout):
        return text
    return f"\x1b[{';'.join(_STYLES[each] for each in style.split())}m{text}\x1b[0m"


def say(text: str = "", style: str = "") -> None:
    """Print one text of our own or from outside, harmless, on stdout."""
    say_styled(text, style, sys.stdout)


def say_styled(text: str, style: str, stream: TextIO) -> None:
    """Print one harmless text on a stream, in a colour where the stream can show it."""
    _write(stream, styled(for_terminal(text), style, stream) + "\n")


def prompt(text: str) -> None:
    """Ask for a line on stderr, leaving the cursor behind the question."""
    _write(sys.stderr, for_terminal(text))
    _flush(sys.stderr)


def say_piece(text: str, *, exact: bool = False) -> None:
    """Print a piece of a longer text as it comes, without ending the line.

    A person sees it harmless; a file or a program may ask for every character of it.
    """
    exact = exact and not sys.stdout.isatty()
    _write(sys.stdout, text if exact else for_terminal(text))
    _flush(sys.stdout)


def say_words(text: str, indent: str = "") -> None:
    """Print what somebody said: harmless and in lines on a terminal, exactly so into a pipe."""
    lines = [part for line in text.split("\n") for part in in_lines(line, len(indent))]
    say_piece("\n".join(f"{indent}{line}" if line else line for line in lines) + "\n", exact=True)


def in_lines(line: str, indent: int) -> list[str]:
    """A line as it fits on a terminal beside its indent, words whole where they can be."""
    room = max(shutil.get_terminal_size().columns - indent, _NARROWEST)
    if not sys.stdout.isatty() or (line.isascii() and line.isprintable() and len(line) <= room):
        return [line]
    from rich.console import Console  # deferred: only a long line on a terminal needs these
    from rich.text import Text

    wrapped = Text(for_terminal(line)).wrap(Console(width=room), room)
    return [part.plain.rstrip() for part in wrapped] or [""]


def say_exactly(text: str) -> None:
    """Print a text as it is, for a file or a program."""
    _write(sys.stdout, text)


def flush_output() -> None:
    """Hand over what was printed so far."""
    _flush(sys.stdout)


def say_json(value: Any) -> None:
    """Print one value as one line of JSON, at once: somebody may be following."""
    import msgspec  # deferred: help and errors need none of it

    say_raw_json(msgspec.json.encode(value).decode())


def say_raw_json(encoded: str) -> None:
    """Print JSON that is encoded already; what a terminal could act on is escaped."""
    _write(sys.stdout, harmless_json(encoded) + "\n")
    _flush(sys.stdout)


def harmless_json(encoded: str) -> str:
    """The same JSON value, with every character that cannot be seen as an escape."""
    if encoded.isprintable():
        return encoded
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in encoded)


def _escaped(sign: str) -> str:
    units = sign.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def hint(text: str) -> None:
    """Print something about the work, not its result, on stderr."""
    say_styled(text, "dim", sys.stderr)


def own_command(started: str = "", environ: Mapping[str, str] = os.environ) -> str:
    """What to type to start this program again: where it lies, unless the shell finds it."""
    started = started or sys.argv[0]
    found = shutil.which("mindstone", path=environ.get("PATH", ""))
    return "mindstone" if found or Path(started).name != "mindstone" else shlex.quote(started)


def complain(what: str, remedy: str = "") -> None:
    """Say on stderr what happened and what to do about it."""
    label = styled("mindstone:", "red", sys.stderr)
    _write(sys.stderr, f"{label} {for_terminal(what)}\n")
    if remedy:
        _write(sys.stderr, f"{for_terminal(remedy)}\n")


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    below: Sequence[str] = (),
    above: Mapping[int, str] | None = None,
    gives_way: Sequence[int] = (-1,),
    styles: Mapping[int, str] | None = None,
) -> None:
    """Print aligned columns; on a terminal they are made to fit, in a pipe nothing is cut.

    `below` has a line of its own for each row, or nothing; `above` has headings by their rows. The
    columns that `gives_way` names become narrower first; `styles` has the colours of columns.
    """
    from rich.cells import cell_len, set_cell_size

    body = [[for_terminal(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(cell_len(row[at]) for row in [headers, *body]) for at in range(len(headers))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    if room:
        widths = _fitting(widths, room, gives_way)

    def fitted(line: str, most: int) -> str:
        return set_cell_size(line, most - 1).rstrip() + "…" if cell_len(line) > most else line

    def padded(cell: str, at: int, style: str = "") -> str:
        shown = fitted(cell, widths[at])
        blank = " " * (widths[at] - cell_len(shown))
        return blank + styled(shown, style) if at in right else styled(shown, style) + blank

    for number, row in enumerate([list(headers), *body]):
        line = "  ".join(padded(cell, at) for at, cell in enumerate(row)).rstrip()
        if number == 0 or (room and cell_len(line) > room):
            line = styled(fitted(line, room or cell_len(line)), "" if number else "bold")
        elif styles:
            line = "  ".join(padded(cell, at, styles.get(at, "")) for at, cell in enumerate(row))
        if number and above and (heading := above.get(number - 1)):
            say(fitted(for_terminal(heading), room or 2 * len(heading)), "bold")
        _write(sys.stdout, line.rstrip() + "\n")
        if number and below:
            say(f"    {below[number - 1]}", "dim")


def _fitting(widths: list[int], room: int, gives_way: Sequence[int]) -> list[int]:
    """The widths with which a table fits, as far as the columns that may shrink let it."""
    fitting, giving = list(widths), [at % len(widths) for at in gives_way]
    while sum(fitting) + 2 * (len(fitting) - 1) > room:
        widest = max(giving, key=lambda at: fitting[at])
        if fitting[widest] <= _NARROWEST:
            break
        fitting[widest] -= 1
    return fitting


def finish_output(code: int) -> int:
    """Flush what is left; the exit code, changed if nobody was there to read it."""
    try:
        _flush(sys.stdout)
    except SystemExit:
        return PIPE_CLOSED
    except errors.MindstoneError as error:
        complain(error.what, error.remedy)
        return code or errors.ExitCode.FAILED
    return code


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except OSError as error:
        raise _refused(stream, error) from None
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _flush(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError as error:
        raise _refused(stream, error) from None


def _refused(stream: TextIO, error: OSError) -> BaseException:
    """What to raise when a stream takes nothing more; it is silent from here on."""
    _silence(stream)
    if error.errno in (errno.EPIPE, errno.EIO) or stream is sys.stderr:
        return SystemExit(PIPE_CLOSED)  # nobody reads any more, or the terminal is gone
    return OutputRefused(f"The output could not be written: {error.strerror}.")


def _silence(stream: TextIO) -> None:
    """Point the stream at nothing, so that the interpreter's own last flush is quiet."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


IN_THE_BACKGROUND: Final = (
    "The semantic index is built in the background;"
    " until then, recall finds the rest by words only."
)
_WIDTH: Final = 28
_PAUSE: Final = 0.1


class Progress:
    """How far a long piece of work has come: one bar at a time, for each of its parts."""

    def __init__(
        self, part: str = "", total: int = 0, *, quiet: bool = False, in_bytes: bool = False
    ) -> None:
        self._quiet = quiet
        self._bytes = in_bytes
        self._shown = not quiet and sys.stderr.isatty()
        self._begin(part, total)

    def _begin(self, part: str, total: int) -> None:
        self.part = part
        """What is being done, or was done last."""
        self._total = total
        self._next = 0.0
        self._began = time.monotonic()
        self._first: int | None = None
        """How much was done when the first step was told: what was there before is no speed."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, part: str, done: int, total: int) -> None:
        """So much of a part is done."""
        if part != self.part or self._first is None:
            self.clear()
            self._begin(part, total)
        self.at(done, total)
        if 0 < total <= done:
            self.clear()  # what is said next begins on a line of its own
            self._first = None

    def remark(self, text: str) -> None:
        """Say something on a line of its own; the bar goes on below it."""
        self.clear()
        if not self._quiet:
            hint(text)

    def at(self, done: int, total: int | None = None) -> None:
        """This much is done, of so much where that is only known on the way."""
        self._total = self._total if total is None else total
        self._first = done if self._first is None else self._first
        self._draw(done)

    def _sized(self, count: int) -> str:
        return numbers.megabytes(count) if self._bytes else f"{count:,}"

    def clear(self) -> None:
        """Take the bar away, for what is said next."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _draw(self, done: int) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _PAUSE
        rate = (done - (self._first or 0)) / max(now - self._began, 1e-6)
        if self._total:
            cells = round(min(1.0, done / self._total) * _WIDTH)
            bar = "█" * cells + "░" * (_WIDTH - cells)
            of = f"{self._sized(done)} of {self._sized(self._total)}"
            left = f", {numbers.seconds((self._total - done) / rate)} left" if rate > 0 else ""
            text = f"{self.part:8} {bar} {of} ({self._sized(round(rate))}/s{left})"
        else:
            text = f"{self.part:8} {done:,} ({rate:,.0f}/s)"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


STEPS: Final = "▁▂▃▄▅▆▇█"
_FULL, _EMPTY = "█", "·"


def line_chart(shares: Sequence[float], width: int = 60) -> str:
    """Shares of one over time; where several fall together, the highest is shown."""
    if not shares:
        return ""
    columns = min(width, len(shares))
    edges = [at * len(shares) // columns for at in range(columns + 1)]
    tops = [max(shares[edges[at] : edges[at + 1]]) for at in range(columns)]
    last = len(STEPS) - 1
    return "".join(STEPS[round(min(max(top, 0.0), 1.0) * last)] for top in tops)


def bar_chart(hits: int, asked: int, inside: int, width: int = 20) -> str:
    """So many of so many: full for what is at hand, lighter for what has to be brought back."""
    if not asked:
        return _EMPTY * width
    cells = round(hits / asked * width)
    at_hand = round(inside / asked * width)
    return _FULL * at_hand + "▒" * (cells - at_hand) + _EMPTY * (width - cells)
