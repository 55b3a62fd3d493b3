"""Keys stay in this program: what it starts may not look into its memory or its environment.

A command gets a clean environment, but it runs as the same user, and that user may read
`/proc/PID/environ` of every program that does not forbid it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def hide_own_memory() -> bool:
    """Forbid it, for as long as this process lives; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    return int(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0
