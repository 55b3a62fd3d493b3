"""The agent's memory folder: which files may be written, and the counts that need no consent."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from mindstone_tui.core.disk import REAL, Disk, replace_file
from mindstone_tui.core.errors import ContinuityError
from mindstone_tui.core.memory.files import INDEX, Memory, parse, read_shelf, read_text, render
from mindstone_tui.core.memory.standing import index_text
from mindstone_tui.core.places import AgentPlaces

STANDING: Final = frozenset({"USER.md", "IDENTITY.md"})


def write_index(places: AgentPlaces, disk: Disk = REAL) -> None:
    """Bring `MEMORY.md` up to date with the files beside it."""
    if places.memory.is_dir():
        text = index_text(read_shelf(places))
        replace_file(places.memory / INDEX, text.encode(), disk)


def credit(
    places: AgentPlaces, file: str, *, now: str, prevented: bool = False, disk: Disk = REAL
) -> Memory:
    """Count a use, or a prevented mistake; the memory's words are not touched."""
    path = path_of(places, f"memory/{file}")
    memory = parse(read_text(path))
    counted = msgspec.structs.replace(
        memory,
        hits=memory.hits + (not prevented),
        prevented=memory.prevented + prevented,
        last_applied=now,
    )
    replace_file(path, render(counted).encode(), disk)
    return counted


def current_text(places: AgentPlaces, path: str) -> str:
    """The file as it is now; empty when there is none."""
    file = path_of(places, path)
    return read_text(file) if file.exists() or file.is_symlink() else ""


def path_of(places: AgentPlaces, path: str) -> Path:
    """Where a proposal may write: a file of the memory folder, or a standing file."""
    parts = PurePosixPath(path).parts
    inside = len(parts) == 2 and parts[0] == "memory" and parts[1] != INDEX
    name = parts[-1] if parts else ""
    if path in STANDING:
        return places.folder / path
    if inside and name.endswith(".md") and not name.startswith(".") and "\\" not in name:
        return places.memory / name
    raise ContinuityError(
        f"{path} is no place for a memory.", "Memories live in memory/<name>.md and USER.md."
    )


def same_words(one: str, other: str) -> bool:
    """Whether two texts of a memory say the same; how often it was used does not count."""
    if one == other:
        return True
    try:
        return _uncounted(parse(one)) == _uncounted(parse(other))
    except ContinuityError:
        return False


def with_counts_of(text: str, current: str) -> str:
    """The text with the counts that its file has gathered meanwhile."""
    try:
        memory, counted = parse(text), parse(current)
    except ContinuityError:
        return text
    return render(
        msgspec.structs.replace(
            memory,
            hits=max(memory.hits, counted.hits),
            prevented=max(memory.prevented, counted.prevented),
            last_applied=max(memory.last_applied, counted.last_applied),
        )
    )


def _uncounted(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, hits=0, prevented=0, last_applied="")
