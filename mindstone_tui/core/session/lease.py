"""The right to take a turn in a session: one program at a time, whichever has it.

It is the kernel's lock on a file beside the transcript. Whoever waits looks again shortly; a
program that dies gives it back by dying.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from typing import Final

from mindstone_tui.core.disk import REAL, place_error
from mindstone_tui.core.errors import SessionBusy
from mindstone_tui.core.paths import SessionPlaces

_LOOK_AGAIN: Final = 0.05


class Lease:
    """The right to take a turn in one session."""

    def __init__(self, places: SessionPlaces) -> None:
        self._places = places
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process has it."""
        return self._fd is not None

    def try_take(self) -> bool:
        """Take it if nobody has it."""
        if self._fd is not None:
            return True
        try:
            fd = REAL.open(self._places.lease, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise place_error(self._places.lease, error) from error
        try:
            # The kernel's lock goes with the process: a crash leaves nothing that must be removed.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    async def take(self, *, wait: bool, on_wait: Callable[[], None]) -> None:
        """Take it, waiting for the other surface if need be; `on_wait` is told once."""
        told = False
        while not self.try_take():
            if not wait:
                raise SessionBusy(
                    f"Another program is taking a turn in {self._places.key}.",
                    "Wait for it to finish, or leave out --no-wait.",
                )
            if not told:
                on_wait()
                told = True
            await asyncio.sleep(_LOOK_AGAIN)

    def give_back(self) -> None:
        """Let others have it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
