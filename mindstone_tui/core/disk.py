"""How bytes reach the disk: append a line, replace a file, hold a lock.

Every call that a crash or a full disk can turn into damage goes through a `Disk`, so that tests
stand in between and prove what is left behind. Folders are 0700 and files 0600 whatever the umask.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import DecodeError

from mindstone_tui.core import bounded_json, patterns
from mindstone_tui.core.errors import EntryNotSaved, PlaceError, SessionBusy

T = TypeVar("T")

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_YOUNG: Final = 6
"""Folders from a session's own up to the one that holds all of ours."""
LARGEST_FILE: Final = 4 << 20
"""Bytes of a file that a person or this program wrote by the side of a transcript."""
LARGEST_BLOB: Final = 1 << 28
_READ_AT_ONCE: Final = 1 << 20
NOT_ORDINARY: Final = "it is no ordinary file"
NEVER_WRITTEN: Final = "most of it was never written"
_MOST_HOLLOW: Final = 1 << 30
"""Bytes of a file that take no room, but time: a stick of 8 GB can hold a file of 200."""
_KEPT: Final = "Free space or make the folder writable; what is unsaved is kept and written first."
"""Of entries, which stay in memory until the disk takes them."""
_TEMPORARY: Final = patterns.pattern_of(r"\..+\.[0-9a-f]{12}")
_ABANDONED: Final = 3_600.0
_PATIENCE: Final = 50
_PAUSE: Final = 0.002
_NO_FOLLOW: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class Disk:
    """The operating system's own calls, one method each."""

    def open(self, path: Path, flags: int) -> int:
        """Open without following a link; a file that may be new is the owner's alone."""
        fd = os.open(path, flags | _NO_FOLLOW, FILE_MODE)
        if flags & os.O_CREAT and stat.S_IMODE(os.fstat(fd).st_mode) != FILE_MODE:
            with contextlib.suppress(PermissionError):
                os.fchmod(fd, FILE_MODE)
        return fd

    def close(self, fd: int) -> None:
        """Give the descriptor back."""
        os.close(fd)

    def write(self, fd: int, data: bytes) -> int:
        """One write; the count may be short."""
        return os.write(fd, data)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return os.pread(fd, size, offset)

    def size(self, fd: int) -> int:
        """The file's length now."""
        return os.fstat(fd).st_size

    def inode(self, fd: int) -> int:
        """Which file this is, whatever its name."""
        return os.fstat(fd).st_ino

    def inode_at(self, path: Path) -> int | None:
        """Which file has this name now; None when none does."""
        try:
            return path.lstat().st_ino
        except FileNotFoundError:
            return None

    def sync(self, fd: int) -> None:
        """Make what was written survive a power cut."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def replace(self, source: Path, target: Path) -> None:
        """Give `source` the name of `target`, atomically."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Make names created in a folder survive a power cut."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def make_folder(self, folder: Path) -> None:
        """Create one folder, the owner's alone whatever the umask."""
        folder.mkdir(FOLDER_MODE)
        folder.chmod(FOLDER_MODE)


REAL: Final = Disk()


def ensure_folder(folder: Path, disk: Disk = REAL) -> None:
    """Make a folder and its missing parents, each durable in its own parent."""
    try:
        if folder.is_dir():
            return
        ensure_folder(folder.parent, disk)
        with contextlib.suppress(FileExistsError):
            disk.make_folder(folder)
        disk.sync_folder(folder.parent)
    except OSError as error:
        raise place_error(folder, error) from error
    if not folder.is_dir():
        raise PlaceError(
            f"{folder} is a file, but a folder is needed there.",
            "Move it away, or set MINDSTONE_HOME to another folder.",
        )


def open_to_changes(path: Path) -> list[str]:
    """Commands after which nobody else can change or replace a file; none if that is so already.

    Looked at are the file and every folder above it, as it is called and where it really lies.
    Whoever may write to one of them may put another file there. In a sticky folder, such as /tmp,
    everybody can replace their own files only.
    """
    real = Path(os.path.realpath(path))
    commands: list[str] = []
    for place in dict.fromkeys((path, *path.parents, real, *real.parents)):
        try:
            info = place.lstat()
        except OSError:  # not made yet; it will be ours alone
            continue
        name = shlex.quote(str(place))
        if info.st_uid not in (0, os.geteuid()):
            commands.append(f"sudo chown {os.geteuid()} {name}")
        sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX
        if info.st_mode & 0o022 and not sticky and not stat.S_ISLNK(info.st_mode):
            commands.append(f"chmod go-w {name}")
    return commands


