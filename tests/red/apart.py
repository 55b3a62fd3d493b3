"""Commands in a child that is killed when it hangs: many, without starting Python anew."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from mindstone_tui.core.lockdown import import_litellm, import_onnxruntime
from mindstone_tui.core.recall import import_numpy_on_one_thread
from tests.cli.program import mindstone_here

PATIENCE = 120.0
"""Seconds after which a command counts as hanging, on a machine that does other things, too."""
CODES = range(126)


class Ran(msgspec.Struct, frozen=True):
    """A command and what came of it."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def name(self) -> str:
        """What was typed."""
        return " ".join(self.arguments[:2])

    @property
    def problem(self) -> str:
        """Why this is no way for a command to end."""
        told = self.out + self.err
        if "Traceback (most recent call last)" in told or "fault in MindStone" in told:
            return f"`{self.name}` fell over: {told.strip().splitlines()[-1][:160]}"
        if self.code < 0:
            return f"`{self.name}` hung"
        if self.code and not self.err.strip() and not self.out.strip():
            return f"`{self.name}` ended with {self.code} and said nothing"
        return ""


def run_apart(
    home: Path, cwd: Path, commands: Sequence[Sequence[str]], patience: float = PATIENCE
) -> list[Ran]:
    """Run commands one after another in one child; the one that hangs is the last."""
    told = in_a_child(lambda: run_all(home, cwd, commands), patience * len(commands))
    ran = [msgspec.convert(each, Ran) for each in map(json.loads, told.splitlines())]
    if len(ran) < len(commands):
        ran.append(Ran(tuple(commands[len(ran)]), -1, "", ""))
    return ran


def run_all(home: Path, cwd: Path, commands: Sequence[Sequence[str]]) -> None:
    """Run them here, in this process; print what came of each as a line of JSON."""
    set_environment(home)
    for arguments in commands:
        done = mindstone_here(*arguments, cwd=cwd)
        said = [list(arguments), done.returncode, done.stdout[-4_000:], done.stderr[-4_000:]]
        print(json.dumps(dict(zip(Ran.__struct_fields__, said, strict=True))), flush=True)


_GUARDED: Mapping[str, Callable[[], object]] = {
    "numpy": import_numpy_on_one_thread,
    "litellm": import_litellm,
    "onnxruntime": import_onnxruntime,
}
"""What is imported in one way only: without threads of its own, without reports to its maker."""


def import_what(needs: Callable[[], None], patience: float = 2 * PATIENCE) -> None:
    """Import here what a child imported that did this, so that no later child has to.

    Most of a short command's time goes into imports; everything else happens in each child anew.
    """

    def tell() -> None:
        needs()
        print("\n" + json.dumps(list(sys.modules)), flush=True)

    told = in_a_child(tell, patience).splitlines()
    names = json.loads(told[-1]) if told else []
    for guarded, properly in _GUARDED.items():
        if guarded in names:
            properly()
    for name in names:
        with contextlib.suppress(Exception):
            import_module(name)


def void(_: object) -> None:
    """Do nothing with it."""


def set_environment(home: Path, more: Mapping[str, str] | None = None) -> None:
    """This process sees this home and no key of the machine's."""
    for name in [each for each in os.environ if each.endswith(("_API_KEY", "_BASE_URL"))]:
        del os.environ[name]
    os.environ |= {
        "MINDSTONE_HOME": str(home),
        "HOME": str(home.parent),
        "MINDSTONE_RECALL__BACKGROUND": "false",
        **(more or {}),
    }


def in_a_child(do: Callable[[], None], patience: float) -> str:
    """What a fork of this process prints until it is done, dead or out of time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(reader)
            os.setsid()
            sys.stdout = os.fdopen(writer, "w")
            do()
            sys.stdout.flush()
            code = 0
        os._exit(code)
    os.close(writer)
    pieces = []
    over = time.monotonic() + patience
    waiting = select.poll()  # `select` knows no more than 1,024 files, and a long run has them
    waiting.register(reader, select.POLLIN)
    while waiting.poll(1_000 * max(0.0, over - time.monotonic())):
        if not (piece := os.read(reader, 65_536)):
            break
        pieces.append(piece)
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return b"".join(pieces).decode("utf-8", "replace")
