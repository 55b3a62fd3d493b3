"""Putting files back: every path to the state it had, or none where somebody else was at it.

A path is walked folder by folder from the workspace's root, and no link is followed, so nothing
outside it can change. A file is replaced by a whole new one; where there are very many, their
inodes are written to instead, because making thousands of new ones takes a file system seconds.
Which paths go from what to what is written down first: after a crash, `finish` brings each to its
end, because each has either state or is on the way between the two.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.undo.changes import PathChange
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import Node, node_at

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FEW: Final = 16
"""Files that are synced one by one; more of them with the whole file system."""
MANY: Final = 256
"""Files from which on they are written to where they are."""
_TEMPORARY: Final = ".mindstone-"


class Conflict(NamedTuple):
    """A path that is not as it was left."""

    wanted: PathChange
    """From what it was left as to what it should become."""
    now: Node | None


class Outlook(NamedTuple):
    """What putting back would do."""

    ready: tuple[PathChange, ...]
    there: tuple[PathChange, ...]
    """Already as they should be."""
    conflicts: tuple[Conflict, ...]
    unkept: tuple[PathChange, ...]
    """Wanted as something whose content was not kept."""


def look(
    root: Path, wanted: Sequence[PathChange], file_bytes: int, store: ObjectStore | None = None
) -> Outlook:
    """Compare what is there with what was left, path by path; with a store, what is there is kept.

    A folder that should go and has others' files in it stays, without a question.
    """
    ready, there, conflicts, unkept = [], [], [], []
    with _Tree(root) as tree:
        for change in wanted:
            now = tree.node(change.path, file_bytes, store)
            if now == change.after:
                there.append(change)
            elif change.after is not None and change.after.kind == "unkept":
                unkept.append(change)
            elif now == change.before:
                ready.append(change)
            else:
                conflicts.append(Conflict(change, now))
    return Outlook(tuple(ready), tuple(there), tuple(conflicts), tuple(unkept))


def node_in(root: Path, path: str, store: ObjectStore | None, file_bytes: int) -> Node | None:
    """What stands at a path below a root; None when nothing does."""
    with _Tree(root) as tree:
        return tree.node(path, file_bytes, store)


def apply(
    root: Path, changes: Sequence[PathChange], store: ObjectStore, *, many: int = MANY
) -> tuple[str, ...]:
    """Bring every path to its `after`; says which could not be, and why.

    What goes away goes first, deepest first; what comes is made outermost first. From `many` files
    on they are written to where they are.
    """
    problems: list[str] = []

    def attempt(path: str, step: object) -> None:
        try:
            assert callable(step)
            step()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                problems.append(f"{path}: {error.strerror or error}")

    with _Tree(root) as tree:
        for change in sorted(changes, key=lambda each: each.path, reverse=True):
            before, after = change.before, change.after
            if before is not None and (after is None or _other_kind(before, after)):
                attempt(change.path, lambda path=change.path: tree.remove(path))
        coming = [change for change in changes if change.after is not None]
        tree.in_place = len(coming) > many
        for change in sorted(coming, key=lambda each: each.path):
            assert change.after is not None
            put = _Put(tree, change.path, change.after, store)
            attempt(change.path, put)
        tree.discard()
        for change in sorted(coming, key=lambda each: each.path, reverse=True):
            if change.after is not None and change.after.kind == "folder":
                mode = change.after.mode
                attempt(change.path, lambda path=change.path, mode=mode: tree.permit(path, mode))
        tree.sync([each.path for each in coming if each.after and each.after.kind == "file"])
    return tuple(problems)


def finish(root: Path, changes: Sequence[PathChange], store: ObjectStore, file_bytes: int) -> None:
    """Complete what a crash cut short; paths that somebody else changed since stay as they are."""
    with _Tree(root) as tree:
        for folder in sorted({each.path.rpartition("/")[0] for each in changes}):
            tree.sweep(folder)
    found = look(root, changes, file_bytes)
    torn = [each.wanted for each in found.conflicts if _is_torn(root, each.wanted, store)]
    apply(root, (*found.ready, *torn), store)


def _is_torn(root: Path, change: PathChange, store: ObjectStore) -> bool:
    """Whether a file is between its two states: it begins as the new one and ends as the old."""
    before, after = change.before, change.after
    if before is None or after is None or {before.kind, after.kind} != {"file"}:
        return False
    old, new = store.get(before.digest), store.get(after.digest)
    longest = max(len(old), len(new))
    try:
        with _Tree(root) as tree:
            now = tree.read(change.path, longest + 1)
    except OSError:
        return False
    pairs = enumerate(zip(now, new, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(now), len(new)))
    return len(now) <= longest and now[at:] == old[at:]


def _other_kind(before: Node, after: Node) -> bool:
    """Whether the old one must go before the new one can come."""
    folders = before.kind == "folder", after.kind == "folder"
    return folders[0] != folders[1]


_EXCHANGE: Final = 2
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _put_in_place(folder: int, temporary: str, name: str) -> bool:
    """Give a new file the name of an old one, atomically; True when the old one has the other name.

    A rename onto an existing name makes ext4 write the new file out at once, and an inode that was
    freed a moment ago slows down the search for the next one: thousands of files would take many
    seconds. Exchanging the names does neither, and one sync at the end is enough.
    """
    exchange = getattr(_LIBC, "renameat2", None)
    if exchange is not None:
        new, old = os.fsencode(temporary), os.fsencode(name)
        if exchange(folder, new, folder, old, _EXCHANGE) == 0:
            return True
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    return False


def _written_in_place(folder: int, name: str, data: bytes, mode: int) -> bool:
    """Write to a file that is there; False where it is none, or has another name as well."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError:
        return False
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            return False
        _write_all(fd, data)
        os.ftruncate(fd, len(data))
        if stat.S_IMODE(info.st_mode) != mode:
            os.fchmod(fd, mode)
        return True
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class _Put(NamedTuple):
    """One thing that comes."""

    tree: _Tree
    path: str
    node: Node
    store: ObjectStore

    def __call__(self) -> None:
        if self.node.kind == "folder":
            self.tree.make_folder(self.path, self.node.mode)
        elif self.node.kind == "link":
            self.tree.link(self.path, self.store.get(self.node.digest))
        else:
            self.tree.write(self.path, self.store.get(self.node.digest), self.node.mode)


