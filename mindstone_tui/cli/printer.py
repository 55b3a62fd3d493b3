"""The one line printer: events as lines, for `run`, the line chat and `replay --plain`.

The answer goes to stdout and everything about it to stderr, so that a pipe carries the answer
alone. A recording goes to stdout as a whole, in order.
"""

from __future__ import annotations

import sys
from typing import Final

from mindstone_tui.cli.output import complain, say, say_piece, say_styled
from mindstone_tui.core import events as ev
from mindstone_tui.core.entries.provenance import MARK
from mindstone_tui.core.events.narrate import aside, describe
from mindstone_tui.core.events.narrate_entry import EventLine
from mindstone_tui.core.text import as_written

_STYLES: Final = {"note": "dim", "good": "green", "warning": "yellow", "error": "red"}


class EventPrinter:
    """Prints a conversation as it happens, or a recording of one."""

    def __init__(
        self, *, quiet: bool = False, introduce: bool = True, recorded: bool = False
    ) -> None:
        self._quiet = quiet
        self._introduce = introduce
        self._recorded = recorded
        self._open_line = False

    def show(self, event: ev.AnyEvent) -> None:
        """Print what this event has to say, if anything."""
        match event:
            case ev.TextDelta(text=text) if text:
                say_piece(text)
                self._open_line = not text.endswith("\n")
            case ev.AnswerRecorded():
                self.end_line()
            case ev.TurnStarted(turn=turn, text=text) if self._recorded:
                say(f"\n── turn {turn}{f' · {MARK}' if event.imported else ''}", "dim")
                say(f"> {as_written(text)}", "cyan")
            case ev.EntryAppeared(role="user", text=text) if self._recorded:
                say(f"> {as_written(text)}", "cyan")
            case ev.CommandPrinted(text=text, ok=ok) if not self._recorded:
                self.end_line()
                say(text) if ok else complain(text)
            case ev.ScreenAsked(otherwise=text) if text:
                say(text)
            case ev.SessionReady() if self._introduce:
                self._tell(describe(event))
            case ev.ScreenAsked() | ev.ToolStarted() | ev.ToolEnded() | ev.RecallInjected():
                self._tell(describe(event))
            case ev.ModelCalled() if self._recorded:
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
        if self._quiet and not always and line.tone != "error":
            return
        self.end_line()
        if line.tone == "error" and not self._recorded:
            complain(line.text, line.detail)
        else:
            stream = sys.stdout if self._recorded else sys.stderr
            say_styled(str(line), _STYLES[line.tone], stream)
