"""Files around the calls of a session: kept before, compared after, put back when asked.

Before a call may change anything, what it may change is in the store and a note of it is on disk.
So a program that is killed at any moment finds out next time what changed, by the call or since,
and what was being put back is brought to its end.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from mindstone_tui.core import disk, errors, text, transcript
from mindstone_tui.core.config.settings import UndoSettings
from mindstone_tui.core.entries import Entry, Line, standings
from mindstone_tui.core.entries.provenance import is_imported
from mindstone_tui.core.entries.store import FilesChanged, FilesLetGo, FilesRestored
from mindstone_tui.core.entries.window import ContextWindowPruned
from mindstone_tui.core.events import from_entry, narrate_entry
from mindstone_tui.core.paths import SessionPlaces
from mindstone_tui.core.tools.approvals import Approval
from mindstone_tui.core.tools.base import Tool
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.transcript.reader import unheard
from mindstone_tui.core.undo.changes import ChangeSet, PathChange, between
from mindstone_tui.core.undo.objects import TREES, ObjectStore
from mindstone_tui.core.undo.restore import (
    Conflict,
    Outlook,
    apply,
    clear_removed,
    finish,
    look,
    node_in,
)
from mindstone_tui.core.undo.scan import (
    EMPTY,
    Limits,
    Node,
    Stamp,
    TooManyFiles,
    TreeState,
    ancestors,
    scan,
)
from mindstone_tui.core.undo.steps import (
    KINDS,
    Direction,
    FileSteps,
    kept_within,
    named,
    read_steps,
)
from mindstone_tui.core.values import alike

_E = TypeVar("_E", FilesChanged, FilesRestored)
_T = TypeVar("_T")
_KEPT: Final = 75
"""Percent of the store's limit that stay when older states make room."""
_EVERYTHING: Final = 1 << 40
_RECENT: Final = 256
"""Lines among which the record of an act that a crash cut short is looked for."""

_READ_AGAIN: Final = "Read a file again before you rely on what it says."
_MOST_NAMED: Final = 10
"""Files that the model is told of by name when they were put back."""

_Nodes = dict[bytes, Node]
_Stamps = dict[bytes, Stamp]
_Trees = dict[str, tuple[_Nodes, _Stamps]]


class _Watched(msgspec.Struct, frozen=True, array_like=True):
    """A call that may be changing files, as it is noted on disk."""

    call: str
    name: str
    root: bytes
    paths: dict[bytes, tuple[str, int, str] | None] | None = None
    """What it was going to change; None for anything, compared with the kept state of the tree."""


class _Restoring(msgspec.Struct, frozen=True, array_like=True):
    """Files that are being put back, as it is noted on disk."""

    token: str
    direction: Direction
    turns: tuple[int, ...]
    manifest: str
    left: tuple[str, ...]
    how: str = ""
    """What a person did for it."""


class PutBack(NamedTuple):
    """What putting back came to."""

    line: Line
    changes: tuple[PathChange, ...]
    left: tuple[str, ...]


