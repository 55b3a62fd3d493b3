"""What confines a command that no person looked at: bubblewrap, else Landlock, else nothing runs.

Inside, the machine is read-only, the workspace is writable, and there is no network. What steers
other programs (`.git`, `.mindstone`, editors' settings) stays read-only even in the workspace, the
first two also when they do not exist yet; keys, sessions and other people's sockets are out of
sight. `probe.py` tries all of this for real and says what holds on this machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from mindstone_tui.core.errors import NotAllowed
from mindstone_tui.core.tools import landlock
from mindstone_tui.core.tools.workspace import PROTECTED, SENSITIVE, Workspace

__all__ = ["Bubblewrap", "Confined", "Landlock", "Sandbox", "candidates", "unconfined"]

_PLACEHOLDERS: Final = (".git", ".mindstone")
"""Names that must not come into being: a program would obey what is in them."""
_HIDDEN_AT_HOME: Final = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".my.cnf"),
    *(".git-credentials", ".pypirc", ".npmrc", ".gem/credentials", ".cargo/credentials.toml"),
    *(".config/gh", ".config/gcloud", ".config/git/credentials", ".config/op", ".password-store"),
    *(".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium"),
    *(".bash_history", ".zsh_history", ".python_history", ".terraform.d", ".vault-token"),
)
_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc",
    "/opt",
    "/nix",
    "/proc",
    "/sys",
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Confined(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to be run under its confinement."""

    command: tuple[str, ...]
    landlock: dict[str, object] | None = None
    placeholders: tuple[Path, ...] = ()

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Hold the places of protected folders that do not exist, empty, while the command runs."""
        made: list[Path] = []
        try:
            for place in self.placeholders:
                with contextlib.suppress(FileExistsError):
                    place.mkdir(0o755)
                    made.append(place)
            yield
        finally:
            for place in made:
                with contextlib.suppress(OSError):
                    place.rmdir()


class Sandbox(Protocol):
    """Something that can confine a command."""

    @property
    def name(self) -> str:
        """What `doctor` and the approval call it."""

    def confine(
        self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
    ) -> Confined:
        """The command under its confinement."""


def unconfined(command: tuple[str, ...]) -> Confined:
    """A command a person agreed to, run as it is."""
    return Confined(command=command)


def candidates(environ: Mapping[str, str], hidden: tuple[Path, ...] = ()) -> tuple[Sandbox, ...]:
    """What this machine may have to confine a command, the strongest first."""
    found: list[Sandbox] = []
    home = Path(environ.get("HOME") or "/nonexistent")
    program = shutil.which("bwrap", path=environ.get("PATH"))
    if program and sys.platform.startswith("linux"):
        found.append(Bubblewrap(Path(program), home, hidden))
    if landlock.usable():
        found.append(Landlock(home, hidden, environ.get("PATH", "")))
    return tuple(found)


class Bubblewrap:
    """Namespaces: its own view of files, processes and network."""

    name = "bubblewrap"

    def __init__(self, program: Path, home: Path, hidden: tuple[Path, ...] = ()) -> None:
        self._program = program
        self._home = home
        self._hidden = hidden

    def confine(
        self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
    ) -> Confined:
        """Read-only everything, then the workspace writable, then what is protected read-only."""
        _refuse_wide_roots(workspace, self._home)
        missing = tuple(_missing(workspace))
        flags = [
            *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
            *("--die-with-parent", "--new-session"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"),
            *("--setenv", "TMPDIR", "/tmp", "--setenv", "XDG_CACHE_HOME", "/tmp/.cache"),
            *("--unsetenv", "DBUS_SESSION_BUS_ADDRESS", "--unsetenv", "SSH_AUTH_SOCK"),
        ]
        if network:
            flags.append("--share-net")
        for root in workspace.roots:
            flags += ["--bind", str(root), str(root)]
        for place in (*_guarded(workspace), *missing):
            flags += ["--ro-bind", str(place), str(place)]
        for place in self._out_of_sight(workspace):
            blank = (
                ("--tmpfs", str(place))
                if place.is_dir()
                else ("--ro-bind", "/dev/null", str(place))
            )
            flags += blank
        return Confined(
            command=(str(self._program), *flags, "--chdir", str(cwd), "--", *command),
            placeholders=missing,
        )

    def _out_of_sight(self, workspace: Workspace) -> Iterator[Path]:
        """Keys and sessions: not even to be read."""
        at_home = (self._home / name for name in _HIDDEN_AT_HOME)
        for place in (*at_home, *self._hidden, *workspace.protected):
            real = place.resolve()
            inside = any(real == root or real in root.parents for root in workspace.roots)
            if real.exists() and not inside:
                yield real


class Landlock:
    """The kernel's own access rules, with a seccomp filter for what they do not cover."""

    name = "landlock"

    def __init__(self, home: Path, hidden: tuple[Path, ...] = (), path: str = "") -> None:
        self._home = home
        self._hidden = hidden
        self._path = path

    def confine(
        self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
    ) -> Confined:
        """Rights for the system's programs and for each unguarded entry of the workspace."""
        _refuse_wide_roots(workspace, self._home)
        entries = [
            str(entry)
            for root in workspace.roots
            for entry in _openable(root, tuple(_nested_repositories(root)))
            if not self._is_hidden(entry, workspace)
        ]
        programs = [part for part in self._path.split(":") if part.startswith("/")]
        readable = [*_SYSTEM, *programs, sys.prefix, sys.base_prefix, *map(str, workspace.roots)]
        rules: dict[str, object] = {
            "readable": [path for path in readable if not self._is_hidden(Path(path), workspace)],
            "writable": [*entries, *_DEVICES],
            "network": network,
        }
        return Confined(command=command, landlock=rules)

    def _is_hidden(self, path: Path, workspace: Workspace) -> bool:
        real = path.resolve()
        return any(
            real == place or place in real.parents
            for place in (each.resolve() for each in (*self._hidden, *workspace.protected))
        )


