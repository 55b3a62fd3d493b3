"""Leaving the screen for a while: an external editor, or plain text in the terminal itself."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from textual.app import App, SuspendNotSupported

from mindstone_tui.core.errors import MindstoneError, UsageError
from mindstone_tui.core.foreign import for_terminal


def editor_command(setting: str, environ: Mapping[str, str]) -> list[str]:
    """The editor to start: the setting, $VISUAL, $EDITOR, or what every system has."""
    chosen = setting or environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    return shlex.split(chosen)


def edit(app: App[int], text: str, command: list[str]) -> str:
    """Let a person change a text in an editor; what it leaves in the file comes back."""
    handle, name = tempfile.mkstemp(prefix="mindstone-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        with app.suspend():
            subprocess.run([*command, name], check=False)
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except (OSError, SuspendNotSupported) as error:
        raise UsageError(
            f"The editor `{shlex.join(command)}` could not be started ({error}).",
            "Set tui.editor in config.toml, or $EDITOR.",
        ) from error
    finally:
        path.unlink(missing_ok=True)


def show_plain(app: App[int], text: str) -> None:
    """Print a text below the prompt of the shell and wait for Enter."""
    try:
        with app.suspend():
            print(for_terminal(text))
            input("\n— Enter returns to MindStone — ")
    except (EOFError, SuspendNotSupported) as error:
        raise MindstoneError("This terminal cannot show plain scrollback.") from error
