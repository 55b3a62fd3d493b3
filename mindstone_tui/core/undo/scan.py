"""A folder as it is: every file, link and folder in it by kind, permissions and content.

What the project ignores, repositories' insides and our own files are left out. What it ignores
stands in its own files, each `.gitignore` for its folder and below and the repository's
`info/exclude`, which are read as git reads them: nothing is run to find out. A file whose stamp
(size, times, inode) is known is not read again, unless it was so young when it was read that a
later write may have left the same stamp.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mindstone_tui.core import errors, patterns
from mindstone_tui.core.undo.objects import ObjectStore

SKIPPED: Final = frozenset({".git", ".hg", ".svn", ".mindstone", ".ssh", ".gnupg"})
"""Folders that no tool of ours writes to."""
_YOUNG: Final = 100_000_000
"""Nanoseconds in which a file system may give two writes the same time."""
_MOST_RULES: Final = 1 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CLASS: Final = patterns.pattern_of(r"\[(!|\^)?(\]?[^\]\\]*(?:\\.[^\]\\]*)*)\]")
"""A class of characters in a rule about what to ignore."""


class Node(NamedTuple):
    """What stands at a path: equal nodes are equal byte for byte."""

    kind: str
    """`file`, `link`, `folder`, or `unkept` for a file whose content is not in the store."""
    mode: int
    digest: str
    """SHA-256 of a file's bytes or of a link's target; for an unkept file its size and time."""


class Stamp(NamedTuple):
    """Who has the same one was not changed."""

    size: int
    modified: int
    changed: int
    inode: int


class Limits(NamedTuple):
    """What is kept at most."""

    files: int
    file_bytes: int


class TreeState(NamedTuple):
    """A folder at one moment, by path relative to it."""

    nodes: dict[str, Node]
    stamps: dict[str, Stamp]


EMPTY: Final = TreeState({}, {})


class TooManyFiles(errors.UndoError):
    """A folder has more files than are looked at."""


def scan(
    root: Path,
    known: TreeState,
    store: ObjectStore,
    limits: Limits,
    *,
    apart_from: Iterable[Path] = (),
) -> TreeState:
    """The folder as it is now, with every content in the store; links are never followed."""
    apart = frozenset(map(str, apart_from))
    return _Scan(root, known, store, limits, apart, time.time_ns(), {}, {}).run()


def leaves_out(root: Path, path: str) -> bool:
    """Whether a scan of a folder would pass over a path in it, by the rules as they are now."""
    try:
        fd = os.open(root, _FOLDER)
    except OSError:  # whoever asks for a folder that is gone has nothing to lose in it
        return False
    try:
        places = [("", ".git/info/exclude"), ("", ".gitignore")]
        places += [(f"{at}/", f"{at}/.gitignore") for at in ancestors(path)]
        found = [(len(at), rules) for at, name in places if (rules := _rules_in(fd, name))]
    finally:
        os.close(fd)
    return not SKIPPED.isdisjoint(path.split("/")) or any(
        ignored((it for it in found if it[0] < len(way)), way, folder=way != path)
        for way in (*ancestors(path), path)
    )


class _Scan(NamedTuple):
    """One walk through a folder, and what was found."""

    root: Path
    known: TreeState
    store: ObjectStore
    limits: Limits
    apart_from: frozenset[str]
    began: int
    nodes: dict[str, Node]
    stamps: dict[str, Stamp]

    def run(self) -> TreeState:
        try:
            fd = os.open(self.root, _FOLDER)
        except OSError as error:
            raise errors.UndoError(f"{self.root} cannot be read: {error.strerror}.") from error
        try:
            rules = _rules_in(fd, ".git/info/exclude")
            self._visit(fd, "", [(0, rules)] if rules else [])
        finally:
            os.close(fd)
        return TreeState(self.nodes, self.stamps)

    def _visit(self, fd: int, prefix: str, stack: _Stack) -> None:
        with os.scandir(fd) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        if any(entry.name == ".gitignore" for entry in found):
            rules = _rules_in(fd, ".gitignore")
            stack = [*stack, (len(prefix), rules)] if rules else stack
        for entry in found:
            path = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and (entry.name in SKIPPED or str(self.root / path) in self.apart_from):
                continue
            if stack and ignored(stack, path, folder=is_folder):
                continue
            try:
                info = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
                if is_folder:
                    self._enter(fd, path, info, stack)
                else:
                    self._note(fd, entry.name, path, info)
            except OSError:  # gone or unreadable: no state that could be put back
                continue

    def _enter(self, fd: int, path: str, info: os.stat_result, stack: _Stack) -> None:
        *above, name = path.split("/")
        if len(above) > 100:
            return
        inside = os.open(name, _FOLDER, dir_fd=fd)
        try:
            self.nodes[path] = Node("folder", stat.S_IMODE(info.st_mode) & 0o777, "")
            self._count()
            self._visit(inside, f"{path}/", stack)
        finally:
            os.close(inside)

    def _note(self, fd: int, name: str, path: str, info: os.stat_result) -> None:
        stamp = stamp_of(info)
        node = unchanged(self.known, path, stamp, info, self.store)
        if node is None:
            node = node_at(fd, name, info, self.store, self.limits.file_bytes)
        if node is None:
            return
        self.nodes[path] = node
        if info.st_ctime_ns < self.began - _YOUNG or node.kind == "unkept":
            self.stamps[path] = stamp
        self._count()

    def _count(self) -> None:
        if len(self.nodes) > self.limits.files:
            raise TooManyFiles(
                f"{self.root} has more than {self.limits.files:,} files, so what shell commands "
                "change in it cannot be undone.",
                "Raise undo.files, let .gitignore name what does not matter, or work further down.",
            )


def unchanged(
    known: TreeState, path: str, stamp: Stamp, info: os.stat_result, store: ObjectStore
) -> Node | None:
    """What a path is known to hold, without reading it; None where its stamp is another."""
    before = known.nodes.get(path)
    if before is None or known.stamps.get(path) != stamp:
        return None
    if before.kind != "unkept" and before.digest not in store:
        return None
    return Node(before.kind, _mode(info, before.kind), before.digest)


def node_at(
    fd: int, name: str, info: os.stat_result, store: ObjectStore | None, file_bytes: int
) -> Node | None:
    """What a name in an open folder stands for, its content kept; None for pipes and devices."""
    if stat.S_ISLNK(info.st_mode):
        return Node("link", 0o777, _kept(os.fsencode(os.readlink(name, dir_fd=fd)), store))
    if stat.S_ISDIR(info.st_mode):
        return Node("folder", stat.S_IMODE(info.st_mode) & 0o777, "")
    if not stat.S_ISREG(info.st_mode):
        return None
    mode = stat.S_IMODE(info.st_mode) & 0o777
    if info.st_size > file_bytes or (store is not None and not store.has_room(info.st_size)):
        return Node("unkept", mode, f"{info.st_size}:{info.st_mtime_ns}")
    return Node("file", mode, _kept(_content(fd, name, info.st_size, file_bytes), store))


def stamp_of(info: os.stat_result) -> Stamp:
    """How to tell later whether a file is still the same."""
    return Stamp(info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)


def _mode(info: os.stat_result, kind: str) -> int:
    return 0o777 if kind == "link" else stat.S_IMODE(info.st_mode) & 0o777


def _kept(data: bytes, store: ObjectStore | None) -> str:
    return hashlib.sha256(data).hexdigest() if store is None else store.put(data)


def _content(fd: int, name: str, size: int, most: int) -> bytes:
    """A file's bytes; where it is as long as it was said to be, with a single read."""
    file = os.open(name, _FILE, dir_fd=fd)
    try:
        data = os.read(file, size + 1)
        if len(data) == size:
            return data
        pieces = [data]
        while piece := os.read(file, 1 << 20):
            pieces.append(piece)
            if sum(map(len, pieces)) > most:
                raise OSError(f"{name} grew while it was read")
        return b"".join(pieces)
    finally:
        os.close(file)


