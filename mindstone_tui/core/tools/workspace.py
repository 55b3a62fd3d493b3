"""Where files may be read and written, enforced by walking descriptors.

A path is never handed to the kernel whole. It is walked component by component from the descriptor
of a root, each step refusing to follow a link by itself; links are read and walked like any other
part, and a step out of the root ends the walk. So `..`, links to elsewhere, links swapped in at the
last moment and `/proc` tricks all end in the same refusal, and the path that was really reached is
known. Writing replaces a file by a new one, so a hard link's other name keeps the old content.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from mindstone_tui.core.errors import NotAllowed, ToolError
from mindstone_tui.core.tools.control_files import (
    PROTECTED,
    in_repository,
    obeyed_below,
    plain_name,
    steers,
)

Standing = Literal["open", "sensitive", "protected"]
"""`open` may be changed; `sensitive` steers other programs and always asks; `protected` never."""

_Missing = Literal["fail", "make", "imagine"]
_NOT_A_WORKSPACE: Final = ("/proc", "/sys", "/dev", "/run")
_RUN: Final = (Path(__file__).parents[2], *((Path(sys.prefix),) if sys.prefix != "/usr" else ()))
OWN_CODE: Final = tuple(dict.fromkeys((*_RUN, *(place.resolve() for place in _RUN))))
"""The package and the environment that this program runs from."""
_MOST_LINKS: Final = 40
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(msgspec.Struct, frozen=True):
    """A file or folder inside the workspace, as the walk really found it."""

    root: Path
    parts: tuple[str, ...]
    obeyed: bool = False
    """It was reached through a link that other programs obey by its name."""

    @property
    def path(self) -> Path:
        """The real path, free of links."""
        return self.root.joinpath(*self.parts)


class Workspace:
    """The folders the agent works in."""

    def __init__(
        self,
        roots: tuple[Path, ...],
        protected: tuple[Path, ...] = (),
        code: tuple[Path, ...] = OWN_CODE,
    ) -> None:
        if not roots:
            raise ToolError("No folder to work in was given.", "Start inside a project folder.")
        self.roots = tuple(_root(root) for root in roots)
        self.protected = tuple(path.resolve() for path in protected)
        """Places that are never read or written, whatever root they lie in."""
        self.code = tuple(
            root.joinpath(*place.relative_to(root).parts[:1])
            if place.is_relative_to(root)
            else root
            for root in self.roots
            for place in code
            if place.is_relative_to(root) or root.is_relative_to(place)
        )
        """Entries of a root, or a root, with code that this program runs itself, outside of any
        sandbox. It is the topmost entry: a folder that can be renamed guards nothing in it."""

    @property
    def cwd(self) -> Path:
        """Where relative paths start."""
        return self.roots[0]

    def shown(self, path: Path | str) -> str:
        """How a path is written for people: from the working folder on, where it lies in it.

        One that climbs is written as it was given.
        """
        given = Path(path)
        inside = given.is_relative_to(self.cwd) and ".." not in given.parts
        return str(given.relative_to(self.cwd) if inside else path)

    def standing(self, place: Place) -> Standing:
        """How guarded a place is, judged by the path that was really reached."""
        names = {plain_name(part) for part in place.parts}
        if names & PROTECTED or not place.parts or self._is_ours(place.path):
            return "protected"
        above = {place.path, *place.path.parents}
        led = place.obeyed or not above.isdisjoint((*obeyed_below(place.root), *self.code))
        led = led or steers(place.parts) or in_repository(place.root, place.parts)
        return "sensitive" if led else "open"

    def locate(self, path: str) -> Place:
        """The real place a path leads to; its last parts may not exist yet."""
        root, parts = self._split(path)
        with _Walk(self, root, path) as walk:
            walk.go(parts, missing="imagine")
            return walk.place

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[tuple[Place, int]]:
        """A regular file or folder opened for reading, and where it really is."""
        with self._walk(path) as (place, folder, name):
            if self._is_ours(place.path):
                raise NotAllowed(f"{path} belongs to MindStone itself.", "Use its own commands.")
            try:
                fd = os.open(
                    name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
                )
            except OSError as error:
                raise _file_error(path, error) from None
            try:
                mode = os.fstat(fd).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise NotAllowed(f"{path} is a device or a pipe.", "Read regular files only.")
                yield place, fd
            finally:
                os.close(fd)

    def read_whole(self, path: str, limit: int) -> bytes:
        """A file's bytes, refused when there are more than `limit`."""
        with self.reading(path) as (_, fd):
            info = os.fstat(fd)
            if stat.S_ISDIR(info.st_mode):
                raise ToolError(f"{path} is a folder.", "List it instead.")
            if info.st_size > limit:
                raise ToolError(f"{path} is larger than {limit:,} bytes.", "Work on a part of it.")
            with os.fdopen(os.dup(fd), "rb") as file:
                return file.read(limit + 1)

    def replace(self, path: str, data: bytes, meant: tuple[object, ...] = ()) -> Place:
        """Put a new file in the place of the old one, if any, keeping its permissions.

        Where that is no longer the root and the parts that were `meant`, nothing is written.
        """
        with self._walk(path, missing="make") as (place, folder, name):
            if meant and (str(place.root), place.parts) != meant:
                raise NotAllowed(f"{path} leads elsewhere meanwhile.", "Look again.")
            if self.standing(place) == "protected":
                raise NotAllowed(f"{place.path} is protected.", "Change it yourself, outside.")
            mode = _mode_of(name, folder, path)
            temporary = f".{name[:80]}.{os.urandom(6).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                fd = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
                try:
                    _write_all(fd, data)
                    if mode is not None:
                        os.fchmod(fd, mode)
                    os.fsync(fd)
                finally:
                    os.close(fd)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise _file_error(path, error) from None
            return place

    def _is_ours(self, path: Path) -> bool:
        return any(path == ours or ours in path.parents for ours in self.protected)

    def _split(self, path: str) -> tuple[Path, list[str]]:
        """The root a path belongs to and its parts below it, still unchecked."""
        if "\0" in path:
            raise NotAllowed("A path cannot contain a NUL byte.", "Send a plain path.")
        if not path.startswith("/"):
            return self.roots[0], path.split("/")
        for root in self.roots:
            if path == str(root) or path.startswith(f"{root}/"):
                return root, path[len(str(root)) :].split("/")
        raise _outside(path, self.roots)

    @contextlib.contextmanager
    def _walk(self, path: str, *, missing: _Missing = "fail") -> Iterator[tuple[Place, int, str]]:
        """Walk to a path; gives its place, the open folder that holds it, and its name there."""
        root, parts = self._split(path)
        with _Walk(self, root, path) as walk:
            walk.go(parts, missing=missing)
            name = "." if len(walk.folders) > len(walk.names) else walk.names[-1]
            yield walk.place, walk.folders[-1], name


