"""Noticing that another surface wrote to the session, without spending anything while idle.

On Linux the kernel says so (inotify); elsewhere the file's size is looked at once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

_MODIFY: Final = 0x2
_MOVE_SELF: Final = 0x800
_DELETE_SELF: Final = 0x400
_FLAGS: Final = os.O_CLOEXEC | os.O_NONBLOCK
_POLL: Final = 1.0


async def changes(path: Path) -> AsyncIterator[None]:
    """One item whenever the file may have grown; several changes may come as one."""
    descriptor = _watch(path)
    if descriptor is None:
        async for _ in _polled(path):
            yield
        return
    loop = asyncio.get_running_loop()
    grown = asyncio.Event()

    def drain() -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(descriptor, 4096):
                pass
        grown.set()

    loop.add_reader(descriptor, drain)
    try:
        while True:
            await grown.wait()
            grown.clear()
            yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _watch(path: Path) -> int | None:
    """An inotify descriptor for the file, or None where there is no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(_FLAGS)
    if descriptor < 0:
        return None
    mask = _MODIFY | _MOVE_SELF | _DELETE_SELF
    if libc.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0:
        os.close(descriptor)
        return None
    return descriptor


async def _polled(path: Path) -> AsyncIterator[None]:
    size = -1
    while True:
        now = _size_of(path)
        if now != size:
            size = now
            yield
        await asyncio.sleep(_POLL)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
