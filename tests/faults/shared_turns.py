"""Two homes, one session on a server, turn after turn: `python -m tests.faults.shared_turns`.

One home has the session open in the real app, on a terminal of its own; the other takes its turns
as a program that begins and ends (`mindstone run`). Each turn of the other must show on the app's
screen. In the end both transcripts are the same bytes, and `verify` and `replay --all --check`
hold on both.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.postgres import PostgresServer
from tests.tui.screen_model import ScreenModel

COLUMNS, LINES = 120, 40
PATIENCE = 600.0
PROGRAM = (sys.executable, "-m", "mindstone_tui")


def machine(folder: Path, url: str) -> dict[str, str]:
    """The surroundings of a home whose sessions are on the server."""
    return {
        **os.environ,
        "MINDSTONE_HOME": str(folder),
        "MINDSTONE_HISTORY__URL": url,
        "MINDSTONE_RECALL__BACKGROUND": "false",
        "TERM": "xterm-256color",
    }


def transcript(home: dict[str, str]) -> bytes:
    """The copy that a home has, as it is now."""
    found = sorted(Path(home["MINDSTONE_HOME"]).rglob("transcript.jsonl"))
    return found[0].read_bytes() if found else b""


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait for a condition; the seconds that took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE:
            raise TimeoutError(what)
        time.sleep(0.02)
    return time.monotonic() - began


class App:
    """The app on a pseudo-terminal: what is typed goes in, what it draws can be looked at."""

    def __init__(self, home: dict[str, str]) -> None:
        self.home = home
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, list(PROGRAM), home)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)
        self._screen = ScreenModel(COLUMNS, LINES)
        self._lock = threading.Lock()
        threading.Thread(target=self._draw, daemon=True).start()

    def _draw(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                drawn = os.read(self._fd, 1 << 16)
            except OSError:
                return
            with self._lock:
                self._screen.feed(decoder.decode(drawn))

    @property
    def screen(self) -> str:
        """What stands there now."""
        with self._lock:
            return self._screen.text

    def shows(self, text: str) -> bool:
        """Whether something stands on the screen now."""
        return text in self.screen

    def type(self, text: str) -> None:
        """Write a message and send it; nothing is sent before it stands in the prompt."""
        os.write(self._fd, text.encode())
        until(lambda: self.shows(text.split()[-1]), f"the prompt does not show: {text}")
        os.write(self._fd, b"\r")

    def close(self) -> None:
        """Leave it as a person does."""
        os.write(self._fd, b"\x03")
        time.sleep(0.3)
        os.write(self._fd, b"\x03\x04")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def turns_ended(home: dict[str, str]) -> int:
    """How many turns a copy has to their end."""
    return transcript(home).count(b'"kind":"turn_ended"')


def converse(one: dict[str, str], other: dict[str, str], turns: int) -> list[float]:
    """Take turns in turn; how long after its end each turn of the other one was on the screen."""
    delays: list[float] = []
    app = App(one)
    try:
        until(lambda: app.shows("main"), "the app does not start")
        for turn in range(1, turns + 1):
            mark = f"drawer{turn:04}{turn * 7919 % 10_000:04}"
            if turn % 2:
                app.type(f"Turn {turn} from the first machine is in {mark}")
                until(lambda turn=turn: turns_ended(one) >= turn, f"turn {turn} of the app")  # type: ignore[misc]
                continue
            text = f"Turn {turn} from the second machine is in {mark}"
            subprocess.run([*PROGRAM, "run", "-q", text], env=other, check=True, timeout=PATIENCE)
            delays.append(until(lambda mark=mark: app.shows(mark), f"{mark} is not shown"))  # type: ignore[misc]
            if turn % 50 == 0:
                print(f"{turn} turns, newest delay {delays[-1]:.2f} s", flush=True)
        return delays
    except TimeoutError:
        print(app.screen)
        raise
    finally:
        app.close()


def main(turns: int) -> bool:
    """Run it, and prove what came out."""
    server = PostgresServer()
    server.start()
    folder = Path(tempfile.mkdtemp(prefix="mindstone-turns-"))
    try:
        url = server.new_database()
        homes = [machine(folder / name, url) for name in ("one", "other")]
        began = time.monotonic()
        delays = converse(homes[0], homes[1], turns)
        took = time.monotonic() - began
        good = True
        for home in homes:
            for words in (["verify"], ["replay", "--all", "--check"]):
                proven = subprocess.run(
                    [*PROGRAM, *words], env=home, capture_output=True, text=True
                )
                print(" ".join(words), proven.returncode, proven.stdout.strip()[-200:])
                good = good and proven.returncode == 0
        copies = {transcript(home) for home in homes}
        print(f"{turns} turns, {took:.0f} s; copies differ: {len(copies) > 1}")
        print(
            f"a turn of the other was on the screen {sorted(delays)[len(delays) // 2]:.2f} s after "
            f"its end in the median, {max(delays):.2f} s at most"
        )
        return good and len(copies) == 1
    finally:
        server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    sys.exit(0 if main(parser.parse_args().turns) else 1)
