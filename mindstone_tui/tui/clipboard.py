"""Copying that arrives: through the terminal, also inside tmux and over SSH, and the system.

The terminal is asked with OSC 52. Inside tmux the request is repeated in a wrapper that tmux passes
on to the terminal outside. On a local desktop the system's own clipboard program is asked as well.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

_PROGRAMS: Final = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("WSL_DISTRO_NAME", ("clip.exe",)),
)


def sequences(text: str, environ: Mapping[str, str]) -> str:
    """What to write to the terminal so that it takes the text."""
    request = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"
    if not environ.get("TMUX"):
        return request
    return request + "\x1bPtmux;" + request.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def program(
    environ: Mapping[str, str], which: Callable[[str], str | None] = shutil.which
) -> tuple[str, ...]:
    """The system's clipboard program, if there is a desktop in front of it; else nothing."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return ()
    for variable, command in _PROGRAMS:
        if (not variable or environ.get(variable)) and which(command[0]):
            return command
    return ()


def hand_over(text: str, command: tuple[str, ...]) -> None:
    """Give the text to a clipboard program; one that fails is ignored, the terminal has it too."""
    try:
        subprocess.run(
            command,
            input=text.encode(),
            timeout=2,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
