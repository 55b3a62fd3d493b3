"""Tries a sandbox for real and reports what holds, for `doctor` and before full-auto is offered."""

import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mindstone_tui.core import disk, errors, values
from mindstone_tui.core.text import one_line
from mindstone_tui.core.tools.sandbox import Sandbox, candidates
from mindstone_tui.core.tools.shell import Bounds, clean_environment, run
from mindstone_tui.core.tools.workspace import Workspace

_TRIALS: Final = """
import json, os, resource, socket, sys
told = json.loads(sys.argv[1])
def tried(attempt):
    try:
        attempt()
    except OSError:
        return False
    return True
def made(path):
    return lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
def connected(family, address):
    def attempt():
        with socket.socket(family) as caller:
            caller.settimeout(2)
            caller.connect(address)
    return attempt
print(json.dumps({
    "work": tried(made(told["inside"])),
    "outside": tried(made(told["outside"])),
    "repository": tried(made(told["repository"])),
    "kernel": tried(lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))),
    "rights": tried(lambda: os.chmod(told["inside"], 0o4700)),
    "marks": [tried(lambda: os.chmod(told["marked"], 0o666)),
              tried(lambda: os.utime(told["marked"], (1, 1)))] != [False, False],
    "limits": tried(lambda: resource.prlimit(told["process"], resource.RLIMIT_CORE)),
    "settings": tried(lambda: os.mkdir(told["settings"])),
    "secret": tried(lambda: open(told["secret"]).close()),
    "machine": any(tried(lambda: open(place).close()) for place in told["machine"]),
    "environment": tried(lambda: open(told["outside_process"] + "/environ").read()),
    "listed": tried(lambda: open(told["outside_process"] + "/cmdline").read()),
    "network": tried(connected(socket.AF_INET, tuple(told["tcp"]))),
    "sockets": tried(connected(socket.AF_UNIX, told["unix"])),
    "signals": tried(lambda: os.kill(told["process"], 0)),
}))
"""
_WRITTEN: Final = ("inside", "outside", "repository", "settings")
_INTERPRETER: Final = str(Path(sys.executable).resolve())
"""The real one: a virtual environment may lie in a folder that is hidden inside."""
_OF_THE_MACHINE: Final = ("machine-id", "shadow", "environment", "fstab", "sudoers", "pip.conf")


class _Known(msgspec.Struct, frozen=True):
    promises: dict[str, str]
    """What is to hold, by the trial that must fail."""
    gaps: dict[str, tuple[str, ...]]
    """What a confinement cannot do by its nature, said before anyone relies on it."""


_KNOWN: Final = values.shipped(__file__, "sandbox_promises.json", _Known)


class SandboxProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What confines commands on this machine, as tried a moment ago."""

    name: str
    """`bubblewrap`, `landlock` or `none`."""
    working: bool
    holds: tuple[str, ...] = ()
    does_not_hold: tuple[str, ...] = ()
    why: str = ""
    """What went wrong when it does not work."""


async def find(
    environ: Mapping[str, str], hidden: tuple[Path, ...] = (), work: tuple[Path, ...] = ()
) -> tuple[Sandbox | None, SandboxProbe]:
    """The strongest confinement that works here, and what trying it showed."""
    told = SandboxProbe(
        name="none", working=False, why="Neither bubblewrap nor Landlock is available here."
    )
    for sandbox in candidates(environ, hidden, work):
        told = await probe(environ, sandbox)
        if told.working:
            return sandbox, told
    return None, told


async def probe(environ: Mapping[str, str], sandbox: Sandbox) -> SandboxProbe:
    """Run a program that tries to get out, and report which doors were shut."""
    with _scene() as base:
        try:
            answers = await _tried(sandbox, base, environ)
        except (errors.MindstoneError, OSError, ValueError) as error:
            return SandboxProbe(name=sandbox.name, working=False, why=one_line(str(error), 300))
    if not answers.pop("work"):
        return SandboxProbe(
            name=sandbox.name, working=False, why="Not even the workspace is writable."
        )
    return SandboxProbe(
        name=sandbox.name,
        working=not any(answers[door] for door in ("outside", "kernel", "repository", "marks")),
        holds=tuple(text for key, text in _KNOWN.promises.items() if not answers[key]),
        does_not_hold=(
            *(f"not so: {text}" for key, text in _KNOWN.promises.items() if answers[key]),
            *_KNOWN.gaps.get(sandbox.name, ()),
        ),
    )


@contextlib.contextmanager
def _scene() -> Iterator[Path]:
    """A place with a workspace, a repository in it, and something to steal."""
    with tempfile.TemporaryDirectory(prefix="mindstone-probe-") as place:
        base = Path(place).resolve()
        for name in ("secret", "work/.git", "work/open"):
            disk.ensure_folder(base / name)
        for name in ("secret/key", "marked"):
            (base / name).touch(0o600)
        yield base


async def _tried(sandbox: Sandbox, base: Path, environ: Mapping[str, str]) -> dict[str, bool]:
    """Run the trials inside; what was written counts only when it is really there afterwards."""
    root = base / "work"
    workspace = Workspace((root,), protected=(base / "secret",))
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        unix.bind(str(root / "open" / "socket"))  # what is out of sight is no trial
        unix.listen()
        told = {
            "inside": str(root / "open" / "file"),
            "outside": str(base / "file"),
            "marked": str(base / "marked"),
            "repository": str(root / ".git" / "config"),
            "settings": str(root / ".mindstone"),
            "secret": str(base / "secret" / "key"),
            "tcp": tcp.getsockname(),
            "unix": str(root / "open" / "socket"),
            "process": os.getpid(),
            "outside_process": f"/proc/{os.getpid()}",
            "machine": [f"/etc/{name}" for name in _OF_THE_MACHINE],
        }
        command = (_INTERPRETER, "-I", "-S", "-c", _TRIALS, json.dumps(told))
        finished = await run(
            sandbox.confine(command, workspace, cwd=root, network=False),
            cwd=root,
            environ=clean_environment(environ),
            bounds=Bounds(seconds=20, kept=64 * 1024, tail=1024, output=1024 * 1024),
        )
    if finished.code != 0:
        raise ValueError(
            finished.kept.decode("utf-8", "replace").strip()[-300:] or "it did not run"
        )
    said = msgspec.json.decode(finished.kept.strip().rsplit(b"\n", 1)[-1], type=dict[str, bool])
    marked = (base / "marked").stat()
    changed = marked.st_mode & 0o777 != 0o600 or marked.st_mtime == 1
    return {**said, **_really_there(told), "marks": changed}


def _really_there(told: Mapping[str, object]) -> dict[str, bool]:
    there = {name: os.path.lexists(str(told[name])) for name in _WRITTEN}
    return {**there, "work": there["inside"]}
