"""Workspace files as they stood after a turn, for whoever only looks."""

from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, paths, text, transcript
from mindstone_tui.core.entries import Line
from mindstone_tui.core.entries.store import FilesRestored
from mindstone_tui.core.undo import objects, restore, scan, steps
from mindstone_tui.core.undo.changes import PathChange

_EVERYTHING: Final = 1 << 40
_NO_LIMIT: Final = 1 << 60
BY_HASH: Final = "sha256:"
_SHORTEST_HASH: Final = 8
NOT_KEPT: Final = "what was in it is not kept on this machine"


class FileAt(msgspec.Struct, frozen=True, kw_only=True):
    """One path that some turn touched, as it stood after a turn."""

    root: str
    path: str
    kind: str
    """`file`, `link`, `folder`, `unkept`, or `none` where nothing was."""
    mode: int = 0
    sha256: str = ""
    kept: bool = True
    """Whether its content is here; that of a session from another machine is not."""


def _is_about(line: Line, last: int) -> bool:
    """Whether it put back what turns up to the last one did, whatever else it did."""
    return isinstance(line.entry, FilesRestored) and min(line.entry.turns, default=0) <= last


class FilesOfSession:
    """What a session's turns did to files, up to a line; nothing is changed by looking."""

    def __init__(self, places: paths.SessionPlaces, through: int = _EVERYTHING) -> None:
        self.store = objects.ObjectStore(places.files, limit=_NO_LIMIT)
        self.store.refresh()
        with transcript.History(places) as history:
            kept = history.newest(steps.KINDS, _EVERYTHING)
            lines = [line for line in kept if not line.parent]  # A fork keeps no files.
            last = max((line.turn for line in lines if line.seq <= through), default=0)
            # What was put back later was put back for whoever left the session at that line, too.
            lines = [line for line in lines if line.seq <= through or _is_about(line, last)]
            begun = history.newest(("turn_started", *steps.KINDS), _EVERYTHING)
            self.last_turn = next((line.turn for line in begun), 0)
        self.story: steps.FileSteps = steps.read_steps(reversed(lines), self.store)

    def at(self, turn: int | None) -> list[FileAt]:
        """Every path that was ever touched, as it stood when a turn had ended; for None, now."""
        return [
            FileAt(
                root=root,
                path=path,
                kind=node.kind if node else "none",
                mode=node.mode if node else 0,
                sha256=node.digest if node and node.kind in ("file", "link") else "",
                kept=self._keeps(node),
            )
            for (root, path), node in sorted(self.story.at(turn).items())
        ]

    def changed_since(self) -> list[str]:
        """Files that are not as the last turn left them, where their folder is on this machine."""

        def is_another(root: Path, path: str, left: scan.Node | None) -> bool:
            now = restore.node_in(root, path, None, _NO_LIMIT) if root.is_dir() else left
            known = self._keeps(left) and "folder" not in (left and left.kind, now and now.kind)
            return known and now != left

        told = sorted(self.story.at(None).items())
        return [path for (root, path), left in told if is_another(Path(root), path, left)]

    def content(self, turn: int | None, path: str) -> bytes:
        """A file's bytes as they were then, or those with a hash: `sha256:3dee2f9934c7`."""
        if path.startswith(BY_HASH):
            return self._by_hash(path.removeprefix(BY_HASH).lower())
        if (node := self._node(turn, path)) is None or node.kind not in ("file", "link"):
            what = "not there" if node is None else f"a {node.kind}"
            said = f"is {what} now" if turn is None else f"was {what} after turn {turn}"
            raise errors.UndoError(f"{text.exact(path)} {said}.")
        return self.store.get(node.digest)

    def _by_hash(self, start: str) -> bytes:
        found = self.store.beginning_with(start) if len(start) >= _SHORTEST_HASH else []
        if len(found) != 1:
            how = "Nothing" if not found else "More than one content"
            raise errors.UndoError(
                f"{how} that this session keeps has the hash {text.exact(start)}.",
                f"Write at least {_SHORTEST_HASH} of its digits; `/undo` and `--json` show them.",
            )
        return self.store.get(found[0])

    def _node(self, turn: int | None, path: str) -> scan.Node | None:
        states = self.story.at(turn)
        meant = [key for key in states if path in (key[1], f"{key[0]}/{key[1]}")]
        if not meant:
            raise errors.UndoError(
                f"No turn of this session touched {text.exact(path)}.",
                "`mindstone files` lists the paths that turns did touch.",
            )
        return states[meant[0]]

    def write(self, turn: int | None, folder: Path) -> tuple[int, tuple[str, ...]]:
        """Put the files as they were into a new folder; how many, and what could not be."""
        if folder.exists() and any(folder.iterdir()):
            raise errors.UndoError(f"{folder} is not empty.", "Name a new folder for --out.")
        disk.ensure_folder(folder)
        there = sorted((path, node) for (_, path), node in self.story.at(turn).items() if node)
        changes = [PathChange(path, None, node) for path, node in there if self._keeps(node)]
        away = tuple(f"{path}: {NOT_KEPT}" for path, node in there if not self._keeps(node))
        return len(changes), away + restore.apply(folder, changes, self.store)

    def _keeps(self, node: scan.Node | None) -> bool:
        """Whether all of a state is here."""
        return node is None or node.kind == "folder" or node.digest in self.store
