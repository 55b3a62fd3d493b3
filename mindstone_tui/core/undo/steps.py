"""Which turns changed which files, in order, and which of that was taken back since.

A fold over the kinds of entries that tell of files; the contents are in the store.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import starmap
from typing import Final, Literal

from mindstone_tui.core import errors, numbers
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.entries.store import FileChange, FilesChanged, FilesLetGo, FilesRestored
from mindstone_tui.core.patterns import pattern_of
from mindstone_tui.core.text import plural
from mindstone_tui.core.undo.changes import ChangeSet, PathChange, together
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import Node

KINDS: Final = ("files_changed", "files_restored", "files_let_go")
_STATE: Final = pattern_of(r"(file|link|folder|unkept)(?: ([0-7]{1,4}))?(?: (\S{1,99}))?")
_MOST_NAMED: Final = 50
"""Changes that stand in the entry itself."""


class FileStep:
    """One entry and what it says; its list is read from the store when somebody asks for it."""

    def __init__(self, line: Line, entry: FilesChanged | FilesRestored, store: ObjectStore) -> None:
        self.seq = line.seq
        self.turn = line.turn
        self.ts = line.ts
        self.root = entry.root
        self.entry = entry
        self.restored = entry if isinstance(entry, FilesRestored) else None
        self.by = _maker(entry)
        """The tool and its call, or who put it back."""
        self.unsure = isinstance(entry, FilesChanged) and entry.recovered
        """Whether it was found after a crash: changed by the call or since, nobody knows."""
        self.manifest = entry.manifest
        self._store = store

    @cached_property
    def changes(self) -> tuple[PathChange, ...]:
        """The list, whole; raises `UndoError` where it is lost."""
        return ChangeSet.decode(self._store.get(self.manifest)).changes

    @property
    def lost(self) -> bool:
        """Whether its list, and with it the way back, is not in the store any more."""
        return self.manifest not in self._store

    @property
    def told(self) -> tuple[PathChange, ...]:
        """The list; where it is lost, as much of it as the line itself says."""
        named = ((each.path, _node(each.before), _node(each.after)) for each in self.entry.changes)
        return self.known_changes or tuple(starmap(PathChange, named))

    @property
    def known_changes(self) -> tuple[PathChange, ...]:
        """The list, empty where it is lost."""
        try:
            return self.changes
        except errors.UndoError:
            return ()


def _maker(entry: FilesChanged | FilesRestored) -> str:
    if isinstance(entry, FilesRestored):
        return "/rewind --files" if "/rewind" in entry.how else f"/{entry.direction}"
    return f"{entry.name} ({entry.call})" if entry.call else entry.name


class FileSteps:
    """The story of a session's files."""

    def __init__(self, steps: Iterable[FileStep], let_go: int = 0, limit: int = 0) -> None:
        self.steps = list(steps)
        self.let_go = let_go
        """The last turn whose states made room for newer ones."""
        self._limit = limit
        self.applied: list[int] = []
        """Turns whose changes are in force, oldest first."""
        self.undone: list[tuple[int, ...]] = []
        """What can be done again, newest last."""
        self._acts: dict[tuple[int, ...], list[FileStep]] = {}
        """What was put back to take these turns back."""
        for step in self.steps:
            self._take(step)

    def _take(self, step: FileStep) -> None:
        if step.restored is None:
            if step.turn not in self.applied:
                self.applied.append(step.turn)
            self.undone.clear()
            self._acts.clear()
        elif step.restored.direction == "undo":
            self.applied = [turn for turn in self.applied if turn not in step.restored.turns]
            if step.restored.turns not in self.undone:  # one act for each root
                self.undone.append(step.restored.turns)
            self._acts.setdefault(step.restored.turns, []).append(step)
        else:
            self.undone = [turns for turns in self.undone if turns != step.restored.turns]
            self._acts.pop(step.restored.turns, None)
            self.applied = sorted({*self.applied, *step.restored.turns})

    def require(self, turns: Sequence[int]) -> None:
        """Refuse, and say why, if what these turns did can no longer be put back."""
        wanted = frozenset(turns)
        taken = [step for step in self.steps if step.turn in wanted and step.restored is None]
        lost = [step.turn for step in taken if step.lost]
        if not lost:
            return
        last = max(lost)
        if last <= self.let_go:
            why = (
                "their states made room for newer ones, because a session keeps "
                f"{numbers.megabytes(self._limit)} at most (undo.store_bytes)"
            )
        else:
            why = "their states are missing in the session's folder `files`"
        left = sum(turn > last for turn in self.applied)
        raise errors.UndoError(
            f"What turns up to turn {last} did to files can no longer be put back: {why}.",
            f"`/undo {left}` takes back what came after." if left else "",
        )

    def of_turns(self, turns: Iterable[int]) -> list[ChangeSet]:
        """What these turns did, a set for each root."""
        wanted = frozenset(turns)
        by_root: dict[str, list[tuple[PathChange, ...]]] = {}
        unsure: dict[str, set[str]] = {}
        for step in self.steps:
            if step.restored is None and step.turn in wanted:
                by_root.setdefault(step.root, []).append(step.told)
                found_so = unsure.setdefault(step.root, set())
                found_so.update(each.path for each in step.told if step.unsure)
        found = [
            ChangeSet(root, together(sets), frozenset(unsure[root]))
            for root, sets in by_root.items()
        ]
        return [each for each in found if each.changes]

    def taken_back(self, turns: tuple[int, ...]) -> list[ChangeSet]:
        """What taking these turns back really did: without what was left as it was."""
        return [
            ChangeSet(act.root, act.changes) for act in self._acts.get(turns, ()) if act.changes
        ]

    def at(self, turn: int | None) -> dict[tuple[str, str], Node | None]:
        """Every path that was ever touched as it stood when a turn had ended; for None, now."""
        states: dict[tuple[str, str], Node | None] = {}
        later: dict[tuple[str, str], Node | None] = {}
        for step in self.steps:
            # What a person put back after a turn bears that turn's number and came after its end.
            past = turn is None or step.turn < turn + (step.restored is None)
            for each in step.told:
                key = (step.root, each.path)
                if past:
                    states[key] = each.after
                else:
                    later.setdefault(key, each.before)
        return {**later, **states}

    def why(self, root: str, path: str) -> tuple[FileStep, PathChange] | None:
        """The newest step that made a path what it is, and how; that of a folder which is no
        workspace here may be meant by its end."""
        end = f"/{path.lstrip('/')}"
        for step in sorted(self.steps, key=lambda step: (step.root == root, step.seq))[::-1]:
            for each in step.told:
                other = step.root != root and f"{step.root}/{each.path}".endswith(end)
                if other or (step.root, each.path) == (root, path):
                    return step, each
        return None

    def made(self, root: str, path: str, state: Node | None) -> FileStep | None:
        """The newest call after which a path was in a state."""
        for step in reversed(self.steps):
            known = () if step.restored or step.root != root else step.told
            if any(one.path == path and one.after == state for one in known):
                return step
        return None


