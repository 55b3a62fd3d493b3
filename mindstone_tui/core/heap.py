"""Memory that is freed goes back to the machine.

The C library keeps a heap for every thread, and once a large buffer was freed it takes the next
ones from those heaps, too. A process that talks for weeks then holds, for each of its threads, the
most that was ever needed at once.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""The numbers of glibc's malloc.h."""
_LARGE: Final = 128 * 1024
"""Bytes; what is larger is a mapping of its own. glibc begins with this, and raises it."""


@cache
def return_freed_memory() -> bool:
    """Share two heaps among all threads and keep them short; whether that was possible here."""
    if sys.platform != "linux":
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:  # musl has no such heaps
        return False
    wanted = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE))
    return all(set_option(option, value) for option, value in wanted)
