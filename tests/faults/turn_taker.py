"""A program that takes turns with tools and kills itself at a numbered point, as `kill -9` would.

Run as `python -m tests.faults.turn_taker FOLDER POINT…`. For every point a process is forked that
takes the same turns in `FOLDER/POINT` and dies there; a point is an operation on the disk, before
or after it happened, or an event that was heard. Point 0 lives, and leaves the number of points
and those at which a tool was running.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from mindstone_tui.core import events
from mindstone_tui.core.disk import Disk
from mindstone_tui.core.session.build import open_session
from mindstone_tui.core.tools.base import ToolResult
from tests.core.session.stage import calls, opening, script

TICKS = "ticks"
"""One byte for every time the tool really ran."""


class Points:
    """Counts the places at which a program can die, and dies at one of them."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self.inside_a_tool: list[int] = []
        self.armed = False
        self._last = last

    def pass_one(self) -> None:
        """Go on, unless this is the one."""
        if self.armed:
            self.count += 1
            if self.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


class DeadlyDisk(Disk):
    """Everything it does is a point before and a point after."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def write(self, fd: int, data: bytes) -> int:
        self._points.pass_one()
        half = super().write(fd, data[: len(data) // 2])
        self._points.pass_one()
        return half + super().write(fd, data[half:])

    def sync(self, fd: int) -> None:
        self._points.pass_one()
        super().sync(fd)
        self._points.pass_one()

    def replace(self, source: Path, target: Path) -> None:
        self._points.pass_one()
        super().replace(source, target)
        self._points.pass_one()


def story(folder: Path) -> str:
    """A turn without tools, then one with three calls in two rounds."""
    (folder / "a.txt").write_text("some lines\n" * 4_000)
    both = calls(("tick", {}), ("read", {"path": "a.txt"}), text="Ticking and reading.")
    return script(folder, {"text": "Hello."}, both, calls(("tick", {})), {"text": "All done."})


async def take_turns(folder: Path, points: Points) -> None:
    """Take both turns; the second one may be the last thing this process does."""
    model = story(folder)
    session = await open_session(opening(folder / "home", model=model, disk=DeadlyDisk(points)))

    async def tick(arguments: Any, context: Any) -> ToolResult:
        points.pass_one()
        with (folder / TICKS).open("ab") as file:
            file.write(b".")
        points.pass_one()
        points.inside_a_tool.append(points.count)
        return ToolResult(text="tick", finding="tick")

    services = session.services
    services.context.tools["tick"] = msgspec.structs.replace(
        services.tools.all["list"], name="tick", run=tick
    )
    left = 2
    session.send("hello")
    async for event in session.events():
        points.pass_one()
        if isinstance(event, events.TurnEnded):
            left -= 1
            if not left:
                break
            points.armed = True
            session.send("tick, please")
    await session.close()


def main(base: Path, chosen: list[int]) -> None:
    """Fork once for every point."""
    for point in chosen:
        folder = base / str(point)
        folder.mkdir()
        child = os.fork()
        if child == 0:
            points = Points(point)
            asyncio.run(take_turns(folder, points))
            (folder / "points").write_text(json.dumps([points.count, points.inside_a_tool]))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(point, "killed" if died else os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(each) for each in sys.argv[2:]])
