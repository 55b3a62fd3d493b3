"""Files that other programs obey: a shell that enters the folder, git, an editor, a build server.

Writing one is asked about under every mode. `steers` says so of a path. A program that ran without
anyone looking can plant such a file without naming it, so `ControlFiles` looks before and after:
what came up in between is taken back, and the model is told to propose it with `write`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import shutil
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.patterns import pattern_of

__all__ = ["PROTECTED", "ControlFiles", "changes_scripts", "plain_name", "steers"]

PROTECTED: Final = frozenset({".git", ".mindstone", ".hg", ".svn", ".ssh", ".gnupg"})
"""Folders that no tool writes to."""

_ROWS: Final = [
    (line.startswith("!"), line.lstrip("!").partition("\t")[0].split())
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
_NAMES: Final = frozenset(name for inert, names in _ROWS if not inert for name in names)
_PATTERNS: Final = pattern_of("|".join(fnmatch.translate(each) for each in _NAMES if "*" in each))
_INERT: Final = frozenset(name for inert, names in _ROWS if inert for name in names)
_DEPENDENCIES: Final = frozenset(
    {"node_modules", ".venv", "venv", "__pycache__", "site-packages", "target", ".tox", ".nox"}
)
"""Folders full of other people's packages: their own settings come with them and steer nobody."""
_MOST_VISITED: Final = 200_000
_MOST_READ: Final = 1 << 20
_OBEYED_BY_GIT: Final = pattern_of(
    r"^\s*(?:fsmonitor|hookspath|sshcommand|pager|editor|askpass|gitproxy|program|textconv|command"
    r"|driver|clean|smudge|process|helper|uploadpack|receivepack|vcs|path|excludesfile|worktree"
    r"|attributesfile|templatedir|cmd|sequence\.editor|insteadof)\s*=|^\s*\[\s*alias\b",
    re.IGNORECASE | re.MULTILINE,
)


def plain_name(name: str) -> str:
    """A name as a lenient file system might compare it."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in folded if unicodedata.category(sign) != "Cf").rstrip(". ")


def steers(parts: tuple[str, ...]) -> bool:
    """Whether another program would obey what is written to this path, without being asked."""
    names = [plain_name(part) for part in parts]
    known = any(_is_control(name, above) for above, name in zip(["", *names], names, strict=False))
    return known or _in_bare_repository(names)


def _is_control(name: str, above: str) -> bool:
    if name in _NAMES or f"{above}/{name}" in _NAMES:
        return True
    return bool(_PATTERNS.match(name)) and name not in _INERT


def _in_bare_repository(names: list[str]) -> bool:
    """Hooks lie in a folder of that name, whatever their repository is called."""
    hooks = {"pre-commit", "post-commit", "post-checkout", "post-merge", "pre-push", "commit-msg"}
    inside_git = any(name.endswith(".git") for name in names[:-1])
    return inside_git or (len(names) > 1 and names[-2] == "hooks" and names[-1] in hooks)


def changes_scripts(name: str, before: bytes | None, after: bytes) -> bool:
    """Whether a change of `package.json` adds or changes a command that npm would run."""
    if plain_name(name) != "package.json":
        return False
    return _scripts(after) not in ({}, _scripts(before or b"{}"))


def _scripts(data: bytes) -> dict[str, object] | None:
    """The commands in a `package.json`; None when it cannot be read."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return None
    found = told.get("scripts") if isinstance(told, dict) else None
    return found if isinstance(found, dict) else {}


class _Seen(msgspec.Struct, frozen=True):
    """A file as it was: the same means that nobody changed it."""

    inode: int
    size: int
    changed: int
    """Nanoseconds; the system sets it whatever a program claims."""
    mode: int = 0o644
    scripts: str = ""
    """What `package.json` runs, as JSON."""
    content: bytes | None = None
    """To put it back; None when there is too much of it."""


