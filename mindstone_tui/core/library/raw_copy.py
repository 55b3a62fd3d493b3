"""Another program's session file as it was, byte for byte, where somebody said yes to that.

The transcript holds what was said, with secrets blacked out. This holds what the other program
wrote, secrets included, so that it can have its file back after it was deleted. New bytes are
added compressed; nothing here is exported, synced or sent to a server.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, paths
from mindstone_tui.core.interchange.read_bytes import open_file

_PIECE: Final = 4 << 20
"""Bytes of the file that one piece of the copy holds at most."""
_SMALL: Final = 1 << 16
"""A last piece up to this size grows with what is new, so that there are not thousands."""


class RawSource(msgspec.Struct, kw_only=True):
    """What is known of the file that is kept."""

    path: str
    full: bool = False
    """The copy has reached its limit, and ends before the file does."""


class RawCopy:
    """The copy that belongs to one session."""

    def __init__(self, places: paths.SessionPlaces) -> None:
        self._folder = places.folder / "raw"
        self._about = self._folder / "source.json"

    @property
    def source(self) -> RawSource | None:
        """The file it was taken from; None where nothing is kept."""
        return disk.read_stored(self._about, RawSource)

    def take(self, file: Path, most: int) -> bool:
        """Add what is new in the file; False once the copy has become as large as it may.

        A file that was replaced by another begins a copy of its own, and the one before stays.
        """
        if (known := self.source) is None or known.path != str(file):
            disk.ensure_folder(self._folder)
            known = RawSource(path=str(file))
            disk.replace_file(self._about, msgspec.json.encode(known))
        generation = self._newest()
        with open_file(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            pieces = _chain(generation)
            at, last = (pieces[-1][0], _read(pieces[-1])) if pieces else (0, b"")
            stream.seek(at)
            if stream.read(len(last)) != last:
                generation, at, last = self._folder / str(int(self._newest().name) + 1), 0, b""
            end = at + len(last)
            stream.seek(end)
            while end < size and (new := stream.read(_PIECE)):
                grown = len(last) <= _SMALL
                start, data = (at, last + new) if grown else (end, new)
                packed = zlib.compress(data)
                if self.size + len(packed) > most:
                    known.full = True
                    disk.replace_file(self._about, msgspec.json.encode(known))
                    return False
                disk.ensure_folder(generation)
                disk.replace_file(_piece(generation, start, start + len(data)), packed)
                if grown and last:  # it is in the new one
                    _piece(generation, at, end).unlink(missing_ok=True)
                at, last, end = start, data, start + len(data)
        return True

    @property
    def size(self) -> int:
        """Bytes that the copy takes on disk."""
        return sum(path.stat().st_size for path in self._folder.glob("*/*.z"))

    def give_back(self) -> Path:
        """Write the file where it was; raises where another one is there by now."""
        source = self.source
        pieces = _chain(self._newest())
        if source is None or not pieces:
            raise errors.InterchangeError(
                "No raw copy of this session is kept.",
                "`mindstone attach PROGRAM --keep-raw` keeps one of what is written from then on.",
            )
        path = Path(source.path)
        if path.exists():
            whole = b"".join(map(_read, pieces))
            if disk.read_regular(path)[: len(whole)] == whole:
                return path
            raise errors.InterchangeError(
                f"{path} is there, and is not what was kept.", "Move it first."
            )
        disk.replace_with(path, map(_read, pieces))
        return path

    def _newest(self) -> Path:
        begun = (int(each.name) for each in self._folder.glob("[0-9]*"))
        return self._folder / str(max(begun, default=1))


def _piece(folder: Path, start: int, end: int) -> Path:
    return folder / f"{start}-{end}.z"


def _read(piece: tuple[int, int, Path]) -> bytes:
    return zlib.decompress(piece[2].read_bytes())


def _chain(folder: Path) -> list[tuple[int, int, Path]]:
    """The pieces from the first byte on, without a gap; of two that begin alike the longer one."""
    named: dict[int, tuple[int, int, Path]] = {}
    for path in folder.glob("*-*.z"):
        start, end = map(int, path.stem.split("-"))
        if start not in named or named[start][1] < end:
            named[start] = (start, end, path)

    def walk() -> Iterator[tuple[int, int, Path]]:
        at = 0
        while at in named:
            yield named[at]
            at = named[at][1]

    return list(walk())