def _openable(folder: Path, repositories: tuple[Path, ...]) -> Iterator[Path]:
    """The entries of a folder that may be written, taken apart where a repository lies below."""
    for entry in sorted(folder.iterdir()):
        if entry.name.casefold() in PROTECTED | SENSITIVE or entry.is_symlink():
            continue
        if any(entry in repository.parents for repository in repositories):
            yield from _openable(entry, repositories)
        else:
            yield entry


def _refuse_wide_roots(workspace: Workspace, home: Path) -> None:
    """A workspace that holds the home folder or the system cannot be kept apart from it."""
    for root in workspace.roots:
        if root == home.resolve() or root in home.resolve().parents or len(root.parts) < 3:
            raise NotAllowed(
                f"{root} is too wide to run commands in without asking.",
                "Start in a project folder, or stay in the mode `ask`.",
            )


def _guarded(workspace: Workspace) -> Iterator[Path]:
    """Existing entries of the workspace that steer other programs."""
    for root in workspace.roots:
        for entry in sorted(root.iterdir()):
            if entry.name.casefold() not in PROTECTED | SENSITIVE:
                continue
            if entry.is_symlink():
                raise NotAllowed(
                    f"{entry} is a symbolic link, so it cannot be protected.",
                    "Replace it by what it points to, or stay in the mode `ask`.",
                )
            yield entry
        yield from _nested_repositories(root)


def _nested_repositories(root: Path, depth: int = 3) -> Iterator[Path]:
    """Repositories below the top, as far down as submodules commonly are."""
    for folder, names, files in os.walk(root):
        level = len(Path(folder).parts) - len(root.parts)
        if level and ".git" in names + files and not Path(folder, ".git").is_symlink():
            yield Path(folder, ".git")
        names[:] = [] if level >= depth else [name for name in names if name not in _SKIPPED]


_SKIPPED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})


def _missing(workspace: Workspace) -> Iterator[Path]:
    for root in workspace.roots:
        for name in _PLACEHOLDERS:
            if not os.path.lexists(root / name):
                yield root / name