def require_ours(folder: Path) -> None:
    """Refuse a folder in which just anybody decides what lies there.

    Softer than `open_to_changes`: a group may be one's own, and people choose in whose folder
    theirs lies. But its owner is us, or root.
    """
    what = f"Others can change what lies in {folder}."
    real = Path(os.path.realpath(folder))
    for place in dict.fromkeys((folder, *folder.parents, real, *real.parents)):
        with contextlib.suppress(OSError):  # not made yet; it will be ours alone
            info, name = place.lstat(), shlex.quote(str(place))
            if place in (folder, real) and info.st_uid not in (0, os.geteuid()):
                raise PlaceError(what, f"Run: sudo chown -R {os.geteuid()} {name}")
            shared = stat.S_ISLNK(info.st_mode) or info.st_mode & stat.S_ISVTX
            if info.st_mode & 0o002 and not shared:
                raise PlaceError(what, f"Run: chmod o-w {name}")


def write_all(fd: int, data: bytes, disk: Disk = REAL) -> None:
    """Write `data` whole, or raise: a short count is what a full disk looks like."""
    if disk.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def append(path: Path, data: bytes, disk: Disk = REAL) -> None:
    """Add to a file of our own, which may be new; nothing waits for the disk."""
    fd = disk.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        write_all(fd, data, disk)
    finally:
        disk.close(fd)


def replace_file(path: Path, data: bytes, disk: Disk = REAL) -> None:
    """Replace a small file so that a crash leaves the old one or the new one, never a mixture."""
    replace_with(path, [data], disk)


def replace_with(path: Path, pieces: Iterable[bytes], disk: Disk = REAL) -> None:
    """The same for content that comes in pieces."""
    try:
        ensure_folder(path.parent, disk)
    except PlaceError as error:
        raise EntryNotSaved(f"NOT SAVED: {error.what}", error.remedy) from error
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}")
    try:
        fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            for piece in pieces:
                write_all(fd, piece, disk)
            disk.sync(fd)
        finally:
            disk.close(fd)
        disk.replace(temporary, path)
        disk.sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        again = "Free space or make the folder writable, then try again."
        remedy = "Name a file in it." if error.errno == errno.EISDIR else again
        raise not_saved(path, error, remedy) from error


