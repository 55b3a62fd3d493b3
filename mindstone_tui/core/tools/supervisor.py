"""Runs one command and outlives none of it: started as a program of its own, imports no package.

It adopts every process the command leaves behind (a child subreaper), so that double forks and new
sessions cannot get away. When the command ends, when it is told to stop (SIGTERM), or when its own
parent dies, it stops all that is left, then kills it, until nothing answers.

    python -I -S supervisor.py HOLD COMMAND [ARGUMENT…]

HOLD is JSON: `group`, a control group to enter first; `landlock`, what `landlock.py` and
`seccomp.py` beside this file apply to the command, whose questions `metadata.py` answers (without
anything that it may write, Landlock alone); `filter`, the number under which bubblewrap finds the
filter, and `local`, whether that leaves Unix sockets. Each may be null.
"""

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is the command's, or 128 plus the signal that ended it."""
    hold = json.loads(arguments[0])
    _enter(hold["group"])
    _adopt_orphans()
    told = _Told()
    writable = (hold["landlock"] or {}).get("writable")
    answers = _beside("metadata").Answers(writable) if writable else None
    if (child := os.fork()) == 0:
        _become(arguments[1:], hold, answers)
    if answers:
        answers.begin()
    code = _wait_for(child, told)
    _end_all()
    return 143 if told.to_stop else code


class _Told:
    """Whether someone asked us to stop."""

    def __init__(self) -> None:
        self.to_stop = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)

    def _stop(self, _number: int, _frame: object) -> None:
        self.to_stop = True
        _end_all()


def _enter(group: str | None) -> None:
    """Go into a control group, with all that is started from now on, if we are let in."""
    if group is None:
        return
    with contextlib.suppress(OSError):
        Path(group, "cgroup.procs").write_text("0", "utf-8")


def _adopt_orphans() -> None:
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent = os.getppid()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to be told
        os._exit(143)


def _become(command: list[str], hold: dict[str, Any], answers: Any) -> None:
    """Turn this process into the command, in a session of its own and with default signals."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if hold["landlock"] is not None:
            _beside("landlock").apply(hold["landlock"])
        if answers:
            sockets = bool(hold["landlock"]["network"])
            answers.hear(_beside("seccomp").apply(sockets=sockets))
        if hold["filter"] is not None:
            _beside("seccomp").offer(hold["filter"], local=hold["local"])
        os.execvp(command[0], command)
    except BaseException as error:
        os.write(2, f"{command[0]}: {error}\n".encode("utf-8", "replace"))
    os._exit(127)


def _beside(name: str) -> Any:
    """A module whose file lies next to this one."""
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module(name)


def _wait_for(child: int, told: _Told) -> int:
    """Reap whatever ends until the command itself has."""
    while True:
        try:
            ended, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return 143 if told.to_stop else 127
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_all() -> None:
    """Stop every descendant, then kill it; a fork bomb is frozen before it is shot."""
    known: set[int] = set()
    try:
        while fresh := _descendants() - known:
            _send(fresh, signal.SIGSTOP)
            known |= fresh
        _send(_descendants() | known, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
            _send(_descendants(), signal.SIGKILL)
    except ChildProcessError:
        return
    except BaseException:  # something took our eyes: whoever started us must know that
        _send(known, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def _descendants() -> set[int]:
    """Every process below this one; those of a dead parent have been adopted by us."""
    children: dict[int, list[int]] = {}
    for process, parent in _processes():
        children.setdefault(parent, []).append(process)
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        below = [process for process in children.get(todo.pop(), []) if process not in found]
        found.update(below)
        todo += below
    return found


def _processes() -> Iterator[tuple[int, int]]:
    """Each process with its parent."""
    if not sys.platform.startswith("linux"):
        for line in os.popen("ps -axo pid=,ppid=").read().splitlines():
            process, parent = line.split()
            yield int(process), int(parent)
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            yield int(entry.name), int(stat.rpartition(b")")[2].split()[1])


def _send(processes: set[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
