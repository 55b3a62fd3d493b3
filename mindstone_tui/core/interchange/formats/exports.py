"""What a chat service hands out on request: an archive, or the `conversations*.json` in it.

Arrays of conversations, read one at a time because such files reach gigabytes.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from mindstone_tui.core.interchange.formats.base import Broken, Sample
from mindstone_tui.core.interchange.formats.parts import Numbered
from mindstone_tui.core.interchange.read_bytes import (
    Flaw,
    decode_object,
    elements,
    open_file,
    whole,
)
from mindstone_tui.core.patterns import pattern_of

_ZIP: Final = b"PK\x03\x04"
_MEMBER: Final = pattern_of(r"(?:^|/)conversations[^/]*\.json$")
_LOOK: Final = 1 << 18
_UNREADABLE: Final = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def start_of_export(sample: Sample) -> bytes:
    """How the conversations begin; nothing where a file is no such export."""
    start = sample.start
    if start.startswith(_ZIP):
        start = _start_in_archive(sample.path)
    return start if start.lstrip()[:1] in (b"[", b"{") else b""


def _start_in_archive(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in _members(archive):
                with archive.open(name) as stream:
                    return stream.read(_LOOK)
    except _UNREADABLE:
        pass
    return b""


def _members(archive: zipfile.ZipFile) -> list[str]:
    return sorted(name for name in archive.namelist() if _MEMBER.search(name))


def exported(path: Path) -> Iterator[Numbered | Broken]:
    """Every conversation, numbered within its file."""
    with open_file(path) as stream:
        if stream.read(len(_ZIP)) != _ZIP:
            stream.seek(0)
            yield from _conversations(stream)
            return
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            if not members:
                yield Broken(line=1, why="an archive without conversations.json")
            for name in members:
                yield from _from_member(archive, name)
    except _UNREADABLE as error:
        yield Broken(line=1, why=f"the archive cannot be read: {error}")


def _from_member(archive: zipfile.ZipFile, name: str) -> Iterator[Numbered | Broken]:
    try:
        with archive.open(name) as stream:
            yield from _conversations(stream)
    except _UNREADABLE as error:
        yield Broken(line=1, why=f"{name} in the archive cannot be read: {error}")


def _conversations(stream: IO[bytes]) -> Iterator[Numbered | Broken]:
    start = stream.read(64)
    stream.seek(0)
    is_one = start.lstrip()[:1] == b"{"
    for number, raw in [(1, whole(stream))] if is_one else elements(stream):
        found = decode_object(raw)
        yield Broken(line=number, why=found.why) if isinstance(found, Flaw) else (number, found)
