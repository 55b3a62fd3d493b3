"""A program whose call changes files, takes that back, does it again, and is killed on the way.

Run as `python -m tests.faults.file_keeper FOLDER POINTS`. Once it lives, in `FOLDER/0`, and
counts the lines of the undo code that run, and the things that the call does. For so many of them
as POINTS says, evenly spread, or for all with 0, a process is forked that does the same in
`FOLDER/LINE` and dies, as by `kill -9`, before that line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from mindstone_tui.core.agent.undo import FileKeeper
from mindstone_tui.core.config.settings import UndoSettings
from mindstone_tui.core.tools.approvals import Approval
from mindstone_tui.core.tools.base import Preview
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.workspace import Workspace
from mindstone_tui.core.undo.steps import Direction, wanted
from tests.builders import transcript_in

OURS = ("core/undo/", "core/agent/undo.py")
CALL = Approval(
    call="call-1",
    tool="shell",
    arguments=b"{}",
    digest="",
    shown="make a mess",
    title="",
    preview=Preview(title="make a mess", command="make"),
)


def keeper_in(folder: Path) -> FileKeeper:
    """The files of a session whose workspace is below a folder."""
    transcript = transcript_in(folder / "home")
    return FileKeeper(
        transcript.places,
        Workspace((folder / "work",)),
        UndoSettings(),
        history=transcript.history,
        record=lambda entry: transcript.append(entry, turn=1),
    )


def prepare(folder: Path) -> None:
    """The workspace before the call."""
    work = folder / "work"
    (work / "sub").mkdir(parents=True)
    for number in range(4):
        (work / f"f{number}").write_bytes(b"first %d\n" % number * 50)
    (work / "sub" / "inner").write_bytes(b"inner\0\xff")
    (work / "old").symlink_to("f0")


def mess(folder: Path) -> Iterator[None]:
    """What the call does, one thing at a time."""
    work = folder / "work"
    deeds: tuple[Callable[[], object], ...] = (
        lambda: (work / "f0").write_bytes(b"second\n"),
        lambda: (work / "f1").unlink(),
        lambda: (work / "f2").rename(work / "renamed"),
        lambda: (work / "f3").chmod(0o755),
        lambda: (work / "old").unlink(),
        lambda: (work / "old").symlink_to("elsewhere"),
        lambda: (work / "sub" / "inner").unlink(),
        lambda: (work / "sub").rmdir(),
        lambda: (work / "sub").write_bytes(b"a file now"),
        lambda: (work / "new").mkdir(),
        lambda: (work / "new" / "file").write_bytes(b"created"),
    )
    for deed in deeds:
        deed()
        yield


class Points:
    """Counts the lines at which it can die, and dies at one of them."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def pass_one(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in OURS):
            return None
        if event == "line":
            self.pass_one()
        return self.trace


async def work(folder: Path, points: Points) -> None:
    """A call, the undoing of it, and the doing of it again."""
    keeper = keeper_in(folder)
    watched = await keeper.before(SHELL, CALL)
    for _ in mess(folder):
        points.pass_one()
    await keeper.after(watched)
    put_back(keeper, "undo")
    put_back(keeper, "redo")


def put_back(keeper: FileKeeper, direction: Direction) -> None:
    """What the command does, when nobody else was at the files."""
    turns, sets = wanted(keeper.steps(), direction, 1)
    for each in sets:
        found = keeper.outlook(each)
        assert all(one.unsure for one in found.conflicts), found.conflicts
        asked = (one.wanted for one in found.conflicts)
        keeper.put_back(direction, turns, each.root, (*found.ready, *asked))


def run(folder: Path, last: int) -> int:
    """Everything, up to a line; how many there are."""
    prepare(folder)
    points = Points(last)
    threading.settrace(points.trace)
    sys.settrace(points.trace)
    asyncio.run(work(folder, points))
    sys.settrace(None)
    threading.settrace(None)
    return points.count


def main() -> None:
    base, wanted_points = Path(sys.argv[1]), int(sys.argv[2])
    (base / "0").mkdir()
    count = run(base / "0", 0)
    print(count, flush=True)
    for point in range(1, count + 1, count // wanted_points if wanted_points else 1):
        folder = base / str(point)
        folder.mkdir()
        child = os.fork()
        if not child:
            try:
                run(folder, point)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print(point, "killed" if os.WIFSIGNALED(status) else "lived", flush=True)


if __name__ == "__main__":
    main()