def sweep(folder: Path, now: float) -> None:
    """Remove the temporary files of programs that were killed while they replaced a file.

    One that is younger than an hour may belong to a program that is still at it.
    """
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name) and path.lstat().st_mtime < now - _ABANDONED:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def writing_beside(note: Path, paths: Sequence[Path]) -> Iterator[None]:
    """Replace files in folders that are not ours: whatever a kill leaves there is known by a note.

    `sweep_beside` with that note removes it.
    """
    replace_file(note, "\0".join([str(os.getpid()), *map(str, paths)]).encode())
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def is_running(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def sweep_beside(note: Path) -> None:
    """Remove what a program left that was killed while it wrote beside these files."""
    with contextlib.suppress(OSError, ValueError):
        pid, *paths = os.fsdecode(note.read_bytes()).split("\0")
        if is_running(int(pid)):
            return
        for path in map(Path, paths):
            for left in path.parent.iterdir():
                if left.name.startswith(f".{path.name[:100]}.") and _TEMPORARY.fullmatch(left.name):
                    left.unlink(missing_ok=True)
        note.unlink(missing_ok=True)


def sync_young_folders(folder: Path, disk: Disk = REAL) -> None:
    """Make a folder's own name durable, and those of its parents that belong to this user.

    Whoever created them may have been killed before this was done.
    """
    for young in (folder, *folder.parents)[:_YOUNG]:
        if young.stat().st_uid != os.geteuid():
            return
        disk.sync_folder(young)


def keep_blob(folder: Path, data: bytes, disk: Disk = REAL) -> str:
    """Store bytes under their own hash, durably, and return the hash."""
    digest = hashlib.sha256(data).hexdigest()
    there: bytes | None = None
    with contextlib.suppress(OSError):  # whatever stands there instead is replaced
        there = read_regular(folder / digest, most=len(data))
    if there == data:
        try:
            # Whoever put it there may have been killed before its name was durable.
            disk.sync_folder(folder)
        except OSError as error:
            raise not_saved(folder / digest, error) from error
        return digest
    try:
        replace_file(folder / digest, data, disk)
    except EntryNotSaved as error:
        raise EntryNotSaved(error.what, _KEPT) from error
    return digest


def read_blob(folder: Path, digest: str) -> bytes:
    """The bytes that were stored under a hash, checked against it."""
    try:
        data = read_regular(folder / digest, most=LARGEST_BLOB)
    except OSError as error:
        raise PlaceError(
            f"The blob {digest[:12]}… cannot be read: {error.strerror}.",
            "Restore it from a backup; `mindstone verify` lists every line that names it.",
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise PlaceError(
            f"The blob {digest[:12]}… is not what it was: its hash differs.",
            "Restore it from a backup; `mindstone verify` lists every line that names it.",
        )
    return data


def open_regular(path: Path, *, follow: bool = True) -> int:
    """Open an ordinary file for reading; raises `OSError` for a pipe, a device or a folder.

    Opening a pipe would wait for somebody to write to it, so nothing is waited for here.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    if "\0" in str(path):  # as somebody wrote it into a session; no file is called so
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    fd = os.open(path, flags)
    info = os.fstat(fd)
    hollow = info.st_size - info.st_blocks * 512 > _MOST_HOLLOW
    if hollow and os.lseek(fd, 0, os.SEEK_HOLE) == info.st_size:
        hollow = os.lseek(fd, 0, os.SEEK_SET) > 0  # the file system packs it well
    if stat.S_ISREG(info.st_mode) and not hollow:
        return fd
    os.close(fd)
    if stat.S_ISDIR(info.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, NEVER_WRITTEN if hollow else NOT_ORDINARY, str(path))


def read_regular(path: Path, *, most: int = LARGEST_FILE, follow: bool = True) -> bytes:
    """The bytes of an ordinary file; raises `OSError` for one that is larger than `most`."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"It is larger than {most:,} bytes", str(path))
        # In pieces: asked for the most that may come, the interpreter would make room for it.
        pieces = [file.read(_READ_AT_ONCE)]
        while pieces[-1] and sum(map(len, pieces)) <= most:
            pieces.append(file.read(_READ_AT_ONCE))
    if pieces[-1] is None:  # the kernel's own, which wait for news
        raise OSError(errno.EINVAL, NOT_ORDINARY, str(path))
    data = b"".join(pieces)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"It is larger than {most:,} bytes", str(path))
    return data


def status_of(path: Path) -> os.stat_result | None:
    """What is known of a file; None where there is none that can be looked at."""
    with contextlib.suppress(OSError):
        return path.stat()
    return None


def read_stored(path: Path, kind: type[T]) -> T | None:
    """A file of our own as its type; None where there is none that can be read."""
    with contextlib.suppress(OSError, DecodeError):
        return bounded_json.read_as(read_regular(path), kind)
    return None


@contextlib.contextmanager
def held(fd: int, *, wait: float, busy: str) -> Iterator[None]:
    """Hold the kernel's exclusive lock on an open file; it is freed even by a crash."""
    deadline = time.monotonic() + wait
    pause = 0.0002
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise SessionBusy(
                    busy, "Wait for the other program, or end it, and try again."
                ) from error
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextlib.contextmanager
def settled(fd: int) -> Iterator[None]:
    """Wait, but not for long, until nobody is in the middle of a write.

    A writer holds its lock for a few milliseconds. One that hangs must not hang its readers, so
    in the end they go on with whatever whole lines there are.
    """
    for _ in range(_PATIENCE):
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
            continue
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
        return
    yield


def take_lock(path: Path, disk: Disk = REAL) -> int | None:
    """The file with a lock on it, or None when somebody else has that."""
    try:
        fd = disk.open(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise place_error(path, error) from error
    try:
        # The kernel's lock goes with the process: a crash leaves nothing that must be removed.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def place_error(path: Path, error: OSError) -> PlaceError:
    """Say in one sentence why a place cannot be used."""
    remedy = "Set MINDSTONE_HOME to a folder of your own that can be written."
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            what = f"{path} cannot be written: {error.strerror}."
        case errno.ENOSPC | errno.EDQUOT:
            what, remedy = f"The disk under {path} is full.", "Free some space and try again."
        case errno.ELOOP:
            what = f"{path} is a symbolic link, and links are not followed here."
            remedy = "Put the real file there, or set MINDSTONE_HOME to where it is."
        case errno.EINVAL if error.strerror == NOT_ORDINARY:
            what = f"{path} is no ordinary file."
            remedy = "Move it away: a pipe or a device cannot be read here."
        case errno.EISDIR:
            what = f"{path} is a folder, but a file is needed there."
            remedy = "Move it away, or set MINDSTONE_HOME to another folder."
        case errno.ENOTDIR | errno.EEXIST:
            what = f"{path} cannot be made: something on the way is a file, not a folder."
        case _:
            what = f"{path} cannot be used: {error.strerror}."
    return PlaceError(what, remedy)


def not_saved(path: Path, error: OSError, remedy: str = _KEPT) -> EntryNotSaved:
    """Say loudly that something is not on disk, and why."""
    return EntryNotSaved(f"NOT SAVED: {path.name} could not be written ({error.strerror}).", remedy)
