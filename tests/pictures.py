"""The pictures of the README and of the docs: `python -m tests.pictures [FOLDER]` draws them.

Scenes of the app, and commands as a terminal shows them, each as an SVG.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.core.library.test_blame import played
from tests.core.library.test_cost import foreign_session
from tests.core.session.stage import calls
from tests.tui.scenes import play

PICTURES = {
    "chat": ("streaming", "basalt", (140, 44)),
    "pruned": ("pruned", "basalt", (120, 36)),
    "inspector": ("inspector", "basalt", (120, 34)),
    "approval": ("approval", "chalk", (120, 36)),
    "welcome": ("empty", "basalt", (110, 30)),
}
"""Name → scene, theme and size."""


async def draw(name: str, folder: Path) -> None:
    """Write one picture."""
    scene, theme, size = PICTURES[name]
    with tempfile.TemporaryDirectory() as home:
        app, arrive = play(scene, theme, Path(home))
        async with app.run_test(size=size) as pilot:
            await arrive(pilot)
            picture = app.export_screenshot(title="MindStone")
    keep(picture, folder / f"{name}.svg")


def keep(picture: str, path: Path) -> None:
    """Write a picture down that asks no network for a font: whoever looks has a monospaced one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    offline = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    path.write_text(offline, encoding="utf-8")
    print(path)


def on_terminal(words: list[str], cwd: Path, home: Path, columns: int = 96) -> str:
    """A command as a terminal of so many columns shows it."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environ = {**os.environ, "MINDSTONE_HOME": str(home), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "mindstone_tui", *words]
    with subprocess.Popen(command, cwd=cwd, env=environ, stdout=its, stderr=its) as running:
        os.close(its)
        said = b""
        while piece := _read(ours):
            said += piece
    os.close(ours)
    assert running.returncode == 0, said.decode()
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ mindstone " + " ".join(words), "bold"))
    console.print(Text.from_ansi(said.decode().replace("\r\n", "\n")))
    return console.export_svg(title="mindstone")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # so Linux says that nobody writes any more
        return b""


async def draw_blame(folder: Path) -> None:
    """A file that a person and two turns wrote."""
    with tempfile.TemporaryDirectory() as name:
        base, work = Path(name), Path(name) / "work"
        work.mkdir()
        file = work / "parse.py"
        file.write_text("import os\n\n")
        first = "import os\n\ndef parse(text):\n    return text.split()\n"
        edit = {"old_string": "text.split()", "new_string": "text.casefold().split()"}
        await played(
            base,
            calls(("write", {"path": "parse.py", "content": first})),
            {"text": "done"},
            calls(("edit", {"path": "parse.py", **edit})),
            {"text": "done"},
            said="Add a parser for the words of a line.",
        )
        file.write_text(f"{file.read_text()}\nprint(os.sep)  # by hand\n")
        keep(on_terminal(["blame", "parse.py"], work, base / "home"), folder / "blame.svg")


def draw_cost(folder: Path) -> None:
    """A session of Claude Code with a long pause in it."""
    with tempfile.TemporaryDirectory() as name:
        home, file = Path(name) / "home", Path(name) / "claude.jsonl"
        foreign_session(file)
        on_terminal(["import", str(file), "--no-wait"], Path(name), home)
        words = ["cost", "claude-code-s1"]
        keep(on_terminal(words, Path(name), home, 118), folder / "cost.svg")


def main() -> None:
    own = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for name in PICTURES:
        asyncio.run(draw(name, own or Path("tests/tui/pictures")))
    asyncio.run(draw_blame(own or Path("docs/pictures")))
    draw_cost(own or Path("docs/pictures"))


if __name__ == "__main__":
    main()
