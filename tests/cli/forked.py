"""`mindstone` without the wait for its imports: a fork of a process that has everything loaded.

What comes of it is a program like any other, with a process, an environment, a folder, streams and
a terminal of its own, to be written to, waited for and killed. Only its imports were done before it
began, which is most of what a short command takes; who tests how a program begins starts one anew.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import io
import json
import os
import pkgutil
import runpy
import select
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, AnyStr

ROOT = Path(__file__).parents[2]
LARGEST = 1 << 17
"""Bytes of what is asked for: arguments and environment."""
LOADED = ("cli", "core.features", "core.session", "servers", "tui.screens")
"""Packages of which every module is imported ahead, and all that these import."""
STRANGE = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
"""What these variables change is over when everything is loaded."""


class Forked(subprocess.Popen[AnyStr]):
    """A `mindstone` with these arguments, to be used as any `Popen`."""

    _ended: int
    """Where its number is read, and what it ended with."""

    def _execute_child(self, args: Any, *given: Any) -> None:
        cwd, env, streams, leads = given[4], given[5], given[9:15], given[20]
        own: tuple[int, int, int] = (streams[0], streams[3], streams[5])
        request = {
            "arguments": list(args),
            "folder": os.fspath(cwd or Path.cwd()),
            "environ": dict(os.environ if env is None else env),
            "leads": bool(leads),
        }
        fds: list[int] = [number if fd == -1 else fd for number, fd in enumerate(own)]
        self._ended, told = os.pipe()
        socket.send_fds(_loaded(), [json.dumps(request).encode()], [*fds, told])
        os.close(told)
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]
        self.pid = self._told()
        self._child_created = True

    def _told(self) -> int:
        return int(struct.unpack("i", os.read(self._ended, 4))[0])

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags and not select.select([self._ended], [], [], 0)[0]:
            return 0, 0
        status = self._told()
        os.close(self._ended)
        return self.pid, status

    def _internal_poll(self, **_: Any) -> int | None:
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if lock.acquire(False):
            try:
                if self.returncode is None and (found := self._try_wait(os.WNOHANG))[0]:
                    self._handle_exitstatus(found[1])  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


def begin(*arguments: str, env: Mapping[str, str], **more: Any) -> subprocess.Popen[Any]:
    """Start `mindstone`; from a process that has everything loaded, where that makes no difference.

    It leads a session of its own on the terminal that it reads from, if it is to lead one.
    """
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    names = {name for name in (*env, *here) if name.startswith(STRANGE)}
    if sys.platform == "linux" and all(env.get(name) == here.get(name) for name in names):
        return Forked(arguments, env=env, **more)
    command = [sys.executable, "-m", "mindstone_tui", *arguments]
    own = more.get("start_new_session", False)
    return subprocess.Popen(command, env=env, preexec_fn=_take_terminal if own else None, **more)


def _take_terminal() -> None:
    with contextlib.suppress(OSError):  # it reads from something else
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@cache
def _loaded() -> socket.socket:
    """The line to a process that waits with everything loaded, for as long as this one lives."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    loaded = subprocess.Popen(
        [sys.executable, "-m", __name__, str(its.fileno())],
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    its.close()

    def end() -> None:
        ours.close()
        loaded.wait()

    atexit.register(end)
    return ours


def wait_for_requests(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return in a child of its own for each request, which is to become that program."""
    while True:
        asked, fds, _, _ = socket.recv_fds(line, LARGEST, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not asked:
            os._exit(0)
        if os.fork() == 0:
            line.close()
            *streams, told = fds
            if (child := os.fork()) == 0:
                os.close(told)
                return json.loads(asked), streams
            for fd in (0, 1, 2, *streams):
                os.close(fd)
            os.write(told, struct.pack("i", child))
            os.write(told, struct.pack("i", os.waitpid(child, 0)[1]))
            os._exit(0)
        for fd in fds:
            os.close(fd)


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Make this process look as if it had just been started."""
    if request["leads"]:
        os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, 64)
    if request["leads"]:
        _take_terminal()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["folder"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        stream = io.TextIOWrapper(
            open(number, "wb" if number else "rb"),  # noqa: PTH123, SIM115
            before.encoding,
            before.errors,
            line_buffering=number == 2 or os.isatty(number),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def load() -> None:
    """Import what commands import."""
    for package in LOADED:
        found = import_module(f"mindstone_tui.{package}")
        for module in pkgutil.iter_modules(found.__path__, f"{found.__name__}."):
            import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    become(*wait_for_requests(socket.socket(fileno=int(sys.argv[1]))))
    runpy.run_module("mindstone_tui", run_name="__main__", alter_sys=True)
