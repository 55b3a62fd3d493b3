"""How much memory this machine can still give to a model.

What a container may use counts, not what its machine has.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/meminfo")
_GROUP: Final = Path("/sys/fs/cgroup")
_USABLE: Final = 0.5
"""Share of a machine's memory that is counted as free where the system does not say."""


def free_memory(meminfo: Path = _PROC, group: Path = _GROUP) -> int:
    """Bytes that can be taken without pushing anything else out."""
    free = _available(meminfo)
    left = _left_in(group)
    return free if left is None else min(free, left)


def _available(meminfo: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text("ascii", "replace").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _USABLE)


def _left_in(group: Path) -> int | None:
    """What the limits of a container leave; None without any. Cached files can be given up."""
    try:
        most = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return most - used + int(facts.get("inactive_file", 0))
    except (OSError, ValueError):
        return None
