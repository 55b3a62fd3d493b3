"""The files below a folder, for `@` completion: names only, bounded, without the usual clutter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MOST: Final = 20_000
CLUTTER: Final = frozenset(
    {"node_modules", "__pycache__", "target", "dist", "build", "venv", "site-packages"}
)


def names_below(folder: Path, most: int = MOST) -> list[str]:
    """Relative names, folders before what is in them, shallow before deep."""
    found: list[str] = []
    level = [""]
    while level and len(found) < most:
        deeper: list[str] = []
        for below in level:
            for entry in _entries(folder / below):
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(f"{name}/")
                    found.append(f"{name}/")
                else:
                    found.append(name)
                if len(found) >= most:
                    return found
        level = deeper
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (e for e in entries if not e.name.startswith(".") and e.name not in CLUTTER),
                key=lambda entry: entry.name,
            )
    except OSError:
        return []