def read_steps(lines: Iterable[Line], store: ObjectStore) -> FileSteps:
    """The story from its entries, oldest first; what was done elsewhere is no part of it."""
    steps: list[FileStep] = []
    let_go = limit = 0
    for line in lines:
        match line.entry:
            case FilesChanged() | FilesRestored() as entry if not is_imported(line):
                steps.append(FileStep(line, entry, store))
            case FilesLetGo() as entry:
                let_go, limit = max(let_go, entry.through), entry.limit
    return FileSteps(steps, let_go, limit)


def named(changes: tuple[PathChange, ...]) -> tuple[FileChange, ...]:
    """The first changes as an entry holds them."""
    return tuple(
        FileChange(path=each.path, before=_state(each.before), after=_state(each.after))
        for each in changes[:_MOST_NAMED]
    )


def _node(state: str) -> Node | None:
    """What stood somewhere, from its state in an entry."""
    found = _STATE.fullmatch(state)
    if found is None:
        return None
    kind, mode, digest = found.groups("")
    return Node(kind, int(mode, 8) if mode else 0o777, digest)


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


def kept_within(
    steps: FileSteps, store: ObjectStore, needed: Iterable[str], room: int
) -> tuple[set[str], int]:
    """Which contents stay when a store has to shrink, and the last turn that is let go.

    What is needed stays, and the newest turn; then turn by turn, the newer first, as room allows.
    """
    kept = set(needed)
    used = sum(map(store.size_of, kept))
    by_turn: dict[int, set[str]] = {}
    for step in steps.steps:
        if not step.lost:
            by_turn.setdefault(step.turn, set()).update(_contents(step))
    newest = max(by_turn, default=0)
    for turn in sorted(by_turn, reverse=True):
        more = by_turn[turn] - kept
        used += sum(map(store.size_of, more))
        if used > room and turn != newest:
            return kept, turn
        kept |= more
    return kept, 0


def _contents(step: FileStep) -> Iterator[str]:
    yield step.manifest
    for change in step.known_changes:
        yield from (side.digest for side in (change.before, change.after) if side is not None)


def wanted(
    steps: FileSteps, direction: Direction, count: int
) -> tuple[tuple[int, ...], list[ChangeSet]]:
    """Which turns, and every path from the state it should have now to the one it should get."""
    if direction == "undo":
        if steps.applied and count > (known := len(steps.applied)):
            raise errors.UndoError(
                f"Only {plural(known, 'turn')} changed files that are not undone already.",
                f"`/undo {known}` takes back all that was changed.",
            )
        turns = tuple(steps.applied[-count:]) if count else ()
        steps.require(turns)
        sets = steps.of_turns(turns)
    else:
        turns = steps.undone[-1] if steps.undone else ()
        sets = steps.taken_back(turns)
    return turns, [
        each._replace(changes=tuple(change.turned() for change in each.changes)) for each in sets
    ]
