"""What other programs keep on this machine and no history here has yet."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mindstone_tui.core import disk, signals
from mindstone_tui.core.interchange import discover
from mindstone_tui.core.interchange.discover import SessionFile
from mindstone_tui.core.interchange.formats import formats
from mindstone_tui.core.paths import Places

_BYTES_A_SECOND: Final = 4_000_000
"""About what an import takes in on each core, for a guess that is told."""


class Elsewhere(NamedTuple):
    """What one program keeps in one folder, and what of it is new."""

    found: discover.ProgramFiles
    new: tuple[SessionFile, ...]
    days: int
    """After how many days the program deletes its own files; 0 for never."""

    @property
    def is_read(self) -> bool:
        """Whether this program's sessions can be taken over at all."""
        return self.found.program in formats()

    @property
    def title(self) -> str:
        """The program's name as people know it."""
        return formats()[self.found.program].title if self.is_read else self.found.program

    @property
    def size(self) -> int:
        """Bytes of what is new."""
        return sum(file.size for file in self.new)

    @property
    def going(self) -> int:
        """How many of the new ones their program deletes soon."""
        return discover.going_soon(self.new, self.days)


def elsewhere(
    home: Places, environ: Mapping[str, str], project: Path | None = None
) -> list[Elsewhere]:
    """Each program that has sessions here, the one used last first."""
    done = ImportedFiles(home)
    return [
        Elsewhere(
            found,
            tuple(file for file in found.files if not done.has(file)),
            discover.days_kept(environ, found.program),
        )
        for found in discover.find_programs(environ, project)
    ]


def seconds_by_words(size: int) -> float:
    """About how long so many bytes take to be found by words."""
    return 1 + size / _BYTES_A_SECOND / signals.usable_cores()


_LARGEST: Final = 256 << 20


class _Done(msgspec.Struct, frozen=True, array_like=True):
    path: str
    size: int
    changed: float
    inode: int


class ImportedFiles:
    """Files of other programs that were taken over already, for one home."""

    def __init__(self, home: Places) -> None:
        self._path = home.state / "imported.jsonl"
        self._done = self._read()

    def has(self, file: SessionFile) -> bool:
        """Whether a file was taken over as it is now."""
        return self._done.get(str(file.path)) == _as_done(file)

    def add(self, file: SessionFile) -> None:
        """A file is done; what it held is on disk."""
        done = _as_done(file)
        self._done[done.path] = done
        disk.ensure_folder(self._path.parent)
        disk.append(self._path, msgspec.json.encode(done) + b"\n")

    def _read(self) -> dict[str, _Done]:
        try:
            raw = disk.read_regular(self._path, most=_LARGEST)
        except OSError:
            return {}
        found: dict[str, _Done] = {}
        for line in raw.splitlines():
            try:
                done = msgspec.json.decode(line, type=_Done)
            except (msgspec.MsgspecError, UnicodeError):
                continue
            found[done.path] = done
        return found


def _as_done(file: SessionFile) -> _Done:
    path = os.fsencode(file.path).decode("utf-8", "replace")
    return _Done(path, file.size, file.changed, file.inode)
