"""What confines a command that no person looked at: bubblewrap, else Landlock, else nothing runs.

Inside there are the system's programs, read-only, the workspace, writable, and no network. The home
is empty but for toolchains, and nothing else of the machine is in sight. What steers other programs
(`.git`, `.mindstone`, editors' settings) stays read-only even in the workspace, the first two also
when they do not exist yet. `sandbox_probe.py` tries all of this for real and says what holds on
this machine.

Compilers, interpreters and package caches live at home, next to keys, tokens, wallets, histories
and other agents' credentials. So the home is empty inside, and only what `toolchains.json` names is
shown, read-only. Where a toolchain keeps credentials beside its programs, each folder is named. So
it is with `/etc`: a file that is hidden by something laid over it comes to light as soon as the
machine puts another in its place.
"""

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from mindstone_tui.core import disk, errors, paths, values
from mindstone_tui.core.tools import control_files, landlock, seccomp
from mindstone_tui.core.tools.workspace import Workspace


class _Toolchains(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables in `toolchains.json`."""

    at_home: dict[str, tuple[str, ...]]
    """Below the home, by language."""
    conda: tuple[str, ...]
    parts_of_conda: tuple[str, ...]
    parts_of_a_prefix: tuple[str, ...]
    """What belongs to programs in the folder beside it."""
    program_folders: tuple[str, ...]
    """What folders with programs are called."""
    system: tuple[str, ...]
    """Where an operating system keeps its programs."""
    settings: tuple[str, ...]
    """What is shown of `/etc`, as patterns: nothing where people keep passwords or keys."""
    refusals: tuple[str, ...]
    """What programs say when they may not do or see something."""
    offline: dict[str, str]
    """Tells package managers that there is no network: use what is there, or fail at once."""


_KNOWN: Final = values.shipped(__file__, "toolchains.json", _Toolchains)
SYSTEM: Final = _KNOWN.system
OFFLINE: Final = _KNOWN.offline


def shown_at_home(home: Path, path: str, venv: str = "") -> tuple[Path, ...]:
    """The places below the home that a confined command may read, as far as they exist."""
    named = [home / name for names in _KNOWN.at_home.values() for name in names]
    named += [home / root / part for root in _KNOWN.conda for part in _KNOWN.parts_of_conda]
    named += [folder for folder in _programs(path) if home in folder.parents]
    named += [each for each in _environments(path, venv) if home in each.parents]
    return tuple(
        it for it in dict.fromkeys(named) if os.access(it, os.F_OK) and not _holds(it, home)
    )


def shown_elsewhere(home: Path, path: str, venv: str = "") -> tuple[Path, ...]:
    """Programs outside the home and the system: what `PATH` names, with its libraries."""
    found: list[Path] = [Path(sys.prefix), Path(sys.base_prefix), *_environments(path, venv)]
    for folder in _programs(path):
        if home in folder.parents:
            continue
        found.append(folder)
        if len(folder.parts) > 2:
            found += [folder.parent / part for part in _KNOWN.parts_of_a_prefix]
    return tuple(
        place
        for place in dict.fromkeys(found)
        if os.access(place, os.F_OK) and not _holds(place, home) and not _in_system(place)
    )


def _holds(place: Path, home: Path) -> bool:
    real = place.resolve()
    return len(real.parts) < 2 or real == home.resolve() or real in home.resolve().parents


def _in_system(place: Path) -> bool:
    return any(str(place) == root or str(place).startswith(f"{root}/") for root in SYSTEM)


def _programs(path: str) -> Iterator[Path]:
    """The folders of `PATH` that are called what such folders are called, if they can be used."""
    for part in path.split(":"):
        named = part.startswith("/") and Path(part).name.casefold() in _KNOWN.program_folders
        if named and os.access(part, os.X_OK):
            yield Path(part)


def _environments(path: str, venv: str) -> Iterator[Path]:
    """Virtual environments that are in use."""
    candidates = [folder.parent for folder in _programs(path)]
    if venv.startswith("/"):
        candidates.append(Path(venv))
    for each in candidates:
        if os.access(each / "pyvenv.cfg", os.R_OK):
            yield each


def shown_of_the_machine() -> tuple[Path, ...]:
    """The operating system's programs, and of its settings what programs cannot do without."""
    etc = Path("/etc")
    named = (place for each in _KNOWN.settings for place in sorted(etc.glob(each)))
    settings = [place for each in named for place in for_everybody(each)]
    return tuple(place for place in (*map(Path, SYSTEM), *settings) if place.exists())


def for_everybody(place: Path) -> list[Path]:
    """A place that everybody may read, or what of it everybody may: root's keys stay root's."""
    try:
        mode = place.lstat().st_mode
        inside = sorted(place.iterdir()) if stat.S_ISDIR(mode) else []
    except OSError:
        return []
    if not mode & stat.S_IROTH:
        return []
    shown = [each for one in inside for each in for_everybody(one)]
    return [place] if shown == inside else shown


def npm_registry(home: Path) -> dict[str, str]:
    """Where npm's cached packages came from, by which it finds them; never with a password."""
    try:
        text = (home / ".npmrc").read_text("utf-8", "replace")
    except OSError:
        return {}
    found = re.search(r"(?m)^[ \t]*registry[ \t]*=[ \t]*(https?://[\w.:/-]+)\s*$", text, re.ASCII)
    return {"npm_config_registry": found.group(1)} if found else {}


def clean_git_settings(home: Path) -> bytes:
    """Git's settings of this person, without credentials and without anything that is run."""
    kept: list[str] = []
    for source in (home / ".config" / "git" / "config", home / ".gitconfig"):
        with contextlib.suppress(OSError, ValueError):
            for key, value, said in control_files.git_settings(
                source.read_text("utf-8", "replace")
            ):
                if key.count(".") == 1 and control_files.is_plain_setting(key, value):
                    kept.append(f"[{key.partition('.')[0]}]\n\t{said}\n")
    return "".join(kept).encode()


_PLACEHOLDERS: Final = (".git", ".mindstone")
"""Names that must not come into being: a program would obey what is in them."""
_FILTER: Final = 9
"""Any number that a program may find open."""
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Confined(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to be run under its confinement."""

    command: tuple[str, ...]
    landlock: dict[str, object] | None = None
    placeholders: tuple[Path, ...] = ()
    environ: dict[str, str] = {}
    """Set for the command, over what it would have."""
    scratch: Path | None = None
    """A folder that exists while the command runs."""
    files: tuple[tuple[Path, bytes], ...] = ()
    """Files in it."""
    filter_at: int | None = None
    """The number under which the command finds the filter of `seccomp.py`."""
    local: bool = True
    """Whether that lets it use Unix sockets, by which others act for it, outside."""
    roots: tuple[Path, ...] = ()
    """Folders in which it leaves nothing that lends rights (`take_off` in `shell.py`)."""

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Hold the places of protected folders that do not exist, empty, while the command runs."""
        made: list[Path] = []
        try:
            if self.scratch is not None:
                self.scratch.mkdir(0o700)
            for path, data in self.files:
                with os.fdopen(disk.REAL.open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
                    file.write(data)
            for place in self.placeholders:
                with contextlib.suppress(FileExistsError):
                    place.mkdir(0o755)
                    made.append(place)
            yield
        finally:
            for place in made:
                with contextlib.suppress(OSError):
                    place.rmdir()
            if self.scratch is not None:
                shutil.rmtree(self.scratch, ignore_errors=True)


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


def reading_only(command: tuple[str, ...], workspace: Workspace) -> Confined:
    """A program of the system that looks through the workspace for us, and reads nothing else.

    Where there is Landlock, a link that is swapped under it leads nowhere.
    """
    if not landlock.usable():
        return unconfined(command)
    ours = (*SYSTEM, "/etc/ld.so.cache", sys.prefix, sys.base_prefix, Path(__file__).parent)
    shown = [each for root in workspace.roots for each in _around(root, workspace.protected)]
    rules: dict[str, object] = {
        "readable": [str(each) for each in (*ours, Path(command[0]).resolve(), *shown)],
        "listed": [str(root) for root in workspace.roots],
        "writable": [],
        "devices": [],
        "network": False,
    }
    return Confined(command=command, landlock=rules)


def why_refused(text: str) -> str:
    """What to say beside a failure that reads like a refusal of the sandbox; else nothing.

    Bubblewrap hides what Landlock forbids, so the same command fails in other words.
    """
    refused = any(words in text for words in _KNOWN.refusals)
    return "it is confined, and sees no other files of yours" if refused else ""


def candidates(
    environ: Mapping[str, str], hidden: tuple[Path, ...] = (), work: tuple[Path, ...] = ()
) -> tuple[Sandbox, ...]:
    """What this machine may have to confine a command, the strongest first."""
    found: list[Sandbox] = []
    home = Path(environ.get("HOME") or "/nonexistent")
    path, venv = environ.get("PATH", ""), environ.get("VIRTUAL_ENV", "")
    program = paths.program("bwrap", environ.get("PATH"), *work)
    if program and sys.platform.startswith("linux"):
        found.append(Bubblewrap(Path(program), home, hidden, path, venv))
    if landlock.usable() and seccomp.usable():
        found.append(Landlock(home, hidden, path, venv))
    return tuple(found)


_OF_THE_KERNEL: Final = ("sys", "irq", "bus", "fs", "acpi", "scsi", "sysrq-trigger")


class Bubblewrap(msgspec.Struct, frozen=True):
    """Namespaces: its own view of files, processes and network."""

    program: Path
    home: Path
    hidden: tuple[Path, ...] = ()
    path: str = ""
    venv: str = ""
    name = "bubblewrap"

    def confine(
        self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
    ) -> Confined:
        """The system's programs, an empty home with toolchains, the workspace, and its guards."""
        _refuse_wide_roots(workspace, self.home)
        missing = tuple(_missing(workspace))
        scratch = _fresh_scratch()
        settings = scratch / "gitconfig"
        machine, copies = _copied(scratch, shown_of_the_machine())
        flags = [
            *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
            *("--die-with-parent", "--new-session"),
            *(("--seccomp", str(_FILTER)) if seccomp.usable() else ()),
            *self._machine(machine, network),
            *self._toolchains(),
            *("--ro-bind", str(settings), str(self.home.resolve() / ".gitconfig")),
        ]
        flags += [word for root in workspace.roots for word in ("--bind", str(root), str(root))]
        for place in (*_guarded(workspace), *missing):
            flags += ["--ro-bind", str(place), str(place)]
        for place in self._out_of_sight(workspace):
            flags += _blank(place)
        return Confined(
            command=(
                *(str(self.program), *flags, "--remount-ro", "/", "--chdir", str(cwd), "--"),
                *command,
            ),
            placeholders=missing,
            environ={"TMPDIR": "/tmp", **_package_managers(self.home, network)},
            scratch=scratch,
            files=((settings, clean_git_settings(self.home)), *copies),
            filter_at=_FILTER if seccomp.usable() else None,
            local=network,
            roots=workspace.roots,
        )

    def _machine(self, shown: Mapping[Path, Path], network: bool) -> Iterator[str]:
        """The operating system, without what only its owner should read: what stands for what."""
        elsewhere = {place: place for place in shown_elsewhere(self.home, self.path, self.venv)}
        for place, source in {**shown, **elsewhere}.items():
            yield from ("--ro-bind-try", str(source), str(place))
        yield from ("--dev", "/dev", "--proc", "/proc")
        # Settings of the whole machine, which belong to root: being nobody inside does not help.
        for name in _OF_THE_KERNEL:
            yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
        yield from ("--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp")
        if network:
            yield "--share-net"
        yield from ("--unsetenv", "DBUS_SESSION_BUS_ADDRESS", "--unsetenv", "SSH_AUTH_SOCK")

    def _toolchains(self) -> Iterator[str]:
        """A home of the command's own, gone afterwards, with the toolchains of the real one."""
        home = self.home.resolve()
        yield from ("--tmpfs", str(home))
        if home != self.home:
            yield from ("--symlink", str(home), str(self.home))
        for place in shown_at_home(home, self.path, self.venv):
            yield from ("--ro-bind", str(place), str(place))

    def _out_of_sight(self, workspace: Workspace) -> Iterator[Path]:
        """MindStone's own places, should they lie where something is shown."""
        for place in (*self.hidden, *workspace.protected):
            real = place.resolve()
            inside = any(real == root or real in root.parents for root in workspace.roots)
            if real.exists() and not inside:
                yield real


def _copied(
    scratch: Path, places: tuple[Path, ...]
) -> tuple[dict[Path, Path], list[tuple[Path, bytes]]]:
    """What to show for each place: folders themselves, a copy of each file.

    A file that the machine replaces while bubblewrap binds it makes bubblewrap give up.
    """
    shown: dict[Path, Path] = {}
    copies: list[tuple[Path, bytes]] = []
    for place in places:
        if place.is_dir():
            shown[place] = place
            continue
        with contextlib.suppress(OSError):
            data = disk.read_regular(place)
            shown[place] = scratch / f"copy-{len(copies)}"
            copies.append((shown[place], data))
    return shown, copies


def _package_managers(home: Path, network: bool) -> dict[str, str]:
    return {**npm_registry(home), **({} if network else OFFLINE)}


def _blank(place: Path) -> tuple[str, ...]:
    """Nothing to be seen there."""
    return ("--tmpfs", str(place)) if place.is_dir() else ("--ro-bind", "/dev/null", str(place))


def _fresh_scratch() -> Path:
    return Path(tempfile.gettempdir()).resolve() / f"mindstone-{os.urandom(8).hex()}"


class Landlock(msgspec.Struct, frozen=True):
    """The kernel's own access rules, with a seccomp filter for what they do not cover."""

    home: Path
    hidden: tuple[Path, ...] = ()
    path: str = ""
    venv: str = ""
    name = "landlock"

    def confine(
        self, command: tuple[str, ...], workspace: Workspace, *, cwd: Path, network: bool
    ) -> Confined:
        """Rights for the system's programs and for each unguarded entry of the workspace."""
        _refuse_wide_roots(workspace, self.home)
        hidden = tuple(each.resolve() for each in (*self.hidden, *workspace.protected))
        entries = [
            str(shown)
            for root in workspace.roots
            for entry in _openable(root, tuple(_nested_repositories(root)))
            for shown in _around(entry, (*hidden, *workspace.code))
        ]
        readable = [
            *(each.resolve() for each in shown_of_the_machine()),
            Path("/proc"),
            *shown_at_home(self.home, self.path, self.venv),
            *shown_elsewhere(self.home, self.path, self.venv),
            *workspace.roots,
        ]
        scratch = _fresh_scratch()
        settings = scratch / "gitconfig"
        rules: dict[str, object] = {
            "readable": [str(shown) for path in readable for shown in _around(path, hidden)],
            "listed": [str(root) for root in workspace.roots],
            "writable": [*entries, str(scratch)],
            "devices": list(_DEVICES),
            "network": network,
        }
        return Confined(
            command=command,
            landlock=rules,
            environ={
                "TMPDIR": str(scratch),
                "XDG_CACHE_HOME": str(scratch),
                "GIT_CONFIG_GLOBAL": str(settings),
                **_package_managers(self.home, network),
            },
            scratch=scratch,
            files=((settings, clean_git_settings(self.home)),),
            roots=workspace.roots,
        )


def _around(place: Path, hidden: tuple[Path, ...]) -> Iterator[Path]:
    """A place, or what of it lies beside places that are hidden in it."""
    real = place.resolve()
    if not {real, *real.parents}.isdisjoint(hidden):
        return
    if not any(real in each.parents for each in hidden):
        yield place
        return
    for entry in sorted(real.iterdir()):
        if not entry.is_symlink():
            yield from _around(entry, hidden)


def _openable(folder: Path, repositories: tuple[Path, ...]) -> Iterator[Path]:
    """The entries of a folder that may be written, taken apart where a repository lies below."""
    for entry in sorted(folder.iterdir()):
        if _is_guarded(entry.name) or entry.is_symlink():
            continue
        if any(entry in repository.parents for repository in repositories):
            yield from _openable(entry, repositories)
        else:
            yield entry


def _is_guarded(name: str) -> bool:
    return name.casefold() in control_files.PROTECTED or control_files.steers((name,))


def _refuse_wide_roots(workspace: Workspace, home: Path) -> None:
    """A workspace that holds the home folder or the system cannot be kept apart from it."""
    for root in workspace.roots:
        if root == home.resolve() or root in home.resolve().parents or len(root.parts) < 3:
            raise errors.NotAllowed(
                f"{root} is too wide to run commands in without asking.",
                "Start in a project folder, or stay in the mode `ask`.",
            )
        if root in workspace.code:
            raise errors.NotAllowed(
                f"{root} is where MindStone itself is installed.",
                "Start in a project folder, or stay in the mode `ask`.",
            )


def _guarded(workspace: Workspace) -> Iterator[Path]:
    """Existing entries of the workspace that steer other programs, or hold code of this one."""
    for root in workspace.roots:
        for entry in sorted(root.iterdir()):
            ours = entry in workspace.code
            if not (ours or _is_guarded(entry.name)):
                continue
            must = ours or entry.name.casefold() in control_files.PROTECTED
            if entry.is_symlink() and not must:
                continue  # it and what it leads to are looked at afterwards
            if entry.is_symlink():
                raise errors.NotAllowed(
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
