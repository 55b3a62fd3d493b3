"""Which turns changed which files, in order, and which of that was taken back since.

A fold over the two kinds of entries that tell of files; the contents are in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.workspace import FileChange, FilesChanged, FilesRestored
from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.undo.changes import ChangeSet, PathChange, together
from mindstone_tui.core.undo.scan import Node

KINDS: Final = ("files_changed", "files_restored")
_MOST_NAMED: Final = 50
"""Changes that stand in the entry itself."""


class FileStep(NamedTuple):
    """One entry and what it says, whole."""

    seq: int
    turn: int
    by: str
    """The tool and its call, or who put it back."""
    changes: ChangeSet
    restored: FilesRestored | None = None


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
                by_root.setdefault(step.changes.root, []).append(step.changes.changes)
        found = [ChangeSet(root, together(sets)) for root, sets in by_root.items()]
        return [each for each in found if each.changes]

    def at(self, turn: int) -> dict[tuple[str, str], Node | None]:
        """Every path that was ever touched as it stood when a turn had ended."""
        states: dict[tuple[str, str], Node | None] = {}
        later: dict[tuple[str, str], Node | None] = {}
        for step in self.steps:
            # What a person put back after a turn bears that turn's number and came after its end.
            past = step.turn < turn if step.restored else step.turn <= turn
            for each in step.changes.changes:
                key = (step.changes.root, each.path)
                if past:
                    states[key] = each.after
                else:
                    later.setdefault(key, each.before)
        return {**later, **states}

    def why(self, root: str, path: str) -> FileStep | None:
        """The newest step that made a path what it is."""
        for step in reversed(self.steps):
            if step.changes.root == root and any(c.path == path for c in step.changes.changes):
                return step
        return None


def read_steps(lines: Iterable[Line], get: Callable[[str], bytes]) -> FileSteps:
    """The story from its entries, oldest first; `get` reads a list from the store.

    A step whose list is lost can no longer be put back and is left out.
    """
    steps: list[FileStep] = []
    for line in lines:
        entry = line.entry
        if not isinstance(entry, FilesChanged | FilesRestored):
            continue
        try:
            changes = ChangeSet.decode(get(entry.manifest))
        except UndoError:
            continue
        if isinstance(entry, FilesChanged):
            by = f"{entry.name} ({entry.call})" if entry.call else entry.name
            steps.append(FileStep(line.seq, line.turn, by, changes))
        else:
            steps.append(FileStep(line.seq, line.turn, f"/{entry.direction}", changes, entry))
    return FileSteps(steps)


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
