"""Putting files back: every path to the state it had, or none where somebody else was at it.

A path is walked folder by folder from the workspace's root, and no link is followed, so nothing
outside it can change. A file is replaced by a whole new one. Where there are very many, that would
take a file system seconds, so files that are there are written to, new ones are made in a folder
of their own before they are moved, and those that go are moved to the store's folder.

Which paths go from what to what is written down first: after a crash, `finish` brings each to its
end, because each has either state or is on the way between the two.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.undo.changes import PathChange
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import EMPTY, Node, TreeState, node_at, stamp_of, unchanged

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FEW: Final = 16
"""Files that are synced one by one; more of them with the whole file system."""
MANY: Final = 256
"""Files from which on they are written to where they are."""
_TEMPORARY: Final = pattern_of(r"\.mindstone-[0-9a-f]{16}(-[0-9]+)?")
_REMOVED: Final = "removed"
"""Where in the store's folder many files are moved that go away."""


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
    root: Path,
    wanted: Sequence[PathChange],
    file_bytes: int,
    store: ObjectStore | None = None,
    known: TreeState = EMPTY,
) -> Outlook:
    """Compare what is there with what was left, path by path; with a store, what is there is kept.

    With a store and a known state, a file whose stamp is known is not read again. A folder that
    should go and has others' files in it stays, without a question.
    """
    ready, there, conflicts, unkept = [], [], [], []
    with _Tree(root) as tree:
        for change in wanted:
            now = tree.node(change.path, file_bytes, store, known)
            after = change.after
            if now == after:
                there.append(change)
            elif after is not None and after.kind == "unkept":
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

    What goes away goes first, deepest first; what comes is made outermost first. `many` is how
    many make a mass: then `clear_removed` frees what was moved away.
    """
    problems: list[str] = []
    ordered = sorted(changes, key=lambda each: each.path)
    going = [each for each in ordered if _must_go_first(each.before, each.after)]
    coming = [(each.path, each.after) for each in ordered if each.after is not None]
    new = {each.path for each in ordered if each.before is None}

    def tried(path: str, step: Callable[..., None], *how: object) -> None:
        try:
            step(path, *how)
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")

    with _Tree(root, store.folder / _REMOVED if len(ordered) > many else None) as tree:
        stays: set[str] = set()
        for change in reversed(going):
            try:
                tree.remove(change.path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    stays.add(change.path)
                else:
                    problems.append(f"{change.path}: {error.strerror or error}")
        # Nothing comes in the place of a folder that others put something into.
        barred = [path for path, _ in coming if path in stays]
        problems += [f"{path}: somebody else's files are in this folder" for path in barred]
        coming = [each for each in coming if each[0] not in stays]
        for path, node in coming:
            tried(path, tree.put, node, store, path in new)
        tree.discard()
        for path, node in reversed(coming):
            if node.kind == "folder":
                tried(path, tree.permit, node.mode)
        tree.sync([path for path, node in coming if node.kind == "file"])
    return tuple(problems)


def clear_removed(folder: Path) -> None:
    """Free what many files that went away held, without waiting for it.

    That takes some file systems milliseconds for each of them. The program that does it outlives
    this one; what a crash leaves of it is cleared next time.
    """
    removed = folder / _REMOVED
    if removed.is_dir():
        command = 'nice rm -rf -- "$1" </dev/null >/dev/null 2>&1 &'
        with contextlib.suppress(OSError):
            subprocess.run(
                ["/bin/sh", "-c", command, "sh", str(removed)], start_new_session=True, check=False
            )


def finish(
    root: Path,
    changes: Sequence[PathChange],
    store: ObjectStore,
    file_bytes: int,
    *,
    many: int = MANY,
) -> None:
    """Complete what a crash cut short; paths that somebody else changed since stay as they are."""
    with _Tree(root) as tree:
        for folder in sorted({"", *(each.path.rpartition("/")[0] for each in changes)}):
            tree.sweep(folder)
    found = look(root, changes, file_bytes)
    torn = [each.wanted for each in found.conflicts if _is_on_the_way(root, each, store)]
    apply(root, (*found.ready, *torn), store, many=many)


def _is_on_the_way(root: Path, found: Conflict, store: ObjectStore) -> bool:
    """Whether a path has neither state because the crash came while it went from one to the other.

    A folder goes before a file can come in its place, and a file before a folder.
    """
    change, now = found
    if now is None:
        return change.after is not None and _must_go_first(change.before, change.after)
    return _is_torn(root, change, store)


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


def _must_go_first(before: Node | None, after: Node | None) -> bool:
    """Whether the old one must go before the new one can come."""
    if before is None or after is None:
        return before is not None
    return (before.kind == "folder") != (after.kind == "folder")


_ONLY_NEW: Final = 1
_EXCHANGE: Final = 2
_GET_FLAGS: Final = 0x80000000 | struct.calcsize("l") << 16 | ord("f") << 8 | 1
_SET_FLAGS: Final = 0x40000000 | struct.calcsize("l") << 16 | ord("f") << 8 | 2
_TOP_OF_A_TREE: Final = 0x20000
_IN_A_STAGE: Final = 250
"""New files that are made in one folder: few enough that those freed there are passed over soon."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _put_in_place(stage: int, temporary: str, folder: int, name: str) -> bool:
    """Give a file its name, atomically; True when one that had it has the temporary name now.

    A rename onto an existing name makes ext4 write the new file out at once, and an inode that was
    freed a moment ago slows down the search for the next one: thousands of files would take many
    seconds. Exchanging the names does neither, and one sync at the end is enough.
    """
    rename = getattr(_LIBC, "renameat2", None)
    if rename is not None:
        new, old = os.fsencode(temporary), os.fsencode(name)
        if rename(stage, new, folder, old, _ONLY_NEW) == 0:
            return False
        if ctypes.get_errno() == errno.EEXIST and rename(stage, new, folder, old, _EXCHANGE) == 0:
            return True
    os.replace(temporary, name, src_dir_fd=stage, dst_dir_fd=folder)
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
        if info.st_size > len(data):
            os.ftruncate(fd, len(data))
        if stat.S_IMODE(info.st_mode) != mode:
            os.fchmod(fd, mode)
        return True
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def _opened_new(folder: Path) -> int | None:
    """A folder of ours, made where it is missing; None where that cannot be."""
    try:
        folder.mkdir(0o700, exist_ok=True)
        return os.open(folder, _FOLDER)
    except OSError:
        return None


