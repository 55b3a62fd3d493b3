"""The world a task was left in, and what has changed in it since.

A repository that nobody trusted yet gets no chance to run anything: only in a trusted folder is git
asked what changed, and are the services of this machine that the work used knocked at.
"""

import hashlib
import os
import platform
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mindstone_tui.core import disk, paths
from mindstone_tui.core.entries import Line, Part, actions, provenance, standings
from mindstone_tui.core.entries.store import FilesChanged
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.tools.control_files import git_says

MOST_FILES: Final = 40
_HASHED: Final = 4 << 20
"""Files up to this size are compared by content, larger ones by size."""
FOLDER: Final = "folder"
"""Stands for the digest of a folder."""
_GIT: Final = (
    *("--no-optional-locks", "-c", "core.hooksPath=/dev/null"),
    *("status", "--porcelain=v1", "--untracked-files=normal", "--ignore-submodules=dirty"),
)
_FILTERS: Final = r"^filter\..*\.(clean|process|required)$"
"""Settings by which a repository has a program read its files; trust was given to no settings."""
_ANSWERS_WITHIN: Final = 0.3
_MOST_SERVICES: Final = 8
_PORT: Final = pattern_of(
    r"(?:\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]):|--port[ =]|\bPORT="
    r"|(?<=\s)-p (?=\d{4,5}\b))(\d{2,5})\b"
)
_REF: Final = pattern_of(r"ref: (refs/heads/[\w./+@-]{1,200})")
_COMMIT: Final = pattern_of(r"[0-9a-f]{40,64}")


class FileState(Part):
    """A file as it was; an empty digest means that it was not there."""

    path: str
    digest: str = ""
    size: int = 0

    def words(self) -> str:
        """How it is on disk."""
        if self.digest == FOLDER:
            return "a folder"
        return f"{self.size:,} bytes on disk" if self.digest else "not on disk"


class Service(Part):
    """A server on this machine that the work used."""

    port: int
    answers: bool


class Environment(Part):
    """Where work happens."""

    cwd: str = ""
    branch: str = ""
    commit: str = ""
    changes: tuple[str, ...] = ()
    """What version control called changed, where it was asked."""
    files: tuple[FileState, ...] = ()
    services: tuple[Service, ...] = ()
    """Servers on this machine that commands spoke to; asked only in folders that are trusted."""
    tools: tuple[str, ...] = ()
    python: str = ""
    system: str = ""


class Touched(Part):
    """A file that the conversation worked with."""

    path: str
    changed: bool
    turn: int
    imported: bool = False
    """Another program did it."""
    undone: bool = False
    """A person took it back."""
    unsure: bool = False
    """A call that was cut short changed it, or somebody since."""


def observe(
    cwd: Path,
    files: Iterable[str] = (),
    *,
    tools: Iterable[str] = (),
    changes: Iterable[str] = (),
    services: Iterable[Service] = (),
) -> Environment:
    """The environment now; what had to be asked for is given, where it may be asked."""
    branch, commit = git_position(cwd)
    return Environment(
        cwd=str(cwd),
        branch=branch,
        commit=commit,
        changes=tuple(changes)[:MOST_FILES],
        services=tuple(services),
        files=tuple(file_state(cwd, path) for path in list(files)[-MOST_FILES:]),
        tools=tuple(sorted(tools)),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
    )


def file_state(cwd: Path, path: str) -> FileState:
    """One file's content as a digest; what is neither file nor folder counts as missing."""
    file = cwd / path
    try:
        size = file.stat().st_size
        if file.is_dir():
            return FileState(path=path, digest=FOLDER)
        if not file.is_file():
            return FileState(path=path)
        if size > _HASHED:
            return FileState(path=path, digest=f"size:{size}", size=size)
        digest = hashlib.sha256(disk.read_regular(file, most=_HASHED)).hexdigest()[:16]
        return FileState(path=path, digest=digest, size=size)
    except (OSError, ValueError):  # such a name may be of no file, or of one that waits
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
    if set(then.changes) != set(now.changes) and (now.changes or not now.branch):
        found.append(f"{len(now.changes)} files are changed in git, {len(then.changes)} were.")
    answering = {one.port for one in now.services if one.answers}
    for service in then.services:
        if service.answers and service.port not in answering and now.services:
            found.append(f"Port {service.port} answered and does not any more.")
    after = {file.path: file for file in now.files}
    for file in then.files:
        state = after.get(file.path, FileState(path=file.path))
        if file.digest and not state.digest:
            found.append(f"{file.path} is gone.")
        elif state.digest and not file.digest:
            found.append(f"{file.path} is there now and was not.")
        elif file.digest != state.digest:
            found.append(f"{file.path} has changed.")
    if (gone := sorted(set(then.tools) - set(now.tools))) and now.tools:
        found.append(f"These tools are no longer there: {', '.join(gone)}.")
    return tuple(found)


