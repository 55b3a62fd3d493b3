"""Which files of other programs were taken over whole, so that a next import can pass them by.

A line a file, appended when it is done: an import that is cut off anywhere goes on with the files
that are not in it. A file that changed since counts as new; the list can be deleted at any time.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from mindstone_tui.core.disk import REAL, ensure_folder, read_regular
from mindstone_tui.core.interchange.discover import SessionFile
from mindstone_tui.core.paths import Places

_LARGEST: Final = 256 << 20


class _Done(msgspec.Struct, frozen=True, array_like=True):
    path: str
    size: int
    changed: float
    inode: int


class ImportedFiles:
    """The list of one home."""

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
        ensure_folder(self._path.parent)
        descriptor = REAL.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, msgspec.json.encode(done) + b"\n")
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, _Done]:
        try:
            raw = read_regular(self._path, most=_LARGEST)
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