def _opened_apart(root: int, name: str) -> int:
    """A folder of ours, so marked that each folder in it gets a part of the disk of its own.

    ext4 looks for a free inode near the folder. Without a journal it passes over each one that was
    freed in the last minutes, so that after thousands were deleted, each new file costs a search
    among them. Below a folder marked as the top of a tree, new folders begin where much is free.
    """
    fd = os.open(name, _FOLDER, dir_fd=root)
    with contextlib.suppress(OSError):  # other file systems know no such mark
        flags = bytearray(struct.calcsize("l"))
        fcntl.ioctl(fd, _GET_FLAGS, flags)
        marked = struct.unpack("l", flags)[0] | _TOP_OF_A_TREE
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("l", marked))
    return fd


def _opened_below(folder: int, name: str) -> int:
    os.mkdir(name, 0o700, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


class _Tree:
    """A root and the folders below it that are open, so that no way is walked twice.

    With a folder for what is removed, it does things the way that is quick for thousands of files.
    """

    def __init__(self, root: Path, removed: Path | None = None) -> None:
        self._root = root
        self._in_mass = removed is not None
        self._removed = _opened_new(removed) if removed is not None else None
        self._stages: int | None = None
        self._staged: int | None = None
        self._stageable: dict[int, bool] = {}
        """Open folders, and whether they are on the root's file system."""
        self._open: dict[str, int] = {}
        self._token = secrets.token_hex(8)
        self._made = 0
        self._old: list[str] = []
        self._writable_ones: set[int] = set()

    def _temporary(self) -> str:
        self._made += 1
        return f".mindstone-{self._token}-{self._made}"

    def _stage(self, folder: int) -> int:
        """Where a new file is made before it is moved to its folder: far from those that went."""
        if not self._in_mass:
            return folder
        if self._stages is None:
            root, name = self._open[""], f".mindstone-{self._token}"
            with self._writable(root):
                os.mkdir(name, 0o700, dir_fd=root)
            self._stages = _opened_apart(root, name)
            self._stageable[root] = True
        if self._staged is None or self._made % _IN_A_STAGE == 0:
            fresh = _opened_below(self._stages, str(self._made))
            if self._staged is not None:
                os.close(self._staged)
            self._staged = fresh
        if folder not in self._stageable:
            self._stageable[folder] = os.fstat(folder).st_dev == os.fstat(self._staged).st_dev
        return self._staged if self._stageable[folder] else folder

    def __enter__(self) -> _Tree:
        try:
            self._open[""] = os.open(self._root, _FOLDER)
        except OSError as error:
            raise UndoError(
                f"{self._root} cannot be opened: {error.strerror}.", "Is the folder still there?"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._staged is not None:
            os.close(self._staged)
        if self._stages is not None:
            os.close(self._stages)
            self.sweep("")
        if self._removed is not None:
            os.close(self._removed)
        self._close()

    def _close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        self._writable_ones.clear()
        self._stageable.clear()

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

    def node(
        self,
        path: str,
        file_bytes: int,
        store: ObjectStore | None = None,
        known: TreeState = EMPTY,
    ) -> Node | None:
        try:
            folder, name = self._place(path)
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found = unchanged(known, path, stamp_of(info), info, store) if store else None
            found = found or node_at(folder, name, info, store, file_bytes)
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
            elif not self._moved_away(folder, name):
                os.unlink(name, dir_fd=folder)

    def _moved_away(self, folder: int, name: str) -> bool:
        """Whether what is removed could be moved out of the way instead."""
        if self._removed is None:
            return False
        try:
            os.rename(name, self._temporary(), src_dir_fd=folder, dst_dir_fd=self._removed)
        except OSError:  # on another file system
            os.close(self._removed)
            self._removed = None
        return self._removed is not None

    def _forget(self, path: str) -> None:
        """Close a folder that goes away, and those in it."""
        for known in [each for each in self._open if f"{each}/".startswith(f"{path}/")]:
            fd = self._open.pop(known)
            self._writable_ones.discard(fd)
            self._stageable.pop(fd, None)
            os.close(fd)

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

    def put(self, path: str, node: Node, store: ObjectStore, is_new: bool) -> None:
        """One thing that comes."""
        if node.kind == "folder":
            self.make_folder(path, node.mode)
        elif node.kind == "link":
            self.link(path, store.get(node.digest))
        else:
            self.write(path, store.get(node.digest), node.mode, is_new)

    def write(self, path: str, data: bytes, mode: int, is_new: bool) -> None:
        folder, name = self._place(path, make=True)
        if self._in_mass and not is_new and _written_in_place(folder, name, data, mode):
            return
        temporary = self._temporary()
        with self._writable(folder):
            stage = self._stage(folder)
            fd = os.open(temporary, _NEW, 0o600, dir_fd=stage)
            try:
                try:
                    _write_all(fd, data)
                    os.fchmod(fd, mode)
                finally:
                    os.close(fd)
                self._replace(path, stage, temporary, folder, name)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=stage)
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
            self._replace(path, folder, temporary, folder, name)

    def _replace(self, path: str, stage: int, temporary: str, folder: int, name: str) -> None:
        if _put_in_place(stage, temporary, folder, name) and stage == folder:
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
                left = [
                    (each.name, each.is_dir(follow_symlinks=False))
                    for each in entries
                    if _TEMPORARY.fullmatch(each.name)
                ]
            for name, is_folder in left:
                if is_folder:
                    shutil.rmtree(name, dir_fd=folder)
                else:
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

    def _writable(self, folder: int) -> contextlib.AbstractContextManager[None]:
        """Let the owner change a folder that is read-only, for as long as that takes."""
        if folder in self._writable_ones:
            return _NOTHING_TO_DO
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if mode & 0o300 == 0o300:
            self._writable_ones.add(folder)
            return _NOTHING_TO_DO
        return _opened_up(folder, mode)


_NOTHING_TO_DO: Final = contextlib.nullcontext()


@contextlib.contextmanager
def _opened_up(folder: int, mode: int) -> Iterator[None]:
    os.fchmod(folder, mode | 0o700)
    try:
        yield
    finally:
        os.fchmod(folder, mode)
