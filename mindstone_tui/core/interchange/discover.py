"""Where other programs keep their sessions on this machine, and what lies there now.

Only names, sizes and dates are looked at; no file is opened and nothing is written.
"""

import fnmatch
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.disk import read_stored
from mindstone_tui.core.language.lists import lists_in

_FOREIGN: Final = frozenset({".git", "node_modules"})
_DEEPEST: Final = 12
"""Folders within folders that are looked into."""


class SessionFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder in which a program keeps sessions, and how their files are called there."""

    program: str
    """As `--from` names its format."""
    folder: Path
    patterns: tuple[str, ...]
    """Paths below the folder; `*` stands for one step of the way, `**` for any number."""


class SessionFile(msgspec.Struct, frozen=True):
    """One file, as it was when it was looked at."""

    path: Path
    size: int
    changed: float
    """Seconds since 1970."""
    inode: int = 0


class ProgramFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What one program keeps in one folder."""

    program: str
    folder: Path
    files: tuple[SessionFile, ...]
    """The one changed last first."""

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(each.size for each in self.files)

    @property
    def newest(self) -> float:
        """When the one changed last was, in seconds since 1970."""
        return max((each.changed for each in self.files), default=0.0)


_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae", "Kiro")
"""Editors whose extensions keep sessions."""


@cache
def _listed() -> list[list[str]]:
    """The rows of `folders.txt`."""
    return [row.split() for row in lists_in(Path(__file__).with_name("folders.txt"))["folders"]]


def session_folders(environ: Mapping[str, str], project: Path | None = None) -> list[SessionFolder]:
    """Every folder that a known program uses here, whether it is there or not.

    Some programs keep sessions in the folder they were started in: those of `project` are named.
    """
    home = Path(environ.get("HOME") or Path.home())
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    editors = _editor_data(home, environ)
    bases: dict[str, list[Path]] = {
        "home": [home],
        "data": [data],
        "claude": [Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")],
        "codex": [Path(environ.get("CODEX_HOME") or home / ".codex")],
        "editors": editors,
        "editor": [base / editor for base in editors for editor in _EDITORS],
        "project": [] if project is None else [project],
    }
    found: list[SessionFolder] = []
    for program, place, *patterns in _listed():
        start, _, way = place.partition("/")
        found += [
            SessionFolder(program=program, folder=base / way, patterns=tuple(patterns))
            for base in bases[start]
        ]
    return found


def keeps_its_own(environ: Mapping[str, str], program: str, file: Path) -> bool:
    """Whether a file lies where a program keeps its own sessions on this machine.

    What lies in a project may have come with it, so a project's own folders do not count.
    """
    if "\0" in str(file):  # as somebody wrote it into a session; no file is called so
        return False
    real = Path(os.path.realpath(file))  # which takes links in a circle for what they are
    return any(
        each.program == program and real.is_relative_to(each.folder.resolve())
        for each in session_folders(environ)
    )


def find_programs(environ: Mapping[str, str], project: Path | None = None) -> list[ProgramFiles]:
    """What the programs on this machine have kept, the one used last first."""
    found = [
        ProgramFiles(program=each.program, folder=each.folder, files=tuple(files))
        for each in session_folders(environ, project)
        if (files := list_files(each))
    ]
    return sorted(found, key=lambda each: -each.newest)


CLEANED_AFTER: Final = 30
"""Days after which Claude Code removes a transcript unless its settings say otherwise."""


def days_kept(environ: Mapping[str, str], program: str) -> int:
    """How many days a program keeps its own sessions before it deletes them; 0 for always."""
    if program != "claude-code":
        return 0
    claude = environ.get("CLAUDE_CONFIG_DIR") or Path(environ.get("HOME") or "~") / ".claude"
    told = read_stored(Path(claude) / "settings.json", _ClaudeSettings)
    return told.cleanup if told else CLEANED_AFTER


SOON: Final = 7
"""Days before a program deletes a session, from which on people are told."""


def going_soon(files: Iterable[SessionFile], days: int) -> int:
    """How many of these files their program deletes soon, which keeps them for so many days."""
    return sum(1 for file in files if days and file.changed < time.time() - (days - SOON) * 86_400)


class _ClaudeSettings(msgspec.Struct, rename={"cleanup": "cleanupPeriodDays"}):
    cleanup: int = CLEANED_AFTER


def list_files(place: SessionFolder) -> list[SessionFile]:
    """The session files of one folder, the one changed last first; none where it is not there.

    An empty file is a session that nobody said anything in.
    """
    found = [
        SessionFile(Path(path), about.st_size, about.st_mtime, about.st_ino)
        for path, about in _below(str(place.folder), place.patterns)
        if about.st_size
    ]
    return sorted(found, key=lambda each: (-each.changed, each.path))


def _below(root: str, patterns: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Files whose way from the root fits, with what the system says of them."""
    ways = [tuple(pattern.split("/")) for pattern in patterns]
    waiting: list[tuple[str, tuple[str, ...]]] = [(root, ())]
    while waiting:
        folder, way = waiting.pop()
        for name, path, about in _entries(folder):
            here = (*way, name)
            if stat.S_ISDIR(about.st_mode):
                leads = any(_leads(here, each) for each in ways)
                if leads and name not in _FOREIGN and len(here) < _DEEPEST:
                    waiting.append((path, here))
            elif stat.S_ISREG(about.st_mode) and any(_fits(here, each) for each in ways):
                yield path, about


def _entries(folder: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """What a folder holds; nothing where it cannot be read. A link is not followed further down."""
    try:
        children = os.scandir(folder)
    except OSError:
        return
    with children:
        for child in children:
            try:
                yield child.name, child.path, child.stat(follow_symlinks=False)
            except OSError:
                continue  # gone between the list and the look


def _fits(way: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a way is one that the pattern means."""
    if not pattern:
        return not way
    if pattern[0] == "**":
        return _fits(way, pattern[1:]) or (bool(way) and _fits(way[1:], pattern))
    return bool(way) and fnmatch.fnmatchcase(way[0], pattern[0]) and _fits(way[1:], pattern[1:])


def _leads(way: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether files that the pattern means can lie below a folder."""
    if not way:
        return True
    if not pattern[1:] and pattern[0] != "**":
        return False
    if pattern[0] == "**":
        return True
    return fnmatch.fnmatchcase(way[0], pattern[0]) and _leads(way[1:], pattern[1:])


def _editor_data(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Where editors keep what their extensions store."""
    if sys.platform == "darwin":
        return [home / "Library" / "Application Support"]
    server = home / ".vscode-server" / "data"
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    # An editor's server on this machine has the same folders one level higher.
    return [config, server.parent] if server.is_dir() else [config]
