"""A progress bar on stderr, for people; a pipe gets none."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

_WIDTH: Final = 28
_PAUSE: Final = 0.1


class Progress:
    """How far a long piece of work has come."""

    def __init__(self, what: str, total: int, *, quiet: bool = False) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._shown = not quiet and sys.stderr.isatty()
        self._next = 0.0
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def at(self, done: int, total: int | None = None) -> None:
        """This much is done, of so much where that is only known on the way."""
        self._done = done
        self._total = self._total if total is None else total
        self._draw()

    def step(self, more: int) -> None:
        """This much more is done."""
        self.at(self._done + more)

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _PAUSE
        rate = self._done / max(now - self._began, 1e-6)
        if self._total:
            cells = round(min(1.0, self._done / self._total) * _WIDTH)
            bar = "█" * cells + "░" * (_WIDTH - cells)
            text = f"{self._what:8} {bar} {self._done:,} of {self._total:,} ({rate:,.0f}/s)"
        else:
            text = f"{self._what:8} {self._done:,} ({rate:,.0f}/s)"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
