"""The world a task was left in, and what has changed in it since.

Nothing is run to find out: a repository that nobody trusted yet gets no chance to run anything.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core.bounded_json import read_arguments
from mindstone_tui.core.entries import Line, Part
from mindstone_tui.core.entries.conversation import AssistantMessage, ToolReturned

MOST_FILES: Final = 40
_HASHED: Final = 4 << 20
"""Files up to this size are compared by content, larger ones by size."""
_WRITERS: Final = frozenset({"write", "edit"})
_REF: Final = re.compile(r"ref: (refs/heads/[\w./+@-]{1,200})")
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")


class FileState(Part):
    """A file as it was; an empty digest means that it was not there."""

    path: str
    digest: str = ""
    size: int = 0


class Environment(Part):
    """Where work happens."""

    cwd: str = ""
    branch: str = ""
    commit: str = ""
    changes: tuple[str, ...] = ()
    """What version control called changed, where it was asked."""
    files: tuple[FileState, ...] = ()
    tools: tuple[str, ...] = ()
    python: str = ""
    system: str = ""


class Touched(Part):
    """A file that the conversation worked with."""

    path: str
    changed: bool
    turn: int


def observe(
    cwd: Path,
    files: Iterable[str] = (),
    *,
    tools: Iterable[str] = (),
    changes: Iterable[str] = (),
) -> Environment:
    """The environment now; `changes` is version control's word where it may be asked."""
    branch, commit = git_position(cwd)
    return Environment(
        cwd=str(cwd),
        branch=branch,
        commit=commit,
        changes=tuple(changes)[:MOST_FILES],
        files=tuple(file_state(cwd, path) for path in list(files)[-MOST_FILES:]),
        tools=tuple(sorted(tools)),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
    )


def file_state(cwd: Path, path: str) -> FileState:
    """One file's content as a digest; something that is no plain file counts as missing."""
    file = cwd / path
    try:
        size = file.stat().st_size
        if not file.is_file():
            return FileState(path=path)
        if size > _HASHED:
            return FileState(path=path, digest=f"size:{size}", size=size)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        return FileState(path=path, digest=digest, size=size)
    except OSError:
        return FileState(path=path)


def drift(then: Environment, now: Environment) -> tuple[str, ...]:
    """What is different from when the checkpoint was saved, a sentence each."""
    found: list[str] = []
    for label, was, is_ in (
        ("The working folder", then.cwd, now.cwd),
        ("The branch", then.branch, now.branch),
        ("The commit", then.commit[:12], now.commit[:12]),
        ("The system", then.system, now.system),
    ):
        if was and was != is_:
            found.append(f"{label} was {was} and is {is_ or 'gone'}.")
    after = {file.path: file for file in now.files}
    for file in then.files:
        state = after.get(file.path, FileState(path=file.path))
        if file.digest and not state.digest:
            found.append(f"{file.path} is gone.")
        elif state.digest and not file.digest:
            found.append(f"{file.path} is there now and was not.")
        elif file.digest != state.digest:
            found.append(f"{file.path} has changed.")
    gone = sorted(set(then.tools) - set(now.tools))
    if gone:
        found.append(f"These tools are no longer there: {', '.join(gone)}.")
    return tuple(found)


def git_position(cwd: Path) -> tuple[str, str]:
    """Branch and commit, read from the repository's own files; empty where there is none."""
    git = _git_folder(cwd)
    if git is None:
        return "", ""
    head = _small(git / "HEAD")
    if found := _REF.fullmatch(head):
        ref = found[1]
        common = git / (_small(git / "commondir") or ".")
        commit = _small(git / ref) or _small(common / ref) or _packed(common, ref)
        return ref.removeprefix("refs/heads/"), commit if _COMMIT.fullmatch(commit) else ""
    return "", head if _COMMIT.fullmatch(head) else ""


def _git_folder(cwd: Path) -> Path | None:
    for folder in (cwd, *list(cwd.parents)[:20]):
        git = folder / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            pointer = _small(git).removeprefix("gitdir: ")
            return folder / pointer if pointer else None
    return None


def _packed(git: Path, ref: str) -> str:
    for line in _small(git / "packed-refs", 1 << 20).splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _small(path: Path, limit: int = 4096) -> str:
    """The start of a small plain file; nothing when it cannot be had."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(fd, limit).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def files_touched(lines: Iterable[Line]) -> tuple[Touched, ...]:
    """Files that tools read or changed with success, each once, in order of the last use."""
    asked: dict[str, Touched] = {}
    touched: dict[str, Touched] = {}
    for line in lines:
        entry = line.entry
        if isinstance(entry, AssistantMessage):
            for call in entry.calls:
                if path := _path_in(call.arguments):
                    changed = call.name in _WRITERS
                    asked[call.id] = Touched(path=path, changed=changed, turn=line.turn)
        elif isinstance(entry, ToolReturned) and entry.status == "ok" and entry.call in asked:
            file = asked.pop(entry.call)
            before = touched.pop(file.path, None)
            changed = file.changed or (before is not None and before.changed)
            touched[file.path] = msgspec.structs.replace(file, changed=changed)
    return tuple(touched.values())


def _path_in(arguments: str) -> str:
    fields = read_arguments(arguments) or {}
    path = fields.get("path") or fields.get("file_path")
    return path if isinstance(path, str) and len(path) < 1_000 and "\n" not in path else ""
