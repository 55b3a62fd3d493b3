"""Putting files back: every path to the state it had, or none where somebody else was at it.

A path is walked folder by folder from the workspace's root, and no link is followed, so nothing
outside it can change. Files are written beside their places, synced together and then renamed, so
that each is the old one or the new one, whole, whenever the power fails.

Which paths go from what to what is written down first: after a crash, `finish` brings each to its
end, because each has either state or is on the way between the two.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mindstone_tui.core import errors, patterns
from mindstone_tui.core.undo.changes import PathChange
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import EMPTY, Node, TreeState, node_at, stamp_of, unchanged

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FEW: Final = 16
"""Files that are synced and freed one by one; more of them all at once."""
_REMOVED: Final = "removed"
"""Where in the store's folder stands what waits to be freed."""
_TEMPORARY: Final = patterns.pattern_of(r"\.mindstone-[0-9a-f]{16}-[0-9]+")


class Conflict(NamedTuple):
    """A path that is not as it was left, or of which nobody knows who left it so."""

    wanted: PathChange
    """From what it was left as to what it should become."""
    now: Node | None

    @property
    def unsure(self) -> bool:
        """Whether it is as it was left, by whomever."""
        return self.now == self.wanted.before


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


def apply(root: Path, changes: Sequence[PathChange], store: ObjectStore) -> tuple[str, ...]:
    """Bring every path to its `after`; says which could not be, and why.

    What goes away goes first, deepest first; what comes is made outermost first. Of many files,
    `clear_removed` frees the old ones.
    """
    problems: list[str] = []
    ordered = sorted(changes, key=lambda each: each.path)
    going = [each for each in ordered if _must_go_first(each.before, each.after)]
    coming = [(each.path, each.after) for each in ordered if each.after is not None]

    def tried(path: str, step: Callable[..., None], *how: object) -> None:
        try:
            step(path, *how)
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")

    few = len(ordered) <= _FEW
    with _Tree(root, None if few else store.folder / _REMOVED) as tree:
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
            tried(path, tree.prepare, node, store, few)
        if not few:
            tree.sync()
        for path in tree.prepared:
            tried(path, tree.put_in_place)
        for path, node in reversed(coming):
            if node.kind == "folder":
                tried(path, tree.permit, node.mode)
        tree.sync([each.path for each in ordered] if few else None)
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
                ["/bin/sh", "-c", command, "sh", str(removed)],
                env={"PATH": os.defpath},
                start_new_session=True,
                check=False,
            )


def finish(root: Path, changes: Sequence[PathChange], store: ObjectStore, file_bytes: int) -> None:
    """Complete what a crash cut short; paths that somebody else changed since stay as they are."""
    with _Tree(root) as tree:
        for folder in sorted({"", *(each.path.rpartition("/")[0] for each in changes)}):
            tree.sweep(folder)
    found = look(root, changes, file_bytes)
    halfway = [each.wanted for each in found.conflicts if _is_halfway(each)]
    apply(root, (*found.ready, *halfway), store)


def _is_halfway(found: Conflict) -> bool:
    """Whether nothing stands at a path because the old one went and the new one had not come.

    A folder goes before a file can come in its place, and a file before a folder.
    """
    _, before, after = found.wanted
    return found.now is None and after is not None and _must_go_first(before, after)


def _must_go_first(before: Node | None, after: Node | None) -> bool:
    """Whether the old one must go before the new one can come."""
    if before is None or after is None:
        return before is not None
    return (before.kind == "folder") != (after.kind == "folder")


