"""The files below a folder, for `@` completion: names only, bounded, without the usual clutter.

A name that could not be shown as it is is left out: taken into the prompt, it would be another.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mindstone_tui.core.text import for_terminal

MOST_FILES: Final = 20_000
CLUTTER: Final = frozenset(
    {"node_modules", "__pycache__", "target", "dist", "build", "venv", "site-packages"}
)


def names_below(folder: Path, most: int = MOST_FILES) -> list[str]:
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
                (entry for entry in entries if _offered(entry.name)),
                key=lambda entry: entry.name,
            )
    except OSError:
        return []


def _offered(name: str) -> bool:
    usual = not name.startswith(".") and name not in CLUTTER
    return usual and "\n" not in name and for_terminal(name) == name
