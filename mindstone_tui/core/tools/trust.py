"""What a project may tell the agent: nothing, until its folder was trusted once.

`AGENTS.md`, `CLAUDE.md` and the Markdown files in `.mindstone` are instructions from whoever wrote
the repository. They are read as bytes, inside the workspace, and never executed; they cannot set an
endpoint, a key or a tool. Trust is given to their exact content: when a byte changes, it is asked
for again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core import disk
from mindstone_tui.core.bounded_json import read_as
from mindstone_tui.core.disk import read_regular
from mindstone_tui.core.errors import PlaceError, ToolError
from mindstone_tui.core.text import for_terminal
from mindstone_tui.core.tools.workspace import Workspace

State = Literal["none", "untrusted", "changed", "trusted"]
"""`none`: the project says nothing; `changed`: it was trusted, and says something else now."""

FILES: Final = ("AGENTS.md", "CLAUDE.md")
_FOLDER: Final = ".mindstone"
_MOST_READ: Final = 1024 * 1024
_MOST_FILES: Final = 32


class InstructionFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of instructions, and how much of it reaches the prompt."""

    path: str
    """Relative to the project."""
    raw_size: int
    """Bytes in the file."""
    text: str
    """What is injected once the folder is trusted; what is shown when trust is asked for."""

    @property
    def injected_size(self) -> int:
        """Bytes that reach the prompt."""
        return len(self.text.encode())


class ProjectInstructions(msgspec.Struct, frozen=True, kw_only=True):
    """What a project wants to say, and whether it may."""

    folder: Path
    state: State
    digest: str = ""
    files: tuple[InstructionFile, ...] = ()
    problems: tuple[str, ...] = ()
    """Files that are there and were not read, with the reason."""

    @property
    def in_force(self) -> tuple[InstructionFile, ...]:
        """The files whose text goes into the prompt."""
        return self.files if self.state == "trusted" else ()


def project_instructions(
    workspace: Workspace, trusted: str | None, *, limit: int = 32 * 1024
) -> ProjectInstructions:
    """Read a project's instructions; `trusted` is the digest its folder was trusted with."""
    hashed = hashlib.sha256()
    files: list[InstructionFile] = []
    problems: list[str] = []
    room = limit
    for name in _candidates(workspace):
        try:
            data = workspace.read_whole(name, _MOST_READ)
        except ToolError as error:
            problems.append(error.what)
            continue
        hashed.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        text = _cut(for_terminal(data.decode("utf-8", "replace")), room)
        room -= len(text.encode())
        files.append(InstructionFile(path=for_terminal(name), raw_size=len(data), text=text))
    if not files:
        return ProjectInstructions(folder=workspace.cwd, state="none", problems=tuple(problems))
    digest = hashed.hexdigest()
    return ProjectInstructions(
        folder=workspace.cwd,
        state=_state(digest, trusted),
        digest=digest,
        files=tuple(files),
        problems=tuple(problems),
    )


def _state(digest: str, trusted: str | None) -> State:
    if trusted is None:
        return "untrusted"
    return "trusted" if trusted == digest else "changed"


def _candidates(workspace: Workspace) -> list[str]:
    """The files that may hold instructions and are there, in a fixed order."""
    found = [name for name in FILES if os.path.lexists(workspace.cwd / name)]
    try:
        with workspace.reading(_FOLDER) as (_, fd):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                with os.scandir(fd) as entries:
                    names = sorted(entry.name for entry in entries if entry.name.endswith(".md"))
                found += [f"{_FOLDER}/{name}" for name in names[:_MOST_FILES]]
    except ToolError:
        return found
    return found


def _cut(text: str, room: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= room:
        return text
    kept = data[: max(room, 0)].decode("utf-8", "ignore")
    return f"{kept}\n[… cut here: {len(data) - len(kept.encode()):,} more bytes in the file]"


class TrustFile:
    """Which folders were trusted, with which content; a file of ours, outside every project."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def digest(self, folder: Path) -> str | None:
        """The content this folder was trusted with."""
        return self._read().get(str(folder.resolve()))

    def trust(self, folder: Path, digest: str) -> None:
        """Remember that this content of this folder may instruct the agent."""
        self._write({**self._read(), str(folder.resolve()): digest})

    def forget(self, folder: Path) -> None:
        """Trust it no longer."""
        kept = {
            place: each for place, each in self._read().items() if place != str(folder.resolve())
        }
        self._write(kept)

    def _read(self) -> dict[str, str]:
        try:
            return read_as(read_regular(self._path), dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise PlaceError(
                f"{self._path} cannot be read: {error}.",
                "Delete it; trust is then asked for again.",
            ) from None

    def _write(self, folders: dict[str, str]) -> None:
        disk.replace_file(self._path, msgspec.json.format(msgspec.json.encode(folders)) + b"\n")