class ControlFiles:
    """The control files below some folders, as they were at one moment."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self._roots = roots
        self._before = dict(_found(roots))

    def take_back(self) -> tuple[str, ...]:
        """Undo what came up or changed since; says what it was, by path."""
        undone: list[str] = []
        for path, seen in list(_found(self._roots)):
            if (before := self._before.get(path)) == seen:
                continue
            if path.name == "package.json":
                if seen.scripts != (before.scripts if before else "{}"):
                    _put_scripts_back(path, before.scripts if before else "{}")
                    undone.append(f"the scripts in {self._short(path)}")
            elif before is None or before.content != seen.content or seen.content is None:
                _put_back(path, before)
                undone.append(self._short(path))
        return tuple(undone)

    def _short(self, path: Path) -> str:
        for root in self._roots:
            if root in path.parents:
                return str(path.relative_to(root))
        return str(path)


def _put_back(path: Path, before: _Seen | None) -> None:
    """A file as it was; what was not there goes away, what was too large to keep stays."""
    if before is not None and before.content is None:
        return
    _remove(path)
    if before is not None and before.content is not None:
        with contextlib.suppress(OSError):
            path.write_bytes(before.content)
            path.chmod(before.mode)


def _found(roots: tuple[Path, ...]) -> Iterator[tuple[Path, _Seen]]:
    """Every control file below the roots, and every repository's setting or hook that acts."""
    visited = 0
    for root in roots:
        todo = [(root, False)]
        while todo and visited < _MOST_VISITED:
            folder, foreign = todo.pop()
            names = _entries(folder)
            visited += len(names)
            if _is_repository(names):
                yield from _acting(folder)
                continue
            for entry in names:
                yield from _judged(entry, foreign)
                if entry.is_dir(follow_symlinks=False) and not _holds_control(entry, foreign):
                    todo.append((Path(entry.path), foreign or entry.name in _DEPENDENCIES))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _holds_control(entry: os.DirEntry[str], foreign: bool) -> bool:
    """A folder that is itself a control file is judged as one, with all that is in it."""
    name, above = plain_name(entry.name), plain_name(Path(entry.path).parent.name)
    return not foreign and _is_control(name, above) and name not in PROTECTED


def _judged(entry: os.DirEntry[str], foreign: bool) -> Iterator[tuple[Path, _Seen]]:
    path = Path(entry.path)
    name = plain_name(entry.name)
    if foreign or name in PROTECTED - {".ssh", ".gnupg"}:
        return
    if name == "package.json" and entry.is_file(follow_symlinks=False):
        yield path, _seen(path, scripts=_scripts_text(path))
    elif _is_control(name, plain_name(path.parent.name)):
        if entry.is_dir(follow_symlinks=False):
            for folder, _, files in os.walk(path):
                yield from ((Path(folder, each), _seen(Path(folder, each))) for each in files)
        else:
            yield path, _seen(path)


def _is_repository(names: list[os.DirEntry[str]]) -> bool:
    """A folder that git takes for a repository, whatever it is called."""
    found = {entry.name for entry in names}
    return found >= {"objects", "refs"} or found >= {"HEAD", "commondir"}


def _acting(repository: Path) -> Iterator[tuple[Path, _Seen]]:
    """What git would run for whoever enters this repository."""
    for name in ("config", "config.worktree"):
        settings = repository / name
        if _OBEYED_BY_GIT.search(_text_of(settings)):
            yield settings, _seen(settings)
    for hook in _entries(repository / "hooks"):
        if not hook.name.endswith(".sample"):
            yield Path(hook.path), _seen(Path(hook.path))
    for module in _entries(repository / "modules"):
        yield from _acting(Path(module.path))


def _seen(path: Path, scripts: str = "") -> _Seen:
    try:
        info = path.lstat()
    except OSError:
        return _Seen(0, 0, 0, scripts=scripts)
    return _Seen(
        info.st_ino,
        info.st_size,
        info.st_ctime_ns,
        mode=stat.S_IMODE(info.st_mode),
        scripts=scripts,
        content=_bytes_of(path),
    )


def _bytes_of(path: Path) -> bytes | None:
    """What a small regular file holds; None for anything else."""
    try:
        info = path.lstat()
        if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST_READ:
            return path.read_bytes()
    except OSError:
        return None
    return None


def _text_of(path: Path) -> str:
    return (_bytes_of(path) or b"").decode("utf-8", "replace")


def _scripts_text(path: Path) -> str:
    return json.dumps(_scripts(_text_of(path).encode()), sort_keys=True)


def _put_scripts_back(path: Path, scripts: str) -> None:
    """The commands that were there before; the rest of the file stays as the program left it."""
    earlier = json.loads(scripts)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        told = json.loads(path.read_bytes())
        if isinstance(told, dict):
            told["scripts"] = earlier or {}
            fresh = path.with_name(f".package.json.{os.getpid()}")
            fresh.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", "utf-8")
            fresh.replace(path)
            return
    _remove(path)


def _remove(path: Path) -> None:
    """Take a file away, without following it anywhere."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
