"""The app is ended from outside: it leaves as a person would, and does so to the end."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mindstone_tui.core import events as ev
from mindstone_tui.tui.app import MindstoneApp
from tests.cli.terminal import PATIENCE
from tests.tui.staged import Staged, around, until


class Slow(Staged):
    """Takes its time to close, once, as a session does."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = False
        self.may_close = asyncio.Event()

    async def close(self) -> None:
        if not self.closing:
            self.closing = True
            await self.may_close.wait()
            self._events.put_nowait(None)


@pytest.mark.parametrize("second", [signal.SIGHUP, signal.SIGTERM])
async def test_a_second_signal_does_not_break_off_what_the_first_began(second: int) -> None:
    slow = Slow()

    async def open_conversation(key: str) -> ev.Conversation:
        return slow

    app = MindstoneApp(open_conversation, around())
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.talk is slow)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(pilot, lambda: slow.closing)
        os.kill(os.getpid(), second)
        await pilot.pause()
        slow.may_close.set()
        await until(pilot, lambda: not app.is_running)


CONTINUED = """
import os, signal, sys, threading
from textual.app import App
from mindstone_tui.tui.terminal import LastingDriver

class Continued(App):
    def on_mount(self):
        os.kill(os.getpid(), signal.SIGCONT)
        self.exit([each.name for each in threading.enumerate()].count("textual-input"))

told = Continued(driver_class=LastingDriver).run()
open(sys.argv[1], "w").write(str(told))
"""


def test_one_thread_reads_the_keys_after_the_signal_to_go_on(tmp_path: Path) -> None:
    keyboard, own = pty.openpty()
    told = tmp_path / "told"
    command = [sys.executable, "-c", CONTINUED, str(told)]
    with subprocess.Popen(command, stdin=own, stdout=own, stderr=own) as process:
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            os.close(keyboard)
            os.close(own)
    assert told.read_text() == "1"
