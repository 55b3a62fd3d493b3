"""A disk that remembers what was asked of it, and every state a power cut could leave.

Between two syncs nothing is promised: a write may be there, be missing, be cut short or be a hole
of NULs, whatever came after it; a new name may be missing although its file was synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mindstone_tui.core.disk import Disk

SECTOR = 512


class Op(msgspec.Struct, frozen=True):
    """One thing that was done to the disk."""

    kind: str
    """make, create, write, truncate, sync, rename or sync_folder."""
    path: str
    data: bytes = b""
    offset: int = 0
    target: str = ""


class RecordingDisk(Disk):
    """Does what it is told, and writes it down with paths relative to a root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[int, str] = {}
        self.ops: list[Op] = []

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else "/"

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_CREAT and not path.exists():
            self.ops.append(Op("create", self._name(path)))
        fd = super().open(path, flags)
        self._open[fd] = self._name(path)
        return fd

    def write(self, fd: int, data: bytes) -> int:
        self.ops.append(Op("write", self._open[fd], data, os.fstat(fd).st_size))
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.ops.append(Op("sync", self._open[fd]))

    def truncate(self, fd: int, size: int) -> None:
        self.ops.append(Op("truncate", self._open[fd], offset=size))
        super().truncate(fd, size)

    def replace(self, source: Path, target: Path) -> None:
        self.ops.append(Op("rename", self._name(source), target=self._name(target)))
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.ops.append(Op("sync_folder", self._name(folder)))

    def make_folder(self, folder: Path) -> None:
        super().make_folder(folder)
        self.ops.append(Op("make", self._name(folder)))


class State(msgspec.Struct, frozen=True):
    """What a disk could hold after a power cut."""

    files: dict[str, bytes]
    how: str

    def lay_out(self, root: Path) -> None:
        """Make these files, and no others, below a root."""
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def states_after(
    ops: list[Op], count: int, cuts: int, initial: Mapping[str, bytes] | None = None
) -> Iterator[State]:
    """Every state that a power cut after the first `count` operations could leave.

    `cuts` bounds at how many places an unfinished write is cut short; `initial` files were on
    disk before the first operation.
    """
    durable, pending_data, pending_names = _settled(ops[:count], initial or {})
    choices = list(_name_choices(pending_names))
    for names in choices:
        for contents, how in _content_choices(durable, pending_data, cuts):
            yield State(_named(contents, durable, names), f"{how}, {len(names)} names")


class _Durable(msgspec.Struct):
    """File contents by identity, and which names are certain to lead to them."""

    contents: dict[int, bytes] = msgspec.field(default_factory=dict)
    names: dict[str, int] = msgspec.field(default_factory=dict)


def _settled(
    ops: list[Op], initial: Mapping[str, bytes]
) -> tuple[_Durable, dict[int, list[Op]], list[Op]]:
    """What is certainly on disk, and the writes and names that may be."""
    live = {name: -1 - number for number, name in enumerate(initial)}
    durable = _Durable({live[name]: content for name, content in initial.items()}, dict(live))
    data: dict[int, list[Op]] = {file: [] for file in live.values()}
    names: list[tuple[Op, int]] = []
    for number, op in enumerate(ops):
        match op.kind:
            case "create":
                live[op.path] = number
                durable.contents[number] = b""
                data[number] = []
                names.append((op, number))
            case "write" | "truncate":
                data[live[op.path]].append(op)
            case "sync":
                file = live[op.path]
                for done in data[file]:
                    durable.contents[file] = applied(durable.contents[file], done)
                data[file] = []
            case "rename":
                live[op.target] = live.pop(op.path)
                names.append((op, live[op.target]))
            case "sync_folder":
                for done, file in [item for item in names if _folder(item[0]) == op.path]:
                    _give_name(durable.names, done, file)
                names = [item for item in names if _folder(item[0]) != op.path]
            case "make":
                pass
    pending = {file: done for file, done in data.items() if done}
    return durable, pending, [msgspec.structs.replace(op, offset=file) for op, file in names]


def _folder(op: Op) -> str:
    return str(Path(op.target or op.path).parent)


def _give_name(names: dict[str, int], op: Op, file: int) -> None:
    if op.kind == "rename":
        names.pop(op.path, None)
        names[op.target] = file
    else:
        names[op.path] = file


def _name_choices(pending: list[Op]) -> Iterator[list[Op]]:
    """Journals keep the order of names, so any first few of them may be there."""
    for count in range(len(pending), -1, -1):
        yield pending[:count]


def _named(contents: dict[int, bytes], durable: _Durable, ops: list[Op]) -> dict[str, bytes]:
    names = dict(durable.names)
    for op in ops:
        _give_name(names, op, op.offset)
    return {name: contents[file] for name, file in names.items()}


def _content_choices(
    durable: _Durable, pending: dict[int, list[Op]], cuts: int
) -> Iterator[tuple[dict[int, bytes], str]]:
    yield durable.contents, "unsynced writes dropped"
    for file, ops in pending.items():
        base = durable.contents[file]
        whole = base
        for op in ops:
            whole = applied(whole, op)
        yield {**durable.contents, file: whole}, "unsynced writes applied"
        for content, how in _torn(base, ops, cuts):
            yield {**durable.contents, file: content}, how


def _torn(base: bytes, ops: list[Op], cuts: int) -> Iterator[tuple[bytes, str]]:
    """The last write cut short, filled with NULs, full of holes; the ones before it missing."""
    before = base
    for op in ops[:-1]:
        before = applied(before, op)
        yield before, "the first unsynced operations only"
    last = ops[-1]
    if len(ops) > 1:
        yield applied(base, last), "the last unsynced operation only"
    if last.kind != "write":
        return
    size = len(last.data)
    step = max(1, size // cuts)
    for at in range(0, size, step):
        short = last.data[:at]
        yield applied(before, _with(last, short)), f"cut at byte {at}"
        yield applied(before, _with(last, short + bytes(size - at))), f"NULs from byte {at}"
    for hole in range(last.offset // SECTOR * SECTOR, last.offset + size, SECTOR):
        first, end = max(0, hole - last.offset), hole + SECTOR - last.offset
        data = last.data[:first] + bytes(len(last.data[first:end])) + last.data[end:]
        yield applied(before, _with(last, data)), f"sector at {hole} missing"


def _with(op: Op, data: bytes) -> Op:
    return msgspec.structs.replace(op, data=data)


def applied(content: bytes, op: Op) -> bytes:
    """The content after one operation; a gap before a write is a hole of NULs."""
    if op.kind == "truncate":
        return content[: op.offset].ljust(op.offset, b"\x00")
    return (
        content.ljust(op.offset, b"\x00")[: op.offset]
        + op.data
        + content[op.offset + len(op.data) :]
    )
