"""Whether the hook's own program is ours: it runs as you, whenever an attached program calls it.

It lies where nobody else can put another in its place, and it is what `attach` wrote, by its hash.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import Final

from mindstone_tui.core.disk import open_to_changes, read_regular, replace_file
from mindstone_tui.core.errors import InterchangeError

_LARGEST: Final = 1 << 20


def check_place(launcher: Path) -> None:
    """Refuse a place where somebody else could put another program; says what mends it."""
    if commands := open_to_changes(launcher):
        raise InterchangeError(
            f"Others can change what lies at {launcher}, and it would run as you.",
            f"Run: {'; '.join(commands)}",
        )


def check_content(launcher: Path) -> None:
    """Refuse a launcher that is not the one that was written; one that is missing is fine."""
    known = _written(launcher)
    if not known or not os.path.lexists(launcher):
        return
    try:
        digest = _hash_of(launcher)
    except OSError:
        digest = ""
    if digest != known:
        raise InterchangeError(
            f"{launcher} is not what `mindstone attach` wrote: somebody changed it.",
            f"Look at it, then remove it (rm {shlex.quote(str(launcher))}) and attach again.",
        )


def keep_hash(launcher: Path) -> None:
    """Remember what was just written there."""
    replace_file(_hash_file(launcher), f"{_hash_of(launcher)}\n".encode())


def forget_hash(launcher: Path) -> None:
    """The launcher is gone."""
    _hash_file(launcher).unlink(missing_ok=True)


def _hash_of(launcher: Path) -> str:
    return hashlib.sha256(read_regular(launcher, most=_LARGEST, follow=False)).hexdigest()


def _hash_file(launcher: Path) -> Path:
    return launcher.with_name(f"{launcher.name}.sha256")


def _written(launcher: Path) -> str:
    """The hash of what was written; empty where an older version wrote it and kept none."""
    try:
        return read_regular(_hash_file(launcher)).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
