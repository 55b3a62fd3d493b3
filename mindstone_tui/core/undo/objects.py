"""A store of file contents beside a session, addressed by SHA-256.

Contents are appended to one pack and synced once, however many there are; then their places are
appended to a table and synced. A crash between the two leaves bytes that nobody points to. What is
read is hashed again, so a damaged byte is an error and never a wrong file. The user's repository,
its index and its HEAD have no part in this.

To let contents go, a new pack and then its table are written; the table with the highest number
is the one that counts, so that a crash leaves the old pair or the new one.
"""

import contextlib
import hashlib
import os
import struct
from collections.abc import Container
from pathlib import Path
from typing import Final

from mindstone_tui.core import errors, patterns
from mindstone_tui.core.disk import REAL, Disk, ensure_folder, place_error, replace_with, status_of

_PLACE: Final = struct.Struct(">32sQQ")
"""Hash, offset, size."""
_AT_ONCE: Final = 1 << 24
_FILE: Final = patterns.pattern_of(r"objects(?:-([0-9]{1,9}))?\.(table|pack)")
TREES: Final = "trees.msgpack"
"""Beside the objects: the folders that are known whole, each as it was seen last."""


class ObjectStore:
    """The contents that one session keeps."""

    _fd: int | None = None

    def __init__(self, folder: Path, *, limit: int, disk: Disk = REAL) -> None:
        self.folder = folder
        self._limit = limit
        self._disk = disk
        self._number = 0
        """Which pack and table count."""
        self._places: dict[str, tuple[int, int]] = {}
        self._read = 0
        """Bytes of the table that were taken in."""
        self._waiting: dict[str, bytes] = {}
        self._waiting_size = 0
        self._size = 0
        self.limited = True
        """Whether the limit counts: not while somebody else's files are about to be overwritten."""
        self.turned_away = 0
        """Bytes that were not kept for want of room."""

    @property
    def _pack(self) -> Path:
        return self._file("pack", self._number)

    @property
    def _table(self) -> Path:
        return self._file("table", self._number)

    def _file(self, kind: str, number: int) -> Path:
        return self.folder / (f"objects-{number}.{kind}" if number else f"objects.{kind}")

    def _newest(self) -> int:
        return max((number for number, kind, _ in self._files() if kind == "table"), default=0)

    def _files(self) -> list[tuple[int, str, Path]]:
        """Every pack and table: its number, which of the two it is, and where."""
        try:
            found = [(_FILE.fullmatch(each.name), each) for each in self.folder.iterdir()]
        except OSError:
            return []
        return [(int(name[1] or 0), name[2], path) for name, path in found if name]

    def refresh(self) -> None:
        """Take in what another process of the same session stored."""
        if (number := self._newest()) != self._number:
            self.close()
            self._places.clear()
            self._number, self._read = number, 0
        self._size = _size_of(self._pack)
        whole = _size_of(self._table) // _PLACE.size * _PLACE.size
        if whole < self._read:
            self._places.clear()
            self._read = 0
        if whole == self._read:
            return
        with self._table.open("rb") as file:
            file.seek(self._read)
            data = file.read(whole - self._read)
        for digest, offset, size in _PLACE.iter_unpack(
            data[: len(data) // _PLACE.size * _PLACE.size]
        ):
            if offset + size <= self._size:
                self._places[digest.hex()] = (offset, size)
        self._read = whole

    def __contains__(self, digest: str) -> bool:
        return digest in self._places or digest in self._waiting

    def beginning_with(self, start: str) -> list[str]:
        """The hashes here that begin so."""
        return [digest for digest in self._places if digest.startswith(start)]

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may be kept; those that may not are added up."""
        room = not self.limited or self._size + self._waiting_size + size <= self._limit
        self.turned_away += 0 if room else size
        return room

    def size_of(self, digest: str) -> int:
        """Bytes of a content; 0 where it is not here."""
        return self._places.get(digest, (0, 0))[1]

    def put(self, data: bytes) -> str:
        """Take bytes in; they are kept for good once `save` returns."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self:
            self._waiting[digest] = data
            self._waiting_size += len(data)
            if self._waiting_size > _AT_ONCE:
                self.save()
        return digest

    def save(self) -> None:
        """Make everything that was put survive a power cut."""
        if not self._waiting:
            return
        ensure_folder(self.folder, self._disk)
        try:
            self._append(self._waiting)
        except OSError as error:
            raise place_error(self._pack, error) from error
        finally:
            self._waiting = {}
            self._waiting_size = 0

    def _append(self, contents: dict[str, bytes]) -> None:
        pack = self._disk.open(self._pack, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            offset = self._disk.size(pack)
            _write(self._disk, pack, b"".join(contents.values()))
            self._disk.sync(pack)
        finally:
            self._disk.close(pack)
        places: dict[str, tuple[int, int]] = {}
        for digest, data in contents.items():
            places[digest] = (offset, len(data))
            offset += len(data)
        table = self._disk.open(self._table, os.O_WRONLY | os.O_CREAT)
        try:
            # A row that a crash tore is written over.
            at = self._disk.size(table) // _PLACE.size * _PLACE.size
            self._disk.truncate(table, at)
            os.lseek(table, at, os.SEEK_SET)
            rows = (_PLACE.pack(bytes.fromhex(key), *place) for key, place in places.items())
            _write(self._disk, table, b"".join(rows))
            self._disk.sync(table)
        finally:
            self._disk.close(table)
        if not self._read:
            self._disk.sync_folder(self.folder)
        self._places |= places
        self._size = offset
        self._read = at + len(places) * _PLACE.size

    def let_go(self, keep: Container[str]) -> None:
        """Keep these contents and no others."""
        self.save()
        kept = {key: place for key, place in self._places.items() if key in keep}
        number = self._number + 1
        try:
            places = self._copy(kept, self._file("pack", number))
        except OSError as error:
            raise place_error(self._file("pack", number), error) from error
        rows = (_PLACE.pack(bytes.fromhex(key), *place) for key, place in places.items())
        replace_with(self._file("table", number), rows, self._disk)
        self.tidy()
        self.refresh()

    def tidy(self) -> None:
        """Remove packs and tables that do not count any more."""
        newest = self._newest()
        for number, _, path in self._files():
            if number < newest:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _copy(
        self, contents: dict[str, tuple[int, int]], target: Path
    ) -> dict[str, tuple[int, int]]:
        """Write a new pack, in the order of the old one; where everything is in it."""
        places: dict[str, tuple[int, int]] = {}
        offset = 0
        pack = self._disk.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            for key, (start, size) in sorted(contents.items(), key=lambda each: each[1]):
                _write(self._disk, pack, os.pread(self._opened(), size, start))
                places[key] = (offset, size)
                offset += size
            self._disk.sync(pack)
        finally:
            self._disk.close(pack)
        self._disk.sync_folder(self.folder)  # before a table may point to it
        return places

    def get(self, digest: str) -> bytes:
        """The bytes with this hash; raises `UndoError` where they are not, or not any more."""
        if digest in self._waiting:
            return self._waiting[digest]
        data = self._stored(digest)
        if data is None and self._newest() != self._number:  # another process let contents go
            self.refresh()
            data = self._stored(digest)
        if data is None:
            raise errors.UndoError(
                f"The content {digest[:12]} of an earlier state is not in {self.folder}.",
                "That file cannot be put back; `/diff` shows what the transcript knows of it.",
            )
        return data

    def _stored(self, digest: str) -> bytes | None:
        place = self._places.get(digest)
        if place is None:
            return None
        try:
            data = os.pread(self._opened(), place[1], place[0])
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def _opened(self) -> int:
        if self._fd is None:
            self._fd = self._disk.open(self._pack, os.O_RDONLY)
        return self._fd

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Give the files back, at the latest when nobody holds this any more."""
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def _write(disk: Disk, fd: int, data: bytes) -> None:
    written = disk.write(fd, data)
    while written < len(data):
        written += disk.write(fd, data[written:])


def _size_of(path: Path) -> int:
    found = status_of(path)
    return found.st_size if found else 0