def _write_new(folder: int, name: str, data: bytes, mode: int, *, sync: bool) -> None:
    fd = os.open(name, _NEW, 0o600, dir_fd=folder)
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
        os.fchmod(fd, mode)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def _sync_file_system(folder: int) -> None:
    """Sync the file system that an open folder is on; all of them where only that can be done."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "syncfs") or libc.syncfs(folder) != 0:
        os.sync()


class _Tree:
    """A root and the folders below it that are open, so that no way is walked twice.

    With a folder for what is removed, files that go have a second name there, so that they are
    freed later; on another file system they are freed at once.
    """

    def __init__(self, root: Path, removed: Path | None = None) -> None:
        self._root = root
        self._removed = removed
        self._aside: int | None = None
        self._freed_later = 0
        self._open: dict[str, int] = {}
        self._token = os.urandom(8).hex()
        self._beside: dict[str, str] = {}
        """What was made beside its place and is not there yet: the path, and the name till then."""
        self.prepared: list[str] = []
        """The paths whose new files are whole."""
        self._writable_ones: set[int] = set()

    def __enter__(self) -> _Tree:
        try:
            self._open[""] = os.open(self._root, _FOLDER)
        except OSError as error:
            raise errors.UndoError(
                f"{self._root} cannot be opened: {error.strerror}.", "Is the folder still there?"
            ) from error
        if self._removed is not None:
            with contextlib.suppress(OSError):
                self._removed.mkdir(0o700, exist_ok=True)
                self._aside = os.open(self._removed, _FOLDER)
        return self

    def __exit__(self, *_: object) -> None:
        for path, temporary in self._beside.items():
            with contextlib.suppress(OSError):
                folder = self._place(path)[0]
                with self._writable(folder):
                    os.unlink(temporary, dir_fd=folder)
        if self._aside is not None:
            os.close(self._aside)
        self._close()

    def _close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        self._writable_ones.clear()

    def _folder(self, path: str, *, make: bool = False) -> int:
        """A folder below the root, opened without following links."""
        if path in self._open:
            return self._open[path]
        if len(self._open) > 200:
            self._close()
            self._open[""] = os.open(self._root, _FOLDER)
        outer, name = self._place(path, make=make)
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
        self, path: str, file_bytes: int, store: ObjectStore | None = None, known: TreeState = EMPTY
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
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                self._forget(path)
                os.rmdir(name, dir_fd=folder)
            else:
                self._free_later(folder, name)
                os.unlink(name, dir_fd=folder)

    def _free_later(self, folder: int, name: str) -> None:
        """Give a file that goes a second name, if that can be."""
        if self._aside is None:
            return
        self._freed_later += 1
        second = f"{self._token}-{self._freed_later}"
        with contextlib.suppress(OSError):
            os.link(name, second, src_dir_fd=folder, dst_dir_fd=self._aside, follow_symlinks=False)

    def _forget(self, path: str) -> None:
        """Close a folder that goes away, and those in it."""
        for known in [each for each in self._open if f"{each}/".startswith(f"{path}/")]:
            fd = self._open.pop(known)
            self._writable_ones.discard(fd)
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

    def prepare(self, path: str, node: Node, store: ObjectStore, sync: bool) -> None:
        """Make a folder, or a file or a link beside its place."""
        if node.kind == "folder":
            self.make_folder(path, node.mode)
            return
        data = store.get(node.digest)
        folder, _ = self._place(path, make=True)
        temporary = self._beside[path] = f".mindstone-{self._token}-{len(self._beside)}"
        with self._writable(folder):
            if node.kind == "link":
                os.symlink(data, temporary.encode(), dir_fd=folder)
            else:
                _write_new(folder, temporary, data, node.mode, sync=sync)
        self.prepared.append(path)

    def put_in_place(self, path: str) -> None:
        """Give what stands ready its name, in place of what had it."""
        folder, name = self._place(path)
        with self._writable(folder):
            self._free_later(folder, name)
            os.replace(self._beside[path], name, src_dir_fd=folder, dst_dir_fd=folder)
        del self._beside[path]

    def sweep(self, path: str) -> None:
        """Remove what a crash left half written."""
        with contextlib.suppress(OSError):
            folder = self._folder(path)
            with os.scandir(folder) as entries:
                left = [each.name for each in entries if _TEMPORARY.fullmatch(each.name)]
            for name in left:
                os.unlink(name, dir_fd=folder)

    def sync(self, paths: Sequence[str] | None = None) -> None:
        """Make the names of these paths survive a power cut; without paths, all of the system."""
        if paths is None:
            _sync_file_system(self._open[""])
            return
        for above in {path.rpartition("/")[0] for path in paths}:
            with contextlib.suppress(OSError):
                os.fsync(self._folder(above))

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
