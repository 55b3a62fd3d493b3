"""What every reader of a foreign format offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from mindstone_tui.core.interchange.records import Record


class Sample(msgspec.Struct, frozen=True):
    """The beginning of a file, enough to tell whose it is."""

    path: Path
    start: bytes
    objects: tuple[dict[str, Any], ...] = ()
    """The first lines that are JSON objects, or the one object that the file is."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One program's way to keep a session."""

    name: str
    title: str
    recognises: Callable[[Sample], bool]
    read: Callable[[Path], Iterator[Record]]
    many: bool = False
    """Whether one file holds many conversations."""
