"""A machine that rewrites its own files while confined commands read: what is not shown stays so.

A mask over one file falls off as soon as the machine puts another in its place, which is how every
careful program writes. So the machine's settings are a folder of ours here, seen as `/etc` in a
namespace, and are replaced without a pause while commands look for what is secret among them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from mindstone_tui.core.tools.base import ToolContext, ToolLimits
from mindstone_tui.core.tools.sandbox import Sandbox, candidates
from mindstone_tui.core.tools.shell import SHELL
from mindstone_tui.core.tools.workspace import Workspace
from tests.cli.program import ROOT
from tests.red import Case, Tried

HIDDEN = ("machine-id", "shadow", "environment", "fstab", "made-later", "ssl/private/key")
KNOWN = ("passwd", "hosts", "ssl/certs/one.pem")
SECRET = "ONLY-THE-MACHINE-KNOWS"
LOOK = (
    "for n in 1 2 3 4 5 6; do cat "
    + " ".join(f"/etc/{name}" for name in HIDDEN)
    + " /proc/$OUTSIDE/environ; sleep 0.01; done 2>/dev/null; cat /etc/passwd | head -1"
)


def machine(tried: Tried) -> Iterator[Case]:
    """Both confinements, each while the files of the machine change."""
    bwrap = shutil.which("bwrap")
    for name in ("bubblewrap", "landlock"):
        told = f"{name}, while the machine replaces its files"
        if bwrap is None:
            yield Case(told, skipped="bubblewrap is not installed")
            continue
        base = tried.folder(name)
        for each in (*HIDDEN, *KNOWN):
            path = base / "etc" / each
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{SECRET}\n" if each in HIDDEN else Path("/etc/passwd").read_text())
        (base / "work").mkdir()
        counts = (str(tried.sized(4, 100)), str(tried.sized(40, 1_000)))
        done = subprocess.run(
            [
                *(bwrap, "--dev-bind", "/", "/", "--bind", str(base / "etc"), "/etc", "--"),
                *(sys.executable, "-m", "tests.red.machine", name, str(base / "work"), *counts),
            ],
            cwd=ROOT,
            env={**os.environ, "MACHINE_KEY": SECRET},
            capture_output=True,
            text=True,
        )
        if done.returncode == 3:
            yield Case(told, skipped=f"no {name} here")
        else:
            yield Case(told, (done.stdout + done.stderr).strip()[-300:])


def main(name: str, work: Path, commands: int, changes: int) -> int:
    """Inside the namespace: print what a confined command could read that it should not."""
    found = [each for each in candidates(os.environ) if each.name == name]
    if not found:
        return 3
    ended = threading.Event()
    replacing = threading.Thread(target=_replace, args=(changes, ended))
    replacing.start()
    try:
        problems = [asyncio.run(_looked(found[0], work)) for _ in range(commands)]
    finally:
        ended.set()
        replacing.join()
    told = sorted({each for each in problems if each})
    print("\n".join(told))
    return 1 if told else 0


async def _looked(sandbox: Sandbox, work: Path) -> str:
    context = ToolContext(
        workspace=Workspace((work,)),
        environ={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")},
        limits=ToolLimits(seconds=60),
        sandbox=sandbox,
    )
    command = LOOK.replace("$OUTSIDE", str(os.getpid()))
    result = await SHELL.run({"command": command}, context)
    if SECRET in result.text:
        return "a confined command read what only the machine should know"
    # Landlock knows files, not names: one that was put in place meanwhile is none it allows.
    works = "root:" in result.text or sandbox.name == "landlock"
    return "" if works else f"ordinary work failed: {result.text[:200]}"


def _replace(changes: int, ended: threading.Event) -> None:
    """Write each file anew beside its place and move it there, at least so many times."""
    done = 0
    while done < changes or not ended.is_set():
        for name in (*HIDDEN, *KNOWN):
            path = Path("/etc", name)
            fresh = path.with_name(f".{path.name}.new")
            fresh.write_bytes(path.read_bytes())
            fresh.replace(path)
        done += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
