"""Keeps hold of every process a command starts, so that none outlives the call.

Three holds, the strongest that this machine and the command allow, and always the weakest:

- A pid namespace (bubblewrap): inside, the supervisor cannot be seen, and when the first process
  ends the kernel kills the rest. Not for commands that deal with other processes or other rights.
- A control group: whoever is in it is killed at once, whatever its parents are.
- A mark in the environment, besides the supervisor that adopts orphans: found even when that was
  killed, unless a program wiped its environment.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from mindstone_tui.core import paths
from mindstone_tui.core.tools.verdicts import CommandPart

__all__ = ["ProcessTree", "deals_with_processes", "in_own_namespace"]

_MARK: Final = "MINDSTONE_PROCESS_TREE"
_PREFIX: Final = "mindstone-"
_PATIENCE: Final = 2.0
"""Seconds in which the kernel surely has killed what it was told to."""
_UNUSED: Final = 600.0
"""Seconds after which an empty group was left behind; a fresh one waits for its supervisor."""
_NAMESPACE: Final = (
    *("--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"),
)
_ABOUT_PROCESSES: Final = frozenset(
    {
        *("kill", "pkill", "killall", "fuser", "ps", "pgrep", "pidof", "top", "htop", "lsof", "ss"),
        *("netstat", "tmux", "screen", "gdb", "lldb", "strace", "ltrace", "perf", "py-spy"),
        *("renice", "taskset", "nsenter", "unshare", "bwrap", "podman", "buildah"),
    }
)


def deals_with_processes(parts: tuple[CommandPart, ...]) -> bool:
    """Whether a command needs the machine's other processes, or rights that a namespace takes."""
    return any(
        "privilege" in part.effects
        or any(word.rpartition("/")[2] in _ABOUT_PROCESSES for word in part.words)
        for part in parts
    )


def in_own_namespace(
    command: tuple[str, ...], path: str | None, roots: tuple[Path, ...]
) -> tuple[str, ...]:
    """The command where it sees only its own processes; unchanged where that cannot be had."""
    program = paths.program("bwrap", path, *roots)
    if program is None or not sys.platform.startswith("linux") or not _works(program):
        return command
    return (program, *_flags(), "--", *command)


def _flags() -> tuple[str, ...]:
    return (*_NAMESPACE, *(("--cap-add", "ALL") if os.geteuid() == 0 else ()))


@cache
def _works(program: str) -> bool:
    """Whether namespaces may be made here at all: tried once."""
    try:
        done = subprocess.run(
            [program, *_flags(), "--", "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


class ProcessTree:
    """The processes of one command, wherever they went."""

    def __init__(self) -> None:
        self._token = os.urandom(12).hex()
        self.group = _new_group(self._token)
        """A control group that the supervisor enters before it starts anything."""

    @property
    def environ(self) -> dict[str, str]:
        """What every process of the tree inherits."""
        return {_MARK: self._token}

    def end(self) -> None:
        """Kill whatever is left; returns when nothing is."""
        if self.group is not None:
            _kill_group(self.group)
        deadline = time.monotonic() + _PATIENCE
        while (found := list(self._marked())) and time.monotonic() < deadline:
            for process in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.005)

    def _marked(self) -> Iterator[int]:
        """Living processes that carry the mark; a dead one has no environment any more."""
        mark = f"{_MARK}={self._token}".encode()
        with contextlib.suppress(OSError):
            for entry in os.scandir("/proc"):
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    with contextlib.suppress(OSError):
                        if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                            yield int(entry.name)


def _new_group(token: str) -> Path | None:
    """A fresh control group below our own; None where we may not make one."""
    if (home := _own_group()) is None or not os.access(home, os.W_OK):
        return None
    for old in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # refused while anything runs in it
            if old.stat().st_mtime < time.time() - _UNUSED:
                old.rmdir()
    group = home / f"{_PREFIX}{token}"
    try:
        group.mkdir()
        if not (group / "cgroup.kill").exists():
            group.rmdir()
            return None
    except OSError:
        return None
    return group


@cache
def _own_group() -> Path | None:
    """The folder of the control group this process is in, in the unified hierarchy."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
        groups = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return None
    below = next((line[3:] for line in groups if line.startswith("0::")), None)
    for line in mounts:
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 ") and below is not None:
            return Path(before.split(" ")[4], below.lstrip("/"))
    return None


def _kill_group(group: Path) -> None:
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1", "utf-8")
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if "populated 0" in (group / "cgroup.events").read_text("utf-8"):
                break
            time.sleep(0.002)
        group.rmdir()