def git_changes(cwd: Path) -> tuple[str, ...]:
    """What git calls changed; it is run, so only ask for a folder that is trusted.

    Even there nothing is run that the repository's settings name, and nothing is fetched.
    """
    if _git_folder(cwd) is None:
        return ()
    git = paths.program("git", os.environ.get("PATH"), cwd)
    if git is None:
        return ()
    try:
        *named, _ = git_says(git, cwd, "config", "-z", "--name-only", "--get-regexp", _FILTERS)
        without = {"GIT_CONFIG_COUNT": str(len(named))}
        for at, name in enumerate(named):
            without |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": ""}
        told = git_says(git, cwd, *_GIT, **without)[0].encode(errors="replace").decode()
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()
    return tuple(line.strip() for line in told.splitlines() if line.strip())[:MOST_FILES]


def ports_used(lines: Iterable[Line]) -> tuple[int, ...]:
    """Ports of this machine that commands named, the newest last."""
    ports: dict[int, None] = {}
    for action in actions.actions_of(lines):
        for found in _PORT.findall(action.about) if action.kind == "command" else ():
            if (port := int(found)) < 1 << 16:
                ports.pop(port, None)
                ports[port] = None
    return tuple(ports)[-_MOST_SERVICES:]


def services_at(ports: Iterable[int]) -> tuple[Service, ...]:
    """Whether something answers there now; only ask on behalf of a folder that is trusted."""
    return tuple(Service(port=port, answers=_answers(port)) for port in ports)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWERS_WITHIN):
            return True
    except OSError:
        return False


def environment_text(environment: Environment) -> list[str]:
    """Git and services, a line each; files have their own."""
    found = []
    if environment.branch or environment.commit:
        branch = environment.branch or "(detached)"
        at = f" at {environment.commit[:12]}" if environment.commit else ", no commit yet"
        found.append(f"branch {branch}{at}")
    found += [f"git: {change}" for change in environment.changes]
    found += [
        f"port {one.port} {'answers' if one.answers else 'does not answer'}"
        for one in environment.services
    ]
    return found


def git_position(cwd: Path) -> tuple[str, str]:
    """Branch and commit, read from the repository's own files; empty where there is none."""
    git = _git_folder(cwd)
    if git is None:
        return "", ""
    head = _small(git / "HEAD")
    if found := _REF.fullmatch(head):
        ref = found[1]
        common = git / (_small(git / "commondir") or ".")
        real = os.path.realpath  # a link that leads in circles is no error to it
        inside = (at / ref for at in (git, common) if real(at / ref).startswith(f"{real(at)}/"))
        commit = next(filter(None, map(_small, inside)), "") or _packed(common, ref)
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


def files_touched(
    lines: Iterable[Line], judged: standings.Standings | None = None
) -> tuple[Touched, ...]:
    """Files that tools read or changed with success, each once, in order of the last use.

    What is `judged` of the whole history says which changes were taken back.
    """
    touched: dict[str, Touched] = {}
    every = list(lines)
    foreign = {line.seq for line in every if provenance.is_imported(line)}
    for action in actions.actions_of(every):
        if not action.ok or action.kind == "command" or not action.about:
            continue
        before = touched.pop(action.about, None)
        changed = action.kind == "change"
        if before is not None and before.changed and not changed:
            touched[action.about] = before
        else:
            undone = judged.undone.of_file if judged and changed else lambda *_: None
            touched[action.about] = Touched(
                path=action.about,
                changed=changed,
                turn=action.turn,
                imported=action.seq in foreign,
                undone=undone(action.seq, action.turn, action.about) is not None,
            )
    for line in every:
        if isinstance(line.entry, FilesChanged) and line.entry.recovered:
            for one in line.entry.changes:
                found = Touched(path=one.path, changed=True, turn=line.turn, unsure=True)
                touched.setdefault(one.path, found)
    return tuple(touched.values())
