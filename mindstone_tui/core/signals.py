"""How processes end: ours finishes what it is in the middle of, a child leaves nothing open."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
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
