"""How processes end, and what they may use of the machine.

Ours finishes what it is in the middle of, a child leaves nothing open.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_ending(act: Callable[[], object]) -> None:
    """Act whenever this process is asked to end; call it on the loop, in the main thread.

    The same signal a second time ends the process at once. Not so a hang-up: the system and the
    shell both send one when a terminal is closed. What our parent ignores for us (`nohup`) stays
    ignored.
    """
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        if number != signal.SIGHUP:
            loop.remove_signal_handler(number)
        act()

    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, asked, number)


def let_go(process: asyncio.subprocess.Process) -> None:
    """Close our ends of a child's pipes, which a survivor may hold open for ever.

    asyncio has no public way to do so.
    """
    if (transport := getattr(process, "_transport", None)) is not None:
        transport.close()


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""The numbers of glibc's malloc.h."""
_LARGE: Final = 128 * 1024
"""Bytes; what is larger is a mapping of its own. glibc begins with this, and raises it."""


@cache
def return_freed_memory() -> bool:
    """Share two heaps among all threads and keep them short; whether that was possible here."""
    if sys.platform != "linux":
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:  # musl has no such heaps
        return False
    wanted = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE))
    return all(set_option(option, value) for option, value in wanted)
