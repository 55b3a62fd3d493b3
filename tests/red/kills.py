"""kill -9 at every change of the home, in a chat with tools, a prune, a checkpoint and a handoff.

A preloaded library counts the calls that change files there, of every thread and of SQLite too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mindstone_tui.core.entries.conversation import UserMessage
from tests.builders import places_in
from tests.cli.program import ROOT
from tests.core.session.stage import check_history, read
from tests.red import Case, Tried
from tests.red.apart import Ran, import_what, in_a_child, run_apart, void
from tests.red.killed import CHAT, prepare

BATCH = 40


def kills(tried: Tried) -> Iterator[Case]:
    """Count the calls, then die at each of them."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        yield Case("the sweep", skipped="it needs Linux and gcc")
        return
    library = tried.base / "red.so"
    source = Path(__file__).with_name("preload.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    in_a_child(lambda: prepare(tried.base / "before"), 120.0)
    few = [1, 400] if tried.small else []
    ended = _chat(tried.base, library, [0, *few])
    if ended.pop(0) != 0:
        yield Case("the chat itself", f"ended: {_said(tried.base / '0')}")
        return
    count = int((tried.base / "0" / "points").read_text())
    points = few or list(tried.some(list(range(1, count + 1))))
    if len(points) > BATCH:
        import_what(lambda: void(_problem(tried.base / "0", -signal.SIGKILL)))
    for at in range(0, len(points), BATCH):
        batch = points[at : at + BATCH]
        for point, code in (ended or _chat(tried.base, library, batch)).items():
            folder = tried.base / str(point)
            problem = _problem(folder, code)
            yield Case(f"killed at change {point} of {count}", problem)
            if not problem:
                shutil.rmtree(folder)


def _chat(base: Path, library: Path, points: list[int]) -> dict[int, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.red.killed", base, library, *map(str, points)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=1_800,
        check=True,
    )
    return {int(a): int(b) for a, b in (line.split() for line in done.stdout.splitlines())}


def _names_a_torn_end(ran: Ran) -> bool:
    """Whether this is `verify`, telling of half a line at the end and of nothing else."""
    told = [line for line in ran.out.splitlines() if line.startswith(" ")]
    return ran.arguments[0] == "verify" and len(told) == 1 and ": torn: the last " in told[0]


def _said(folder: Path) -> str:
    said = folder / "said"
    return said.read_text()[-300:] if said.exists() else ""


def _problem(folder: Path, code: int) -> str:
    if code != -signal.SIGKILL:
        return "" if code == 0 else f"it ended with {code} before that"
    after = folder / "after.jsonl"
    after.write_text('{"text":"I am here."}\n{"loop":true}\n')
    commands = [
        ("verify",),
        ("run", "go on", "--model", f"scripted/{after}"),
        ("replay", "--all", "--check"),
    ]
    for ran in run_apart(folder / "home", folder, commands):
        if ran.problem or (ran.code and not _names_a_torn_end(ran)):
            return (
                ran.problem or f"`{ran.name}` ended with {ran.code}: {(ran.err or ran.out)[:200]}"
            )
    places = places_in(folder / "home")
    try:
        check_history(places)
    except AssertionError as error:
        return f"history: {error}"
    asked = [line.entry.text for line in read(places) if isinstance(line.entry, UserMessage)]
    wanted = ["hello", "are you there?", *(text for text in CHAT if not text.startswith("/"))]
    if asked[-1] != "go on" or asked[:-1] != wanted[: len(asked) - 1]:
        return f"what was asked is now {asked}"
    return ""