def _rules_in(fd: int, name: str) -> IgnoreRules | None:
    """The rules of a file below an open folder; None where there are none."""
    try:
        info = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_RULES:
            return None
        text = _content(fd, name, info.st_size, _MOST_RULES).decode("utf-8", "surrogateescape")
        rules = IgnoreRules(text)
    except OSError:
        return None
    return rules if rules else None


def ancestors(path: str) -> Iterator[str]:
    """The folders on the way to a path, outermost first."""
    for at, sign in enumerate(path):
        if sign == "/":
            yield path[:at]


# What a project ignores


class IgnoreRules:
    """The rules of one file, for paths relative to its folder; a later line wins."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]
        parts = [f"(?:{rule.pattern.pattern})" for rule in self._rules]
        self._any = re.compile("|".join(parts), re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Whether this file ignores the path; None when it says nothing about it."""
        if not self._any.fullmatch(path):
            return None
        for rule in reversed(self._rules):
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                return not rule.negated
        return None


_Stack = list[tuple[int, IgnoreRules]]


class _Rule(NamedTuple):
    """One line of a file."""

    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool


def ignored(stack: Iterable[tuple[int, IgnoreRules]], path: str, *, folder: bool) -> bool:
    """What the innermost file says that says anything; `stack` has the outermost first.

    The number beside the rules is the length of their folder's path with its slash.
    """
    found: bool | None = None
    for length, rules in stack:
        said = rules.verdict(path[length:], folder=folder)
        found = said if said is not None else found
    return bool(found)


def _rule(line: str) -> _Rule | None:
    line = re.sub(r"(?<!\\)[ \t]+\Z", "", line.rstrip("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    pattern = line[negated:]
    folders_only = pattern.endswith("/") and not pattern.endswith("\\/")
    pattern = pattern[:-1] if folders_only else pattern
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    source = _translated(pattern) if anchored else f"(?:.*/)?{_translated(pattern)}"
    try:
        return _Rule(re.compile(source, re.DOTALL), negated, folders_only)
    except re.error:
        return None


def _translated(pattern: str) -> str:
    """A pattern as a regular expression for a whole path."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
            continue
        if pattern[at:] == "**" and at and pattern[at - 1] == "/":
            out.append(".+")
            break
        if sign == "*":
            while at + 1 < len(pattern) and pattern[at + 1] == "*":
                at += 1
            out.append("[^/]*")
        elif sign == "?":
            out.append("[^/]")
        elif sign == "[" and (found := _CLASS.match(pattern, at)):
            body = re.sub(r"([\[&~|])", r"\\\1", found[2])
            body = f"\\{body}" if body.startswith("]") else body
            out.append(f"(?!/)[{'^' if found[1] else ''}{body}]")
            at = found.end()
            continue
        elif sign == "\\" and at + 1 < len(pattern):
            at += 1
            out.append(re.escape(pattern[at]))
        else:
            out.append(re.escape(sign))
        at += 1
    return "".join(out)
