"""Checks of what continuity rests on, each with a remedy: what `mindstone doctor` asks here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from mindstone_tui.core.context.asking import Count
from mindstone_tui.core.entries import Part
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.handoff.checkpoint import Checkpoint
from mindstone_tui.core.health.alerts import DISK_FULL, DISK_LOW
from mindstone_tui.core.memory.files import read_shelf
from mindstone_tui.core.memory.standing import invariants, standing_sections
from mindstone_tui.core.places import AgentPlaces, SessionPlaces

Status = Literal["pass", "warn", "fail", "info"]


class Check(Part, omit_defaults=False):
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def disk_free(folder: Path) -> int | None:
    """Bytes left where a folder is, or will be; None when nobody can say."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def check_disk(free: int | None) -> Check:
    """Whether history has room to grow."""
    if free is None:
        return Check(name="disk", status="info", detail="nobody can say how much is free")
    status: Status = "fail" if free < DISK_FULL else "warn" if free < DISK_LOW else "pass"
    remedy = "" if status == "pass" else "Free some space: nothing is said that cannot be saved."
    return Check(name="disk", status=status, detail=f"{free >> 20:,} MiB free", remedy=remedy)


def check_privacy(places: SessionPlaces) -> Check:
    """Whether anybody else on this machine can read the session."""
    loose = [
        path.name
        for path in (places.folder, places.transcript, places.checkpoint, places.notes)
        if path.exists() and path.stat().st_mode & 0o077
    ]
    if not loose:
        return Check(name="privacy", status="pass", detail="files are their owner's alone")
    return Check(
        name="privacy",
        status="warn",
        detail=f"others can read {', '.join(loose)}",
        remedy=f"chmod -R go= {places.folder}",
    )


def check_memory(
    places: AgentPlaces, count: Count, *, standing: int, ruling: int
) -> Iterator[Check]:
    """Whether memory files can be read, and what of them does not fit its room."""
    shelf = read_shelf(places)
    yield Check(name="memory", status="pass", detail=f"{len(shelf.live)} memories in force")
    for one in shelf.unreadable:
        yield Check(
            name="memory",
            status="warn",
            detail=f"{one.file}: {one.why}",
            remedy="Correct the file, or move it out of the memory folder.",
        )
    for warning in standing_sections(places, standing, count)[1]:
        yield Check(name="standing", status="warn", detail=warning, remedy="Shorten it.")
    if warning := invariants(shelf, ruling, count).warning:
        yield Check(
            name="invariants",
            status="warn",
            detail=warning,
            remedy="Shorten them, or raise memory.invariant_tokens.",
        )


def check_checkpoint(load: Callable[[], Checkpoint], places: SessionPlaces) -> Check:
    """Whether the last checkpoint could be resumed from."""
    if not places.checkpoint.exists():
        return Check(name="checkpoint", status="info", detail="none was saved yet")
    try:
        checkpoint = load()
    except ContinuityError as error:
        return Check(name="checkpoint", status="warn", detail=error.what, remedy=error.remedy)
    return Check(
        name="checkpoint",
        status="pass",
        detail=f"version {checkpoint.version} of {checkpoint.saved_at}",
    )
