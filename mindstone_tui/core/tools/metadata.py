"""Changes permissions, owners and times for a confined command, where it may write.

Landlock has no right for these, so the filter of `seccomp.py` turns each such call into a question
to the supervisor, and nothing but this answers: it opens what is meant without reading it, looks
where that really lies, and changes just that. What the command does meanwhile to the path, or to
the memory that holds it, changes nothing: what was opened is what was looked at, and Landlock lets
nothing be moved or linked into the workspace from elsewhere. Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import threading
from pathlib import Path

if __package__:
    from mindstone_tui.core.tools import landlock, seccomp
else:  # the supervisor runs as a file, and these lie beside it
    import landlock  # type: ignore[import-not-found,no-redef]
    import seccomp  # type: ignore[import-not-found,no-redef]

Call = tuple[str, int, int, int, int]
_CALLS: dict[str, Call] = seccomp.CALLS[platform.machine()][0].asked
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_QUESTION, _ANSWER = struct.Struct("QIIiIQ6Q"), struct.Struct("QqiI")
_HERE, _NO_LINK, _EMPTY, _NEVER = -100, 0x100, 0x1000, -2
_LIBC = ctypes.CDLL(None, use_errno=True)
_NOBODY = 0xFFFFFFFF
"""Leaves an owner or a group as it is."""


class Answers:
    """What the supervisor says to the questions of one command."""

    def __init__(self, writable: list[str]) -> None:
        self._roots = set(map(Path, writable))
        self._ours, self._theirs = socket.socketpair()

    def hear(self, listener: int) -> None:
        """Called by the command before it is one: hand over where its questions come out."""
        socket.send_fds(self._theirs, [b"?"], [listener])

    def begin(self) -> None:
        """Called by the supervisor: answer in a thread of its own, until nobody can ask."""
        self._theirs.close()
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        landlock.drop_capabilities()  # no more rights than the command has
        for listener in socket.recv_fds(self._ours, 1, 1)[1]:
            waiting = select.poll()
            waiting.register(listener, select.POLLIN)
            while not any(event & select.POLLHUP for _, event in waiting.poll()):
                with contextlib.suppress(OSError):  # whoever asked is gone
                    self._one(listener)

    def _one(self, listener: int) -> None:
        told = bytearray(_QUESTION.size)
        fcntl.ioctl(listener, _RECEIVE, told)
        number, process, _, call, _, _, *arguments = _QUESTION.unpack(told)
        try:
            error = _changed(process, _CALLS[str(call)], arguments, self._roots)
        except (OSError, ValueError) as failed:
            error = getattr(failed, "errno", None) or errno.EINVAL
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -error, 0))


def _changed(process: int, call: Call, arguments: list[int], roots: set[Path]) -> int:
    """Do what was asked; says what is wrong with it, or 0."""
    verb, *_, at, _ = call
    fd = _opened(process, call, arguments)
    try:
        place, value = Path(f"/proc/self/fd/{fd}"), arguments[at]
        real = place.readlink()
        if roots.isdisjoint((real, *real.parents)):
            return errno.EPERM
        if verb == "chmod":
            place.chmod(value & 0o1777)
        elif verb == "chown":
            who = (each & _NOBODY for each in arguments[at : at + 2])
            os.chown(place, *(-1 if each == _NOBODY else each for each in who))
        else:
            times = _memory(process, value, 32).ljust(32, b"\0") if value else None
            if _LIBC.utimensat(_HERE, os.fsencode(place), times, 0):
                return ctypes.get_errno()
    finally:
        os.close(fd)
    return 0


def _opened(process: int, call: Call, arguments: list[int]) -> int:
    """What a call means, opened without reading it."""
    _, folder_at, path_at, _, flags_at = call
    folder = ctypes.c_int(arguments[folder_at]).value if folder_at >= 0 else _HERE
    flags = arguments[flags_at] if flags_at >= 0 else _NO_LINK if flags_at == _NEVER else 0
    start = f"/proc/{process}/cwd" if folder == _HERE else f"/proc/{process}/fd/{folder}"
    base = os.open(start, os.O_PATH | os.O_CLOEXEC)
    pointer = arguments[path_at] if path_at >= 0 else 0
    path = _memory(process, pointer, 4096).partition(b"\0")[0] if pointer else b""
    if not path and (folder != _HERE if not pointer else flags & _EMPTY):
        return base
    own = b"/proc/%d/" % process
    path = path.replace(b"/proc/self/", own, 1).replace(b"/dev/fd/", own + b"fd/", 1)
    try:
        links = os.O_NOFOLLOW if flags & _NO_LINK else 0
        return os.open(path, os.O_PATH | os.O_CLOEXEC | links, dir_fd=base)
    finally:
        os.close(base)


def _memory(process: int, at: int, size: int) -> bytes:
    fd = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, at)
    finally:
        os.close(fd)
