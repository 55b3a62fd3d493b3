"""The command on a terminal of its own, to be typed at, watched and ended."""

from __future__ import annotations

import os
import pty
import select
from pathlib import Path

from tests.cli.forked import ROOT, begin

PATIENCE = 60.0
PLAIN_SCREEN = b"\x1b[?1049l"


class OnTerminal:
    """The command on a terminal of its own."""

    def __init__(self, folder: Path | None, *arguments: str, errors: int | None = None) -> None:
        self._end, own = pty.openpty()
        where = () if folder is None else ("--cwd", str(folder))
        self.seen = b""
        self.open = True
        self.process = begin(
            *arguments,
            *where,
            stdin=own,
            stdout=own,
            stderr=own if errors is None else errors,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
        )
        os.close(own)

    def type(self, text: bytes) -> None:
        os.write(self._end, text)

    def until(self, shown: bytes) -> None:
        """Read until something is on the screen."""
        while shown not in self.seen:
            assert self._read(), f"{shown!r} never came; the end is {self.seen[-500:]!r}"

    def _read(self) -> bool:
        waiting = select.poll()
        waiting.register(self._end, select.POLLIN)
        if not waiting.poll(1_000 * PATIENCE):
            return False
        try:
            piece = os.read(self._end, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.seen += piece
        return bool(piece)

    def close(self) -> None:
        """Close the window."""
        if self.open:
            os.close(self._end)
            self.open = False

    def finish(self) -> int:
        """Read the rest, and wait for the end."""
        while self.open and self._read():
            pass
        return self.process.wait(PATIENCE)