class _Walk:
    """One way down from a root, a descriptor per folder, so that no step is taken twice."""

    def __init__(self, workspace: Workspace, root: Path, asked: str) -> None:
        self._workspace = workspace
        self._root = root
        self._asked = asked
        self._links = 0
        self._obeyed = False
        self.names: list[str] = []
        self.folders: list[int] = []

    @property
    def place(self) -> Place:
        """Where it has come to."""
        return Place(self._root, tuple(self.names), self._obeyed)

    def __enter__(self) -> _Walk:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.folders.append(os.open(self._root, flags))
        except OSError as error:
            raise _file_error(str(self._root), error) from None
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self.folders:
            os.close(folder)

    def go(self, parts: list[str], *, missing: _Missing) -> None:
        """Take each part in turn; the last may be a file, or not there yet."""
        todo = [part for part in reversed(parts) if part not in ("", ".")]
        while todo:
            part = todo.pop()
            if len(self.names) == len(self.folders):  # the last name was not the end after all
                if missing == "imagine" and ".." not in (part, *todo) and not self._is_there():
                    self.names += [part, *reversed(todo)]
                    return
                self._enter(make=missing == "make")
            if part == "..":
                self._back()
                continue
            if (target := self._link(part)) is None:
                self.names.append(part)
            else:
                self._obeyed |= steers((*self.names, part))
                todo += self._follow(target)

    def _enter(self, *, make: bool) -> None:
        """Open the folder that the last name stands for."""
        name, above = self.names[-1], self.folders[-1]
        if make and not self._is_there():
            self._refuse_protected()
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=above)
        try:
            self.folders.append(os.open(name, _STEP | os.O_DIRECTORY, dir_fd=above))
        except OSError as error:
            raise _file_error(self._asked, error) from None

    def _back(self) -> None:
        if not self.names:
            raise _outside(self._asked, self._workspace.roots)
        self.names.pop()
        os.close(self.folders.pop())

    def _link(self, part: str) -> str | None:
        """Where a part points when it is a symbolic link."""
        try:
            return os.readlink(part, dir_fd=self.folders[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise _file_error(self._asked, error) from None

    def _follow(self, target: str) -> list[str]:
        """The parts a link adds, in reverse; an absolute one starts over from the root."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise NotAllowed(f"{self._asked} leads through too many links.", "Use the real path.")
        if target.startswith("/"):
            prefix = f"{self._root}/"
            if not f"{target}/".startswith(prefix):
                raise _outside(self._asked, self._workspace.roots)
            self.names.clear()
            while len(self.folders) > 1:
                os.close(self.folders.pop())
            target = target[len(prefix) :]
        return [part for part in reversed(target.split("/")) if part not in ("", ".")]

    def _is_there(self) -> bool:
        try:
            os.stat(self.names[-1], dir_fd=self.folders[-1], follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _refuse_protected(self) -> None:
        if self._workspace.standing(self.place) == "protected":
            raise NotAllowed(f"{self.place.path} is protected.", "Change it yourself, outside.")


def _root(path: Path) -> Path:
    """A root as the absolute real folder it is."""
    real = path.resolve()
    if not real.is_dir():
        raise ToolError(f"{path} is not a folder.", "Name a folder that exists.")
    if any(str(real) == place or str(real).startswith(f"{place}/") for place in _NOT_A_WORKSPACE):
        raise NotAllowed(f"{real} belongs to the system.", "Work in a folder of your own.")
    return real


def _mode_of(name: str, folder: int, path: str) -> int | None:
    """The permissions to keep, or None for a new file; anything but a file is refused."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(info.st_mode):
        raise NotAllowed(f"{path} is not a regular file.", "Choose another name.")
    return stat.S_IMODE(info.st_mode) & 0o777


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _outside(path: str, roots: tuple[Path, ...]) -> NotAllowed:
    return NotAllowed(
        f"{path} leads out of the workspace.",
        f"Stay inside {', '.join(str(root) for root in roots)}, or add a root in the settings.",
    )


def _file_error(path: str, error: OSError) -> ToolError:
    """Why a file cannot be used, as the model and the person may be told."""
    if error.errno == errno.ELOOP:
        return NotAllowed(f"{path} changed into a link while it was opened.", "Try again.")
    return ToolError(f"{path}: {error.strerror or error}.", "Check the path with list or glob.")