class FileKeeper(msgspec.Struct, dict=True, eq=False):
    """Keeps what a session's calls do to files, and undoes it."""

    _places: SessionPlaces
    _workspace: Workspace
    _settings: UndoSettings
    history: Callable[[], transcript.History]
    record: Callable[[Entry], Line]
    _trees: dict[str, TreeState] | None = None
    _seen: dict[Path, TreeState] = {}
    """Folders after a call, which become the known ones once that is written down."""
    _told: set[str] = set()
    _trouble: list[str] = []

    def __post_init__(self) -> None:
        self._folder = self._places.files
        self._limits = Limits(self._settings.files, self._settings.file_bytes)
        self.store = ObjectStore(self._folder, limit=self._settings.store_bytes)

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders that may be put back."""
        return self._workspace.roots

    def take_trouble(self) -> list[str]:
        """What a person should know and was not told yet: where nothing can be kept."""
        found, self._trouble = self._trouble, []
        return found

    # Around a call

    async def before(self, tool: Tool, approval: Approval) -> tuple[_Watched, ...]:
        """Keep what a call may change; empty when it changes no file."""
        if not self._settings.on or not may_change_files(tool, approval):
            return ()
        return await asyncio.to_thread(self._keep, tool, approval)

    def _keep(self, tool: Tool, approval: Approval) -> tuple[_Watched, ...]:
        self.store.refresh()
        try:
            watched = self._with_room(lambda: self._watch(tool, approval))
            self.store.save()
            if watched:
                disk.replace_file(self._note, msgspec.msgpack.encode(watched))
        except (errors.MindstoneError, OSError) as error:
            self._complain(f"What {tool.name} changes cannot be undone: {error}")
            return ()
        return watched

    def _watch(self, tool: Tool, approval: Approval) -> tuple[_Watched, ...]:
        if approval.preview.place and approval.preview.root:
            return (self._named_file(tool, approval),)
        return tuple(one for root in self.roots if (one := self._whole(tool, approval, root)))

    def _named_file(self, tool: Tool, approval: Approval) -> _Watched:
        root = Path(approval.preview.root)
        path = "/".join(approval.preview.place)
        paths = {
            os.fsencode(way): node_in(root, way, self.store, self._limits.file_bytes)
            for way in (*ancestors(path), path)
        }
        return _Watched(approval.call, tool.name, os.fsencode(root), dict(paths))

    def _whole(self, tool: Tool, approval: Approval, root: Path) -> _Watched | None:
        try:
            tree = self._scan(root, again=True)
        except TooManyFiles as error:
            self._complain(error.sentence)
            return None
        self._save_tree(root, tree)
        return _Watched(approval.call, tool.name, os.fsencode(root))

    async def after(self, watched: Sequence[_Watched]) -> list[Line]:
        """Write down what a call changed; nothing when it changed nothing."""
        if not watched:
            return []
        try:
            found = await asyncio.to_thread(self._compare, watched)
        except (errors.UndoError, OSError) as error:
            self._complain(f"What was changed cannot be undone: {error}")
            return []
        lines = self._write_down(found, recovered=False)
        with contextlib.suppress(errors.MindstoneError, OSError):  # a cache
            await asyncio.to_thread(self._take_over)
        return lines

    def _compare(self, watched: Sequence[_Watched]) -> list[tuple[_Watched, ChangeSet]]:
        found = self._with_room(lambda: self._differences(watched), watched)
        for _, each in found:
            self.store.put(each.encode())
        self.store.save()
        return found

    def _differences(self, watched: Sequence[_Watched]) -> list[tuple[_Watched, ChangeSet]]:
        found: list[tuple[_Watched, ChangeSet]] = []
        self._seen.clear()
        for one in watched:
            root = Path(os.fsdecode(one.root))
            if one.paths is None:
                seen = self._seen[root] = self._scan(root)
                changes = between(root, self._tree(root), seen, self.store)
            else:
                changes = self._differing(root, one.paths)
            if changes:
                found.append((one, ChangeSet(str(root), changes)))
        return found

    def _differing(
        self, root: Path, paths: dict[bytes, tuple[str, int, str] | None]
    ) -> tuple[PathChange, ...]:
        found = []
        for raw, node in paths.items():
            path = os.fsdecode(raw)
            before = Node(*node) if node else None
            after = node_in(root, path, self.store, self._limits.file_bytes)
            if before != after:
                found.append(PathChange(path, before, after))
        return tuple(found)

    def _write_down(
        self, found: Sequence[tuple[_Watched, ChangeSet]], *, recovered: bool
    ) -> list[Line]:
        lines = []
        for watched, each in found:
            entry = FilesChanged(
                call=watched.call,
                name=watched.name,
                root=each.root,
                total=len(each.changes),
                changes=named(each.changes),
                manifest=self.store.put(each.encode()),
                unkept=sum(not change.kept for change in each.changes),
                recovered=recovered,
            )
            lines.append(self.record(entry))
        self._note.unlink(missing_ok=True)
        return lines

    # After a crash

    def recover(self) -> list[Line]:
        """Write down what changed since a call whose end nobody saw, and finish putting back."""
        if not self._folder.is_dir():
            return []
        lines: list[Line] = []
        clear_removed(self._folder)
        self.store.tidy()
        with contextlib.suppress(errors.UndoError, OSError):
            if (restoring := _noted(self._act, _Restoring)) is not None:
                self.store.refresh()
                lines += self._finish(restoring)
            if (watched := _noted(self._note, tuple[_Watched, ...])) is not None:
                self.store.refresh()
                seen = {entry.call for entry in self._recent(FilesChanged)}
                open_ = [one for one in watched if one.call not in seen]
                lines += self._write_down(self._compare(open_), recovered=True)
        return lines

    def _finish(self, act: _Restoring) -> list[Line]:
        each = ChangeSet.decode(self.store.get(act.manifest))
        root = Path(each.root)
        if root not in self.roots:
            return []
        finish(root, each.changes, self.store, self._limits.file_bytes)
        written = any(entry.token == act.token for entry in self._recent(FilesRestored))
        lines = [] if written else [self.record(self._restored(act, each)[0])]
        self._act.unlink(missing_ok=True)
        return lines

    def _recent(self, kind: type[_E]) -> list[_E]:
        with self.history() as history:
            lines = history.newest(KINDS, _RECENT)
            return [line.entry for line in lines if isinstance(line.entry, kind)]

    # What a person asks for

    def steps(self) -> FileSteps:
        """Which turns changed which files."""
        self.store.refresh()
        with self.history() as history:
            lines = [line for line in history.newest(KINDS, _EVERYTHING) if not line.parent]
        return read_steps(reversed(lines), self.store)

    def untold(self) -> str:
        """What the model must hear with the next message of files that changed under it.

        They were put back, or stay as turns left them that it no longer sees.
        """
        rewinds: list[Line] = []
        told: list[str] = []
        again: dict[int, bool] = {}
        """Turns whose changes were taken back or done again, as it was last,"""
        acted: set[tuple[int, str]] = set()
        """each in the folder where it was."""
        stays: dict[int, list[str]] = {}
        shown: set[int] = set()
        """Turns that the model sees again,"""
        out: set[int] = set()
        """and those that have left the window."""
        kinds = ("files_changed", "files_restored", "context_window_pruned")
        with self.history() as history:
            for line in unheard(history, kinds):
                match line.entry:
                    case FilesRestored(direction=direction, turns=turns) if not is_imported(line):
                        # What was done again or taken back once more since is told as it stands.
                        places = {(turn, line.entry.root) for turn in turns}
                        told += [_put_back_in_words(line.entry)] if places - acted else []
                        acted |= places
                        again = {**dict.fromkeys(turns, direction == "redo"), **again}
                    case FilesChanged(changes=changes):
                        gone = standings.Rewinds(rewinds).of_place(line.seq, line.turn) is not None
                        if gone and again.get(line.turn, True):
                            names = stays.setdefault(line.turn, [])
                            names[:0] = [text.exact(each.path) for each in changes]
                    case ContextWindowPruned(left=left):
                        out.update(turn for one in left for turn in one.turns)
                    case entry:
                        shown.update({*getattr(entry, "turns", ())} - out)
                        rewinds.append(line)
            stands = transcript.standings_of(history) if shown else standings.Standings()
            known = sorted(turn for turn in shown - again.keys() if stands.undone.of_turn(turn))
            # What was said while they were rewound may tell that they cannot be seen.
            back = [turn for turn in sorted(shown) if stands.rewinds.gave_back(turn)]
            back = [turn for turn in back if _changes_files(history.turn(turn))]
        said = [*reversed(told), *([_left_in_words(stays)] if stays else [])]
        said += [f"You see {narrate_entry.turn_names(back)} again."] if back else []
        if known:
            said.append(f"What {narrate_entry.turn_names(known)} did to files was taken back.")
        return f"[{' '.join(said)} {_READ_AGAIN}]" if said else ""

    def left_by(self, is_gone: Callable[[int], bool]) -> str:
        """The same for who goes on without some turns, whose changes of files are still there."""
        steps = self.steps()
        stays: dict[int, list[str]] = {}
        for step in steps.steps:
            if step.restored is None and step.turn in steps.applied and is_gone(step.turn):
                names = [text.exact(each.path) for each in step.entry.changes]
                stays.setdefault(step.turn, []).extend(names)
        return f"[{_left_in_words(stays)} {_READ_AGAIN}]" if stays else ""

    def now(self, root: str, path: str) -> Node | None:
        """What stands at a path."""
        return node_in(Path(root), path, None, self._limits.file_bytes)

    def outlook(self, each: ChangeSet) -> Outlook:
        """What putting back would meet; what is there now is kept first.

        What may be somebody else's is met like what is.
        """
        root = Path(each.root)
        if root not in self.roots:
            raise errors.UndoError(
                f"These changes were made in {each.root}, which is not the workspace now.",
                f"Open this session there: `mindstone --cwd {each.root}`.",
            )
        self.store.limited = False
        try:
            found = look(root, each.changes, self._limits.file_bytes, self.store, self._tree(root))
            self.store.save()
        finally:
            self.store.limited = True
        unsure = tuple(Conflict(one, one.before) for one in found.ready if one.path in each.unsure)
        ready = tuple(one for one in found.ready if one.path not in each.unsure)
        return found._replace(ready=ready, conflicts=(*found.conflicts, *unsure))

    def put_back(
        self,
        direction: Direction,
        turns: tuple[int, ...],
        root: str,
        changes: Sequence[PathChange],
        left: tuple[str, ...] = (),
        how: str = "",
    ) -> PutBack:
        """Bring every path from the state it has to the one it should get, and write it down."""
        each = ChangeSet(root, tuple(changes))
        manifest = self.store.put(each.encode())
        self.store.save()
        act = _Restoring(text.fresh_nonce(), direction, turns, manifest, left, how)
        disk.replace_file(self._act, msgspec.msgpack.encode(act))
        problems = apply(Path(root), each.changes, self.store)
        act = msgspec.structs.replace(act, left=(*left, *map(text.exact, problems)))
        entry, done = self._restored(act, each)
        line = self.record(entry)
        self._act.unlink(missing_ok=True)
        clear_removed(self._folder)
        return PutBack(line, done, act.left)

    def _restored(
        self, act: _Restoring, each: ChangeSet
    ) -> tuple[FilesRestored, tuple[PathChange, ...]]:
        """What came of it: a folder that holds others' files stayed."""
        root, changes = each.root, each.changes
        done = tuple(one for one in changes if one.after or self.now(root, one.path) is None)
        changed = {"total": len(done), "changes": named(done)}
        manifest = self.store.put(ChangeSet(root, done).encode())
        self.store.save()
        entry = alike(FilesRestored, act, root=root, manifest=manifest, **changed)
        if not act.left or len(act.turns) < 2:
            return entry, done
        did: dict[int, dict[tuple[str, str], str]] = {}
        for step in self.steps().steps:
            if step.restored is None and step.turn in act.turns:
                paths = {(step.root, one.path): text.exact(one.path) for one in step.told}
                did.setdefault(step.turn, {}).update(paths)
        left = entry.left_paths
        of = {turn: tuple(p for p in left if p in by.values()) for turn, by in did.items()}
        of = {turn: kept for turn, kept in of.items() if len(did[turn]) > len(kept)}
        return msgspec.structs.replace(entry, left_of=of), done

    # Room in the store

    def _with_room(self, keep: Callable[[], _T], watched: Sequence[_Watched] = ()) -> _T:
        """Keep contents; if there is no room for them all, once more after older ones were let go.

        What a call in flight needs stays: the folders as they are known, and the paths it named.
        """
        self.store.turned_away = 0
        found = keep()
        return keep() if self.store.turned_away and self._make_room(watched) else found

    def _make_room(self, watched: Sequence[_Watched]) -> bool:
        known = [
            node.digest for tree in (self._trees or {}).values() for node in tree.nodes.values()
        ]
        named_ = [node for one in watched for node in (one.paths or {}).values()]
        needed = {*known, *(node[2] for node in named_ if node is not None)}
        room = self._settings.store_bytes * _KEPT // 100
        kept, through = kept_within(self.steps(), self.store, needed, room)
        if not through:
            return False
        entry = FilesLetGo(through=through, limit=self._settings.store_bytes)
        self.record(entry)
        self.store.let_go(kept)
        self._trouble.append(from_entry.files_let_go(entry).message)
        return True

    # The kept state of each tree, a cache: without it every file is read again

    @property
    def _note(self) -> Path:
        return self._folder / "call.msgpack"

    @property
    def _act(self) -> Path:
        return self._folder / "restoring.msgpack"

    def _scan(self, root: Path, *, again: bool = False) -> TreeState:
        """The folder now; again also tries to keep what could not be kept so far."""
        known = self._tree(root)
        if again:
            unkept = {path for path, node in known.nodes.items() if node.kind == "unkept"}
            stamps = {path: each for path, each in known.stamps.items() if path not in unkept}
            known = TreeState(known.nodes, stamps) if unkept else known
        return scan(root, known, self.store, self._limits, apart_from=self._workspace.protected)

    def _tree(self, root: Path) -> TreeState:
        if self._trees is None:
            stored = _noted(self._folder / TREES, _Trees) or {}
            self._trees = {name: _read_tree(*each) for name, each in stored.items()}
        return self._trees.get(str(root), EMPTY)

    def _save_tree(self, root: Path, tree: TreeState) -> None:
        """Know a folder as it is; on disk as well, where anything but stamps is different."""
        same = tree.nodes == self._tree(root).nodes
        assert self._trees is not None
        self._trees[str(root)] = tree
        if same:
            return
        self.store.save()
        stored = {name: _stored_tree(each) for name, each in self._trees.items()}
        disk.replace_file(self._folder / TREES, msgspec.msgpack.encode(stored))

    def _take_over(self) -> None:
        """Know the folders as a call left them: its note, which needs them as before, is gone."""
        while self._seen:
            self._save_tree(*self._seen.popitem())

    def _complain(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._trouble.append(what)


def may_change_files(tool: Tool, approval: Approval) -> bool:
    """Whether a call may change files: everything but looking, and commands that only look."""
    if tool.risk == "write":
        return True
    parts = approval.preview.parts
    only_looks = bool(parts) and all(part.effects <= {"reads"} for part in parts)
    return tool.risk == "run" and not only_looks


def _changes_files(lines: Iterable[Line]) -> bool:
    return any(isinstance(line.entry, FilesChanged) for line in lines)


def _stored_tree(tree: TreeState) -> tuple[_Nodes, _Stamps]:
    return (
        {os.fsencode(path): node for path, node in tree.nodes.items()},
        {os.fsencode(path): stamp for path, stamp in tree.stamps.items()},
    )


def _read_tree(nodes: _Nodes, stamps: _Stamps) -> TreeState:
    return TreeState(
        {os.fsdecode(path): node for path, node in nodes.items()},
        {os.fsdecode(path): stamp for path, stamp in stamps.items()},
    )


def _noted(path: Path, kind: Any) -> Any:
    """What a note on disk says; None where there is none that can be read."""
    try:
        return msgspec.msgpack.decode(disk.read_regular(path, most=disk.LARGEST_BLOB), type=kind)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _left_in_words(stays: Mapping[int, Sequence[str]]) -> str:
    turns = sorted(stays)
    names = list(dict.fromkeys(name for turn in turns for name in stays[turn]))
    shown = [*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])]
    seen = f"You do not see {narrate_entry.turn_names(turns)} any more"
    return f"{seen}; what was done to files there stays: {', '.join(shown)}."


def _put_back_in_words(entry: FilesRestored) -> str:
    names = [text.exact(each.path) for each in entry.changes[:_MOST_NAMED]]
    names += ["…"] if entry.total > len(names) else []
    did = "took back" if entry.direction == "undo" else "did again"
    what = f"what {narrate_entry.turn_names(entry.turns)} had done to files"
    left = f" Left as they were: {', '.join(entry.left_paths[:_MOST_NAMED])}." if entry.left else ""
    return f"The person {did} {what}. Files changed by that: {', '.join(names) or 'none'}.{left}"
