"""A program that chats and dies at a numbered change of its home.

Run under the preloaded library as `python -m tests.red.killed FOLDER LIBRARY POINT…`. For each
point a process is forked that has the same chat in `FOLDER/POINT`: a turn with tools, a prune, a
checkpoint, a handoff. Point 0 lives, and tells how many points there are.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.cli.program import mindstone_here
from tests.red.apart import import_what, set_environment, void

CHAT = (
    "look at the file and write it down",
    "/prune 1",
    "/checkpoint save",
    "/handoff write",
    "and once more",
    "/quit",
)


def prepare(folder: Path) -> None:
    """The home before the chat: two turns, and a script for what follows."""
    set_environment(folder / "home")
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "config.toml").write_text(
        '[recall]\nbackground = false\n[approvals]\nmode = "auto-edit"\n'
    )
    (folder / "a.txt").write_text("some lines\n" * 400)
    read = {"name": "read", "arguments": {"path": "a.txt"}}
    write = {"name": "write", "arguments": {"path": "b.txt", "content": "written\n"}}
    replies = [
        {"text": "Looking.", "tool_calls": [read]},
        {"text": "", "tool_calls": [write]},
        {"text": "It is written down."},
        {"text": "Once more, then."},
    ]
    (folder / "script.jsonl").write_text("".join(json.dumps(each) + "\n" for each in replies))
    (folder / "before.jsonl").write_text('{"text":"Yes."}\n{"loop":true}\n')
    for text in ("hello", "are you there?"):
        model = f"scripted/{folder / 'before.jsonl'}"
        done = mindstone_here("run", text, "--model", model, cwd=folder)
        assert done.returncode == 0, done.stderr


def chat(folder: Path) -> int:
    """The chat, typed all at once; how it ended."""
    set_environment(folder / "home")
    typed = folder / "typed"
    typed.write_text("\n".join(CHAT) + "\n")
    os.dup2(os.open(typed, os.O_RDONLY), 0)
    model = f"scripted/{folder / 'script.jsonl'}"
    done = mindstone_here("chat", "--plain", "--model", model, cwd=folder)
    (folder / "said").write_text(done.stdout + done.stderr)
    return done.returncode


def main(base: Path, library: str, points: list[int]) -> None:
    """Fork once for every point; print how each ended."""
    armed = ctypes.CDLL(library)
    armed.red_arm.argtypes = [ctypes.c_char_p, ctypes.c_long]
    armed.red_count.restype = ctypes.c_long
    with tempfile.TemporaryDirectory(dir=base) as unharmed:
        shutil.copytree(base / "before", unharmed, dirs_exist_ok=True)
        import_what(lambda: void(chat(Path(unharmed))))
    for point in points:
        folder = base / str(point)
        shutil.copytree(base / "before", folder)
        child = os.fork()
        if child == 0:
            armed.red_arm(str(folder / "home").encode(), point)
            code = chat(folder)
            (folder / "points").write_text(str(armed.red_count()))
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(point, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [int(each) for each in sys.argv[3:]])
