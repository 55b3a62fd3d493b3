"""LOG.md, a section per checkpoint, and journals, a file per day; both only grow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from mindstone_tui.core.disk import REAL, Disk, ensure_folder, not_saved, write_all
from mindstone_tui.core.entries import Part
from mindstone_tui.core.paths import AgentPlaces


class LogSection(Part):
    """What a checkpoint adds to the log."""

    session: str
    version: int
    happened: tuple[str, ...]
    decisions: tuple[str, ...] = ()
    cited: tuple[str, ...] = ()
    """Memories that answers leaned on."""
    prevented: tuple[str, ...] = ()
    """Mistakes that a memory kept from happening again."""
    proposed: tuple[str, ...] = ()
    """Memories that wait for a decision."""


def log_text(section: LogSection, at: datetime) -> str:
    """The section as Markdown; empty parts are left out."""
    return _markdown(
        f"{at:%Y-%m-%d %H:%M} · checkpoint {section.version} · {section.session}",
        (
            ("What happened", section.happened),
            ("Decisions", section.decisions),
            ("Memories cited", section.cited),
            ("Mistakes prevented", section.prevented),
            ("Memories proposed", section.proposed),
        ),
    )


def write_log(places: AgentPlaces, section: LogSection, at: datetime, disk: Disk = REAL) -> Path:
    """Add a section to the agent's log."""
    add(places.log, log_text(section, at), "# Log\n", disk)
    return places.log


def write_journal(
    places: AgentPlaces,
    session: str,
    at: datetime,
    parts: Sequence[tuple[str, Sequence[str]]],
    disk: Disk = REAL,
) -> Path:
    """Add what a consolidation found to the journal of its day."""
    path = places.journals / f"{at:%Y-%m-%d}.md"
    text = _markdown(f"{at:%H:%M} · {session}", parts)
    add(path, text, f"# Journal of {at:%Y-%m-%d}\n", disk)
    return path


def _markdown(title: str, parts: Sequence[tuple[str, Sequence[str]]]) -> str:
    blocks = [f"\n## {title}\n"]
    for heading, items in parts:
        if items:
            lines = (" ".join(item.split()) for item in items)
            blocks.append("\n".join([f"### {heading}", *(f"- {line}" for line in lines), ""]))
    return "\n".join(blocks)


def add(path: Path, text: str, opening: str, disk: Disk = REAL) -> None:
    """Append to a file for people, durably; what stands there is never touched."""
    ensure_folder(path.parent, disk)
    try:
        fd = disk.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            start = "" if disk.size(fd) else opening
            write_all(fd, (start + text).encode(), disk)
            disk.sync(fd)
        finally:
            disk.close(fd)
    except OSError as error:
        raise not_saved(path, error) from error
