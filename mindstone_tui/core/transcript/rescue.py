"""Files with what could not be saved: read back, so that the words get into a history after all.

`Transcript.rescue` writes them. Each line has the session, the time and the turn it belongs to,
and the fields of its entry; long texts stand in files beside it.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mindstone_tui.core import disk, entries, errors, patterns
from mindstone_tui.core.transcript.encode import restore

CHANNEL: Final = "rescue"
"""Marks lines that were written after the program that had them was gone."""
_NAME: Final = patterns.pattern_of(r"unsaved-\w+-(\d+)\.jsonl")


def left_behind(folder: Path) -> Iterator[Path]:
    """The files of programs that are gone, oldest first."""
    for path in sorted(folder.glob("unsaved-*.jsonl")):
        if (found := _NAME.fullmatch(path.name)) and not disk.is_running(int(found[1])):
            yield path


def waiting(folder: Path) -> Counter[str]:
    """How many lines of each session could not be saved by programs that are gone."""
    found: Counter[str] = Counter()
    for path in left_behind(folder):
        with contextlib.suppress(errors.MindstoneError, OSError):
            found.update(session for session, _ in read_rescued(path))
    return found


def read_rescued(path: Path) -> Iterator[tuple[str, entries.Draft]]:
    """Each entry of a file with its session, which older files do not name; broken lines are none.

    Raises `OSError` or `PlaceError` where the file cannot be read.
    """
    beside = path.parent / "blobs"
    for raw in disk.read_regular(path).splitlines():
        try:
            fields: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
            ts, turn = str(fields.pop("ts")), fields.pop("turn")
            session, kind = str(fields.pop("session", "")), entries.KINDS[fields["kind"]]
            blobs = msgspec.convert(fields.pop("blobs", {}), dict[str, entries.Blob])
            fields.pop("altered", None)
            restore(fields, blobs, lambda digest: disk.read_blob(beside, digest).decode())
            entry = msgspec.convert(fields, kind)
        except (msgspec.MsgspecError, KeyError):
            continue
        yield session, entries.Draft(entry=entry, turn=turn, channel=CHANNEL, ts=ts)
