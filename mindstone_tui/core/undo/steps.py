"""Which turns changed which files, in order, and which of that was taken back since.

A fold over the two kinds of entries that tell of files; the contents are in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final, Literal

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.workspace import FileChange, FilesChanged, FilesRestored
from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.undo.changes import ChangeSet, PathChange, together
from mindstone_tui.core.undo.scan import Node

KINDS: Final = ("files_changed", "files_restored")
_MOST_NAMED: Final = 50
"""Changes that stand in the entry itself."""


class FileStep:
    """One entry and what it says; its list is read from the store when somebody asks for it."""

    def __init__(
        self, line: Line, entry: FilesChanged | FilesRestored, get: Callable[[str], bytes]
    ) -> None:
        self.seq = line.seq
        self.turn = line.turn
        self.root = entry.root
        self.restored = entry if isinstance(entry, FilesRestored) else None
        self.by = _maker(entry)
        """The tool and its call, or who put it back."""
        self._manifest = entry.manifest
        self._get = get

    @cached_property
    def changes(self) -> tuple[PathChange, ...]:
        """The list, whole; raises `UndoError` where it is lost."""
        return ChangeSet.decode(self._get(self._manifest)).changes

    @property
    def known_changes(self) -> tuple[PathChange, ...]:
        """The list, empty where it is lost."""
        try:
            return self.changes
        except UndoError:
            return ()


def _maker(entry: FilesChanged | FilesRestored) -> str:
    if isinstance(entry, FilesRestored):
        return f"/{entry.direction}"
    return f"{entry.name} ({entry.call})" if entry.call else entry.name


class FileSteps:
    """The story of a session's files."""

    def __init__(self, steps: Iterable[FileStep]) -> None:
        self.steps = list(steps)
        self.applied: list[int] = []
        """Turns whose changes are in force, oldest first."""
        self.undone: list[tuple[int, ...]] = []
        """What can be done again, newest last."""
        for step in self.steps:
            self._take(step)

    def _take(self, step: FileStep) -> None:
        if step.restored is None:
            if step.turn not in self.applied:
                self.applied.append(step.turn)
            self.undone.clear()
        elif step.restored.direction == "undo":
            self.applied = [turn for turn in self.applied if turn not in step.restored.turns]
            self.undone.append(step.restored.turns)
        else:
            self.undone = [turns for turns in self.undone if turns != step.restored.turns]
            self.applied = sorted({*self.applied, *step.restored.turns})

    def of_turns(self, turns: Iterable[int]) -> list[ChangeSet]:
        """What these turns did, a set for each root."""
        wanted = frozenset(turns)
        by_root: dict[str, list[tuple[PathChange, ...]]] = {}
        for step in self.steps:
            if step.restored is None and step.turn in wanted:
                by_root.setdefault(step.root, []).append(step.changes)
        found = [ChangeSet(root, together(sets)) for root, sets in by_root.items()]
        return [each for each in found if each.changes]

    def at(self, turn: int) -> dict[tuple[str, str], Node | None]:
        """Every path that was ever touched as it stood when a turn had ended."""
        states: dict[tuple[str, str], Node | None] = {}
        later: dict[tuple[str, str], Node | None] = {}
        for step in self.steps:
            # What a person put back after a turn bears that turn's number and came after its end.
            past = step.turn < turn if step.restored else step.turn <= turn
            for each in step.known_changes:
                key = (step.root, each.path)
                if past:
                    states[key] = each.after
                else:
                    later.setdefault(key, each.before)
        return {**later, **states}

    def why(self, root: str, path: str) -> FileStep | None:
        """The newest step that made a path what it is."""
        for step in reversed(self.steps):
            if step.root == root and any(each.path == path for each in step.known_changes):
                return step
        return None


def read_steps(lines: Iterable[Line], get: Callable[[str], bytes]) -> FileSteps:
    """The story from its entries, oldest first; `get` reads a list from the store."""
    return FileSteps(
        FileStep(line, line.entry, get)
        for line in lines
        if isinstance(line.entry, FilesChanged | FilesRestored)
    )


def named(changes: tuple[PathChange, ...]) -> tuple[FileChange, ...]:
    """The first changes as an entry holds them."""
    return tuple(
        FileChange(path=each.path, before=_state(each.before), after=_state(each.after))
        for each in changes[:_MOST_NAMED]
    )


def _state(node: Node | None) -> str:
    if node is None:
        return ""
    match node.kind:
        case "link":
            return f"link {node.digest}"
        case "folder":
            return f"folder {node.mode:o}"
        case kind:
            return f"{kind} {node.mode:o} {node.digest}"


Direction = Literal["undo", "redo"]


def wanted(
    steps: FileSteps, direction: Direction, count: int
) -> tuple[tuple[int, ...], list[ChangeSet]]:
    """Which turns, and every path from the state it should have now to the one it should get."""
    if direction == "undo":
        turns = tuple(steps.applied[-count:]) if count else ()
        sets = steps.of_turns(turns)
        back = [ChangeSet(each.root, tuple(c.turned() for c in each.changes)) for each in sets]
        return turns, back
    turns = steps.undone[-1] if steps.undone else ()
    return turns, steps.of_turns(turns)
