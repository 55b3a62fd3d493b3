"""Kill hooks, residents and the other program itself, and look for what is missing.

    python -m tests.faults.attached_kills [KILLS]

A program writes its session file line by line, as Claude Code does, and calls the real hook at the
moments it would. At random points one of the three is killed with signal 9: the hook while it
talks, the resident while it writes, the program within a line. In the end everything that the file
says must be in the transcript, once and in order, and the chain must hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from mindstone_tui.core.config import Settings
from mindstone_tui.core.entries import Line
from mindstone_tui.core.library.watch import LiveImports
from mindstone_tui.core.paths import Places, SessionKey
from mindstone_tui.core.transcript import History, verify
from tests.core.library.test_live_import import ClaudeFile, expected

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class OtherProgram:
    """Writes a session file, and calls hooks without caring what becomes of them."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.file = folder / ".claude/projects/-srv-app/s1.jsonl"
        self.file.parent.mkdir(parents=True)
        self.home = folder / "ours"
        self._chance = chance
        self._environ = {
            "HOME": str(folder),
            "MINDSTONE_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PATH": os.defpath,
        }

    def hook(self, event: str) -> subprocess.Popen[bytes]:
        """Begin a hook, as the program would."""
        command = [sys.executable, "-P", "-m", "mindstone_tui", "hook", "claude-code"]
        begun = subprocess.Popen(
            [*command, "--home", str(self.home)],
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        said = {
            "hook_event_name": event,
            "session_id": "s1",
            "transcript_path": str(self.file),
            "cwd": "/srv/app",
            "prompt": "which port does staging use?",
        }
        assert begun.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            begun.stdin.write(json.dumps(said).encode())
            begun.stdin.close()
        return begun

    def write(self, line: str, *, killed: bool) -> None:
        """Append a line; killed within it, a later one finds half of it and begins a new line."""
        with self.file.open("a") as out:
            if killed:
                out.write(line[: self._chance.randrange(1, len(line))])
                out.flush()
                out.write("\n")
            out.write(line)

    def resident(self) -> int:
        """The process of the resident; 0 where none says so."""
        with contextlib.suppress(OSError, ValueError):
            return int(json.loads((self.home / "state/serve.json").read_text())["pid"])
        return 0

    def wait_for_resident(self) -> None:
        """Call hooks until one listens."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(ProcessLookupError):
                if process := self.resident():
                    os.kill(process, 0)
                    return
            self.hook("Notification").wait()
            time.sleep(0.3)


def kill(process: int) -> bool:
    """Kill a process of ours; whether there was one."""
    try:
        os.kill(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def run(kills: int, seed: int = 1, *, quick: bool = False) -> dict[str, int]:
    """Kill that often; what was killed, how many messages there were and how many arrived."""
    chance = random.Random(seed)
    killed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="attached-") as folder:
        program = OtherProgram(Path(folder), chance)
        (program.home / "state").mkdir(parents=True)
        (program.home / "state/watched.json").write_text('{"files":{}}')
        exchanges = 0
        while sum(killed.values()) < kills:
            written = ClaudeFile()
            for number in range(exchanges + 1):
                written.exchange(number)
            for at, line in enumerate(written.lines[exchanges * 6 :]):
                event = {0: "UserPromptSubmit", 4: "PostToolUse", 5: "Stop"}.get(at)
                victims = ("hook", "resident", "program") if event else ("program", "", "", "")
                victim = chance.choice(victims)
                program.write(line, killed=victim == "program")
                killed[victim] += victim == "program"
                if event is None:
                    continue
                if victim == "resident":
                    program.wait_for_resident()
                hook = program.hook(event)
                if victim == "resident" and (process := program.resident()):
                    time.sleep(chance.random() * 0.3)  # while it answers, or takes the file over
                    killed["resident"] += kill(process)
                if victim == "hook":
                    time.sleep(chance.random() * 0.1)
                    killed["hook"] += hook.poll() is None and kill(hook.pid)
                hook.wait()
            exchanges += 1
            del killed[""]
        arrived = settle(program, exchanges, quick=quick)
        if process := program.resident():
            kill(process)
    return {**killed, "messages": 4 * exchanges, "arrived": arrived}


def settle(program: OtherProgram, exchanges: int, *, quick: bool) -> int:
    """Wait until the resident has taken everything, as the next hook makes it do; count it."""
    home = Places.resolve({"MINDSTONE_HOME": str(program.home)})
    own = home.session(SessionKey("default", "claude-code-s1"))
    until = time.monotonic() + PATIENCE
    while not quick and time.monotonic() < until and len(said(own)) < 4 * exchanges:
        program.hook("Stop").wait()
        time.sleep(0.2)
    if quick:
        LiveImports(home, Settings(), {}).of(program.file).catch_up(settled=True)
    found = said(own)
    assert verify(own).ok
    assert found == expected(exchanges), "something is lost, doubled or out of order"
    return len(found)


def said(own: object) -> list[str]:
    """Every text of a session in order."""
    kinds = {"user_message", "assistant_message", "tool_returned"}
    try:
        with History(own) as history:  # type: ignore[arg-type]
            lines = [line for line in history.read() if isinstance(line, Line)]
    except Exception:  # there is none yet
        return []
    found = [getattr(line.entry, "text", "") for line in lines if line.kind in kinds]
    return [text for text in found if text]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else 100)) + "\n")
