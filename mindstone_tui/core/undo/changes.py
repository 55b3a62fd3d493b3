"""What happened to files between two moments: found, put together, written down and read again."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mindstone_tui.core.errors import UndoError
from mindstone_tui.core.text import exact, plural
from mindstone_tui.core.undo.objects import ObjectStore
from mindstone_tui.core.undo.scan import IgnoreRules, Node, TreeState, ancestors, ignored

_MOST_DIFFED: Final = 1 << 20
"""Bytes up to which a file's lines are compared."""
_SNIFFED: Final = 8_192


class PathChange(NamedTuple):
    """One path before and after; None where nothing was."""

    path: str
    before: Node | None
    after: Node | None

    @property
    def verb(self) -> str:
        """What happened, in one word."""
        if self.before is None:
            return "created"
        if self.after is None:
            return "deleted"
        if self.before.kind != self.after.kind:
            return "replaced"
        return "changed" if self.before.digest != self.after.digest else "permissions"

    @property
    def kept(self) -> bool:
        """Whether both sides can be put back."""
        before, after = self.before, self.after
        return (before is None or before.kind != "unkept") and (
            after is None or after.kind != "unkept"
        )

    @property
    def is_folder(self) -> bool:
        """Whether it is about a folder and nothing else."""
        before, after = self.before, self.after
        return (before is None or before.kind == "folder") and (
            after is None or after.kind == "folder"
        )

    def turned(self) -> PathChange:
        """The change that takes this one back."""
        return PathChange(self.path, self.after, self.before)


class ChangeSet(NamedTuple):
    """What one call, or one turn, did below one folder."""

    root: str
    changes: tuple[PathChange, ...]
    unsure: frozenset[str] = frozenset()
    """Paths that somebody else may have changed: a call's end was not seen."""

    def encode(self) -> bytes:
        """As the store keeps it: names as the bytes they are."""
        rows = [(os.fsencode(each.path), each.before, each.after) for each in self.changes]
        return msgspec.msgpack.encode((os.fsencode(self.root), rows))

    @classmethod
    def decode(cls, data: bytes) -> ChangeSet:
        """What `encode` made; raises `UndoError` for anything else."""
        try:
            root, rows = msgspec.msgpack.decode(data, type=_Stored)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UndoError(f"A list of changed files cannot be read: {error}.") from error
        return cls(
            os.fsdecode(root),
            tuple([PathChange(os.fsdecode(path), old, new) for path, old, new in rows]),
        )


_Stored = tuple[bytes, list[tuple[bytes, Node | None, Node | None]]]


def between(
    root: Path, before: TreeState, after: TreeState, store: ObjectStore
) -> tuple[PathChange, ...]:
    """What is different, by path; a path that only the rules about ignoring moved is no change."""
    old, new = before.nodes, after.nodes
    differing = [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
    rules_moved = any(path.rpartition("/")[2] == ".gitignore" for path in differing)
    found = []
    for path in sorted(differing):
        change = PathChange(path, old.get(path), new.get(path))
        if rules_moved and change.after is None and os.path.lexists(root / path):
            continue
        if rules_moved and change.before is None and _was_ignored(path, old, store):
            continue
        found.append(change)
    return tuple(found)


def _was_ignored(path: str, nodes: dict[str, Node], store: ObjectStore) -> bool:
    """Whether a path was left out of a state because its rules said so."""
    stack: list[tuple[int, IgnoreRules]] = []
    for way in (*ancestors(path), path):
        prefix = way.rpartition("/")[0]
        prefix = f"{prefix}/" if prefix else ""
        rules = nodes.get(f"{prefix}.gitignore")
        if rules is not None and rules.kind == "file":
            text = store.get(rules.digest).decode("utf-8", "surrogateescape")
            stack.append((len(prefix), IgnoreRules(text)))
        if ignored(stack, way, folder=way != path):
            return True
    return False


def together(sets: Iterable[Sequence[PathChange]]) -> tuple[PathChange, ...]:
    """Several changes in order as one: the first state before, the last state after."""
    sets = list(sets)
    if len(sets) == 1:
        return tuple(sets[0])
    first: dict[str, Node | None] = {}
    last: dict[str, Node | None] = {}
    for changes in sets:
        for each in changes:
            first.setdefault(each.path, each.before)
            last[each.path] = each.after
    return tuple(
        PathChange(path, first[path], last[path])
        for path in sorted(first)
        if first[path] != last[path]
    )


def summary(changes: Sequence[PathChange]) -> str:
    """How many of what: `2 files changed, 1 created`."""
    counts: dict[str, int] = {}
    for each in [each for each in changes if not each.is_folder] or changes:
        word = "changed" if each.verb in ("replaced", "permissions") else each.verb
        counts[word] = counts.get(word, 0) + 1
    if not counts:
        return "no files changed"
    first, *rest = counts.items()
    return ", ".join([f"{plural(first[1], 'file')} {first[0]}", *(f"{n} {w}" for w, n in rest)])


def described(change: PathChange) -> str:
    """One line: what happened to which path."""
    before, after = change.before, change.after
    how = change.verb
    if how in ("changed", "permissions") and before and after and before.mode != after.mode:
        modes = f"permissions {before.mode:o} → {after.mode:o}"
        how = f"changed, {modes}" if how == "changed" else modes
    elif how == "replaced" and before and after:
        how = f"{before.kind} became a {after.kind}"
    kind = after or before
    sign = "/" if kind is not None and kind.kind == "folder" else ""
    unkept = "" if change.kept else " (too large to be kept)"
    return f"{exact(change.path)}{sign}: {how}{unkept}"


def diff_of(change: PathChange, store: ObjectStore) -> str:
    """The change line by line; in one line where there are none to compare."""
    old, new = _text(change.before, store), _text(change.after, store)
    if old is None or new is None:
        return f"{described(change)}\n"
    name = exact(change.path)
    moved = ""
    if change.before and change.after and change.before.mode != change.after.mode:
        moved = f"{described(change)}\n"
    elif change.before is None and (special := _special(change.after)):
        moved = f"{name}: created, {special}\n"
    source = "/dev/null" if change.before is None else f"a/{name}"
    target = "/dev/null" if change.after is None else f"b/{name}"
    pieces = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), source, target
    )
    body = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in pieces
    )
    return moved + exact(body) if body else moved or f"{described(change)}\n"


def _special(node: Node | None) -> str:
    """What the lines of a new file do not tell of it."""
    if node is not None and node.kind == "link":
        return "a link"
    return "executable" if node is not None and node.mode & 0o100 else ""


def _text(node: Node | None, store: ObjectStore) -> str | None:
    """What can be compared by lines: a missing file is empty, a link its target."""
    if node is None:
        return ""
    if node.digest not in store:  # of a folder and of what was too large there is none
        return None
    data = store.get(node.digest)
    if len(data) > _MOST_DIFFED or b"\0" in data[:_SNIFFED]:
        return None
    return data.decode("utf-8", "replace")
