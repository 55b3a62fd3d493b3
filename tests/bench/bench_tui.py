"""How quick and how quiet the terminal app is: `python -m tests.bench.bench_tui [--json]`.

`--beside COMMAND` measures another terminal chat on the same pseudo-terminal in the same run;
`--million` also opens a session of a million entries.

Everything runs on a pseudo-terminal of 120 by 40, beside an empty Textual app in the same run, so
that ratios mean the same on every machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import psutil

from tests.bench.tui_stage import ANSWER
from tests.tui.screen_model import FRAME_ENDS, ScreenModel
from tests.tui.shelf import fill

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
RATES = (200, 40)
"""Tokens a second: more than anyone reads, and what most models do."""
PAINTED = b"for commands"
"""What both apps show in their first picture."""
KEYS = "абвгдежзийклмнопрстуфхцчшщъыьэюяαβγδεζηθικλμνξοπρστυφχψω"
"""Letters that stand nowhere on the screen until they are typed."""
_CAN_YOU, _I_CAN = b"\x1b[?2026$p", b"\x1b[?2026;1$y"
"""Whether the terminal shows an update as a whole: asked, and answered as most do."""


class Terminal:
    """A child on a pseudo-terminal."""

    def __init__(
        self,
        *arguments: str,
        command: tuple[str, ...] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.started = time.perf_counter()
        self.child = subprocess.Popen(
            command or (sys.executable, "-m", "tests.bench.tui_stage", *arguments),
            stdin=follower,
            stdout=follower,
            stderr=follower,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **variables},
        )
        os.close(follower)
        self.process = psutil.Process(self.child.pid)
        self.seen = 0
        self.tape: list[bytes] | None = None
        """What arrived, once somebody wants it kept."""

    def read(self, seconds: float) -> bytes:
        """What arrives within a time; empty if nothing does."""
        ready, _, _ = select.select([self._leader], [], [], seconds)
        data = os.read(self._leader, 1 << 16) if ready else b""
        self.seen += len(data)
        if _CAN_YOU in data:
            os.write(self._leader, _I_CAN)
        if self.tape is not None:
            self.tape.append(data)
        return data

    def until(self, wanted: bytes, patience: float = 60.0) -> float:
        """Seconds since the start until something is on the screen."""
        text = b""
        while wanted not in text:
            data = self.read(patience)
            if not data:
                raise SystemExit(f"never saw {wanted!r}")
            text = (text + data)[-200_000:]
        return time.perf_counter() - self.started

    def until_drawn(self, size: int = 2_000, patience: float = 60.0) -> float:
        """Seconds since the start until a picture's worth of bytes arrived, whatever they say."""
        while self.seen < size:
            if not self.read(patience):
                raise SystemExit("nothing was drawn")
        return time.perf_counter() - self.started

    def drain(self, seconds: float) -> None:
        """Read everything for a while."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def write(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    def paste(self, text: str) -> None:
        """Paste a text, reading on meanwhile so that neither side waits for the other for ever."""
        left = b"\x1b[200~" + text.encode() + b"\x1b[201~"
        while left:
            left = left[os.write(self._leader, left[:4_096]) :]
            self.read(0)

    def key_latency(self) -> dict[str, float]:
        times = sorted(self.key_times())
        return {"p50": statistics.median(times), "p95": times[len(times) * 95 // 100]}

    def key_times(self) -> list[float]:
        """Milliseconds from each key to its letter on the screen, on a machine that is free.

        While other programs hold the processor, neither the app nor the measurement can go on: the
        time for which the kernel let them wait is taken off.
        """
        times, moment = [], random.Random(1)
        for key in KEYS:
            self.drain(moment.uniform(0, 0.1))
            waited, start = self.waited(), time.perf_counter()
            os.write(self._leader, key.encode())
            seen = b""
            while key.encode() not in seen:
                seen = seen[-3:] + self.read(5)
            spent = time.perf_counter() - start
            times.append(max(spent - (self.waited() - waited), 0.0) * 1_000)
        return times

    def waited(self) -> float:
        """Seconds that the app and this process were ready to run and did not."""
        return _scheduled(self.child.pid)[1] + _scheduled(os.getpid())[1]

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self._leader)


def _scheduled(process: int) -> tuple[float, float]:
    """Seconds that a process ran, and that it waited for a processor."""
    try:
        ran, waited, _ = Path(f"/proc/{process}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def with_terminal(measure: Callable[[Terminal], T], *arguments: str) -> T:
    terminal = Terminal(*arguments)
    try:
        return measure(terminal)
    finally:
        terminal.close()


def first_paint(scene: str) -> tuple[float, float]:
    """Seconds to the first picture without waiting for others, and the processor's share of them.

    The best of seven runs.
    """

    def measure(terminal: Terminal) -> tuple[float, float]:
        seconds = terminal.until(PAINTED)
        ran, waited = _scheduled(terminal.child.pid)
        return seconds - waited, ran

    runs = [with_terminal(measure, scene) for _ in range(7)]
    return min(run[0] for run in runs), min(run[1] for run in runs)


def idle_cpu(seconds: float = 10.0) -> float:
    def measure(terminal: Terminal) -> float:
        terminal.until(PAINTED)
        terminal.drain(2)
        before = terminal.process.cpu_times()
        terminal.drain(seconds)
        after = terminal.process.cpu_times()
        spent = after.user + after.system - before.user - before.system
        return 100 * spent / seconds

    return with_terminal(measure, "app")


def at_rest(*arguments: str, command: tuple[str, ...] = ()) -> dict[str, float]:
    """A chat as it stands after its first picture: how long that took, and what it costs idle."""
    paints = []
    for _ in range(3):
        terminal = Terminal(*arguments, command=command)
        try:
            paints.append(terminal.until_drawn())
        finally:
            terminal.close()
    terminal = Terminal(*arguments, command=command)
    try:
        terminal.until_drawn()
        terminal.drain(4)
        before = terminal.process.cpu_times()
        terminal.drain(10)
        after = terminal.process.cpu_times()
        spent = after.user + after.system - before.user - before.system
        return {
            "first picture, s": min(paints),
            "idle CPU, %": 10 * spent,
            "rss MB": terminal.process.memory_info().rss / 2**20,
        }
    finally:
        terminal.close()


def idle_latency(terminal: Terminal) -> dict[str, float]:
    terminal.until(PAINTED)
    terminal.drain(2)
    return terminal.key_latency()


def streaming(rate: int, seconds: int = 5) -> dict[str, float]:
    """What an answer costs while it arrives: the terminal's work and the processor's."""
    terminal = Terminal("stream", str(rate))
    try:
        terminal.until(b"remembers")
        terminal.drain(20 / min(rate, 20) + 2)
        before, cpu = terminal.seen, terminal.process.cpu_times()
        terminal.tape = []
        terminal.drain(seconds)
        after = terminal.process.cpu_times()
        tape, terminal.tape = b"".join(terminal.tape).decode("utf-8", "replace"), None
        screen = ScreenModel(120, 40)
        screen.feed(tape)
        spent = after.user + after.system - cpu.user - cpu.system
        return {
            "bytes per token": (terminal.seen - before) / (seconds * rate),
            "cells per token": screen.printed / (seconds * rate),
            "updates per second": tape.count(FRAME_ENDS) / seconds,
            "cpu %": 100 * spent / seconds,
            **{f"key to screen, {name}, ms": of for name, of in terminal.key_latency().items()},
        }
    finally:
        terminal.close()


def typing_while_sent(messages: int = 6) -> dict[str, float]:
    """Keys while 2,000 pasted lines are on their way, again and again: all of them together."""
    pick, times = random.Random(2), []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "replies.jsonl")
        script.write_text('{"text": "I have read it."}\n{"loop": true}\n')
        arguments = ("-m", "mindstone_tui", "--model", f"scripted/{script}", "-s", "typed")
        home = {"MINDSTONE_HOME": f"{folder}/home", "HOME": folder}
        terminal = Terminal(command=(sys.executable, *arguments), variables=home)
        try:
            terminal.until(PAINTED)
            terminal.drain(3)
            for _ in range(messages):
                terminal.paste("\n".join(_line(pick) for _ in range(2_000)))
                terminal.drain(1.5)
                terminal.write(b"\r")
                times += terminal.key_times()
                terminal.write(b"\x15" + b"\x7f" * len(KEYS))
                terminal.drain(2)
        finally:
            terminal.close()
    times.sort()
    slow = sum(each > 50 for each in times)
    return {
        "p50": statistics.median(times),
        "p99": times[len(times) * 99 // 100],
        "most": times[-1],
        f"of {len(times)} over 50": slow,
    }


def _line(pick: random.Random) -> str:
    words = [pick.choice(ANSWER.split()) for _ in range(pick.randrange(4, 16))]
    return " ".join((*words, str(pick.randrange(1_000))))


def opening(messages: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        fill(Path(home), messages // 2)
        terminal = Terminal("open", home)
        try:
            seconds = terminal.until(f"Question {messages // 2}".encode())
            terminal.drain(2)
            return {"seconds": seconds, "rss MB": terminal.process.memory_info().rss / 2**20}
        finally:
            terminal.close()


def main() -> None:
    rows: dict[str, float] = {}
    bare, painted = first_paint("empty"), first_paint("app")
    rows["first paint, empty Textual app, s"] = bare[0]
    rows["first paint, MindStone, s"] = painted[0]
    rows["first paint, ratio"] = painted[0] / bare[0]
    rows["first paint, ratio of processor time"] = painted[1] / bare[1]
    rows["idle CPU, %"] = idle_cpu()
    for name, value in with_terminal(idle_latency, "app").items():
        rows[f"key to screen, idle, {name}, ms"] = value
    for rate in RATES:
        for name, value in streaming(rate).items():
            rows[f"streaming {rate} tokens/s, {name}"] = value
    for name, value in typing_while_sent().items():
        rows[f"while 2,000 pasted lines are sent, {name}, ms"] = value
    sizes = (100, 10_000, 400_000) if "--million" in sys.argv else (100, 10_000)
    for messages in sizes:
        for name, value in opening(messages).items():
            rows[f"open {messages:,} messages, {name}"] = value
    if "--beside" in sys.argv:
        other = tuple(sys.argv[sys.argv.index("--beside") + 1].split())
        mindstone = (sys.executable, "-m", "mindstone_tui")
        for name, command in (("MindStone", mindstone), (Path(other[0]).name, other)):
            for what, value in at_rest(command=command).items():
                rows[f"beside, {name}, {what}"] = value
    if "--json" in sys.argv:
        print(json.dumps(rows))
        return
    for name, value in rows.items():
        print(f"{name:<44} {value:>10.3f}")


if __name__ == "__main__":
    main()
