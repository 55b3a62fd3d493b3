"""The ground everything stands on: folders, permissions, file system, space, the session."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from mindstone_tui.core.doctor.base import (
    Check,
    CheckEnvironment,
    Outcome,
    failed,
    passed,
    refused,
    warned,
)
from mindstone_tui.core.errors import MindstoneError
from mindstone_tui.core.interchange.attach import LAUNCHER
from mindstone_tui.core.interchange.launcher import check_content, check_place
from mindstone_tui.core.paths import Places
from mindstone_tui.core.transcript import History, list_sessions

_SPACE_TO_WORK: Final = 100 << 20
_SPACE_TO_FEEL_WELL: Final = 1 << 30
_MOST_LOOKED_AT: Final = 200_000
_MOST_NAMED: Final = 20
_REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "sshfs", "fuse.sshfs", "ncpfs", "davfs"}
)


def checks(around: CheckEnvironment) -> Iterator[Check]:
    """All checks of this file."""
    yield _python()
    yield from _places(around)
    yield _permissions(around)
    yield from _launcher(around)
    yield _file_system(around)
    yield _space(around)
    yield _sessions(around)
    yield _session(around)


def _python() -> Check:
    return passed("python", f"Python {sys.version.split()[0]} on {sys.platform}.")


def _places(around: CheckEnvironment) -> Iterator[Check]:
    places = around.places
    for name, folder in (
        ("config", places.config),
        ("data", places.data),
        ("state", places.state),
    ):
        why = _cannot_write(folder)
        yield Check(
            f"places.{name}",
            "fail" if why else "pass",
            f"{folder} cannot be written: {why}." if why else str(folder),
            "Set MINDSTONE_HOME to a folder of your own that can be written." if why else "",
        )


def _cannot_write(folder: Path) -> str:
    """Why nothing can be written there or, while it is missing, into its nearest parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _permissions(around: CheckEnvironment) -> Check:
    """Files and folders of ours that others on this machine could open."""
    seen = 0
    open_to_others: list[Path] = []
    for path, mode in islice(_ours(around.places), _MOST_LOOKED_AT):
        seen += 1
        if mode & 0o077 and len(open_to_others) <= _MOST_NAMED:
            open_to_others.append(path)
    if not open_to_others:
        more = ", and more were not looked at" if seen == _MOST_LOOKED_AT else ""
        detail = f"Readable only by you: {seen:,} files and folders{more}."
        return passed("permissions", detail)
    return warned(
        "permissions",
        f"{len(open_to_others)} file(s) can be read by others, first {open_to_others[0]}.",
        f"chmod -R go= {shlex.join(map(str, _outermost(open_to_others)))}",
    )


def _ours(places: Places) -> Iterator[tuple[Path, int]]:
    """Every file and folder that we made, with its permissions; not what a person put there."""
    theirs = {places.themes, places.profiles, places.commands, places.skills, places.hooks}
    todo = list(dict.fromkeys((places.data, places.state)))
    for path in (places.config, places.config_file, places.keys, *todo):
        with contextlib.suppress(OSError):
            yield path, path.stat().st_mode
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if entry.is_symlink() or path in theirs:
                    continue
                with contextlib.suppress(OSError):
                    yield path, entry.stat(follow_symlinks=False).st_mode
                if entry.is_dir():
                    todo.append(path)


def _launcher(around: CheckEnvironment) -> Iterator[Check]:
    """Whether what attached programs call is ours, and can only be changed by us."""
    launcher = around.places.state / LAUNCHER
    if not os.path.lexists(launcher):
        return
    try:
        check_place(launcher)
        check_content(launcher)
    except MindstoneError as error:
        yield refused("launcher", error)
    else:
        said = f"{launcher} is what `mindstone attach` wrote, and only you can change it."
        yield passed("launcher", said)


def _outermost(paths: list[Path]) -> list[Path]:
    """Those that stand in none of the others."""
    return [path for path in paths if not any(other in path.parents for other in paths)]


def _file_system(around: CheckEnvironment) -> Check:
    kind = file_system_of(around.places.data)
    if kind in _REMOTE:
        return warned(
            "disk.kind",
            f"Sessions live on a network file system ({kind}), where appends may mix.",
            "Set MINDSTONE_HOME to a local folder.",
        )
    return passed("disk.kind", f"File system: {kind or 'unknown'}.")


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system under a folder; empty where the system does not say."""
    try:
        table = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    path = os.path.realpath(folder)
    for row in table:
        fields = row.split()
        point = fields[1].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _space(around: CheckEnvironment) -> Check:
    folder = around.places.data
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    outcome: Outcome = "pass" if free > _SPACE_TO_FEEL_WELL else "warn"
    if free < _SPACE_TO_WORK:
        outcome = "fail"
    return Check(
        "disk.space",
        outcome,
        f"{free / 1e9:.1f} GB free.",
        "" if outcome == "pass" else "Free some space: the transcript is never deleted.",
    )


def _sessions(around: CheckEnvironment) -> Check:
    found = list_sessions(around.places)
    bad = [summary.session for summary in found if not summary.readable]
    size = sum(summary.size for summary in found)
    if bad:
        return failed(
            "sessions",
            f"{len(bad)} of {len(found)} sessions cannot be read, first {bad[0]}.",
            f"mindstone verify --session {bad[0]}",
        )
    detail = f"{len(found)} session(s), {size / 1e6:.1f} MB." if found else "No sessions yet."
    return passed("sessions", detail)


def _session(around: CheckEnvironment) -> Check:
    """Whether the session opens, and whether its table of offsets agrees with it."""
    places = around.places.session(around.session)
    if not places.transcript.exists():
        if places.derived:
            gone = places.missing()
            return failed("session", gone.what, gone.remedy)
        return passed("session", f"{around.session} has not been started yet.")
    try:
        with History(places) as history:
            history.header  # noqa: B018 (reading it is the check)
            head = history.head
            lines = len(history.offsets)
    except MindstoneError as error:
        return refused("session", error)
    if lines != head.seq + 1:
        return failed(
            "session",
            f"{around.session} has {lines} lines, but its newest is number {head.seq}.",
            f"mindstone verify --session {around.session}",
        )
    return passed("session", f"{around.session} opens: {lines} lines.")