class _Tree:
    """A root and the folders below it that are open, so that no way is walked twice."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, int] = {}
        self._token = secrets.token_hex(8)
        self._made = 0
        self._old: list[str] = []
        self.in_place = False
        """Write to the files that are there, where that changes nothing else."""

    def _temporary(self) -> str:
        self._made += 1
        return f"{_TEMPORARY}{self._token}-{self._made}"

    def __enter__(self) -> _Tree:
        try:
            self._open[""] = os.open(self._root, _FOLDER)
        except OSError as error:
            raise UndoError(
                f"{self._root} cannot be opened: {error.strerror}.", "Is the folder still there?"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def _folder(self, path: str, *, make: bool = False) -> int:
        """A folder below the root, opened without following links."""
        if path in self._open:
            return self._open[path]
        if len(self._open) > 200:
            self._close()
            self._open[""] = os.open(self._root, _FOLDER)
        above, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, "not a path of the workspace")
        outer = self._folder(above, make=make)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o777, dir_fd=outer)
        fd = os.open(name, _FOLDER, dir_fd=outer)
        self._open[path] = fd
        return fd

    def _place(self, path: str, *, make: bool = False) -> tuple[int, str]:
        above, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EINVAL, "not a path of the workspace")
        return self._folder(above, make=make), name

    def node(self, path: str, file_bytes: int, store: ObjectStore | None = None) -> Node | None:
        try:
            folder, name = self._place(path)
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found = node_at(folder, name, info, store, file_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link stands on the way
                return None
            return Node("unkept", 0, f"unreadable: {error.strerror}")
        return found or Node("unkept", 0, "neither a file nor a link nor a folder")

    def remove(self, path: str) -> None:
        folder, name = self._place(path)
        with self._writable(folder):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                self._forget(path)
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def _forget(self, path: str) -> None:
        """Close a folder that goes away, and those in it."""
        for known in [each for each in self._open if f"{each}/".startswith(f"{path}/")]:
            os.close(self._open.pop(known))

    def make_folder(self, path: str, mode: int) -> None:
        folder, name = self._place(path, make=True)
        with self._writable(folder), contextlib.suppress(FileExistsError):
            os.mkdir(name, mode | 0o700, dir_fd=folder)

    def permit(self, path: str, mode: int) -> None:
        folder, name = self._place(path)
        fd = os.open(name, _FOLDER, dir_fd=folder)
        try:
            if stat.S_IMODE(os.fstat(fd).st_mode) & 0o777 != mode:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes, mode: int) -> None:
        folder, name = self._place(path, make=True)
        if self.in_place and _written_in_place(folder, name, data, mode):
            return
        temporary = self._temporary()
        with self._writable(folder):
            fd = os.open(temporary, _NEW, 0o600, dir_fd=folder)
            try:
                try:
                    _write_all(fd, data)
                    os.fchmod(fd, mode)
                finally:
                    os.close(fd)
                self._replace(path, folder, temporary, name)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def read(self, path: str, most: int) -> bytes:
        folder, name = self._place(path)
        fd = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        with os.fdopen(fd, "rb") as file:
            return file.read(most)

    def link(self, path: str, target: bytes) -> None:
        folder, name = self._place(path, make=True)
        temporary = self._temporary()
        with self._writable(folder):
            os.symlink(target, temporary.encode(), dir_fd=folder)
            self._replace(path, folder, temporary, name)

    def _replace(self, path: str, folder: int, temporary: str, name: str) -> None:
        if _put_in_place(folder, temporary, name):
            above = path.rpartition("/")[0]
            self._old.append(f"{above}/{temporary}" if above else temporary)

    def discard(self) -> None:
        """Remove what was exchanged for something else."""
        for path in self._old:
            with contextlib.suppress(OSError):
                folder, name = self._place(path)
                with self._writable(folder):
                    os.unlink(name, dir_fd=folder)
        self._old.clear()

    def sweep(self, path: str) -> None:
        """Remove what a crash left half written."""
        with contextlib.suppress(OSError):
            folder = self._folder(path)
            with os.scandir(folder) as entries:
                names = [each.name for each in entries if each.name.startswith(_TEMPORARY)]
            for name in names:
                os.unlink(name, dir_fd=folder)

    def sync(self, paths: Sequence[str]) -> None:
        """Make what was put back survive a power cut, before anything says that it is done."""
        if len(paths) > _FEW:
            if not hasattr(_LIBC, "syncfs") or _LIBC.syncfs(self._open[""]) != 0:
                os.sync()
            return
        for path in paths:
            with contextlib.suppress(OSError):
                folder, name = self._place(path)
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    os.fsync(fd)
                    os.fsync(folder)
                finally:
                    os.close(fd)

    @contextlib.contextmanager
    def _writable(self, folder: int) -> Iterator[None]:
        """Let the owner change a folder that is read-only, for as long as that takes."""
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if mode & 0o300 == 0o300:
            yield
            return
        os.fchmod(folder, mode | 0o700)
        try:
            yield
        finally:
            os.fchmod(folder, mode)
