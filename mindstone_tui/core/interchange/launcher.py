"""The hook's own program: a file that other programs call, and that nobody else may change.

It runs as you, whenever an attached program calls it. It lies where nobody else can put another in
its place, and it is what `attach` wrote, by its hash. It works when everything else is gone.
"""

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindstone_tui.core import disk, errors, paths
from mindstone_tui.core.rules.book import RULES

LAUNCHER: Final = "mindstone-hook"
_LARGEST: Final = 1 << 20
_HOOK: Final = (
    "import sys; sys.path.append(sys.argv[1]); from mindstone_tui.hook import main; "
    "sys.exit(main(sys.argv[2:]))"
)


def launcher_in(places: paths.Places) -> Path | None:
    """Where the program lies that is nothing but our hook; None where it would not run."""
    folder = next(each for each in (places.state, *places.state.parents) if each.exists())
    runs = not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    return places.state / LAUNCHER if runs else None


def marker_in(places: paths.Places) -> Path:
    """Is there as long as memory may speak before a tool; without it, the launcher is silent."""
    return places.state / "at-action"


def write_launcher(
    path: Path, words: Sequence[str], python: str, package: Path, data: Path
) -> None:
    """Write the hook's own program where another program can run it.

    It skips Python's search for packages and knows where ours is; where that has moved, it starts
    `mindstone`, by the words given, after all. It loads nothing before a tool where no
    rule lies in `data` and memory may not speak.
    """
    values = {
        "python": shlex.quote(python),
        "package": shlex.quote(str(package)),
        "program": shlex.quote(words[0]),
        "perl": shlex.quote(shutil.which("perl", path=os.defpath) or ""),
        "words": shlex.join(words),
        "rules": shlex.quote(str(data / RULES)),
        "hook": shlex.quote(_HOOK),
    }
    text = Path(__file__).with_name("hook.sh").read_text()
    disk.replace_file(path, re.sub(r"@(\w+)@", lambda found: values[found[1]], text).encode())
    path.chmod(0o700)
    disk.replace_file(_hash_file(path), f"{_hash_of(path)}\n".encode())


def remove_launcher(places: paths.Places) -> None:
    """No program is attached any more."""
    for path in (places.state / LAUNCHER, _hash_file(places.state / LAUNCHER), marker_in(places)):
        path.unlink(missing_ok=True)


def check_place(launcher: Path) -> None:
    """Refuse a place where somebody else could put another program; says what mends it."""
    if commands := disk.open_to_changes(launcher):
        raise errors.InterchangeError(
            f"Others can change what lies at {launcher}, and it would run as you.",
            f"Run: {'; '.join(commands)}",
        )


def check_content(launcher: Path) -> None:
    """Refuse a launcher that is not the one that was written; one that is missing is fine."""
    if not (known := _written(launcher)) or not os.path.lexists(launcher):
        return
    try:
        digest = _hash_of(launcher)
    except OSError:
        digest = ""
    if digest != known:
        raise errors.InterchangeError(
            f"{launcher} is not what `mindstone attach` wrote: somebody changed it.",
            f"Look at it, then remove it (rm {shlex.quote(str(launcher))}) and attach again.",
        )


def _hash_of(launcher: Path) -> str:
    return hashlib.sha256(disk.read_regular(launcher, most=_LARGEST, follow=False)).hexdigest()


def _hash_file(launcher: Path) -> Path:
    return launcher.with_name(f"{launcher.name}.sha256")


def _written(launcher: Path) -> str:
    """The hash of what was written; empty where an older version wrote it and kept none."""
    try:
        return disk.read_regular(_hash_file(launcher)).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
